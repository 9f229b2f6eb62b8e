"""Starts the executable as a user does, and makes small inputs for it.

Environment: TESSERA (the executable), MPIEXEC, TESSERA_REFERENCE (tests/reference), and the variables of Open MPI.
"""
import io
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

REFERENCE = Path(os.environ["TESSERA_REFERENCE"])
TIMEOUT = 120  # seconds; a job that needs longer hangs

# A model that trains a step in milliseconds.
TINY = ["--model.layers=2", "--model.width=32", "--model.heads=2", "--model.context=32", "--train.micro_batch=2",
        "--train.steps=3", "--run.threads=1", "--run.timeout=20"]
SHORT = ["--data.synthetic_tokens=5000"]


def command(arguments, ranks=0):
    """The words that start the executable: over mpiexec when ranks > 0."""
    start = [os.environ["MPIEXEC"], "-n", str(ranks)] if ranks else []
    return start + [os.environ["TESSERA"], *map(str, arguments)]


class Job:
    """A run of the executable that has ended: code, out, err, seconds."""

    def __init__(self, arguments, ranks=0, cwd=None, timeout=TIMEOUT, before=()):
        self.words = [*before, *command(arguments, ranks)]
        began = time.monotonic()
        process = subprocess.Popen(self.words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                   cwd=cwd, start_new_session=True)
        try:
            out, err = process.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            out, err = process.communicate()
            raise AssertionError(f"{self} hangs\n{out.decode()}\n{err.decode()}") from None
        self.seconds = time.monotonic() - began
        self.code, self.out, self.err = process.returncode, out.decode(), err.decode()

    def __str__(self):
        return " ".join(self.words)

    @property
    def errors(self):
        """Returns the executable's own lines on the error stream, without mpiexec's remarks."""
        return [line for line in self.err.splitlines() if line.startswith("tessera: ")]

    def everything(self):
        return f"{self}\nexit code {self.code}\n{self.out}\n{self.err}"


class Running:
    """A job that goes on until something ends it."""

    def __init__(self, arguments, ranks, cwd, before=(), **environment):
        self.launch([*before, *command(arguments, ranks)], cwd, **environment)

    def launch(self, words, cwd, **environment):
        # A file instead of a pipe, because a pipe is not read while the job runs, and a full one stops it.
        self.output = tempfile.TemporaryFile()
        self.process = subprocess.Popen(words, cwd=cwd, stdin=subprocess.DEVNULL, stdout=self.output,
                                        stderr=subprocess.STDOUT, start_new_session=True,
                                        env={**os.environ, **environment})

    def said(self):
        self.output.seek(0)
        return self.output.read().decode()

    def wait_for(self, ready, what, timeout=TIMEOUT):
        deadline = time.monotonic() + timeout
        while not ready():
            if self.process.poll() is not None:
                raise AssertionError(f"ended before {what}: {self.said()}")
            if time.monotonic() > deadline:
                self.remove()
                raise AssertionError(f"no {what}")
            time.sleep(0.01)

    def end(self, timeout=TIMEOUT):
        """Exit code and output."""
        try:
            self.process.wait(timeout=timeout)
        except subprocess.TimeoutExpired:
            self.remove()
            raise AssertionError("hangs") from None
        return self.process.returncode, self.said()

    def remove(self):
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()


class Case(unittest.TestCase):
    """A test with its own folder, self.folder, in which its jobs run."""

    def setUp(self):
        self.folder = Path(tempfile.mkdtemp(prefix="tessera-cli-"))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)

    def job(self, *arguments, ranks=0, timeout=TIMEOUT):
        return Job(arguments, ranks, self.folder, timeout)

    def running(self, arguments, ranks, before=(), **environment):
        """A run that something ends, the end of the test at the latest."""
        running = Running(arguments, ranks, self.folder, before, **environment)
        self.addCleanup(running.remove)
        return running

    def do(self, *arguments, ranks=0, code=0, timeout=TIMEOUT):
        """A run that must end with `code`."""
        job = self.job(*arguments, ranks=ranks, timeout=timeout)
        self.assertEqual(job.code, code, job.everything())
        return job

    def train(self, *arguments, ranks=0, code=0, timeout=TIMEOUT):
        return self.do("train", *arguments, ranks=ranks, code=code, timeout=timeout)

    def refused(self, *arguments, says, ranks=0, code=2, run="run"):
        """The job ends with `code` and one line that matches `says` (a regular expression); no run folder is left."""
        job = self.do(*arguments, ranks=ranks, code=code)
        self.assertEqual(len(job.errors), 1, job.everything())
        self.assertRegex(job.errors[0], says, job.everything())
        self.assertNotIn("terminate called", job.err)
        self.assertFalse((self.folder / run).exists(), f"{job} left {run}")
        return job


def status(run):
    return json.loads((Path(run) / "status.json").read_text())


def write_text(folder, files=3, sentences=400, seed=1):
    """A folder of .txt files with sentences that a small model can learn something about."""
    draw = random.Random(seed)
    words = "the a shard rank gather step reduce loss norm tree block weight moves waits sums reads keeps".split()
    folder.mkdir(parents=True, exist_ok=True)
    for number in range(files):
        lines = (" ".join(draw.choices(words, k=draw.randint(3, 9))).capitalize() + "." for _ in range(sentences))
        (folder / f"part-{number}.txt").write_text("\n".join(lines) + "\n")
    return folder


def said_once(text, pattern):
    return len(re.findall(pattern, text)) == 1


def single_tests(suite):
    """The tests of a suite and of those in it."""
    return [test for one in suite for test in (single_tests(one) if isinstance(one, unittest.TestSuite) else [one])]


def run_test(test):
    """(passed, what is to be said)"""
    said = io.StringIO()
    passed = unittest.TextTestRunner(stream=said, verbosity=2).run(test).wasSuccessful()
    return passed, said.getvalue()


def main(at_once=3, alone=()):
    """Runs the script's tests, or those that the command line names, and ends the script. Several at a time: they wait
    for processes, which mostly wait themselves (Open MPI gives the ranks of a failed job a second to go). Those named
    in `alone` come last, one by one."""
    script, loader = sys.modules["__main__"], unittest.defaultTestLoader
    suite = loader.loadTestsFromNames(sys.argv[1:], script) if sys.argv[1:] else loader.loadTestsFromModule(script)
    tests = {False: [], True: []}
    for test in single_tests(suite):
        tests[test.id().rsplit(".", 1)[-1] in alone].append(test)
    passed = []
    for is_alone, several in tests.items():
        with ThreadPoolExecutor(1 if is_alone else at_once) as pool:
            for ok, said in pool.map(run_test, several):
                print(said, flush=True)
                passed.append(ok)
    sys.exit(0 if passed and all(passed) else 1)
