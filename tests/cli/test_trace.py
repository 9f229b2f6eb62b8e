"""The traces of all ranks (run.trace) against the metrics, and the name of the rank that slows the others down.

Numbers are computed here from the files alone, with h5py and json.
"""
import json
import os
import re
import statistics
import unittest
from collections import defaultdict

import h5py

from job import TINY, Case, Job, main, status

LONG = "TESSERA_LONG" in os.environ
SLOW = os.environ.get("TESSERA_STUCK", "")
COMPUTE = ("forward", "recompute", "backward", "optimizer")
RUN = ["--run.dir=run", *TINY, "--data.synthetic_tokens=5000"]


def spans(trace):
    """The operations and waits of a trace, with begin and end in nanoseconds."""
    return [{**event, "begin": round(event["ts"] * 1000), "end": round(event["ts"] * 1000) + round(event["dur"] * 1000)}
            for event in trace["traceEvents"] if event["ph"] == "X" and event["cat"] != "step"]


def seconds_by_kind(measured, rank, step):
    """Seconds of a rank's step by the names of /overlap."""
    found = defaultdict(int)
    for span in measured:
        args = span["args"]
        if span["pid"] != rank or args["step"] != step:
            continue
        kind, length = args["category"], span["end"] - span["begin"]
        if args["stream"] == 0:
            found["compute" if kind in COMPUTE else kind.replace("_other", "_host")] += length
        if "op" in args and kind.startswith("exposed_"):
            found["host" if kind == "exposed_other" else kind.removeprefix("exposed_")] += length
    return {kind: 1e-9 * nanoseconds for kind, nanoseconds in found.items()}


class Trace(Case):
    def check(self, *options, ranks):
        self.train(*RUN, "--train.steps=5", "--run.trace=2:4", "--metrics.every=2", "--train.eval_every=2", *options,
                   ranks=ranks)
        trace = json.loads((self.folder / "run/trace/steps-2-4.json").read_text())
        measured = [span for span in spans(trace) if span["pid"] < ranks]
        self.assertEqual({span["args"]["step"] for span in measured}, {2, 3, 4})
        with h5py.File(self.folder / "run/metrics.h5") as file:
            schedule = json.loads(file["schedule"].asstr()[()])
            time = {name: file["steps/time"][name][:] for name in file["steps/time"]}
            overlap = {name: {end: item[end][:] for end in item} for name, item in file["overlap"].items()
                       if isinstance(item, h5py.Group)}
            self.assertEqual(file["overlap/step"][:].tolist(), [1, 2, 3, 4, 5])
        wanted = sorted((rank, step, place, operation["id"]) for rank in range(ranks) for step in (2, 3, 4)
                        for place, play in enumerate(schedule["step"])
                        for operation in schedule["segments"][play["segment"]]["operations"])
        self.assertEqual(wanted, sorted((span["pid"], span["args"]["step"], span["args"]["play"], span["args"]["op"])
                                        for span in measured if "op" in span["args"]))
        ends = defaultdict(int)
        for span in sorted(measured, key=lambda one: (one["begin"], one["end"])):
            stream = span["pid"], span["args"]["stream"]
            self.assertGreaterEqual(span["begin"], ends[stream])
            ends[stream] = span["end"]
        for step in (2, 3, 4):
            for kind in time:
                if kind == "recording":
                    continue
                found = sum(span["end"] - span["begin"] for span in measured if span["pid"] == 0 and
                            span["args"]["stream"] == 0 and span["args"]["step"] == step and span["args"]["category"] == kind)
                self.assertAlmostEqual(1e-9 * found, time[kind][step - 1], delta=1e-12, msg=f"step {step}: {kind}")
            by_rank = [seconds_by_kind(measured, rank, step) for rank in range(ranks)]
            for kind, ends_of_kind in overlap.items():
                values = [one.get(kind, 0.0) for one in by_rank]
                for end, value in (("min", min(values)), ("median", statistics.median(values)), ("max", max(values))):
                    self.assertAlmostEqual(ends_of_kind[end][step - 1], value, delta=1e-12, msg=f"step {step}: {kind}")
        return trace

    def test_serial_queues(self):
        self.check("--run.queues=serial", "--train.accumulation=2", ranks=3)

    def test_collectives_beside_compute_on_a_slow_network(self):
        trace = self.check("--run.queues=parallel", "--comm.emulate=1ms,1GB/s", ranks=2)
        hidden = [span for span in spans(trace) if span["pid"] < 2 and span["args"]["stream"] > 0]
        self.assertGreater(len(hidden), 0)
        self.assertGreaterEqual(min(span["end"] - span["begin"] for span in hidden if "bytes" in span["args"]), 1e6)

    def test_a_run_that_goes_on_traces_what_is_left(self):
        self.train(*RUN, "--train.steps=2", "--checkpoint.every=2")
        job = self.train(*RUN, "--train.steps=4", "--checkpoint.resume=auto", "--run.trace=2:3")
        self.assertIn("step 3: trace in run/trace/steps-3-3.json", job.out)
        (self.folder / "run/trace/steps-9-9.json.tmp").write_text("cut off")
        job = self.train(*RUN, "--train.steps=5", "--checkpoint.resume=auto", "--run.trace=1:2", "--run.dump=2")
        self.assertIn("dump       none: step 2 of run.dump was done before this start", job.out)
        self.assertIn("trace      none: the steps of run.trace = 1:2 were done before this start", job.out)
        self.assertEqual([path.name for path in (self.folder / "run/trace").iterdir()], ["steps-3-3.json"])

    def test_a_trace_that_cannot_be_written_ends_no_run(self):
        self.train(*RUN, "--train.steps=2", "--checkpoint.every=2")
        (self.folder / "run/trace").write_text("in the way")
        job = self.train(*RUN, "--train.steps=4", "--checkpoint.resume=auto", "--run.trace=3:3")
        self.assertRegex(job.out, r"step 3: cannot create folder .*trace.*: the run goes on without a trace")


@unittest.skipUnless(SLOW, "a sanitizer's own library must be the first one")
class Straggler(Case):
    """Every matmul of one rank is late."""

    def delayed(self, rank, ranks):
        folder = f"late-{rank}"
        before = ["env", f"LD_PRELOAD={SLOW}", f"SLOW_MATMULS={rank}"]
        job = Job(["train", f"--run.dir={folder}", *TINY, "--data.synthetic_tokens=5000", "--data.val_fraction=0",
                   "--train.steps=6", "--metrics.every=2"], ranks, self.folder, before=before)
        self.assertEqual(job.code, 0, job.everything())
        with h5py.File(self.folder / folder / "metrics.h5") as file:
            named = file["overlap/straggler"][1:].tolist()
            reports = file["ranks/straggler"][1:].tolist()
            behind = file["overlap/behind_seconds"][1:].min()
        self.assertEqual(named, 5 * [rank])
        self.assertEqual(reports, 3 * [rank])
        self.assertGreater(behind, 0.001)
        self.assertEqual(status(self.folder / folder)["straggler"], rank)
        self.assertEqual(len(re.findall(rf"step \d: rank {rank} is slowing the others down: its own work .* takes .* longer per step",
                                        job.out)), 1, job.out)
        lines = [json.loads(line) for line in (self.folder / folder / "log.jsonl").read_text().splitlines()]
        self.assertEqual({line["straggler"] for line in lines if "straggler" in line and line["step"] > 1}, {rank})

    def test_the_late_rank_is_named(self):
        ranks = 4 if LONG else 3
        for attempt in range(20 if LONG else 2):
            with self.subTest(attempt=attempt):
                self.delayed((1 + attempt) % ranks, ranks)
                # The folder is free for the same rank.
                (self.folder / f"late-{(1 + attempt) % ranks}").rename(self.folder / f"done-{attempt}")

    def test_ranks_that_are_alike_have_none_in_the_status(self):
        self.train(*RUN, "--train.steps=2")
        self.assertNotIn("straggler", status(self.folder / "run"))


if __name__ == "__main__":
    main(alone=["test_the_late_rank_is_named"])
