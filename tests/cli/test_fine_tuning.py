"""Fine-tuning as a user starts it: one command on a Hugging Face folder and a folder of text, then export and generate."""
import ast
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from hub_folder import END_OF_TEXT, FAMILIES, hugging_face_folder
from job import REFERENCE, TINY, Case, Job, main
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
                epochs = float(re.search(r"=\s+([\d.]+)\s+epochs", said)[1])
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


CHATML = ("{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
          "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}")


def write_chats(file, numbers):
    """Conversations about sums."""
    file.write_text("".join(json.dumps({"messages": [
        {"role": "user", "content": f"{a} + {a + 1}?"}, {"role": "assistant", "content": f"{2 * a + 1}"},
        {"role": "user", "content": "Sure?"}, {"role": "assistant", "content": "Yes."}]}) + "\n" for a in numbers))


class FromChatsToAModel(Case):
    """The ten commands of docs/manual/fine-tuning.md, as they stand there. TESSERA_TRANSFORMERS_PYTHON names a Python with
    Transformers for the last, which is skipped without it."""

    def setUp(self):
        super().setUp()
        model = hugging_face_folder(self.folder / "FOLDER", "qwen2")
        config = json.loads((model / "config.json").read_text())
        (model / "config.json").write_text(json.dumps(config | {"max_position_embeddings": 256}))
        (model / "chat_template.jinja").write_text(CHATML)
        (model / "tokenizer_config.json").write_text(json.dumps({"eos_token": "<|im_end|>", "tokenizer_class": "Qwen2TokenizerFast"}))
        (model / "generation_config.json").write_text(json.dumps({"eos_token_id": [715, 713], "max_new_tokens": 12}))
        write_chats(self.folder / "chats.jsonl", range(0, 400, 2))
        write_chats(self.folder / "held_out.jsonl", range(1, 80, 2))

    def run_command(self, command):
        names = {"tessera": os.environ["TESSERA"], "mpiexec": os.environ["MPIEXEC"], "python3": sys.executable,
                 "postprocess/report.py": str(ROOT / "postprocess/report.py")}
        words = re.sub(r"(?<!\S)(tessera|mpiexec|python3|postprocess/report\.py)(?!\S)", lambda found: names[found[0]], command)
        done = subprocess.run(["bash", "-c", words], cwd=self.folder, capture_output=True, text=True, timeout=300)
        self.assertEqual(done.returncode, 0, f"{words}\n{done.stdout}\n{done.stderr}")
        return done.stdout

    def test_ten_commands(self):
        page = (ROOT / "docs/manual/fine-tuning.md").read_text()
        commands = re.findall(r"^ +```bash\n\s*(.*?)\n\s*```", page, re.S | re.M)  # of the numbered list
        self.assertEqual(len(commands), 10)
        said = [self.run_command(command) for command in commands[:9]]
        self.assertRegex(said[0], r"counted +\d\d\.\d% of \S+ tokens count, in 100\.0% of 200 conversations")
        self.assertIn("<|im_start|>assistant\\n[[1<|im_end|>]]\\n<|im_start|>user", said[1])
        self.assertRegex(said[2], r"(?m)^ *zero3 ")
        before, after = (float(re.search(r"loss +([\d.]+)", said[at])[1]) for at in (3, 6))
        self.assertLess(after, before)
        self.assertEqual(*(re.search(r"all [\d,]+ tokens \(\d+ windows", said[at])[0] for at in (3, 6)))
        self.assertRegex(said[4], r"packing +200 documents in \d+ samples")
        self.assertIn("<html", (self.folder / "runs/tuned.html").read_text())
        self.assertEqual({path.name for path in (self.folder / "tuned_folder").iterdir()},
                         {"chat_template.jinja", "config.json", "generation_config.json", "model.safetensors",
                          "special_tokens_map.json", "tokenizer.json", "tokenizer_config.json"})
        for name in "chat_template.jinja", "generation_config.json":
            self.assertEqual((self.folder / "tuned_folder" / name).read_text(), (self.folder / "FOLDER" / name).read_text())
        python = os.environ.get("TESSERA_TRANSFORMERS_PYTHON")
        if python is None:
            self.skipTest("the command of Transformers")
        shown = ast.literal_eval(self.run_command(commands[9].replace("python3", python, 1)))
        answer = shown[1]["content"].rstrip("\ufffd")  # of 12 tokens, the last of which may end within a character
        print("Transformers:", answer, flush=True)
        self.assertGreater(len(answer), 4)
        self.assertTrue(said[7].split("assistant\n", 1)[1].startswith(answer), said[7])

    def test_the_study(self):
        job = Job(["sweep", ROOT / "inputs/sweeps/fine_tuning.ini", "--sweep.action=run", "--model.from=FOLDER",
                   "--data.source=chats.jsonl", "--data.packing=documents", f"--sweep.dir={self.folder}/study"], cwd=self.folder,
                  timeout=300)
        self.assertEqual(job.code, 0, job.everything())
        losses = [logged(self.folder / "study" / row / "run") for row in ("full-1e-5", "full-5e-5")]
        self.assertEqual(losses[0][1], losses[1][1])  # of the same weights and text
        self.assertNotEqual(losses[0], losses[1])
        self.run_command("python3 postprocess/report.py study --html study.html")
        self.assertIn("validation loss", (self.folder / "study.html").read_text())


if __name__ == "__main__":
    main()
