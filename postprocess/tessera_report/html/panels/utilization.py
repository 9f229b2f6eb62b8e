"""Utilization as heat maps: model FLOPs over micro-batch and accumulation, and the measurements of the GPU's driver."""
from __future__ import annotations

from typing import Optional

import numpy as np

from .. import svg
from ..quantity import name, percent, show, text
from ..quartiles import doubts
from ..study import BATCH, Study, groups
from ..traced import Traced
from .panel import Panel, drawn


def model_flops(study: Study) -> Optional[Panel]:
    """MFU, a cell for each micro-batch and accumulation; a map for each group of rows that differ in nothing else."""
    maps = []
    for group in groups([row for row in study.sound if row.key("mfu") and row.micro_steps], BATCH | {"shard.reduce"}, "ranks"):
        sizes = sorted({_whole(row, "train.micro_batch") for row in group})
        counts = sorted({round(row.micro_steps.value) for row in group})
        if len(sizes) > 1 and len(counts) > 1:
            maps.append((group, sizes, counts))
    if not maps:
        return None
    most = max(row.values["mfu"] for group, _, _ in maps for row in group)
    figure, panels = svg.figure(0.7 + max(0.42 * len(counts) for _, _, counts in maps) + 0.6, columns=len(maps), squeeze=False)
    cells = []
    for axes, (group, sizes, counts) in zip(panels.flat, maps):
        table = np.full((len(counts), len(sizes)), np.nan)
        for row in group:
            table[counts.index(round(row.micro_steps.value)), sizes.index(_whole(row, "train.micro_batch"))] = row.values["mfu"]
            cells.append([name(row.name), show(row.key("mfu"), percent)])
        unsure = {(counts.index(round(row.micro_steps.value)), sizes.index(_whole(row, "train.micro_batch"))) for row in group if doubts(row)}
        _map(axes, table, most, unsure)
        axes.set_xticks(np.arange(len(sizes)) + 0.5, [str(size) for size in sizes])
        axes.set_yticks(np.arange(len(counts)) + 0.5, [str(count) for count in counts])
        axes.set_xlabel("micro-batch (sequences)")
        axes.set_title(f"{group[0].strategy}, {group[0].values['ranks']} ranks")
    panels[0, 0].set_ylabel("accumulation")
    return drawn(figure, "utilization", "Model FLOPs utilization (MFU)",
                 text("Share of the device's peak FLOP/s; provenance says which peak. Empty cells: no such row.{unsure}",
                      unsure=" In parentheses: speeds that are not reliable." if any(doubts(row) for group, _, _ in maps for row in group) else ""),
                 ["row", "MFU"], cells)


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
