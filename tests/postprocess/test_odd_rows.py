"""tessera-report of rows with odd names, and of runs whose attempts, seeds or ranks differ."""
import json
import unittest

import h5py
import numpy as np

from html_case import Html, plain, study_of
from made_sweep import CONFIG, STEPS, Made, run
from reporting import Report
from trace import Sweep

from tessera_report.html.checklist import clipping
from tessera_report.html.findings import resources, speed
from tessera_report.html.panels.curves import by_seeds
from tessera_report.html.panels.losses import losses
from tessera_report.html.panels.memory import over_batch
from tessera_report.html.panels.progress import progress
from tessera_report.html.panels.throughput import throughput
from tessera_report.html.panels.utilization import device
from tessera_report.html.svg import MOST_LETTERS


class OddRows(Html):
    def test_names_are_drawn_as_they_are(self):
        made = Made(self.folder, baseline="lr-0.00030")
        long = "ninety" * 5 + "-" + "letters" * 8
        names = ["lr-0.00030", "lr-0.00061", "a$x$b", r"c$\frac$d", "_under"]
        for rate, name in enumerate([*names, long], start=1000):
            made.add(name, rate=rate)
        page = self.page()
        for name in names:
            self.assertRegex(page, rf"<text [^>]*> ?{name.translate(str.maketrans({'$': '[$]', chr(92): chr(92) * 2}))}</text>")
        self.assertIn(f">{long[:MOST_LETTERS // 2 - 1]}\N{HORIZONTAL ELLIPSIS}{long[-MOST_LETTERS // 2:]}</text>", page)
        report = Report(self.folder, "--plots", self.folder / "plots")
        self.assertEqual((report.code, report.err), (0, ""))

    def test_attempts_on_other_ranks_are_not_timed(self):
        folder = self.folder / "run"
        run(self.folder / "before", ranks=4, rate=4000)
        run(folder, ranks=1, rate=1000)
        (folder / "metrics.h5").rename(folder / "metrics.1.h5")
        (self.folder / "before/metrics.h5").rename(folder / "metrics.h5")
        with h5py.File(folder / "metrics.1.h5", "a") as file:
            file["steps/step"][...] += 20
        run(self.folder / "nothing left", ranks=4)
        (self.folder / "nothing left/metrics.h5").rename(folder / "metrics.2.h5")
        with h5py.File(folder / "metrics.2.h5", "a") as file:
            for name in [f"steps/{name}" for name, item in file["steps"].items() if isinstance(item, h5py.Dataset)]:
                column = file.pop(name)[:0]
                file[name] = column
        report = Report(folder, json_file=self.folder / "rows.json")
        row = report.rows["run"]
        self.assertEqual((row["ranks"], row["steps"], row["timed_steps"]), (1, 50, 24))
        self.assertAlmostEqual(row["tokens_per_second"] / 1000, 1, places=2)
        self.assertIn("only those like the last one are timed", " ".join(report.out.split()))

    def test_metrics_of_other_programs_are_taken_as_they_come(self):
        made = Made(self.folder, baseline="a")
        made.add("a", validation=(2.0, 1.5))
        other = made.add("other", kind="command", made=False)
        other.mkdir()
        options = {key: int(CONFIG[key]) for key in ("run.seed", "data.seed", "train.seq_len", "model.width")}
        (other / "metrics.json").write_text(
            json.dumps({"/steps/loss": [3, 2, 1], "/steps/seconds": [1, 1, 1], "/steps/tokens_per_second": [5, 5, 5],
                        "/provenance/start_time": 1.7e9, "/eval/step": [3], "/eval/code/loss": [2],
                        **{f"/config/{key}": value for key, value in options.items()}}))
        report = Report(self.folder, "--html", self.folder / "page.html", json_file=self.folder / "rows.json")
        self.assertEqual(report.code, 0, report.err)
        self.assertFalse({"seed", "sequence"} & set(report.rows["other"]["flags"]))
        loose = Report(self.folder / "a/run", other, "--html", self.folder / "loose.html")
        self.assertEqual(loose.code, 0, loose.err)

    def test_a_skipped_step_is_no_failure(self):
        made = Made(self.folder, baseline="a")
        made.add("a")
        losses_of_b = 5 / np.sqrt(STEPS)
        losses_of_b[9] = np.nan
        with h5py.File(made.add("b", rate=1300, losses=losses_of_b) / "metrics.h5", "a") as file:
            file["steps/skipped"] = (STEPS == 10).astype(np.int64)
            file["steps/grad_norm"][9] = np.inf
        report = Report(self.folder, json_file=self.folder / "rows.json")
        self.assertNotIn("nan", report.rows["b"]["flags"])
        self.assertAlmostEqual(report.rows["b"]["speedup"], 1.3, places=2)
        self.assertNotIn("nan nats", self.page())
        self.assertNotIn("inf", plain(clipping(study_of(self.folder)).figure))

    def test_memory_is_that_of_attempts_on_as_many_ranks_as_the_last(self):
        folder = self.folder / "run"
        run(folder, ranks=1, memory=8_000_000)
        run(self.folder / "after", ranks=4, memory=2_000_000)
        (self.folder / "after/metrics.h5").rename(folder / "metrics.1.h5")
        with h5py.File(folder / "metrics.1.h5", "a") as file:
            file["steps/step"][...] += 20
        self.assertEqual(Report(folder, json_file=self.folder / "rows.json").rows["run"]["memory_peak"], 2_000_000)

    def test_rows_without_words_or_files_that_can_be_read(self):
        made = Made(self.folder, baseline="a")
        made.add("a")
        made.add("skipped", status="skipped", made=False)
        (made.add("b") / "bench.h5").write_bytes(b"")
        made.add("empty", made=False)
        (self.folder / "empty/status.json").write_bytes(b"")
        report = Report(self.folder, "--html", self.folder / "page.html")
        self.assertIn("status.json is damaged", report.err)
        page = plain((self.folder / "page.html").read_text())
        self.assertIn("skipped (without a reason)", page)
        self.assertIn("2 with a result", page)

    def test_a_run_alone_that_failed_has_a_speed_and_no_speed_up(self):
        run(self.folder / "run", losses=np.where(STEPS > 20, np.nan, 3.0))
        words = " ".join(Report(self.folder / "run").out.split())
        self.assertIn("no speed-up: run failed, or a loss of it is not finite", words)

    def test_tokens_are_not_counted_by_steps_of_another_batch(self):
        made = Made(self.folder, baseline="a")
        made.add("a", validation=(3., 2.9, 2.8), config={"optim.lr": "1"})
        folder = made.add("b", validation=(2.95, 2.85, 2.75), config={"optim.lr": "2", "train.micro_batch": "1"})
        (folder / "metrics.h5").rename(folder / "metrics.1.h5")
        run(folder, validation=(2.95, 2.85, 2.75), config={"optim.lr": "2"})
        with h5py.File(folder / "metrics.1.h5", "a") as file:
            file["steps/step"][...] += 30
            file["eval/step"][...] += 30
        self.assertNotIn("after 7.68K tokens", plain(self.page()))

    def test_bytes_are_counted_on_as_many_ranks_as_the_last_attempt(self):
        made = Made(self.folder)
        folder = made.add("a", ranks=2)
        run(self.folder / "before", ranks=4, parameters=40_000, strategy="ddp")
        (folder / "metrics.h5").rename(folder / "metrics.1.h5")
        (self.folder / "before/metrics.h5").rename(folder / "metrics.h5")
        row, = study_of(self.folder).trained
        self.assertEqual(row.sent().value - 8, row.planned("wire_bytes_per_step").value)
        self.assertEqual(Sweep(self.folder).evaluate(row.sent().source), row.sent().value)
        self.assertIn("each sent exactly the bytes", self.found(resources.volume))

    def test_columns_without_rows_are_not_known(self):
        made = Made(self.folder)
        with h5py.File(made.add("a") / "metrics.h5", "a") as file:
            file["comm/broadcast/bytes"] = np.zeros(0)
        row, = study_of(self.folder).trained
        self.assertIsNone(row.sent())
        row.row.metrics.comm[0]["all_reduce/bytes"][9:] = -1
        self.assertEqual(row.sent("all_reduce").value, 8)
        row.row.metrics.comm[0]["all_reduce/bytes"][:] = -1
        self.assertIsNone(row.sent("all_reduce"))
        self.page("--plots", self.folder / "plots")

    def test_rows_that_a_full_disk_cost_are_missed(self):
        made = Made(self.folder)
        for name, steps in ("whole", 30), ("cut", 2000):
            (made.add(name) / "status.json").write_text(json.dumps({"state": "finished", "step": steps, "steps": steps}))
        whole, cut = study_of(self.folder).rows
        self.assertEqual((whole.values["flags"], cut.values["flags"]), ([], ["lost"]))
        self.assertIn("cut: metrics.h5 has no rows after step 30, but the run came to step 2000", plain(self.page()))
        alone = self.folder / "cut/run"
        (alone / "status.json").write_text(json.dumps({"state": "finished", "step": 30, "message": "metrics lack rows"}))
        self.assertIn("run: done: metrics lack rows", Report(alone, "--html", self.folder / "page.html").out)
        self.assertIn("run is done (metrics lack rows)", plain((self.folder / "page.html").read_text()))

    def test_a_warm_up_that_leaves_no_step_leaves_no_speed(self):
        run(self.folder / "a", validation=(3.0, 2.5))
        report = Report(self.folder / "a", "--warmup", "30", "--html", self.folder / "page.html", json_file=self.folder / "rows.json")
        self.assertEqual((report.rows["a"]["tokens_per_second"], report.rows["a"]["timed_steps"]), (None, 0))
        self.assertIn("a: no step is left after warm-up, so it has no speed", report.out)
        self.assertIn('id="panel-losses"', (self.folder / "page.html").read_text())
        self.assertEqual(Report(self.folder / "a", "--warmup", "29", json_file=self.folder / "rows.json").rows["a"]["timed_steps"], 1)

    def failing(self):
        """A sweep whose last row broke off: fast, with little memory, and a loss that grew without end."""
        made = Made(self.folder, baseline="base")
        validation = (3.0, 2.5)
        made.add("base", memory=3_000_000, validation=validation)
        made.add("small", memory=1_500_000, rate=900, spread=0, validation=validation, config={"train.micro_batch": "8"})
        made.add("bad", status="failed", memory=500_000, rate=1600, losses=np.append(5 / np.sqrt(np.arange(1, 30)), 1.058e18), validation=(3.0, 1e18))
        return study_of(self.folder)

    def test_rows_that_failed_are_compared_with_none(self):
        study = self.failing()
        self.assertEqual([row.name for row in study.sound], ["base", "small"])
        self.assertIn("small has the lowest peak of memory", self.found(resources.least_memory))
        self.assertIn("No row is faster than the baseline", self.found(speed.fastest))
        axes = throughput(study).figure.axes[0]
        self.assertEqual([label.get_text() for label in axes.get_yticklabels()], ["base", "small", "bad (failed)"])
        self.assertEqual([bar.get_hatch() for bar in axes.patches], [None, None, "////"])
        self.assertEqual([text.get_text() for text in axes.texts], ["1.00K  1.00x", "900  0.90x", "1.60K"])
        table = Report(self.folder).cells()
        self.assertEqual((table["bad"]["speed-up"], table["bad"]["loss"]), ("-", "1.058e+18"))
        alone, = study_of(self.folder / "bad").rows
        self.assertEqual(study_of(self.folder / "bad").sound[0].name, alone.name)

    def test_losses_that_diverged_leave_the_picture(self):
        study = self.failing()
        for picture, high in (losses, 5), (progress, 3):
            panel = picture(study)
            axes = panel.figure.axes[0]
            self.assertAlmostEqual(axes.get_ylim()[1], high, delta=0.5)
            self.assertGreater(axes.get_ylim()[0], 0)
            self.assertIn("Losses above the picture: bad.", plain(panel.caption))
            self.assertIn("bad (failed)", [line.get_label().partition(",")[0] for line in axes.lines])
        study.rows.pop()
        self.assertNotIn("above the picture", plain(losses(study).caption))

    def test_a_baseline_did_not_fail(self):
        for name, losses in ("a", np.full(30, np.nan)), ("b", None):
            run(self.folder / name, losses=losses)
        self.assertIn("speed-up against b", Report(self.folder / "a", self.folder / "b").out)

    def test_ranks_that_the_driver_does_not_measure_keep_their_columns(self):
        made = Made(self.folder)
        folder = made.add("a", ranks=3)
        with h5py.File(folder / "metrics.h5", "a") as file:
            file["ranks/device/utilization"] = [[np.nan, 0.7, 0.5]] * 2
        row, = study_of(self.folder).trained
        np.testing.assert_array_equal(row.utilization(), [np.nan, 0.7, 0.5])
        first, = row.row.repeats
        first.ranks.append({"device/utilization": np.array([[0.3, 0.9]])})
        np.testing.assert_allclose(row.utilization(), [0.3, (0.7 * 2 + 0.9) / 3, 0.5])
        self.assertIsNotNone(device(study_of(self.folder)))

    def test_seeds_that_were_evaluated_after_other_steps_are_curves_of_their_own(self):
        made = Made(self.folder)
        for seed, validation in ("1", [3.0, 2.5, 2.2]), ("2", [3.1, 2.6, 2.1]), ("3", [3.0, 2.0]):
            made.add(f"seed-{seed}", config={"run.seed": seed}, validation=validation)
        rows = study_of(self.folder).trained
        self.assertEqual([len(group) for group in by_seeds(rows[:2])], [2])
        self.assertEqual([len(group) for group in by_seeds(rows)], [1, 1, 1])
        rows[1].values["status"] = "failed"
        self.assertEqual([len(group) for group in by_seeds(rows[:2])], [1, 1])

    def test_lines_over_the_batch_are_named_by_what_their_rows_have_in_common(self):
        made = Made(self.folder)
        for ranks in (1, 2):
            for batch in (1, 2, 3, 4, 5, 6, 7, 8):
                made.add(f"{ranks}-{batch}", ranks=ranks, config={"train.micro_batch": str(batch)})
        above, below = over_batch(study_of(self.folder)).figure.axes
        self.assertEqual([line.get_label() for line in above.lines[::2]], ["zero3, 1 rank", "zero3, 2 ranks"])
        self.assertLess(len(below.get_xticks()), 10)


if __name__ == "__main__":
    unittest.main()
