"""tessera-report --tensorboard: TensorBoard's own reader finds the rows of the metrics, also where they grow or are done again.

Skipped where TESSERA_TENSORBOARD does not have the package; the message without it is always tested.
"""
import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import numpy as np

from reporting import ROOT, Report, write_metrics

PACKAGE = Path(os.environ.get("TESSERA_TENSORBOARD", "none"))
# The package brings a numpy that Debian's h5py cannot take, so it comes last.
REPORT = "import sys; sys.path.append(sys.argv.pop(1)); from tessera_report.cli import main; sys.exit(main())"
READER = """
import json, sys
sys.path.append(sys.argv[1])
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
events = EventAccumulator(sys.argv[2], size_guidance={"scalars": 0})
events.Reload()
json.dump({tag: [(one.step, one.value, one.wall_time) for one in events.Scalars(tag)] for tag in events.Tags()["scalars"]}, sys.stdout)
"""


def steps(first, last, loss):
    number = np.arange(first, last + 1)
    return {"step": number, "loss": loss + 0.1 * number, "unix_time": 1.7e9 + 10 * loss + number,
            "time/forward": np.where(number % 2 == 0, np.nan, 0.25)}


class TensorBoard(unittest.TestCase):
    def setUp(self):
        self.folder = Path(tempfile.mkdtemp(prefix="tessera-report-tensorboard-"))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        self.run_folder, self.events = self.folder / "some", self.folder / "events"

    def python(self, script, *arguments):
        return subprocess.run([sys.executable, "-B", "-c", script, PACKAGE, *arguments], check=False, capture_output=True,
                              text=True, env={**os.environ, "PYTHONPATH": str(ROOT / "postprocess")}, timeout=120)

    def report(self, *arguments):
        done = self.python(REPORT, self.run_folder, "--tensorboard", self.events, *arguments)
        self.assertEqual((done.returncode, done.stderr), (0, ""), done.stdout)
        self.assertIn(f"written    {self.events / 'some'}\n", done.stdout)
        return sorted((self.events / "some").iterdir())

    def read(self):
        """What TensorBoard reads: tag -> [(step, value, time)]."""
        done = self.python(READER, self.events / "some")
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)

    def write(self, name, columns, evals=None):
        write_metrics(self.run_folder / name, columns, evals or {})

    def check(self, *attempts):
        """The events are the rows of (steps, how many of them count), as fp32."""
        events = self.read()
        for name in ("loss", "time/forward"):
            rows = [(int(step), float(np.float32(value)), time) for columns, count in attempts
                    for step, value, time in zip(columns["step"][:count], columns[name], columns["unix_time"]) if np.isfinite(value)]
            self.assertEqual([tuple(row) for row in events[f"train/{name}"]], rows, name)
        self.assertNotIn("train/unix_time", events)
        return events

    def test_without_the_package_the_message_says_what_to_install(self):
        self.write("metrics.h5", steps(1, 2, 1))
        (self.folder / "broken/tensorboard").mkdir(parents=True)  # a folder that is not the package
        done = subprocess.run([sys.executable, "-B", ROOT / "postprocess/report.py", self.run_folder, "--tensorboard", self.events],
                              check=False, capture_output=True, text=True, timeout=120,
                              env={**os.environ, "PYTHONPATH": str(self.folder / "broken")})
        self.assertEqual((done.returncode, done.stdout, self.events.exists()), (2, "", False), done.stderr)
        self.assertRegex(done.stderr, r"^tessera-report: --tensorboard needs the package tensorboard, which \S+ does not have .*\. "
                         r"Install it .* && tensorboard-env/bin/pip install tensorboard; then run the report with \S+\n$")

    def test_without_a_run_there_is_nothing_to_export(self):
        report = Report("--tensorboard", self.events, "--compare", "a", "b")
        self.assertEqual(report.code, 2)
        self.assertIn("--tensorboard, --wandb and --baseline need a RUN_OR_SWEEP", report.err)

    @unittest.skipUnless((PACKAGE / "tensorboard").is_dir(), f"there is no TensorBoard in {PACKAGE}")
    def test_rows_are_appended_as_a_run_goes_on_and_replaced_where_it_does_steps_again(self):
        first = steps(1, 6, 4)
        self.write("metrics.h5", {name: column[:4] for name, column in first.items()}, {"eval/step": [2], "eval/loss": [3.0]})
        self.assertEqual(len(self.report()), 1)
        self.check((first, 4))
        evals = {"eval/step": [2, 4], "eval/loss": [3.0, 2.5], "eval/far/step": [2, 4], "eval/far/loss": [3.5, 3.25]}
        self.write("metrics.h5", first, evals)
        self.assertEqual(len(self.report()), 2)
        events = self.check((first, 6))
        self.assertEqual([row[:2] for row in events["eval/loss"]], [[2, 3.0], [4, 2.5]])
        self.assertEqual([row[:2] for row in events["eval/far/loss"]], [[2, 3.5], [4, 3.25]])
        sizes = [file.stat().st_size for file in self.report()]
        self.assertEqual([file.stat().st_size for file in self.report()], sizes)  # nothing is new
        again = steps(4, 5, 9)
        self.write("metrics.1.h5", again)
        self.write("metrics.h5", {name: column[:3] for name, column in first.items()}, {"eval/step": [2], "eval/loss": [3.0]})
        self.assertEqual(len(self.report()), 3)
        self.check((first, 3), (again, 2))

    @unittest.skipUnless((PACKAGE / "tensorboard").is_dir(), f"there is no TensorBoard in {PACKAGE}")
    def test_a_folder_that_cannot_be_written_is_an_error(self):
        self.write("metrics.h5", steps(1, 2, 1))
        self.events.write_text("in the way")
        done = self.python(REPORT, self.run_folder, "--tensorboard", self.events)
        self.assertEqual(done.returncode, 4, done.stdout)
        self.assertRegex(done.stderr, r"^tessera-report: cannot write \S+/events/some \(\S.*\)\n$")


if __name__ == "__main__":
    unittest.main(verbosity=2)  # says why a test is skipped
