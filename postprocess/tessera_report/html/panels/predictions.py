"""Predicted and measured times: stacked by class, and of all rows as points."""
from __future__ import annotations

from typing import Optional

import numpy as np
from matplotlib.ticker import LogLocator

from .. import svg
from ..predicted import CLASSES, classes_of, judged, predicted_rows, step_of
from ..quantity import duration, name, optional, show, signed, text
from ..study import Study
from .panel import Panel, drawn
from .times import TIMES

MOST = 8  # rows with bars
LOOKS = {**TIMES, "host": ("#FFFFFF", "....")}


def planned_and_measured(study: Study) -> Optional[Panel]:
    """Two bars for each row, of many rows those with the largest errors."""
    rows = predicted_rows(study)
    if not rows:
        return None
    shown = sorted(rows, key=lambda row: -abs(row.values["prediction_error"]))[:MOST] if len(rows) > MOST else rows
    of_rows = {row.name: {one.name: one for one in classes_of(row)} for row in shown}
    columns = [key for key in CLASSES if any(key in found for found in of_rows.values())]
    most = max(max(step_of(row).predicted.value, step_of(row).measured.value) for row in shown)
    unit, scale = ("ms", 1e-3) if most < 2 else ("s", 1.0)
    labels = [label for row in shown for label in (f"{row.name} planned", "measured")]
    figure, axes = svg.bar_axes(labels, 0.6)
    places = [2 * line + offset for line in range(len(shown)) for offset in (0.08, 0.92)]
    axes.set_yticks(places, labels)
    start = np.zeros(len(places))
    for column in columns:
        found = [of_rows[row.name].get(column) for row in shown]
        amounts = np.array([(quantity.value if quantity else 0.0) / scale
                            for one in found for quantity in ((one.predicted, one.measured) if one else (None, None))])
        colour, hatch = LOOKS[column]
        axes.barh(places, amounts, 0.8, left=start, color=colour, hatch=hatch, linewidth=0.4, label=column.replace("_", " "),
                  edgecolor="#5b6770" if column == "host" else "white")
        start += amounts
    axes.set_xlim(left=0)
    axes.set_xlabel(f"{unit} per step on rank 0")
    svg.legend(figure, axes)
    cells = [[name(row.name), text("{column}", column=one.name.replace("_", " ")), show(one.predicted, duration),
              optional(one.measured, duration)] for row in shown for one in (step_of(row), *of_rows[row.name].values())]
    caption = text("The step as predicted before the run, and the medians measured, by class. Hatched: compute waits for "
                   "communication.{most}", most=" The rows with the largest errors." if len(rows) > MOST else "")
    return drawn(figure, "predicted", "Planned and measured", caption, ["row", "time", "predicted", "measured"], cells)


def points(study: Study) -> Optional[Panel]:
    """Predicted over measured seconds, with the diagonal."""
    groups = [(label, rows) for label, rows in zip(("judged", "noisy, or with other work", "more threads than cores"), judged(study)) if rows]
    rows = [row for _, group in groups for row in group]
    if len(rows) < 2:
        return None
    figure, axes = svg.figure(3.6)
    every = [value for row in rows for value in (row.values["predicted_seconds"], row.values["step_seconds"])]
    ends = [0.8 * min(every), 1.25 * max(every)]
    axes.fill_between(ends, [0.9 * end for end in ends], [1.1 * end for end in ends], color="#edf0f2", label="within a tenth")
    axes.plot(ends, ends, color="#b3bcc3", linewidth=1.5, label="as predicted")
    for place, (label, group) in enumerate(groups):
        axes.plot(*zip(*((row.values["step_seconds"], row.values["predicted_seconds"]) for row in group)), linestyle="none",
                  marker="o^s"[place], markersize=4.5, color=svg.COLOURS[place], label=label,
                  markerfacecolor=svg.COLOURS[place] if label == "judged" else "none")
    axes.set(xscale="log", yscale="log", xlim=ends, ylim=ends, xlabel="measured step", ylabel="predicted step")
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter(lambda value, _: f"{value * 1e3:g} ms" if value < 1 else f"{value:g} s")
        axis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axis.set_minor_formatter(lambda *_: "")
    axes.grid()
    svg.legend(figure, axes)
    caption = text("A point for each row, on logarithmic axes: below the line the step took longer than predicted. Open marks are not judged.")
    cells = [[name(row.name), *(show(row.key(key), form) for key, form in (("predicted_seconds", duration), ("step_seconds", duration),
                                                                         ("prediction_error", signed)))] for row in rows]
    return drawn(figure, "accuracy", "Predicted against measured", caption, ["row", "predicted", "measured", "error"], cells)
