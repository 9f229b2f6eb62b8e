"""tessera-report --html: rows that learn differently are judged by validation loss, not by speed."""
import random
import unittest

import h5py
import numpy as np

from html_case import Html, Page, plain, study_of
from made_sweep import Made

from tessera_report.html.findings import listed as findings
from tessera_report.html.learning import learning
from tessera_report.html.panels.losses import losses as loss_panel
from tessera_report.html.recommendation import recommend, sentence

GOOD, BAD = (4.0, 2.0, 1.3), (4.5, 4.2, 4.0)


class Learning(Html):
    def answer(self):
        result = recommend(study_of(self.folder))
        return result.row and result.row.name, plain(sentence(result))

    def test_the_better_rate_is_taken_although_it_is_slower(self):
        made = Made(self.folder, baseline="3e-4")
        made.add("3e-4", rate=2000, validation=BAD, config={"optim.lr": "3e-4", "optim.min_lr": "3e-5"})
        made.add("1e-3", rate=1000, validation=GOOD, losses=4 / np.sqrt(np.arange(1, 31)), config={"optim.lr": "1e-3", "optim.min_lr": "1e-4"})
        row, says = self.answer()
        self.assertEqual(row, "1e-3")
        self.assertTrue(says.startswith("Take 1e-3 (optim.lr = 1e-3): validation loss 1.3000 after 15.4K tokens, the lowest; next is 3e-4 "
                                        "(optim.lr = 3e-4) with 4.0000. In equal time, "), says)
        self.assertIn("it leads too: 2.", says)
        self.assertIsNone(self.found(findings.near_losses), "a difference that was asked for is not an error")
        text = self.page()
        self.numbers_hold(self.folder, Page(text))
        self.assertIn("Validation loss 4.0000 after 15.4K tokens; that of 1e-3: 1.3000.", plain(text))
        answer = text[text.index('<section id="recommendation"'):text.index('<section id="settings"')]
        self.assertIn('id="panel-progress"', answer)
        results = text[text.index('<section id="results"'):]
        self.assertLess(results.index("<code>1e-3</code>"), results.index("<code>3e-4</code>"))

    def test_losses_over_other_numbers_of_sequences_are_not_compared(self):
        made = Made(self.folder, baseline="a")
        for name, batches in (("a", "8"), ("b", "4")):
            made.add(name, validation=GOOD if name == "b" else BAD, config={"optim.lr": name, "train.eval_batches": batches})
        self.assertTrue(self.answer()[1].startswith("Not decided: rows differ in optim.lr, and so in what they learn."), self.answer())
        for name in "ab":  # both have the whole set, which is smaller
            with h5py.File(self.folder / name / "run/metrics.h5", "a") as file:
                file["model"].attrs["validation_samples"] = 11
        self.assertEqual(self.answer()[0], "b")

    def test_the_faster_one_may_lead_in_equal_time(self):
        made = Made(self.folder, baseline="a")
        made.add("a", rate=1000, validation=(4.0, 3.0, 2.0), config={"optim.name": "muon"})
        made.add("b", rate=2500, validation=(3.9, 3.1, 2.1), config={"optim.name": "adamw"})
        row, says = self.answer()
        self.assertEqual(row, "a")
        self.assertIn("another leads: 3.", says)
        self.assertIn("against 2.1000 of b.", says)
        with h5py.File(self.folder / "a/run/metrics.h5", "a") as file:
            file["steps/seconds"][...] *= 4
        self.assertIn("of steps, one of them had not been evaluated yet.", self.answer()[1])

    def test_seeds_are_one_setting_and_spreads_that_meet_are_tied(self):
        made = Made(self.folder, baseline="low-1")
        for rate, ends in (("low", (2.0, 2.2, 2.4)), ("high", (2.3, 2.5, 2.7))):
            for seed, end in enumerate(ends, start=1):
                made.add(f"{rate}-{seed}", validation=(4.0, 3.0, end), config={"optim.lr": rate, "run.seed": str(seed)})
        found = learning(study_of(self.folder))
        self.assertEqual([(one.seeds, round(one.loss.value, 9), len(one.rows)) for one in found.settings], [(3, 2.2, 3), (3, 2.5, 3)])
        says = self.answer()[1]
        self.assertIn("validation loss 2.2000, the mean of 3 seeds from 2.0000 to 2.4000, after", says)
        self.assertIn("It is tied for the lowest with high-1 (optim.lr = high) with 2.5000", says)
        text = self.page()
        self.numbers_hold(self.folder, Page(text))
        self.assertIn(">low-1 (3 seeds)<", text)
        self.assertNotIn(">low-2<", text[text.index('id="panel-progress"'):text.index('id="panel-progress"') + 60_000].split("</svg>")[0])

    def test_seeds_alone_are_nothing_to_choose(self):
        made = Made(self.folder, baseline="1")
        for seed, end in (("1", 2.0), ("2", 2.2)):
            made.add(seed, rate=1000 * int(seed), validation=(4.0, 3.0, end), config={"run.seed": seed})
        self.assertEqual(self.answer()[1], "Rows differ in their seeds only, so there is nothing to choose: validation loss 2.1000, the mean of 2 seeds "
                                           "from 2.0000 to 2.2000, after 15.4K tokens.")

    def test_one_seed_each_that_is_near_is_tied_and_the_faster_is_taken(self):
        made = Made(self.folder, baseline="a")
        made.add("a", rate=1000, validation=(4.0, 3.0, 2.000), config={"optim.lr": "1"})
        made.add("b", rate=2000, validation=(4.0, 3.0, 2.010), config={"optim.lr": "2"})
        self.assertEqual(self.answer()[0], "b")
        self.assertIn("It is tied for the lowest with a (optim.lr = 1) with 2.0000; more seeds (run.seed) would show their spread.", self.answer()[1])

    def test_losses_of_other_sets_are_not_compared(self):
        made = Made(self.folder, baseline="a")
        made.add("a", validation=BAD, config={"optim.lr": "1", "model.vocab": "8"})
        made.add("text", rate=3000, validation=GOOD, config={"data.source": "elsewhere", "optim.lr": "2", "model.vocab": "8"})
        made.add("words", rate=3000, validation=GOOD, config={"model.vocab": "9", "optim.lr": "2"})
        row, says = self.answer()
        self.assertIsNone(row)
        self.assertTrue(says.startswith("Not decided: rows differ in data.source, model.vocab, optim.lr, and so in what they learn."), says)
        for one in "text", "words":
            path = self.folder / one / "run/metrics.h5"
            with h5py.File(path, "a") as file:
                file["config"].attrs["data.val_source"] = "one set"
        with h5py.File(self.folder / "a/run/metrics.h5", "a") as file:
            file["config"].attrs["data.val_source"] = "one set"
        self.assertEqual(self.answer()[0], "text")

    def test_no_speed_decides_where_losses_are_missing(self):
        made = Made(self.folder, baseline="a")
        made.add("a", config={"optim.lr": "1"})
        made.add("b", rate=3000, config={"optim.lr": "2"})
        self.assertEqual(self.answer(), (None, "Not decided: rows differ in optim.lr, and so in what they learn. Validation losses of one set "
                                               "decide that, and rows lack them: see data.val_source, data.val_fraction, train.eval_every "
                                               "and train.eval_batches."))
        made.add("zero2", strategy="zero2", rate=500, config={"optim.lr": "1"})
        self.assertEqual(self.answer()[0], "a")

    def test_batches_of_other_sizes_are_compared_after_as_many_tokens(self):
        draw = random.Random(7)
        for _ in range(3):
            folder = self.folder / str(draw.random())
            folder.mkdir()
            made = Made(folder, baseline="0")
            for place in range(4):
                batch = draw.choice((8, 16, 32))
                made.add(str(place), rate=draw.uniform(500, 2000), validation=sorted((draw.uniform(1, 5) for _ in range(draw.choice((2, 3, 5)))), reverse=True),
                         config={"train.global_batch": str(batch), "train.accumulation": str(batch // 8), "optim.lr": str(draw.choice((1, 2)))})
            study = study_of(folder)
            found = learning(study)
            if found is None:
                continue
            tokens = min(row.values["tokens_per_step"] * 30 for row in study.rows)
            self.assertEqual(found.tokens.value, tokens)
            losses = []
            for row in study.rows:
                with h5py.File(folder / row.name / "run/metrics.h5") as file:
                    losses.append(np.interp(tokens / row.values["tokens_per_step"], file["eval/step"][:], file["eval/loss"][:]))
            judged = {row.name: loss.value for one in found.settings for row, loss in zip(one.rows, one.losses)}
            for name, loss in judged.items():
                self.assertAlmostEqual(loss, losses[int(name)])
            self.assertEqual(found.settings[0].loss.value, min(one.loss.value for one in found.settings))

    def test_of_many_curves_the_lowest_have_names(self):
        made = Made(self.folder, baseline="0")
        for place in range(14):
            made.add(str(place), losses=(5 + place) / np.sqrt(np.arange(1, 31)), config={"optim.lr": str(place)})
        with_legend = loss_panel(study_of(self.folder)).figure.legends[0]
        self.assertEqual([one.get_text() for one in with_legend.get_texts()], [*map(str, range(10)), "4 more"])


class WhatEightBitsCost(Html):
    """The study's own section: rows beside the row of their seed without fp8."""

    def made(self, seeds):
        made = Made(self.folder, "fp8", baseline="bf16-1")
        for seed in seeds:
            for row, linear, more, ends in (("bf16", "compute", {}, (2.0, 2.25)), ("e4m3", "fp8", {"precision.fp8_gradients": "e4m3"}, (2.002, 2.258))):
                end = ends[seed - 1]
                made.add(f"{row}-{seed}", rate=1000 if linear == "compute" else 1250, validation=(4.0, end + 1, end),
                         memory=1_000_000 if linear == "compute" else 900_000,
                         losses=5 / np.sqrt(np.arange(1, 31)) + (0.125 * seed if linear == "fp8" else 0),
                         config={"precision.linear": linear, "precision.fp8_gradients": "e5m2", "precision.fp8_smallest": "0", "precision.compute": "bf16",
                                 "run.seed": str(seed), "data.seed": str(seed), **more})
        return self.page()

    def section(self, text):
        begin = text.index('<section id="fp8"')
        return text[begin:text.index("</section>", begin)]

    def test_the_distance_is_that_of_the_same_seed(self):
        text = self.made((1, 2))
        self.numbers_hold(self.folder, Page(text))
        section = plain(self.section(text))
        self.assertIn("+0.0050 (+0.0020 to +0.0080)", section)
        self.assertIn("Seeds alone move the last loss of the twins from 2.0000 to 2.2500.", section)
        for cell in ("e4m3-1, e4m3-2", "0.25", "0.80x", "0.90x"):
            self.assertIn(cell, section)

    def test_one_seed_says_that_more_would_show(self):
        section = plain(self.section(self.made((1,))))
        self.assertIn("With more seeds", section)
        self.assertNotIn(" to +", section)

    def test_without_a_twin_there_is_nothing_to_say(self):
        made = Made(self.folder, "fp8", baseline="a")
        for row, linear, rate in (("a", "compute", "1e-3"), ("b", "fp8", "2e-3")):
            made.add(row, validation=GOOD, config={"precision.linear": linear, "optim.lr": rate})
        self.assertIn("No two rows of this sweep differ in fp8 alone", plain(self.section(self.page())))


if __name__ == "__main__":
    unittest.main(verbosity=2)
