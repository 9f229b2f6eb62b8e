"""A rank's RUN/flight/rank-N: what it did last (include/tessera/flight/record.hpp)."""
from __future__ import annotations

import re
import struct
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from .errors import Unreadable

HEADER, RINGS, RECORDS = 1024, 8, 512
SEGMENTS = RINGS - 1  # the ring of the segments that a GPU's host submits
FINISHED = 1
MOST_BYTES = 200_000_000
OPERATION = np.dtype([("name", "S48"), ("bytes", "<i8"), ("work", "u1"), ("unused", "V7")])
RECORD = np.dtype([("number", "<u8"), ("begin", "<i8"), ("end", "<i8"), ("step", "<i8"), ("operation", "<i8"), ("unused", "V24")])


@dataclass
class Flight:
    """A rank's last records: name, stream, begin and end in seconds since 1970 (None: under way)."""

    rank: int
    start: bytes  # names the start of the run
    is_finished: bool
    records: list[tuple[str, int, float, float | None]]


def read_flights(run: Path) -> list[Flight]:
    """The ranks of the latest start of a run, in order. Raises Unreadable for a damaged file."""
    paths = {path: re.fullmatch(r"rank-(\d+)", path.name) for path in (run / "flight").glob("rank-*")}
    flights = [_read(path) for path, match in paths.items() if match]
    latest = max(flights, key=lambda one: max((begin for _, _, begin, _ in one.records), default=0.0), default=None)
    return sorted((one for one in flights if one.start == latest.start), key=lambda one: one.rank) if latest else []


def _read(path: Path) -> Flight:
    try:
        with path.open("rb") as file:
            data = file.read(MOST_BYTES)
    except OSError as error:
        raise Unreadable(f"{path} cannot be read ({error.strerror or error})") from error
    if len(data) < HEADER or data[:8] != b"TSFLIGHT" or struct.unpack_from("<I", data, 8) != (1,):
        raise Unreadable(f"{path} is not a flight file of this version")
    rank, = struct.unpack_from("<i", data, 12)
    count, = struct.unpack_from("<q", data, 32)
    steady, unix = struct.unpack_from("<qq", data, 256)
    end, = struct.unpack_from("<I", data, 296)
    if count < 1 or len(data) != HEADER + count * OPERATION.itemsize + RINGS * RECORDS * RECORD.itemsize:
        raise Unreadable(f"{path} is damaged")
    names = [name.decode("utf-8", "replace") for name in np.frombuffer(data, OPERATION, count, HEADER)["name"].tolist()]
    records = []
    for place, one in enumerate(np.frombuffer(data, RECORD, -1, HEADER + count * OPERATION.itemsize)):
        if one["number"] == 0 or not 0 <= one["operation"] < count:
            continue
        begin, done = (1e-9 * float(unix - steady + int(one[key])) for key in ("begin", "end"))
        records.append((names[one["operation"]], place // RECORDS, begin, done if one["end"] else None))
    return Flight(rank, data[216:256], end == FINISHED, records)
