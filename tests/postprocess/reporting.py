"""Starts tessera-report as a user does, and makes metrics files for it with h5py alone."""
import contextlib
import io
import json
import os
import subprocess
import sys
from pathlib import Path

import h5py
import numpy as np

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/cli"))
sys.path.insert(0, str(ROOT / "postprocess"))

from tessera_report.cli import main as report_main  # noqa: E402


class Report:
    """tessera-report that has ended: code, out, err, and the rows of its JSON by name."""

    def __init__(self, *arguments, width=140, json_file=None, apart=False):
        words = [*map(str, arguments), *(["--json", str(json_file)] if json_file else [])]
        if apart:
            self._apart(words, width)
        else:
            self._inside(words, width)
        self.rows = {row["row"]: row for row in json.loads(json_file.read_text())} if json_file and json_file.exists() else {}

    def _apart(self, words, width):
        """In another process."""
        done = subprocess.run([sys.executable, "-B", ROOT / "postprocess/report.py", *words], capture_output=True, text=True,
                              env={**os.environ, "COLUMNS": str(width)}, timeout=120)
        self.code, self.out, self.err = done.returncode, done.stdout, done.stderr

    def _inside(self, words, width):
        """In this process, which is quicker: importing pandas takes longer than a report."""
        out, err, before = io.StringIO(), io.StringIO(), os.environ.get("COLUMNS")
        os.environ["COLUMNS"] = str(width)
        try:
            with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
                try:
                    self.code = report_main(words)
                except SystemExit as end:  # argparse
                    self.code = end.code
        finally:
            os.environ.pop("COLUMNS") if before is None else os.environ.__setitem__("COLUMNS", before)
        self.out, self.err = out.getvalue(), err.getvalue()

    def cells(self):
        """The table as texts: row -> title -> cell. Columns are where the title's line has them."""
        found = {}
        for block in self.out.split("\n\n"):
            lines = block.splitlines()
            if len(lines) < 3 or not lines[0].startswith("row ") or set(lines[1]) != {"-"}:
                continue
            titles, ends = column_places(lines)
            for line in lines[2:]:
                cells = [line[start:end].strip() for start, end in ends]
                found.setdefault(cells[0], {}).update(zip(titles, cells))
        return found


def column_places(lines):
    """Titles and (start, end) of a block's columns: places where all lines have at least two blanks."""
    table = [lines[0], *lines[2:]]
    size = max(map(len, table))
    table = [line.ljust(size) for line in table]
    blank = [all(line[i] == " " for line in table) for i in range(size)]
    places, start = [], 0
    for i in range(1, size):
        if blank[i - 1] and not blank[i] and i >= 2 and blank[i - 2]:
            places.append((start, i))
            start = i
    places.append((start, size))
    return [table[0][a:b].strip() for a, b in places], places


def write_metrics(path, steps, groups=None, attributes=None, schedule=None):
    """A metrics file by another hand: /steps/NAME from `steps`, other datasets by path, attributes by group, /schedule."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with h5py.File(path, "w") as file:
        file.create_group("steps")
        for name, values in steps.items():
            file[f"steps/{name}"] = np.asarray(values)
        for name, values in (groups or {}).items():
            file[name] = np.asarray(values)
        for group, values in (attributes or {}).items():
            for name, value in values.items():
                file.require_group(group).attrs[name] = value
        if schedule is not None:
            file["schedule"] = schedule
            file["schedule"].attrs["format"] = json.loads(schedule)["format"]
    return path
