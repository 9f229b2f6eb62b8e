"""Event files of metrics.tensorboard, read by TensorBoard's own reader; skipped where TESSERA_TENSORBOARD does not have it.

tests/run/test_event_file.cpp compares bytes without the package.
"""
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np

from job import SHORT, TINY, Case, main, write_text
from running import Running, checkpoints, history, ranks_of

PACKAGE = Path(os.environ.get("TESSERA_TENSORBOARD", "none"))
# The package brings its own numpy, which does not work with h5py, hence another process.
READER = """
import json, sys
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
events = EventAccumulator(sys.argv[1], size_guidance={"scalars": 0})
events.Reload()
json.dump({tag: [(one.step, one.value, one.wall_time) for one in events.Scalars(tag)] for tag in events.Tags()["scalars"]}, sys.stdout)
"""
RUN = [word for word in TINY if "train.steps" not in word] + SHORT + [
    "--run.dir=run", "--metrics.tensorboard=true", "--metrics.every=3", "--optim.schedule=constant", "--train.eval_every=2"]


class TensorBoard(Case):
    def setUp(self):
        super().setUp()
        self.run_folder = self.folder / "run"

    def read(self):
        """Scalars of the run: tag -> [(step, value, time)]."""
        done = subprocess.run([sys.executable, "-B", "-c", READER, self.run_folder / "tensorboard"], capture_output=True,
                              env={**os.environ, "PYTHONPATH": str(PACKAGE)}, timeout=60, check=False)
        self.assertEqual(done.returncode, 0, done.stderr.decode())
        return json.loads(done.stdout)

    def files(self):
        return sorted((self.run_folder / "tensorboard").iterdir())

    def check(self, events, tag, rows):
        """The events have the rows' steps, each once, and values as fp32."""
        self.assertEqual([(step, value) for step, value, _ in events[tag]],
                         [(step, float(np.float32(value))) for step, value in rows], tag)

    def test_scalars_are_those_of_the_metrics(self):
        write_text(self.folder / "near")
        write_text(self.folder / "far", seed=2)
        self.train(*(word for word in RUN if word not in SHORT), "--train.steps=7", "--data.source=near",
                   "--data.val_source=near:near,far:far", ranks=2)
        events = self.read()
        columns = ("loss", "grad_norm", "lr", "tokens_per_second", "seconds")
        self.assertEqual(set(events), {*(f"train/{name}" for name in columns), "eval/near/loss", "eval/far/loss"})
        for name in columns:
            self.check(events, f"train/{name}", history(self.run_folder, "steps", name))
        for name in ("near", "far"):
            self.check(events, f"eval/{name}/loss", history(self.run_folder, f"eval/{name}"))
        for (_, _, time), (_, row) in zip(events["train/loss"], history(self.run_folder, "steps", "unix_time")):
            self.assertAlmostEqual(time, row, delta=1)

    def test_a_run_that_goes_on_replaces_the_steps_that_it_does_again(self):
        self.train(*RUN, "--train.steps=6", "--checkpoint.every=2", "--metrics.every=100")
        self.train(*RUN, "--train.steps=5", "--optim.lr=0.01", "--checkpoint.resume=run/checkpoints/step-00000002")
        self.assertEqual(len(self.files()), 2)
        events = self.read()
        self.check(events, "train/loss", history(self.run_folder))
        self.assertEqual([step for step, _, _ in events["train/loss"]], [1, 2, 3, 4, 5])
        self.check(events, "eval/loss", history(self.run_folder, "eval"))

    def test_a_killed_run_leaves_whole_records(self):
        running = Running(["train", *RUN, "--train.steps=1000000", "--checkpoint.every=5", "--metrics.every=1000000"], 2,
                          self.folder)
        self.addCleanup(running.remove)
        running.wait_for(lambda: max(checkpoints(self.run_folder), default="") >= "step-00000010", "checkpoint")
        for rank in ranks_of(running.process).values():
            os.kill(rank, signal.SIGKILL)
        running.end()
        newest = int(checkpoints(self.run_folder)[-1][5:])
        steps = [step for step, _, _ in self.read()["train/loss"]]
        self.assertEqual(steps, list(range(1, len(steps) + 1)))
        self.assertGreaterEqual(len(steps), newest)
        file, = self.files()
        os.truncate(file, file.stat().st_size - 3)  # within the last record
        self.assertIn(len(self.read()["train/loss"]), (len(steps), len(steps) - 1))  # an evaluation's may be the last
        self.train(*RUN, f"--train.steps={newest + 4}", "--checkpoint.resume=auto", ranks=2)
        self.check(self.read(), "train/loss", history(self.run_folder))

    def test_files_that_cannot_be_written_cost_nothing(self):
        self.run_folder.mkdir()
        (self.run_folder / "tensorboard").write_text("in the way")
        job = self.train(*RUN, "--train.steps=2", "--checkpoint.resume=auto")
        self.assertRegex(job.err, r"warning: .*tensorboard.*: the run goes on without event files\n")
        self.assertEqual(len(history(self.run_folder)), 2)


if __name__ == "__main__":
    if not (PACKAGE / "tensorboard").is_dir():
        print(f"skipped: there is no TensorBoard in {PACKAGE} (pip install --target {PACKAGE} tensorboard)")
        sys.exit(77)
    main()
