"""Sweeps, rows that are not alike, comparisons and pictures. Folders are made by hand: the numbers are in test_numbers.py."""
import json
import math
import re
import subprocess
import sys
import unittest
import xml.etree.ElementTree

import h5py
import numpy as np

from reporting import ROOT, Report, write_metrics
from job import Case

from tessera_report.plots import FILES  # noqa: E402 (reporting has set the path)

STEPS = np.arange(1, 31)
CONFIG = {"run.seed": "1", "data.seed": "1", "data.source": "texts", "data.order": "shuffled", "shard.strategy": "ddp",
          "train.micro_batch": "4", "train.accumulation": "1", "train.seq_len": "64", "model.width": "64"}
HOST = {"hosts": "node1 x2", "cpu": "AMD EPYC", "load_average_start": 0.4}


def made(path, rate=1000.0, losses=None, config=None, host=None, ranks=2):
    """A run of 30 steps at a steady pace, after one slow step."""
    losses = 5 / np.sqrt(STEPS) if losses is None else losses
    rates = np.full(len(losses), rate)
    rates[0] = 10
    evals = {"eval/step": [10], "eval/loss": [2.0]} if "train.eval_batches" in (config or {}) else {}
    return write_metrics(path / "metrics.h5", {"step": np.arange(1, len(losses) + 1), "loss": losses,
                                               "tokens_per_second": rates, "seconds": 512 / rates},
                         {"memory/process/planned": [10**6] * ranks, "memory/process/measured": [11 * 10**5] * ranks, **evals},
                         {"config": {**CONFIG, **(config or {})}, "provenance": {**HOST, **(host or {})}})


class Sweep(Case):
    def sweep(self, rows, baseline=None):
        (self.folder / "sweep.json").write_text(json.dumps({"name": "demo", "baseline": baseline, "rows": rows}))

    def row(self, name, status, message="", code=0, strategy="zero3"):
        folder = self.folder / name
        folder.mkdir(exist_ok=True)
        (folder / "config.ini").write_text(f"# options\n[shard]\nstrategy = {strategy}\n\n[run]\nseed = 1\n")
        if status:
            (folder / "status.json").write_text(json.dumps({"status": status, "message": message, "code": code}))
        return folder

    def read(self, *arguments, paths=None):
        return Report(*(paths or [self.folder]), *arguments, json_file=self.folder / "out.json")

    def test_rows_of_every_status(self):
        names = ["1-ddp", "2-ddp", "other", "big", "killed", "late", "not-begun", "gone"]
        self.sweep([{"name": name, "ranks": 2} for name in names], baseline="2-ddp")
        made(self.row("1-ddp", "done") / "run", 600, ranks=1)
        made(self.row("2-ddp", "done") / "run", 1000)
        other = self.row("other", "done") / "run"
        other.mkdir()
        (other / "metrics.json").write_text(json.dumps({
            "/steps/loss": [5.0, 4.0, None, 3.0], "/steps/seconds": [1.0, 0.5, 0.25, 0.5], "/model/tokens_per_step": 512,
            "steps/time/data": [0.1, 0.0, 0.05, 0.1], "/config/shard.strategy": "FSDP2", "/provenance/hosts": "node1 x2",
            "/memory/process/planned": [7, 9]}))
        self.row("big", "does-not-fit", "needs 120 GB a rank", 2)
        self.row("killed", "failed", "killed by signal 9", 137)
        made(self.folder / "killed/run", 900, losses=5 / np.sqrt(STEPS[:12]))
        self.row("late", "timed-out", "10 min are over", 75)
        self.row("not-begun", None)
        report = self.read()
        self.assertEqual((report.code, report.err), (0, ""))
        self.assertEqual(list(report.rows), names)
        rows = report.rows
        self.assertEqual([rows[name]["status"] for name in names],
                         ["done", "done", "done", "does-not-fit", "failed", "timed-out", "pending", "pending"])
        self.assertEqual([rows[name]["speedup"] for name in names], [0.6, 1.0, 1.024, None, 0.9, None, None, None])
        self.assertEqual([rows[name]["ranks"] for name in names], [1] + [2] * 7)
        self.assertEqual([rows[name]["strategy"] for name in ("2-ddp", "other", "big", "gone")], ["ddp", "FSDP2", "zero3", None])
        self.assertEqual((rows["other"]["final_loss"], rows["other"]["best_loss"], rows["other"]["memory_planned"]), (3, 3, 9))
        self.assertIn("nan", rows["other"]["flags"])
        self.assertEqual((rows["killed"]["code"], rows["killed"]["message"], rows["killed"]["steps"]), (137, "killed by signal 9", 12))
        for note in ("big: does-not-fit with code 2: needs 120 GB a rank", "killed: failed with code 137: killed by signal 9",
                     "other: the loss is not finite at step 3"):
            self.assertIn(note, report.out)
        self.assertEqual(report.cells()["big"]["tokens/s"], "-")
        keys = {tuple(row) for row in report.rows.values()}
        self.assertEqual(len(keys), 1, "every row has the same keys")
        one = self.read(paths=[self.folder / "2-ddp"])
        self.assertEqual(one.rows["2-ddp"]["tokens_per_second"], 1000)

    def test_a_renamed_folder_is_named(self):
        self.sweep([{"name": "a", "ranks": 2}, {"name": "b", "ranks": 2}])
        for name in ("a", "b was good"):
            made(self.row(name, "done") / "run", 1000)
        report = self.read()
        self.assertEqual(report.code, 4)
        self.assertRegex(report.err, r"/b does not exist\. Was it renamed\? No row is called b was good")

    def test_repeats_are_taken_together(self):
        self.sweep([{"name": "a", "ranks": 2}])
        for folder, rate in (("run", 900), ("run.2", 1000), ("run.3", 1300)):
            made(self.row("a", "done") / folder, rate)
        row = self.read().rows["a"]
        self.assertEqual((row["repeats"], row["tokens_per_second"], row["timed_steps"], row["steps"]), (3, 1000, 72, 30))

    def test_baseline(self):
        self.sweep([{"name": "a"}, {"name": "b"}, {"name": "c"}], baseline="a")
        self.row("a", "failed")
        made(self.row("b", "done") / "run", 500)
        made(self.row("c", "done") / "run", 1000)
        without = self.read()
        self.assertEqual([row["speedup"] for row in without.rows.values()], [None] * 3)
        self.assertIn("the baseline has no tokens/s", without.out)
        self.assertEqual([row["speedup"] for row in self.read("--baseline", "c").rows.values()], [None, 0.5, 1])
        wrong = self.read("--baseline", "d")
        self.assertEqual((wrong.code, wrong.err), (2, "tessera-report: --baseline d: no such row; there are a, b, c\n"))

    def test_flags_of_rows_that_are_not_alike(self):
        draws = {"same": {}, "data": {"config": {"data.source": "other"}}, "seed": {"config": {"run.seed": "2"}},
                 "host": {"host": {"hosts": "node2 x2"}}, "load": {"host": {"load_average_start": 3.5}},
                 "model": {"config": {"model.width": "128"}}, "sequence": {"config": {"train.seq_len": "128", "train.micro_batch": "2"}}, "batch": {"config": {"train.micro_batch": "8"}}}
        made(self.folder / "base")
        for name, other in draws.items():
            made(self.folder / name, **other)
        made(self.folder / "evaluated", config={"train.eval_batches": "16"})
        made(self.folder / "validation", config={"train.eval_batches": "32"})
        evaluated = self.read(paths=[self.folder / name for name in ("evaluated", "validation")])
        self.assertEqual(evaluated.rows["validation"]["flags"], ["validation"])
        for name, samples in (("evaluated", 60), ("validation", 60)):  # fewer than the micro-batches would take
            with h5py.File(self.folder / name / "metrics.h5", "a") as file:
                file.require_group("model").attrs["validation_samples"] = samples
        evaluated = self.read(paths=[self.folder / name for name in ("evaluated", "validation")])
        self.assertEqual(evaluated.rows["validation"]["flags"], [])
        report = self.read(paths=[self.folder / name for name in ["base", *draws]])
        self.assertEqual({name: row["flags"] for name, row in report.rows.items()},
                         {"base": [], "same": [], **{name: [name] for name in list(draws)[1:]}})
        text = " ".join(report.out.split())
        for note in ("data: data.source = other, base texts", "seed: run.seed = 2, base 1", "host: on node2 x2, base on node1 x2",
                     "load: load average at the start 3.5, base 0.4", "batch: 1024 tokens a step, base 512"):
            self.assertIn(note, text)
        self.assertEqual([report.cells()[name]["flags"] for name in ("same", "host")], ["-", "host"])

    def test_a_command_that_trains_nothing_is_not_in_the_table(self):
        self.sweep([{"name": "a", "kind": "train"}, {"name": "bench", "kind": "command"}, {"name": "broken", "kind": "command"}])
        made(self.row("a", "done") / "run")
        self.row("bench", "done")
        self.row("broken", "failed")
        report = self.read()
        self.assertEqual(list(report.cells()), ["a", "broken"])
        self.assertIn("without training, so not in the table: bench", report.out)
        self.assertIsNone(report.rows["bench"]["strategy"])

    def test_another_corpus_shows_in_the_samples_of_an_epoch(self):
        for name, samples in (("a", 300), ("b", 300), ("c", 299)):
            made(self.folder / name)
            with h5py.File(self.folder / name / "metrics.h5", "a") as file:
                file.require_group("model").attrs["samples_per_epoch"] = samples
        report = self.read(paths=[self.folder / name for name in "abc"])
        self.assertEqual([report.rows[name]["flags"] for name in "abc"], [[], [], ["data"]])
        self.assertIn("c: 299 samples an epoch, a 300", report.out)

    def test_equal_names(self):
        for folder in ("x/run", "y/run", "z"):
            made(self.folder / folder)
        report = self.read(paths=[self.folder / name for name in ("x/run", "y/run", "z", "z")])
        self.assertEqual(list(report.rows), ["x/run", "y/run", "z"])

    def test_width_of_the_table(self):
        made(self.folder / "a-row-with-a-rather-long-name")
        for width in (80, 140):
            report = Report(self.folder / "a-row-with-a-rather-long-name", width=width)
            self.assertLessEqual(max(map(len, report.out.splitlines())), width)
            self.assertEqual(report.cells()["a-row-with-a-rather-long-name"]["tokens/s"], "1.00K")

    def test_compare(self):
        losses = 5 / np.sqrt(STEPS)
        other = losses.copy()
        other[11] *= 1 + 3e-7
        broken = np.where(STEPS == 20, math.nan, losses)
        for name, values in (("a", losses), ("b", losses), ("c", other), ("d", losses[:7]), ("e", broken)):
            made(self.folder / name, losses=values)
        a, b, c, d, e = (self.folder / name for name in "abcde")
        same = Report("--compare", a, b)
        self.assertEqual(same.code, 0)
        self.assertIn("training loss: equal bits at all 30 steps", same.out)
        near = Report(a, c, "--compare", "a", "c", "--every", 11)
        difference = abs(other[11] - losses[11])
        self.assertIn(f"1 of 30 steps differ, first step 12; maximum {difference:.3e} at step 12; equal within 3.0e-07 relative", near.out)
        table = near.out[near.out.index("loss A"):].splitlines()[2:]
        self.assertEqual([line.split()[0] for line in table[:4]], ["1", "12", "23", "30"])
        self.assertEqual([float(word) for word in table[1].split()], [12, round(losses[11], 8), round(other[11], 8),
                                                                     float(f"{other[11] - losses[11]:.3e}")])
        short = Report("--compare", a, d)
        self.assertIn("A has 30 steps, B 7: compared the 7 that both have", short.out)
        self.assertIn("equal bits at all 7 steps", short.out)
        self.assertIn("differs at step 20, where one of them is not finite", Report("--compare", a, e).out)
        self.assertIn("equal bits at all 30 steps", Report("--compare", e, e).out)

    def test_compare_says_why(self):
        losses = 5 / np.sqrt(STEPS)
        made(self.folder / "a", losses=losses)
        other = {"train.micro_batch": "2", "train.accumulation": "2"}
        for config, host, ranks, says in (
            (other, {}, 2, ["train.micro_batch 4 and 2: other sums (docs/numerics.md, 2)"]),
            ({"optim.lr": "2", "data.source": "other"}, {}, 2, ["data.source texts and other: they learn something else"]),
            ({"train.micro_batch": "2"}, {}, 2, ["train.micro_batch 4 and 2: other sums (docs/numerics.md, 2)", "512 and 256 tokens a step: another batch"]),
            ({"precision.reduce": "fp32", "train.micro_batch": "4", "train.accumulation": "1"}, {"kernels": "AVX2"}, 2, ["kernels AVX-512 and AVX2"]),
            ({"data.cache": "elsewhere"}, {}, 2, ["no option and no fact that is recorded; equal bits are expected (docs/numerics.md, 2)"]),
        ):
            made(self.folder / "a", losses=losses, host={"kernels": "AVX-512"})
            made(self.folder / "b", losses=losses + 1e-7, config=config, host={"kernels": "AVX-512", **host}, ranks=ranks)
            out = Report("--compare", self.folder / "a", self.folder / "b").out
            self.assertEqual([line.removeprefix("why: ") for line in out.splitlines() if line.startswith("why: ")], says)
        self.assertNotIn("why:", Report("--compare", self.folder / "a", self.folder / "a").out)

    def test_of_loose_runs_the_first_to_start_is_the_baseline(self):
        for name, start in (("a", "2026-02-01T00:00:00Z"), ("b", "2026-01-01T00:00:00Z"), ("c", "2026-03-01T00:00:00Z")):
            made(self.folder / name, host={"start_time": start})
        self.assertIn("speed-up against b\n", Report(*(self.folder / name for name in "abc")).out)

    def test_terminals_without_a_letter_and_readers_that_have_seen_enough(self):
        made(self.folder / "größe")
        with h5py.File(self.folder / "dump-1.h5", "w") as file:
            for place in range(20_000):
                file[f"weights/{place}"] = [1.0]
        for words in ("report.py größe", "report.py größe | head -1", "checkpoint.py list dump-1.h5 | head -1"):
            script = f"PYTHONIOENCODING=ascii {sys.executable} -B {ROOT}/postprocess/{words}"
            done = subprocess.run(["bash", "-o", "pipefail", "-c", script], cwd=self.folder, capture_output=True, text=True)
            self.assertEqual((done.returncode, done.stderr), (0, ""), words)

    def test_pictures(self):
        self.sweep([{"name": name, "ranks": 2} for name in ("a", "b", "none", "program")], baseline="b")
        for name in "ab":
            made(self.row(name, "done") / "run")
        (self.row("program", "done") / "run").mkdir()
        (self.folder / "program/run/metrics.json").write_text('{"/steps/loss": [5], "/memory/process/measured": [7000000, 9000000]}')
        (self.folder / "pictures").mkdir()
        (self.folder / "pictures/time.svg").write_text("of another report")
        report = self.read("--plots", self.folder / "pictures", "--format", "svg")
        self.assertEqual(report.code, 0, report.err)
        self.assertIn("plots      not in them, without metrics: none\n", report.out)
        left_out = dict(re.findall(r"plots      (\w+)\.svg is left out: it needs (.*)", report.out))
        self.assertEqual(len(left_out), len(FILES) - 3)
        self.assertEqual((left_out["time"], left_out["timeline"]), ("a row whose operations were timed", "a run that keeps its schedule in metrics.h5"))
        self.assertEqual({path.name for path in (self.folder / "pictures").iterdir()}, {"throughput.svg", "loss.svg", "memory.svg"})
        for name, words in (("throughput", "speed-up against b"), ("loss", "loss (nats per token)"),
                            ("memory", "MB of the fullest rank"), ("memory", "program")):
            path = self.folder / f"pictures/{name}.svg"
            xml.etree.ElementTree.parse(path)
            self.assertIn(f"<!-- {words} -->", path.read_text())  # matplotlib leaves the text of its glyphs as a comment
        bars = (self.folder / "pictures/throughput.svg").read_text()
        self.assertLess(bars.index("<!-- b -->"), bars.index("<!-- a -->"), "the baseline comes first")


class Package(Case):
    def test_installed_it_has_a_command(self):
        import tomllib
        project = tomllib.loads((ROOT / "postprocess/pyproject.toml").read_text())["project"]
        module, _, function = project["scripts"]["tessera-report"].partition(":")
        self.assertTrue(callable(getattr(__import__(module, fromlist=[function]), function)))

    def test_documented_keys(self):
        """docs/manual/report_numbers.md has every key of a row."""
        made(self.folder / "a")
        report = Report(self.folder / "a", json_file=self.folder / "out.json")
        text = (ROOT / "docs/manual/report_numbers.md").read_text()
        self.assertEqual([key for key in report.rows["a"] if f"`{key}`" not in text], [])


if __name__ == "__main__":
    unittest.main(verbosity=2)
