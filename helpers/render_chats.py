#!/usr/bin/env python3
"""Renders conversations by a chat template, as Transformers does, for `tessera data prepare` and `tessera generate`.

The first line of standard input is an object: `templates` ({"default": Jinja, perhaps "tool_use": Jinja}), `tokens`
(what templates may write by name: {"bos_token": "<s>"}), `turns` (all or last) and `counts` (assistant or all). The
answer is {} or {"error": clause}, with the `line` of a template that does not compile. Each line after it is a conversation as JSON, with `messages`, `conversations`, or
`prompt` and `completion`, and perhaps `tools`. Each is answered by a line: {"text": ..., "counts": [[begin, end,
is_exact], ...]} with places in bytes of UTF-8, or {"error": clause}. A range that is not exact ends with the last
special token in it, if it has one, which only the tokenizer knows. With `prompt_only` in the first line, the text ends
with the generation prompt, and nothing counts.
"""

import contextlib
import datetime
import json
import sys

try:
    import jinja2
    import jinja2.ext
    import jinja2.sandbox
except ImportError as missing:
    print(json.dumps({"error": f"{sys.executable} cannot import Jinja2 ({missing})"}))
    sys.exit(0)


class Problem(Exception):
    """What is wrong with a conversation, as a clause."""


class GenerationMarks(jinja2.ext.Extension):
    """{% generation %} ... {% endgeneration %}: what the model is to write. Keeps the places of such blocks."""

    tags = {"generation"}

    def __init__(self, environment):
        super().__init__(environment)
        environment.marks = self
        self.is_used = False
        self.written = 0  # characters that the template has written so far
        self.ranges = []

    def parse(self, parser):
        self.is_used = True
        line = next(parser.stream).lineno
        body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
        return jinja2.nodes.CallBlock(self.call_method("_keep"), [], [], body).set_lineno(line)

    def _keep(self, caller):
        text = caller()
        self.ranges.append((self.written, self.written + len(text)))
        return text


class Namespace(jinja2.utils.Namespace):
    """A namespace whose attributes cannot begin with an underscore, so that none reaches Python's own."""

    def __init__(*args, **kwargs):
        self, args = args[0], args[1:]
        for name in dict(*args, **kwargs):
            Namespace._check(name)
        jinja2.utils.Namespace.__init__(self, dict(*args, **kwargs))

    def __setitem__(self, name, value):
        Namespace._check(name)
        jinja2.utils.Namespace.__setitem__(self, name, value)

    @staticmethod
    def _check(name):
        if isinstance(name, str) and name.startswith("_"):
            raise jinja2.exceptions.SecurityError(f"a namespace cannot have the attribute {name!r}")


class PlainDict:
    """dict(...) and dict.fromkeys(...), and nothing else of Python's type."""

    def __call__(self, *args, **kwargs):
        return dict(*args, **kwargs)

    def fromkeys(self, *args):
        return dict.fromkeys(*args)


def raise_exception(message):
    raise Problem(f"the template refuses it: {message}")


def to_json(value, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


class Template:
    """A compiled template."""

    def __init__(self, source, tokens):
        environment = jinja2.sandbox.ImmutableSandboxedEnvironment(
            trim_blocks=True, lstrip_blocks=True, extensions=[GenerationMarks, jinja2.ext.loopcontrols]
        )
        environment.filters["tojson"] = to_json
        environment.globals.update(
            raise_exception=raise_exception,
            strftime_now=lambda form: datetime.datetime.now().strftime(form),
            dict=PlainDict(),
            namespace=Namespace,
        )
        self.template = environment.from_string(source)
        self.marks = environment.marks
        self.tokens = tokens

    def render(self, messages, tools, prompts=False):
        """Returns the text of messages, with the generation prompt if `prompts`."""
        self.marks.written, self.marks.ranges = 0, []
        blocks = []
        for block in self.template.generate(
            {**self.tokens, "messages": messages, "tools": tools, "documents": None, "add_generation_prompt": prompts}
        ):
            blocks.append(block)
            self.marks.written += len(block)
        return "".join(blocks)


ROLES = {"human": "user", "gpt": "assistant"}  # of `from`; others are roles themselves
THOUGHTS = ("reasoning_content", "thinking", "reasoning")  # names of a message's reasoning


def read_message(message, place):
    """Returns a message as templates read it: without nulls, its reasoning under the names that they know."""
    if not isinstance(message, dict):
        raise Problem(f"{place} is not an object")
    if "from" in message and "role" not in message:
        message = {"role": ROLES.get(message["from"], message["from"]), "content": message.get("value")}
    message = {key: value for key, value in message.items() if value is not None}
    if not isinstance(message.get("role"), str):
        raise Problem(f"{place} has no role")
    thought = next((message[key] for key in THOUGHTS if key in message), None)
    if thought is not None:
        message = {"thinking": thought, **message, "reasoning_content": thought}
    return message


def read_messages(conversation):
    """Returns the messages of a conversation, and the number of those that can only be read."""
    whole = next((key for key in ("messages", "conversations") if key in conversation), None)
    messages = []
    for key in [whole] if whole else ["prompt", "completion"]:
        before = len(messages)
        for number, message in enumerate(conversation[key], 1):
            messages.append(read_message(message, f'message {number} of "{key}"'))
    if not messages:
        raise Problem("the conversation has no message")
    return messages, before


def read_tools(conversation):
    tools = conversation.get("tools")
    if isinstance(tools, str):  # tables keep them as text
        try:
            tools = json.loads(tools) if tools else None
        except ValueError:
            raise Problem('"tools" is a text that is not JSON') from None
    if tools is not None and not (isinstance(tools, list) and all(isinstance(tool, dict) for tool in tools)):
        raise Problem('"tools" is not an array of objects')
    return tools


class Renderer:
    """Renders conversations, and says what of them counts."""

    def __init__(self, settings):
        sources = settings["templates"]
        self.templates = {name: Template(source, settings["tokens"]) for name, source in sources.items()}
        self.turns, self.counts = settings.get("turns", "all"), settings.get("counts", "assistant")
        self.prompt_only = settings.get("prompt_only", False)

    def answer(self, conversation):
        messages, read_only = read_messages(conversation)
        tools = read_tools(conversation)
        template = self.templates["default"]
        if tools is not None:
            template = self.templates.get("tool_use", template)
        text = template.render(messages, tools, self.prompt_only)
        marks = template.marks.ranges
        if not text:
            raise Problem("the template makes an empty text of it")
        if self.prompt_only:
            return {"text": text, "counts": []}
        if self.counts == "all":
            ranges = [(0, len(text), True)]
        else:
            ranges = self.ranges(template, text, marks, messages, tools, read_only)
        return {"text": text, "counts": in_bytes(text, ranges)}

    def ranges(self, template, text, marks, messages, tools, read_only):
        """Returns the ranges of characters in `text` that count."""
        turns = [i for i in range(read_only, len(messages)) if messages[i]["role"] == "assistant"]
        is_cut = read_only > 0 or self.turns == "last"
        if self.turns == "last":
            turns = turns[-1:]
        if not turns:
            return []
        if template.marks.is_used:
            begin = self.begin_of_marks(template, text, messages[: turns[0]], tools) if is_cut else 0
            return [(*mark, True) for mark in marks if mark[0] >= begin]
        ranges = []
        for turn in turns:
            begin = len(self.require_beginning(text, template.render(messages[:turn], tools, True), turn, " and asked"))
            is_whole = turn + 1 == len(messages)
            end = text if is_whole else template.render(messages[: turn + 1], tools)
            ranges.append((begin, len(self.require_beginning(text, end, turn + 1)), False))
            if ranges[-1][1] < begin:
                raise Problem(f"the template writes less with message {turn + 1} than before it")
        return ranges

    def begin_of_marks(self, template, text, before, tools):
        rendered = template.render(before, tools) if before else ""
        if not text.startswith(rendered):  # an end that is only written where no answer is asked for
            rendered = template.render(before, tools, True)
        return len(self.require_beginning(text, rendered, len(before)))

    def require_beginning(self, text, rendered, count, and_asked=""):
        """Returns what the first messages alone are rendered to, which the whole has to begin with."""
        if text.startswith(rendered):
            return rendered
        clause = f"the template writes its first {count} message(s) otherwise where others follow"
        if and_asked:
            clause = f"the template does not go on after its first {count} message(s) with the prompt that it asks by"
        if self.turns == "all":
            clause += ", so that it is not known which tokens count. With data.chat_turns = last only the last turn counts"
        raise Problem(clause)


def in_bytes(text, ranges):
    if text.isascii():
        return ranges
    size = lambda end: len(text[:end].encode())
    return [(size(begin), size(end), is_exact) for begin, end, is_exact in ranges]


def main():
    lines = sys.stdin.buffer
    out = sys.stdout.buffer

    def say(answer):
        out.write(json.dumps(answer, ensure_ascii=False).encode() + b"\n")
        out.flush()

    try:
        renderer = Renderer(json.loads(lines.readline()))
    except jinja2.TemplateSyntaxError as error:
        return say({"line": error.lineno, "error": error.message})
    say({})
    for line in lines:
        try:
            say(renderer.answer(json.loads(line)))
        except Problem as problem:
            say({"error": str(problem)})
        except Exception as error:  # a template may do anything
            say({"error": f"the template fails on it: {type(error).__name__}: {error}"})


if __name__ == "__main__":
    with contextlib.suppress(BrokenPipeError, KeyboardInterrupt):
        main()
