"""A run's trace/steps-A-B.json: what each rank measured, and the planned order (docs/manual/run_folder.md, Traces)."""
from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .errors import Unreadable

FORMAT = "tessera-trace-1"
MOST_BYTES = 200_000_000  # a larger file is Perfetto's to show


@dataclass
class Span:
    """An operation or a wait. Times in seconds from the trace's first event."""

    name: str
    kind: str  # "gather", "forward", ..., "wait"
    queue: str
    begin: float
    end: float
    category: str = ""  # as in /steps/time; empty in the planned order


@dataclass
class Trace:
    """The spans of each rank and step, the planned order, and bytes in use on the device by category."""

    path: Path
    steps: tuple[int, int]
    ranks: int
    queues: str = ""  # run.queues, resolved
    measured: dict[tuple[int, int], list[Span]] = field(default_factory=dict)  # by rank and step
    planned: dict[int, list[Span]] = field(default_factory=dict)  # by step
    memory: dict[int, list[tuple[float, dict[str, int]]]] = field(default_factory=dict)  # by rank: seconds, bytes


def trace_files(run: Path) -> list[Path]:
    """The traces of a run's folder, the one of the latest steps last."""
    named = {path: re.fullmatch(r"steps-(\d+)-(\d+)\.json", path.name) for path in (run / "trace").glob("steps-*.json")}
    found = [(int(match[2]), int(match[1]), path) for path, match in named.items() if match]
    return [path for _, _, path in sorted(found)]


def read_trace(path: Path) -> Trace:
    """Reads a trace. Raises Unreadable for other files, and for traces larger than a picture needs."""
    try:
        if path.stat().st_size > MOST_BYTES:
            raise Unreadable(f"{path} is larger than {MOST_BYTES // 1_000_000} MB: open it in Perfetto")
        document = json.loads(path.read_bytes())
        if document["otherData"]["format"] != FORMAT:
            raise Unreadable(f"{path} is no {FORMAT}")
        return _parse(path, document)
    except OSError as error:
        raise Unreadable(f"{path} cannot be read ({error.strerror or error})") from error
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        raise Unreadable(f"{path} is damaged ({type(error).__name__}: {error})") from error


def _parse(path: Path, document: dict[str, Any]) -> Trace:
    facts = document["otherData"]
    trace = Trace(path, (facts["steps"][0], facts["steps"][1]), facts["ranks"], facts.get("queues", ""))
    queues = {(event["pid"], event["tid"]): event["args"]["name"]
              for event in document["traceEvents"] if event["name"] == "thread_name"}
    for event in document["traceEvents"]:
        rank, args = event["pid"], event["args"]
        if event["ph"] == "C" and event["name"] == "bytes in use, device":
            trace.memory.setdefault(rank, []).append((1e-6 * event["ts"], args))
        if event["ph"] != "X" or event["cat"] == "step":
            continue
        begin = 1e-6 * event["ts"]
        span = Span(event["name"], event["cat"], queues[rank, event["tid"]], begin, begin + 1e-6 * event["dur"],
                    args.get("category", ""))
        line = trace.planned.setdefault(args["step"], []) if rank == trace.ranks else trace.measured.setdefault(
            (rank, args["step"]), [])
        line.append(span)
    if trace.steps[1] not in trace.planned:
        raise LookupError(f"no planned order of step {trace.steps[1]}")
    return trace
