"""tessera-report --html of runs and sweeps that still go on: running is not ended, and the page says how far they are."""
import json
import re
import time
import unittest
from unittest import mock

from html_case import Html, Page, plain, study_of
from made_sweep import Made, run
from reporting import Report

from tessera_report.html.findings import listed as findings

STATUS = {"state": "running", "step": 30, "steps": 900, "code": 0, "message": "", "started_unix": 100.0}


def status(folder, **facts):
    (folder / "status.json").write_text(json.dumps({**STATUS, "updated_unix": time.time() - 5, **facts}))


class UnderWay(Html):
    def page_of(self, path, *words):
        out = self.folder / "page.html"
        report = Report(path, "--html", out, *words)
        self.assertEqual(report.code, 0, report.err)
        return out.read_text()

    def test_a_run_that_runs_is_running(self):
        run(self.folder / "a", validation=(3.0, 2.0))
        status(self.folder / "a")
        text = self.page_of(self.folder / "a")
        answer = text[text.index('id="recommendation"'):text.index('id="results"')]
        self.assertRegex(plain(re.sub("<svg.*?</svg>", "", answer, flags=re.S)),
                         r"a is still running, by data that are \d+(\.\d+)? s old: step 30 of 900, about 7 min 25 s of steps left, loss 0\.9129, "
                         r"validation loss 2\.0000, 1\.00K tokens/s\.")
        self.assertIn("1 row · 1 running", plain(text[text.index('class="facts"'):][:600]))
        for wrong in ("ended without a result", "0 with a result", "nothing to choose", "http-equiv"):
            self.assertNotIn(wrong, text)
        self.assertIn('id="panel-losses"', answer)

    def test_a_run_that_is_done_or_was_killed_says_so(self):
        run(self.folder / "a")
        for facts, words in (({"state": "finished", "steps": 30}, "a is done: step 30 of 30, loss 0.9129, 1.00K tokens/s."),
                             ({"state": "stopped", "message": "asked to end"}, "a did not end: stopped (asked to end): step 30 of 900, loss"),
                             ({"updated_unix": time.time() - 1e5}, "a says that it runs, but has written nothing for long, by data that are 27.8 h old: step 30")):
            status(self.folder / "a", **facts)
            self.assertIn(words, plain(self.page_of(self.folder / "a")))
        self.assertNotIn("of steps left", plain(self.page_of(self.folder / "a")))

    def test_a_row_that_was_killed_is_not_still_running(self):
        made = Made(self.folder, baseline="a")
        made.add("a")
        status(made.add("killed", status="running"), updated_unix=time.time() - 1e5)
        text = plain(self.page())
        self.assertIn("1 of 2 rows ended without a result: killed.", text)
        self.assertIn("It says that it runs, but has written nothing for long.", text)
        self.assertNotIn("still running", text)

    def test_rows_that_run_or_wait_did_not_end_without_a_result(self):
        made = Made(self.folder, baseline="a")
        made.add("a")
        made.add("b", rate=500)
        status(made.add("runs", status="running"))
        made.add("waits", status="pending", made=False)
        made.add("left", status="skipped", message="no GPU", made=False)
        made.add("broke", status="failed", made=False)
        self.assertEqual(self.found(findings.not_ended), "1 of 6 rows ended without a result: broke.")
        self.assertIn("runs is still running", self.found(findings.under_way))
        self.assertIn("1 row waits: waits.", self.found(findings.under_way))
        text = self.page()
        self.assertIn("Take a: ", plain(text))
        self.assertIn("So far: 2 rows still run or wait.", plain(text))
        self.assertIn("It is still running.", plain(text))
        numbers = Page(text)
        numbers.numbers = [one for one in numbers.numbers if not one[2].startswith("age(")]
        self.numbers_hold(self.folder, numbers)

    def test_it_is_written_again_until_nothing_runs(self):
        run(self.folder / "a")
        status(self.folder / "a")
        pages = []

        def later(seconds):
            pages.append((seconds, (self.folder / "page.html").read_text()))
            status(self.folder / "a", **({"state": "finished"} if len(pages) == 2 else {"step": 31}))

        with mock.patch("time.sleep", later):
            last = self.page_of(self.folder / "a", "--refresh", "7")
        self.assertEqual([seconds for seconds, _ in pages], [7, 7])
        self.assertIn('<meta http-equiv="refresh" content="7">', pages[0][1])
        self.assertIn("step 31 of 900", plain(pages[1][1]))
        self.assertNotIn("http-equiv", last)
        self.assertEqual(Report(self.folder / "a", "--refresh", "7").code, 2)


if __name__ == "__main__":
    unittest.main(verbosity=2)
