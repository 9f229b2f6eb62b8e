"""The numbers that `tessera plan` prints are what they were (tests/golden/plan.txt); its words may change.
The excerpts of a schedule in docs/fsdp.md and src/README.md are what the program prints.

Of each line that has numbers, the numbers with their units are kept, in order. Digits of a name (h.3, fp32) are not
numbers. TESSERA_UPDATE=1 rewrites the file. Do that only on purpose. Of the schedule and the units there is one each:
golden/test_schedules.cpp holds schedules, schedule/test_print_json*.cpp compare what is printed with them.

The file's first line names the strategies. Lines about others are left out, so that a strategy may be added: write its
name there when it is to be compared too.
"""
import os
import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from job import Case, main

ROOT = Path(__file__).resolve().parents[2]
GOLDEN = ROOT / "tests" / "golden" / "plan.txt"
NUMBER = re.compile(r"(?<![\w.])-?\d+(?:\.\d+)*(?:e[-+]?\d+)?(?: ?(?:[kMGTKP]i?)?B\b| ?%|[kKMGTP]\b)?")
OPERATION = re.compile(r"(?m)^ +\d+  (?:gather|load|compute|reduce) .*")
ALIVE = re.compile(r"  +[\d.]+ [kMG]?B( \(peak\))?(?=  |$)")  # a column that the excerpts leave out
GPU = ["--run.device=cuda"]
CONFIGURATIONS = [
    [],
    ["--plan.ranks=4", "--train.accumulation=4"],
    ["--model.preset=gpt2-124m", "--plan.ranks=16", "--shard.strategy=hsdp", "--train.accumulation=2",
     "--plan.memory=1900MB"],
    ["--model.preset=gpt2-124m", "--train.seq_len=256", "--precision.compute=bf16", "--checkpoint.async=true"],
    ["--model.preset=qwen2-0.5b", "--train.seq_len=512", "--memory.checkpoint=block", "--plan.ranks=2"],
    ["--model.preset=llama-1b", "--train.seq_len=128", "--shard.strategy=zero2", *GPU],
    ["--plan.ranks=12", "--shard.wrap=size", "--shard.min_params=50000", *GPU, "--comm.backend=staged"],
    ["--model.preset=gpt2-124m", "--plan.memory=1500MB", "--train.micro_batch=8", "--shard.strategy=ddp"],
    ["--model.preset=gpt2-124m", "--plan.memory=10MB"],
    ["--plan.memory=8GB"],
    ["--plan.view=schedule", "--plan.ranks=4", "--model.layers=1"],
    ["--plan.view=units", "--model.preset=qwen2-1.5b", "--train.seq_len=64", "--shard.wrap=model", "--shard.strategy=zero1"],
]


def numbers(text, added=()):
    """The numbers of each line, what is said of strategies that were `added` left out."""
    for strategy in added:
        text = re.sub(rf"(?m)^ *{strategy}(?![\w-]).*\n", "", text)  # a row of a table
        text = re.sub(rf",? ?shard\.strategy={strategy} \([^)]*\)", "", text)
    return [" ".join(found) for line in text.splitlines() if (found := NUMBER.findall(line))]


class Golden(Case):
    maxDiff = None

    def planned(self, words):
        job = self.job("plan", *words)
        return f"exit code {job.code}\n{job.out}\n" + "\n".join(job.errors)

    def test_plan(self):
        with ThreadPoolExecutor(2) as pool:
            texts = list(pool.map(self.planned, CONFIGURATIONS))
        old = GOLDEN.read_text(encoding="utf-8").split("\n\n")
        entry = re.search(r"--shard\.strategy (.*?)\n  --", self.job("help", "plan").out, re.DOTALL)[1]
        choices = re.search(r"[\w-]+(?:\|[\w-]+)+", re.sub(r"\s+", "", entry.split("groups\n")[-1]))[0].split("|")
        added = [name for name in choices if name not in old[0].split()]
        blocks = ["\n".join(["plan " + " ".join(words), *("  " + line for line in numbers(text, added))])
                  for words, text in zip(CONFIGURATIONS, texts)]
        if os.environ.get("TESSERA_UPDATE") == "1":
            GOLDEN.write_text("\n\n".join([old[0], *blocks]) + "\n", encoding="utf-8")
            old = [old[0], *blocks]
        self.assertEqual(len(old) - 1, len(blocks))
        for golden, now in zip(old[1:], blocks):
            with self.subTest(now.splitlines()[0]):
                self.assertEqual(golden.strip().splitlines(), now.strip().splitlines())

    def test_excerpts_of_the_pages(self):
        job = self.job("plan", "--model.layers=2", "--plan.ranks=2", "--data.val_fraction=0", "--plan.view=schedule",
                       "--run.device=cpu")
        printed = {line.split()[0]: " ".join(ALIVE.sub("", line, count=1).split()) for line in OPERATION.findall(job.out)}
        for page in "docs/fsdp.md", "src/README.md":
            excerpt = OPERATION.findall((ROOT / page).read_text(encoding="utf-8"))
            self.assertGreater(len(excerpt), 10, page)
            for line in excerpt:
                pattern = re.escape(" ".join(line.split())).replace(re.escape("..."), ".+")  # operands left out
                self.assertRegex(printed[line.split()[0]], f"^{pattern}$", page)

    def test_another_strategy_is_left_out(self):
        table = "strategy  shard x replica\nzero1 *   4 x 1  1.5 MB\nhsdp-zero1  2 x 2  7 MB\n"
        self.assertEqual(numbers(table), ["4 1 1.5 MB", "2 2 7 MB"])
        self.assertEqual(numbers(table, ["hsdp-zero1"]), ["4 1 1.5 MB"])
        fit = "Would fit: shard.strategy=zero1 (3 MB), shard.strategy=hsdp-zero1 (4 MB), x=2 (5.1 MB)"
        self.assertEqual(numbers(fit, ["hsdp-zero1"]), ["3 MB 2 5.1 MB"])


if __name__ == "__main__":
    main()
