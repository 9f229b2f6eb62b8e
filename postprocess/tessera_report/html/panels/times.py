"""The parts of a step on rank 0."""
from __future__ import annotations

from typing import Optional

import numpy as np

from .. import svg
from ..quantity import duration, name, optional, text
from ..study import Study
from .panel import Panel, drawn

# Categories of a step's time with colour and hatch; waits for communication are hatched.
TIMES = {"data": ("#F0E442", ""), "forward": ("#56B4E9", ""), "recompute": ("#CC79A7", ""),
         "backward": ("#0072B2", ""), "optimizer": ("#009E73", ""), "exposed_gather": ("#D55E00", "////"),
         "exposed_reduce_scatter": ("#E69F00", "////"), "exposed_all_reduce": ("#999999", "////"), "exposed_other": ("#595959", "////")}


def breakdown(study: Study) -> Optional[Panel]:
    """Mean times per step by category, stacked."""
    rows = [row for row in study.trained if any(row.times(column) and row.times(column).value for column in TIMES)]
    if not rows:
        return None
    columns = [column for column in TIMES if any(row.times(column) and row.times(column).value for row in rows)]
    values = np.array([[row.times(column).value if row.times(column) else 0.0 for column in columns] for row in rows])
    unit, scale = ("ms", 1e-3) if values.sum(axis=1).max() < 2 else ("s", 1.0)
    figure, axes = svg.bar_axes([row.label for row in rows], 0.6)
    start = np.zeros(len(rows))
    for column, amounts in zip(columns, values.T / scale):
        colour, hatch = TIMES[column]
        axes.barh(range(len(rows)), amounts, 0.66, left=start, color=colour, hatch=hatch, edgecolor="white",
                  linewidth=0.4, label=column.replace("_", " "))
        start += amounts
    axes.set_xlim(left=0)
    axes.set_xlabel(f"{unit} per step on rank 0, mean")
    svg.legend(figure, axes)
    cells = [[name(row.name), *(optional(row.times(column), duration) for column in columns)] for row in rows]
    caption = text("Mean of the steps that were timed operation by operation. Hatched: compute waits for communication.")
    return drawn(figure, "time" + study.suffix, "Time of a step" + study.scale, caption,
                 ["row", *(column.replace("_", " ") for column in columns)], cells)
