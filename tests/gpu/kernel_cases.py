"""The kernel suite on a GPU: a process for each case, so that a fault of one does not spoil the next, several at a time."""
from __future__ import annotations

import json
import os
import re
import subprocess
import time
from collections import Counter
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from pathlib import Path

import machine
from attempts import LEAST, TOO_LONG, Attempts, Words, lines_of, run_within

SUITE = "bin/test_gpu_kernels"
CLEAN = re.compile(r"ERROR SUMMARY: 0 errors|RACECHECK SUMMARY: 0 hazards")  # a sanitizer that has found nothing
UNUSABLE = re.compile(r"Device not supported|No attachable process|LibraryNotLoaded")
TOOL_FAILED = re.compile(r"Internal Sanitizer Error")  # the sanitizer's own fault, after which calls fail at random
FINDING = re.compile(r"Race reported|Invalid __\w+__ (?:read|write)|Invalid \w+ (?:read|write)")


def list_cases(bundle: Path, log: Path) -> list[str]:
    """The names of the suite's cases, or of those that TESSERA_GPU_CASES fits. (Listing exits with their number.)"""
    cases = os.environ.get("TESSERA_GPU_CASES")
    with open(log, "wb") as errors:
        done = subprocess.run(["timeout", "60", bundle / SUITE, "--list-test-names-only", *([cases] if cases else [])],
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=errors, check=False)
    return done.stdout.decode(errors="replace").splitlines()


def judge(said: str, code: int, is_sanitized: bool) -> str:
    """How a case ended: passed, failed, too long, asserts nothing, tool failed, or unusable (its sanitizer, on this machine).

    A case counts as run when its output ends as Catch2's does, with assertions, and its sanitizer's as a sanitizer's. Where the
    sanitizer itself broke down, the case was not checked: that is neither a pass nor a failure, unless there is a finding too.
    """
    if is_sanitized and UNUSABLE.search(said):
        return "unusable"
    if code in (TOO_LONG, 137):
        return "too long"
    if is_sanitized and TOOL_FAILED.search(said):
        return "failed" if FINDING.search(said) else "tool failed"
    if code == 0 and re.search("^assertions: - none -", said, re.MULTILINE):
        return "asserts nothing"
    is_done = code == 0 and re.search("^All tests passed", said, re.MULTILINE)
    return "passed" if is_done and (not is_sanitized or CLEAN.search(said)) else "failed"


class Suite:
    """One pass over the cases. `most`: seconds of a case; `before`: the words of a sanitizer that starts each."""

    def __init__(self, attempts: Attempts, bundle: Path, stage: str, most: float, before: Words):
        self._attempts, self._bundle, self._stage, self._most, self._before = attempts, bundle, stage, most, before
        self._counts: Counter[str] = Counter()
        self._log = attempts.work / f"{stage}.log"

    def _run_case(self, number: int, name: str, seconds: float) -> tuple[str, str, Path, float]:
        """Runs a case. Returns its name, how it ended, its output, and its seconds."""
        output, begin = self._attempts.work / f"{self._stage}.case{number}", time.monotonic()
        pattern = re.sub(r'[\],\[\\"~*]', r"\\\g<0>", name)
        with open(output, "wb") as out:
            code = run_within([*self._before, self._bundle / SUITE, pattern], seconds, out)
        result = judge("\n".join(lines_of(output)), code, bool(self._before))
        if result == "tool failed" and self._failed_in_memcheck(name):
            result = "failed"
        return name, result, output, time.monotonic() - begin

    def _failed_in_memcheck(self, name: str) -> bool:
        rows = [json.loads(line) for line in lines_of(self._attempts.results)]
        return any((row["stage"], row.get("name"), row.get("result")) == ("memcheck", name, "failed") for row in rows)

    def _report(self, name: str, result: str, output: Path, seconds: float) -> None:
        """Counts and logs a case. One that was not checked or did not pass is noted, but a tool that cannot be used only once."""
        self._counts[result] += 1
        if result not in ("passed", "asserts nothing") and self._counts["unusable"] <= 1:
            self._attempts.note(self._stage, name, result.replace("unusable", "skipped"), seconds, self._attempts.telling(output))
        with open(self._log, "ab") as log:
            log.write(f"\n##### {name}: {result}\n".encode() + output.read_bytes())

    def _result(self) -> str:
        counts = self._counts
        if counts["unusable"]:
            return "skipped"
        if counts["failed"]:
            return "failed"
        if counts["too long"]:
            return "too long"
        if counts["passed"]:
            return "passed"
        return "skipped" if counts["tool failed"] else "failed"  # nothing was checked

    def run(self) -> None:
        """Runs the cases in order, several at a time, since most of a case's time is the host's; notes the sum."""
        start = time.monotonic()
        jobs = max(1, min(6, int(os.environ.get("TESSERA_GPU_JOBS") or machine.cores() // 4)))
        names = list_cases(self._bundle, self._attempts.work / f"{self._stage}.list.log")
        self._log.write_bytes(b"")
        number, running = 0, set()
        with ThreadPoolExecutor(jobs) as pool:
            while number < len(names) or running:
                left = self._attempts.time_left()
                if number < len(names) and (left < LEAST or self._counts["unusable"]):
                    self._counts["too long"] += len(names) - number
                    number = len(names)
                elif number < len(names) and len(running) < jobs:
                    running.add(pool.submit(self._run_case, number, names[number], min(left, self._most)))
                    number += 1
                elif running:
                    done, running = wait(running, return_when=FIRST_COMPLETED)
                    for case in done:
                        self._report(*case.result())
        result = self._result()
        if result not in ("passed", "skipped"):
            self._attempts.failures += 1
        counts = self._counts
        self._attempts.note(self._stage, "test_gpu_kernels", result, time.monotonic() - start,
                            f"cases: {counts['passed']} passed, {counts['failed']} failed, "
                            f"{counts['too long']} without the time for it, {counts['tool failed']} not checked (the tool failed), "
                            f"{counts['asserts nothing']} with nothing to assert here, {jobs} at a time")
