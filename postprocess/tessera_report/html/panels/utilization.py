"""Utilization as heat maps: model FLOPs over micro-batch and accumulation, and the measurements of the GPU's driver."""
from __future__ import annotations

import textwrap
from typing import Optional

import numpy as np

from .. import svg
from ..quantity import name, percent, show, text
from ..quartiles import doubts
from ..study import BATCH, SEEDS, Study, differing, groups
from ..traced import Traced
from .panel import Panel, drawn

FREE = BATCH | {"shard.reduce", "optim.lr", *SEEDS}  # options that a map's rows may differ in
MOST_MAPS = 12
LETTERS = 66  # of titles side by side
CELLS = 8  # side by side, so that their numbers have room


def model_flops(study: Study) -> Optional[Panel]:
    """MFU, a cell for each micro-batch and accumulation; a map for each group of rows that differ in nothing else that matters to speed."""
    maps = []
    for group in groups([row for row in study.sound if row.key("mfu") and row.micro_steps], FREE, "ranks"):
        cells: dict[tuple[int, int], list[Traced]] = {}
        for row in group:
            cells.setdefault((round(row.micro_steps.value), _whole(row, "train.micro_batch")), []).append(row)
        counts, sizes = (sorted(set(own)) for own in zip(*cells))
        if len(sizes) > 1 and len(counts) > 1:
            maps.append((group, sizes, counts, cells))
    if not maps:
        return None
    maps, left_out = sorted(maps, key=lambda one: -len(one[3]))[:MOST_MAPS], max(0, len(maps) - MOST_MAPS)
    most = max(row.values["mfu"] for group, *_ in maps for row in group)
    titles = [_title(group, [one[0] for one in maps]) for group, *_ in maps]
    longest = max(len(line) for title in titles for line in title)
    columns = min(len(maps), max(1, int(CELLS / max(len(sizes) for _, sizes, *_ in maps))), max(1, LETTERS // longest))
    lines = -(-len(maps) // columns)
    titles = ["\n".join(part for line in title for part in textwrap.wrap(line, LETTERS // columns)) for title in titles]
    high = 0.6 + 0.42 * max(len(counts) for _, _, counts, _ in maps) + 0.18 * max(title.count("\n") + 1 for title in titles)
    figure, panels = svg.figure(0.5 + high * lines, columns=columns, lines=lines, squeeze=False)
    for axes, title, (group, sizes, counts, cells) in zip(panels.flat, titles, maps):
        table = np.full((len(counts), len(sizes)), np.nan)
        for (count, size), rows in cells.items():
            table[counts.index(count), sizes.index(size)] = np.median([row.values["mfu"] for row in rows])
        unsure = {(counts.index(count), sizes.index(size)) for (count, size), rows in cells.items() if any(map(doubts, rows))}
        _map(axes, table, most, unsure)
        axes.set_xticks(np.arange(len(sizes)) + 0.5, [str(size) for size in sizes])
        axes.set_yticks(np.arange(len(counts)) + 0.5, [str(count) for count in counts])
        axes.set_title(title)
    for axes in panels.flat[len(maps):]:
        axes.set_visible(False)
    figure.supxlabel("micro-batch (sequences)", fontsize=9, color=svg.INK)
    figure.supylabel("accumulation", fontsize=9, color=svg.INK)
    shown = [row for group, *_ in maps for row in group]
    caption = text("Share of the device's peak FLOP/s; provenance says which peak. Empty cells: no such row.{unsure}{several}{more}",
                   unsure=" In parentheses: speeds that are not reliable." if any(map(doubts, shown)) else "",
                   several=" Rows that differ in seeds or optim.lr only share a cell: their median."
                   if any(len(rows) > 1 for *_, cells in maps for rows in cells.values()) else "",
                   more=f" {left_out} more maps are left out, those with the fewest cells." if left_out else "")
    return drawn(figure, "utilization", "Model FLOPs utilization (MFU)", caption, ["row", "MFU"], [[name(row.name), show(row.key("mfu"), percent)] for row in shown])


def _title(group: list[Traced], every: list[list[Traced]]) -> list[str]:
    """Strategy and ranks, and of maps that have the same the options by which they differ."""
    own = group[0]
    same = [other[0] for other in every if (other[0].strategy, other[0].values["ranks"]) == (own.strategy, own.values["ranks"])]
    options = sorted(set().union(*(differing(own, other) for other in same)) - FREE)
    return [f"{own.strategy}, {own.values['ranks']} rank{'s' if own.values['ranks'] != 1 else ''}", *(f"{key} = {own.option(key)}" for key in options[:2])]


def device(study: Study) -> Optional[Panel]:
    """Mean share of the time in which a kernel ran, by the driver: a line for each row, a column for each rank."""
    rows = [row for row in study.trained if row.utilization() is not None and row.utilization().size]
    if not rows:
        return None
    ranks = max(len(row.utilization()) for row in rows)
    table = np.full((len(rows), ranks), np.nan)
    cells = []
    for place, row in enumerate(rows):
        table[place, :len(row.utilization())] = row.utilization()
        cells.append([name(row.name), show(row.mean_utilization(), percent)])
    figure, axes = svg.figure(0.9 + 0.28 * len(rows))
    _map(axes, table, 1.0)
    axes.set_yticks(np.arange(len(rows)) + 0.5, [row.label for row in rows])
    axes.set_xticks(np.arange(ranks) + 0.5, [str(rank) for rank in range(ranks)])
    axes.set_xlabel("rank")
    return drawn(figure, "device-utilization", "GPU utilization",
                 text("Share of the time in which a kernel ran, by the GPU's driver: mean of the reports."), ["row", "mean of all ranks"], cells)


def _whole(row: Traced, key: str) -> int:
    return int(float(row.option(key) or 0))


def _map(axes, table: np.ndarray, most: float, unsure: set[tuple[int, int]] = frozenset()) -> None:
    """Cells with their percentages, in parentheses where they are not reliable; letters are white on dark cells."""
    axes.pcolormesh(np.ma.masked_invalid(table), cmap="cividis", vmin=0, vmax=most, edgecolors="white", linewidth=1.5)
    axes.invert_yaxis()
    for (line, column), value in np.ndenumerate(table):
        if np.isfinite(value):
            words = f"{value:.1%}" if most < 0.995 else f"{value:.0%}"
            axes.text(column + 0.5, line + 0.5, f"({words})" if (line, column) in unsure else words, ha="center", va="center", fontsize=8.5, color="white" if value < 0.55 * most else "black")
    axes.tick_params(length=0)
    for spine in axes.spines.values():
        spine.set_visible(False)
