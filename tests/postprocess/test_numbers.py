"""Every number of the table and of the JSON comes from a dataset: real runs, and the same numbers by h5py and numpy."""
import csv
import json
import os
import re
import shutil
import signal
import subprocess
import time
import unittest

import h5py
import numpy as np

from reporting import Report, write_metrics
from expected import RULES, Run
from job import SHORT, TINY, Case, command

TRAIN = [*TINY, *SHORT, "--train.eval_every=5", "--data.val_fraction=0.1"]
# Numbers that are not in metrics.h5 as such: status.json's, the sweep's, options.
NOT_TRACED = {"code", "repeats", "speedup", "seed", "data_seed"}
# The facts of a run on cores and of its ranks.
KNOWN = ("parameters", "tokens_per_step", "steps_per_epoch", "epoch_seconds", "flops_per_token_6n", "flops_per_token",
         "device_peak_flops", "mfu", "mfu_exact", "memory_peak", "memory_average", "load_average_start", "load_average_end")
# Cells of the terminal's table: column -> key of the row.
CELLS = {"ranks": "ranks", "tokens/s": "tokens_per_second", "speed-up": "speedup", "loss": "final_loss", "best": "best_loss",
         "validation": "final_validation_loss", "best val.": "best_validation_loss", "step": "step_seconds",
         "batch": "batch_seconds", "epoch": "epoch_seconds", "planned": "memory_planned", "peak": "memory_peak",
         "average": "memory_average", "exposed": "exposed_share", "data": "data_share", "MFU": "mfu", "MFU exact": "mfu_exact",
         "start-up": "startup_seconds"}
UNITS = {"": 1, "x": 1, "K": 1e3, "M": 1e6, "G": 1e9, "B": 1, "kB": 1e3, "MB": 1e6, "GB": 1e9, "us": 1e-6, "ms": 1e-3,
         "s": 1, "h": 3600, "%": 0.01}


def number(cell):
    """A cell as a number in base units, and half of its last digit."""
    minutes = re.fullmatch(r"(\d+) min (\d+) s", cell)
    if minutes:
        return 60 * int(minutes[1]) + int(minutes[2]), 0.5
    digits, unit = re.fullmatch(r"([-+]?[\d.]+) ?([A-Za-z%]*)", cell).groups()
    places = len(digits.partition(".")[2])
    return float(digits) * UNITS[unit], 0.5001 * 10.0**-places * UNITS[unit]


def logged_steps(path):
    return path.read_text().count("\n") if path.exists() else 0


class Traced(Case):
    def check(self, report, name, *files):
        """All numbers of a row, in JSON and on the terminal, against those of expected.py."""
        row, run = report.rows[name], Run(*files)
        expected = {key: float(rule(run)) for key, rule in RULES.items()}
        numbers = {key for key, value in row.items() if isinstance(value, (int, float)) and not isinstance(value, bool)}
        self.assertLessEqual(numbers, set(RULES) | NOT_TRACED, "a number that no rule traces")
        for key, value in expected.items():
            if np.isfinite(value):
                np.testing.assert_allclose(row[key], value, rtol=1e-12, err_msg=f"{name}: {key}")
            else:
                self.assertIsNone(row[key], key)
        expected["speedup"] = row["speedup"]  # against another row: the caller checks it
        for title, cell in report.cells()[name].items():
            if title in CELLS and np.isfinite(expected[CELLS[title]]):
                shown, half = number(cell)
                self.assertLessEqual(abs(shown - expected[CELLS[title]]), half, f"{name}: {title} {cell}")
        low, high = report.cells()[name]["quartiles"].split("-")
        self.assertLessEqual(abs(number(low)[0] - expected["tokens_per_second_q1"]), number(low)[1])
        self.assertLessEqual(abs(number(high)[0] - expected["tokens_per_second_q3"]), number(high)[1])
        return row


class RealRuns(Traced):
    def test_ranks_and_strategies(self):
        for name, ranks, accumulation, strategy in (("one", 0, 4, "zero3"), ("two", 2, 2, "ddp"), ("four", 4, 1, "zero3")):
            self.train(*TRAIN, "--train.steps=20", f"--train.accumulation={accumulation}", f"--shard.strategy={strategy}",
                       f"--run.dir={name}", ranks=ranks)
        folders = [self.folder / name for name in ("one", "two", "four")]
        report = Report(*folders, "--baseline", "two", "--csv", self.folder / "rows.csv", "--plots", self.folder / "plots",
                        json_file=self.folder / "rows.json", apart=True)
        self.assertEqual((report.code, report.err), (0, ""), report.out)
        self.assertEqual(list(report.rows), ["one", "two", "four"])
        rows = {name: self.check(report, name, self.folder / name / "metrics.h5") for name in report.rows}
        for name, row in rows.items():
            self.assertEqual(row["speedup"], row["tokens_per_second"] / rows["two"]["tokens_per_second"])
            self.assertEqual([key for key in KNOWN if row[key] is None], [], row)
            self.assertEqual((row["status"], row["path"], row["seed"]), ("done", str(self.folder / name), "1"))
        self.assertEqual([rows[name]["ranks"] for name in rows], [1, 2, 4])
        self.assertEqual([rows[name]["strategy"] for name in rows], ["zero3", "ddp", "zero3"])
        self.assertEqual(len({row["tokens_per_step"] for row in rows.values()}), 1)
        self.assertEqual(set(report.cells()), set(rows))
        with open(self.folder / "rows.csv", newline="") as file:
            for row in csv.DictReader(file):
                for key, value in rows[row["row"]].items():
                    if isinstance(value, float):
                        self.assertEqual(float(row[key]), value, key)
                    elif key != "flags":
                        self.assertEqual(row[key], "" if value is None else str(value), key)
        self.assertEqual({path.name for path in (self.folder / "plots").iterdir()},
                         {"communication.png", "throughput.png", "loss.png", "time.png", "memory.png", "timeline.png"})
        compared = Report(*folders, "--compare", "two", "four")
        self.assertEqual(compared.code, 0)
        with h5py.File(folders[1] / "metrics.h5") as a, h5py.File(folders[2] / "metrics.h5") as b:
            same = a["steps/loss"][...].tobytes() == b["steps/loss"][...].tobytes()
        self.assertTrue(same)
        self.assertIn("training loss: equal bits at all 20 steps", compared.out)

    def test_a_resumed_run_has_each_step_once(self):
        resumed = [*TRAIN, "--run.dir=run", "--checkpoint.every=4", "--checkpoint.resume=auto"]
        self.train(*resumed, "--train.steps=12")
        shutil.rmtree(self.folder / "run/checkpoints/step-00000012")  # so that steps 9 to 12 are done again, and their rows are taken out
        self.train(*resumed, "--train.steps=20")
        files = [self.folder / "run/metrics.h5", self.folder / "run/metrics.1.h5"]
        with h5py.File(files[1]) as second:
            self.assertEqual(second["steps/step"][0], 9)
        report = Report(self.folder / "run", json_file=self.folder / "rows.json")
        row = self.check(report, "run", *files)
        self.assertEqual((row["attempts"], row["steps"], row["timed_steps"]), (2, 20, 17))

    def test_while_it_runs_and_after_it_was_killed(self):
        process = subprocess.Popen(command(["train", *TRAIN, "--train.steps=1000000", "--run.dir=run"]),
                                   cwd=self.folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            deadline = time.monotonic() + 60
            while time.monotonic() < deadline and process.poll() is None and not logged_steps(self.folder / "run/log.jsonl"):
                time.sleep(0.2)
            time.sleep(1.5)  # rows reach the file once per second
            report = Report(self.folder / "run", json_file=self.folder / "rows.json")
            self.assertIsNone(process.poll(), "the run has ended")
        finally:
            process.send_signal(signal.SIGKILL)
            process.wait()
        self.assertEqual((report.code, report.rows["run"]["status"]), (0, "running"), report.err)
        self.assertGreater(report.rows["run"]["steps"], 0)
        status = json.loads((self.folder / "run/status.json").read_text())
        status["updated_unix"] -= 3600
        (self.folder / "run/status.json").write_text(json.dumps(status))
        dead = Report(self.folder / "run", json_file=self.folder / "rows.json")
        self.assertEqual(dead.code, 0, dead.err)
        self.assertIn("quiet", dead.rows["run"]["flags"])
        with h5py.File(self.folder / "run/metrics.h5", "r", libver="latest", swmr=True) as file:
            rows = min(len(data) for data in (*(file[f"steps/{name}"] for name in ("step", "loss", "seconds")),
                                              *file["steps/time"].values()))
            self.assertLessEqual(abs(dead.rows["run"]["steps"] - rows), 1)
            self.assertEqual(dead.rows["run"]["final_loss"], file["steps/loss"][dead.rows["run"]["steps"] - 1])


class ModelAndRanks(Traced):
    """The contents of files with model, device and every rank."""

    def test_epoch_utilization_and_memory_over_time(self):
        draw = np.random.default_rng(3)
        times = {f"time/{name}": draw.uniform(0, 0.01, 40) for name in
                 ("data", "forward", "backward", "optimizer", "exposed_gather", "exposed_reduce_scatter", "exposed_all_reduce", "exposed_other")}
        seconds = draw.uniform(0.1, 0.2, 40)
        write_metrics(
            self.folder / "gpu/metrics.h5",
            {"step": np.arange(1, 41), "loss": draw.uniform(2, 3, 40), "seconds": seconds, "tokens_per_second": 8192 / seconds, **times},
            {"eval/step": [20, 40], "eval/loss": [2.5, 2.75], "memory/process/planned": [5_000_000_000, 6_000_000_000],
             "memory/process/measured": [1, 2], "ranks/report": [10, 20, 30],
             "ranks/memory/peak": [[61e8, 60e8], [62e8, 60e8], [63e8, 64e8]], "ranks/memory/average": [[40e8, 41e8]] * 3},
            {"model": {"parameters": 124439808, "tokens_per_step": 8192, "samples_per_epoch": 980.0, "steps_per_epoch": 122.5,
                       "flops_per_token_6n": 7.6e8, "flops_per_token": 7.1e8, "device_peak_flops": 9.89e14,
                       "device_peak_source": "datasheet"},
             "config": {"train.accumulation": "4", "shard.strategy": "hsdp", "shard.group_size": "2"},
             "provenance": {"seconds_to_first_step": 12.25, "hosts": "node1 x2", "gpu_name": "NVIDIA H100"}})
        report = Report(self.folder / "gpu", json_file=self.folder / "rows.json")
        row = self.check(report, "gpu", self.folder / "gpu/metrics.h5")
        self.assertEqual(row["memory_peak"], 6_400_000_000)
        self.assertEqual(row["strategy"], "hsdp/2")
        self.assertEqual(row["device_peak_source"], "datasheet")
        self.assertIn("MFU = tokens/s x FLOPs a token / (ranks x peak FLOP/s of a rank's device)", " ".join(report.out.split()))
        self.assertIn("989 TFLOP/s (datasheet)", " ".join(report.out.split()))

    def test_steps_that_are_not_timed_are_left_out_of_shares(self):
        nan = np.nan
        write_metrics(self.folder / "run/metrics.h5",
                      {"step": [1, 2, 3, 4], "loss": [4, 3, 2, 1.0], "seconds": [9, 2, 2, 4.0], "tokens_per_second": [1, 2, 3, 4.0],
                       "time/data": [1, nan, 0.5, 1], "time/exposed_gather": [1, nan, 1, 1]})
        row = Report(self.folder / "run", json_file=self.folder / "rows.json").rows["run"]
        self.assertEqual((row["exposed_seconds"], row["exposed_share"]), (1.0, 2 / 6))
        self.assertEqual((row["data_seconds"], row["data_share"]), (0.75, 1.5 / 6))
        self.assertIsNone(row["startup_seconds"])


if __name__ == "__main__":
    unittest.main(verbosity=2)
