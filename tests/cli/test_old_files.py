"""What an earlier release left still serves: its run goes on, its corpus, sweep, prices and algorithms are read.

tests/reference/files_8648f0ae.tar.xz holds the files, made by make_old_files.sh next to it.
"""
import json
import os
import subprocess
import sys
import tarfile
import unittest
from pathlib import Path

from job import REFERENCE, Case, main, status
from running import history

EMULATED = os.environ.get("TESSERA_EMULATED")
REPORT = Path(__file__).parents[2] / "postprocess" / "report.py"


class OldFiles(Case):
    def setUp(self):
        super().setUp()
        with tarfile.open(REFERENCE / "files_8648f0ae.tar.xz") as archive:
            archive.extractall(self.folder)
        self.folder /= "old"
        sweep = self.folder / "study/sweep.json"  # names its file by an absolute path
        sweep.write_text(sweep.read_text().replace("/FOLDER", str(self.folder)))

    def losses(self, run):
        return dict(history(self.folder / run))

    def assert_as_whole(self, run):
        """The twelve steps of `run` have the losses that the earlier release computed; another processor may round
        differently."""
        losses, expected = self.losses(run), self.losses("whole")
        self.assertEqual(sorted(expected), list(range(1, 13)))
        self.assertEqual(losses.keys(), expected.keys())
        for step, loss in expected.items():
            self.assertAlmostEqual(losses[step], loss, delta=2e-5 * loss, msg=f"step {step}")
        self.assertEqual(status(self.folder / run)["state"], "finished")

    def test_its_options_start_a_run(self):
        job = self.train("run/config.ini", "--run.dir=again", "--comm.emulate=none", ranks=2)
        self.assertEqual(job.err.count("dropped "), 1, "one line, of one rank")
        self.assertIn("shard.persistence_threshold = 0", job.err)
        self.assert_as_whole("again")

    def test_a_stopped_run_goes_on(self):
        self.assertEqual(status(self.folder / "run")["state"], "stopped")
        job = self.train("run/config.ini", "--run.dir=run", "--checkpoint.resume=auto", "--comm.emulate=none", ranks=2)
        self.assertRegex(job.out, r"(?m)^resume .*step \d")
        self.assert_as_whole("run")

    def test_its_checkpoint_serves_another_world_and_strategy(self):
        self.train("run/config.ini", "--run.dir=other", "--checkpoint.resume=run/checkpoints/step-00000004",
                   "--shard.strategy=ddp", "--train.accumulation=2", "--comm.emulate=none")
        expected = self.losses("whole")
        losses = self.losses("other")
        self.assertEqual(sorted(losses), list(range(5, 13)))
        for step, loss in losses.items():
            self.assertAlmostEqual(loss, expected[step], delta=2e-5 * loss, msg=f"step {step}")

    def test_other_commands_read_its_run(self):
        evaluated = self.do("eval", "run/checkpoints/step-00000004", "--data.val_source=text/sums.jsonl", "--eval.format=json")
        self.assertGreater(json.loads(evaluated.out.splitlines()[-1])["loss"], 5)
        for words in (["verify", "run/checkpoints/step-00000004"], ["inspect", "run/checkpoints/step-00000004"],
                      ["export", "run/checkpoints/step-00000004", "exported"],
                      ["generate", "run", "--generate.prompt=What is", "--generate.max_tokens=5"]):
            self.do(*words)
        self.assertTrue((self.folder / "exported/model.safetensors").exists())

    def test_its_prepared_tokens_train(self):
        train = ["--data.source=tokens.bin", "--train.steps=3", "--run.threads=1", "--train.seq_len=32", "--model.vocab=719"]
        self.assertIn("documents  400", self.job("data", "inspect", "tokens.bin").out)
        for mask in ("true", "false"):
            job = self.train(*train, f"--run.dir=bin-{mask}", f"--data.document_mask={mask}")
            self.assertIn("loss       over 54% of the tokens", job.out)

    def test_its_sweep_goes_on_and_is_reported(self):
        job = self.do("sweep", "study.ini", "--sweep.dir=study", "--sweep.action=run")
        self.assertIn("1 of 2 rows to run", job.out)
        report = subprocess.run([sys.executable, REPORT, "study", "run", "--html", "page.html", "--json", "rows.json"], cwd=self.folder,
                                capture_output=True, text=True)
        self.assertEqual(report.returncode, 0, report.stderr)
        rows = {Path(row["row"]).name: row for row in json.loads((self.folder / "rows.json").read_text())}
        self.assertEqual(rows.keys(), {"1-ddp", "1-zero3", "run"})
        self.assertEqual(rows["1-ddp"]["final_loss"], rows["1-zero3"]["final_loss"])

    def test_its_prices_predict_the_same(self):
        job = self.do("plan", "--model.preset=gpt2-124m", "--plan.ranks=2", "--plan.cluster=h100.ini", "--precision.compute=bf16",
                      "--precision.reduce=bf16", "--plan.format=json")
        plan, expected = json.loads(job.out), json.loads((self.folder / "plan.json").read_text())
        self.assertAlmostEqual(plan["prediction"]["step_seconds"], expected["prediction"]["step_seconds"], delta=1e-9)
        self.assertLessEqual(plan["memory"]["to_allocate"], expected["memory"]["to_allocate"])

    @unittest.skipUnless(EMULATED, "needs the emulated GPU, which is built where a CUDA toolkit is found")
    def test_its_algorithms_are_run(self):
        job = subprocess.run([EMULATED, "train", "--run.device=cuda", "--run.deterministic=true", "--model.layers=1", "--model.width=16",
                              "--model.heads=2", "--model.context=16", "--train.micro_batch=2", "--train.steps=2",
                              "--data.synthetic_tokens=5000", f"--run.algorithms={REFERENCE}/algorithms_8648f0ae.txt", "--run.dir=gpu"], cwd=self.folder,
                             capture_output=True, text=True)
        self.assertEqual(job.returncode, 0, job.stdout + job.stderr)
        self.assertRegex((self.folder / "gpu/config.ini").read_text(), r"(?m)^algorithms_hash = [0-9a-f]{16}")


if __name__ == "__main__":
    main()
