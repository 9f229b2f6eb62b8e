"""Unreadable or senseless input ends with a sentence and an exit code: never a traceback."""
import math
import os
import random
import resource
import shutil
import subprocess
import sys
import unittest
from unittest import mock

import h5py
import numpy as np

from reporting import ROOT, Report, write_metrics
from job import SHORT, TINY, Case
import tessera_report.source

GOOD = {"step": [1, 2, 3], "loss": [3.0, 2.0, 1.0], "seconds": [1.0, 1.0, 1.0], "tokens_per_second": [9.0, 9.0, 9.0]}


class Damage(Case):
    def setUp(self):
        super().setUp()
        self.good = self.folder / "good"
        write_metrics(self.good / "metrics.h5", GOOD)

    def check(self, path, says, code=4):
        """Alone it ends with 4 and one sentence; with a good run, the good one is still reported."""
        for others in ([], [self.good]):
            report = Report(*others, path, json_file=self.folder / "out.json")
            self.assertEqual(report.code, code, report.out + report.err)
            self.assertNotIn("Traceback", report.err)
            self.assertEqual(len(report.err.splitlines()), 1, report.err)
            self.assertIn(says, report.err)
            if others:
                self.assertEqual(report.rows["good"]["final_loss"], 1.0)
                (self.folder / "out.json").unlink()

    def file(self, name, content):
        path = self.folder / name / "metrics.h5"
        path.parent.mkdir()
        path.write_bytes(content)
        return path.parent

    def test_missing(self):
        self.check(self.folder / "none", "none does not exist")
        (self.folder / "empty").mkdir()
        self.check(self.folder / "empty", "empty is neither a run (metrics.h5) nor a sweep (sweep.json)")

    def test_all_paths_that_hold_nothing_are_named(self):
        report = Report(self.good, self.folder / "x", self.folder / "y")
        self.assertEqual((report.code, [line.split("/")[-1] for line in report.err.splitlines()]),
                         (4, ["x does not exist", "y does not exist"]))

    def test_rows_that_a_full_disk_left_without_their_step_count_for_nothing(self):
        write_metrics(self.folder / "full/metrics.h5", {"step": [1, 2, -1], "loss": [3.0, 2.0, math.nan]},
                      groups={"eval/step": [2, -1], "eval/loss": [2.5, math.nan]})
        write_metrics(self.folder / "earlier/metrics.h5", {"step": [0, 0], "loss": [0.0, 0.0]})
        write_metrics(self.folder / "earlier/metrics.1.h5", GOOD)
        report = Report(self.folder / "full", self.folder / "earlier", json_file=self.folder / "out.json")
        self.assertEqual(report.code, 0, report.err)
        full, earlier = report.rows["full"], report.rows["earlier"]
        self.assertEqual((full["final_loss"], full["final_validation_loss"], full["steps"]), (2.0, 2.5, 2))
        self.assertEqual((earlier["best_loss"] if "best_loss" in earlier else earlier["final_loss"], earlier["steps"]), (1.0, 3))

    def test_no_hdf5(self):
        self.check(self.file("nothing", b""), "the file is empty")
        self.check(self.file("text", b"step,loss\n1,2\n"), "no HDF5 file")
        self.check(self.file("half", (self.good / "metrics.h5").read_bytes()[:3000]), "truncated file")

    def test_hdf5_of_another_program(self):
        with h5py.File(self.folder / "other.h5", "w") as file:
            file["temperature"] = [1.0, 2.0]
        self.check(self.folder / "other.h5", "no metrics of a run: no group /steps")
        path = write_metrics(self.folder / "newer/metrics.h5", GOOD)
        with h5py.File(path, "a") as file:
            file.attrs["format"], file.attrs["format_version"] = "tessera metrics", 9
        self.check(path.parent, "format_version 9: this reads 1")

    def test_datasets_of_another_kind(self):
        self.check(write_metrics(self.folder / "words/metrics.h5", {"loss": np.array([b"a", b"b"])}).parent, "/steps/loss is no list of numbers")
        self.check(write_metrics(self.folder / "table/metrics.h5", {"loss": [[1.0]]}).parent, "/steps/loss is no list of numbers")
        self.check(write_metrics(self.folder / "part/metrics.h5", {"step": [1.5], "loss": [1.0]}).parent, "/steps/step is no list of whole numbers")

    def test_json(self):
        for number, (text, says) in enumerate([("{", "is damaged"), ("[1]", "no metrics of a run"), ('{"/steps/loss": 3}', "/steps/loss is no list"),
                                               ('{"/steps/loss": ["a"]}', "/steps/loss is no list of numbers"), ("\xff", "is damaged")]):
            path = self.folder / f"json{number}" / "metrics.json"
            path.parent.mkdir()
            path.write_bytes(text.encode("latin-1"))
            self.check(path.parent, says)

    def test_sweep_files(self):
        for number, (text, says) in enumerate([("", "is damaged"), ("{}", "is damaged"), ('{"rows": [{}]}', "is damaged"), ('{"rows": []}', "without rows")]):
            folder = self.folder / f"sweep{number}"
            folder.mkdir()
            (folder / "sweep.json").write_text(text)
            self.check(folder, says)
        folder = self.folder / "status"
        (folder / "row").mkdir(parents=True)
        (folder / "sweep.json").write_text('{"rows": [{"name": "row"}]}')
        (folder / "row/status.json").write_text('{"status": ')
        self.check(folder, "status.json is damaged")

    def test_one_attempt_of_two(self):
        shutil.copytree(self.good, self.folder / "run")
        (self.folder / "run/metrics.1.h5").write_bytes(b"")
        report = Report(self.folder / "run", json_file=self.folder / "out.json")
        self.assertEqual((report.code, report.rows["run"]["steps"], report.rows["run"]["flags"]), (4, 3, ["unreadable"]))
        self.assertIn("metrics.1.h5 cannot be read (the file is empty)", report.err)

    def test_a_library_that_crashes(self):
        with mock.patch.object(tessera_report.source, "_read", lambda path: os.abort()):
            report = Report(self.good)
        self.assertEqual((report.code, report.err.count("\n")), (4, 1))
        self.assertIn("is damaged (the HDF5 library crashes on it)", report.err)

    def test_bytes_changed_at_random(self):
        """A real file, open for writing when its run was killed, with bytes changed, zeros in it, or its end missing."""
        self.train(*TINY, *SHORT, "--run.dir=run")
        good = (self.folder / "run/metrics.h5").read_bytes()
        draw = random.Random(7)
        for number in range(24):
            content = bytearray(good)
            place, size = draw.randrange(len(good)), draw.choice([16, 512, 4096])
            if number % 3 == 0:
                del content[place:]
            elif number % 3 == 1:
                content[place:place + size] = bytes(len(content[place:place + size]))
            else:
                for _ in range(40):
                    content[draw.randrange(len(content))] = draw.randrange(256)
            if number % 2 and len(content) > 11:
                content[11] = 5  # the superblock's flags: open for writing by SWMR
            self.file(f"r{number}", content)
        report = Report(self.good, *(self.folder / f"r{number}" for number in range(24)), "--csv", self.folder / "out.csv",
                        json_file=self.folder / "out.json")
        self.assertEqual(report.code, 4, report.err)
        self.assertEqual((len(report.rows), len(report.err.splitlines())), (25, 1))
        self.assertGreaterEqual(sum("unreadable" in row["flags"] for row in report.rows.values()), 8)
        self.assertEqual(report.rows["good"]["flags"], [])

    def test_losses_that_are_not_finite_and_columns_of_other_lengths(self):
        write_metrics(self.folder / "nan/metrics.h5", {**GOOD, "loss": [3.0, math.nan, math.inf]})
        write_metrics(self.folder / "short/metrics.h5", {**GOOD, "seconds": [1.0, 1.0]})
        write_metrics(self.folder / "none/metrics.h5", {name: np.array(values[:0]) if name != "step" else np.zeros(0, np.int64)
                                                        for name, values in GOOD.items()})
        report = Report(*(self.folder / name for name in ("nan", "short", "none")), "--plots", self.folder / "plots",
                        json_file=self.folder / "out.json")
        self.assertEqual((report.code, report.err), (0, ""))
        nan, short, none = report.rows.values()
        self.assertEqual((nan["final_loss"], nan["best_loss"], nan["best_loss_step"], nan["flags"]), (None, 3.0, 1, ["nan"]))
        self.assertEqual(report.cells()["nan"]["loss"], "not finite")
        self.assertEqual((short["steps"], short["final_loss"]), (2, 2.0))
        self.assertEqual((none["steps"], none["final_loss"], none["tokens_per_second"]), (0, None, None))


class Usage(Case):
    def test_usage(self):
        write_metrics(self.folder / "a/metrics.h5", GOOD)
        a = self.folder / "a"
        for arguments in ([], ["--nothing"], [a, "--every", "2"], [a, "--warmup", "-1"], [a, "--format", "pdf"], [a, "--bas", "a"],
                          ["--compare", a, a, "--csv", "x"], [a, "--baseline", "b"]):
            report = Report(*arguments)
            self.assertEqual(report.code, 2, f"{arguments}\n{report.err}")
        help_text = Report("--help")
        self.assertEqual(help_text.code, 0)
        for word in ("--baseline", "--csv", "--json", "--plots", "--compare", "Exit codes"):
            self.assertIn(word, help_text.out)
        self.assertIn("--compare b: no row (a) and no path of a run", Report(a, "--compare", "a", "b").err)

    def test_where_nothing_can_be_written(self):
        write_metrics(self.folder / "a/metrics.h5", GOOD)
        (self.folder / "file").write_text("")
        for option, path in (("--csv", "no/a.csv"), ("--json", "no/a.json"), ("--plots", "file/plots")):
            report = Report(self.folder / "a", option, self.folder / path)
            self.assertEqual(report.code, 4)
            self.assertRegex(report.err, r"^tessera-report: cannot write [^\n]+\n$")

    def test_a_full_disk(self):
        write_metrics(self.folder / "a/metrics.h5", GOOD)
        with open("/dev/full", "w") as full:
            done = subprocess.run([sys.executable, "-B", ROOT / "postprocess/report.py", self.folder / "a"], stdout=full,
                                  stderr=subprocess.PIPE, text=True)
        self.assertEqual((done.returncode, done.stderr), (4, "tessera-report: cannot write the report (No space left on device)\n"))

    def test_a_full_disk_leaves_no_part_of_a_file(self):
        write_metrics(self.folder / "a/metrics.h5", GOOD)
        page = self.folder / "page.html"
        for before in (None, "of before"):
            if before:
                page.write_text(before)
            done = subprocess.run([sys.executable, "-B", ROOT / "postprocess/report.py", self.folder / "a", "--html", page], capture_output=True,
                                  text=True, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096)))
            self.assertEqual(done.returncode, 4)
            self.assertRegex(done.stderr, r"^tessera-report: cannot write \S+page.html \(File too large\)\n$")
            self.assertEqual(page.read_text() if page.exists() else None, before)
            self.assertEqual([path.name for path in self.folder.glob("page*")], ["page.html"] if before else [])

    def test_an_interpreter_without_the_packages(self):
        write_metrics(self.folder / "a/metrics.h5", GOOD)
        for name, words in (("jinja2", ["--html", self.folder / "page.html"]), ("h5py", [])):
            (self.folder / f"{name}.py").write_text(f"raise ModuleNotFoundError('none', name='{name}')\n")
            done = subprocess.run([sys.executable, "-B", ROOT / "postprocess/report.py", self.folder / "a", *words], capture_output=True,
                                  text=True, env={**os.environ, "PYTHONPATH": str(self.folder)})
            self.assertEqual((done.returncode, done.stdout), (2, ""))
            self.assertRegex(done.stderr, rf"^tessera-report: \S+ has no {name}, which .+ \(none\)\. .+: apt-get install .*python3-{name}\b.*\n$")

    def test_a_reader_that_has_seen_enough(self):
        write_metrics(self.folder / "a/metrics.h5", GOOD)
        done = subprocess.run(f"'{sys.executable}' -B '{ROOT}/postprocess/report.py' a | true; exit ${{PIPESTATUS[0]}}", shell=True,
                              cwd=self.folder, executable="/bin/bash", capture_output=True, text=True)
        self.assertEqual((done.returncode, done.stderr), (0, ""))


if __name__ == "__main__":
    unittest.main(verbosity=2)
