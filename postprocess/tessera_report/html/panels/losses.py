"""Loss over steps."""
from __future__ import annotations

from typing import Optional

import numpy as np
from matplotlib.ticker import MaxNLocator

from ...measures import finite_column
from .. import svg
from ..quantity import decimals, name, optional, text
from ..study import Study
from ..traced import Traced
from .panel import Panel, drawn


def losses(study: Study) -> Optional[Panel]:
    """Training losses as lines and validation losses as circles. Curves with the same bits are drawn once."""
    rows = [row for row in study.trained if row.row.metrics and len(finite_column(row.row.metrics.steps, "loss"))]
    if not rows:
        return None
    together: dict[bytes, list[Traced]] = {}
    for row in rows:
        together.setdefault(row.row.metrics.steps["loss"].to_numpy(np.float64).tobytes(), []).append(row)
    figure, axes = svg.figure(2.6)
    circles = False
    for place, same in enumerate(together.values()):
        steps, evals = same[0].row.metrics.steps["loss"], same[0].row.metrics.evals.get("loss", ())
        style = svg.style_of(place)
        axes.plot(steps.index,
                  steps.where(np.isfinite(steps)),
                  linewidth=1.2,
                  label=_label(same),
                  marker="." if len(steps) == 1 else "",
                  **style)
        if len(evals):
            circles = True
            axes.plot(evals.index,
                      evals.where(np.isfinite(evals)),
                      "o",
                      markersize=4,
                      markerfacecolor="white",
                      color=style["color"])
    axes.set_xlabel("step")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set_ylabel("loss (nats per token)")
    axes.grid()
    svg.legend(figure, axes)
    caption = text("Mean over all tokens of the global batch.{circles}{same}",
                   circles=" Circles are validation losses." if circles else "",
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


def _label(same: list[Traced]) -> str:
    return same[0].name if len(same) == 1 else f"{same[0].name} (+{len(same) - 1})"
