"""tessera-report --html: what weakens a sentence, and sentences that say no more than rows show."""
import unittest

import h5py
import numpy as np

from html_case import Html, course_and_page, plain, study_of
from made_sweep import Made

from tessera_report.html import claims
from tessera_report.html.findings import listed as findings
from tessera_report.html.quartiles import doubts
from tessera_report.html.recommendation import recommend, sentence
from tessera_report.studies.course.figures import sharded_share
from tessera_report.studies.course.tasks import TASKS

BUSY = {"load_average_start": 9.0, "cores": 2.0, "compute_threads": 2.0}
BESIDE = "row began while other work ran, at a load average of 9.0"


class Load(Html):
    def test_other_work_weakens_recommendation_findings_claims_and_tables(self):
        made = Made(self.folder, "course", baseline="base")
        made.add("base", strategy="ddp")
        made.add("row", rate=1500, host=BUSY)
        self.assertEqual(plain(sentence(recommend(study_of(self.folder)))), f"Not decided: repeat on a quieter machine. {BESIDE}, and it might be the fastest row.")
        self.assertEqual(self.found(findings.fastest), f"row is the fastest row, 1.50x as fast as the baseline base; this is not reliable, because {BESIDE}.")
        for claim in claims.share_of_ddp, claims.start_up:
            self.assertEqual(claim(study_of(self.folder)).holds, "not measured")
        self.assertIn(f"; this is not reliable, because {BESIDE}", plain(claims.share_of_ddp(study_of(self.folder)).measured))
        made.add("sure", rate=900)
        claim = claims.share_of_ddp(study_of(self.folder))
        self.assertEqual((claim.holds, plain(claim.measured)), ("yes", "sure: 90.0%"))
        ahead = {"shard.prefetch_forward": "0", "shard.prefetch_backward": "0"}
        made.add("off", rate=500, config=ahead)
        apart = {plain(line[0]): plain(line[6]) for line in TASKS[2].answer(study_of(self.folder)).cells}
        self.assertEqual(apart, {"off": "–", "row": "not reliable", "sure": "yes"})

    def test_shares_of_time_are_judged_on_quiet_machines_only(self):
        made = Made(self.folder, baseline="row")
        made.add("row", host=BUSY, reading=0.02)
        self.assertEqual([claim(study_of(self.folder)).holds for claim in (claims.data_share, claims.utilization)], ["not measured"] * 2)
        made.add("sure", reading=0.2, utilization=0.9)
        self.assertEqual([claim(study_of(self.folder)).holds for claim in (claims.data_share, claims.utilization)], ["no", "no"])

    def test_load_that_the_sweep_left_itself_and_free_cores_are_no_doubt(self):
        made = Made(self.folder, baseline="first")
        made.add("first", ranks=8, times=(0.0, 300.0))
        made.add("next", ranks=1, times=(301.0, 310.0), host={"load_average_start": 8.0, "cores": 8.0, "compute_threads": 1.0})
        made.add("later", ranks=1, times=(900.0, 910.0), host={"load_average_start": 8.6, "cores": 8.0, "compute_threads": 1.0})
        made.add("wide", ranks=1, times=(1900.0, 1910.0), host={"load_average_start": 8.6, "cores": 64.0, "compute_threads": 1.0})
        self.assertEqual([row.name for row in study_of(self.folder).rows if doubts(row)], ["later"])

    def test_other_processes_on_its_gpus_are_a_doubt(self):
        Made(self.folder).add("row", host={"gpu_foreign_processes_start": 0.0, "gpu_foreign_processes_end": 2.0})
        self.assertEqual([plain(one) for one in doubts(study_of(self.folder).rows[0])], ["2 other processes used the GPUs of row"])


class Sentences(Html):
    def test_small_models_and_zero1(self):
        made = Made(self.folder, baseline="ddp")
        for name, parameters, config, rates in (("", 10_000, {}, (1000, 880)), ("-half", 5_000, {"model.layers": "1"}, (2000, 1500))):
            made.add(f"ddp{name}", strategy="ddp", rate=rates[0], parameters=parameters, config=config)
            made.add(f"zero3{name}", rate=rates[1], parameters=parameters, config=config)
        claim = claims.small_models(study_of(self.folder))
        self.assertEqual((claim.holds, plain(claim.measured)), ("yes", "5.00K parameters: zero3-half reaches 75.0% of ddp-half; 10.0K parameters: zero3 reaches 88.0% "
                                                                       "of ddp"))
        self.assertEqual(claims.zero1_speed(study_of(self.folder)).holds, "not measured")
        made.add("zero1", strategy="zero1", rate=930)
        claim = claims.zero1_speed(study_of(self.folder))
        self.assertEqual((claim.holds, plain(claim.measured)), ("yes", "zero1: 93.0%"))
        self.assertIn("ddp 5.00G; over 8 + 8/W: zero1 8.89G; over 16/W: zero3 40.0G", plain(claims.largest_model(study_of(self.folder)).formula))

    def test_the_least_by_plan_is_named_where_it_is_another(self):
        made = Made(self.folder, baseline="a")
        made.add("a", memory=2_000_000)
        made.add("b", memory=1_000_000)
        with h5py.File(made.add("c", memory=1_500_000) / "metrics.h5", "a") as file:
            file["memory/process/planned"][...] = 700_000
        self.assertEqual(self.found(findings.least_memory), "b has the lowest peak of memory, 1.00 MB per rank; a needs 2.00 MB, 2.00x as much. By plan c "
                         "needs least, 700 kB: the rest of a peak is memory that the plan does not count.")

    def test_types_that_differ_are_named(self):
        made = Made(self.folder, baseline="a")
        made.add("a")
        made.add("b", rate=1800, config={"precision.compute": "bf16"})
        self.assertEqual(self.found(findings.fastest), "b is the fastest row, 1.80x as fast as the baseline a (bf16 against fp32).")

    def test_large_differences_of_losses_are_plain_numbers(self):
        made = Made(self.folder, baseline="a")
        made.add("a")
        made.add("b", losses=2.94 + 5 / np.sqrt(np.arange(1, 31)))
        self.assertIn("by at most 2.94 nats at a step", self.found(findings.near_losses))

    def test_the_whole_model_against_units_and_pytorch(self):
        made = Made(self.folder, baseline="units")
        made.add("units", config={"shard.wrap": "size"})
        made.add("manual", rate=800, config={"shard.wrap": "model", "shard.reshard_after_forward": "false", "shard.prefetch_forward": "0"})
        self.assertIn("manual (shard.wrap = model) trains at 0.80x the speed of units (shard.wrap = size)", self.found(findings.whole_model))
        self.assertIsNone(self.found(findings.official))
        theirs = {"kind": "command", "strategy": "PyTorch FSDP1", "host": {"version": "PyTorch 2.15"}, "losses": 5.02 / np.sqrt(np.arange(1, 31))}
        made.add("theirs", rate=500, config={"shard.wrap": "size"}, **theirs)
        said = ("Against PyTorch: units trains at 2.00x the speed of theirs (FSDP1 of PyTorch), with losses at most 0.02 nats apart; "
                "manual trains at 1.60x the speed of theirs (FSDP1 of PyTorch), with losses at most 0.02 nats apart")
        self.assertEqual(self.found(findings.official), said + ".")
        made.add("unlimited", rate=400, host={"cores": 2.0, "compute_threads": 8.0}, config={"shard.wrap": "size", "shard.limit_all_gathers": "0"})
        made.add("theirs-unlimited", rate=200, config={"shard.wrap": "size", "shard.limit_all_gathers": "0"}, **theirs)
        self.assertEqual(self.found(findings.official), said + "; unlimited trains at 2.00x the speed of theirs-unlimited (FSDP1 of PyTorch), with losses "
                         "at most 0.02 nats apart; the speeds of unlimited are not reliable or not told apart.")

    def test_accumulation_is_what_it_was(self):
        made = Made(self.folder)
        made.add("a", config={"train.global_batch": "32"})
        text = self.page()
        shared = text[text.index("Options that all rows share"):]
        self.assertIn("<code>train.accumulation</code></td><td><code>4</code>", shared.replace("\n", ""))

    def test_claims_and_checklist_are_for_studies(self):
        made = Made(self.folder, "mine")
        for ranks in 1, 2:
            made.add(str(ranks), ranks=ranks, config={"train.accumulation": str(2 // ranks)})
        for section in "claims", "checklist":
            self.assertNotIn(f'<section id="{section}"', self.page())
        made.about["file"] = "/elsewhere/gpt2_nanogpt.ini"
        made.add("ddp", strategy="ddp")
        text = self.page()
        self.assertIn('<section id="claims"', text)
        self.assertLess(text.index("zero3 reaches 85 to 95%"), text.index("Claims that no row shows"))
        self.assertLess(text.index("Claims that no row shows"), text.index("zero3 communicates"))


class Course(Html):
    def test_what_rests_sharded_and_heads(self):
        study = study_of(course_and_page()[0])
        self.assertIn("In memory-4 the sharded state is 40.0 kB a rank: parameters, moments and one gradient.", plain(sharded_share(study)))
        task = TASKS[1].answer(study)
        self.assertEqual(len(task.head), len(set(task.head)))
        self.assertIn("Over sizes the time of all-gather grows with the power 1 of the bytes", plain(task.sentence))
        self.assertEqual(TASKS[0].answer(study).head[:6],
                         ["row", "W", "reduction", "planned", "measured peak", "reduction of all"])


if __name__ == "__main__":
    unittest.main(verbosity=2)
