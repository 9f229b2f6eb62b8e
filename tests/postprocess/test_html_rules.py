"""tessera-report --html: recommendations on sweeps with known answers; findings appear and vanish with their conditions."""
import shutil
import unittest
from pathlib import Path

import h5py
import numpy as np

from html_case import Html, plain, study_of
from made_sweep import Made, predicted

from tessera_report.html.findings import listed as findings
from tessera_report.html.recommendation import recommend, sentence
from tessera_report.studies.course.rows import reshard_pairs


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
        made.add("longer", rate=4000, config={"train.seq_len": "128"})
        made.add("slower", rate=500)
        with h5py.File(made.add("resumed", rate=3000) / "metrics.h5", "a") as file:
            file["steps/step"][...] += 10
        with h5py.File(made.add("short", rate=3000) / "metrics.h5", "a") as file:
            for name in list(file["steps"]):
                values = file["steps"][name]
                if isinstance(values, h5py.Dataset):
                    rows = values[:20]
                    del file["steps"][name]
                    file["steps"][name] = rows
        made.bench("bench")
        best, tied, reasons = self.recommend()
        self.assertEqual((best, tied), ("good", ["good"]))
        self.assertIn("Slower", reasons.pop("slower"))
        self.assertEqual(
            reasons, {
                "resumed": "It started from a checkpoint.", "short": "It trained fewer steps than the baseline.",
                "big": "It does not fit: needs 120 GB a rank.", "killed": "It did not end: failed: killed by signal 9.",
                "nan": "A loss is not finite.", "other model": "It trains another model than the baseline.",
                "other data": "It trains on other data than the baseline.",
                "longer": "Its sequences are not as long as the baseline's: train.seq_len = 128.",
                "slowed": "Its collectives are slowed otherwise than the baseline's: comm.emulate = 2.00ms,0.", "bench": "It measures no training."
            })

    def test_none_where_none_ended(self):
        made = Made(self.folder)
        made.add("killed", status="failed", message="killed by signal 9", rate=9000)
        self.assertEqual(self.answer(), "There is one row, so there is nothing to choose.")
        made.add("stopped", status="stopped")
        self.assertEqual(self.answer(), "No row is eligible, so none is recommended.")


    def answer(self):
        return plain(sentence(recommend(study_of(self.folder))))

    def test_nothing_is_decided_where_a_noisy_row_might_be_the_fastest(self):
        made = Made(self.folder, baseline="calm")
        made.add("calm", rate=1000)
        made.add("noisy", rate=1200, spread=0.6)
        best, _, reasons = self.recommend()
        self.assertEqual((best, reasons), (None, {"noisy": "Its speed is not reliable: the quartiles of noisy lie 42% of its median apart."}))
        self.assertEqual(self.answer(), "Not decided: repeat with --sweep.repeat=4. The quartiles of noisy lie 42% of its median apart, "
                         "and it might be the fastest row.")
        for repeat in (2, 3, 4):
            shutil.copytree(self.folder / "noisy/run", self.folder / f"noisy/run.{repeat}")
        self.assertTrue(self.answer().startswith("Not decided: repeat on a quieter machine. The quartiles of noisy"))
        text = self.page()
        self.assertNotIn("Every other row", text)
        self.assertNotIn("Take <code>", text)
        shutil.rmtree(self.folder / "noisy")
        made.rows.pop()
        made.add("slow and noisy", rate=500, spread=0.6)
        self.assertEqual(self.recommend()[0], "calm")

    def test_more_threads_than_cores_are_not_recommended(self):
        crowd = {"cores": 2.0, "compute_threads": 4.0}
        made = Made(self.folder, baseline="one")
        made.add("four", ranks=4, rate=9000, host=crowd)
        made.add("slower", ranks=4, rate=8000, host=crowd)
        self.assertEqual(self.answer(), "Not decided: four had 4 compute threads on 2 cores, and so it is with every row that could be taken. "
                         "Repeat with a core for each thread.")
        made.add("one", ranks=1)
        best, _, reasons = self.recommend()
        self.assertEqual((best, reasons["four"]), ("one", "Its speed is not reliable: four had 4 compute threads on 2 cores."))

    def test_rows_that_ran_at_the_same_time_decide_nothing(self):
        made = Made(self.folder, baseline="a")
        made.add("a", times=(100.0, 120.5))
        made.add("b", times=(120.5, 130), rate=1100)
        made.add("elsewhere", times=(100, 130), rate=900, host={"hosts": "node2 x2"})
        self.assertEqual(self.recommend()[0], "b")
        self.assertIsNone(self.found(findings.unreliable))
        made.bench("bench", times=(110, 125))
        self.assertEqual({row.name: row.values["flags"] for row in study_of(self.folder).rows},
                         {"a": ["overlap"], "b": ["overlap"], "elsewhere": ["host"], "bench": ["overlap"]})
        self.assertEqual(self.answer(), "Not decided: repeat with --sweep.repeat=4. b ran at the same time as bench, and it might be the fastest row.")
        self.assertIn("3 rows that shared their host with other rows (most: bench ran at the same time as a, b).", self.found(findings.unreliable))
        self.assertEqual(self.found(findings.fastest), "b is the fastest row, 1.10x as fast as the baseline a; this is not reliable, because "
                         "b ran at the same time as bench, and a ran at the same time as bench.")

    def test_rows_over_one_emulated_link_are_compared(self):
        made = Made(self.folder, baseline="a")
        made.add("a", config={"comm.emulate": "0.002,1000000000"})
        made.add("b", rate=1100, config={"comm.emulate": "0.002,1000000000"})
        made.add("real", rate=2000)
        self.assertEqual(self.recommend()[0], "b")
        self.assertIn("Take b: 1.10K tokens/s over collectives slowed by comm.emulate = 2.00ms,1.00GB/s with", self.answer())


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

    def test_a_superlative_names_its_rows_where_another_row_goes_beyond_it(self):
        made = Made(self.folder, baseline="base")
        made.add("base")
        made.add("row", rate=2000.0, memory=400_000)
        made.add("other seed", rate=3000.0, memory=300_000, config={"run.seed": "7"})
        self.assertIn("row is the fastest of the rows that train as the baseline does, 2.00x", self.found(findings.fastest))
        self.assertIn("row has the lowest peak of memory of the rows that train as the baseline does, 400 kB", self.found(findings.least_memory))
        shutil.rmtree(self.folder / "row")
        made.add("row", rate=500.0)
        self.assertIn("None of the rows that train as the baseline does is faster than the baseline base", self.found(findings.fastest))

    def test_they_appear_and_vanish(self):
        drop, zero = {"memory.checkpoint": "block"}, {"shard.prefetch_forward": "0", "shard.prefetch_backward": "0"}
        for name, base, holds, gone, says in [
            ("not_ended", {}, {"status": "failed"}, {}, "1 of 2 rows ended without a result: row."),
            ("skipped", {}, {"status": "skipped", "message": "no GPU", "made": False}, {}, "1 row was skipped: row (no GPU)."),
            ("under_way", {}, {"status": "pending", "made": False}, {}, "1 row waits: row."),
            ("fastest", {}, {"rate": 2000.0}, {"status": "failed"},
             "row is the fastest row, 2.00x as fast as the baseline base."),
            ("least_memory", {}, {"memory": 400_000}, {"memory": 950_000},
             "400 kB per rank; base needs 1.00 MB, 2.50x as much."),
            ("equal_losses", {}, {}, {"losses": 5.001 / np.sqrt(np.arange(1, 31))}, "1 of 1 row on the same tokens has"),
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
             "In row rank 1 is slowing the others down: 2 of 3 reports name it"),
            ("reading", {}, {"reading": 0.25}, {}, "most in row, 25.0%."),
            ("unreliable", {}, {"spread": 0.3}, {"spread": 0.1}, "Speeds of 1 of 2 rows are not reliable and decide nothing: 1 row with quartiles far "
             "apart (most: the quartiles of row lie 22% of its median apart)."),
            ("prefetch", {}, {"config": zero, "rate": 500}, {"config": drop},
             "row (shard.prefetch_forward = 0) trains at 0.50x the speed of base"),
            ("checkpointing", {}, {"config": drop,
                                   "rate": 800}, {"config": zero}, "row (memory.checkpoint = block) trains at 0.80x"),
            ("reshard", {}, {"config": {"shard.reshard_after_forward": "false"}}, {}, "trains at 1.00x"),
            ("unit_size", {}, {"config": {"shard.min_params": "5000"}}, {}, "(shard.min_params = 5000) trains at 1.00x"),
            ("whole_model", {"config": {"shard.wrap": "size"}}, {"config": {"shard.wrap": "model"}, "rate": 900}, {"config": {"shard.wrap": "size"}},
             "row (shard.wrap = model) trains at 0.90x the speed of base (shard.wrap = size)"),
            ("official", {}, {"strategy": "PyTorch FSDP1", "host": {"version": "PyTorch 2.15"}, "rate": 500}, {},
             "Against PyTorch: base trains at 2.00x the speed of row (FSDP1 of PyTorch)"),
            ("graphs", {}, {"config": {"run.graph": "false"}}, {}, "(run.graph = false) trains at 1.00x"),
            ("gather_limit", {}, {"config": {"shard.limit_all_gathers": "0"}}, {}, "trains at 1.00x"),
            ("weak_scaling", {}, {"ranks": 4,
                                  "rate": 1500}, {"ranks": 4,
                                                  "config": {"train.micro_batch": "1"}}, "keeps 75.0% of the FLOP/s"),
            ("unreliable", {"host": {"cores": 2.0, "compute_threads": 2.0}}, {"host": {"cores": 2.0, "compute_threads": 8.0}},
             {"host": {"cores": 2.0, "compute_threads": 2.0}}, "1 row with more compute threads than cores (most: row had 8 compute threads on 2 cores)."),
            ("unreliable", {}, {"host": {"load_average_start": 12.0}}, {}, "1 row that began while other work ran (most: row began while other work ran, at a load average of 12.0)."),
            ("beyond_price", {}, {"prediction": predicted(0.77)}, {"prediction": predicted(0.52)}, "row: a step took 0.66x its prediction"),
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

    def test_a_caveat_stands_in_the_finding_that_it_weakens(self):
        crowd = {"cores": 2.0, "compute_threads": 8.0}
        why = "; this is not reliable, because row had 8 compute threads on 2 cores, and the quartiles of row lie 36% of its median apart."
        for name, options in (("fastest", {}), ("strong_scaling", {"ranks": 4}), ("weak_scaling", {"ranks": 4}), ("waiting", {"exposed": 0.4}),
                              ("graphs", {"config": {"run.graph": "false"}})):
            with self.subTest(name):
                made = Made(self.folder, baseline="base")
                made.add("base", config={"train.accumulation": "2"} if name == "strong_scaling" else {})
                made.add("row", **{"rate": 1700, "spread": 0.5, "host": crowd, **options})
                self.assertTrue(self.found(getattr(findings, name)).endswith(why), self.found(getattr(findings, name)))
                for row in ("base", "row"):
                    shutil.rmtree(self.folder / row)

    def test_prefetch_leads_where_rows_show_it_over_several_batches(self):
        made = Made(self.folder, baseline="64-0")
        for length in (64, 128):
            for depth, exposed in ((0, 0.225), (1, 0.0625)):
                ahead = {"shard.prefetch_forward": str(depth), "shard.prefetch_backward": str(depth), "train.seq_len": str(length)}
                with h5py.File(made.add(f"{length}-{depth}", exposed=exposed, config=ahead) / "metrics.h5", "a") as file:
                    file["memory/gathered_units/planned"][...] = 1000 * (1 + depth)
        says = "Prefetch: with 1 unit gathered ahead compute waits for communication 6.2% of a step instead of 22.5% (64-1 against 64-0), for 1.00 kB more of gathered units."
        self.assertEqual(self.found(findings.prefetch), says)
        text = self.page()
        verdict = plain(text[text.index('class="verdict"'):text.index("<ul>", text.index('class="verdict"'))])
        self.assertLess(verdict.index(says), verdict.index("Take 64-"))
        self.assertEqual({row.name: row.values["flags"] for row in study_of(self.folder).rows},
                         {"64-0": [], "64-1": [], "128-0": ["sequence", "batch"], "128-1": ["sequence", "batch"]})
        self.assertNotIn("another model", text)

    def test_speeds_whose_quartiles_overlap_are_not_told_apart(self):
        unsure = "; their quartiles overlap, so their speeds are not told apart."
        for name, config, ranks in (("fastest", {}, 2), ("graphs", {"run.graph": "false"}, 2), ("strong_scaling", {}, 4)):
            base = {"config": {"train.accumulation": "2"}} if ranks == 4 else {}
            with self.subTest(name):
                for spread, ends in ((0.01, False), (0.2, True)):
                    made = Made(self.folder, baseline="base")
                    made.add("base", spread=spread, **base)
                    made.add("row", rate=1050, ranks=ranks, config=config)
                    self.assertEqual(self.found(getattr(findings, name)).endswith(unsure), ends)
                    for row in ("base", "row"):
                        shutil.rmtree(self.folder / row)

    def test_an_option_is_shown_where_speeds_are_told_apart(self):
        made = Made(self.folder, baseline="base")
        made.add("base")
        made.add("noisy", rate=1000, spread=0.9, config={"shard.min_params": "5000"})
        made.add("quiet", rate=1100, config={"shard.min_params": "6000"})
        self.assertIn("quiet (shard.min_params = 6000) trains at 1.10x", self.found(findings.unit_size))

    def test_a_pair_on_one_rank_shows_nothing_of_communication(self):
        made = Made(self.folder)
        for ranks in 1, 2:
            for value in "true", "false":
                made.add(f"{ranks}-{value}", ranks=ranks, config={"shard.reshard_after_forward": value})
        self.assertEqual([(kept.name, dropped.name) for kept, dropped in reshard_pairs(study_of(self.folder))], [("2-false", "2-true")])

    def test_volume_and_plan(self):
        made = Made(self.folder, baseline="one")
        path = made.add("one") / "metrics.h5"
        self.assertIn("1 row on several ranks: each sent exactly", self.found(findings.volume))
        self.assertIsNone(self.found(findings.plan_and_memory))
        with h5py.File(path, "a") as file:
            file["comm/all_gather/bytes"][...] += 512
            file["memory/process/planned"][...] = 500_000
        self.assertIn("one sent", self.found(findings.volume))
        self.assertIn("1 of 1 row measured more memory than planned, by 500 kB (one) per rank:",
                      self.found(findings.plan_and_memory))
        with h5py.File(path, "a") as file:
            del file["schedule"]
        self.assertIsNone(self.found(findings.volume))


if __name__ == "__main__":
    unittest.main(verbosity=2)
