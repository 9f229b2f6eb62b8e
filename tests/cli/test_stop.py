"""Runs that are told to end, by signals, clocks and readers that go away; and runs with something that never answers."""
import os
import re
import signal
import subprocess
import time
import unittest
from pathlib import Path

from job import TIMEOUT, TINY, Case, Running, command, main, said_once, status
from running import checkpoints, logged, ranks_of

ENDLESS = ["train", "--run.dir=run"] + TINY + ["--train.steps=1000000", "--data.synthetic_tokens=5000",
                                              "--data.val_fraction=0", "--metrics.every=1"]
STUCK = {"LD_PRELOAD": os.environ.get("TESSERA_STUCK", "")}
with_stuck_calls = unittest.skipUnless(STUCK["LD_PRELOAD"], "a sanitizer's own library must be the first one")


class Stop(Case):
    def start(self, *options, ranks=0, **how):
        running = self.running(ENDLESS + list(options), ranks, **how)
        running.wait_for(lambda: len(logged(self.folder / "run")) >= 2, "steps")
        return running

    def assert_stopped_with_a_checkpoint(self, running, codes=(75,)):
        code, said = running.end()
        self.assertIn(code, codes, said)
        if code != 75:
            return
        said = status(self.folder / "run")
        self.assertEqual((said["state"], said["code"]), ("stopped", 75))
        self.assertEqual(checkpoints(self.folder / "run"), [f"step-{said['step']:08}"])


class Signals(Stop):
    def test_no_thread_but_the_first_receives_any(self):
        running = self.start("--run.threads=2", "--run.queues=parallel", "--checkpoint.async=true", ranks=2)
        wanted = sum(1 << (number - 1) for number in (signal.SIGUSR1, signal.SIGTERM, signal.SIGINT, signal.SIGHUP,
                                                      signal.SIGUSR2, signal.SIGALRM, signal.SIGCHLD, signal.SIGPROF))
        for rank, process in ranks_of(running.process).items():
            names = []
            for task in Path(f"/proc/{process}/task").iterdir():
                name = (task / "comm").read_text().strip()
                blocked = int(re.search(r"SigBlk:\s*(\w+)", (task / "status").read_text())[1], 16)
                names.append(name)
                if int(task.name) == process:
                    self.assertEqual(blocked, 0, f"rank {rank}")
                else:
                    self.assertEqual(blocked & wanted, wanted, f"rank {rank}: thread '{name}'")
            self.assertLessEqual({"compute 1", "batch reader", "files"}, set(names))
            self.assertGreater(len(names), 6, "MPI's own threads are not among them")

    def test_two_signals_at_once(self):
        """Both reach the process in turns, faster than it can handle them, in the middle of matmuls."""
        long_step = ("--run.threads=2", "--model.width=256", "--model.heads=4", "--model.context=128",
                     "--train.micro_batch=4", "--train.accumulation=8")
        for first, second in ((signal.SIGUSR1, signal.SIGTERM), (signal.SIGHUP, signal.SIGINT)):
            with self.subTest(first=first, second=second):
                running = self.start(*long_step)
                end = time.monotonic() + 0.2  # well under the half second after which a second one ends the process
                while time.monotonic() < end and running.process.poll() is None:
                    os.kill(running.process.pid, first)
                    os.kill(running.process.pid, second)
                    time.sleep(0.0002)
                # A machine that is busy may hear the last one late.
                self.assert_stopped_with_a_checkpoint(running, codes=(75, -first, -second))
            os.rename(self.folder / "run", self.folder / f"stopped-{first}")

    def test_the_terminal_goes_away(self):
        running = self.start()
        running.process.send_signal(signal.SIGHUP)
        self.assert_stopped_with_a_checkpoint(running)
        self.assertIn("SIGHUP", status(self.folder / "run")["message"])

    def test_nohup_means_it(self):
        running = self.start(before=["nohup"])
        running.process.send_signal(signal.SIGHUP)
        seen = len(logged(self.folder / "run"))
        running.wait_for(lambda: len(logged(self.folder / "run")) > seen + 5, "steps after SIGHUP")
        running.process.send_signal(signal.SIGTERM)
        self.assert_stopped_with_a_checkpoint(running)
        self.assertIn("SIGTERM", status(self.folder / "run")["message"])

    @with_stuck_calls
    def test_a_fault_ends_the_process(self):
        """Although a trace of its stack, which Open MPI would print, never comes to its end."""
        for number in (signal.SIGABRT, signal.SIGSEGV, signal.SIGBUS, signal.SIGFPE):
            with self.subTest(number):
                running = self.start(STUCK_BACKTRACE="1", **STUCK)
                running.process.send_signal(number)
                self.assertEqual(running.end()[0], -number)
            os.rename(self.folder / "run", self.folder / f"ended-{number}")


class Steps(Stop):
    """Signals within a step of many micro-steps."""
    MANY = ENDLESS + ["--train.accumulation=20000", "--model.width=256", "--train.micro_batch=8"]  # minutes

    def test_the_step_in_which_it_is_heard_is_the_last(self):
        running = self.start("--train.accumulation=100", ranks=2)
        running.process.send_signal(signal.SIGUSR1)
        running.wait_for(lambda: "again to stop without one" in running.said(), "a line at once")
        announced = int(re.search(r"SIGUSR1: stopping after step (\d+) with a checkpoint; again to stop without one",
                                  running.said())[1])
        running.wait_for(lambda: re.search(rf"SIGUSR1.*after step {announced} ", status(self.folder / "run")["message"]),
                         "its line in status.json")
        self.assert_stopped_with_a_checkpoint(running)
        self.assertEqual(status(self.folder / "run")["step"], announced)

    def test_a_step_of_one_micro_step_is_named_and_finished(self):
        """Half a second each, so that the signal comes in the middle of one."""
        running = self.start("--model.width=512", "--model.context=512", "--train.micro_batch=16")
        running.process.send_signal(signal.SIGUSR1)
        self.assert_stopped_with_a_checkpoint(running)
        announced = re.search(r"SIGUSR1: stopping after step (\d+) with a checkpoint; again", running.said())
        self.assertEqual(status(self.folder / "run")["step"], int(announced[1]))

    def test_a_long_first_step_is_given_up(self):
        running = self.running(self.MANY, 2)
        running.wait_for(lambda: "kernels  " in running.said(), "the first step")
        running.process.send_signal(signal.SIGUSR1)
        code, said = running.end()
        self.assertEqual(code, 75, said)
        self.assertRegex(said, r"SIGUSR1: stopping (within step 1|before the first step), (so that nothing is written|or after it .*); again")
        self.assertRegex(said, r"stopped    before step 1 of 1000000 was finished, so that nothing was written \(SIGUSR1\)")
        self.assertEqual((status(self.folder / "run")["state"], status(self.folder / "run")["code"]), ("stopped", 75))
        self.assertEqual(checkpoints(self.folder / "run"), [])
        self.do(*ENDLESS, "--checkpoint.resume=auto", "--train.steps=3")

    def test_the_proof_of_a_long_schedule_answers(self):
        running = self.running(ENDLESS + ["--train.accumulation=1048576"], 0)
        caught = 1 << (signal.SIGUSR1 - 1)
        about = Path(f"/proc/{running.process.pid}/status")
        running.wait_for(lambda: int(re.search(r"SigCgt:\s*(\w+)", about.read_text())[1], 16) & caught, "a handler")
        running.process.send_signal(signal.SIGUSR1)
        code, said = running.end()
        self.assertEqual(code, 75, said)
        self.assertRegex(said, r"SIGUSR1 before the first step, so that nothing was written")
        self.assertFalse((self.folder / "run").exists())


class Readers(Case):
    def test_a_reader_that_goes_away_costs_its_words_only(self):
        words = command(["train", "--run.dir=run"] + TINY + ["--train.steps=200", "--metrics.every=1"])
        process = subprocess.Popen(words, cwd=self.folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE)
        process.stdout.readline()
        process.stdout.close()
        said = process.stderr.read().decode()
        process.stderr.close()
        self.assertEqual(process.wait(TIMEOUT), 0, said)
        self.assertEqual((status(self.folder / "run")["state"], status(self.folder / "run")["step"]), ("finished", 200))


class Clocks(Case):
    def end(self, *options, **environment):
        """Exit code and output of a run of two steps."""
        return Running(["train", "--run.dir=run"] + TINY + ["--train.steps=2", "--data.val_fraction=0", *options], 0,
                       self.folder, **environment).end()

    def announced(self, *options, **environment):
        """How many seconds before which end the run says that it will stop."""
        code, said = self.end(*options, **environment)
        self.assertEqual(code, 0, said)
        found = re.search(r"^stops      at \d\d:\d\d:\d\d, ([0-9.]+) s before (.*)$", said, re.M)
        self.assertIsNotNone(found, said)
        return float(found[1]), found[2]

    def test_the_first_checkpoint_is_given_time(self):
        """The checkpoint of 200000 embeddings of 32 has 77 MB with moments. At 100 MB/s it is given 1.5 times that, and half a second."""
        seconds, end = self.announced("--model.vocab=200000", "--run.walltime=1h")
        self.assertEqual(end, "run.walltime")
        self.assertGreater(seconds, 1.6)
        self.assertLess(seconds, 2.0)

    def test_the_end_of_a_slurm_job(self):
        _, end = self.announced("--run.walltime=2h", SLURM_JOB_END_TIME=str(int(time.time()) + 3600))
        self.assertEqual(end, "SLURM_JOB_END_TIME")

    def test_an_end_that_is_past(self):
        code, said = self.end(SLURM_JOB_END_TIME=str(int(time.time()) - 3600))
        self.assertEqual(code, 75, said)
        self.assertRegex(said, r"stops      after one step: SLURM_JOB_END_TIME was reached 3\d\d\d\.\d s ago")
        self.assertRegex(said, r"SLURM_JOB_END_TIME was reached 3\d\d\d\.\d s ago: stopping after step 1 with a checkpoint")
        self.assertRegex(said, r"stopped    after step 1 of 2 \(SLURM_JOB_END_TIME was reached 3\d\d\d\.\d s ago\)")
        self.assertEqual(checkpoints(self.folder / "run"), ["step-00000001"])

    def test_slurm_is_asked_whether_the_end_has_moved(self):
        """scontrol is played: it tells of all tasks of an array where one has the array's own number."""
        past, later = int(time.time()) - 3600, int(time.time()) + 7200
        scontrol = self.folder / "scontrol"
        scontrol.write_text(f"#!/bin/sh\n[ $SLURM_TIME_FORMAT = %s ] && [ \"$*\" = '--oneliner show job 7' ] || exit 1\n"
                            f"echo 'JobId=70 EndTime={past} Deadline=N/A'\necho 'JobId=7 ArrayTaskId=3 EndTime={later} Deadline=N/A'\n")
        scontrol.chmod(0o755)
        path = f"{self.folder}:{os.environ['PATH']}"
        code, said = self.end(SLURM_JOB_END_TIME=str(past), SLURM_JOB_ID="7", PATH=path)
        self.assertEqual(code, 0, said)
        self.assertRegex(said, r"(?m)^stops      after one step: (?s:.*)^stops      at \d\d:\d\d:\d\d, .* s before SLURM_JOB_END_TIME$")
        code, said = self.end("--run.dir=other", SLURM_JOB_END_TIME=str(past), SLURM_JOB_ID="8", PATH=path)
        self.assertEqual(code, 75, said)

    def test_no_end_is_not_announced(self):
        for run, options in (("run", []), ("other", ["--run.walltime=1e300"])):
            code, said = self.end(f"--run.dir={run}", *options)
            self.assertEqual(code, 0, said)
            self.assertNotIn("stops  ", said)


@with_stuck_calls
class Silence(Case):
    def test_a_disk_that_never_answers(self):
        running = self.running(["train", "--run.dir=run"] + TINY + ["--train.steps=4", "--checkpoint.every=2",
                                                                   "--checkpoint.timeout=5"],
                               2, STUCK_FSYNC="1", **STUCK)
        code, said = running.end()
        self.assertEqual(code, 5, said)
        self.assertTrue(said_once(said, r"tessera: rank 0: rank 1 \(\S+\) did not answer within 5 s "
                                        r"\(checkpoint\.timeout\) while a checkpoint was written"), said)


if __name__ == "__main__":
    main()
