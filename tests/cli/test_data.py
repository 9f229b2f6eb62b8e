"""`tessera data`, and training on text: every way to the same tokens gives the same losses, whoever is killed meanwhile."""
import array
import gzip
import json
import os
import random
import re
import shutil
import signal
import struct
import subprocess
import time
import unittest
from pathlib import Path

from job import REFERENCE, TINY, Case, Job, Running, command, main
from running import logged, ranks_of

SAMPLE = Path(__file__).resolve().parents[2] / "inputs" / "sample_data"
KILLS = 60 if "TESSERA_LONG" in os.environ else 6
TRAIN = TINY + ["--data.order=sequential", "--train.steps=4", "--metrics.every=1", "--train.eval_batches=2"]


def sample_documents():
    """The documents of the sample data, in the order of its files."""
    lines = (SAMPLE / "c.jsonl").read_text().splitlines()
    return [(SAMPLE / "a.txt").read_text(), *(row["text"] for row in json.loads((SAMPLE / "b.json").read_text())),
            *(json.loads(line)["text"] for line in lines)]


def read_tokens(path):
    """The ids of an llm.c file of uint16, or of Tessera's own."""
    data = Path(path).read_bytes()
    if data.startswith(b"TESSERAT"):
        version, width, count = struct.unpack_from("<IIQ", data, 8)
        assert (version, width) == (1, 2), (version, width)
    else:
        magic, version, count = struct.unpack_from("<iii", data)
        assert (magic, version) == (20240520, 1), (magic, version)
    ids = array.array("H", data[1024:])
    assert len(ids) == count, (len(ids), count)
    return ids.tolist()


def read_ends(path):
    """The positions after the documents, from an index."""
    data = Path(path).read_bytes()
    magic, version, width, count = struct.unpack_from("<8sIIQ", data)
    assert (magic, version, width, len(data)) == (b"TESSERAD", 1, 8, 64 + 8 * count), (magic, version, width, count)
    return list(struct.unpack_from(f"<{count}Q", data, 64))


def byte_letters():
    """The letters that stand for bytes in byte-level BPE (GPT-2's table)."""
    plain = [*range(0x21, 0x7f), *range(0xa1, 0xad), *range(0xae, 0x100)]
    others = [byte for byte in range(256) if byte not in plain]
    return {**{byte: chr(byte) for byte in plain}, **{byte: chr(256 + i) for i, byte in enumerate(others)}}


def write_tokenizer(folder):
    """A byte-level BPE of 256 bytes, "th", "the" and <|endoftext|>, whose id is returned."""
    folder.mkdir()
    entries = [byte_letters()[byte] for byte in range(256)] + ["th", "the", "<|endoftext|>"]
    (folder / "vocab.json").write_text(json.dumps({entry: number for number, entry in enumerate(entries)}))
    (folder / "merges.txt").write_text("#version: 0.2\nt h\nth e\n")
    return 258


def byte_id(what):
    """The id of a byte in that tokenizer."""
    return ord(what) if isinstance(what, str) else what


def prepared(cache):
    """The one prepared corpus in a cache; nothing else is left there, but the lock of who was killed at the very end."""
    entries = [path for path in Path(cache).iterdir() if path.suffix != ".lock"]
    assert len(entries) == 1 and re.fullmatch(r"[0-9a-f]{32}", entries[0].name), entries
    return entries[0]


class Commands(Case):
    """tessera data prepare and inspect."""

    def data(self, *arguments):
        return self.do("data", *arguments)

    def test_the_sample_data_becomes_its_documents(self):
        documents = [text.encode() for text in sample_documents()]
        job = self.data("prepare", f"--data.source={SAMPLE}", "--data.cache=cache")
        self.assertRegex(job.out, rf"(?m)^prepared   3 files, {len(documents)} documents, \d+ tokens in .*/s, .* tokens/s$")
        folder = prepared(self.folder / "cache")
        self.assertEqual(bytes(read_tokens(folder / "tokens.bin")), b"".join(documents))
        ends = [sum(map(len, documents[:i + 1])) for i in range(len(documents))]
        self.assertEqual(read_ends(folder / "documents.idx"), ends)
        info = json.loads((folder / "info.json").read_text())
        self.assertEqual((info["documents"], info["tokens"], info["tokenizer"]), (len(documents), ends[-1], "bytes"))
        again = self.data("prepare", f"--data.source={SAMPLE}", "--data.cache=cache")
        self.assertEqual(again.out.split(), ["cached", f"cache/{folder.name}"])
        for what in (folder, SAMPLE):
            said = self.data("inspect", what, "--data.cache=cache").out
            self.assertIn(f"documents  {len(documents)}; the longest is number 1 with {len(documents[0])} tokens", said)
            self.assertRegex(said, r"vocabulary \d+ ids used of 256 .* of bytes; the largest is \d+")
            self.assertIn("sample     document 1: The ferry and the fog", said)

    def test_an_output_has_a_separator_and_an_index(self):
        self.data("prepare", f"--data.source={SAMPLE}/c.jsonl, {SAMPLE}/b.json", "--data.output=out.bin",
                  "--data.separator=|")
        self.assertEqual(sorted(path.name for path in self.folder.iterdir()), ["out.bin", "out.bin.idx"])
        documents = sample_documents()[1:]
        titles = len(json.loads((SAMPLE / "b.json").read_text()))
        documents = documents[titles:] + documents[:titles]
        self.assertEqual(bytes(read_tokens(self.folder / "out.bin")).decode(), "".join(text + "|" for text in documents))
        self.assertEqual(len(read_ends(self.folder / "out.bin.idx")), len(documents))
        said = self.data("inspect", "out.bin", "--data.tokenizer=bytes").out
        self.assertIn(f"documents  {len(documents)};", said)
        self.assertNotIn("sample", self.data("inspect", "out.bin").out)

    def test_compressed_and_keyed_documents(self):
        (self.folder / "a.jsonl.gz").write_bytes(gzip.compress(b'{"body": "one"}\r\n\n{"body": "two", "text": 3}\n'))
        self.data("prepare", "--data.source=*.jsonl.gz", "--data.text_key=body", "--data.cache=cache")
        self.assertEqual(bytes(read_tokens(prepared(self.folder / "cache") / "tokens.bin")), b"onetwo")

    def test_bad_lines_are_counted_and_shown(self):
        (self.folder / "a.jsonl").write_text('{"text": "good"}\nbad\n{"text": 7}\n{"text": "\\ud800"}\n{"text": "last"}\n')
        self.refused("data", "prepare", "--data.source=a.jsonl", "--data.cache=cache",
                     says=r"a\.jsonl:2: this is not JSON at byte 1.*data\.on_error = skip")
        self.data("prepare", "--data.source=a.jsonl", "--data.cache=cache", "--data.on_error=skip")
        shown = self.data("inspect", prepared(self.folder / "cache"))
        self.assertRegex(shown.out, r"bad +3 places[^\n]*\n[^\n]*a\.jsonl:2")

    def test_what_needs_no_preparation(self):
        (self.folder / "a.bin").write_bytes(bytes(400))
        for source in ("a.bin", SAMPLE / "a.txt"):
            self.assertIn("needs no preparation", self.data("prepare", f"--data.source={source}").out)
        self.assertIn("tokens     200 of 2 bytes", self.data("inspect", "*.bin").out)
        self.assertEqual([path.name for path in self.folder.iterdir()], ["a.bin"])

    def test_what_is_left_out_is_said(self):
        for name in ("a.txt", "B.TXT", ".git/c.txt", "d.csv", "__MACOSX/._a.txt", "e.arrow", "f/.g.txt"):
            (self.folder / "mixed" / name).parent.mkdir(parents=True, exist_ok=True)
            (self.folder / "mixed" / name).write_text("text " * 100)
        says = "left out   hidden: 3 (.git, __MACOSX, f/.g.txt); of unknown kind: 2 (d.csv, e.arrow)\n"
        for arguments in (["prepare"], ["prepare", "--data.separator=|"], ["prepare", "--data.separator=|"],
                          ["prepare", "--data.output=x.bin"]):
            self.assertIn(says, self.data(*arguments, "--data.source=mixed").out)
        self.assertIn(says, self.data("inspect", "mixed").out)
        said = self.data("prepare", "--data.source=mixed/*").out
        self.assertIn("left out   a folder without text: 2 (mixed/__MACOSX, mixed/f); hidden: 2 (._a.txt, .g.txt); "
                      "of unknown kind: 2 (mixed/d.csv, mixed/e.arrow)\n", said)
        job = self.train(*TRAIN, "--data.source=x.bin,x.bin", "--data.val_source=mixed", "--data.tokenizer=bytes",
                         "--run.dir=run")
        self.assertIn("left out   of mixed (2 text files): hidden: 3", job.out)

    def test_tokens_of_32_bits_without_a_header(self):
        draw = random.Random(12)
        ids = [draw.randrange(256) for _ in range(600)]
        (self.folder / "raw.bin").write_bytes(array.array("I", ids).tobytes())
        self.refused("data", "inspect", "raw.bin", says=r"raw\.bin has no header.*data\.token_bytes = 4")
        four = "--data.token_bytes=4"
        self.assertIn("tokens     600 of 4 bytes", self.data("inspect", "raw.bin", four).out)
        arguments = [*TRAIN, "--data.source=raw.bin", "--run.dir=run", "--checkpoint.every=2"]
        self.refused("train", *arguments, says=r"every second one is 0.*data\.token_bytes = 4")
        self.assertIn(" 540 tokens for training", self.train(*arguments, four).out)
        job = self.train(*arguments, "--train.steps=6", "--checkpoint.resume=auto")
        self.assertIn(" 540 tokens for training", job.out)
        self.assertIn("token_bytes = 4\n", (self.folder / "run" / "config.ini").read_text())
        self.do("eval", "run")

    def test_what_is_refused(self):
        (self.folder / "a.bin").write_bytes(bytes(400))
        (self.folder / "a.txt").write_text("text")
        source = "--data.source="
        for arguments, says in (
                (["prepare"], r"synthetic is not a text to prepare"),
                (["prepare", source + "a.bin", "--data.output=x"], r"holds tokens already"),
                (["prepare", source + "a.txt,a.bin"], r"a\.bin holds tokens and a\.txt holds text"),
                (["prepare", source + "a.txt", "--data.separator=<end>"], r"bytes has no such token"),
                (["prepare", source + "a.txt", "--optim.clip=2"], None),
                (["inspect", "none"], r"none does not work, because there is no such file or folder")):
            with self.subTest(arguments):
                if says is None:  # a run's command line is prepared as it is
                    self.data(*arguments)
                else:
                    self.refused("data", *arguments, says=says)


class Conversations(Case):
    """Conversations, which a template makes texts of."""
    TEMPLATE = ("{% for m in messages %}{% if m.role not in ['user', 'assistant'] %}{{ raise_exception('no ' + m.role) }}"
                "{% endif %}<{{ m.role }}>{{ m.content }}</{{ m.role }}>{% endfor %}"
                "{% if add_generation_prompt %}<assistant>{% endif %}")
    BYTES = ["--data.tokenizer=bytes", "--data.chat_template=chat.jinja", "--data.cache=cache"]

    def setUp(self):
        super().setUp()
        (self.folder / "chat.jinja").write_text(self.TEMPLATE)

    def write(self, *conversations, name="chats.jsonl"):
        turns = lambda texts: [{"role": ["user", "assistant"][i % 2], "content": text} for i, text in enumerate(texts)]
        rows = [{"messages": turns(one)} if isinstance(one, list) else one for one in conversations]
        (self.folder / name).write_text("".join(row if isinstance(row, str) else json.dumps(row) + "\n" for row in rows))

    def prepare(self, *arguments, code=0, variables=()):
        taken = [word for word in self.BYTES if not any(one.startswith(word.split("=")[0]) for one in arguments)]
        if any("data.output" in one for one in arguments):
            taken.remove("--data.cache=cache")
        job = Job(["data", "prepare", "--data.source=chats.jsonl", *taken, *arguments], cwd=self.folder,
                  before=["env", *variables])
        self.assertEqual(job.code, code, job.everything())
        return job

    def test_what_counts_is_said_shown_and_learned(self):
        conversations = [[f"question {i}", f"answer {i}"] for i in range(60)] + [["alone"]]
        self.write(*conversations)
        job = self.prepare()
        says = r"\d\d\.\d% of 3\.\d*K tokens count, in 98\.4% of 61 conversations"
        self.assertRegex(job.out, rf"(?m)^counted    {says}\n.*\n +chats.jsonl:61: no token of this conversation counts$")
        job = self.job("data", "inspect", prepared(self.folder / "cache"))
        self.assertIn("]: <user>question 0</user><assistant>[[answer 0</assistant>]]\n", job.out)
        self.assertRegex(job.out, says)
        job = self.train(*TRAIN, "--data.source=chats.jsonl", *self.BYTES, "--run.dir=run")
        self.assertRegex(" ".join(job.out.split()), rf"resolved [^:]*data\.document_mask = true[^:]*; {says}")
        self.assertEqual(len(list((self.folder / "cache").iterdir())), 1)
        self.prepare("--data.chat_turns=last")
        self.assertEqual(len(list((self.folder / "cache").iterdir())), 2)
        self.assertIn("100.0% of", self.prepare("--data.chat_counts=all", "--data.output=all.bin").out)
        job = self.train(*TRAIN, "--data.source=all.bin", "--data.tokenizer=bytes", "--run.dir=all")
        self.assertRegex(" ".join(job.out.split()), r"resolved [^:]*data\.document_mask = true")

    def test_without_any_their_options_are_said_to_have_no_effect(self):
        last = "--data.chat_turns=last"
        says = "no conversation is in the text, so that these options have no effect: data.chat_template, data.chat_turns\n"
        for name, row in ("plain", {"text": "plain text"}), ("talk", ["hi", "ho"]):
            self.write(*[row] * 90)
            for job in (self.prepare(last), self.prepare(last, f"--data.output={name}.bin"),
                        self.train(*TRAIN, "--data.source=chats.jsonl", *self.BYTES, last, f"--run.dir={name}")):
                self.assertEqual(says in job.everything(), name == "plain", job.everything())

    def test_a_run_keeps_its_template(self):
        tokenizer = REFERENCE / "tokenizers" / "qwen2" / "tokenizer.json"
        (self.folder / "model").mkdir()
        shutil.copy(tokenizer, self.folder / "model")
        (self.folder / "model" / "tokenizer_config.json").write_text('{"chat_template": "{{ messages }}", "a": 1}')
        self.write(*[[f"question {i}", f"answer {i}"] for i in range(60)])
        taken = ["--data.source=chats.jsonl", "--data.tokenizer=model", "--data.chat_template=chat.jinja"]
        self.train(*TRAIN, "--model.vocab=1024", *taken, "--checkpoint.every=4", "--run.dir=run")
        (self.folder / "chat.jinja").unlink()
        words = ["--generate.chat", "--generate.prompt=hi", "--generate.max_tokens=1", "--generate.format=json"]
        job = self.do("generate", "run", *words)
        self.assertEqual(json.loads(job.out)["prompt"], "<user>hi</user><assistant>")
        self.assertIn("9", self.do("eval", "run").out)
        self.do("export", "run", "exported")
        self.assertEqual((self.folder / "exported" / "chat_template.jinja").read_text(), self.TEMPLATE)
        self.assertEqual(json.loads((self.folder / "exported" / "tokenizer_config.json").read_text())["a"], 1)
        self.assertNotIn("{{ messages }}", (self.folder / "exported" / "tokenizer_config.json").read_text())
        shutil.rmtree(self.folder / "run" / "hugging_face")
        self.refused("generate", "run", *words, says=r"its run's data\.chat_template = chat\.jinja is not there", run="no run")

    def test_long_and_odd_ones(self):
        self.write(["many "] * 300, ["x" * (2 << 20), "long"], ["a\0b", ""], '{"messages": [{"role": "user", "content": '
                   '"\\ud83d"}, {"role": "assistant", "content": "half"}]}\n')
        job = self.prepare()
        self.assertRegex(job.out, r"(?m)chats\.jsonl:4: 1 surrogate without the other half became U\+FFFD$")
        ids = bytes(read_tokens(prepared(self.folder / "cache") / "tokens.bin"))
        self.assertTrue(ids.endswith("<user>a\0b</user><assistant></assistant><user>\ufffd</user>"
                                     "<assistant>half</assistant>".encode()), ids[-200:])

    def test_what_is_refused_leaves_nothing(self):
        good = ["hi", "ho"]
        self.write(good, {"messages": [{"role": "user"}]})  # as Transformers has it: what is not there is empty
        self.prepare("--data.output=x.bin")
        self.write(good, {"messages": [{"role": "robot", "content": "x"}]})
        before = sorted(path.name for path in self.folder.iterdir())
        job = self.prepare("--data.output=wrong.bin", code=2)
        self.assertRegex(job.everything(), r"chats\.jsonl:2: .*the template refuses this conversation: no robot.*data\.on_error = skip")
        self.assertEqual([name for name in sorted(path.name for path in self.folder.iterdir()) if not name.endswith(".lock")], before)
        self.write(good)
        for says, variables, arguments in (
                (r"chats\.jsonl:1: .*Jinja2 in Python, but /none cannot be started.*python3-jinja2", ["TESSERA_PYTHON=/none"], []),
                (r"Jinja2 in Python, but /bin/true ended before it answered.*python3-jinja2", ["TESSERA_PYTHON=/bin/true"], []),
                (r"needs a chat template, but data\.tokenizer = bytes has none", [], ["--data.chat_template="])):
            with self.subTest(says):
                job = self.prepare(*arguments, code=2, variables=variables)
                self.assertRegex(job.everything(), says)
        self.write(["alone"], ["me too"])
        self.assertRegex(self.prepare(code=2).everything(), r"counts none of the \d+ tokens.*chats\.jsonl:1: no token")


class Tokenized(Case):
    """Text through the test's own tokenizer."""

    def test_ids_separator_and_samples(self):
        end = write_tokenizer(self.folder / "tokenizer")
        (self.folder / "a.jsonl").write_text('{"text": "the then"}\n{"text": "\u00e9th"}\n')
        arguments = ["--data.source=a.jsonl", "--data.tokenizer=tokenizer", "--data.cache=cache"]
        self.do("data", "prepare", *arguments)
        folder = prepared(self.folder / "cache")
        the, th = end - 1, end - 2
        self.assertEqual(read_tokens(folder / "tokens.bin"),
                         [the, byte_id(" "), the, byte_id("n"), end, byte_id(0xc3), byte_id(0xa9), th, end])
        self.assertEqual(read_ends(folder / "documents.idx"), [5, 9])
        said = self.job("data", "inspect", folder).out
        self.assertIn("document 2: \u00e9th<|endoftext|>", said)
        self.refused("train", *TRAIN, *arguments, "--run.dir=run",
                     says=rf"token {the} at position 0")
        (self.folder / "b.txt").write_bytes(b"good\nbad \xff\n")
        self.refused("data", "prepare", "--data.source=b.txt", *arguments[1:], says=r"b\.txt:2: byte 0xff is not UTF-8")

    def test_the_counts_of_nanogpt(self):
        data = Path(__file__).resolve().parents[3] / "shared" / "data"
        if not (data / "gpt2-tokenizer").is_dir() or not (data / "tinyshakespeare.txt").is_file():
            self.skipTest("there is no tiny Shakespeare with GPT-2's tokenizer in ../shared/data")
        text = (data / "tinyshakespeare.txt").read_text()
        cut = int(len(text) * 0.9)
        for name, part, tokens in (("train", text[:cut], 301966), ("val", text[cut:], 36059)):
            (self.folder / f"{name}.txt").write_text(part)
            self.do("data", "prepare", f"--data.source={name}.txt", f"--data.tokenizer={data / 'gpt2-tokenizer'}",
                    "--data.separator=none", f"--data.output={name}.bin")
            self.assertEqual(len(read_tokens(self.folder / f"{name}.bin")), tokens)


class Training(Case):
    """Text trains as the tokens that it is prepared to."""

    def losses(self, *arguments, ranks=0):
        name = f"run-{len(list(self.folder.glob('run-*')))}"
        job = self.train(*TRAIN, *arguments, f"--run.dir={name}", ranks=ranks)
        return logged(self.folder / name), job

    def test_every_way_to_the_same_tokens(self):
        text = " ".join(sample_documents()).replace("\r", "")
        pieces = [text[i:i + 700] for i in range(0, len(text), 700)]
        (self.folder / "t").mkdir()
        (self.folder / "t" / "a.txt").write_bytes(b"\xef\xbb\xbf" + text[:9000].encode())
        (self.folder / "t" / "b.txt").write_text(text[9000:])
        (self.folder / "t.jsonl").write_text("".join(json.dumps({"text": piece}) + "\n" for piece in pieces))
        (self.folder / "t.json").write_text(json.dumps([{"text": piece} for piece in pieces]))
        (self.folder / "t.txt.gz").write_bytes(gzip.compress(text.encode()))
        (self.folder / "raw.bin").write_bytes(array.array("H", list(text.encode())).tobytes())
        half = array.array("H", list(text.encode()[:5000])).tobytes()
        (self.folder / "s-1.bin").write_bytes(half)
        (self.folder / "s-2.bin").write_bytes(array.array("H", list(text.encode()[5000:])).tobytes())
        expected, _ = self.losses("--data.source=raw.bin", "--train.accumulation=2")
        self.assertEqual(len(expected), 4)
        for number, source in enumerate(("t", "t.jsonl", "t.json", "t.txt.gz", "s-*.bin", "s-1.bin,s-2.bin")):
            with self.subTest(source):
                ranks = 1 + number % 2
                losses, job = self.losses(f"--data.source={source}", f"--train.accumulation={2 // ranks}",
                                          ranks=ranks if ranks > 1 else 0)
                self.assertEqual(losses, expected, job.everything())
                self.assertEqual(len(re.findall("(?m)^prepared ", job.out)), 1 if source in ("t.jsonl", "t.json", "t.txt.gz") else 0)
        self.assertEqual(len(list((self.folder / "cache").iterdir())), 3)

    def test_a_validation_corpus_of_its_own(self):
        arguments = ["--data.source=" + str(SAMPLE / "a.txt"), "--data.val_source=" + str(SAMPLE / "c.jsonl")]
        for ranks in (0, 2):
            _, job = self.losses(*arguments, f"--train.accumulation={1 if ranks else 2}", ranks=ranks)
            self.assertRegex(job.out, r"validation loss \d", job.everything())
        size = len("".join(json.loads(line)["text"] for line in (SAMPLE / "c.jsonl").read_text().splitlines()))
        shown = f"{size / 1000:.4g}K"
        self.assertIn(f"{shown} for validation", job.out)
        self.refused("train", *TRAIN, arguments[0], "--data.val_source=missing", "--run.dir=run", ranks=2,
                     says=r"data\.val_source = missing does not work, because there is no such file or folder")

    def test_a_resumed_run_is_told_what_its_folder_leaves_out(self):
        (self.folder / "texts").mkdir()
        for name in ("a.txt", "b.txt"):
            (self.folder / "texts" / name).write_bytes((SAMPLE / "a.txt").read_bytes())
        arguments = [*TRAIN, "--data.source=texts", "--run.dir=run", "--checkpoint.every=2", "--checkpoint.resume=auto"]
        self.train(*arguments)
        (self.folder / "texts" / "b.txt").rename(self.folder / "texts" / ".b.txt")  # as if it had been read then
        job = self.train(*arguments, "--train.steps=6", code=2)
        self.assertIn("read what folders leave out now (hidden: 1 (.b.txt))", job.errors[0])

    def test_a_read_only_corpus(self):
        corpus = self.folder / "corpus"
        corpus.mkdir()
        (corpus / "c.jsonl").write_bytes((SAMPLE / "c.jsonl").read_bytes())
        corpus.chmod(0o555)
        self.addCleanup(corpus.chmod, 0o755)
        self.losses("--data.source=corpus")
        self.assertEqual([path.name for path in corpus.iterdir()], ["c.jsonl"])


class Kills(Case):
    """SIGKILL at random moments: a process that is started again goes on, and none uses half a corpus."""

    def setUp(self):
        super().setUp()
        draw = random.Random(7)
        words = ["the", "a", "shard", "rank", "gather", "step", "\u00e9t\u00e9", "loss", "norm", "tree"]
        with open(self.folder / "a.jsonl", "w") as file:
            for number in range(100000 if "TESSERA_LONG" in os.environ else 12000):
                file.write(json.dumps({"id": number, "text": " ".join(draw.choices(words, k=90))}) + "\n")
        self.prepare = ["data", "prepare", "--data.source=a.jsonl", "--data.separator=|", "--run.threads=1"]
        job = self.do(*self.prepare, "--data.output=whole.bin")
        self.seconds = job.seconds

    def check(self, cache):
        folder = prepared(cache)
        self.assertEqual(read_tokens(folder / "tokens.bin"), read_tokens(self.folder / "whole.bin"))
        self.assertEqual((folder / "documents.idx").read_bytes(), (self.folder / "whole.bin.idx").read_bytes())

    def test_prepare_is_killed(self):
        draw = random.Random(2026)
        resumed = killed = 0
        for number in range(KILLS):
            cache = f"cache-{number}"
            for _ in range(3):
                running = self.running([*self.prepare, f"--data.cache={cache}"], 0)
                time.sleep(draw.random() * self.seconds)
                if running.process.poll() is None:
                    os.kill(running.process.pid, signal.SIGKILL)
                    killed += 1
                running.end()
            job = self.do(*self.prepare, f"--data.cache={cache}")
            resumed += "going on" in job.out
            self.check(self.folder / cache)
        print(f"{killed} kills, {resumed} went on in the end", flush=True)
        self.assertGreater(killed, 0)

    def test_one_of_two_jobs_with_a_cache_is_killed(self):
        draw = random.Random(2027)
        waited = 0
        for number in range(KILLS // 2):
            cache = f"cache-{number}"
            both = []
            for job in range(2):
                words = self.prepare + [f"--data.cache={cache}"]
                if number == 0:
                    words = ["train", *TRAIN, *words[2:], f"--run.dir=run-{job}"]
                both.append(Running(words, 2 if number == 0 and job == 0 else 0, self.folder))
                self.addCleanup(both[-1].remove)
            time.sleep(draw.random() * self.seconds)
            victim = draw.randrange(2)
            if both[victim].process.poll() is None:
                for process in ranks_of(both[victim].process).values():
                    os.kill(process, signal.SIGKILL)
            code, out = both[1 - victim].end()
            self.assertEqual(code, 0, out)
            waited += out.count("waiting    for process")
            both[victim].end()
            self.check(self.folder / cache)
        print(f"{KILLS // 2} pairs, {waited} survivors waited", flush=True)


@unittest.skipUnless("TESSERA_LONG" in os.environ, "tests/long.sh")
class Large(Case):
    """Many files, and a long one: bounded memory. In tests/long.sh."""

    def prepare(self, *arguments, code=0):
        """Memory in bytes, and the output."""
        with open(self.folder / "said", "w+") as said:
            process = subprocess.Popen(command(["data", "prepare", *arguments]), cwd=self.folder, stdout=said,
                                       stderr=subprocess.STDOUT)
            _, status, used = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
            said.seek(0)
            text = said.read()
        self.assertEqual(process.returncode, code, text)
        return used.ru_maxrss * 1024, text

    def test_two_hundred_thousand_files(self):
        count = 200000
        for number in range(count):
            folder = self.folder / "many" / f"{number // 1000:03}"
            if number % 1000 == 0:
                folder.mkdir(parents=True)
            (folder / f"{number:06}.txt").write_text(f"document {number}\n")
        began = time.monotonic()
        memory, said = self.prepare("--data.source=many", "--data.separator=|", "--data.output=many.bin")
        seconds = time.monotonic() - began
        print(f"{count} files: {seconds:.1f} s, {memory / 1e6:.0f} MB", flush=True)
        self.assertLess(memory, 500e6)
        self.assertLess(seconds, 300)
        self.assertEqual(bytes(read_tokens(self.folder / "many.bin")),
                         b"".join(f"document {number}\n|".encode() for number in range(count)))
        self.assertEqual(len(read_ends(self.folder / "many.bin.idx")), count)
        self.train(*TRAIN, "--data.source=many", "--run.dir=run", timeout=120)

    def test_a_sparse_file_of_100_gigabytes(self):
        with open(self.folder / "sparse.txt", "wb") as file:
            file.truncate(100 * 10**9)
        self.train(*TRAIN, "--data.source=sparse.txt", "--run.dir=run", timeout=120)
        write_tokenizer(self.folder / "tokenizer")
        memory, said = self.prepare("--data.source=sparse.txt", "--data.tokenizer=tokenizer", "--data.output=x.bin", code=2)
        print(f"sparse: {memory / 1e9:.1f} GB", flush=True)
        self.assertLess(memory, 6e9)
        self.assertRegex(said, r"sparse\.txt: from byte 0 on, \d+ bytes have no place where text may be cut")


if __name__ == "__main__":
    main()
