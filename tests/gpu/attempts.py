"""Attempts of one call of tests/gpu/run.sh: commands within the stage's time, their logs, and a line of results for each."""
from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import time
from pathlib import Path
from typing import Callable, Iterable, Sequence, Union

TOO_LONG = 124  # the exit code of a command that was ended, as timeout's
SKIPPED = 77
LEAST = 5  # seconds: nothing begins with less
MPIEXEC_SAYS = re.compile(r"^-{40,}$|^mpiexec detected|^the job to be terminated|^  Process name:|^  Exit code:|^Primary job"
                          r"|^a non-zero exit code")  # Open MPI's additions when a rank fails tell nothing
FAILURE = re.compile(r"FAILED|TOO FAR|[Ee]rror|ERROR|terminate called|Traceback")
KERNEL_FAULT = re.compile(r"NVRM|Xid|[Oo]ut of memory|segfault")

Words = Sequence[Union[str, Path]]


def kernel_log() -> list[str]:
    """The lines of the kernel's log; none where it may not be read."""
    try:
        return subprocess.run(["dmesg"], capture_output=True, text=True, errors="replace", check=False).stdout.splitlines()
    except OSError:
        return []


def lines_of(log: Path) -> list[str]:
    return log.read_text(encoding="utf-8", errors="replace").splitlines() if log.exists() else []


def plain(text: str) -> str:
    """The first 12,000 characters of a text, without colours and what does not print."""
    text = re.sub(r"\x1b\[[0-9;]*m", "", text)
    return "".join(c for c in text if c == "\n" or " " <= c <= "~")[:12000].rstrip("\n")


def result_of(code: int) -> str:
    """The word for an exit code; 137 is a process that was killed."""
    return {0: "passed", SKIPPED: "skipped", TOO_LONG: "too long", 137: "too long"}.get(code, "failed")


def end_group(process: subprocess.Popen) -> None:
    """Ends a process and its group: asks, and kills after five seconds."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(process.pid, number)
            process.wait(5)
        except ProcessLookupError:
            pass
        except subprocess.TimeoutExpired:
            continue
        return


def run_within(words: Words, seconds: float, out, err=subprocess.STDOUT, env: dict | None = None) -> int:
    """Runs a command in a group of its own and returns its exit code: TOO_LONG when it was ended, 128 + n by signal n."""
    try:
        process = subprocess.Popen([str(word) for word in words], stdin=subprocess.DEVNULL, stdout=out, stderr=err,
                                   env={**os.environ, **(env or {})}, start_new_session=True)
    except OSError as error:
        os.write(out.fileno(), f"{words[0]}: {error.strerror}\n".encode())
        return 127
    try:
        code = process.wait(max(0.1, seconds))
    except subprocess.TimeoutExpired:
        end_group(process)
        return TOO_LONG
    except BaseException:  # this program is asked to end
        end_group(process)
        raise
    return code if code >= 0 else 128 - code


class Job:
    """A running attempt: its commands share one log and one deadline."""

    def __init__(self, log: Path, seconds: float, env: dict):
        self.log, self.env, self._end = log, env, time.monotonic() + seconds

    def run(self, words: Words, out: Path | None = None, err: Path | None = None) -> int:
        """Runs a command into the log, or its output into files of its own."""
        with open(out or self.log, "wb" if out else "ab") as to, open(err or os.devnull, "wb") as errors:
            return run_within(words, self._end - time.monotonic(), to, errors if err else subprocess.STDOUT, self.env)

    def run_all(self, commands: Iterable[Words]) -> int:
        """Runs commands until one fails; that counts as 1, if it had the time."""
        for words in commands:
            code = self.run(words)
            if code != 0:
                return code if code == TOO_LONG else 1
        return 0

    def say(self, text: str) -> None:
        with open(self.log, "a", encoding="utf-8") as log:
            log.write(text + "\n")


class Attempts:
    """The attempts of one call. `work`: the folder of logs; `results`: a file to which lines are added."""

    def __init__(self, work: Path, results: Path):
        self.work, self.results, self.failures = work, results, 0
        self._start = self._stage_start = time.monotonic()
        self._stage_limit = float(os.environ.get("TESSERA_GPU_STAGE_SECONDS") or 520)
        self._limit = float(os.environ.get("TESSERA_GPU_SECONDS") or "inf")
        self._kernel_lines = len(kernel_log())

    def begin_stage(self) -> None:
        self._stage_start = time.monotonic()

    def time_left(self) -> float:
        """Seconds that the running stage has left."""
        now = time.monotonic()
        return min(self._stage_limit - (now - self._stage_start), self._limit - (now - self._start))

    def write(self, row: dict) -> None:
        with open(self.results, "a", encoding="utf-8") as file:
            file.write(json.dumps(row, separators=(",", ":")) + "\n")

    def note(self, stage: str, name: str, result: str, seconds: float, detail: str) -> None:
        """Adds a line of results."""
        self.write({"stage": stage, "name": name, "result": result, "seconds": int(seconds), "detail": plain(detail)})
        print(f"{stage:<13} {name:<44} {result:<8} {int(seconds):>6} s", flush=True)

    def telling(self, log: Path, last: int = 14) -> str:
        """Where a command first speaks of a failure, its end, NCCL's warnings, and news of the kernel about GPU and memory."""
        said = [line for line in lines_of(log) if not MPIEXEC_SAYS.search(line) and not re.match(r"step +[0-9]", line)]
        before, out = said[:-last], []
        first = next((i for i, line in enumerate(before) if FAILURE.search(line)), None)
        if first is not None:
            out = [*before[first:first + 12], "..."]
        out += said[-last:]
        out += [line for each in sorted(self.work.glob("nccl.*.log")) for line in lines_of(each) if "NCCL WARN" in line][-3:]
        out += [line for line in kernel_log()[self._kernel_lines:] if KERNEL_FAULT.search(line)][-3:]
        return "\n".join(out)

    def attempt(self, stage: str, name: str, job: Words | Callable[[Job], int], lines: int = 4, most: float | None = None,
                env: dict | None = None) -> bool:
        """Runs a command, or a function that runs several, and notes the result with the log's last `lines`.

        It takes at most `most` seconds, and no more than the stage has left. True if it exits with 0.
        """
        start, left = time.monotonic(), self.time_left()
        if left < LEAST:
            self.note(stage, name, "no time", 0, "the stage's time is over")
            self.failures += 1
            return False
        left = min(left, most or left)
        log = self.work / f"{stage}.{re.sub('[^a-zA-Z0-9]', '_', name)}.log"
        log.write_bytes(b"")
        running = Job(log, left, {"TESSERA_GPU_ATTEMPT": str(os.getpid()), **(env or {})})
        code = job(running) if callable(job) else running.run(job)
        for said in sweep():
            running.say(said)
        result, seconds = result_of(code), time.monotonic() - start
        if result in ("passed", "skipped"):
            said = [line for line in lines_of(log) if not MPIEXEC_SAYS.search(line)]
            self.note(stage, name, result, seconds, "\n".join(said[-lines:]))
        else:
            why = self.telling(log)
            self.note(stage, name, result, seconds, f"exit code {code} after at most {int(left)} s\n{why}")
            self.failures += 1
            print("\n".join("    " + line for line in why.splitlines()), flush=True)
        return code == 0


def sweep() -> list[str]:
    """Ends processes that an attempt has left behind, which would compute during the next one; returns what to say.

    A program that mpiexec did not start has a daemon of MPI, which ends a moment later by itself: it is ended silently.
    """
    mark, said = f"TESSERA_GPU_ATTEMPT={os.getpid()}".encode(), []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if mark not in (folder / "environ").read_bytes().split(b"\0"):
                continue
            name = (folder / "comm").read_text().strip()
            os.kill(int(folder.name), signal.SIGKILL)
        except OSError:
            continue
        if name != "orted":
            said.append(f"run.sh: process {folder.name} ({name}) was left behind")
    return said
