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
from . import curves
from .panel import Panel, drawn

# Of validation sets after the first: marker and word.
SET_MARKS = (("s", "square"), ("^", "triangle up"), ("D", "diamond"), ("v", "triangle down"), ("<", "triangle left"),
             (">", "triangle right"), ("p", "pentagon"), ("*", "star"))
SOURCE_LINES = (":", "--", "-.")  # of a mixture's sources


def marks_of(rows: list[Row]) -> dict[str, tuple[str, str]]:
    """The mark of each validation set after the first, the same in every row."""
    names = dict.fromkeys(name for row in rows if row.metrics for name in row.metrics.further_sets)
    return {name: SET_MARKS[place % len(SET_MARKS)] for place, name in enumerate(names)}


def losses(study: Study) -> Optional[Panel]:
    """Training losses as lines and validation losses as circles. Curves with the same bits are drawn once."""
    rows = [row for row in study.ordered if row.row.metrics and len(finite_column(row.row.metrics.steps, "loss")) > 1]
    if not rows:
        return None
    together: dict[tuple, list[list[Traced]]] = {}
    for group in curves.by_seeds(rows):
        together.setdefault(tuple(map(_bits, group)), []).append(group)
    found = [same[0] for same in together.values()]
    last = [float(np.mean([row.values["final_loss"] if row.values["final_loss"] is not None else np.inf for row in group])) for group in found]
    styles = curves.styles(last, [_label(same) for same in together.values()])
    figure, axes = svg.figure(2.6)
    circles, sources = False, []
    marks = marks_of([row.row for row in rows])
    for group, style in zip(found, styles):
        curves.draw(axes, [(steps.index.to_numpy(), steps.to_numpy(np.float64)) for steps in (row.row.metrics.steps["loss"] for row in group)], style)
        for place, source in enumerate(group[0].row.metrics.sources if len(group) == 1 else ()):
            sources = sources if source in sources else [*sources, source]
            of_source = group[0].row.metrics.source(source)
            axes.plot(of_source.index, of_source, linestyle=SOURCE_LINES[place % len(SOURCE_LINES)], linewidth=0.8, color=style["color"])
        evals = group[0].row.metrics.evals.get("loss", ()) if len(group) == 1 and len(found) <= curves.MOST else ()
        if len(evals):
            circles = True
            axes.plot(evals.index, evals.where(np.isfinite(evals)), "o", markersize=4, markerfacecolor="white", color=style["color"])
        for set_name in group[0].row.metrics.further_sets if len(group) == 1 else ():
            validation = group[0].row.metrics.validation(set_name)
            axes.plot(validation.index, validation.where(np.isfinite(validation)), marks[set_name][0], markersize=4,
                      markerfacecolor="white", color=style["color"])
    above = curves.cut(axes, {row: [row.row.metrics.steps["loss"], *([row.row.metrics.evals["loss"]] if "loss" in row.row.metrics.evals else ())]
                              for row in rows})
    axes.set_xlabel("step")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set_ylabel("loss (nats per token)")
    axes.grid()
    svg.legend(figure, axes)
    caption = text("Mean over all tokens of the global batch.{sources}{circles}{further}{same}{more}{above}{apart}", more=curves.words(found), above=above,
                   apart=curves.apart([row for row in rows if "loss" in row.row.metrics.evals]),
                   sources=f" Thin lines are the losses of {', '.join(sources)}." if sources else "",
                   circles=" Circles are validation losses." if circles else "",
                   further=f" Other marks: {', '.join(f'{word} {set_name}' for set_name, (_, word) in marks.items())}."
                   if marks else "", same=" Rows with the same bits at every step share a curve: (+n) stands for n more rows."
                   if any(len(same) > 1 for same in together.values()) else "")
    cells = [[
        name(row.name), optional(row.key("final_loss"), decimals), optional(row.key("best_loss"), decimals),
        optional(row.key("final_validation_loss"), decimals)
    ] for row in rows]
    return drawn(figure, "losses" + study.suffix, "Loss" + study.scale, caption, ["row", "last", "best", "validation"], cells)


def _bits(row: Traced) -> tuple[bytes, ...]:
    """Equal for rows whose training and validation losses are drawn alike."""
    metrics = row.row.metrics
    evals = metrics.evals.to_numpy(np.float64).tobytes() if len(metrics.evals) else b""
    return metrics.steps["loss"].to_numpy(np.float64).tobytes(), evals, " ".join(metrics.further_sets).encode()


def _label(same: list[list[Traced]]) -> str:
    return curves.label_of(same[0]) + (f" (+{len(same) - 1})" if len(same) > 1 else "")
