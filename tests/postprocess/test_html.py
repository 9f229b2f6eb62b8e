"""tessera-report --html: recommendations, findings, sources of every number, and what the page holds. The browser is in test_html_browser.py."""
import atexit
import functools
import html
import re
import shutil
import tempfile
import unittest
from html.parser import HTMLParser
from pathlib import Path

import h5py
import numpy as np

from made_sweep import PARAMETERS, Made, course
from reporting import ROOT, Report
from test_numbers import number
from trace import Sweep
from job import Case

from tessera_report.flags import flag_differences  # noqa: E402 (reporting has set the path)
from tessera_report.find import find_entries  # noqa: E402
from tessera_report.html import findings  # noqa: E402
from tessera_report.html.claims import claims  # noqa: E402
from tessera_report.html.course.questions import QUESTIONS  # noqa: E402
from tessera_report.html.course.tasks import TASKS  # noqa: E402
from tessera_report.html.page import render  # noqa: E402
from tessera_report.html.panels import PANELS  # noqa: E402
from tessera_report.html.recommendation import recommend  # noqa: E402
from tessera_report.html.study import make_study  # noqa: E402
from tessera_report.rows import add_speedups, make_row  # noqa: E402

PROSE = ("recommendation", "findings", "tasks", "questions", "checklist", "left-out")  # sections whose digits are all numbers with sources


class Page(HTMLParser):
    """What a page holds: numbers with their sources, and the text outside of them by section."""

    def __init__(self, text):
        super().__init__()
        self.numbers, self.prose, self.outside = [], {}, []
        self.section, self.inside = None, []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        attributes = dict(attributes)
        if tag == "section":
            self.section = attributes["id"]
        if tag == "data":
            self.numbers.append([self.section, attributes["value"], attributes["data-source"], ""])
        if tag in ("data", "code", "svg", "script", "style", "pre", "h2", "h3", "th", "ol"):
            self.inside.append(tag)
        self.outside += [value for name, value in attributes.items() if name in ("src", "href", "data") and not value.startswith("#")]

    def handle_endtag(self, tag):
        if self.inside and tag == self.inside[-1]:
            self.inside.pop()

    def handle_data(self, text):
        if self.inside and self.inside[-1] == "data":
            self.numbers[-1][3] += text
        if not self.inside:
            self.prose[self.section] = self.prose.get(self.section, "") + text


def study_of(folder):
    """The study as the command makes it."""
    rows = [make_row(entry) for entry in find_entries(folder)]
    baseline = next((row for row in rows if row.entry.baseline), next(row for row in rows if row.values["tokens_per_second"]))
    add_speedups(rows, baseline)
    flag_differences(rows, baseline)
    return make_study(rows, baseline, [folder], None)


def plain(markup):
    return html.unescape(re.sub(r"<[^>]*>", "", markup))


@functools.cache
def course_and_page():
    """The folder of the course's sweep, and the page of it; made once."""
    folder = Path(tempfile.mkdtemp(prefix="tessera-html-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    course(folder)
    report = Report(folder, "--html", folder / "page.html")
    assert (report.code, report.err) == (0, ""), report.out + report.err
    return folder, (folder / "page.html").read_text()


class Html(Case):
    def found(self, function):
        sentence = function(study_of(self.folder))
        return None if sentence is None else plain(sentence)

    def page(self):
        out = self.folder / "page.html"
        report = Report(self.folder, "--html", out)
        self.assertEqual((report.code, report.err), (0, ""), report.out)
        self.assertIn(f"written    {out}", report.out)
        return out.read_text()


class Recommendations(Html):
    def recommend(self):
        result = recommend(study_of(self.folder))
        return result.row and result.row.name, result.tied, {name: plain(reason) for name, reason in result.reasons.items()}

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
        made.bench("bench")
        best, tied, reasons = self.recommend()
        self.assertEqual((best, tied), ("good", ["good"]))
        self.assertEqual(reasons, {"big": "It does not fit: needs 120 GB a rank.", "killed": "It did not end: failed: killed by signal 9.",
                                   "nan": "A loss is not finite.", "other model": "It trains another model than the baseline.",
                                   "other data": "It trains on other data than the baseline.", "bench": "It measures no training."})

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
            ("fastest", {}, {"rate": 2000.0}, {"status": "failed"}, "row is the fastest row, 2.00x as fast as the baseline base."),
            ("least_memory", {}, {"memory": 400_000}, {"memory": 950_000}, "400 kB a rank; base needs 1.00 MB, 2.50x as much."),
            ("equal_losses", {}, {}, {"losses": 5.001 / np.sqrt(np.arange(1, 31))}, "1 of 1 rows on the same tokens"),
            ("near_losses", {}, {"losses": 5.001 / np.sqrt(np.arange(1, 31))}, {}, "In the baseline's precision the losses of 1 row on the same tokens differ from it; the most those of row, by at most 1.00e-03 nats"),
            ("other_precision", {}, {"losses": 5.001 / np.sqrt(np.arange(1, 31)), "config": {"precision.compute": "bf16"}}, {"losses": 5.001 / np.sqrt(np.arange(1, 31))},
             "In another precision than the baseline's the losses of 1 row"),
            ("loss_stands", {}, {"losses": np.linspace(2, 3, 30)}, {}, "The loss did not fall in row: in row from 2.0000 to 3.0000."),
            ("waiting", {}, {"exposed": 0.4}, {"exposed": 0.1}, "in 1 row; most in row, 40.0%."),
            ("reading", {}, {"reading": 0.25}, {}, "most in row, 25.0%."),
            ("noise", {}, {"spread": 0.3}, {"spread": 0.1}, "1 of 2 rows the quartiles lie more than 15% of the median apart"),
            ("prefetch", {}, {"config": zero, "rate": 500}, {"config": drop}, "row (shard.prefetch_forward = 0) trains at 0.50x of the speed of base"),
            ("checkpointing", {}, {"config": drop, "rate": 800}, {"config": zero}, "row (memory.checkpoint = block) trains at 0.80x"),
            ("reshard", {}, {"config": {"shard.reshard_after_forward": "false"}}, {}, "trains at 1.00x"),
            ("gather_limit", {}, {"config": {"shard.limit_all_gathers": "0"}}, {}, "trains at 1.00x"),
            ("weak_scaling", {}, {"ranks": 4, "rate": 1500}, {"ranks": 4, "config": {"train.micro_batch": "1"}}, "keeps 75.0% of the FLOP/s"),
            ("busy_machine", {}, {"host": {"load_average_start": 12.0}}, {}, "row at 12.0."),
            ("start_up", {"host": {"seconds_to_first_step": 1.0}}, {}, {"host": {"seconds_to_first_step": 1.0}}, "12.5 s, the time of 24 steps."),
        ]:
            with self.subTest(name):
                self.assertIn(says, self.check(getattr(findings, name), base, holds, gone))

    def test_all_are_tested(self):
        code = Path(__file__).read_text()
        self.assertEqual([one.__name__ for one in findings.FINDINGS if code.count(f'"{one.__name__}"') + code.count(f"findings.{one.__name__})") == 0], [])

    def test_strong_scaling(self):
        made = Made(self.folder, baseline="one")
        made.add("one", ranks=1, config={"train.accumulation": "2"})
        self.assertIsNone(self.found(findings.strong_scaling))
        made.add("two", ranks=2, rate=1900)
        self.assertEqual(self.found(findings.strong_scaling), "Strong scaling: from 1 to 2 ranks two is 1.90x as fast as one.")

    def test_volume_and_plan(self):
        made = Made(self.folder, baseline="one")
        path = made.add("one") / "metrics.h5"
        self.assertIn("1 row on several ranks: each sent exactly", self.found(findings.volume))
        self.assertIsNone(self.found(findings.plan_and_memory))
        with h5py.File(path, "a") as file:
            file["comm/all_gather/bytes"][...] += 512
            file["memory/process/planned"][...] = 500_000
        self.assertIn("one sent", self.found(findings.volume))
        self.assertIn("2.00x: 1.00 MB against 500 kB", self.found(findings.plan_and_memory))
        with h5py.File(path, "a") as file:
            del file["schedule"]
        self.assertIsNone(self.found(findings.volume))


class WholePage(Html):
    def test_every_number_has_a_source_that_gives_it(self):
        folder, text = course_and_page()
        page, sweep = Page(text), Sweep(folder)
        self.assertGreater(len(page.numbers), 700)
        for section, value, source, shown in page.numbers:
            expected = sweep.evaluate(source)
            self.assertLessEqual(abs(float(value) - expected), 1e-9 * max(1e-3, abs(expected)), f"{section}: {source} = {expected}, page {value}")
            cell, half = as_number(shown)
            self.assertLessEqual(abs(cell - expected), half + 1e-12, f"{section}: {shown} for {expected} ({source})")
        sections = {section for section, *_ in page.numbers}
        self.assertLessEqual({"recommendation", "findings", "results", "configuration", "panels", "claims", "checklist", "tasks", "questions", "provenance"}, sections)
        for section in PROSE:
            left = re.sub(r"\b(zero[123]|fp32|bf16|fp16|GPT-2|L2)\b", "", page.prose[section])
            # Fixed text: the checklist's numbers of ranks, and what the course's explanations say of fp32.
            left = re.sub(r"\b[248] ranks train|costs 4 bytes, its gradient 4, its moments 8|2·b_p|W−1|1/W", "", left)
            self.assertIsNone(re.search(r"\d", left), f"{section}: a number without source: {re.findall(r'.{30}[0-9].{10}', left)[:3]}")
        self.labels_have_sources(text)

    def labels_have_sources(self, text):
        """The labels at bars stand in the table of the picture's numbers."""
        for key in ("throughput", "communication"):
            panel = text[text.index(f'id="panel-{key}"'):]
            panel = panel[:panel.index("</figure>")]
            numbers = {shown for *_, shown in Page(panel).numbers}
            labels = re.findall(r">([\d.]+[KMG]?) +([\d.]+x)<", panel) if key == "throughput" else re.findall(r">([\d.]+ [kMG]?B), \d+% exposed<", panel)
            self.assertGreater(len(labels), 5)
            for label in labels:
                self.assertLessEqual({label} if isinstance(label, str) else set(label), numbers)

    def test_it_stands_alone_and_is_the_same_again(self):
        folder, text = course_and_page()
        page = Page(text)
        self.assertEqual(page.outside, [], page.outside[:1])
        self.assertNotRegex(text, r"(?i)https?://|//cdn|@import|url\((?!#)")
        self.assertEqual(re.findall(r"<script[^>]*>", text), ["<script>"])
        script = (ROOT / "postprocess/tessera_report/html/sort.js").read_text()
        self.assertLess(len(script.splitlines()), 60)
        ids = re.findall(r'\bid="([^"]*)"', text)
        self.assertEqual(len(ids), len(set(ids)))
        for used in re.findall(r'(?:url\(|href="|aria-labelledby=")#?([\w-]+)', text):
            self.assertIn(used, ids)
        pictures = re.findall(r"<svg.*?</svg>", text, re.S)
        self.assertGreater(len(pictures), 12)
        for picture in pictures:
            self.assertRegex(picture, r'^<svg viewBox="[^"]+" role="img" aria-labelledby="[^"]+"[^>]*><title id="[^"]+">[^<]+</title>')
        self.assertEqual(render(study_of(folder)), text)

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


class Answers(Html):
    def test_the_course(self):
        study = study_of(course_and_page()[0])
        self.assertEqual((len(QUESTIONS), len(TASKS)), (13, 7))
        for question in QUESTIONS:
            self.assertIsNotNone(question.figure(study), question.question)
        for task in TASKS:
            self.assertIsNotNone(task.answer(study), task.title)
        toy = TASKS[5].answer(study)
        self.assertIn("L2 difference of the final parameters: 5.00e-01 (their norm: 3.74).", plain(toy.sentence))
        self.assertIn("L2 difference of the final gradients: 0 (", plain(toy.sentence))
        self.assertEqual({plain(line[3]) for line in toy.cells}, {"0.000"})

    def test_claims_hold_or_do_not(self):
        made = Made(self.folder, baseline="1")
        made.add("1", ranks=1, config={"train.accumulation": "4"})
        made.add("4-ddp", ranks=4, strategy="ddp", rate=1000)
        made.add("4-zero2", ranks=4, strategy="zero2", memory=2_000_000)
        path = made.add("4-zero3", ranks=4, rate=900, memory=1_000_000) / "metrics.h5"
        holds = {plain(claim.expected): (claim.holds, plain(claim.measured)) for claim in claims(study_of(self.folder))}
        self.assertEqual(holds["Training state of zero3 on 4 ranks: ÷4 of one rank's."][0], "yes")
        self.assertEqual(holds["Training state of zero3 on 8 ranks: ÷8 of one rank's."], ("not measured", "no such rows"))
        self.assertEqual(holds["zero3 needs 40 to 60% less memory than zero2."], ("yes", "best pair 4-zero2, 4-zero3: 50.0% less is planned"))
        self.assertEqual(holds["zero3 reaches 85 to 95% of DDP's throughput."], ("yes", "4-zero3: 90.0%"))
        self.assertEqual(holds["Setting up takes 10 to 30 s."], ("yes", "longest: 12.5 s"))
        with h5py.File(path, "a") as file:
            file["steps/tokens_per_second"][...] /= 2
            file["steps/time/data"][...] = 0.5 * file["steps/seconds"][...]
            file["memory/parameters/planned"][...] = 4 * PARAMETERS
        holds = {plain(claim.expected): claim.holds for claim in claims(study_of(self.folder))}
        self.assertEqual(holds["zero3 reaches 85 to 95% of DDP's throughput."], "no")
        self.assertEqual(holds["Reading data takes less than 10% of the time."], "no")
        self.assertEqual(holds["Training state of zero3 on 4 ranks: ÷4 of one rank's."], "no")


def as_number(cell):
    """A number as the page shows it, in base units, and half of its last digit."""
    cell = cell.removesuffix(" tokens/s").removesuffix("FLOP/s").replace(" GB/s", " GB").strip()
    if re.fullmatch(r"-?[\d.]+e[-+]\d+", cell):
        digits = cell.partition("e")[0].partition(".")[2]
        return float(cell), 0.5001 * 10.0 ** (int(cell.partition("e")[2]) - len(digits))
    return number(cell)


if __name__ == "__main__":
    unittest.main(verbosity=2)
