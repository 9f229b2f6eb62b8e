"""Validation sets with names in the report: told below the table, compared and drawn; files without names read as before."""
import json
import tempfile
import unittest
from pathlib import Path

import matplotlib.image
import numpy as np

from reporting import Report, write_metrics

from tessera_report.metrics import read_metrics

STEPS = {"step": np.arange(1, 7), "loss": np.linspace(5, 4, 6), "seconds": np.full(6, 0.5),
         "tokens_per_second": np.full(6, 200.0)}
PLAIN = {"eval/step": [3, 6], "eval/loss": [2.0, 2.5]}


def named(far):
    """Two sets; `near` is the first."""
    sets = {"near": PLAIN["eval/loss"], "far": far}
    return {**PLAIN, **{f"eval/{name}/loss": losses for name, losses in sets.items()},
            **{f"eval/{name}/step": [3, 6] for name in sets}}


class Sets(unittest.TestCase):
    def setUp(self):
        made = tempfile.TemporaryDirectory(prefix="tessera-report-sets-")
        self.addCleanup(made.cleanup)
        self.folder = Path(made.name)
        self.runs = [self.folder / name for name in ("old", "a", "b")]
        for run, groups in zip(self.runs, (PLAIN, named([3.25, 3.125]), named([3.25, 3.5]))):
            write_metrics(run / "metrics.h5", STEPS, groups)

    def test_every_set_is_read_and_told_and_the_first_is_the_tables(self):
        old, a, _ = (read_metrics(run) for run in self.runs)
        self.assertEqual((old.validation_sets, sorted(a.validation_sets)), ([], ["far", "near"]))
        self.assertEqual((old.further_sets, a.further_sets), ([], ["far"]))
        self.assertEqual(a.validation("far").to_dict(), {3: 3.25, 6: 3.125})
        self.assertEqual(a.evals["loss"].to_dict(), {3: 2.0, 6: 2.5})
        file = self.folder / "rows.json"
        report = Report(*self.runs, json_file=file)
        self.assertEqual(report.code, 0, report.err)
        self.assertEqual([row["final_validation_loss"] for row in json.loads(file.read_text())], [2.5] * 3)
        self.assertEqual([report.cells()[name]["best val."] for name in ("old", "a")], ["2.0000"] * 2)
        text = " ".join(report.out.split())
        self.assertIn("a: validation loss of far 3.1250 (lowest 3.1250), near 2.5000 (lowest 2.0000)", text)
        self.assertNotIn("old: validation loss of", text)

    def test_runs_are_compared_set_by_set(self):
        report = Report("--compare", self.runs[1], self.runs[2])
        self.assertEqual(report.code, 0, report.err)
        self.assertRegex(report.out, r"validation loss of near: .*(same|equal)")
        self.assertRegex(report.out, r"validation loss of far: 1 of 2 steps differ")
        self.assertNotIn("validation loss of", Report("--compare", self.runs[0], self.runs[1]).out)

    def test_a_set_more_is_a_curve_more(self):
        pictures = []
        for run in self.runs[:2]:
            report = Report(run, "--plots", self.folder / f"plots-{run.name}")
            self.assertEqual(report.code, 0, report.err)
            pictures.append(matplotlib.image.imread(self.folder / f"plots-{run.name}" / "loss.png"))
        self.assertEqual(pictures[0].shape, pictures[1].shape)
        self.assertTrue((pictures[0] != pictures[1]).any())

    def test_sources_of_a_mixture_are_told_and_drawn(self):
        sources = {"steps/sources/chats/loss": [4, np.nan, 3.5, 3, 3.25, np.nan], "steps/sources/code/loss": [5.0] * 6}
        write_metrics(self.folder / "mixed" / "metrics.h5", STEPS, {**PLAIN, **sources})
        page = self.folder / "page.html"
        report = Report(self.folder / "mixed", "--html", page)
        self.assertEqual(report.code, 0, report.err)
        self.assertIn("mixed: loss of chats 3.2500 (lowest 3.0000), code 5.0000 (lowest 5.0000)", report.out)
        self.assertIn("Thin lines are the losses of chats, code.", " ".join(page.read_text().split()))

    def test_the_page_draws_every_set(self):
        page = self.folder / "page.html"
        report = Report(*self.runs, "--html", page)
        self.assertEqual(report.code, 0, report.err)
        self.assertIn("Other marks: square far.", " ".join(page.read_text().split()))


if __name__ == "__main__":
    unittest.main(verbosity=2)
