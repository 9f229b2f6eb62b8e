"""tessera-report --html: the source of every number, what the page holds, the course's answers, claims."""
import json
import re
import unittest

import h5py
import numpy as np

from html_case import Html, Page, as_number, course_and_page, plain, study_of
from made_sweep import PARAMETERS, Made
from reporting import ROOT, Report
from trace import Sweep

from tessera_report.html.claims import claims, share_of_ddp, zero3_memory, zero3_volume
from tessera_report.html.page import render
from tessera_report.html.panels.bandwidth import measured
from tessera_report.html.panels.listed import PANELS
from tessera_report.studies.course.figures import unit_size
from tessera_report.studies.course.questions import QUESTIONS
from tessera_report.studies.course.tasks import TASKS

# Sections whose digits are all numbers with sources.
PROSE = ("recommendation", "findings", "tasks", "questions", "checklist", "left-out")


class WholePage(Html):
    def test_every_number_has_a_source_that_gives_it(self):
        folder, text = course_and_page()
        page = Page(text)
        self.assertGreater(len(page.numbers), 700)
        self.numbers_hold(folder, page)
        sections = {section for section, *_ in page.numbers}
        self.assertLessEqual(
            {
                "recommendation", "findings", "results", "configuration", "panels", "claims", "checklist", "tasks",
                "questions", "provenance"
            }, sections)
        for section in PROSE:
            left = re.sub(r"\b(zero[123]|fp32|bf16|fp16|GPT-2|L2)\b", "", page.prose[section])
            # Fixed text of the course's explanations about fp32.
            left = re.sub(r"costs 4 bytes, its gradient 4, its moments 8|12 of 16 bytes|2·b_p|W−1|1/W", "", left)
            self.assertIsNone(re.search(r"\d", left),
                              f"{section}: a number without source: {re.findall(r'.{30}[0-9].{10}', left)[:3]}")
        self.labels_have_sources(text)

    def labels_have_sources(self, text):
        """The labels at bars stand in the table of the picture's numbers."""
        for key in ("throughput", "communication"):
            panel = text[text.index(f'id="panel-{key}"'):]
            panel = panel[:panel.index("</figure>")]
            numbers = {shown for *_, shown in Page(panel).numbers}
            labels = re.findall(r">([\d.]+[KMG]?) +([\d.]+x)<", panel) if key == "throughput" else re.findall(
                r">([\d.]+ [kMG]?B), \d+% exposed<", panel)
            self.assertGreater(len(labels), 5)
            for label in labels:
                self.assertLessEqual({label} if isinstance(label, str) else set(label), numbers)

    def test_it_stands_alone_and_is_the_same_again(self):
        folder, text = course_and_page()
        page = Page(text)
        self.assertEqual(page.outside, [], page.outside[:1])
        self.assertNotRegex(text, r"(?i)https?://|//cdn|@import|url\((?!#)")
        self.assertEqual(re.findall(r"<script[^>]*>", text), ["<script>"])
        script = (ROOT / "postprocess/tessera_report/html/templates/sort.js").read_text()
        self.assertLess(len(script.splitlines()), 60)
        ids = re.findall(r'\bid="([^"]*)"', text)
        self.assertEqual(len(ids), len(set(ids)))
        for used in re.findall(r'(?:url\(|href="|aria-labelledby=")#?([\w-]+)', text):
            self.assertIn(used, ids)
        pictures = re.findall(r"<svg.*?</svg>", text, re.S)
        self.assertGreater(len(pictures), 12)
        for picture in pictures:
            self.assertRegex(
                picture,
                r'^<svg viewBox="[^"]+" role="img" aria-labelledby="[^"]+"[^>]*><title id="[^"]+">[^<]+</title>')
        self.assertEqual(render(study_of(folder)), text)

    def test_what_was_asked(self):
        asked = "# Which is fast?\n# And <small>?\n#\n#   tessera sweep x.ini    runs it\n#   second line\n# Then `more`.\n[sweep]\nlimit = 1h\n"
        Made(self.folder, text=asked).add("a")
        text = self.page()
        self.assertIn("<pre>tessera sweep x.ini    runs it\nsecond line</pre><p>Then <code>more</code>.</p>", text)
        self.assertIn("</details><p>Which is fast? And &lt;small&gt;?</p></section>", text)
        self.assertLess(text.index('<details class="fold"><summary>What was asked</summary>'), text.index("second line"))
        self.assertIn("<pre>[sweep]\nlimit = 1h</pre>", text)
        self.assertIn("<pre>--optim.lr=1e-3</pre>", text)
        self.assertIn("<pre>[model]\nlayers = 1 # &lt;base&gt;\n</pre>", text)
        (self.folder / "sweep.ini").unlink()
        self.assertIn("The folder has no sweep.ini. Rows: <code>a</code>.", self.page())

    def test_a_study_is_known_by_the_file_of_the_sweep_whose_folder_runs_nothing(self):
        made = Made(self.folder, "mine")
        made.about["file"] = "/elsewhere/course.ini"
        (self.folder / "report.py").write_text("raise SystemExit(9)\n")
        made.add("a")
        self.assertIn("<h2>The seven tasks</h2>", self.page())

    def test_pictures_without_data_are_named(self):
        made = Made(self.folder)
        made.add("<b>&", rate=1000)
        text = self.page()
        self.assertNotIn("<b>&", text)
        self.assertIn("&lt;b&gt;&amp;", text)
        out = text[text.index('id="left-out"'):]
        for title in ("Strong scaling", "Bandwidth against size", "GPU utilization", "Weak scaling"):
            self.assertIn(title, out)
        for title, _, _ in PANELS:
            self.assertEqual(f"<h3>{title}" in text, f"“{title}”" not in out, title)
        self.assertNotIn("The thirteen questions", text)

    def test_what_the_models_wrote(self):
        made = Made(self.folder)
        made.add("silent")
        self.assertNotIn('id="samples"', self.page())
        with h5py.File(made.add("writes") / "metrics.h5", "a") as file:
            file["samples/step"] = [0, 10, 20, 30]
            texts = ("\ufffd\n", "The tte", "The <cat>", "The cat & the dog")
            file["samples/text"] = np.array([text.encode() for text in texts], dtype="S4096")
        self.assertIn(
            "<summary><code>writes</code></summary><p>before the first step:</p><pre>\ufffd\n</pre>"
            "<p>after step 20:</p><pre>The &lt;cat&gt;</pre><p>after step 30:</p><pre>The cat &amp; the dog</pre></details>",
            self.page())

    def test_a_changed_file_changes_table_finding_and_recommendation(self):
        made = Made(self.folder, baseline="a")
        made.add("a", rate=1000)
        path = made.add("b", rate=1500) / "metrics.h5"
        before = self.page()
        self.assertIn("Take <code>b</code>", before)
        with h5py.File(path, "a") as file:
            file["steps/tokens_per_second"][...] /= 3
        after = self.page()
        self.assertIn("Take <code>a</code>", after)
        self.assertIn("b is the fastest row, 1.50x as fast", plain(before))
        self.assertIn("No row is faster than the baseline a: the next, b, reaches 0.50x", plain(after))
        for text, speed in ((before, "1.50K"), (after, "501")):
            results = text[text.index('id="results"'):text.index('id="configuration"')]
            self.assertIn(f">{speed}</data>", results)


class Rows(Html):
    """The options that rows share, and those in which they are not compared."""
    def test_no_speedup_against_another_model(self):
        made = Made(self.folder, baseline="base")
        made.add("base", rate=1000)
        made.add("toy", rate=9000, config={"model.width": "2"})
        made.add("same", rate=2500)
        text = self.page()
        self.assertNotIn("9.00x", text)
        self.assertIn(">2.50x</data>", text)
        cells = Report(self.folder).cells()
        self.assertEqual([cells[row]["speed-up"] for row in ("base", "toy", "same")], ["1.00x", "-", "2.50x"])

    def test_rows_on_equal_devices_share_the_highest_peak(self):
        made = Made(self.folder, baseline="a")
        for row, peak, config in (("a", 4e6, {}), ("b", 1e8, {}), ("other", 9e8, {"run.threads": "1"})):
            with h5py.File(made.add(row, config={"run.threads": "2", **config}) / "metrics.h5", "a") as file:
                file["model"].attrs["device_peak_flops"] = peak
        rows = Report(self.folder, json_file=self.folder / "rows.json").rows
        self.assertEqual([rows[row]["mfu_peak_flops"] for row in rows], [1e8, 1e8, 9e8])
        self.assertEqual(rows["a"]["device_peak_flops"], 4e6)
        self.assertEqual(rows["a"]["mfu"], rows["a"]["tokens_per_second"] * 60_000 / (2 * 1e8))
        text = self.page()
        table = text[text.index('id="provenance"'):text.index('id="left-out"')]
        self.assertIn("found by", table)
        self.assertIn("100 MFLOP/s", plain(table))

    def test_steps_are_no_option_where_epochs_or_tokens_count(self):
        made = Made(self.folder)
        made.add("epochs", config={"train.steps": "1000", "train.epochs": "2"})
        made.add("tokens", config={"train.steps": "1000", "train.epochs": "0", "train.tokens": "5000"})
        made.add("steps", config={"train.steps": "30", "train.epochs": "0", "train.tokens": "0"})
        text = self.page()
        configuration = text[text.index('id="configuration"'):text.index('id="panels"')]
        self.assertNotIn("1000<", configuration)
        self.assertIn("5000<", configuration)
        self.assertIn("train.steps", configuration)


class Answers(Html):
    def test_the_course(self):
        study = study_of(course_and_page()[0])
        self.assertEqual((len(QUESTIONS), len(TASKS)), (13, 7))
        for question in QUESTIONS:
            self.assertIsNotNone(question.figure(study), question.question)
        for task in TASKS:
            self.assertIsNotNone(task.answer(study), task.title)
        self.assertIn("K differs", plain(TASKS[0].answer(study).sentence))
        self.assertIn("(their sums depend on K, which is 4 and 1)", plain(QUESTIONS[1].figure(study)))
        self.assertIn("A ring's all-reduce of the same gradients would send 61.4 kB", plain(QUESTIONS[5].figure(study)))
        toy = TASKS[5].answer(study)
        self.assertIn("L2 difference of the final parameters: 5.00e-01 (their norm: 3.74).", plain(toy.sentence))
        self.assertIn("L2 difference of the final gradients: 0 (", plain(toy.sentence))
        self.assertEqual((toy.head[1:], {plain(line[3]) for line in toy.cells}), (["toy-1", "toy-2", "largest difference"], {"0"}))

    def test_repeats_of_a_bench_are_one_line_with_their_medians(self):
        Made(self.folder).bench("bench", speeds=(1.0, 0.25, 2.0))
        study, sweep = study_of(self.folder), Sweep(self.folder)
        lines = measured(study)
        self.assertEqual(len(lines), 2 * 2 * 3)
        first = lines[0]
        self.assertEqual((first.collective, first.by, first.size.value), ("all_gather", "shared memory", 1e6))
        self.assertAlmostEqual(first.seconds.value, 1e6 / 4e9)
        self.assertAlmostEqual(first.bandwidth.value, 2e9, delta=1)
        for number in (first.seconds, first.bandwidth):
            self.assertEqual(number.source.count("bench("), 3)
            self.assertEqual(sweep.evaluate(number.source), number.value)
        self.assertNotIn("not the fastest", plain(unit_size(study)))
        with h5py.File(self.folder / "bench/run/bench.h5", "a") as file:
            file["comm/bus_bandwidth"][0] = 9e9
        with h5py.File(self.folder / "bench/run.2/bench.h5", "a") as file:
            file["comm/bus_bandwidth"][0] = 8e9
        self.assertIn("The largest is not the fastest: that is 1.00 MB, 8.00 GB/s.", plain(unit_size(study)))

    def test_claims_hold_or_do_not(self):
        made = Made(self.folder, baseline="1")
        made.add("1", ranks=1, config={"train.accumulation": "4"})
        made.add("4-ddp", ranks=4, strategy="ddp", rate=1000)
        made.add("4-zero2", ranks=4, strategy="zero2", memory=2_000_000)
        path = made.add("4-zero3", ranks=4, rate=900, memory=1_000_000) / "metrics.h5"
        holds = {plain(claim.expected): (claim.holds, plain(claim.measured)) for claim in claims(study_of(self.folder))}
        self.assertEqual(holds["Training state of zero3 on 4 ranks: ÷4 of one rank's."][0], "yes")
        self.assertEqual(holds["Training state of zero3 on 8 ranks: ÷8 of one rank's."],
                         ("not measured", "no such rows"))
        self.assertEqual(holds["zero3 needs 40 to 60% less memory than zero2."],
                         ("yes", "planned: 4-zero3 50.0% less than 4-zero2 (W = 4, K = 1)"))
        self.assertEqual(holds["zero3 reaches 85 to 95% of DDP's throughput."], ("yes", "4-zero3: 90.0%"))
        self.assertEqual(holds["Setting up sharding takes 10 to 30 s more than ddp."],
                         ("better (less)", "most from 4-ddp to 4-zero3: 12.5 s to 12.5 s, none"))
        with h5py.File(path, "a") as file:
            file["steps/tokens_per_second"][...] /= 2
            file["steps/time/data"][...] = 0.5 * file["steps/seconds"][...]
            file["memory/parameters/planned"][...] = 4 * PARAMETERS
        holds = {plain(claim.expected): claim.holds for claim in claims(study_of(self.folder))}
        self.assertEqual(holds["zero3 reaches 85 to 95% of DDP's throughput."], "no (below)")
        self.assertEqual(holds["Reading data takes less than 10% of the time."], "no")
        self.assertEqual(holds["Training state of zero3 on 4 ranks: ÷4 of one rank's."], "no")

    def test_savings_by_ranks_and_micro_steps(self):
        made = Made(self.folder, baseline="a")
        made.add("a", strategy="zero2", memory=2_000_000)
        made.add("b", memory=2_000_000)
        made.add("c", strategy="zero2", memory=2_000_000, config={"train.accumulation": "2"})
        path = made.add("d", memory=1_400_000, config={"train.accumulation": "2"}) / "metrics.h5"
        claim = zero3_memory(study_of(self.folder))
        self.assertEqual((claim.holds, plain(claim.measured)),
                         ("no", "planned: b 0.0% less than a (W = 2, K = 1), d 30.0% less than c (W = 2, K = 2)"))
        self.assertIn("For W = 2 at most 33.3%. It can hold from W = 2.67 on; above W = 6 the bound is over 60%",
                      plain(claim.formula))
        volume = plain(zero3_volume(study_of(self.folder)).measured)
        self.assertEqual(volume.count(" (the schedule saves 8.19 kB of gathers)"), 2, volume)
        with h5py.File(path, "a") as file:
            plan = json.loads(file["schedule"].asstr()[()])
            del file["schedule"]
            file["schedule"] = json.dumps({**plan, "savings": []})
        self.assertTrue(plain(zero3_volume(study_of(self.folder)).measured).endswith("c to d: 1.33x"))

    def test_shares_of_ddp_say_on_which_side_and_leave_out_resumed_rows(self):
        made = Made(self.folder, baseline="ddp")
        made.add("ddp", strategy="ddp")
        made.add("zero3", rate=990)
        self.assertEqual(self.share(), ("better (above)", "zero3: 99.0%"))
        with h5py.File(made.add("resumed", rate=500) / "metrics.h5", "a") as file:
            file["steps/step"][...] += 10
        made.add("other program", rate=400, kind="command")
        self.assertEqual(self.share(), ("better (above)", "zero3: 99.0%"))
        made.add("slow", rate=300)
        self.assertEqual(self.share(), ("no (below)", "zero3: 99.0%, slow: 30.0%"))

    def share(self):
        claim = share_of_ddp(study_of(self.folder))
        return claim.holds, plain(claim.measured)


if __name__ == "__main__":
    unittest.main(verbosity=2)
