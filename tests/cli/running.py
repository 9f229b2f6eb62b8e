"""Runs in the middle of which something happens: started, watched, signalled, killed."""
import json
import os
import re
import signal
import subprocess
import tempfile
import time
from pathlib import Path

import h5py

from job import TIMEOUT, command


def ranks_of(process):
    """Returns the process numbers of the ranks, started by mpiexec or alone, by rank."""
    ranks = {}
    for entry in Path("/proc").iterdir():
        try:
            if not entry.name.isdigit():
                continue
            parent = int((entry / "stat").read_text().rsplit(")", 1)[1].split()[1])
            if parent != process.pid:
                continue
            for variable in (entry / "environ").read_bytes().split(b"\0"):
                if variable.startswith(b"OMPI_COMM_WORLD_RANK="):
                    ranks[int(variable.split(b"=")[1])] = int(entry.name)
        except (OSError, IndexError, ValueError):
            continue
    return ranks or {0: process.pid}


def logged(run, key="loss"):
    """Reads log.jsonl by step; of steps that were done again, the last. A line that was cut off is left out."""
    values = {}
    path = Path(run) / "log.jsonl"
    for line in path.read_text().splitlines() if path.exists() else []:
        try:
            row = json.loads(line)
        except ValueError:
            continue
        if key in row:
            values[row["step"]] = row[key]
    return values


def history(run, group="steps", column="loss"):
    """(step, value) of every row of metrics.h5, metrics.1.h5, ..., one file after the other. Only rows that a crash
    left incomplete, in one column and not in the others, are left out."""
    files = {int(match[1] or 0): path for path in Path(run).glob("metrics*.h5")
             if (match := re.fullmatch(r"metrics(?:\.(\d+))?\.h5", path.name))}
    rows = []
    for number in sorted(files):
        with h5py.File(files[number], "r", libver="latest", swmr=True) as file:
            lengths = []
            for name in (group, "comm") if group.startswith("steps") else (group,):
                file[name].visititems(lambda _, item: lengths.append(len(item)) if isinstance(item, h5py.Dataset) else None)
            end = min(lengths)
            rows += zip(file[group.split("/")[0]]["step"][:end].tolist(), file[group][column][:end].tolist())
    return rows


def checkpoints(run):
    folder = Path(run) / "checkpoints"
    return sorted(p.name for p in folder.iterdir() if re.fullmatch(r"step-\d+", p.name)) if folder.exists() else []


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
