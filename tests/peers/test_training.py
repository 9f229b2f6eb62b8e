"""pytorch_train.py against Tessera step by step, going on from a checkpoint, and its refusals."""
import json
import re
import shutil

import h5py

from with_torch import PeerCase, run_tests, steps

SIZES = {"vocab": 300, "context": 32, "width": 32, "layers": 2, "heads": 2, "ffn_width": 80}
MODEL = [word for name, size in SIZES.items() for word in (f"--{name.replace('_', '-')}", size)]
OURS = [f"--model.{name}={size}" for name, size in SIZES.items()]
TOKENS = 5000
BATCH = ["--micro-batch", 2, "--accumulation", 2, "--seq-len", 32, "--lr", "2e-3"]


class SameAsTessera(PeerCase):
    def tessera(self, *words):
        """A run of Tessera over synthetic text, and the text as a token file."""
        data = [f"--data.synthetic_tokens={TOKENS}", *OURS, *[word for word in words if word.startswith(("--data", "--model"))]]
        (self.folder / "tokens.ini").write_text('[sweep.row copy]\nkind = command\ncommand = cp {tokens} "{run}/metrics.json"\n')
        job = self.job("sweep", "tokens.ini", "--sweep.action=run", "--sweep.dir=text", *data)
        self.assertEqual(job.code, 0, job.everything())
        (self.folder / "text/copy/run/metrics.json").rename(self.folder / "tokens.bin")
        self.train(*data, "--run.dir=ours", "--run.device=cpu", "--train.micro_batch=2", "--train.accumulation=4", "--train.seq_len=32",
                   "--optim.lr=2e-3", *[word for word in words if not word.startswith(("--data", "--model"))])

    def assert_same_losses(self, run, most):
        ours, theirs = (steps(self.folder / folder, "step", "loss", "grad_norm", "lr") for folder in ("ours", run))
        self.assertEqual([row[0] for row in theirs], [row[0] for row in ours])
        distance = max(abs(other[i] / own[i] - 1) for own, other in zip(ours, theirs) for i in (1, 2, 3))
        self.assertLess(distance, most)
        print(f"long: {run} {len(ours)} steps, largest relative distance of loss, norm and rate {distance:.1e}")

    def test_the_same_seed_order_and_epochs(self):
        self.tessera("--model.family=gpt2", "--train.epochs=1.3", "--data.order=shuffled", "--data.seed=5", "--run.seed=9",
                     "--optim.schedule=cosine", "--optim.warmup_steps=3", "--optim.min_lr=1e-4", "--data.val_fraction=0.1")
        self.peer("--source", "tokens.bin", "--family", "gpt2", *MODEL, *BATCH, "--epochs", "1.3", "--order", "shuffled", "--data-seed", 5,
                  "--seed", 9, "--schedule", "cosine", "--warmup-steps", 3, "--min-lr", "1e-4", "--val-fraction", "0.1", "--run-dir", "theirs",
                  "--strategy", "fsdp1", "--wrap", "size", "--min-params", "10K", "--activation-checkpointing", "block", "--ranks", 2)
        self.assert_same_losses("theirs", 1e-5)
        self.assert_same_facts()
        with h5py.File(self.folder / "theirs/metrics.h5") as file:
            self.assertEqual(file["config"].attrs["shard.limit_all_gathers"], "2", "as Tessera counts them")

    def assert_same_facts(self):
        """/model says the same as Tessera's, and every dataset that both have is of one type."""
        with h5py.File(self.folder / "ours/metrics.h5") as own, h5py.File(self.folder / "theirs/metrics.h5") as other:
            facts = [name for name in own["model"].attrs if not name.startswith(("device_peak", "validation"))]  # it evaluates nothing
            self.assertEqual({name: other["model"].attrs[name] for name in facts}, {name: own["model"].attrs[name] for name in facts})
            common = [name for name in (f"steps/{name}" for name in own["steps"]) if isinstance(own[name], h5py.Dataset)]
            common += ["memory/process/measured", "ranks/report", "ranks/steps", "ranks/memory/peak", "ranks/memory/average"]
            self.assertEqual({name: other[name].dtype for name in common}, {name: own[name].dtype for name in common})
            self.assertGreater(other["ranks/memory/peak"][-1].min(), 1e6)
            spent = sum(other[f"steps/time/{name}"][:] for name in ("data", "forward", "backward", "optimizer"))
            self.assertLess(abs(spent / other["steps/seconds"][:] - 1).max(), 0.05)

    def test_an_exported_folder_and_qwen2(self):
        """The way to Tessera's first weights: a step with a learning rate of zero, exported."""
        family = ["--model.family=qwen2", "--model.kv_heads=1"]
        self.train(*OURS, *family, "--run.dir=first", "--run.device=cpu", "--train.steps=1", "--optim.lr=0", "--checkpoint.every=1")
        self.assertEqual(self.job("export", "first", "weights").code, 0)
        self.tessera(*family, "--train.steps=12", "--data.order=sequential", "--data.val_fraction=0", "--optim.schedule=constant")
        for run, model in (("folder", ["--from", "weights"]), ("seed", ["--family", "qwen2", "--kv-heads", 1, *MODEL])):
            self.peer("--source", "tokens.bin", *model, *BATCH, "--steps", 12, "--accumulation", 4, "--run-dir", run)
            self.assert_same_losses(run, 1e-5)


class GoingOn(PeerCase):
    def test_a_resumed_run_is_the_uninterrupted_one(self):
        (self.folder / "tokens.bin").write_bytes(bytes(range(256)) * 40)
        words = ["--source", "tokens.bin", "--preset", "nano", *BATCH, "--vocab", 65536, "--width", 16, "--layers", 2, "--strategy", "fsdp1",
                 "--ranks", 2, "--wrap", "size", "--min-params", "2K", "--activation-checkpointing", "block", "--precision", "bf16",
                 "--checkpoint-every", 3, "--steps", 7]
        self.peer(*words, "--run-dir", "a")
        again = self.folder / "b"
        shutil.copytree(self.folder / "a", again)
        for later in (6, 7):  # as a run that was killed in step 6
            shutil.rmtree(again / f"checkpoints/step-{later:08d}")
        done = self.peer(*words, "--run-dir", "b", "--resume", "auto")
        self.assertRegex(done.stdout, r"resume +step 3 of")
        columns = ("step", "loss", "grad_norm", "lr")
        self.assertEqual(steps(again, *columns), steps(self.folder / "a", *columns))
        self.assertEqual([path.name for path in sorted(again.glob("metrics*.h5"))], ["metrics.1.h5", "metrics.h5"])
        lines = [json.loads(line) for line in (self.folder / "a/log.jsonl").read_text().splitlines()]
        self.assertEqual([tuple(line[name] for name in columns) for line in lines], [*map(tuple, steps(self.folder / "a", *columns))])
        self.assertIn("all 7 steps are done", self.peer(*words, "--run-dir", "b", "--resume", "auto").stdout)
        refused = self.peer(*words, "--run-dir", "b", "--resume", "auto", "--seed", 2, code=1)
        self.assertRegex(refused.stderr, r"--resume b/checkpoints/step-0+7: it was trained with --seed 1, this run with --seed 2")
        self.assertRegex(self.peer(*words, "--run-dir", "b", code=1).stderr, "--run-dir b holds a run: --resume auto")


class Refusals(PeerCase):
    CASES = [
        (["--family", "llama", "--width", 32], "--family llama needs --layers, --heads, --vocab, --context"),
        (["--preset", "nano", "--heads", 3], "--width 128 is no multiple of --heads 3"),
        (["--preset", "nano", "--seq-len", 512], "--seq-len 512 is longer than the model's context 256"),
        (["--preset", "nano", "--vocab", 100], r"it has a token 255 \(the model's vocabulary is 100\)"),
        (["--from", "."], "it has no config.json"),
        (["--preset", "nano", "--epochs", "many"], "--epochs many: a number above 0"),
    ]

    def test_what_cannot_be(self):
        (self.folder / "tokens.bin").write_bytes(b"".join((255 - i % 256).to_bytes(2, "little") for i in range(1024)))
        for words, says in self.CASES:
            with self.subTest(words):
                done = self.peer("--source", "tokens.bin", *words, code=1)
                self.assertTrue(re.search(says, done.stderr), done.stderr)
                self.assertNotIn("Traceback", done.stderr)


if __name__ == "__main__":
    run_tests(at_once=1)
