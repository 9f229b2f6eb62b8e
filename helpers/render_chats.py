#!/usr/bin/env python3
"""Renders conversations by a chat template, as Transformers does, for `tessera data prepare` and `tessera generate`.

The first line of standard input is an object: `templates` ({"default": Jinja, perhaps "tool_use": Jinja}), `tokens`
(what templates may write by name: {"bos_token": "<s>"}), `turns` (all or last), `counts` (assistant or all) and
`prompt_only` (the text ends with the generation prompt, and nothing counts). The answer is {} or {"error": clause},
with the `line` of a template that does not compile.

What follows are groups: a line with a number, and as many lines. Each of these is a conversation as JSON, with
`messages`, `conversations`, or `prompt` and `completion`, and perhaps `system`, `tools` and `chat_template_kwargs`. Each
is answered by a line of whole numbers, the text's size in bytes and begin, end and is_exact (0 or 1) of each range that
counts, in bytes, and behind it the text in UTF-8; or by {"error": clause}. A range that is not exact ends with the last
special token in it, if it has one, which only the tokenizer knows.
"""

import contextlib
import ctypes
import json
import os
import resource
import signal
import sys

try:
    import jinja2  # noqa: F401
except ImportError as missing:
    print(json.dumps({"error": f"{sys.executable} cannot import Jinja2 ({missing})"}))
    sys.exit(0)

sys.dont_write_bytecode = True  # into the installation
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from chat_template import Problem, Template  # noqa: E402
from one_by_one import beginnings  # noqa: E402

LONGEST = 60  # seconds for a conversation
MOST_MEMORY = 4 << 30  # bytes


class TooLong(BaseException):
    """A template does not end. (Jinja and templates catch no more than Exception.)"""


ROLES = {"human": "user", "gpt": "assistant"}  # of `from`; others are roles themselves
THOUGHTS = ("reasoning_content", "thinking", "reasoning")  # names of a message's reasoning


def read_message(message, place):
    """Returns a message as templates read it: without nulls, its reasoning under the names that they know."""
    if not isinstance(message, dict):
        raise Problem(f"{place} is not an object")
    if None in message.values():
        message = {key: value for key, value in message.items() if value is not None}
    role = message.get("role", message.get("from"))
    if not isinstance(role, str):
        raise Problem(f"{place} has " + ("no role" if role is None else "a role that is not a text"))
    if "role" not in message:
        rest = {key: value for key, value in message.items() if key not in ("from", "value")}
        message = {"role": ROLES.get(role, role), **({"content": message["value"]} if "value" in message else {}), **rest}
    if message.keys().isdisjoint(THOUGHTS):
        return message
    thought = next(message[key] for key in THOUGHTS if key in message)
    return {"thinking": thought, **message, "reasoning_content": thought}


def read_messages(conversation):
    """Returns the messages of a conversation, and how many of them, at the start, never count."""
    whole = next((key for key in ("messages", "conversations") if conversation.get(key)), None)
    messages, read_only = [], 0
    for key in [whole] if whole else ["prompt", "completion"]:
        read_only = len(messages)
        for number, message in enumerate(conversation.get(key) or [], 1):
            messages.append(read_message(message, f'message {number} of "{key}"'))
    if not messages:
        raise Problem("the conversation has no message")
    if system := conversation.get("system"):
        if not isinstance(system, str):
            raise Problem('"system" is not a text')
        if any(message["role"] == "system" for message in messages):
            raise Problem('"system" stands next to a message of the role system')
        messages.insert(0, {"role": "system", "content": system})
        read_only += 1 if read_only else 0
    return messages, read_only


def read_context(conversation):
    """Returns what a template gets apart from the messages: tools, and what is meant for it alone."""

    def field(key):
        value = conversation.get(key)
        if not isinstance(value, str):
            return value
        try:  # tables keep it as text
            return json.loads(value) if value else None
        except ValueError:
            raise Problem(f'"{key}" is a text that is not JSON') from None

    tools, given = field("tools"), field("chat_template_kwargs")
    if tools is not None and not (isinstance(tools, list) and all(isinstance(tool, dict) for tool in tools)):
        raise Problem('"tools" is not an array of objects')
    if given is not None and not isinstance(given, dict):
        raise Problem('"chat_template_kwargs" is not an object')
    return {**(given or {}), "tools": tools}


def weight_of(message, place):
    """Returns whether an answer counts, by the key that OpenAI's files have."""
    weight = message.get("weight", 1)
    if weight not in (0, 1):
        raise Problem(f'the "weight" of message {place + 1} is neither 0 nor 1')
    return weight


class Renderer:
    """Renders conversations, and says what of them counts."""

    def __init__(self, settings):
        sources = settings["templates"]
        self.templates = {name: Template(source, settings["tokens"]) for name, source in sources.items()}
        self.turns, self.counts = settings.get("turns", "all"), settings.get("counts", "assistant")
        self.few_turns = 5  # which are rendered in any case
        self.prompt_only = settings.get("prompt_only", False)

    def answer(self, conversation):
        messages, read_only = read_messages(conversation)
        context = read_context(conversation)
        template = self.templates["default"]
        if context["tools"] is not None:
            template = self.templates.get("tool_use", template)
        text = template.render(messages, context, self.prompt_only)
        marks = [(begin, begin + len(marked)) for begin, marked in template.marks.found]
        if not text:
            raise Problem("the template makes an empty text of this conversation")
        contents = [message.get("content") for message in messages]
        if any(isinstance(content, (list, dict)) and content and str(content) in text for content in contents):
            raise Problem("the template takes only content that is a text, and writes other content as Python shows it")
        if self.prompt_only:
            return {"text": text, "counts": []}
        if self.counts == "all":
            ranges = [(0, len(text), True)]
        else:
            ranges = self.ranges(template, text, marks, messages, context, read_only)
        return {"text": text, "counts": in_bytes(text, ranges)}

    def ranges(self, template, text, marks, messages, context, read_only):
        """Returns the ranges of characters in `text` that count."""
        answers = [i for i, message in enumerate(messages) if message["role"] == "assistant"]
        unweighed = {i for i in answers if weight_of(messages[i], i) == 0}
        turns = [i for i in answers if i >= read_only]
        if template.marks.is_used:
            if unweighed:
                if len(marks) != len(answers):
                    raise Problem(f'the template marks {len(marks)} texts of {len(answers)} answers, one of which has "weight": 0')
                marks = [mark for mark, answer in zip(marks, answers) if answer not in unweighed]
            before = read_only
            if self.turns == "last":  # whatever the template calls the role that answers
                before = turns[-1] if turns else len(messages) - 1
            begin = self.begin_of_marks(template, text, messages[:before], context) if before else 0
            return [(*mark, True) for mark in marks if mark[0] >= begin]
        if self.turns == "last":
            turns = turns[-1:]
        turns = [i for i in turns if i not in unweighed]
        known = {}
        if len(turns) > self.few_turns:
            known = beginnings(template, text, messages, context, turns[-1])

        def length(count, prompts=False):
            if (count, prompts) in known:
                return known[count, prompts]
            return len(self.beginning(template, text, messages[:count], context, prompts))

        ranges = []
        for turn in turns:
            self.advises_last = self.turns == "all" and turn != turns[-1]
            begin = length(turn, True)
            end = len(text) if turn + 1 == len(messages) else length(turn + 1)
            ranges.append((begin, end, False))
            if end < begin:
                raise Problem(f"the template writes less with message {turn + 1} than before it")
        return ranges

    def begin_of_marks(self, template, text, before, context):
        self.advises_last = self.turns == "all"
        rendered = self.first_alone(template, before, context)
        # What ends a text may only be written where no answer is asked for.
        if not text.startswith(rendered):
            rendered = self.beginning(template, text, before, context, True)
        return len(rendered)

    def first_alone(self, template, messages, context, prompts=False):
        """Returns the text of the first messages of a conversation."""
        try:
            return template.render(messages, context, prompts)
        except Exception as error:
            first = "no message" if not messages else f"the first {len(messages)} of the messages alone"
            raise self.unknown(f"the template cannot write {first} ({reason(error)})") from None

    def beginning(self, template, text, messages, context, prompts=False):
        """Returns the text of the first messages, with which `text` has to begin."""
        rendered = self.first_alone(template, messages, context, prompts)
        if text.startswith(rendered):
            return rendered
        if prompts:
            raise self.unknown(f"message {len(messages) + 1} does not begin with the template's generation prompt")
        first = f"the first {len(messages)} of the messages"
        raise self.unknown(f"the template writes {first} differently when others follow")

    def unknown(self, clause):
        advice = "With data.chat_turns = last only the last turn counts"
        if not self.advises_last:
            advice = "Mark what counts by {% generation %} in a template of your own, or give data.chat_counts = all"
        return Problem(f"{clause}, so that it is not known which tokens count. {advice}")


def reason(error):
    """Returns "UndefinedError: 'x' is undefined"; a Problem's own words."""
    if isinstance(error, Problem):
        return str(error)
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__


def in_bytes(text, ranges):
    if text.isascii():
        return ranges
    sizes, last, size = {}, 0, 0
    for place in sorted({place for begin, end, _ in ranges for place in (begin, end)}):
        size += len(text[last:place].encode())
        sizes[place], last = size, place
    return [(sizes[begin], sizes[end], is_exact) for begin, end, is_exact in ranges]


def end_with_parent():
    """A parent that is killed cannot end this process, which may be busy."""
    parent = os.getppid()
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
    if os.getppid() != parent:
        sys.exit(0)


def answer_in_time(renderer, line):
    """Returns the answer to a conversation, also where the template fails or does not end."""
    try:
        signal.setitimer(signal.ITIMER_REAL, LONGEST)
        answer = renderer.answer(json.loads(line.decode()))
        text = answer["text"].encode()
        numbers = [len(text), *(int(number) for one in answer["counts"] for number in one)]
        return " ".join(map(str, numbers)).encode() + b"\n" + text
    except Problem as problem:
        why = str(problem)
    except TooLong:
        why = f"the template takes more than {LONGEST} s for this conversation"
    except Exception as error:  # a template may do anything
        why = f"the template fails on this conversation: {reason(error)}"
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
    return as_line({"error": why})


def as_line(answer):
    return json.dumps(answer, ensure_ascii=False).encode(errors="replace") + b"\n"


def main():
    lines = sys.stdin.buffer
    out = sys.stdout.buffer

    def say(answer):
        out.write(answer)
        out.flush()

    def stop(number, frame):
        raise TooLong

    end_with_parent()
    with contextlib.suppress(ValueError):  # where less is allowed already
        resource.setrlimit(resource.RLIMIT_AS, (MOST_MEMORY, MOST_MEMORY))
    signal.signal(signal.SIGALRM, stop)
    try:
        renderer = Renderer(json.loads(lines.readline()))
    except Exception as error:  # of Jinja, or of Python where it compiles what Jinja made
        why = {"line": getattr(error, "lineno", None) or 0, "error": getattr(error, "message", reason(error))}
        return say(as_line(why))
    say(as_line({}))
    for count in lines:
        for line in [lines.readline() for _ in range(int(count))]:
            out.write(answer_in_time(renderer, line))
        out.flush()


if __name__ == "__main__":
    with contextlib.suppress(BrokenPipeError, KeyboardInterrupt):
        main()
