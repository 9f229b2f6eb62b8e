"""Faults at random moments of random runs over mpiexec: the run ends in time, with the right code and the right rank
named, and a second start goes on from the newest checkpoint to the bits of a run that nothing disturbed.

TESSERA_FAULT_SEED=N TESSERA_FAULT_CASES=M test_faults.py tries cases N to N + M - 1; a failure names its number.
"""
import os
import random
import re
import signal
import struct
import sys
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import h5py
import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "cli"))
from job import SHORT, TINY, Case, Running, run_test  # noqa: E402
from running import checkpoints, history, logged, ranks_of  # noqa: E402

TIMEOUT, GRACE = 3, 10  # run.timeout; what ranks that failed wait for one that does not answer
DEADLINE = TIMEOUT + GRACE + 10  # seconds after a fault, on a busy machine
LONG = "TESSERA_LONG" in os.environ
FIRST = int(os.environ.get("TESSERA_FAULT_SEED", 1))
CASES = int(os.environ.get("TESSERA_FAULT_CASES", 35 if LONG else 7))


def flip_bits(process, pattern):
    """Flips a bit of a stopped process in all places with this pattern; returns how many."""
    found = 0
    with open(f"/proc/{process}/maps") as maps, open(f"/proc/{process}/mem", "r+b", buffering=0) as memory:
        for line in maps:
            span, rights, *_ = line.split()
            begin, end = (int(word, 16) for word in span.split("-"))
            if not rights.startswith("rw") or "[v" in line or end - begin > 1 << 30:
                continue
            try:
                memory.seek(begin)
                content = memory.read(end - begin)
            except OSError:
                continue
            for match in re.finditer(re.escape(pattern), content):
                memory.seek(begin + match.start() + 2)
                memory.write(bytes([pattern[2] ^ 4]))
                found += 1
    return found


class Faulty(Case):
    """One case, by its seed: a run, hit by one of `KINDS`."""
    SEED = 0

    def runTest(self):
        draw = self.draw = random.Random(self.SEED)
        self.kind = list(KINDS)[self.SEED % len(KINDS)]
        plant, code, options = KINDS[self.kind]
        self.run_folder, self.ranks = self.folder / "run", draw.choice([2, 3])
        self.victim = draw.randrange(self.ranks)
        self.every = draw.choice([1, 2, 5])
        self.beside = draw.random() < 0.5 and self.kind != "flipped bit"  # the copy that is written is not checked
        self.options = [word for word in TINY if "train.steps" not in word and "timeout" not in word] + SHORT + [
            "--run.device=cpu", "--metrics.every=1", "--optim.schedule=constant", "--data.val_fraction=0",
            f"--run.timeout={TIMEOUT}", f"--checkpoint.timeout={TIMEOUT}", f"--checkpoint.every={self.every}",
            "--shard.strategy=" + draw.choice(["ddp", "zero1", "zero2", "zero3"]),
            f"--checkpoint.async={str(self.beside).lower()}", f"--train.accumulation={draw.choice([1, 2])}", *options]
        self.environment = {}
        said = f"case {self.SEED}, {self.kind}: rank {self.victim} of {self.ranks}, {' '.join(self.options)}"
        with self.subTest(said):
            before = getattr(self, "before_" + plant, None)
            if before:
                before()
            self.running = Running(["train", "--run.dir=run", *self.options, "--train.steps=1000000"], self.ranks,
                                   self.folder, **self.environment)
            self.addCleanup(self.running.remove)
            if hasattr(self, plant):
                self.wait_for_steps(draw.choice([2, 10, 30]))
                time.sleep(draw.random() * 0.2)
                self.processes = ranks_of(self.running.process)
                getattr(self, plant)()
            got, out = self.running.end(DEADLINE)
            self.assertTrue(got == code or code is None and got != 0, f"code {got}\n{out}")
            getattr(self, "after_" + plant, lambda out: None)(out)
            self.go_on(out)

    def wait_for_steps(self, more):
        seen = max(logged(self.run_folder), default=0)
        self.running.wait_for(lambda: max(logged(self.run_folder), default=0) >= seen + more, "steps")

    def go_on(self, out):
        """From the newest checkpoint, which lacks no more than the steps after it, and the one that was being written."""
        last = max(logged(self.run_folder))
        names = checkpoints(self.run_folder)
        newest = int(names[-1][5:]) if names else 0
        broken = self.every if KINDS[self.kind][1] == 4 else 0  # the checkpoint that could not be written
        self.assertGreaterEqual(newest, last - self.every * (2 if self.beside else 1) - broken, out)
        job = self.train("--run.dir=run", *self.options, f"--train.steps={last + 2}", "--checkpoint.resume=auto",
                         ranks=self.ranks)
        self.assertNotIn("passed over", job.out)
        resumed = re.search(r"resume +step (\d+) from", job.out)
        self.assertGreaterEqual(int(resumed[1]) if resumed else 0, newest, job.out)
        self.train("--run.dir=whole", *self.options, f"--train.steps={last + 2}", ranks=self.ranks)
        self.assertEqual(logged(self.run_folder), logged(self.folder / "whole"))
        self.assertEqual(history(self.run_folder), history(self.folder / "whole"))
        self.assertTrue(self.state("run", last + 2) == self.state("whole", last + 2), f"other bits than {job.words}")

    def state(self, run, step):
        """The bytes of parameters and moments in a checkpoint, by file."""
        found = {}
        for path in (self.folder / run / f"checkpoints/step-{step:08}").glob("shard-*.h5"):
            with h5py.File(path) as file:
                found[path.name] = {name: item[...].tobytes() for name, item in file.items() if item.dtype.kind == "f"}
        self.assertTrue(found and all(found.values()))
        return found

    def named(self, *says):
        """The only rank that postmortem names in the end."""
        out = self.job("postmortem", "run").out
        lines = [line for line in out.splitlines() if re.match(r"rank \d+ on", line)]
        self.assertEqual([re.match(r"rank (\d+) on", line)[1] for line in lines], [str(self.victim)], out)
        for pattern in says:
            self.assertRegex(lines[0], pattern)

    def kill(self):
        os.kill(self.processes[self.victim], signal.SIGKILL)

    def after_kill(self, _):
        self.named(r"was killed \(SIGKILL\)")

    def stop(self):
        os.kill(self.processes[self.victim], signal.SIGSTOP)

    def after_stop(self, out):
        self.named(r"was stopped \(SIGSTOP\) when rank \d gave up")
        self.assertRegex(out, r"\ntessera: rank \d: .*did not (arrive|finish|answer) within")

    def before_full(self):
        call = self.draw.choice(["pwrite", "fsync"])
        self.rule(f"{call},.tmp/shard-0000{self.victim},28,{self.draw.randrange(40)}")

    def before_unwritable(self):
        step = self.every * self.draw.randrange(1, 20)
        self.rule(f"open,step-{step:08}.tmp/shard-0000{self.victim},13,0")

    def rule(self, text):
        self.environment = {"LD_PRELOAD": os.environ["FILE_SPY"], "FILE_SPY_RULES": text}

    def after_full(self, out):
        self.assertRegex(out, rf"\ntessera: rank {self.victim}: .*checkpoints/step-\d+\.tmp/shard-0000{self.victim}")

    after_unwritable = after_full

    def flip(self):
        """Weights stay, so that a checkpoint shows what lies in memory."""
        found = self.run_folder / "checkpoints" / checkpoints(self.run_folder)[-1]
        process = self.processes[self.victim]
        os.kill(process, signal.SIGSTOP)
        while any(self.run_folder.glob("checkpoints/*.tmp")):  # buffers of files are not checked
            os.kill(process, signal.SIGCONT)
            time.sleep(0.001)
            os.kill(process, signal.SIGSTOP)
        with h5py.File(found / f"shard-0000{self.victim}.h5") as file:
            weights = file["parameter"][:4096].astype(np.float32)
        flipped = flip_bits(process, weights[1024:1040].tobytes())
        os.kill(process, signal.SIGCONT)
        self.assertGreater(flipped, 0)

    def after_flip(self, out):
        self.assertRegex(out, r"tessera: .*memory or a processor changed bits, after step \d+ and at the latest in step "
                              rf"\d+: the master weights of \S+ on rank {self.victim} \(\S+\) are not what was written "
                              r"there.* The checkpoint of step \d+ was written after a check: go on from there")

    def slow(self):
        """Moments of silence, each shorter than run.timeout; then a wish to stop."""
        for _ in range(10):
            os.kill(self.processes[self.victim], signal.SIGSTOP)
            time.sleep(self.draw.random() * 0.1)
            os.kill(self.processes[self.victim], signal.SIGCONT)
            time.sleep(0.02)
        self.wait_for_steps(2)
        self.running.process.send_signal(signal.SIGUSR1)

    def before_clock(self):
        self.environment = {"LD_PRELOAD": os.environ["TESSERA_STUCK"], "CLOCK_JUMPS": str(self.victim)}

    def clock(self):
        """A day ahead and back, while steps go on for longer than run.timeout."""
        jumps = set()
        end = time.monotonic() + TIMEOUT + 0.5
        while time.monotonic() < end:
            beat = struct.unpack_from("<q", (self.run_folder / f"flight/rank-{self.victim}").read_bytes(), 264)[0] / 1e9
            jumps.add(round((beat - time.time()) / 86400))
            time.sleep(0.05)
        self.assertEqual(jumps, {0, 1})
        self.wait_for_steps(2)
        self.running.process.send_signal(signal.SIGUSR1)


# Name: what plants it, the exit code (None: the launcher's), options.
KINDS = {
    "SIGKILL": ("kill", None, ["--checkpoint.keep=1"]),
    "SIGSTOP": ("stop", 5, []),
    "disk full": ("full", 4, []),
    "unwritable folder": ("unwritable", 4, []),
    "flipped bit": ("flip", 7, ["--run.check_every=10", "--optim.lr=0", "--checkpoint.keep=0", "--run.timeout=60"]),
    "slow rank": ("slow", 75, []),
    "clock jump": ("clock", 75, ["--run.walltime=1h"]),
}


def main():
    """Several cases at a time, because they mostly wait."""
    print(f"faults from TESSERA_FAULT_SEED={FIRST}", flush=True)
    cases = [type(f"Case{seed}", (Faulty,), {"SEED": seed})() for seed in range(FIRST, FIRST + CASES)]
    failed = 0
    with ThreadPoolExecutor(5) as pool:
        for ok, said in pool.map(run_test, cases):
            if not ok:
                failed += 1
                print(said, flush=True)
    tried = Counter(list(KINDS)[seed % len(KINDS)] for seed in range(FIRST, FIRST + CASES))
    counts = ", ".join(f"{count} {kind}" for kind, count in sorted(tried.items()))
    if failed:
        sys.exit(f"{failed} of {CASES} cases failed")
    print(f"long: {CASES} faults over mpiexec, {counts}; 0 hangs, 0 steps lost beyond a checkpoint, 0 bits changed, "
          f"{tried['flipped bit']} of {tried['flipped bit']} bits found")


if __name__ == "__main__":
    main()
