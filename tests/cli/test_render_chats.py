"""helpers/render_chats.py: what it says without rendering the first messages anew is what their renderings say."""
import ast
import random
import re
import sys
import time
from pathlib import Path
from unittest import mock

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "helpers"), str(ROOT / "tests/reference")]

import chat_template  # noqa: E402
import jinja2  # noqa: E402
import quick_code  # noqa: E402
import render_chats  # noqa: E402
from chat_templates import SHAPES  # noqa: E402

from job import Case, main  # noqa: E402

BODY = "<{{ m.role }}>{{ m.content }}</>"
ANSWER = "{% if add_generation_prompt %}<assistant>{% endif %}"
LOOP = "{% for m in messages %}" + BODY + "{% endfor %}"
# Templates in which the first messages alone are one by one written as in the whole, and ones in which they may not be.
APART = {
    "plain": LOOP + ANSWER,
    "first": "{% if messages[0].role == 'system' %}S{% endif %}" + LOOP + ANSWER,
    "rest": "{% if messages[0].role == 'system' %}{% set rest = messages[1:] %}S{% else %}{% set rest = messages %}{% endif %}"
            "{% for m in rest %}" + BODY + "{{ loop.index }}{% endfor %}" + ANSWER,
    "before": "{% for m in messages %}" + BODY + "{% if not loop.first %}{{ messages[loop.index0 - 1].role }}{% endif %}"
              "{% endfor %}" + ANSWER,
    "some": "{% for m in messages if m.role != 'system' %}" + BODY + "{{ loop.previtem.role if loop.previtem }}{% endfor %}" + ANSWER,
    "captured": "{% for m in messages %}{% set text %}" + BODY + "{% endset %}{{ text | lower }}{% endfor %}" + ANSWER,
    "any": "{% if messages %}" + LOOP + "{% endif %}" + ANSWER,
    "macro": "{% macro turn(m) %}" + BODY + "{% endmacro %}{% for m in messages %}{{ turn(m) }}{% endfor %}" + ANSWER,
    "end": "{{ 'B' }}" + LOOP + "{{ '' if add_generation_prompt else '' }}" + ANSWER,
}
TOGETHER = {
    "length": "{{ messages | length }}" + LOOP + ANSWER,
    "length behind": LOOP + "{{ 'x' if messages | length > 3 }}" + ANSWER,
    "last": "{% for m in messages %}" + BODY + "{{ '!' if loop.last }}{% endfor %}" + ANSWER,
    "next": "{% for m in messages %}" + BODY + "{{ loop.nextitem.role }}{% endfor %}" + ANSWER,
    "ahead": "{% for m in messages %}" + BODY + "{{ messages[loop.index0 + 1].role }}{% endfor %}" + ANSWER,
    "before the first": "{% for m in messages %}" + BODY + "{{ messages[loop.index0 - 1].role }}{% endfor %}" + ANSWER,
    "last one": "{{ messages[-1].role }}" + LOOP + ANSWER,
    "slice": "{% for m in messages[:-1] %}" + BODY + "{% endfor %}" + ANSWER,
    "twice": "{% for m in messages %}{{ m.role }}{% endfor %}" + LOOP + ANSWER,
    "behind": LOOP + "{{ messages[0].role }}{{ messages[1].role }}" + ANSWER,
    "json": "{{ messages | tojson }}" + LOOP + ANSWER,
    "listed": "{% set all = messages | list %}{% for m in all %}" + BODY + "{% endfor %}" + ANSWER,
    "whole captured": "{% set all %}" + LOOP + "{% endset %}{{ all | trim }}" + ANSWER,
    "filtered": "{% filter upper %}" + LOOP + "{% endfilter %}" + ANSWER,
    "state": "{% set ns = namespace(n=0) %}{% for m in messages %}{% set ns.n = ns.n + 1 %}" + BODY + "{% endfor %}{{ ns.n }}"
             + ANSWER,
    "state in a macro": "{% set ns = namespace(n=0) %}{% macro turn(m) %}{% set ns.n = ns.n + 1 %}" + BODY
                        + "{% endmacro %}{% for m in messages %}{{ turn(m) }}{% endfor %}{{ ns.n }}" + ANSWER,
    "cycled": "{% set c = cycler('a', 'b') %}{% for m in messages %}{{ c.next() }}" + BODY + "{% endfor %}{{ c.current }}" + ANSWER,
    "broken off": "{% for m in messages %}{% if loop.index > 2 %}{% break %}{% endif %}" + BODY + "{% endfor %}" + ANSWER,
    "reversed": "{% for m in messages | reverse %}" + BODY + "{% endfor %}" + ANSWER,
    "joined": "{{ messages | map(attribute='role') | join }}" + ANSWER,
    "printed": "{{ messages }}" + ANSWER,
    "compared": LOOP + "{{ 'x' if messages == [] }}" + ANSWER,
    "prompted": "{% for m in messages %}{% if add_generation_prompt %}?{% endif %}" + BODY + "{% endfor %}" + ANSWER,
    "lazy": "{% for m in messages | rejectattr('role', 'equalto', 'system') %}" + BODY + "{% endfor %}" + ANSWER,
    "batches": "{% for pair in messages | batch(2) %}{% for m in pair %}" + BODY + "{% endfor %}{% endfor %}" + ANSWER,
    "no message yet": "{% for m in messages if m.role != 'system' %}" + BODY + "{% else %}none{% endfor %}" + ANSWER,
    "found": "{% set ends = ['A', 'B', 'C', 'D', 'E'] | map('lower') %}{% for m in messages %}" + BODY
             + "{% if m.role == 'user' and ends | first %}{% endif %}{% endfor %}{{ ends | first }}" + ANSWER,
    "some, last": "{% for m in messages if m.role != 'none' %}" + BODY + "{{ '!' if loop.last }}{% endfor %}" + ANSWER,
    "else": "{% for m in messages if m.role == 'none' %}x{% else %}none{% endfor %}" + ANSWER,
}

# What templates may ask, of which the short ways know only a part. Each is rendered for a system, a user and an answer.
ASKED = [
    "{{ m.role }}{{ m['role'] }}{{ m.nothing }}{{ m.nothing is defined }}{{ m.nothing.more is defined }}", "{{ m.nothing.more }}",
    "{{ m.items() | list }}{{ m.get('role') }}{{ m.keys }}", "{{ m.title }}{{ m.count }}{{ m.parts.title }}{{ m.parts.index }}",
    "{{ m.title() }}", "{{ m.parts.title() }}", "{{ m.number.real }}{{ m.number.bit_length() }}", "{{ m.__class__ }}", "{{ m.role.__len__() }}",
    "{{ m.role.strip('u').upper() }}{{ m.content.split('o', 1)[-1].lstrip('\n') }}{{ ' '.join([m.role, m.content.strip()]) }}",
    "{{ m.content.startswith(('<', m.role[0])) and not m.content.endswith('x') }}", "{{ m.content.startswith() }}", "{{ m.content.nothing() }}", "{{ (m.content + m.role)() }}",
    "{{ m.content.replace(m.role.strip(), m.role.replace('s', m.content.strip())) }}", "{{ m.content.split(sep='o', maxsplit=1) }}",
    "{{ m.content.split(*['o', 1]) }}{{ m.content.split(**{'sep': 'o'}) }}", "{{ m.words.count('a') }}{{ m.words.index('b') }}{{ m.words.strip }}",
    "{{ m.words.strip() }}", "{{ m.words.append('c') }}", "{{ m.update({'role': 'x'}) }}", "{{ '{0.__class__}'.format(m) }}", "{{ m.content.format }}x",
    "{{ m.content.nothing.strip() }}", "{{ (m.content if m.role == 'user').strip() }}", "{{ m.content.encode().decode() }}",
    "{% set ns = namespace(a=1, b=m) %}{% set ns.a = ns.a + 1 %}{{ ns.a }}{{ ns.b.role }}{{ ns.c }}{{ ns }}", "{{ namespace(1) }}",
    "{% set ns = namespace() %}{{ ns.__class__ }}{{ ns._a }}", "{{ namespace(_a=1) }}", "{% set ns = namespace({'a': 2}, b=3) %}{{ ns.a + ns.b }}",
    "{{ loop.index0 }}{{ loop.index }}{{ loop.first }}", "{{ loop.index0 }}{{ loop.last }}", "{{ loop.index }}{{ loop.cycle('a', 'b') }}{{ loop.nothing }}",
    "{{ loop['index0'] }}", "{{ loop | attr('index0') }}{{ loop.index0 }}", "{{ loop }}", "{{ loop.length }}{{ loop.changed(m.role) }}", "{{ loop.index0.real }}",
    "{% for word in m.words %}{{ loop.index0 }}{{ word.upper() }}{% for c in word %}{{ loop.first }}{{ c.strip(word) }}{% endfor %}{{ loop.index }}"
    "{% endfor %}{{ loop.index }}",
    "{% set outer = loop %}{% for word in m.words if word != 'a' %}{{ loop.index }}{{ outer.index0 }}{% else %}none{% endfor %}{{ loop.index0 }}",
    "{% for word in m.nothing %}{{ loop.index }}{% endfor %}{{ loop.index0 }}", "{% for word in m.number %}{{ loop.index }}{% endfor %}",
    "{% for word in m.words %}{{ loop.index }}{% endfor %}{% for word in m.words %}{{ loop.index }}{{ loop.last }}{% endfor %}",
    "{% for word in m.words recursive %}{{ loop.index0 }}{{ loop(m.parts) if loop.first and loop.depth < 3 }}{% endfor %}",
    "{% macro show(x, y=loop.index) %}{{ x.strip() }}{{ y }}{{ loop.index0 }}{{ caller(x) if caller }}{% endmacro %}{{ show(m.role) }}"
    "{% call(x) show(m.content, y=2) %}{{ x.upper() }}{{ loop.index }}{{ m.role }}{% endcall %}",
    "{% filter upper %}{{ m.role.strip('u') }}{{ loop.index }}{% endfilter %}{% set text %}{{ loop.index0 }}{% endset %}{{ text.strip() }}",
    "{% block one scoped %}{{ m.role }}{{ loop.index0 }}{% endblock %}", "{{ 'l_1_loop' }}{{ loop.index0 }}", "{{ it }}{{ m.role.strip() }}",
    "{{ dict(a=m.role).a }}{{ dict.fromkeys('ab').b }}{{ m.words | map('upper') | join }}{{ [m] | map(attribute='role') | first }}",
    "{% if loop.index0 > 0 and messages[loop.index0 - 1].role == 'user' %}{% break %}{% endif %}{% continue %}",
    "{% set ns = namespace() %}{% for word in m.words %}{% macro turn() %}{{ loop.index }}{{ loop.first }}{% endmacro %}{% set ns.turn = turn %}{{ turn() }}"
    "{% endfor %}{{ ns.turn() }}",
    "{% set ns = namespace() %}{% for word in m.words %}{{ loop.index0 }}{% call(x) m.role.strip() %}{{ loop.first }}{% endcall %}{% endfor %}",
    "{{ loop.index() }}", "{% set ns = namespace() %}{% set ns._a = 1 %}{{ ns._a }}",
    "{{ " + "m.role.replace('s', " * 12 + "'x'" + ".strip())" * 12 + " }}",
]


def drawn(rng, turns):
    """A conversation of so many answers."""
    words = lambda: "".join(rng.choice(["a", " ", "\u00e9", "\n", "word", "<think>", "</think>", "{{"]) for _ in range(rng.randrange(6)))
    messages = [{"role": "system", "content": words()}] if rng.random() < 0.5 else []
    for _ in range(turns):
        messages += [{"role": "user", "content": words()}] * (rng.random() < 0.9) + [{"role": "assistant", "content": words()}]
    return {"messages": messages + [{"role": "user", "content": words()}] * (rng.random() < 0.3)}


class RenderChats(Case):
    def test_short_ways_lead_where_the_sandbox_does(self):
        messages = [{"role": role, "content": f"\n{role} too", "title": 5, "parts": {"title": "T"}, "number": 3, "words": ["a", "b"]}
                    for role in ("system", "user", "assistant")]
        texts = 0
        for asked in ASKED:
            source = "{% for m in messages %}" + asked + "{% endfor %}"
            found = []
            for environment, namespace in ((chat_template.Environment, chat_template.Namespace),
                                           (jinja2.sandbox.ImmutableSandboxedEnvironment, jinja2.utils.Namespace)):
                with mock.patch.multiple(chat_template, Environment=environment, Namespace=namespace):
                    template = chat_template.Template(source, {})
                for _ in range(2):
                    try:
                        found.append(template.render(messages, {}))
                    except Exception as error:
                        found.append(f"{type(error).__name__}: {error}")
            found = [re.sub("0x[0-9a-f]+", "", one) for one in found]
            texts += not re.match(r"\w+Error: ", found[0])
            if "_a=1" in asked or "._a = 1" in asked:  # which Jinja itself does not refuse
                self.assertIn("SecurityError: a namespace cannot have the attribute '_a'", found[0], asked)
            else:
                self.assertEqual(found, [found[0]] * 4, asked)
        self.assertGreater(texts, 30)

    def test_short_ways_are_taken(self):
        source = "{% for m in messages %}{{ loop.index }}{{ m.role }}{{ m.content.strip() }}{% endfor %}"
        code = chat_template.Environment().compile(source, raw=True)
        written = ast.unparse(quick_code.quick_code(code))
        for short in ("enumerate(", " is dict", " is str"):
            self.assertIn(short, written)
        self.assertNotIn("LoopContext(", written)

    def test_answers_of_weight_0_do_not_count(self):
        conversation = {"messages": [{"role": role, "content": content, **more} for role, content, more in (
            ("user", "a", {}), ("assistant", "b", {"weight": 0}), ("user", "c", {}), ("assistant", "d", {"weight": 1}), ("user", "e", {}),
            ("assistant", "f", {}))]}
        marked = "{% for m in messages %}{{ m.role }}:{% generation %}{{ m.content }}{% endgeneration %};{% endfor %}"
        answered = "{% for m in messages %}{{ m.role }}:{% if m.role == 'assistant' %}{% generation %}{{ m.content }}{% endgeneration %}" \
                   "{% else %}{{ m.content }}{% endif %};{% endfor %}"
        for source in (LOOP + ANSWER, answered):
            shared = {"conversations": [{"from": {"user": "human", "assistant": "gpt"}[one.pop("role")], "value": one.pop("content"), **one}
                                        for one in map(dict, conversation["messages"])]}
            for few, asked in ((0, conversation), (10**9, conversation), (0, shared)):
                (answer,), _ = self.answers(source, {}, [asked], few)
                self.assertEqual([answer["text"][begin:end].replace("</>", "") for begin, end, *_ in answer["counts"]], ["d", "f"])
        for source, changed, said in ((marked, {}, "marks 6 texts of 3 answers"), (answered, {"weight": 0.5}, "message 6 is neither 0 nor 1"),
                                      (answered, {"weight": "0"}, "message 6 is neither 0 nor 1")):
            conversation["messages"][-1].update(changed)
            (answer,), _ = self.answers(source, {}, [conversation], 0)
            self.assertIn(said, answer)

    def answers(self, source, tokens, conversations, few):
        """The answers where more than `few` turns are looked at in one rendering, and how often a template rendered."""
        renderer = render_chats.Renderer({"templates": {"default": source}, "tokens": tokens})
        renderer.few_turns = few
        template, count = renderer.templates["default"], [0]
        render = template.render
        def counted(*arguments):
            count[0] += 1
            return render(*arguments)
        template.render = counted
        found = []
        for one in conversations:
            try:
                found.append(renderer.answer(one))
            except Exception as error:
                found.append(f"{type(error).__name__}: {error}")
        return found, count[0]

    def compare(self, name, source, tokens=None):
        """Returns how many renderings were left out, and how many conversations were rendered."""
        rng = random.Random(name)
        conversations = [drawn(rng, rng.randrange(8)) for _ in range(60)]
        wanted, many = self.answers(source, tokens or {}, conversations, 10**9)
        found, few = self.answers(source, tokens or {}, conversations, 0)
        self.assertEqual(found, wanted, name)
        return many - few, sum(isinstance(answer, dict) for answer in found)

    def test_templates_that_write_messages_one_by_one(self):
        for name, source in APART.items():
            saved, rendered = self.compare(name, source)
            self.assertGreater(saved, 50, name)
            self.assertGreater(rendered, 15, name)

    def test_templates_that_look_at_all_of_them(self):
        for name, source in TOGETHER.items():
            saved, _ = self.compare(name, source)
            self.assertLessEqual(saved, 0, name)

    def test_shapes(self):
        saved = {}
        for name, (source, _, special, keys) in SHAPES.items():
            tokens = {key: value for key, value in keys.items() if key.endswith("_token")}
            saved[name], _ = self.compare(name, source, tokens)
        print("renderings saved of 60 conversations:", saved, flush=True)
        self.assertGreater(sum(count > 100 for count in saved.values()), 6)

    def test_a_long_conversation_is_rendered_five_times(self):
        conversation = drawn(random.Random(300), 600)
        began = time.monotonic()
        _, renderings = self.answers(SHAPES["chatml"][0], {}, [conversation], 2)
        print(f"600 answers: {time.monotonic() - began:.2f} s", flush=True)
        self.assertEqual(renderings, 5)


if __name__ == "__main__":
    main(alone=("test_short_ways_lead_where_the_sandbox_does",))  # it replaces classes that the others use
