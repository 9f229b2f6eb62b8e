"""The contents of the paths on the command line: runs, sweeps, single metrics files. An Entry becomes a row of the table."""
from __future__ import annotations

import configparser
import json
import re
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Optional

from .bench_file import is_bench_file
from .errors import Unreadable
from .metrics import metrics_files

STATUS_OF_STATE = {"finished": "done", "running": "running", "failed": "failed", "stopped": "stopped"}
QUIET_SECONDS = 120  # a healthy run rewrites its status.json every few seconds, or once per step where steps take longer


@dataclass
class Entry:
    """A run or a row of a sweep."""

    name: str
    path: Path
    runs: list[Path] = field(default_factory=list)  # folders with metrics, or one file; more than one when repeated
    status: Optional[str] = None
    message: Optional[str] = None
    code: Optional[int] = None
    ranks: Optional[int] = None  # by the sweep; the metrics know better
    config: dict[str, str] = field(default_factory=dict)  # config.ini, for rows that have no metrics yet
    baseline: bool = False
    kind: Optional[str] = None  # by the sweep: "train", "command"
    problems: list[str] = field(default_factory=list)
    quiet_seconds: Optional[float] = None  # how long a "running" run has said nothing
    progress: dict[str, Any] = field(default_factory=dict)  # status.json of the run itself, of repeats the last one's
    of_sweep: bool = False
    ends: list[Optional[int]] = field(default_factory=list)  # the step at which each of `runs` ended, by its status.json
    times: list[tuple[float, float]] = field(default_factory=list)  # when its runs began and ended: Unix seconds
    host: Optional[str] = None  # by the sweep; the metrics know all


def read_json(path: Path) -> dict[str, Any]:
    """A JSON object. Raises Unreadable."""
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise Unreadable(f"{path} cannot be read ({error.strerror or error})") from error
    except ValueError as error:
        raise Unreadable(f"{path} is damaged (no JSON: {error})") from error
    if not isinstance(value, dict):
        raise Unreadable(f"{path} is damaged (no JSON object)")
    return value


def find_entries(path: Path) -> list[Entry]:
    """The rows that a path stands for. Raises Unreadable when it holds neither a run nor a sweep."""
    if not path.exists():
        raise Unreadable(f"{path} does not exist")
    if path.is_file() and is_bench_file(path):
        return [Entry(path.stem, path, status="done", kind="command")]
    if path.is_file():
        return [Entry(path.parent.resolve().name if path.name.startswith("metrics") else path.stem, path, [path])]
    if (path / "sweep.json").exists():
        return _sweep(path)
    if metrics_files(path):
        return [_run(path)]
    if (path / "run").is_dir() or (path / "config.ini").exists():
        return [_run(path) if not (path / "run").is_dir() else _sweep_row(path.resolve().name, path, {})]
    raise Unreadable(f"{path} is neither a run (metrics.h5) nor a sweep (sweep.json)")


def _run(path: Path) -> Entry:
    entry = Entry(path.resolve().name, path, [path] if metrics_files(path) else [])
    status = _status(entry, path / "status.json")
    entry.status = STATUS_OF_STATE.get(status.get("state"))
    _follow(entry, status)
    entry.ends = [_end(status)]
    entry.config = _config(path / "config.ini")
    entry.times = _times(status, "started_unix", "updated_unix")
    return entry


def _follow(entry: Entry, status: dict[str, Any]) -> None:
    """How far a run is, and for how long a running one has said nothing."""
    entry.progress, updated = status, status.get("updated_unix")
    if entry.status == status.get("state") == "running" and isinstance(updated, (int, float)):
        entry.quiet_seconds = max(0.0, time.time() - updated)


def _end(status: dict[str, Any]) -> Optional[int]:
    """The last step of a process that ended."""
    step = status.get("step")
    return step if isinstance(step, int) and status.get("state") != "running" else None


def _times(status: dict[str, Any], begin: str, end: str) -> list[tuple[float, float]]:
    """Begin and end of the process that wrote a status.json; nothing where that is not known."""
    times = status.get(begin), status.get(end)
    return [times] if all(isinstance(time, (int, float)) and time > 0 for time in times) else []


def _status(entry: Entry, path: Path) -> dict[str, Any]:
    """status.json, empty where there is none; message and code go into the entry."""
    if not path.exists():
        return {}
    try:
        status = read_json(path)
    except Unreadable as error:
        entry.problems.append(str(error))
        return {}
    message, code = status.get("message"), status.get("code")
    entry.message = message if isinstance(message, str) and message else None
    entry.code = code if isinstance(code, int) else None
    return status


def _config(path: Path) -> dict[str, str]:
    """The options in an INI file by their full names; nothing where it cannot be read (the metrics have them too)."""
    parser = configparser.ConfigParser(interpolation=None, strict=False, comment_prefixes=("#", ";"))
    try:
        parser.read(path, encoding="utf-8")
        return {f"{section}.{key}": value for section in parser.sections() for key, value in parser.items(section)}
    except (configparser.Error, OSError, ValueError):
        return {}


def _sweep(path: Path) -> list[Entry]:
    """The rows of a sweep in its own order, the baseline marked."""
    sweep = read_json(path / "sweep.json")
    rows = sweep.get("rows")
    named = isinstance(rows, list) and all(isinstance(row, dict) and isinstance(row.get("name"), str) for row in rows)
    if not named:
        raise Unreadable(f'{path / "sweep.json"} is damaged ("rows": [{{"name": ...}}, ...] is expected)')
    if not rows:
        raise Unreadable(f"{path} is a sweep without rows")
    entries = [_sweep_row(row["name"], path / row["name"], row) for row in rows]
    folders = {row["name"] for row in rows}
    others = sorted(status.parent.name for status in path.glob("*/status.json") if status.parent.name not in folders)
    for entry in entries:
        entry.baseline = entry.name == sweep.get("baseline")
        if others and not entry.path.exists():
            entry.problems.append(f"{entry.path} does not exist. Was it renamed? No row is called {', '.join(others)}")
    return entries


def _sweep_row(name: str, path: Path, row: dict[str, Any]) -> Entry:
    entry = Entry(name, path, ranks=row.get("ranks") if isinstance(row.get("ranks"), int) else None, of_sweep=bool(row))
    entry.kind = row.get("kind") if isinstance(row.get("kind"), str) else None
    repeats = {1: path / "run"}
    for folder in path.glob("run.*") if path.is_dir() else ():
        match = re.fullmatch(r"run\.(\d+)", folder.name)
        if match:
            repeats[int(match.group(1))] = folder
    entry.runs = [repeats[number] for number in sorted(repeats) if metrics_files(repeats[number])]
    own = _status(entry, path / "status.json")
    status = own.get("state", own.get("status"))  # by earlier versions, which also had other names for times
    entry.status = status if isinstance(status, str) else None if entry.problems else "pending"
    entry.config = _config(path / "config.ini")
    statuses = {run: _status(Entry(name, run), run / "status.json") for _, run in sorted(repeats.items())}
    of_runs, entry.ends = list(statuses.values()), [_end(statuses[run]) for run in entry.runs]
    _follow(entry, next((of_run for of_run in reversed(of_runs) if of_run), {}))
    entry.times = [times for of_run in of_runs for times in _times(of_run, "started_unix", "updated_unix")]
    entry.times = entry.times or _times(own, "started_unix", "updated_unix") or _times(own, "started", "ended")
    entry.host = own.get("host")
    return entry


def name_apart(entries: list[Entry]) -> None:
    """Makes equal names different by the folders that the rows lie in, then by a number."""
    parents = {id(entry): list(entry.path.resolve().parts[:-1]) for entry in entries}
    while True:
        names: dict[str, list[Entry]] = {}
        for entry in entries:
            names.setdefault(entry.name, []).append(entry)
        double = [entry for same in names.values() if len(same) > 1 for entry in same if len(parents[id(entry)]) > 1]
        if not double:
            break
        for entry in double:
            entry.name = f"{parents[id(entry)].pop()}/{entry.name}"
    for same in names.values():
        for number, entry in enumerate(same[1:], start=2):
            entry.name += f" ({number})"
