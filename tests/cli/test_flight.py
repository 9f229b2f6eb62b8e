"""Runs that hang or are killed: they end in time, and `tessera postmortem` names the rank and tells why."""
import os
import re
import signal
import time
import unittest

from job import TINY, Case, main
from running import logged, ranks_of

TIMEOUT = 4  # run.timeout, before an operation is late (5 s)
GRACE = 10   # of the ranks that failed, for one that does not answer
ENDLESS = ["train", "--run.dir=run", *TINY, f"--run.timeout={TIMEOUT}", "--train.steps=1000000", "--metrics.every=20",
           "--data.synthetic_tokens=5000", "--data.val_fraction=0"]
RARE = "--metrics.every=100"  # a rank is hardly ever stopped while others wait for it outside of operations
STUCK = os.environ.get("TESSERA_STUCK", "")


class Flight(Case):
    def start(self, *options, ranks=2, steps=2, **how):
        running = self.running([*ENDLESS, *options], ranks, **how)
        running.wait_for(lambda: len(logged(self.folder / "run")) >= steps, "steps")
        return running

    def postmortem(self, *says):
        job = self.do("postmortem", "run")
        for pattern in says:
            self.assertRegex(job.out, pattern)
        return job.out

    def verdict(self, said):
        """The lines in which a report says who holds the others up."""
        return [line for line in said.splitlines() if re.match(r"(rank \d+ on|ranks) ", line)]

    def named(self, said, rank, *says):
        """The only rank that a report names at its end."""
        lines = self.verdict(said)
        self.assertEqual([re.match(r"rank (\d+) on", line)[1] for line in lines], [str(rank)], said)
        for pattern in says:
            self.assertRegex(lines[0], pattern)

    def ends_in_time(self, running, began):
        code, said = running.end(timeout=60)
        self.assertLess(time.monotonic() - began, TIMEOUT + GRACE + 20)
        self.assertEqual(code, 5, said)
        return said

    def test_a_killed_rank(self):
        running = self.start(ranks=3)
        os.kill(ranks_of(running.process)[2], signal.SIGKILL)
        code, _ = running.end()
        self.assertNotEqual(code, 0)
        self.named(self.postmortem(r"rank 2 +\S+, process \d+: is gone: .*step \d+, "), 2, r"was killed \(SIGKILL\)")

    def test_a_stopped_rank(self):
        running = self.start(RARE, ranks=3)
        began = time.monotonic()
        os.kill(ranks_of(running.process)[1], signal.SIGSTOP)
        time.sleep(1.5)
        self.named(self.postmortem(r"rank 0 .*: runs; step \d+, waits in \S+.* for [\d.]+ s"), 1, r"is stopped \(SIGSTOP\)")
        said = self.ends_in_time(running, began)
        self.named(said.split("tessera: rank")[0], 1, r"is stopped \(SIGSTOP\)")
        self.assertRegex(said, r"\ntessera: rank \d: collective .*: rank 1 did not (arrive|finish) within %d s" % TIMEOUT)
        self.named(self.postmortem(r"rank [02] .*: failed \(collective"), 1, r"was stopped \(SIGSTOP\) when rank [02] gave up")

    def test_a_job_that_was_stopped_for_long_goes_on(self):
        """As by scontrol suspend: all ranks are stopped, and go on one after the other. No rank is to blame."""
        running = self.start(ranks=3)
        ranks = ranks_of(running.process).values()
        for process in ranks:
            os.kill(process, signal.SIGSTOP)
        time.sleep(TIMEOUT + 1)
        for process in ranks:
            os.kill(process, signal.SIGCONT)
            time.sleep(0.2)
        seen = len(logged(self.folder / "run"))
        running.wait_for(lambda: len(logged(self.folder / "run")) > seen + 1, "steps after it")
        self.assertNotIn("warning: rank", running.said())

    @unittest.skipUnless(STUCK, "a sanitizer's own library must be the first one")
    def test_a_rank_that_sleeps_in_data(self):
        for ranks in (2, 1):
            with self.subTest(ranks=ranks):
                began = time.monotonic()
                running = self.start(ranks=ranks, LD_PRELOAD=STUCK, STUCK_DATA=str(ranks - 1))
                said = self.ends_in_time(running, began)
                data = r"waits for data in load tokens for "
                self.named(said.split("\ntessera: ")[0], ranks - 1, data)
                self.named(self.postmortem(), ranks - 1, data if ranks == 2 else f"waited for data for more than {TIMEOUT} s")
                self.assertRegex(said, r"\ntessera: .*rank %d " % (ranks - 1))
            os.rename(self.folder / "run", self.folder / f"run-{ranks}")

    def test_a_slow_link(self):
        running = self.start("--comm.emulate=2,0", "--run.timeout=60", steps=0)
        running.wait_for(lambda: os.path.exists(self.folder / "run/flight/rank-1"), "flight files")
        says = r"\nranks 0, 1 arrived \S+ s ago in \S+.* of step \d+, .*: the link is slow"
        running.wait_for(lambda: re.search(says, self.job("postmortem", "run").out), "a slow link")

    def test_a_late_operation_is_a_warning_that_names_the_rank(self):
        running = self.start("--run.timeout=60", RARE, steps=2)
        process = ranks_of(running.process)[1]
        os.kill(process, signal.SIGSTOP)
        running.wait_for(lambda: "warning: rank 0" in running.said(), "a warning")
        os.kill(process, signal.SIGCONT)
        seen = len(logged(self.folder / "run"))
        running.wait_for(lambda: len(logged(self.folder / "run")) > seen, "steps after it")
        self.assertRegex(running.said(), r"warning: rank 0 has been in \S+.* of step \d+ for \S+ s, which usually takes .*\n"
                                         r"rank 1 on \S+ .*is stopped \(SIGSTOP\)")

    def test_a_run_that_finished(self):
        self.train("--run.dir=run", *TINY, "--data.synthetic_tokens=5000", ranks=2)
        said = self.postmortem(r"flight     2 of 2 ranks", r"rank 0 .*: has finished; step 3", r"rank 1 .*: has finished")
        self.assertEqual(self.verdict(said), [])

    def test_nothing_readable(self):
        self.refused("postmortem", "nowhere", says=r"nowhere/flight has no flight file", code=4)


if __name__ == "__main__":
    main()
