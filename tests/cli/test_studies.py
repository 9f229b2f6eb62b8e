"""The studies of inputs/sweeps: all rows of both versions are planned, and small versions run to their report.

TESSERA_LONG=1 runs all small versions; TESSERA_TORCH_PYTHON then names a Python with PyTorch, whose rows are skipped
without one.
"""
import functools
import os
import re
import shutil
import subprocess
import sys
import unittest
from pathlib import Path

import h5py
import numpy as np

from job import Case, Job, main, status

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/postprocess"))

from reporting import Report  # noqa: E402

SWEEPS = ROOT / "inputs/sweeps"
LONG = "TESSERA_LONG" in os.environ
OFFICIAL = ["fsdp_official", "fsdp_official_no_checkpoint", "fsdp_official_no_limit_all_gathers", "ddp_official"]
ROWS = {
    "manual_vs_official": ["ddp_fp32", "fsdp_manual_bf16", "fsdp_units", "fsdp_units_no_checkpoint",
                           "fsdp_units_no_limit_all_gathers", *OFFICIAL],
    "course": ["memory-1", "memory-2", "memory-4", "bandwidth-2", "bandwidth-4", "prefetch-off", "latency-prefetch-on",
               "latency-prefetch-off", "reshard-off", "weak-1", "weak-2", "weak-4", "toy-1", "toy-2", "toy-4"],
    "gpt2_nanogpt": [*(f"{ranks}-{strategy}" for ranks in (2, 4, 8) for strategy in ("ddp", "zero1", "zero2", "zero3")),
                     "single", "graphs-off", "4-zero3-fp32", "4-zero3-tf32", "2-zero3-resumed",
                     *(f"4-zero3-min-{size}" for size in ("300K", "500K", "1M", "2M")), "4-ddp-half", "4-zero3-half"],
    "zero2_vs_zero3": [f"2-{strategy}-{batch}-{accumulation}" for strategy in ("zero2", "zero3") for batch in (2, 4, 8, 16)
                       for accumulation in (1, 2, 4)] + ["2-zero2-4-4-bf16", "2-zero3-4-4-bf16"],
    "hybrid": ["8-ddp", "8-zero2", "8-zero3", *(f"8-{strategy}-{group}" for strategy in ("hsdp", "hsdp-zero2", "hsdp-zero1")
                                                for group in (2, 4))],
    "overlap": ["256-0", "256-1", "256-2", "256-3", *(f"{tokens}-{depth}" for tokens in (64, 128, 512, 1024) for depth in (0, 1))],
    "strong_scaling": [*(f"{ranks}-{strategy}" for ranks in (2, 4, 8) for strategy in ("ddp", "zero3")), "1-ddp"],
    "optimizers": [f"2-{name}-{rate}" for name in ("adamw", "muon") for rate in ("1e-3", "3e-3", "1e-2")],
    "fine_tuning": ["full-1e-5", "full-5e-5", "rank-8-1e-4", "rank-8-5e-4", "rank-32-1e-4", "rank-32-5e-4"],
    "fp8": ["bf16-1", "e5m2-1", "e4m3-1", "bf16-2", "e5m2-2", "e4m3-2"],
}
REAL_WRAPS = {f"4-zero3-min-{small}": f"4-zero3-min-{real}" for small, real in zip(("300K", "500K", "1M", "2M"),
                                                                                   ("2M", "5M", "10M", "20M"))}
REAL_ROWS = {name: [REAL_WRAPS.get(row, row) for row in rows] for name, rows in ROWS.items()}
COMMANDS = {*OFFICIAL, "bandwidth-2", "bandwidth-4", "2-zero3-resumed"}
# Programs and files that the studies name, as words of one row's command in the real version.
REAL = {
    "manual_vs_official": ("fsdp_manual_bf16", [
        "--train.seq_len=256", "--model.vocab=32000", "--model.width=768", "--model.layers=6", "--model.heads=12",
        "--model.ffn_width=3072", "--train.epochs=2", "--train.micro_batch=8", "--train.accumulation=2", "--shard.strategy=zero3",
        "--shard.wrap=model", "--shard.reshard_after_forward=false", "--shard.reduce=micro_step",
        "--shard.prefetch_forward=0"]),
    "course": ("toy-2", [
        "--model.layers=1", "--model.width=2", "--model.heads=1", "--model.vocab=20", "--model.context=16", "--optim.lr=0.01",
        "--train.steps=100"]),
    "gpt2_nanogpt": ("4-zero3-min-5M", [
        "--model.preset=gpt2-124m", "--shard.wrap=size", "--shard.min_params=5000000", "--precision.compute=bf16", "--train.steps=100",
        "--train.micro_batch=12", "--train.global_batch=480"]),
    "zero2_vs_zero3": ("2-zero2-16-4", [
        "--model.preset=qwen2-1.5b", "--train.micro_batch=16", "--train.accumulation=4", "--train.steps=50", "--train.seq_len=2048",
        "--optim.lr=1e-05"]),
    "hybrid": ("8-hsdp-4", ["--model.preset=gpt2-1558m", "--shard.group_size=4", "--grid.ranks_per_node=4"]),
    "overlap": ("256-2", ["--shard.prefetch_forward=2", "--shard.limit_all_gathers=3", "--train.seq_len=256", "--run.trace=50:50"]),
    "strong_scaling": ("8-zero3", ["--model.preset=gpt2-124m", "--train.global_batch=512"]),
    "optimizers": ("2-muon-3e-3", ["--model.preset=gpt2-124m", "--optim.name=muon", "--optim.lr=0.003", "--train.seq_len=1024"]),
    "fine_tuning": ("full-5e-5", ["--model.preset=qwen2-1.5b", "--optim.lr=5e-05", "--train.seq_len=2048", "--train.epochs=1"]),
    "fp8": ("e4m3-2", ["--model.preset=gpt2-124m", "--precision.linear=fp8", "--precision.fp8_gradients=e4m3", "--precision.fp8_smallest=0",
                       "--precision.compute=bf16", "--run.seed=2", "--data.seed=2"]),
}


def planned(printed):
    """Row -> (ranks, device, memory) of what `print` shows."""
    return {name: values for name, *values in re.findall(r"^  (\S+) +(\d+)  +(\S+)  +(-|[\d.]+ \S?B)(?:  .*)?$", printed, re.M)}


def commands(printed):
    """Row -> its command."""
    return dict(re.findall(r"^# (\S+)\n(.*)$", printed, re.M))


@functools.cache
def printed_study(name, version):
    job = Job(["sweep", SWEEPS / f"{name}.ini", f"--sweep.base={version}/{name}.ini"])
    assert job.code == 0, job.everything()
    return job.out


class Planned(Case):
    def printed(self, file, *words):
        return self.do("sweep", file, *words).out

    def test_there_are_no_others(self):
        files = {path.stem for path in SWEEPS.glob("*.ini")} - {"strategies", "pytorch", "debian", "foresight"}
        self.assertEqual(files, set(ROWS))
        for version in "small", "real":
            self.assertEqual({path.stem for path in (SWEEPS / version).glob("*.ini")}, set(ROWS))

    def test_every_row_of_both_versions(self):
        for version, studies in ("small", ROWS), ("real", REAL_ROWS):
            for name, rows in studies.items():
                with self.subTest(name, version=version):
                    found = planned(printed_study(name, version))
                    self.assertEqual(list(found), rows)
                    self.assertEqual({row for row, (_, _, memory) in found.items() if memory == "-"}, COMMANDS & set(rows))
                    devices = {device for row, (_, device, _) in found.items()
                               if row not in COMMANDS and not row.startswith(("toy-", "graphs-")) and "tf32" not in row}
                    self.assertEqual(devices, {"cpu" if version == "small" else "cuda"})

    def test_the_sizes_that_the_studies_name(self):
        for name, (row, words) in REAL.items():
            with self.subTest(name):
                line = commands(self.printed(SWEEPS / f"{name}.ini", f"--sweep.base=real/{name}.ini", f"--sweep.only={row}"))[row]
                self.assertLessEqual(set(words), set(line.split()))

    def test_the_small_version_is_the_default_and_the_real_one_is_one_line_away(self):
        shutil.copytree(SWEEPS, self.folder / "sweeps")
        for name in ROWS:
            with self.subTest(name):
                file = self.folder / "sweeps" / f"{name}.ini"
                self.assertEqual(self.printed(file), self.printed(file, f"--sweep.base=small/{name}.ini"))
                text, count = re.subn("^base = small/", "base = real/", file.read_text(), flags=re.M)
                self.assertEqual(count, 1)
                real = self.printed(file, f"--sweep.base=real/{name}.ini")
                file.write_text(text)
                self.assertEqual(self.printed(file), real)

    def test_foresight_predicts_every_row_half_of_them_over_a_link(self):
        job = Job(["sweep", SWEEPS / "foresight.ini"], cwd=ROOT)  # its prices have a path from there
        self.assertEqual(job.code, 0, job.everything())
        lines = commands(job.out)
        judged = [row for row, (ranks, *_) in planned(job.out).items() if int(ranks) <= 2]
        self.assertEqual((len(lines), len(judged)), (51, 48))
        self.assertTrue(all(" --plan.cluster=inputs/clusters/cores.ini " in line for line in lines.values()))
        self.assertEqual(sum(" --comm.emulate=2ms,1GB/s " in lines[row] for row in judged), 24)
        self.assertIn("each 5 times", job.out)

    def test_pytorch_gets_the_options_of_its_row(self):
        lines = commands(self.printed(SWEEPS / "manual_vs_official.ini", "--sweep.base=real/manual_vs_official.ini"))
        common = ("--vocab 32000 --context 256 --width 768 --layers 6 --heads 12 --ffn-width 3072 --seq-len 256 --epochs 2 "
                  "--micro-batch 8 --accumulation 2 --lr 0.0006 --seed 1")
        for row, checkpoint, limit in zip(OFFICIAL, ("block", "none", "block"), ("true", "true", "false")):
            for words in (common, f"--activation-checkpointing {checkpoint}", f"--limit-all-gathers {limit}", "--precision bf16",
                          "--strategy fsdp1 --wrap size --min-params 5000000", "--device cuda"):
                self.assertIn(f" {words}", lines[row])
        for words in common, "--strategy ddp", "--precision fp32":
            self.assertIn(f" {words}", lines["ddp_official"])

    def test_a_copied_executable_names_no_program_that_is_not_there(self):
        copy = shutil.copy(os.environ["TESSERA"], self.folder / "tessera")
        job = subprocess.run([copy, "sweep", SWEEPS / "pytorch.ini"], capture_output=True, text=True)
        self.assertEqual(job.returncode, 0, job.stderr)
        self.assertIn('sh "{peers}/pytorch_train.sh" ', commands(job.stdout)["1-pytorch"].replace("'", '"'))


class Studies(Case):
    """Rows run in the folder of the sources, as their commands ask for; their runs lie in the test's."""

    def run_study(self, name, *words, timeout=200):
        job = Job(["sweep", SWEEPS / f"{name}.ini", "--sweep.action=run", f"--sweep.dir={self.folder / name}", *words], cwd=ROOT,
                  timeout=timeout)
        self.assertEqual(job.code, 0, job.everything())
        return job

    def report(self, name, *words):
        page = self.folder / f"{name}.html"
        report = Report(self.folder / name, "--html", page, *words, json_file=self.folder / "rows.json")
        self.assertEqual((report.code, report.err), (0, ""))
        self.assertIn('<section id="recommendation"', page.read_text())
        self.assertRegex(page.read_text(), r'id="panel-timeline[^"]*"')
        self.assertEqual(list(report.rows), ROWS[name])
        return report

    def metrics(self, name, row):
        file = h5py.File(self.folder / name / row / "run/metrics.h5", "r")
        self.addCleanup(file.close)
        return file

    def check_course(self, widest):
        """`widest`: the most ranks of a row that measures collectives."""
        report = self.report("course")
        rows = report.rows
        memory = [rows[f"memory-{ranks}"]["memory_planned"] for ranks in (1, 2, 4)]
        self.assertEqual(memory, sorted(memory, reverse=True))
        for row in "memory-2", "prefetch-off", "latency-prefetch-on", "latency-prefetch-off", "reshard-off":
            self.assertEqual(rows[row]["final_loss"], rows["memory-1"]["final_loss"], row)
            self.assertGreater(rows[row]["exposed_share"], 0, row)
        self.assertGreater(rows["reshard-off"]["memory_planned"], rows["memory-2"]["memory_planned"])
        self.assertLess(rows["prefetch-off"]["memory_planned"], rows["memory-2"]["memory_planned"])
        for ranks in (2, 4)[:widest // 2]:
            with h5py.File(self.folder / f"course/bandwidth-{ranks}/run/bench.h5") as bench:
                found = set(zip(bench["comm/collective"].asstr()[:], bench["comm/bytes"][:].tolist()))
            self.assertLessEqual({(kind, size) for kind in ("all_gather", "reduce_scatter") for size in (10**6, 10**7, 10**8)}, found)
        self.check_toy()

    def check_toy(self):
        one = self.folder / "course/toy-1/run/dump-00000100.h5"
        for ranks in 1, 2, 4:
            metrics = self.metrics("course", f"toy-{ranks}")
            self.assertEqual(metrics["model"].attrs["parameters"], 150)
            np.testing.assert_array_equal(metrics["steps/loss"][:], self.metrics("course", "toy-1")["steps/loss"][:])
            self.assertEqual(len(metrics["steps/loss"]), 100)
            with h5py.File(one) as left, h5py.File(self.folder / f"course/toy-{ranks}/run/dump-00000100.h5") as right:
                for group in "weights", "gradients":
                    self.assertEqual(sum(tensor.size for tensor in left[group].values()), 150)
                    difference = sum(((left[group][name][:] - right[group][name][:])**2).sum() for name in left[group])
                    self.assertEqual(difference, 0, group)


class Course(Studies):
    @unittest.skipIf(LONG, "AllSmallVersions runs all of it")
    def test_eleven_rows_to_their_report(self):
        for rows in ("[!bw]*", "bandwidth-2"):
            self.run_study("course", f"--sweep.only={rows}")
        self.assertEqual([row for row in ROWS["course"] if status(self.folder / "course" / row)["status"] == "done"],
                         [row for row in ROWS["course"] if not row.startswith("weak") and row != "bandwidth-4"])
        self.check_course(widest=2)


@unittest.skipUnless(LONG, "tests/long.sh")
class AllSmallVersions(Studies):
    def whole(self, name, *skipped):
        """Runs it; the rows that are not `skipped` must have ended."""
        job = self.run_study(name, timeout=3000)
        states = {row: status(self.folder / name / row)["status"] for row in ROWS[name]}
        self.assertEqual(states, {row: "skipped" if row in skipped else "done" for row in ROWS[name]}, job.everything())
        rows = self.report(name).rows
        print(f"long: {name}: {job.seconds:.0f} s,", ", ".join(
            f"{row} {values['tokens_per_second']:.0f} tokens/s" for row, values in rows.items() if values["tokens_per_second"]))
        return rows

    def alike(self, rows, names):
        """Their losses are the same to the bit."""
        losses = {rows[name]["final_loss"] for name in names}
        self.assertEqual(len(losses), 1, names)

    def test_course(self):
        self.whole("course")
        self.check_course(widest=4)

    def test_gpt2_nanogpt(self):
        rows = self.whole("gpt2_nanogpt", "graphs-off", "4-zero3-tf32")
        self.alike(rows, [row for row in ROWS["gpt2_nanogpt"] if row not in ("graphs-off", "4-zero3-fp32", "4-zero3-tf32") and not row.endswith("half")])
        self.alike(rows, ["4-ddp-half", "4-zero3-half"])
        resumed = self.metrics("gpt2_nanogpt", "2-zero3-resumed")["steps/step"]
        self.assertEqual(resumed[0], 11)

    def test_zero2_vs_zero3(self):
        rows = self.whole("zero2_vs_zero3")
        for batch, accumulation in ((2, 1), (16, 4)):
            self.alike(rows, [f"2-{strategy}-{batch}-{accumulation}" for strategy in ("zero2", "zero3")])

    def test_hybrid_and_strong_scaling(self):
        for name in "hybrid", "strong_scaling":
            self.alike(self.whole(name), ROWS[name])

    def test_overlap(self):
        rows = self.whole("overlap")
        for tokens in 64, 256, 1024:
            self.alike(rows, [row for row in ROWS["overlap"] if row.startswith(f"{tokens}-")])
        self.assertIn('id="panel-overlap"', (self.folder / "overlap.html").read_text())

    def test_foresight(self):
        self.run_study("foresight", "--sweep.repeat=1", timeout=3000)
        report = Report(self.folder / "foresight", json_file=self.folder / "rows.json")
        self.assertEqual((report.code, report.err), (0, ""))
        self.assertEqual(sum(row["prediction_error"] is not None for row in report.rows.values()), 51)

    def test_optimizers(self):
        rows = self.whole("optimizers")
        for row in ROWS["optimizers"]:
            self.assertLess(rows[row]["final_loss"], 5, row)

    def test_fine_tuning(self):
        rows = self.whole("fine_tuning")
        self.assertEqual(len({rows[row]["final_loss"] for row in ROWS["fine_tuning"]}), len(ROWS["fine_tuning"]))

    def test_fp8(self):
        self.whole("fp8")
        self.assertIn('<section id="fp8"', (self.folder / "fp8.html").read_text())

    def test_manual_vs_official(self):
        python = os.environ.get("TESSERA_TORCH_PYTHON") or "python3"
        has_torch = subprocess.run([python, "-c", "import torch, h5py"], capture_output=True).returncode == 0
        rows = self.whole("manual_vs_official", *([] if has_torch else OFFICIAL))
        for row in OFFICIAL if has_torch else ():
            self.assertLess(abs(rows[row]["final_loss"] / rows["ddp_fp32"]["final_loss"] - 1), 1e-2, row)


if __name__ == "__main__":
    main(at_once=1)
