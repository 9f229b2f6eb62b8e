"""tessera-report over runs with a trace (run.trace): the picture of a measured step, made from a trace by hand."""
import json
import unittest

from html_case import Html, study_of
from made_sweep import Made
from reporting import Report
from tessera_report.errors import Unreadable
from tessera_report.html.panels.measured import draw_trace, measured_timelines
from tessera_report.trace_file import read_trace, trace_files

ROWS = {0: "compute", 1: "gather"}


def span(rank, row, name, kind, begin, length, step=3, **args):
    """An event; microseconds."""
    return {"ph": "X", "name": name, "cat": kind, "pid": rank, "tid": row, "ts": begin, "dur": length,
            "args": {"step": step, "category": kind, **args}}


def write_trace(run, steps=(3, 3), text=None):
    """Two ranks: each gathers, waits for that, and computes; rank 1 computes longer. In the plan nothing waits."""
    events = []
    for rank in (0, 1, 2):
        events += [{"ph": "M", "name": "thread_name", "pid": rank, "tid": row, "args": {"name": name}}
                   for row, name in ROWS.items()]
        events.append(span(rank, 1, "gather h.0", "gather", 1000.0, 2000.0, bytes=400))
        if rank < 2:
            events.append(span(rank, 0, "wait for gather h.0", "wait", 1000.0, 2000.0))
            events.append({"ph": "C", "name": "bytes in use, device", "pid": rank, "ts": 3000.0,
                           "args": {"parameters": 100, "activations": 300}})
        events.append(span(rank, 0, "forward h.0.attn", "forward", 3000.0, 1000.0 + 500.0 * (rank == 1)))
        events.append({"ph": "X", "name": "step 3", "cat": "step", "pid": rank, "tid": 7, "ts": 1000.0, "dur": 3500.0,
                       "args": {"step": 3}})
    facts = {"format": "tessera-trace-1", "steps": list(steps), "ranks": 2}
    path = run / f"trace/steps-{steps[0]}-{steps[1]}.json"
    path.parent.mkdir(exist_ok=True)
    path.write_text(text or json.dumps({"otherData": facts, "traceEvents": events}))
    return path


class Traces(Html):
    def test_what_is_read(self):
        run = Made(self.folder).add("row")
        trace = read_trace(write_trace(run))
        self.assertEqual((trace.steps, trace.ranks, sorted(trace.measured), list(trace.planned)),
                         ((3, 3), 2, [(0, 3), (1, 3)], [3]))
        self.assertEqual([(one.name, one.queue, one.kind, round(one.end - one.begin, 9)) for one in trace.measured[1, 3]],
                         [("gather h.0", "gather", "gather", 0.002), ("wait for gather h.0", "compute", "wait", 0.002),
                          ("forward h.0.attn", "compute", "forward", 0.0015)])
        self.assertEqual([one.name for one in trace.planned[3]], ["gather h.0", "forward h.0.attn"])
        self.assertEqual(trace.memory[0], [(0.003, {"parameters": 100, "activations": 300})])

    def test_the_picture_has_a_line_for_the_plan_and_each_rank(self):
        trace = read_trace(write_trace(Made(self.folder).add("row")))
        figure = draw_trace(trace)
        self.assertEqual([axes.get_title(loc="left") for axes in figure.axes], ["plan", "rank 0", "rank 1", ""])
        self.assertEqual([label.get_text() for label in figure.axes[1].get_yticklabels()], ["gather", "compute"])
        self.assertAlmostEqual(figure.axes[-1].get_xlim()[1], 3.5)  # ms: from the first gather to rank 1's end
        boxes = [(round(box.get_x(), 6), round(box.get_width(), 6)) for box in figure.axes[2].patches if box.get_width()]
        self.assertEqual(sorted(boxes), [(0, 2), (0, 2), (2, 1.5)])

    def test_the_newest_trace_of_a_run_is_drawn(self):
        run = Made(self.folder).add("row")
        write_trace(run, steps=(1, 2))
        newest = write_trace(run, steps=(3, 3))
        (run / "trace/steps-9-9.json.tmp").write_text("cut off")
        self.assertEqual(trace_files(run)[-1], newest)
        panels, problems = measured_timelines(study_of(self.folder))
        self.assertEqual(([panel.title for panel in panels], problems), (["A step as measured: row"], []))
        page = self.page()
        self.assertIn("<h3>A step as measured: row", page)
        self.assertNotIn("“A step as measured”", page)
        report = Report(self.folder, "--plots", self.folder / "plots")
        self.assertIn(f"written    {self.folder}/plots/trace.png", report.out)
        self.assertTrue((self.folder / "plots/trace.png").stat().st_size > 10_000)

    def test_a_run_without_one_and_a_damaged_one_are_named(self):
        run = Made(self.folder).add("row")
        self.assertIn("The picture “A step as measured” needs a run with run.trace.", self.page())
        path = write_trace(run, text='{"otherData":')
        with self.assertRaisesRegex(Unreadable, "steps-3-3.json is damaged"):
            read_trace(path)
        self.assertIn("needs a trace that can be read", self.page())
        report = Report(self.folder, "--plots", self.folder / "plots")
        self.assertRegex(report.out, r"trace\.png is left out: .*steps-3-3\.json is damaged")
        with self.assertRaisesRegex(Unreadable, "is no tessera-trace-1"):
            read_trace(write_trace(run, text='{"otherData": {"format": "another"}, "traceEvents": []}'))


if __name__ == "__main__":
    unittest.main(verbosity=2)
