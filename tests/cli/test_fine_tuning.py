"""Fine-tuning as a user starts it: one command on a Hugging Face folder and a folder of text, then export and generate."""
import json
import re
import shutil
from pathlib import Path

from hub_folder import END_OF_TEXT, FAMILIES, hugging_face_folder
from job import REFERENCE, TINY, Case, main
from running import logged

ROOT = Path(__file__).resolve().parents[2]
TEXTS = ROOT / "inputs" / "sample_data"


def ini(run: Path) -> dict[str, str]:
    """The options in a run's config.ini, by section.key."""
    section, options = "", {}
    for line in (run / "config.ini").read_text().splitlines():
        if line.startswith("["):
            section = line[1:-1]
        elif " = " in line and not line.startswith("#"):
            key, value = line.split(" = ", 1)
            options[f"{section}.{key}"] = value
    return options


class FineTuning(Case):
    def do(self, *arguments, code=0, ranks=0):
        job = self.job(*arguments, ranks=ranks)
        self.assertEqual(job.code, code, job.everything())
        return job

    def export(self, what, folder):
        """The names of the files of an export, whose weights have all bits of the run's."""
        self.do("export", what, folder, "--export.dtype=fp32")
        return {path.name for path in (self.folder / folder).iterdir()}

    def test_one_command_for_each_family(self):
        for family in FAMILIES:
            with self.subTest(family):
                source = hugging_face_folder(self.folder / family, family)
                run = self.folder / f"run-{family}"
                where = [f"--run.dir={run}", f"--data.cache={self.folder / 'cache'}", "--run.threads=1"]
                command = [f"--model.from={source}", f"--data.source={TEXTS}"]
                said = self.train(*command, *where, ranks=2).out
                context = {"gpt2": 17, "qwen2": 40, "llama3": 64}[family]
                steps = max(logged(run))
                self.assertRegex(said, rf"fine-tune  {source}, by default with\n"
                                 r" +optim.lr = 2e-05 \(from scratch: 0.0006\)\n"
                                 rf" +optim.warmup_steps = \d+, 3% of {steps} steps \(from scratch: 0\)\n"
                                 r" +train.epochs = 1 \(from scratch: train.steps = 1000\)\n"
                                 rf" +train.seq_len = {context}, the model's context\n"
                                 r" +checkpoint.every_minutes = 30, and a checkpoint at the end \(from scratch: none\)\n")
                self.assertIn("/tokenizer.json (byte-level BPE", said)
                options = ini(run)
                self.assertEqual([options[name] for name in ("optim.lr", "optim.warmup_steps", "train.epochs",
                                                                  "train.seq_len", "checkpoint.every_minutes")],
                                 ["2e-05", str(int(0.03 * steps + 0.5)), "1", str(context), "30"])
                self.assertNotIn("train.steps", options)
                # One pass over nine tenths of the text.
                epochs = float(re.search(r"= ([\d.]+) epochs", said)[1])
                self.assertTrue(1 <= epochs < 1 + 8 / steps + 0.005, said)
                # plan and a repetition see the same.
                for words in ([run], command[:1]):
                    self.assertIn(f"4 sequences of {context}", self.do("plan", *words, "--plan.ranks=2").out)
                self.train(run / "config.ini", f"--run.dir={run}-again", ranks=2)
                self.assertEqual(logged(run), logged(f"{run}-again"))
                # Nothing is left to do, and nothing has changed.
                again = self.train(*command, *where, "--checkpoint.resume=auto", ranks=2).out
                self.assertIn("done       nothing", again)
                self.assertNotIn("changed    ", again)
                shutil.rmtree(source)
                self.assertEqual(self.export(run, f"{family}-hf"),
                                 {"config.json", "generation_config.json", "model.safetensors", "special_tokens_map.json",
                                  "tokenizer.json", "tokenizer_config.json"})
                config = json.loads((self.folder / f"{family}-hf" / "config.json").read_text())
                self.assertEqual(config["eos_token_id"], END_OF_TEXT[family])
                texts = [self.do("generate", folder, "--generate.prompt=The", "--generate.max_tokens=9",
                                 "--generate.temperature=0", "--run.threads=1").out for folder in (run, f"{family}-hf")]
                self.assertTrue(texts[0].startswith("The"))
                self.assertEqual(texts[0], texts[1])

    def test_the_tokenizer_of_another_folder_is_exported(self):
        source = hugging_face_folder(self.folder / "source", "gpt2", tokenizer=False)
        (source / "vocab.json").write_text("{}")  # of another tokenizer: must not be mixed with the named one
        words = shutil.copytree(REFERENCE / "tokenizers" / "llama3", self.folder / "words")
        (words / "tokenizer_config.json").write_text('{"eos_token": "<|end_of_text|>"}')
        where = [f"--data.source={TEXTS}", "--data.cache=cache", "--run.threads=1", f"--data.tokenizer={words}"]
        self.train("--model.from=source", "--train.steps=2", "--run.dir=run", *where)
        self.train(*TINY, "--model.vocab=800", "--checkpoint.every=3", "--run.dir=scratch", *where)
        for path in (source, words):
            shutil.rmtree(path)
        given = {"config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json"}
        self.assertEqual(self.export("run", "run-hf"), given | {"generation_config.json"})
        self.assertEqual(self.export("scratch", "scratch-hf"), given)
        for run in ("run", "scratch"):
            self.assertEqual((self.folder / f"{run}-hf" / "tokenizer.json").read_bytes(),
                             (REFERENCE / "tokenizers" / "llama3" / "tokenizer.json").read_bytes())
            for folder in (run, f"{run}-hf"):
                self.assertTrue(self.do("generate", folder, "--generate.prompt=a", "--generate.max_tokens=3").out.startswith("a"))
        # A run is a base model like any other; its text goes through its tokenizer.
        more = self.train("--model.from=scratch", *where[:3], "--train.steps=2", "--run.dir=onward").out
        self.assertIn("named_tokenizer/tokenizer.json (byte-level BPE", " ".join(more.split()))
        self.assertRegex(more, r"fine-tune  scratch, by default with\n +optim.lr = 2e-05")

    def test_a_run_on_bytes_is_fine_tuned_on_bytes(self):
        self.train(*TINY, f"--data.source={TEXTS / 'a.txt'}", "--run.dir=base", "--checkpoint.every=3")
        self.train("--model.from=base", f"--data.source={TEXTS}", "--data.cache=cache", "--train.steps=2",
                   "--run.dir=tuned", "--run.threads=1", ranks=2)
        self.assertEqual(ini(self.folder / "tuned")["data.tokenizer"], "bytes")
        self.assertEqual(self.export("tuned", "tuned-hf"), {"config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json"})
        # Given options are taken as they are, and a context of 0 means the whole one.
        job = self.train("--model.from=base", f"--data.source={TEXTS / 'a.txt'}", "--train.steps=2", "--optim.lr=1e-3",
                         "--optim.warmup_steps=0", "--train.seq_len=0", "--checkpoint.every=0", "--run.dir=given")
        self.assertNotIn("fine-tune", job.out)
        self.assertFalse((self.folder / "given" / "checkpoints").exists())
        self.refused("train", "--model.from=base", f"--data.source={TEXTS}", "--optim.min_lr=1e-4",
                     says=r"optim.min_lr = 0.0001 is above optim.lr = 2e-05, the default with model.from")

    def test_a_long_context_is_cut_to_1024(self):
        self.train(*TINY, "--model.context=2048", "--train.seq_len=16", "--data.synthetic_tokens=20000",
                   "--train.steps=1", "--checkpoint.every=1", "--run.dir=base")
        said = self.train("--model.from=base", "--data.synthetic_tokens=15000", "--train.micro_batch=1", "--train.steps=1",
                          "--run.dir=tuned").out
        self.assertIn("train.seq_len = 1024 (from scratch: the model's context of 2048)", said)
        self.assertEqual(ini(self.folder / "tuned")["train.seq_len"], "1024")
        self.assertIn("4 sequences of 1024", self.do("plan", "--model.from=base", "--plan.ranks=1").out)
        self.assertIn("4 sequences of 2048", self.do("plan", "--model.from=base", "--plan.ranks=1", "--train.seq_len=0").out)


if __name__ == "__main__":
    main()
