"""Documents that do not see each other, and prompts that the loss leaves out: the same losses on any number of ranks."""
import json
import random
import struct

from job import TINY, Case, main
from running import logged

TRAIN = TINY + ["--train.steps=4", "--metrics.every=1", "--train.eval_batches=2"]


def drawn_pairs(count):
    """Sums as questions and answers, with a plain text now and then."""
    draw = random.Random(count)
    pairs = []
    for number in range(count):
        a, b = draw.randrange(100), draw.randrange(100)
        pairs.append({"text": f"Number {number}. "} if number % 9 == 0 else
                     {"prompt": f"{a} and {b} make", "completion": f" {a + b}."})
    return pairs


class Masks(Case):
    """data.document_mask, and pairs of prompt and completion."""

    def setUp(self):
        super().setUp()
        self.pairs = drawn_pairs(600)
        (self.folder / "pairs.jsonl").write_text("".join(json.dumps(pair) + "\n" for pair in self.pairs))

    def losses(self, *arguments, ranks=0):
        name = f"run-{len(list(self.folder.glob('run-*')))}"
        job = self.train(*TRAIN, *arguments, f"--train.accumulation={2 // max(ranks, 1)}", f"--run.dir={name}",
                         ranks=ranks)
        return logged(self.folder / name), job

    def test_samples_of_whole_documents(self):
        constant = ["--optim.schedule=constant"]
        pack = [*constant, "--data.source=pairs.jsonl", "--data.packing=documents"]
        alone, job = self.losses(*pack)
        self.assertRegex(" ".join(job.out.split()), r"packing 540 documents in \d+ samples of 32 tokens, \d+% padding ")
        self.assertEqual(self.losses(*pack, "--shard.strategy=zero2", ranks=2)[0], alone)
        self.assertNotEqual(self.losses(*constant, "--data.source=pairs.jsonl")[0], alone)
        half = [word if "train.steps" not in word else "--train.steps=2" for word in TRAIN]
        self.train(*half, *pack, "--train.accumulation=2", "--checkpoint.every=2", "--run.dir=parts")
        self.train(*TRAIN, *constant, "--data.source=pairs.jsonl", "--checkpoint.resume=auto", "--run.dir=parts",
                   "--checkpoint.every=2", ranks=2)
        self.assertEqual(logged(self.folder / "parts"), alone)

        names = []
        for number, pair in enumerate(self.pairs[:7]):
            (self.folder / f"one{number}.jsonl").write_text(json.dumps(pair) + "\n")
            names.append(f"n{number}:one{number}.jsonl")
        (self.folder / "all.jsonl").write_text("".join(json.dumps(pair) + "\n" for pair in self.pairs[:7]))
        job = self.do("eval", "parts", "--eval.format=json", "--data.val_source=" + ",".join([*names, "all:all.jsonl"]))
        *each, both = [json.loads(line) for line in job.out.splitlines() if line.startswith("{")]
        tokens = sum(one["tokens"] for one in each)
        self.assertEqual(both["tokens"], tokens)
        self.assertAlmostEqual(both["loss"], sum(one["loss"] * one["tokens"] for one in each) / tokens, places=5)
        refusal = "data.packing = documents does not work with data.document_mask = false"
        self.refused("train", *TRAIN, *pack, "--data.document_mask=false", says=refusal)
        self.refused("train", *TRAIN, *constant, "--data.source=pairs.jsonl", "--data.document_mask=false",
                     "--checkpoint.resume=auto", "--run.dir=parts", says=refusal)
        self.train(*TRAIN, "--data.source=pairs.jsonl", "--data.document_mask=false", "--checkpoint.every=2",
                   "--run.dir=stream")
        packed = ["eval", "stream", "--data.packing=documents", "--data.val_source=pairs.jsonl"]
        self.assertRegex(self.do(*packed).out, r": all \d+ tokens \(\d+ windows of 32\) in ")
        some = self.do(*packed, "--train.seq_len=16", "--data.too_long=skip").out
        self.assertRegex(some, r": \d+ tokens \(\d+ windows of 16; \d+ longer documents left out\) in ")
        more = [word if "train.steps" not in word else "--train.steps=6" for word in TRAIN]
        self.train(*more, *pack, "--checkpoint.resume=auto", "--checkpoint.allow=data", "--run.dir=stream")
        self.assertIn("document_mask = true", (self.folder / "stream" / "config.ini").read_text())

    def test_every_way_to_the_same_losses(self):
        job = self.do("data", "prepare", "--data.source=pairs.jsonl", "--data.output=pairs.bin")
        prompts = [len(pair["prompt"]) for pair in self.pairs if "prompt" in pair]
        mask = (self.folder / "pairs.bin.mask").read_bytes()
        self.assertEqual(struct.unpack_from("<8sIIQ", mask), (b"TESSERAM", 1, 16, len(prompts)))
        runs = list(struct.iter_unpack("<QQ", mask[64:]))
        self.assertEqual([end - begin for begin, end in runs], prompts)
        self.assertRegex(job.out, r"pairs\.bin\.idx \(documents\), pairs\.bin\.mask \(tokens that the loss")
        said = self.job("data", "inspect", "pairs.bin").out
        self.assertRegex(said, r"(?m)^counted    \d\d\.\d% of [\d.]+K tokens count$")

        joined = "--data.document_mask=false"
        counted, job = self.losses("--data.source=pairs.jsonl", joined)
        self.assertRegex(job.out, r"(?m)^loss       over \d\d\.?\d*% of the tokens \(not over prompts\)$")
        self.assertEqual(self.losses("--data.source=pairs.jsonl", joined, ranks=2)[0], counted)
        self.assertEqual(self.losses("--data.source=pairs.bin", joined, "--memory.checkpoint=block")[0], counted)
        masked, job = self.losses("--data.source=pairs.bin")
        self.assertIn("nor over the first token of a document", " ".join(job.out.split()))
        self.assertRegex(job.out, r"(?m)^resolved [^:]*data\.document_mask = true")
        self.assertNotEqual(masked, counted)
        self.assertEqual(self.losses("--data.source=pairs.jsonl", "--data.document_mask=true", "--shard.strategy=zero2",
                                     ranks=2)[0], masked)
        (self.folder / "pairs.bin.mask").unlink()
        self.refused("train", *TRAIN, "--data.source=pairs.bin", says=r"pairs\.bin\.mask is missing, but according to pairs\.bin\.idx")
        (self.folder / "pairs.bin.idx").unlink()
        plain, job = self.losses("--data.source=pairs.bin")
        self.assertNotIn("loss       over", job.out)
        self.assertNotEqual(plain, counted)

    def test_a_resumed_run_has_the_same_data(self):
        for given in ("false", "auto"):
            arguments = [*TRAIN, "--data.source=pairs.jsonl", f"--run.dir={given}", "--checkpoint.every=2"]
            self.train(*arguments, f"--data.document_mask={given}")
            had, other = ("true", "false") if given == "auto" else ("false", "true")
            self.assertIn(f"document_mask = {had}\n", (self.folder / given / "config.ini").read_text())
            onward = [*arguments, "--train.steps=6", "--checkpoint.resume=auto"]
            job = self.train(*onward, f"--data.document_mask={other}", code=2)
            self.assertRegex(job.errors[0], "checkpoint.allow")
            self.train(*onward)  # keeps what it had
            self.assertIn(f"document_mask = {had}\n", (self.folder / given / "config.ini").read_text())

    def test_what_is_refused(self):
        self.job("data", "prepare", "--data.source=pairs.jsonl", "--data.output=pairs.bin")
        (self.folder / "pairs.bin.idx").unlink()
        mask = "--data.document_mask=true"
        for arguments, says in (
                (["--data.source=pairs.bin"], r"as auto is with prompts .*needs an index of documents .*set data\.document_mask = false"),
                (["--data.source=pairs.bin", mask], r"needs an index of documents for .*pairs\.bin, but .*pairs\.bin\.idx is missing"),
                ([mask], r"data\.document_mask = 'true' has no effect, because data\.source = synthetic")):
            with self.subTest(arguments):
                self.refused("train", *TRAIN, *arguments, "--run.dir=run", says=says)
        (self.folder / "half.jsonl").write_text('{"prompt": "only"}\n')
        self.refused("train", *TRAIN, "--data.source=half.jsonl", "--run.dir=run",
                     says=r'half\.jsonl:1: an object has neither "text" nor the "completion" of a pair')


if __name__ == "__main__":
    main()
