"""Bandwidth of collectives against the size of the message, from the tables of tessera bench comm."""
from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Optional, Protocol

import h5py
import numpy as np
from matplotlib.figure import Figure

from ...bench_file import candidates
from ...errors import Unreadable
from ...opening import open_hdf5
from .. import svg
from ..quantity import Quantity, call, duration, gigabytes_per_second, median, name, show, size, text
from ..study import Study
from .panel import Panel, drawn

APART = 5  # ratio of speeds from which on a curve would lie on zero, so that the axis is logarithmic
COLLECTIVES = ("all_gather", "reduce_scatter", "all_reduce")


class Named(Protocol):
    """A row as far as a bench's lines need it."""

    @property
    def name(self) -> str:
        """The row's name in the table."""


@dataclass
class Measured:
    """One collective, size and communicator of a row: medians over its repeats. Bytes of the full buffer; seconds;
    bytes per second."""

    row: Named
    collective: str
    by: str
    size: Quantity
    seconds: Quantity
    bandwidth: Quantity


def measured(study: Study) -> list[Measured]:
    """Lines of the rows' bench files; repeats as one. Raises Unreadable for a damaged file."""
    return measured_of([(row, row.row.entry.path) for row in study.rows])


def measured_of(rows: list[tuple[Named, Path]]) -> list[Measured]:
    """Lines of the bench files of rows and their paths."""
    found: list[Measured] = []
    for row, folder in rows:
        for name_here, path in candidates(folder):
            try:
                with open_hdf5(path) as file:
                    if "comm" in file and "bus_bandwidth" in file["comm"]:
                        found += _lines(row, name_here, file["comm"])
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


def _lines(row: Named, file: str, group: h5py.Group) -> list[Measured]:
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
    figure = draw_bandwidth(lines)
    if figure is None:
        return None
    cells = [[
        name(line.row.name), text("{collective}, {by}", collective=line.collective.replace("_", "-"), by=line.by), show(line.size, size),
        show(line.seconds, duration), show(line.bandwidth, gigabytes_per_second)
    ] for collective in COLLECTIVES for row, by in _curves(lines) for line in _points(lines, collective, row, by)]
    caption = text("Bus bandwidth as nccl-tests define it: bytes over time, times (n−1)/n of the n ranks, twice that "
                   "for all-reduce. Bytes are those of the full buffer. Repeats of a row: their median.")
    return drawn(figure, "bandwidth", "Bandwidth against size", caption, ["row", "collective", "size", "time", "bus bandwidth"], cells)


def draw_bandwidth(lines: list[Measured]) -> Optional[Figure]:
    """The curves, a colour for each communicator and a line's style for each row; None where no curve has two points. The
    caller has set STYLE."""
    collectives = [kind for kind in COLLECTIVES if len({line.size.value for line in lines if line.collective == kind}) > 1]
    if not collectives:
        return None
    figure, panels = svg.figure(0.6 + 1.35 * len(collectives), lines=len(collectives), squeeze=False, sharex=True)
    curves = _curves(lines)
    rows, by_whom = (list(dict.fromkeys(column)) for column in zip(*curves))
    fastest = [max(line.bandwidth.value for line in lines if (line.row.name, line.by) == curve) for curve in curves]
    for axes, collective in zip(panels.flat, collectives):
        for row, by in curves:
            own = _points(lines, collective, row, by)
            if own:
                axes.plot([line.size.value for line in own], np.array([line.bandwidth.value for line in own]) / 1e9,
                          marker="o", markersize=3, linewidth=1.2, label=f"{row}, {by}" if len(rows) > 1 else by,
                          color=svg.COLOURS[by_whom.index(by) % len(svg.COLOURS)], linestyle=svg.LINES[rows.index(row) % len(svg.LINES)])
        axes.set_title(f"{collective.replace('_', '-')}: bus bandwidth", fontsize=8.5)
        axes.set_xscale("log")
        if max(fastest) > APART * min(fastest):
            axes.set_yscale("log")
            axes.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
        else:
            axes.set_ylim(bottom=0)
        axes.set_ylabel("GB/s")
        axes.grid()
    panels.flat[-1].set_xlabel("bytes of the full buffer")
    panels.flat[-1].xaxis.set_major_formatter(lambda value, _: _decimal(value))
    svg.legend(figure, panels.flat[0])
    return figure


def _curves(lines: list[Measured]) -> list[tuple[str, str]]:
    """Row and communicator of each curve, in the order of the rows."""
    return list(dict.fromkeys((line.row.name, line.by) for line in lines))


def _points(lines: list[Measured], collective: str, row: str, by: str) -> list[Measured]:
    """The lines of one curve by size."""
    own = [line for line in lines if (line.collective, line.row.name, line.by) == (collective, row, by)]
    return sorted(own, key=lambda line: line.size.value)


def _decimal(value: float) -> str:
    unit, scale = next(((unit, scale) for unit, scale in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)) if value >= scale), ("B", 1.0))
    return f"{value / scale:g} {unit}"
