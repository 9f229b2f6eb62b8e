"""tessera-report --html: recommendations on sweeps with known answers; findings appear and vanish with their conditions."""
import shutil
import unittest
from pathlib import Path

import h5py
import numpy as np

from html_case import Html, plain, study_of
from made_sweep import Made

from tessera_report.html import findings
from tessera_report.html.recommendation import recommend


class Recommendations(Html):
    def recommend(self):
        result = recommend(study_of(self.folder))
        return result.row and result.row.name, result.tied, {
            name: plain(reason)
            for name, reason in result.reasons.items()
        }

    def test_the_fastest_where_nothing_overlaps(self):
        made = Made(self.folder, baseline="ddp")
        made.add("ddp", rate=1000, strategy="ddp")
        made.add("zero3", rate=1200, memory=3_000_000)
        made.add("slow", rate=500, memory=100_000)
        best, tied, reasons = self.recommend()
        self.assertEqual((best, tied), ("zero3", ["zero3"]))
        self.assertIn("Slower: 0.42x of the median of zero3", reasons["slow"])
        self.assertEqual(set(reasons), {"ddp", "slow"})

    def test_the_least_memory_where_quartiles_overlap(self):
        made = Made(self.folder, baseline="ddp")
        made.add("ddp", rate=1010, memory=4_000_000, spread=0.05, strategy="ddp")
        made.add("zero3", rate=1000, memory=1_500_000, spread=0.05)
        made.add("zero2", rate=1005, memory=2_500_000, spread=0.05, strategy="zero2")
        made.add("small", rate=800, memory=500_000, spread=0.05)
        best, tied, reasons = self.recommend()
        self.assertEqual((best, set(tied)), ("zero3", {"ddp", "zero3", "zero2"}))
        self.assertEqual(reasons["zero2"], "Tied with the fastest; needs 2.50 MB, zero3 needs 1.50 MB.")
        self.assertIn("Slower: 0.79x of the median of ddp", reasons["small"])

    def test_only_rows_that_fitted_ended_and_are_alike(self):
        made = Made(self.folder, baseline="good")
        made.add("good", rate=1000)
        made.add("big", status="does-not-fit", message="needs 120 GB a rank", made=False)
        made.add("killed", status="failed", message="killed by signal 9", rate=9000)
        made.add("nan", rate=8000, losses=np.where(np.arange(30) == 20, np.nan, 3.0))
        made.add("other model", rate=7000, config={"model.width": "8"})
        made.add("other data", rate=6000, config={"data.source": "elsewhere"})
        made.add("slowed", rate=5000, config={"comm.emulate": "0.002,0"})
        made.bench("bench")
        best, tied, reasons = self.recommend()
        self.assertEqual((best, tied), ("good", ["good"]))
        self.assertEqual(
            reasons, {
                "big": "It does not fit: needs 120 GB a rank.", "killed": "It did not end: failed: killed by signal 9.",
                "nan": "A loss is not finite.", "other model": "It trains another model than the baseline.",
                "other data": "It trains on other data than the baseline.",
                "slowed": "Its collectives are slowed: comm.emulate = 0.002,0.", "bench": "It measures no training."
            })

    def test_none_where_none_ended(self):
        Made(self.folder).add("killed", status="failed", message="killed by signal 9", rate=9000)
        self.assertEqual(self.recommend()[0], None)


class Findings(Html):
    """Each finding: rows for which it holds, and a change with which it does not."""
    def check(self, function, base, holds, not_any_more):
        """`holds` and `not_any_more` are options of the second row."""
        texts = []
        for options in (holds, not_any_more):
            made = Made(self.folder, baseline="base")
            made.add("base", **base)
            made.add("row", **options)
            texts.append(self.found(function))
            for row in ("base", "row"):
                shutil.rmtree(self.folder / row)
        self.assertIsNotNone(texts[0], function.__name__)
        self.assertIsNone(texts[1], function.__name__)
        return texts[0]

    def test_they_appear_and_vanish(self):
        drop, zero = {"memory.checkpoint": "block"}, {"shard.prefetch_forward": "0", "shard.prefetch_backward": "0"}
        for name, base, holds, gone, says in [
            ("not_ended", {}, {"status": "failed"}, {}, "1 of 2 rows have no result: row."),
            ("fastest", {}, {"rate": 2000.0}, {"status": "failed"},
             "row is the fastest row, 2.00x as fast as the baseline base."),
            ("least_memory", {}, {"memory": 400_000}, {"memory": 950_000},
             "400 kB a rank; base needs 1.00 MB, 2.50x as much."),
            ("equal_losses", {}, {}, {"losses": 5.001 / np.sqrt(np.arange(1, 31))}, "1 of 1 rows on the same tokens"),
            ("near_losses", {}, {"losses": 5.001 / np.sqrt(np.arange(1, 31))}, {},
             "In the baseline's precision the losses of 1 row on the same tokens differ from it; the most those of row, by at most 1.00e-03 nats"
             ),
            ("other_precision", {},
             {"losses": 5.001 / np.sqrt(np.arange(1, 31)),
              "config": {"precision.compute": "bf16"}}, {"losses": 5.001 / np.sqrt(np.arange(1, 31))},
             "In another precision than the baseline's the losses of 1 row"),
            ("loss_stands", {}, {"losses": np.linspace(2, 3, 30)}, {},
             "The loss did not fall in row: in row from 2.0000 to 3.0000."),
            ("waiting", {}, {"exposed": 0.4}, {"exposed": 0.1}, "in 1 row; most in row, 40.0%."),
            ("straggler", {}, {"straggler": (-1, 1, 1)}, {"straggler": (-1, 1, 0)},
             "In row rank 1 holds the others up: 2 of 3 reports name it"),
            ("reading", {}, {"reading": 0.25}, {}, "most in row, 25.0%."),
            ("noise", {}, {"spread": 0.3}, {"spread": 0.1},
             "1 of 2 rows the quartiles lie more than 15% of the median apart"),
            ("prefetch", {}, {"config": zero, "rate": 500}, {"config": drop},
             "row (shard.prefetch_forward = 0) trains at 0.50x of the speed of base"),
            ("checkpointing", {}, {"config": drop,
                                   "rate": 800}, {"config": zero}, "row (memory.checkpoint = block) trains at 0.80x"),
            ("reshard", {}, {"config": {"shard.reshard_after_forward": "false"}}, {}, "trains at 1.00x"),
            ("unit_size", {}, {"config": {"shard.min_params": "5000"}}, {}, "(shard.min_params = 5000) trains at 1.00x"),
            ("graphs", {}, {"config": {"run.graph": "false"}}, {}, "(run.graph = false) trains at 1.00x"),
            ("gather_limit", {}, {"config": {"shard.limit_all_gathers": "0"}}, {}, "trains at 1.00x"),
            ("weak_scaling", {}, {"ranks": 4,
                                  "rate": 1500}, {"ranks": 4,
                                                  "config": {"train.micro_batch": "1"}}, "keeps 75.0% of the FLOP/s"),
            ("crowded", {"host": {"cores": 2.0, "compute_threads": 2.0}}, {"host": {"cores": 2.0, "compute_threads": 8.0}},
             {"host": {"cores": 2.0, "compute_threads": 2.0}}, "1 row had more compute threads than cores, most row: 8 on 2."),
            ("busy_machine", {}, {"host": {"load_average_start": 12.0}}, {}, "row at 12.0."),
            ("start_up", {"host": {"seconds_to_first_step": 1.0}}, {}, {"host": {"seconds_to_first_step": 1.0}},
             "12.5 s, the time of 24 steps."),
        ]:
            with self.subTest(name):
                self.assertIn(says, self.check(getattr(findings, name), base, holds, gone))

    def test_all_are_tested(self):
        code = Path(__file__).read_text()
        self.assertEqual([
            one.__name__
            for one in findings.FINDINGS
            if code.count(f'"{one.__name__}"') + code.count(f"findings.{one.__name__})") == 0
        ], [])

    def test_strong_scaling(self):
        made = Made(self.folder, baseline="one")
        made.add("one", ranks=1, config={"train.accumulation": "2"})
        self.assertIsNone(self.found(findings.strong_scaling))
        made.add("two", ranks=2, rate=1900)
        self.assertEqual(self.found(findings.strong_scaling),
                         "Strong scaling: from 1 to 2 ranks two is 1.90x as fast as one.")

    def test_speeds_whose_quartiles_overlap_are_not_told_apart(self):
        unsure = "; their quartiles overlap, so their speeds are not told apart."
        for name, config, ranks in (("fastest", {}, 2), ("graphs", {"run.graph": "false"}, 2), ("strong_scaling", {}, 4)):
            base = {"config": {"train.accumulation": "2"}} if ranks == 4 else {}
            with self.subTest(name):
                for spread, ends in ((0.01, False), (0.3, True)):
                    made = Made(self.folder, baseline="base")
                    made.add("base", spread=spread, **base)
                    made.add("row", rate=1100, ranks=ranks, config=config)
                    self.assertEqual(self.found(getattr(findings, name)).endswith(unsure), ends)
                    for row in ("base", "row"):
                        shutil.rmtree(self.folder / row)

    def test_an_option_is_shown_where_speeds_are_told_apart(self):
        made = Made(self.folder, baseline="base")
        made.add("base")
        made.add("noisy", rate=1000, spread=0.9, config={"shard.min_params": "5000"})
        made.add("quiet", rate=1100, config={"shard.min_params": "6000"})
        self.assertIn("quiet (shard.min_params = 6000) trains at 1.10x", self.found(findings.unit_size))

    def test_volume_and_plan(self):
        made = Made(self.folder, baseline="one")
        path = made.add("one") / "metrics.h5"
        self.assertIn("1 row on several ranks: each sent exactly", self.found(findings.volume))
        self.assertIsNone(self.found(findings.plan_and_memory))
        with h5py.File(path, "a") as file:
            file["comm/all_gather/bytes"][...] += 512
            file["memory/process/planned"][...] = 500_000
        self.assertIn("one sent", self.found(findings.volume))
        self.assertIn("2.00x: 1.00 MB against 500 kB; 841 kB of the peak lies outside the measured categories.",
                      self.found(findings.plan_and_memory))
        with h5py.File(path, "a") as file:
            del file["schedule"]
        self.assertIsNone(self.found(findings.volume))


if __name__ == "__main__":
    unittest.main(verbosity=2)
