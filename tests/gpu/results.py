#!/usr/bin/env python3
"""Adds to the results of tests/gpu/run.sh ($results), one JSON object a line:

    results.py machine VERSION                     what it is; VERSION is what `tessera version` says
    results.py note STAGE NAME RESULT WHY          one attempt
    results.py stage STAGE                         all of a stage, while `ctest -V` says on standard input how they go

Prints a line for each attempt, and why it failed. Exits with 1 when one of a stage failed.
"""
from __future__ import annotations

import json
import os
import platform
import re
import subprocess
import sys
import time
from collections import Counter, defaultdict
from importlib import metadata
from pathlib import Path
from typing import Iterable

# What `ctest -V` says: a line of a test's output, the last of its own words before that, and how it ended.
OUTPUT = re.compile(r"(\d+): ?(.*)")
BEGUN = re.compile(r"(\d+): Test timeout computed to be")
ENDED = re.compile(r" *\d+/\d+ Test +#(\d+): (.*?) \.+ *(?:\*\*\*)?(\w.*?) +([\d.]+) sec$")
RESULTS = {"Passed": "passed", "Skipped": "skipped", "Timeout": "too long", "Not Run": "not run"}

NOISE = re.compile(r"^-{40,}$|^mpiexec detected|^the job to be terminated|^  Process name:|^  Exit code:|^Primary job"
                   r"|^a non-zero exit code")  # Open MPI's additions when a rank fails tell nothing
FAILURE = re.compile(r"FAILED|TOO FAR|[Ee]rror|ERROR|terminate called|Traceback")
KERNEL_FAULT = re.compile(r"NVRM|Xid|[Oo]ut of memory|segfault")

CLEAN = re.compile(r"ERROR SUMMARY: 0 errors|RACECHECK SUMMARY: 0 hazards")  # a sanitizer that has found nothing
TOOL_FAILED = re.compile(r"Internal Sanitizer Error")  # the sanitizer's own fault, after which calls fail at random
FINDING = re.compile(r"Race reported|Invalid __\w+__ (?:read|write)|Invalid \w+ (?:read|write)")


def said_by(*words: str) -> list[str]:
    """The lines that a command prints; none where it cannot be used."""
    try:
        return subprocess.run(words, capture_output=True, text=True, errors="replace", check=False).stdout.splitlines()
    except OSError:
        return []


def write(row: dict) -> None:
    with open(os.environ["results"], "a", encoding="utf-8") as file:
        file.write(json.dumps(row, separators=(",", ":")) + "\n")


def note(stage: str, name: str, result: str, seconds: float, detail: str) -> None:
    """Adds an attempt: of its detail the first 12,000 characters, without colours and what does not print."""
    detail = re.sub(r"\x1b\[[0-9;]*m", "", detail)
    detail = "".join(c for c in detail if c == "\n" or " " <= c <= "~")[:12000].rstrip("\n")
    write({"stage": stage, "name": name, "result": result, "seconds": int(seconds), "detail": detail})
    print(f"{stage:<13} {name:<44} {result:<8} {int(seconds):>6} s", flush=True)
    if result not in ("passed", "skipped", "no time"):
        print("".join(f"    {line}\n" for line in detail.splitlines()), end="", flush=True)


def machine(version: str) -> None:
    gpus = Counter(said_by("nvidia-smi", "--query-gpu=name,memory.total,clocks.max.sm,power.limit", "--format=csv,noheader"))
    driver = said_by("nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader")
    packages = {package.metadata["Name"] or "": package.version for package in metadata.distributions()}
    ours = sorted(name for name in packages if re.match("nvidia[-_](cublas|cudnn|nccl|cuda[-_]nvrtc)", name))
    write({"stage": "machine", "date": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
           "gpus": "".join(f"{count:7} {gpu};" for gpu, count in sorted(gpus.items())), "driver": driver[0] if driver else "",
           "cores": len(os.sched_getaffinity(0)), "kernel": platform.release(), "tessera": re.sub(r"[ \n]+", " ", version),
           "pytorch": packages.get("torch", ""), "libraries": "".join(f"{name}-{packages[name]} " for name in ours)})


def telling(said: list[str], news: list[str], last: int = 14) -> str:
    """Where a test first speaks of a failure, its end, NCCL's warnings, and news of the kernel about GPU and memory."""
    said = [line for line in said if not re.match(r"step +[0-9]", line)]
    first = next((i for i, line in enumerate(said[:-last]) if FAILURE.search(line)), None)
    out = [] if first is None else [*said[first:min(first + 12, len(said) - last)], "..."]
    out += said[-last:]
    for log in sorted(Path(os.environ["work"]).glob("nccl.*.log")):
        out += [line for line in log.read_text(errors="replace").splitlines() if "NCCL WARN" in line][-3:]
    return "\n".join(out + [line for line in news if KERNEL_FAULT.search(line)][-3:])


def judge(stage: str, case: str, said: str, result: str) -> str:
    """How a kernel case ended, which CTest calls passed where it exits with 0.

    It counts as run when its output ends as Catch2's does, with assertions, and its sanitizer's as a sanitizer's. Where the
    sanitizer itself broke down, the case was not checked: that is neither a pass nor a failure, unless there is a finding too,
    or memcheck had one.
    """
    is_sanitized = stage != "kernels"
    if result == "too long":
        return result
    if is_sanitized and TOOL_FAILED.search(said):
        failure = {"stage": "memcheck", "name": case, "result": "failed"}
        rows = map(json.loads, open(os.environ["results"], encoding="utf-8"))
        return "failed" if FINDING.search(said) or any(failure.items() <= row.items() for row in rows) else "tool failed"
    if result == "passed" and re.search("^assertions: - none -", said, re.MULTILINE):
        return "asserts nothing"
    is_done = result == "passed" and re.search("^All tests passed", said, re.MULTILINE)
    return "passed" if is_done and (not is_sanitized or CLEAN.search(said)) else "failed"


class Stage:
    """The attempts of one stage, noted while CTest runs them. Of the kernel cases only those that did not pass are, and a sum."""

    def __init__(self, name: str):
        self.name, self.is_failed = name, False
        self.cases: Counter[str] = Counter()
        self._start, self._kernel_lines = time.monotonic(), len(said_by("dmesg"))

    def _note(self, name: str, result: str, seconds: float, detail: str) -> None:
        note(self.name, name, result, seconds, detail)
        self.is_failed |= result not in ("passed", "skipped", "tool failed")

    def end(self, test: str, result: str, seconds: float, said: list[str]) -> None:
        name = re.sub(r"^\w+(: |/)", "", test)
        if test.startswith(f"{self.name}/"):
            result = judge(self.name, name, "\n".join(said), result)
            self.cases[result] += 1
            if result in ("passed", "asserts nothing"):
                return
        if result in ("passed", "skipped"):
            detail = "\n".join(said[-80 if re.search("bench|speed|profile|tuning", test) else -4:])
        else:
            detail = telling(said, said_by("dmesg")[self._kernel_lines:])
        self._note(name, result, seconds, detail)

    def play(self, lines: Iterable[str]) -> None:
        """Reads what `ctest -V` says of the stage."""
        said, ended, other = defaultdict(list), set(), []
        for line in map(str.rstrip, lines):
            if begin := BEGUN.match(line):
                said.pop(begin[1], None)
            elif output := OUTPUT.match(line):
                said[output[1]] += [] if NOISE.search(output[2]) else [output[2]]
            elif end := ENDED.match(line):
                ended.add(end[2])
                self.end(end[2], RESULTS.get(end[3], "failed"), float(end[4]), said.pop(end[1], []))
            else:
                other.append(line)
        why = next((line for line in other if "stop time" in line), "CTest did not run it")
        planned = (Path(os.environ["work"]) / "ctest/names").read_text(encoding="utf-8").splitlines()
        for test in planned:
            if test.startswith(f"{self.name}/") and test not in ended:
                self.cases["too long"] += 1
            elif test.startswith(f"{self.name}: ") and test not in ended:
                self._note(test[len(self.name) + 2:], "no time", 0, why)
        if self.cases:
            self._sum()
        elif not ended:
            self._note("stage", "failed", 0, "\n".join(["CTest has run nothing:", *other]))

    def _sum(self) -> None:
        """Where no case was checked all have failed, unless the tool is to blame."""
        cases = self.cases
        words = [word for word in ("failed", "too long", "passed") if cases[word]]
        self._note("test_gpu_kernels", words[0] if words else "skipped" if cases["tool failed"] else "failed",
                   time.monotonic() - self._start, f"cases: {cases['passed']} passed, {cases['failed']} failed, "
                   f"{cases['too long']} without the time for it, {cases['tool failed']} not checked (the tool failed), "
                   f"{cases['asserts nothing']} with nothing to assert here")


def main(what: str, *words: str) -> int:
    if what == "machine":
        machine(*words)
    elif what == "note":
        note(*words)
    else:
        stage = Stage(*words)
        stage.play(sys.stdin)
        return int(stage.is_failed)
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
