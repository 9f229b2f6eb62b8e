"""Memory: the plan at its peak and the measured peak, over ranks with the ideal line, and against the batch."""
from __future__ import annotations

from typing import Optional

import numpy as np
from matplotlib.figure import Figure

from .. import svg
from ..quantity import Html, name, optional, short, show, size, text, whole
from ..quartiles import doubts
from ..study import BATCH, OF_RANKS, Study, groups
from ..traced import STATE, Traced
from .panel import Panel, drawn, tick, unit_of
from .scaling import growing, label_of

LEAST = 0.05  # of the measured peak: a smaller plan would not be seen
# Okabe and Ito's colours; greys are not categories.
COLOURS = {
    "parameters": "#0072B2", "gradients": "#D55E00", "optimizer state": "#009E73", "gathered units": "#E69F00",
    "activations": "#56B4E9", "communication": "#CC79A7", "workspace": "#8c8c8c", "idle": "#dde2e6", "host": "#b9a58a", "all": "#b3bcc3"
}


def at_the_peak(study: Study) -> Optional[Panel]:
    """For each row a stacked bar, what the plan has in use at its peak, and a mark at the measured peak."""
    rows = [row for row in study.ordered if row.at_peak() or row.values["memory_peak"]]
    planned = max((sum(part.value for part in row.at_peak().values()) for row in rows), default=0)
    if not rows or 0 < planned < LEAST * max(row.values["memory_peak"] or 0 for row in rows):
        return None
    parts = [part for part in COLOURS if any(part in row.at_peak() for row in rows)]
    cells = [[
        name(row.name), *(optional(row.at_peak().get(part), size) for part in parts), optional(row.key("memory_planned"), size),
        optional(row.key("memory_peak"), size)
    ] for row in rows]
    caption = text(
        "Bars: the plan at the operation with the most in use, so categories add up{idle}. Mark: the measured peak of the fullest "
        "rank's process, which includes what the plan does not count.",
        idle=" with what is allocated for other times (idle) to all that is allocated" if "idle" in parts else "")
    return drawn(draw_memory(rows), "memory" + study.suffix, "Memory at the peak" + study.scale, caption,
                 ["row", *parts, "planned", "measured"], cells)


def draw_memory(rows: list[Traced]) -> Figure:
    """The bars and marks of at_the_peak; the caller has set svg.STYLE."""
    peaks = [row.values["memory_peak"] or 0 for row in rows]
    sums = [sum(part.value for part in row.at_peak().values()) for row in rows]
    unit, scale = unit_of(max(peaks + sums))
    figure, axes = svg.bar_axes([row.label for row in rows])
    start = np.zeros(len(rows))
    for part, colour in COLOURS.items():
        values = np.array([row.at_peak()[part].value if part in row.at_peak() else 0.0 for row in rows]) / scale
        if values.any():
            axes.barh(range(len(rows)), values, 0.62, left=start, color=colour, edgecolor="white", linewidth=0.4, label=part)
            start += values
    marked = [place for place, peak in enumerate(peaks) if peak]
    if marked:
        axes.plot([peaks[place] / scale for place in marked], marked, "D", markersize=5, markerfacecolor="white",
                  color=svg.INK, label="measured peak", clip_on=False, zorder=4)
    axes.set_xlim(0, 1.06 * max(peaks + sums) / scale)
    axes.set_xlabel(f"{unit} of the fullest rank")
    svg.legend(figure, axes)
    return figure


def over_ranks(study: Study) -> Optional[Panel]:
    """Planned state of a rank over ranks, for each strategy, with the line 1/W of sharding that has no cost."""
    rows = [row for row in study.sound if row.state() and row.values["ranks"]]
    found = growing(groups(rows, OF_RANKS, "tokens_per_step", "parameters"), rows)
    if not found:
        return None
    unit, scale = unit_of(max(row.state().value for group in found for row in group))
    figure, axes = svg.figure(2.6)
    cells, lines, drawn_already = [], {}, []
    for place, group in enumerate(found):
        values = [row.state().value for row in group]
        ranks = [row.values["ranks"] for row in group]
        style = svg.style_of(place)
        if values in drawn_already:  # dashes let the curve below show
            style["linestyle"] = (0, (2.5, 2.5))
        drawn_already.append(values)
        axes.plot(ranks, np.array(values) / scale, marker="o", markersize=4, linewidth=1.4, label=label_of(group, found), **style)
        lines[round(values[0] * ranks[0])] = (values[0] * ranks[0], ranks)
        cells += [[
            name(row.name), show(row.ranks, whole), show(row.state(), size), *(optional(row.memory(part, "planned"), size) for part in STATE)
        ] for row in group]
    every = np.array(sorted({rank for group in found for rank in (row.values["ranks"] for row in group)}))
    for place, (whole_state, _) in enumerate(lines.values()):
        axes.plot(every, whole_state / every / scale, ":", color=svg.FAINT, linewidth=1, label=None if place else "1/W of one rank's")
    svg.ranks_axis(axes, every.tolist())
    axes.set_ylim(bottom=0)
    axes.set_xlabel("ranks W")
    axes.set_ylabel(f"{unit} of a rank")
    axes.grid()
    svg.legend(figure, axes)
    caption = text("Planned parameters, gradients and optimizer state of the fullest rank, each at its own peak. Dotted: 1/W.")
    return drawn(figure, "memory-over-ranks" + study.suffix, "Training state over ranks" + study.scale, caption,
                 ["row", "ranks", "state", "parameters", "gradients", "optimizer state"], cells)


def _label(group: list[Traced], found: list[list[Traced]]) -> str:
    """The strategy, with the ranks where another of the lines has that strategy too; a row's name where that is not enough."""
    same = [other for other in found if other[0].strategy == group[0].strategy]
    if len(same) == 1:
        return group[0].strategy
    ranks, own = [other[0].values["ranks"] for other in same], group[0].values["ranks"]
    return f"{group[0].strategy}, {own} rank{'s' if own > 1 else ''}" if len(set(ranks)) == len(ranks) else group[0].name


def _apart(every: list[float]) -> list[float]:
    """Those of ascending numbers whose labels have room next to each other on a logarithmic axis."""
    least = np.log2(every[-1] / every[0]) / 9
    shown = every[:1]
    for number in every[1:]:
        if np.log2(number / shown[-1]) >= least:
            shown.append(number)
    return shown


def over_batch(study: Study) -> Optional[Panel]:
    """Tokens/s and memory against the tokens per step; a line for each strategy and accumulation."""
    rows = [row for row in study.sound if row.tokens_per_step and row.micro_steps and row.values["memory_peak"] is not None]
    found = [group for group in groups(rows, BATCH | {"shard.reduce"}, "ranks") if len({row.values["tokens_per_step"] for row in group}) > 1]
    if not found:
        return None
    lines: dict[str, list[Traced]] = {}
    for group in found:
        several = len({row.micro_steps.value for row in group}) > 1 and len({row.option("train.micro_batch") for row in group}) > 1
        for row in sorted(group, key=lambda row: (row.micro_steps.value, row.values["tokens_per_step"])):
            steps = f", K = {row.micro_steps.value:.0f}" if several else ""
            lines.setdefault(f"{_label(group, found)}{steps}", []).append(row)
    unit, scale = unit_of(max(row.values["memory_peak"] for line in lines.values() for row in line))
    figure, (above, below) = svg.figure(3.7, lines=2, sharex=True)
    cells: list[list[Html]] = []
    for place, (label, line) in enumerate(lines.items()):
        tokens = [row.values["tokens_per_step"] for row in line]
        style = {**svg.style_of(place), "marker": "o", "markersize": 3.5, "linewidth": 1.2}
        above.plot(tokens, [row.values["tokens_per_second"] for row in line], label=label, **style)
        unsure = [(row.values["tokens_per_step"], row.values["tokens_per_second"]) for row in line if doubts(row)]
        above.plot(*zip(*unsure) if unsure else ((), ()), "o", markersize=3.5, markerfacecolor="white", color=style["color"])
        below.plot(tokens, [row.values["memory_peak"] / scale for row in line], **style)
        cells += [[
            name(row.name), show(row.tokens_per_step, short), show(row.micro_steps, whole), show(row.key("tokens_per_second"), short),
            show(row.key("memory_peak"), size)
        ] for row in line]
    for axes, label in ((above, "tokens/s"), (below, f"{unit}, peak of a rank")):
        axes.set_ylabel(label)
        axes.set_ylim(0, 1.06 * axes.dataLim.y1)
        axes.grid()
    above.yaxis.set_major_formatter(lambda value, _: tick(value))
    every = sorted({row.values["tokens_per_step"] for line in lines.values() for row in line})
    below.set_xscale("log", base=2)
    shown = _apart(every)
    below.set_xticks(shown, [tick(tokens) if tokens < 1e4 else short(tokens) for tokens in shown])
    below.minorticks_off()
    below.set_xlabel("tokens a step, all ranks")
    svg.legend(figure, above)
    return drawn(figure, "batch", "Speed and memory against the batch",
                 text("Rows that differ in micro-batch and accumulation (K) only.{unsure}", unsure=" Open marks: speeds that are not reliable."
                      if any(doubts(row) for line in lines.values() for row in line) else ""),
                 ["row", "tokens a step", "K", "tokens/s", "peak memory"], cells)
