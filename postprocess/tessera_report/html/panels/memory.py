"""Memory: planned beside measured by category, over ranks with the ideal line, and against the batch."""
from __future__ import annotations

from typing import Optional

import numpy as np

from .. import svg
from ..quantity import Html, name, optional, short, show, size, text, whole
from ..study import BATCH, OF_RANKS, Study, groups
from ..traced import CATEGORIES, STATE, Traced
from .panel import Panel, drawn, tick, unit_of
from .scaling import growing, label_of

# Okabe and Ito's colours.
COLOURS = {
    "parameters": "#0072B2", "gradients": "#D55E00", "optimizer_state": "#009E73", "gathered_units": "#E69F00",
    "activations": "#56B4E9", "communication": "#CC79A7", "workspace": "#999999"
}


def categories(study: Study) -> Optional[Panel]:
    """For each row two stacked bars: planned above measured. Categories peak at different times, so sums are bounds."""
    rows = [row for row in study.trained if any(row.memory(category, "planned") for category in CATEGORIES)]
    if not rows:
        return None
    most = max(
        sum(_bytes(row, category, kind) for category in CATEGORIES) for row in rows for kind in ("planned", "measured"))
    unit, scale = unit_of(most)
    figure, axes = svg.bar_axes([row.name for row in rows])
    figure.set_figheight(0.6 + 0.36 * len(rows))
    start = {kind: np.zeros(len(rows)) for kind in ("planned", "measured")}
    for category in CATEGORIES:
        for kind, offset, alpha in (("planned", -0.2, 1.0), ("measured", 0.2, 0.55)):
            values = np.array([_bytes(row, category, kind) for row in rows]) / scale
            if not values.any():
                continue
            axes.barh(np.arange(len(rows)) + offset,
                      values,
                      0.34,
                      left=start[kind],
                      color=COLOURS[category],
                      alpha=alpha,
                      hatch="" if kind == "planned" else "////",
                      edgecolor="white",
                      linewidth=0.3,
                      label=category.replace("_", " ") if kind == "planned" else None)
            start[kind] += values
    axes.set_xlabel(f"{unit} of the fullest rank")
    svg.legend(figure, axes)
    head = [
        "row", *(f"{category.replace('_', ' ')}, {kind}" for category in (*CATEGORIES, "process")
                 for kind in ("planned", "measured"))
    ]
    cells = [[
        name(row.name), *(optional(row.memory(category, kind), size)
                          for category in (*CATEGORIES, "process")
                          for kind in ("planned", "measured"))
    ]
             for row in rows]
    caption = text(
        "Upper bar: planned before the run. Lower bar, hatched: measured. Each category stands at its own peak, "
        "so a bar may be longer than what is allocated. Buffers that are never alive together share addresses.")
    return drawn(figure, "memory" + study.suffix, "Memory by category" + study.scale, caption, head, cells)


def _bytes(row: Traced, category: str, kind: str) -> float:
    quantity = row.memory(category, kind)
    return quantity.value if quantity else 0.0


def over_ranks(study: Study) -> Optional[Panel]:
    """Planned state of a rank over ranks, for each strategy, with the line 1/W of sharding that has no cost."""
    rows = [row for row in study.trained if row.state() and row.values["ranks"]]
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
        axes.plot(ranks,
                  np.array(values) / scale,
                  marker="o",
                  markersize=4,
                  linewidth=1.4,
                  label=label_of(group, found),
                  **style)
        lines[round(values[0] * ranks[0])] = (values[0] * ranks[0], ranks)
        cells += [[
            name(row.name),
            show(row.ranks, whole),
            show(row.state(), size), *(optional(row.memory(part, "planned"), size) for part in STATE)
        ] for row in group]
    every = np.array(sorted({rank for group in found for rank in (row.values["ranks"] for row in group)}))
    for place, (whole_state, _) in enumerate(lines.values()):
        axes.plot(every,
                  whole_state / every / scale,
                  ":",
                  color=svg.FAINT,
                  linewidth=1,
                  label=None if place else "1/W of one rank's")
    svg.ranks_axis(axes, every.tolist())
    axes.set_ylim(bottom=0)
    axes.set_xlabel("ranks W")
    axes.set_ylabel(f"{unit} of a rank")
    axes.grid()
    svg.legend(figure, axes)
    caption = text(
        "Planned parameters, gradients and optimizer state of the fullest rank, each at its own peak. Dotted: 1/W.")
    return drawn(figure, "memory-over-ranks" + study.suffix, "Training state over ranks" + study.scale, caption,
                 ["row", "ranks", "state", "parameters", "gradients", "optimizer state"], cells)


def over_batch(study: Study) -> Optional[Panel]:
    """Tokens/s and memory against the tokens of a step; a line for each strategy and accumulation."""
    rows = [
        row for row in study.trained
        if row.tokens_per_step and row.micro_steps and row.values["memory_peak"] is not None
    ]
    found = [
        group for group in groups(rows, BATCH | {"shard.reduce"}, "ranks")
        if len({row.values["tokens_per_step"]
                for row in group}) > 1
    ]
    if not found:
        return None
    lines: dict[str, list[Traced]] = {}
    for group in found:
        several = len({row.micro_steps.value
                       for row in group}) > 1 and len({row.option("train.micro_batch")
                                                       for row in group}) > 1
        for row in sorted(group, key=lambda row: (row.micro_steps.value, row.values["tokens_per_step"])):
            steps = f", K = {row.micro_steps.value:.0f}" if several else ""
            lines.setdefault(f"{label_of(group, found)}{steps}", []).append(row)
    unit, scale = unit_of(max(row.values["memory_peak"] for line in lines.values() for row in line))
    figure, (above, below) = svg.figure(3.7, lines=2, sharex=True)
    cells: list[list[Html]] = []
    for place, (label, line) in enumerate(lines.items()):
        tokens = [row.values["tokens_per_step"] for row in line]
        style = {**svg.style_of(place), "marker": "o", "markersize": 3.5, "linewidth": 1.2}
        above.plot(tokens, [row.values["tokens_per_second"] for row in line], label=label, **style)
        below.plot(tokens, [row.values["memory_peak"] / scale for row in line], **style)
        cells += [[
            name(row.name),
            show(row.tokens_per_step, short),
            show(row.micro_steps, whole),
            show(row.key("tokens_per_second"), short),
            show(row.key("memory_peak"), size)
        ] for row in line]
    for axes, label in ((above, "tokens/s"), (below, f"{unit}, peak of a rank")):
        axes.set_ylabel(label)
        axes.set_ylim(bottom=0)
        axes.grid()
    above.yaxis.set_major_formatter(lambda value, _: tick(value))
    every = sorted({row.values["tokens_per_step"] for line in lines.values() for row in line})
    below.set_xscale("log", base=2)
    below.set_xticks(every, [tick(tokens) if tokens < 1e4 else short(tokens) for tokens in every])
    below.minorticks_off()
    below.set_xlabel("tokens a step, all ranks")
    svg.legend(figure, above)
    return drawn(figure, "batch", "Speed and memory against the batch",
                 text("Rows that differ in micro-batch and accumulation (K) only."),
                 ["row", "tokens a step", "K", "tokens/s", "peak memory"], cells)
