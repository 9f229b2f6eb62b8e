"""Runs that end badly: their files can be read, the exit code gives the reason, and no rank hangs."""
import json
import os
import signal
import subprocess

import h5py
import numpy as np

from job import TIMEOUT, TINY, Case, command, main, status

ENDLESS = ["train", "--run.dir=run"] + TINY + ["--train.steps=1000000", "--metrics.every=1", "--train.eval_every=50"]
DIVERGES = TINY + ["--train.steps=50", "--optim.lr=1e6", "--optim.weight_decay=1e6", "--optim.clip=0"]


class Killed(Case):
    """A job that is ended from outside. (tests/faults kills single ranks.)"""

    def start(self, ranks):
        running = self.running(ENDLESS, ranks)
        running.wait_for(lambda: self.rows_written() >= 100, "steps")
        return running

    def rows_written(self):
        """The number of steps that a reader of the running job sees; 0 before there is a file."""
        try:
            with h5py.File(self.folder / "run" / "metrics.h5", "r", swmr=True) as file:
                return min(len(data) for data in file["steps"].values() if isinstance(data, h5py.Dataset))
        except OSError:
            return 0

    def check_files(self):
        """Rows that had time to be written are there and agree with the log, line by line. Returns the state of the run."""
        lines = [json.loads(line) for line in (self.folder / "run" / "log.jsonl").read_text().splitlines()]
        logged = {line["step"]: line["loss"] for line in lines if "loss" in line}
        with h5py.File(self.folder / "run" / "metrics.h5", "r", swmr=True) as file:
            columns = {name: data[...] for name, data in file["steps"].items() if isinstance(data, h5py.Dataset)}
        rows = min(map(len, columns.values()))
        self.assertGreaterEqual(rows, 100)
        np.testing.assert_array_equal(columns["step"][:rows], np.arange(1, rows + 1))
        for step, loss in zip(columns["step"][:rows], columns["loss"][:rows]):
            self.assertEqual(loss, logged.get(int(step), loss))
        return status(self.folder / "run")["state"]

    def test_a_killed_single_process(self):
        running = self.start(0)
        running.process.kill()
        running.end()
        self.assertEqual(self.check_files(), "running")

    def test_an_interrupted_job(self):
        for number in (signal.SIGINT, signal.SIGTERM):
            with self.subTest(number):
                running = self.start(2)
                running.process.send_signal(number)
                code, output = running.end()
                self.assertNotEqual(code, 0, output)
                # mpirun gives its ranks a second, which may or may not be enough to stop with a checkpoint.
                state = self.check_files()
                self.assertIn(state, ("running", "failed", "stopped"))
                if state == "stopped":
                    step = status(self.folder / "run")["step"]
                    self.assertTrue((self.folder / "run" / "checkpoints" / f"step-{step:08}" / "manifest.json").is_file())
            os.rename(self.folder / "run", self.folder / f"interrupted-{number}")


class Numerical(Case):
    """Weights that grow without bound."""

    def test_every_rank_ends_with_3_and_one_speaks(self):
        inner = " ".join(command(["train", "--run.dir=run"] + DIVERGES))
        # mpiexec ends the other shells soon after the first one is gone: each waits until all have written their codes.
        there = " && ".join(f"test -s code.{rank}" for rank in range(3))
        script = (f"trap '' TERM; {inner}; code=$?; echo $code >code.$OMPI_COMM_WORLD_RANK; "
                  f"for i in $(seq 200); do {there} && break; sleep 0.1; done; exit $code")
        done = subprocess.run([os.environ["MPIEXEC"], "-n", "3", "sh", "-c", script], cwd=self.folder, timeout=TIMEOUT,
                              capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False)
        self.assertEqual(done.returncode, 3, done.stderr)
        self.assertEqual([(self.folder / f"code.{rank}").read_text() for rank in range(3)], ["3\n"] * 3)
        said = [line for line in done.stderr.splitlines() if line.startswith("tessera: ")]
        self.assertEqual(len(said), 1, done.stderr)
        self.assertRegex(said[0], r"step \d+: the loss is \S+ and the gradient norm \S+ .*optim\.lr")

    def test_what_is_left(self):
        for ranks in (0, 2):
            self.train("--run.dir=run", *DIVERGES, ranks=ranks, code=3)
            said = status(self.folder / "run")
            self.assertEqual((said["state"], said["code"]), ("failed", 3))
            self.assertIn("optim.lr", said["message"])
            with h5py.File(self.folder / "run" / "metrics.h5", "r", swmr=True) as file:
                self.assertEqual(len(file["steps/loss"]), said["step"])
                self.assertTrue(np.isfinite(file["steps/loss"][...]).all())
            os.rename(self.folder / "run", self.folder / f"run-{ranks}")


class Disk(Case):
    """A file system that takes no more: files may have 40 MiB, the dump needs 50."""

    LIMIT = ["bash", "-c", "ulimit -f 40960; exec \"$@\"", "limit"]

    def test_a_dump_that_does_not_fit(self):
        words = self.LIMIT + command(["train", "--run.dir=run"] + TINY + ["--model.vocab=200000", "--run.dump=2"])
        done = subprocess.run(words, cwd=self.folder, timeout=TIMEOUT, capture_output=True, text=True, check=False,
                              stdin=subprocess.DEVNULL)
        self.assertEqual(done.returncode, 4, done.stdout + done.stderr)
        said = done.stderr.splitlines()
        self.assertEqual(len(said), 1, done.stderr)
        self.assertRegex(said[0], r"tessera: .*dump-00000002\.h5")
        self.assertEqual((status(self.folder / "run")["state"], status(self.folder / "run")["code"]), ("failed", 4))
        self.assertEqual([p.name for p in (self.folder / "run").glob("dump*")], [])


if __name__ == "__main__":
    main()
