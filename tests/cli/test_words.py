"""The executable's output about itself: usage, version, and options that survive being written and read."""
import configparser
import re
import subprocess

from job import TINY, Case, command, main, said_once

SECTIONS = ["run", "model", "data", "train", "optim", "shard", "lora", "precision", "memory", "grid", "comm", "checkpoint", "metrics",
            "plan", "export", "bench", "generate", "eval", "sweep"]


class Words(Case):
    def test_options_between_the_words_of_a_command(self):
        self.do("bench", "--bench.steps=1", "step", "--bench.warmup=0", "--model.layers=1", "--model.width=32",
                "--model.heads=2", "--model.context=32", "--data.val_fraction=0")
        self.refused("bench", "--bench.steps=1", says=r"bench needs to know what to do\. Use one of step, comm")

    def test_usage(self):
        texts = {}
        for words in ([], ["--help"], ["-h"], ["help"], ["help", "options"], ["train", "--help"], ["train", "--train.steps=3", "-h"],
                      ["help", "train"], ["plan", "--help"]):
            with self.subTest(words):
                job = self.job(*words)
                self.assertEqual((job.code, job.err), (0, ""), job.everything())
                texts[" ".join(words)] = job.out
                self.assertLessEqual(max(len(line) for line in job.out.splitlines() if " " in line.strip()), 80)
        self.assertEqual(len(set(texts.values())), 5)
        self.assertEqual(texts["help"], texts[""])
        self.assertLess(len(texts["help"].splitlines()), 40)
        text = texts["--help"]
        self.assertTrue(text.startswith("tessera COMMAND [INPUT.ini] [--section.key=value ...]"))
        self.assertEqual(re.findall(r"(?m)^\[(\w+)\]", text), SECTIONS)
        self.assertEqual(re.findall(r"(?m)^\[(\w+)\]", texts["help train"]), [*SECTIONS[:-5], "generate"])
        names = re.findall(r"(?m)^  --([a-z0-9_.]+)", text)
        self.assertEqual(len(names), len(set(names)))
        self.assertTrue({"shard.strategy", "run.dump", "train.micro_batch", "grid.ranks_per_node"} <= set(names))
        for name in names:
            self.assertRegex(text, rf"(?m)^  --{re.escape(name)} +\S.*\n( {{33}}.*\n)* {{33}}(.*; )?default:")

    def test_version(self):
        job = self.job("version")
        self.assertEqual((job.code, job.err), (0, ""), job.everything())
        self.assertRegex(job.out, r"(?m)^version +\d+\.\d+\.\d+$")
        self.assertRegex(job.out, r"(?m)^git_revision +\w+")

    def test_several_ranks_speak_once(self):
        for words in (["--help"], ["help", "plan"], ["--version"]):
            with self.subTest(words):
                job = self.do(*words, ranks=2)
                self.assertTrue(said_once(job.out, r"tessera COMMAND \[|tessera plan \[|(?m:^version )"), job.everything())
        self.refused("frobnicate", ranks=2, says=r"unknown command 'frobnicate'")

    def test_help_and_config_know_the_same_options(self):
        names = set(re.findall(r"(?m)^  --([a-z0-9_.]+)", self.job("train", "--help").out))
        self.train(*TINY, "--run.dir=run")
        written = configparser.ConfigParser(allow_no_value=True, comment_prefixes=(";",), interpolation=None)
        written.read_string((self.folder / "run" / "config.ini").read_text().split("\n\n", 1)[1])
        found = {f"{section}.{key.lstrip('# ').split(':')[0]}" for section in written.sections() for key in written[section]}
        self.assertEqual(found, names)

    def test_words_of_the_views_are_explained_below_them(self):
        for view, words in (("table", ("idle", "at rest", "lower bound", "fragmentation", r"\(apart\)")),
                            ("schedule", ("queue", "sums", "alive", "sent")), ("units", ("unit", "block"))):
            job = self.job("plan", *TINY, "--plan.ranks=2", f"--plan.view={view}")
            for word in words:
                self.assertRegex(job.out, rf"{word}: ", view)
        self.assertRegex(self.job("plan", *TINY, "--shard.strategy=hsdp").out, "shard.group_size makes smaller groups")

    def test_output_that_cannot_be_written(self):
        with open("/dev/full", "w") as full:
            done = subprocess.run(command(["plan", *TINY]), stdout=full, stderr=subprocess.PIPE, text=True, cwd=self.folder)
        self.assertEqual(done.returncode, 4, done.stderr)
        self.assertRegex(done.stderr, "cannot write to the standard output")

    def test_a_run_folder_that_may_not_be_made(self):
        job = self.train(*TINY, "--run.dir=/sys/tessera-test", code=4)
        self.assertRegex(job.err, "run.dir = /sys/tessera-test cannot be created")


if __name__ == "__main__":
    main()
