"""tessera-report --html: the timeline of a step, memory at its peak, and the table of results."""
import json
import re
import unittest
import warnings

import h5py
import matplotlib

from html_case import Html, plain, study_of
from made_sweep import Made, operation, schedule

from tessera_report.html.panels.losses import losses
from tessera_report.html.panels.memory import at_the_peak, draw_memory
from tessera_report.html.panels.progress import progress
from tessera_report.html.panels.scaling import strong
from tessera_report.html.panels.throughput import throughput
from tessera_report.html.panels.timeline import phases, place, shortened, timelines
from tessera_report.html.panels.utilization import model_flops
from tessera_report.html.svg import STYLE


class Timelines(Html):
    def test_a_timeline_begins_with_shares_and_the_prologue(self):
        plan = schedule(4)
        labels = {phase: [(box.column, box.queue, box.label) for box in boxes] for phase, boxes in phases(plan)}
        self.assertEqual(list(labels), ["init", "forward", "backward", "optimizer"])
        self.assertEqual(labels["init"], [(0, "at rest", "wte 1/4"), (1, "at rest", "h.0 1/4")])
        gathered = [operation(20 + place, "gather", "gather", f"gather {unit}", unit) for place, unit in enumerate(("wte", "h.0"))]
        plan["segments"].append({"name": "prologue", "role": "prologue", "operations": gathered})
        plan["prologue"] = [{"segment": 2, "micro_step": 0}]
        _, boxes = phases(plan)[0]
        self.assertEqual([(box.column, box.queue, box.label) for box in boxes][2:], [(1, "gather", "wte"), (2, "gather", "h.0")])
        _, boxes = phases(schedule(1))[0]
        self.assertEqual([box.label for box in boxes], ["wte", "h.0"])

    def test_a_timeline_shows_the_first_and_the_last_blocks(self):
        plan = schedule(2)
        blocks = [f"h.{place}" for place in range(6)]
        plan["units"] = [{"name": unit, "block": True, "parts": [f"{unit}.mlp"]} for unit in blocks]
        boxes = place([operation(number, "forward", "compute", f"forward {unit}.mlp", part=f"{unit}.mlp") for number, unit in enumerate(blocks)]
                      + [operation(6, "backward", "compute", "head+loss", part="head")]
                      + [operation(7 + number, "norm", "compute", f"norm {unit}", unit) for number, unit in enumerate(blocks)])
        shown, dots = shortened(boxes, plan["units"])
        self.assertEqual([(box.column, box.label) for box in shown],
                         [(0, "h.0.mlp"), (1, "h.1.mlp"), (3, "h.4.mlp"), (4, "h.5.mlp"), (5, "head+loss"), (6, "h.0")])
        self.assertEqual(dots, [2, 7])
        self.assertEqual(shortened(boxes[:4], plan["units"]), (boxes[:4], []))

    def test_reductions_of_the_micro_step_before_are_said(self):
        made = Made(self.folder)
        path = made.add("a", config={"train.accumulation": "2"}) / "metrics.h5"
        self.assertNotIn("micro-step before", timelines(study_of(self.folder))[0].caption)
        with h5py.File(path, "a") as file:
            plan = json.loads(file["schedule"].asstr()[()])
            plan["segments"][0]["operations"].insert(0, operation(90, "reduce-scatter", "reduce", "reduce-scatter wte", "wte"))
            file["schedule"][()] = json.dumps({**plan, "accumulation": 2})
        self.assertIn("Forward also reduces wte: the last gradients of the micro-step before.",
                      plain(timelines(study_of(self.folder))[0].caption))

    def test_timelines_take_prefetch_then_the_recommended_row_then_the_most_units(self):
        made = Made(self.folder, baseline="few")
        made.add("few", rate=1000, strategy="ddp")
        made.add("fast", rate=3000)
        made.add("slow", rate=1000)
        for row in ("few", "fast"):
            self.change(row, units=schedule(2)["units"][:1])
        made.add("many", rate=1000, strategy="ddp")
        titles = [panel.title for panel in timelines(study_of(self.folder))]
        self.assertEqual(titles, ["Timeline of a step: fast", "Timeline of a step: many"])
        for row in ("fast", "many"):
            self.change(row, prefetch_forward=0, prefetch_backward=0)
        titles = [panel.title for panel in timelines(study_of(self.folder))]
        self.assertEqual(titles, ["Timeline of a step: slow", "Timeline of a step: few"])

    def change(self, row, **facts):
        """Other facts in a row's schedule."""
        with h5py.File(self.folder / row / "run/metrics.h5", "a") as file:
            plan = json.loads(file["schedule"].asstr()[()])
            file["schedule"][()] = json.dumps({**plan, **facts})


class Progress(Html):
    def test_validation_losses_over_tokens_and_over_the_time_of_steps(self):
        made = Made(self.folder)
        losses = {"a": [3.0, 2.5, 2.2], "b": [2.9, 2.4, 2.1]}
        seconds = {}
        for name, rate in ("a", 1000), ("b", 2000):
            with h5py.File(made.add(name, rate=rate) / "metrics.h5", "a") as file:
                file["eval/step"], file["eval/loss"] = [10, 20, 30], losses[name]
                seconds[name] = [sum(file["steps/seconds"][:step]) for step in (10, 20, 30)]
        tokens, time = progress(study_of(self.folder)).figure.axes
        for place, name in enumerate(losses):
            self.assertEqual(tokens.lines[place].get_xdata().tolist(), [10 * 512, 20 * 512, 30 * 512])
            self.assertEqual(tokens.lines[place].get_ydata().tolist(), losses[name])
            self.assertEqual(time.lines[place].get_ydata().tolist(), losses[name])
            for found, expected in zip(time.lines[place].get_xdata(), seconds[name], strict=True):
                self.assertAlmostEqual(found, expected)

    def test_equal_losses_are_not_compared(self):
        made = Made(self.folder)
        for name in "a", "b":
            with h5py.File(made.add(name) / "metrics.h5", "a") as file:
                file["eval/step"], file["eval/loss"] = [10, 20, 30], [3.0, 2.5, 2.2]
        self.assertIsNone(progress(study_of(self.folder)))


    def test_validation_over_other_sequences_is_said(self):
        made = Made(self.folder)
        for batch, validation in ("2", (3.0, 2.5)), ("4", (2.9, 2.4)):
            made.add(batch, validation=validation, config={"train.eval_batches": "2", "train.micro_batch": batch})
        panel = progress(study_of(self.folder))
        self.assertEqual([line.get_label() for line in panel.figure.axes[0].lines], ["2, over 4 sequences", "4, over 8 sequences"])
        for panel in panel, losses(study_of(self.folder)):
            self.assertIn("Validation is over 4 or 8 sequences: compare only curves over equal numbers.", plain(panel.caption))
        study = study_of(self.folder)
        study.rows[1].row.metrics.config["train.eval_batches"] = "1"
        self.assertNotIn("sequences", plain(progress(study).caption))


class Utilization(Html):
    def test_maps_have_room_and_names_and_share_what_does_not_matter_to_speed(self):
        made = Made(self.folder)
        for strategy in ("ddp", "zero3"):
            for checkpoint in ("none", "block"):
                for batch in ("1", "2"):
                    for seed in ("1", "2"):
                        made.add(f"{strategy}-{checkpoint}-{batch}-{seed}", strategy=strategy, rate=1000 * int(seed), config={
                            "memory.checkpoint": checkpoint, "train.micro_batch": batch, "train.accumulation": str(3 - int(batch)), "run.seed": seed})
        with warnings.catch_warnings(), matplotlib.rc_context(STYLE):
            warnings.simplefilter("error")
            panel = model_flops(study_of(self.folder))
        axes = panel.figure.axes
        self.assertEqual([one.get_title("left") for one in axes], [f"{strategy}, 2 ranks\nmemory.checkpoint = {checkpoint}"
                                                             for strategy in ("ddp", "zero3") for checkpoint in ("none", "block")])
        self.assertEqual(len(axes[0].texts), 2)
        rates = [row.values["mfu"] for row in study_of(self.folder).rows[:2]]
        self.assertEqual(axes[0].texts[1].get_text(), f"{sum(rates) / 2:.1%}")
        self.assertIn("their median", panel.caption)
        boxes = [one.get_tightbbox() for one in axes]
        self.assertFalse(any(one.overlaps(other) for place, one in enumerate(boxes) for other in boxes[:place]))


class MemoryAndTable(Html):
    def test_memory_adds_up_and_has_one_mark(self):
        made = Made(self.folder)
        made.add("a")
        made.add("b", ranks=4)
        study = study_of(self.folder)
        rows = study.trained
        self.assertEqual([sum(part.value for part in row.at_peak().values()) for row in rows], [97_000.0, 67_000.0])
        panel = at_the_peak(study)
        self.assertEqual(panel.head, ["row", "parameters", "gradients", "optimizer state", "idle", "planned", "measured"])
        axes, = draw_memory(rows).axes
        for line in range(2):
            bars = [bar for bar in axes.patches if round(bar.get_y() + bar.get_height() / 2) == line]
            self.assertAlmostEqual(1e6 * sum(bar.get_width() for bar in bars), (97_000, 67_000)[line])
        marks, = axes.get_lines()
        self.assertEqual([round(1e6 * x) for x in marks.get_xdata()], [1_000_000, 1_000_000])

    def test_speeds_that_are_not_reliable_are_pale_bars_and_open_marks(self):
        made = Made(self.folder, baseline="one")
        made.add("one", ranks=1, config={"train.accumulation": "4"})
        made.add("two", rate=1900, config={"train.accumulation": "2"})
        for text in (throughput(study_of(self.folder)).figure.axes[0].get_xlabel(), strong(study_of(self.folder)).caption):
            self.assertNotIn("not reliable", text)
        made.add("noisy", rate=2000, spread=0.5, config={"run.graph": "false"})
        study = study_of(self.folder)
        axes = throughput(study).figure.axes[0]
        self.assertEqual([bar.get_alpha() for bar in axes.patches], [1, 1, 0.4])
        self.assertIn("pale: not reliable", axes.get_xlabel())
        made.add("four", ranks=4, rate=3000, host={"cores": 2.0, "compute_threads": 4.0})
        panel = strong(study_of(self.folder))
        self.assertIn("Open marks: speeds that are not reliable.", panel.caption)
        self.assertEqual([list(line.get_xdata()) for line in panel.figure.axes[0].get_lines()[1:]], [[1, 2, 4], [4]])

    def test_the_table_has_few_columns_and_no_row_without_training(self):
        made = Made(self.folder, baseline="a")
        made.add("a")
        made.bench("bench")
        text = self.page()
        results = text[text.index('id="results"'):]
        titles = re.findall(r"<th[^>]*>([^<]*)</th>", results[:results.index("</thead>")])
        self.assertEqual(titles, ["row", "ranks", "strategy", "tokens/s", "quartiles", "speed-up", "loss", "step", "planned / peak", "exposed",
                                  "MFU"])
        self.assertIn("<summary>More columns</summary>", results)
        self.assertIn("Without training, so not in the table: bench.", plain(results))
        made.add("b", status="failed")
        self.assertIn(">status</th>", self.page())


if __name__ == "__main__":
    unittest.main(verbosity=2)
