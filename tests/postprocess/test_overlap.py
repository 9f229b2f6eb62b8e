"""tessera-report over rows that differ in prefetch and batch: which rows are compared, and where a gather can hide."""
import unittest

from html_case import Html, study_of
from made_sweep import Made
from reporting import Report
from tessera_report.html.panels.overlap import comparable, draw_overlap, emulated_link, exposed_over_batch, exposed_over_prefetch, hidden_from

LINK = "0.02,1000"  # a gather of 100 bytes: 0.12 s


def add(made, tokens, depth, exposed, forward=1.0, **config):
    """A row on two ranks; forward of a step takes 0.3 x `forward` seconds, of which a block has 6,000 of 10,000 elements."""
    rate = 2 * tokens / forward  # a step takes `forward` seconds
    options = {"shard.prefetch_forward": str(depth), "shard.prefetch_backward": str(depth), "comm.emulate": LINK,
               "train.micro_batch": "4", "train.seq_len": str(tokens // 4), **config}
    return made.add(f"{tokens}-{depth}-{len(made.rows)}", rate=rate, exposed=exposed, spread=0.0, config=options)


class Overlap(Html):
    def test_rows_that_differ_in_prefetch_and_batch_are_compared(self):
        made = Made(self.folder)
        for tokens, depth in ((16, 1), (16, 0), (64, 0)):
            add(made, tokens, depth, 0.1)
        add(made, 64, 1, 0.3, **{"model.width": "128"})  # another model
        add(made, 64, 1, 0.3, **{"shard.prefetch_backward": "2"})  # not one depth
        points = comparable(study_of(made.folder).trained)
        self.assertEqual([(point.tokens, point.depth) for point in points], [(16, 0), (16, 1), (64, 0)])

    def test_without_a_row_that_gathers_nothing_ahead_there_is_no_picture(self):
        made = Made(self.folder)
        add(made, 16, 1, 0.1)
        add(made, 16, 2, 0.1)
        self.assertIsNone(exposed_over_prefetch(study_of(made.folder)))
        self.assertIn("differ in prefetch and batch only, 0 among them", self.page())

    def test_one_batch_makes_no_picture(self):
        made = Made(self.folder)
        for depth in (0, 1):
            add(made, 16, depth, 0.1)
        for picture in (exposed_over_prefetch, exposed_over_batch):
            self.assertIsNone(picture(study_of(made.folder)))
        add(made, 64, 0, 0.1)
        for picture in (exposed_over_prefetch, exposed_over_batch):
            panel = picture(study_of(made.folder))
            self.assertNotIn("Dotted", panel.caption)  # no row tells how long a gather takes

    def test_forward_is_as_long_as_a_gather_between_two_measured_batches(self):
        made = Made(self.folder)
        for tokens, forward in ((16, 0.25), (64, 1.0), (256, 4.0)):  # proportional to tokens
            for depth in (0, 1):
                add(made, tokens, depth, 0.1, forward)
        points = comparable(study_of(made.folder).trained)
        self.assertAlmostEqual(hidden_from(points), 64 * 0.12 / (0.3 * 0.6), delta=0.5)  # a block at 64: 0.18 s

    def test_no_batch_long_enough_or_no_link_names_no_threshold(self):
        made = Made(self.folder)
        for tokens in (16, 64):
            for depth in (0, 1):
                add(made, tokens, depth, 0.1, 0.01)
        self.assertIsNone(hidden_from(comparable(study_of(made.folder).trained)))
        self.assertIsNone(emulated_link("none"))
        self.assertEqual(emulated_link("0.002,1e+09"), (0.002, 1e9))
        self.assertEqual(emulated_link("2ms,1GB/s"), (0.002, 1e9))
        self.assertEqual(emulated_link("1s,0"), (1, 0))

    def test_the_picture_has_bars_a_depth_and_curves_over_tokens(self):
        made = Made(self.folder)
        for tokens in (16, 64):
            for depth in (0, 1):
                add(made, tokens, depth, 0.4 if depth == 0 else 0.1)
        add(made, 16, 2, 0.05, **{"shard.limit_all_gathers": "3"})
        bars, curves = draw_overlap(comparable(study_of(made.folder).trained)).axes
        self.assertEqual([round(bar.get_height()) for bar in bars.patches], [40, 10, 5])
        self.assertEqual([label.get_text() for label in bars.get_xticklabels()], ["no prefetch", "1 unit ahead", "2 units ahead"])
        self.assertEqual([len(line.get_xdata()) for line in curves.get_lines()[:3]], [2, 2, 1])
        report = Report(self.folder, "--plots", self.folder / "plots")
        self.assertIn(f"written    {self.folder}/plots/overlap.png", report.out)
        self.assertIn("Exposed communication against prefetch", self.page())


if __name__ == "__main__":
    unittest.main()
