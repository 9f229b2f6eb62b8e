"""Rows of Parquet become the documents that the same rows as JSON lines become. Most need a Python with pyarrow, which
TESSERA_PYTHON names; without one only the refusal is tested."""
import json
import os
import subprocess
import unittest

from job import TINY, Case, Job, main
from test_data import read_tokens

PYTHON = os.environ.get("TESSERA_PYTHON", "/usr/bin/python3")
HAS_PYARROW = subprocess.run([PYTHON, "-c", "import pyarrow"], capture_output=True).returncode == 0
needs_pyarrow = unittest.skipUnless(HAS_PYARROW, "no pyarrow")

# Writes a table of rows: {"rows": [...], "types": {column: expression}, "options": of write_table}
WRITER = r"""
import json, sys
import pyarrow as pa, pyarrow.parquet
asked = json.load(sys.stdin)
names = list(dict.fromkeys(name for row in asked["rows"] for name in row)) or list(asked["types"])
arrays = []
for name in names:
    values = [row.get(name) for row in asked["rows"]]
    kind = eval(asked["types"][name]) if name in asked["types"] else None
    if kind is not None and pa.types.is_dictionary(kind):
        arrays.append(pa.array(values, kind.value_type).dictionary_encode())
    elif kind is not None and pa.types.is_binary(kind):
        arrays.append(pa.array([value.encode("latin-1") for value in values], kind))
    else:
        arrays.append(pa.array(values, kind))
pa.parquet.write_table(pa.table(arrays, names=names), sys.argv[1], **asked["options"])
"""
# Strings that are not UTF-8, which no writer of tables lets through.
BAD_STRINGS = r"""
import sys
import pyarrow as pa, pyarrow.parquet
ends = pa.array([0, 1, 3, 4], pa.int32()).buffers()[1]
texts = pa.StringArray.from_buffers(3, ends, pa.py_buffer(b"a\xff\xfeb"))
pa.parquet.write_table(pa.table({"text": texts}), sys.argv[1])
"""
LETTERS = "the quick \u00e9 \U0001f600 \"quoted\" \\ \n\t\u2028 \0 <b>&"


def texts(count):
    return [{"id": i, "text": LETTERS * (i % 40) + f" {i}"} for i in range(count)]


def chats(count):
    def call(i):  # in the order of names, by which older versions of pyarrow sort
        return {"arguments": {"n": i} if i % 2 else {"n": i, "x": 0.5}, "name": "find"}
    return [{"messages": [{"role": "user", "content": f"q{i} {LETTERS}"},
                          {"role": "assistant", "content": "a" * (i % 9), "calls": [call(i)] * (i % 3)}],
             "tools": [{"name": "find"}] if i % 5 == 0 else None} for i in range(count)]


class Rows(Case):
    """data prepare of .parquet."""
    TEMPLATE = ("{{ tools | tojson if tools }}{% for m in messages %}<{{ m.role }}>{{ m.content }}"
                "{{ m.calls | tojson if m.calls }}</>{% endfor %}{% if add_generation_prompt %}<assistant>{% endif %}")

    def setUp(self):
        super().setUp()
        (self.folder / "chat.jinja").write_text(self.TEMPLATE)

    def write(self, name, rows, types=None, program=WRITER, **options):
        asked = json.dumps({"rows": rows, "types": types or {}, "options": options})
        done = subprocess.run([PYTHON, "-c", program, str(self.folder / name)], input=asked, text=True, capture_output=True)
        self.assertEqual(done.returncode, 0, done.stderr)

    def prepare(self, source, name, *arguments, code=0, variables=()):
        """Prepares a source into NAME, with a separator that shows where documents end."""
        job = Job(["data", "prepare", f"--data.source={source}", f"--data.output={name}", "--data.separator=|",
                   "--data.tokenizer=bytes", "--data.chat_template=chat.jinja", *arguments], cwd=self.folder,
                  before=["env", *variables])
        self.assertEqual(job.code, code, job.everything())
        return job

    def documents(self, name):
        return [(self.folder / f"{name}{ending}").read_bytes() for ending in ("", ".idx", ".mask")
                if (self.folder / f"{name}{ending}").exists()]

    def as_lines(self, name, rows, *arguments):
        """What the same rows become as JSON lines."""
        (self.folder / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        self.prepare(f"{name}.jsonl", f"{name}.lines", *arguments)
        return self.documents(f"{name}.lines")

    def test_without_pyarrow(self):
        (self.folder / "in").mkdir()
        (self.folder / "in" / "a.txt").write_bytes(b"\xff")  # nothing is read before
        (self.folder / "in" / "b.parquet").write_bytes(b"PAR1")
        os.mkdir(self.folder / "none")
        (self.folder / "none" / "pyarrow.py").write_text("raise ImportError('not here')\n")
        job = self.prepare("in", "x", code=2, variables=[f"PYTHONPATH={self.folder}/none"])
        self.assertRegex(job.everything(), r"in/b\.parquet is read by pyarrow in Python, but \S+ cannot import pyarrow "
                                           r"\(not here\)\. .*pip install pyarrow jinja2.*TESSERA_PYTHON")
        self.assertFalse((self.folder / "x").exists())

    @needs_pyarrow
    def test_the_same_documents_as_of_json_lines(self):
        wanted = self.as_lines("texts", texts(900))
        for name, types, options in (
                ("plain", {}, {"compression": "none"}), ("snappy", {}, {"compression": "snappy", "row_group_size": 70}),
                ("zstd", {}, {"compression": "zstd", "row_group_size": 1}), ("gzip", {}, {"compression": "gzip"}),
                ("large", {"text": "pa.large_string()"}, {}),
                ("dictionary", {"text": "pa.dictionary(pa.int32(), pa.string())"}, {"row_group_size": 100}),
                ("pages", {}, {"data_page_size": 100, "data_page_version": "2.0", "use_dictionary": False})):
            with self.subTest(name):
                self.write(f"{name}.parquet", texts(900), types, **options)
                self.prepare(f"{name}.parquet", name)
                self.assertEqual(self.documents(name), wanted)
        wanted = self.as_lines("chats", chats(300))
        self.assertEqual(len(wanted), 3)
        self.write("chats.parquet", chats(300), compression="zstd", row_group_size=37)
        self.prepare("chats.parquet", "chats")
        self.assertEqual(self.documents("chats"), wanted)
        pairs = [{"prompt": f"p{i}", "completion": f"c{i}", "body": None} for i in range(50)] + [{"body": "plain"}]
        wanted = self.as_lines("pairs", pairs, "--data.text_key=body")
        self.write("pairs.parquet", pairs)
        self.prepare("pairs.parquet", "pairs", "--data.text_key=body")
        self.assertEqual(self.documents("pairs"), wanted)

    @needs_pyarrow
    def test_keys_of_other_rows_are_not_written_as_null(self):
        (self.folder / "chat.jinja").write_text(
            "{% macro sorted(value) %}{{ value | tojson(sort_keys=true) }}{% endmacro %}"  # older versions of pyarrow sort by names
            "{{ sorted(tools) if tools }}{% for m in messages %}<{{ m.role }}>{% for part in m.content %}{{ sorted(part) }}"
            "{% endfor %}{{ sorted(m.calls) if m.calls }}</>{% endfor %}{% if add_generation_prompt %}<assistant>{% endif %}")
        parts = [{"type": "text", "text": "q"}, {"type": "image", "image": {"path": "p"}}]
        rows = [{"messages": [{"role": "user", "content": parts}, {"role": "assistant", "content": parts[:1], "calls": [call]}],
                 "tools": [{"name": name, "parameters": {"properties": {name: {"type": "string"}}}}]}
                for name, call in (("f", {"arguments": {"a": 1}}), ("g", {"arguments": {"b": ["x"]}}))]
        wanted = self.as_lines("rows", rows)
        self.write("rows.parquet", rows)
        self.prepare("rows.parquet", "rows")
        self.assertEqual(self.documents("rows"), wanted)
        maps = ("pa.list_(pa.struct([('name', pa.string()), ('parameters', pa.map_(pa.string(), pa.map_(pa.string(), "
                "pa.map_(pa.string(), pa.string()))))]))")
        self.write("maps.parquet", rows, {"tools": maps})
        self.prepare("maps.parquet", "maps")
        self.assertEqual(self.documents("maps"), wanted)
        # Tables may hold values as texts of JSON whose type says so.
        self.write("json.parquet", [{name: json.dumps(row[name]) for name in row} for row in rows],
                   {"messages": "pa.json_()", "tools": "pa.json_()"})
        self.prepare("json.parquet", "json")
        self.assertEqual(self.documents("json"), wanted)

    @needs_pyarrow
    def test_a_folder_of_all_kinds(self):
        folder = self.folder / "in"
        (folder / "e").mkdir(parents=True)
        (folder / "a.json").write_text('{"text": "a"}\n{"text": "b"}\n')
        self.write("in/b.parquet", [{"text": "c"}, {"text": "d"}])
        (folder / "c.txt").write_text("e")
        self.write("in/d.parquet", [], {"text": "pa.string()"})
        self.write("in/e/f.PARQUET", [{"text": "f"}])
        (folder / "g.jsonl").write_text('{"text": "g"}\n')
        job = self.prepare("in", "all")
        self.assertIn("prepared   6 files, 7 documents,", job.out)
        self.assertEqual(bytes(read_tokens(self.folder / "all")), b"a|b|c|d|e|f|g|")
        job = self.job("data", "inspect", "in", "--data.tokenizer=bytes", "--data.cache=cache")
        self.assertIn("documents  7;", job.out, job.everything())
        rows = [{"text": LETTERS * 9}] * 20
        self.write("train.parquet", rows)
        self.write("val.parquet", rows[:5])
        job = self.train(*TINY, "--data.source=train.parquet", "--data.val_source=val.parquet", "--run.dir=run")
        self.assertIn("validation loss", job.out)

    @needs_pyarrow
    def test_bad_rows_and_files(self):
        self.write("rows.parquet", [{"text": text} for text in ("a", None, "b")])
        self.write("numbers.parquet", [{"text": 1}, {"text": 2}])
        self.write("lists.parquet", [{"messages": "x"}])
        self.write("binary.parquet", [{"text": "x"}], {"text": "pa.binary()"})
        self.write("others.parquet", [{"title": "x", "body": "y"}])
        self.write("strings.parquet", [], program=BAD_STRINGS)
        self.write("whole.parquet", texts(900), compression="none", row_group_size=300)
        whole = (self.folder / "whole.parquet").read_bytes()
        (self.folder / "cut.parquet").write_bytes(whole[:len(whole) // 2])
        (self.folder / "empty.parquet").write_bytes(b"")
        (self.folder / "zeros.parquet").write_bytes(whole[:1000] + bytes(len(whole) // 2) + whole[1000 + len(whole) // 2:])
        for name, says in (("rows", r'rows\.parquet, row 2: "text" is null.*data\.on_error = skip'),
                           ("numbers", r'numbers\.parquet, row 1: "text" is a number instead of a string'),
                           ("lists", r'lists\.parquet, row 1: "messages" is a string instead of an array'),
                           ("binary", r'binary\.parquet cannot be read: the column "text" has the type binary'),
                           ("others", r'has no column "text" \(data\.text_key\).* but "title", "body"'),
                           ("strings", r"strings\.parquet, row 2: the row cannot be read: .*utf-8"),
                           ("cut", r"cut\.parquet cannot be read: "), ("empty", r"empty\.parquet cannot be read: "),
                           ("zeros", r"zeros\.parquet cannot be read: after row \d+: ")):
            with self.subTest(name):
                before = sorted(path.name for path in self.folder.iterdir())
                job = self.prepare(f"{name}.parquet", "x", code=2)
                self.assertRegex(job.everything(), says)
                self.assertEqual([path for path in sorted(path.name for path in self.folder.iterdir())
                                  if not path.endswith(".lock")], before)
        job = self.prepare("rows.parquet,strings.parquet", "skipped", "--data.on_error=skip")
        self.assertIn("2 places, left out", job.out)
        self.assertEqual(bytes(read_tokens(self.folder / "skipped")), b"a|b|a|b|")


if __name__ == "__main__":
    main()
