"""Loss over steps."""
from __future__ import annotations

from typing import Optional

import numpy as np
from matplotlib.ticker import MaxNLocator

from ...measures import finite_column
from ...rows import Row
from .. import svg
from ..quantity import decimals, name, optional, text
from ..study import Study
from ..traced import Traced
from .panel import Panel, drawn

# Of validation sets after the first: marker and word.
SET_MARKS = (("s", "square"), ("^", "triangle up"), ("D", "diamond"), ("v", "triangle down"), ("<", "triangle left"),
             (">", "triangle right"), ("p", "pentagon"), ("*", "star"))


def marks_of(rows: list[Row]) -> dict[str, tuple[str, str]]:
    """The mark of each validation set after the first, the same in every row."""
    names = dict.fromkeys(name for row in rows if row.metrics for name in row.metrics.further_sets)
    return {name: SET_MARKS[place % len(SET_MARKS)] for place, name in enumerate(names)}


def losses(study: Study) -> Optional[Panel]:
    """Training losses as lines and validation losses as circles. Curves with the same bits are drawn once."""
    rows = [row for row in study.trained if row.row.metrics and len(finite_column(row.row.metrics.steps, "loss")) > 1]
    if not rows:
        return None
    together: dict[tuple[bytes, ...], list[Traced]] = {}
    for row in rows:
        together.setdefault(_bits(row), []).append(row)
    figure, axes = svg.figure(2.6)
    circles = False
    marks = marks_of([row.row for row in rows])
    for place, same in enumerate(together.values()):
        steps, evals = same[0].row.metrics.steps["loss"], same[0].row.metrics.evals.get("loss", ())
        style = svg.style_of(place)
        axes.plot(steps.index, steps.where(np.isfinite(steps)), linewidth=1.2, label=_label(same), **style)
        if len(evals):
            circles = True
            axes.plot(evals.index, evals.where(np.isfinite(evals)), "o", markersize=4, markerfacecolor="white",
                      color=style["color"])
        for set_name in same[0].row.metrics.further_sets:
            validation = same[0].row.metrics.validation(set_name)
            axes.plot(validation.index, validation.where(np.isfinite(validation)), marks[set_name][0], markersize=4,
                      markerfacecolor="white", color=style["color"])
    axes.set_xlabel("step")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set_ylabel("loss (nats per token)")
    axes.grid()
    svg.legend(figure, axes)
    caption = text("Mean over all tokens of the global batch.{circles}{further}{same}",
                   circles=" Circles are validation losses." if circles else "",
                   further=f" Other marks: {', '.join(f'{word} {set_name}' for set_name, (_, word) in marks.items())}."
                   if marks else "",
                   same=" Rows with the same bits at every step share a curve: (+n) stands for n more rows."
                   if len(together) < len(rows) else "")
    cells = [[
        name(row.name),
        optional(row.key("final_loss"), decimals),
        optional(row.key("best_loss"), decimals),
        optional(row.key("final_validation_loss"), decimals)
    ] for row in rows]
    return drawn(figure, "losses" + study.suffix, "Loss" + study.scale, caption, ["row", "last", "best", "validation"],
                 cells)


def _bits(row: Traced) -> tuple[bytes, ...]:
    """Equal for rows whose training and validation losses are drawn alike."""
    metrics = row.row.metrics
    evals = metrics.evals.to_numpy(np.float64).tobytes() if len(metrics.evals) else b""
    return metrics.steps["loss"].to_numpy(np.float64).tobytes(), evals, " ".join(metrics.further_sets).encode()


def _label(same: list[Traced]) -> str:
    return same[0].name if len(same) == 1 else f"{same[0].name} (+{len(same) - 1})"
