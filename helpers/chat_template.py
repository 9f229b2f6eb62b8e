"""A chat template, compiled for a sandbox of Jinja2."""

import datetime
import functools
import json

import jinja2.ext
import jinja2.sandbox

from quick_code import OF_DICT, quick_code


class Problem(Exception):
    """What is wrong with a conversation, as a clause."""


class GenerationMarks(jinja2.ext.Extension):
    """{% generation %} ... {% endgeneration %}: what the model is to write. Keeps such texts and where they stand."""

    tags = {"generation"}

    def __init__(self, environment):
        super().__init__(environment)
        environment.marks = self
        self.is_used = False
        self.written = 0  # characters that the template has written so far
        self.found = []

    def parse(self, parser):
        self.is_used = True
        line = next(parser.stream).lineno
        body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
        return jinja2.nodes.CallBlock(self.call_method("_keep"), [], [], body).set_lineno(line)

    def _keep(self, caller):
        text = caller()
        self.found.append((self.written, text))
        return text


class Namespace(jinja2.utils.Namespace):
    """A namespace whose attributes are Python's, except that none begins with an underscore and reaches its own."""

    __getattribute__ = object.__getattribute__

    def __init__(*args, **kwargs):
        self, args = args[0], args[1:]
        for name, value in dict(*args, **kwargs).items():
            self[name] = value

    def __setitem__(self, name, value):
        if isinstance(name, str) and name.startswith("_"):
            raise jinja2.exceptions.SecurityError(f"a namespace cannot have the attribute {name!r}")
        self.__dict__[name] = value

    def __repr__(self):
        return f"<Namespace {self.__dict__!r}>"


class PlainDict:
    """dict(...) and dict.fromkeys(...), and nothing else of Python's type."""

    def __call__(self, *args, **kwargs):
        return dict(*args, **kwargs)

    def fromkeys(self, *args):
        return dict.fromkeys(*args)


def raise_exception(message):
    raise Problem(f"the template refuses this conversation: {message}")


def to_json(value, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


class Environment(jinja2.sandbox.ImmutableSandboxedEnvironment):
    """Jinja2's sandbox, which takes short ways to what templates ask for most. It would allow all of that."""

    is_safe = {}

    def _compile(self, source, filename):
        return super()._compile(quick_code(source), filename)

    def getattr(self, obj, attribute):
        kind = type(obj)
        if kind is dict and attribute not in obj and attribute not in OF_DICT:
            return self.undefined(obj=obj, name=attribute)
        if kind is Namespace and attribute in obj.__dict__:
            return obj.__dict__[attribute]
        return super().getattr(obj, attribute)

    def is_safe_attribute(self, obj, attr, value):
        key = type(obj), attr  # it asks for no more
        if key not in self.is_safe:
            self.is_safe[key] = super().is_safe_attribute(obj, attr, value)
        return self.is_safe[key]

    def call(self, context, called, /, *args, **kwargs):
        if called is not Namespace:
            return super().call(context, called, *args, **kwargs)
        for meant_for_context in ("_loop_vars", "_block_vars"):
            kwargs.pop(meant_for_context, None)
        return Namespace(*args, **kwargs)

    def asked(self, context, called, **private):
        """Returns what calls `called`, after it is looked at."""
        return functools.partial(self.call, context, called, **private)


class Template:
    """A compiled template."""

    def __init__(self, source, tokens):
        environment = Environment(
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
        self.tree = environment.parse(source)
        self.marks = environment.marks
        self.always = {**self.template.globals, **tokens, "documents": None}
        self.context = None
        self.template.globals = {}  # which are in `always`

    def render(self, messages, others, prompts=False):
        """Returns the text of messages, with the generation prompt if `prompts`. `others`: the rest of the context."""
        values = {**self.always, **others, "messages": messages, "add_generation_prompt": prompts}
        # One context serves all texts: to make one costs as much as a short text.
        context, self.context = self.context or self.template.new_context(values, shared=True), None
        context.parent, context.vars, context.exported_vars = values, {}, set()
        self.marks.written, self.marks.found = 0, []
        blocks = self.template.root_render_func(context)
        is_watched = self.marks.is_used or not isinstance(messages, list)
        text = "".join(self.counted(blocks) if is_watched else blocks)
        if not all(text.startswith(marked, begin) for begin, marked in self.marks.found):
            raise Problem("the template marks text that it writes in another place")
        self.context = context  # was not left in the middle
        return text

    def counted(self, blocks):
        for block in blocks:
            yield block
            self.marks.written += len(block)
