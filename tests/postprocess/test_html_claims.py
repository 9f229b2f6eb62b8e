"""tessera-report --html: claims, the checklist and the course's tasks on sweeps with known answers."""
import unittest

import h5py
import numpy as np

from html_case import Html, course_and_page, plain, study_of
from made_sweep import PARAMETERS, Made

from tessera_report.html import checklist, claims, state_claims
from tessera_report.studies.course.tasks import TASKS

GPT2 = state_claims.GPT2_PARAMETERS


class Claims(Html):
    def claim(self, function, *arguments):
        claim = function(study_of(self.folder), *arguments)
        return claim.holds, plain(claim.measured)

    def test_bytes_of_a_parameter_are_judged_without_what_gradients_take_for_a_while(self):
        made = Made(self.folder, baseline="4-zero3")
        with h5py.File(made.add("4-zero3", ranks=4, parameters=GPT2) / "metrics.h5", "a") as file:
            file["memory/gradients/planned"][...] = int(3.1 * GPT2)
        holds, measured = self.claim(state_claims.folklore_bytes, 4)
        self.assertEqual(holds, "no")
        self.assertIn("4.0 bytes of each with one gradient. Sums and gradients that are not reduced yet take up to 3.1", measured)
        formula = plain(state_claims.folklore_bytes(study_of(self.folder), 1).formula)
        self.assertEqual(formula, "parameters 498 MB + gradients 498 MB + moments 996 MB = 1.99 GB, 16.0 bytes a parameter. The claim is 0.5 + "
                                  "0.5 + 2.0 GB; its optimizer, 2.0, should be 1.0: two moments of 4 bytes")

    def test_a_copy_in_bf16_makes_the_state_of_one_rank_larger(self):
        made = Made(self.folder, baseline="1")
        with h5py.File(made.add("1", ranks=1, strategy="ddp", config={"precision.compute": "bf16"}) / "metrics.h5", "a") as file:
            file["memory/parameters/planned"][...] = 6 * PARAMETERS
        made.add("4", ranks=4, config={"precision.compute": "bf16"})
        holds, measured = self.claim(state_claims.state_shrinks, 4)
        self.assertEqual(holds, "better (more)")
        self.assertIn("÷4.67; only they are judged", measured)
        self.assertIn("One rank keeps a copy in bf16 too, which zero3 gathers", measured)

    def test_state_of_muon_is_not_judged_as_two_moments(self):
        made = Made(self.folder, baseline="1")
        for ranks in 1, 4:
            made.add(f"{ranks}", ranks=ranks, config={"optim.name": "muon"})
        self.assertEqual(self.claim(state_claims.state_shrinks, 4)[0], "not measured")

    def test_communication_is_judged_for_all_micro_steps(self):
        made = Made(self.folder, baseline="a")
        for steps in (1, 2, 4):
            config = {"train.accumulation": str(steps)}
            made.add(f"zero2-{steps}", strategy="zero2", config=config)
            with h5py.File(made.add(f"zero3-{steps}", config=config) / "metrics.h5", "a") as file:
                file["comm/all_gather/bytes"][...] = file["comm/all_gather/bytes"][...] * (2 if steps == 4 else 1)
        self.assertEqual(self.claim(claims.zero3_volume)[0], "no (below at K = 1, 2)")
        made.add("ddp", strategy="ddp")
        self.assertEqual(self.claim(claims.zero2_volume), ("yes", "ddp to zero2-1: 1.00x (the schedule saves 8.19 kB of gathers)"))

    def test_zero1_halves_the_state_on_many_ranks_only(self):
        made = Made(self.folder, baseline="2-ddp")
        for ranks in (2, 64):
            made.add(f"{ranks}-ddp", ranks=ranks, strategy="ddp")
            with h5py.File(made.add(f"{ranks}-zero1", ranks=ranks, strategy="zero1") / "metrics.h5", "a") as file:
                file["memory/optimizer_state/planned"][...] = file["memory/optimizer_state/planned"][...] // ranks
        holds, measured = self.claim(state_claims.zero1_half)
        self.assertEqual(holds, "no (above at W = 2)")
        self.assertIn("2-zero1 75.0%, moments 80.0 kB to 40.0 kB", measured)

    def test_setting_up_is_that_of_zero3_less_that_of_ddp(self):
        made = Made(self.folder, baseline="ddp")
        made.add("ddp", strategy="ddp", host={"seconds_to_first_step": 12.0})
        path = made.add("zero3", host={"seconds_to_first_step": 25.0}) / "metrics.h5"
        self.assertEqual(self.claim(claims.start_up), ("yes", "most from ddp to zero3: 12.0 s to 25.0 s, 13.0 s more"))
        with h5py.File(path, "a") as file:
            file["provenance"].attrs["seconds_to_first_step"] = 14.0
        self.assertEqual(self.claim(claims.start_up)[0], "better (less)")

    def test_only_rows_of_the_baselines_model_are_judged(self):
        made = Made(self.folder, baseline="base")
        made.add("base", reading=0.02)
        made.add("toy", reading=0.5, exposed=0.4, config={"model.width": "2"}, parameters=150)
        self.assertEqual(self.claim(claims.data_share), ("yes", "highest in base: 2.0%"))
        self.assertIn("compute takes 93.0% of the time in base", self.claim(claims.utilization)[1])

    def test_many_ranks_and_batches(self):
        made = Made(self.folder, baseline="2")
        made.add("2", rate=1000, config={"train.micro_batch": "2"})
        made.add("8", rate=1500, config={"train.micro_batch": "8"})
        self.assertEqual(self.claim(claims.over_batch), ("yes", "2 to 8: 1.50x"))
        self.assertEqual(self.claim(claims.many_ranks), ("not measured", "at most 2 ranks, in 2"))
        self.assertIn("for W = 100 it is 1.98x of 2's", plain(claims.many_ranks(study_of(self.folder)).formula))


class Checklist(Html):
    def checked(self, function):
        check = function(study_of(self.folder))
        return check.item, check.ticked, plain(check.figure)

    def test_ten_items(self):
        self.assertEqual(len(checklist.ITEMS), 10)

    def test_losses_name_what_they_equal(self):
        made = Made(self.folder, baseline="1")
        made.add("2")
        self.assertEqual(self.checked(checklist.losses_fall), ("losses fall and equal DDP's", None, "no ddp row"))
        made.add("1", ranks=1, config={"train.accumulation": "2"})
        self.assertEqual(self.checked(checklist.losses_fall)[:2], ("losses fall and equal one rank's (no ddp row)", True))
        made.add("ddp", strategy="ddp")
        item, ticked, figure = self.checked(checklist.losses_fall)
        self.assertEqual((item, ticked), ("losses fall and equal DDP's", True))
        self.assertIn("largest difference of a row 0 (1), tolerance 5.00e-04", figure)

    def test_another_precision_is_not_compared(self):
        made = Made(self.folder, baseline="ddp")
        made.add("ddp", strategy="ddp")
        made.add("tf32", config={"precision.matmul": "tf32"})
        with h5py.File(self.folder / "ddp/run/metrics.h5", "a") as file:
            file["config"].attrs["precision.matmul"] = "fp32"
        self.assertEqual(self.checked(checklist.losses_fall)[1:], (None, "no other row on the same tokens in the precision of ddp"))

    def test_memory_that_does_not_suffice(self):
        made = Made(self.folder, baseline="a")
        made.add("a")
        self.assertEqual(self.checked(checklist.fits)[1:], (True, "most in a: 1.00 MB at its peak"))
        made.add("b", status="failed", message="CUDA: out of memory", made=False)
        self.assertEqual(self.checked(checklist.fits)[1:], (False, "b"))

    def test_graphs_and_checkpoints(self):
        made = Made(self.folder, baseline="a")
        path = made.add("a")
        self.assertEqual([self.checked(item)[1] for item in (checklist.graphs, checklist.resumes)], [None, None])
        made.add("off", rate=500, config={"run.graph": "false"})
        self.assertEqual(self.checked(checklist.graphs)[1:], (True, "a trains at 2.00x of the speed of off"))
        (path / "checkpoints/step-00000030").mkdir(parents=True)
        (path / "checkpoints/step-00000030/manifest.json").write_text("{}")
        self.assertEqual(self.checked(checklist.resumes)[1:], (None, "a wrote step-00000030, but no row was resumed"))
        with h5py.File(made.add("resumed", losses=5 / np.sqrt(np.arange(11, 41))) / "metrics.h5", "a") as file:
            file["steps/step"][...] += 10
        self.assertEqual(self.checked(checklist.resumes)[1], True)


class Tasks(Html):
    def test_no_row_is_left_out_and_ratios_have_quartiles(self):
        study = study_of(course_and_page()[0])
        answers = [task.answer(study) for task in TASKS]
        rows = [[plain(line[0]) for line in answer.cells] for answer in answers]
        self.assertLessEqual({"memory-1", "memory-2", "memory-4", "prefetch-off", "latency-on", "latency-off"}, set(rows[6]))
        for place in (2, 3, 6):
            self.assertLessEqual({"tokens/s", "q1", "q3", "ratio", "told apart"}, set(answers[place].head))
        self.assertIn("planned memory per rank", answers[4].head)
        self.assertEqual([plain(line[2]) for line in answers[0].cells], ["1.00x", "2.00x", "4.00x"])

    def test_every_toy_is_in_the_table(self):
        made = Made(self.folder, "course", baseline="toy-1")
        for ranks in (1, 2, 4):
            made.add(f"toy-{ranks}", ranks=ranks, parameters=150, losses=5 / np.sqrt(np.arange(1, 31)) + (1e-3 if ranks == 4 else 0))
        toy = TASKS[5].answer(study_of(self.folder))
        self.assertEqual(toy.head, ["step", "toy-1", "toy-2", "toy-4", "largest difference"])
        self.assertEqual({plain(line[-1]) for line in toy.cells}, {"1.00e-03"})
        self.assertIn("toy-2: losses differ by at most 0 (tolerance", plain(toy.sentence))


if __name__ == "__main__":
    unittest.main(verbosity=2)
