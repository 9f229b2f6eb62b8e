"""Bandwidth of collectives against the size of the message, from the tables of tessera bench comm."""
from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Optional

import h5py
import numpy as np

from ...errors import Unreadable
from ...opening import open_hdf5
from .. import svg
from ..quantity import Quantity, call, duration, gigabytes_per_second, median, name, show, size, text
from ..study import Study
from ..traced import Traced
from .panel import Panel, drawn

COLLECTIVES = ("all_gather", "reduce_scatter", "all_reduce")


@dataclass
class Measured:
    """One collective, size and communicator of a row: medians over its repeats. Bytes of the full buffer; seconds;
    bytes a second."""

    row: Traced
    collective: str
    by: str
    size: Quantity
    seconds: Quantity
    bandwidth: Quantity


def measured(study: Study) -> list[Measured]:
    """Lines of the bench files in the rows' folders; repeats as one. Raises Unreadable for a damaged file."""
    found: list[Measured] = []
    for row in study.rows:
        folder = row.row.entry.path
        for path in sorted([*folder.glob("*.h5"), *folder.glob("run*/*.h5")]) if folder.is_dir() else ():
            if path.name.startswith(("metrics", "dump-")):
                continue
            try:
                with open_hdf5(path) as file:
                    if "comm" in file and "bus_bandwidth" in file["comm"]:
                        found += _lines(row, path.relative_to(folder).as_posix(), file["comm"])
            except (OSError, KeyError, ValueError) as error:
                raise Unreadable(f"{path} cannot be read ({error})") from error
    same: dict[tuple[str, str, str, float], list[Measured]] = {}
    for line in found:
        same.setdefault((line.row.name, line.collective, line.by, line.size.value), []).append(line)
    return [_together(lines) for lines in same.values()]


def _together(lines: list[Measured]) -> Measured:
    """The medians of equal lines; one line as it is."""
    if len(lines) == 1:
        return lines[0]
    seconds, bandwidths = [line.seconds for line in lines], [line.bandwidth for line in lines]
    return replace(lines[0], seconds=median(seconds), bandwidth=median(bandwidths))


def _lines(row: Traced, file: str, group: h5py.Group) -> list[Measured]:
    columns = {key: group[key][...] for key in ("collective", "by", "bytes", "seconds", "bus_bandwidth")}

    def number(column: str, place: int) -> Quantity:
        return call(columns[column][place], "bench", row.name, file, f"/comm/{column}", place)

    return [
        Measured(row, columns["collective"][place].decode(), columns["by"][place].decode(),
                 *(number(column, place)
                   for column in ("bytes", "seconds", "bus_bandwidth")))
        for place in range(len(columns["bytes"]))
    ]


def bandwidth(study: Study) -> Optional[Panel]:
    """Bus bandwidth over the size, a picture for each collective, a curve for each communicator."""
    lines = measured(study)
    collectives = [kind for kind in COLLECTIVES if any(line.collective == kind for line in lines)]
    if not collectives:
        return None
    figure, panels = svg.figure(0.6 + 1.35 * len(collectives), lines=len(collectives), squeeze=False, sharex=True)
    kinds = list(dict.fromkeys((line.row.name, line.by) for line in lines))
    several = len({row for row, _ in kinds}) > 1
    cells = []
    for axes, collective in zip(panels.flat, collectives):
        for place, (row, by) in enumerate(kinds):
            own = [line for line in lines if (line.row.name, line.by, line.collective) == (row, by, collective)]
            own.sort(key=lambda line: line.size.value)
            if own:
                axes.plot([line.size.value for line in own],
                          np.array([line.bandwidth.value for line in own]) / 1e9,
                          marker="o",
                          markersize=3,
                          linewidth=1.2,
                          label=f"{row}, {by}" if several else by,
                          **svg.style_of(place))
            cells += [[
                name(row),
                text("{collective}, {by}", collective=collective.replace("_", "-"), by=by),
                show(line.size, size),
                show(line.seconds, duration),
                show(line.bandwidth, gigabytes_per_second)
            ] for line in own]
        axes.set_title(collective.replace("_", "-"), fontsize=8.5)
        axes.set_xscale("log")
        axes.set_ylim(bottom=0)
        axes.set_ylabel("GB/s")
        axes.grid()
    panels.flat[-1].set_xlabel("bytes of the full buffer")
    panels.flat[-1].xaxis.set_major_formatter(lambda value, _: _decimal(value))
    svg.legend(figure, panels.flat[0])
    caption = text("Bus bandwidth: bytes over time, times (n−1)/n of the n ranks, twice that for all-reduce. "
                   "Repeats of a row: their median.")
    return drawn(figure, "bandwidth", "Bandwidth against size", caption,
                 ["row", "collective", "size", "time", "bus bandwidth"], cells)


def _decimal(value: float) -> str:
    unit, scale = next(((unit, scale) for unit, scale in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)) if value >= scale),
                       ("B", 1.0))
    return f"{value / scale:g} {unit}"
