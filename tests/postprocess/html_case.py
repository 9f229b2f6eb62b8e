"""Shared by the tests of the HTML report: a page's numbers and prose, a study as the command makes it."""
import atexit
import functools
import html
import re
import shutil
import tempfile
from html.parser import HTMLParser
from pathlib import Path

from made_sweep import course
from reporting import Report
from test_numbers import number
from trace import Sweep
from job import Case

from tessera_report.flags import flag_differences  # noqa: E402 (reporting has set the path)
from tessera_report.find import find_entries  # noqa: E402
from tessera_report.html.study import make_study  # noqa: E402
from tessera_report.measures import make_row  # noqa: E402
from tessera_report.peaks import add_utilization  # noqa: E402
from tessera_report.rows import add_speedups  # noqa: E402


class Page(HTMLParser):
    """The contents of a page: numbers with their sources, and the text outside of them by section."""
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
        self.outside += [
            value for name, value in attributes.items() if name in ("src", "href", "data") and not value.startswith("#")
        ]

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
    baseline = next((row for row in rows if row.entry.baseline),
                    next((row for row in rows if row.values["tokens_per_second"]), None))
    add_utilization(rows)
    add_speedups(rows, baseline)
    flag_differences(rows, baseline)
    return make_study(rows, baseline, [folder], None)


def plain(markup):
    return html.unescape(re.sub(r"<[^>]*>", "", markup))


def as_number(cell):
    """A number as the page shows it, in base units, and half of its last digit."""
    cell = cell.removesuffix(" tokens/s").removesuffix("FLOP/s").replace(" GB/s", " GB").strip()
    if re.fullmatch(r"-?[\d.]+e[-+]\d+", cell):
        digits = cell.partition("e")[0].partition(".")[2]
        return float(cell), 0.5001 * 10.0**(int(cell.partition("e")[2]) - len(digits))
    return number(cell)


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

    def numbers_hold(self, folder, page):
        """Each number's source gives it."""
        sweep = Sweep(folder)
        for section, value, source, shown in page.numbers:
            expected = sweep.evaluate(source)
            self.assertLessEqual(abs(float(value) - expected), 1e-9 * max(1e-3, abs(expected)),
                                 f"{section}: {source} = {expected}, page {value}")
            cell, half = as_number(shown)
            self.assertLessEqual(abs(cell - expected), half + 1e-12, f"{section}: {shown} for {expected} ({source})")

    def page(self, *words):
        out = self.folder / "page.html"
        report = Report(self.folder, "--html", out, *words)
        self.assertEqual((report.code, report.err), (0, ""), report.out)
        self.assertIn(f"written    {out}", report.out)
        return out.read_text()
