"""Runs in the middle of which something happens: their processes, and what they have written so far."""
import json
import re
from pathlib import Path

import h5py


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
