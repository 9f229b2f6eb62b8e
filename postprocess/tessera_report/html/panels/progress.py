"""Validation loss over tokens and over time: the cost and the gain of a choice."""
from __future__ import annotations

from typing import Optional

import numpy as np
from matplotlib.ticker import FuncFormatter

from ...flags import validation_samples
from .. import svg
from ..quantity import decimals, name, optional, text
from ..study import Study
from ..traced import Traced
from . import curves
from .panel import Panel, drawn, tick


def progress(study: Study) -> Optional[Panel]:
    """Two pictures side by side with one axis of losses. Rows whose losses are equal are one curve too few to compare."""
    rows = [row for row in study.ordered if _has_curve(row)]
    if len({_losses(row).tobytes() for row in rows}) < 2:
        return None
    figure, (tokens, time) = svg.figure(2.8, 2, sharey=True)
    found = curves.by_seeds(rows)
    last = [float(np.mean([_losses(row)[-1] for row in group])) for group in found]
    for group, style in zip(found, curves.styles(last, [_label(group, rows) for group in found])):
        curves.draw(tokens, [(_steps(row) * row.tokens_per_step.value, _losses(row)) for row in group], style)
        curves.draw(time, [(_seconds(row), _losses(row)) for row in group], style)
    for axes, label in (tokens, "tokens"), (time, "seconds of steps"):
        axes.set_xlabel(label)
        axes.set_xlim(left=0)
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: tick(value)))
        axes.grid()
    above = curves.cut(tokens, {row: [_losses(row)] for row in rows})
    tokens.set_ylabel("validation loss (nats per token)")
    svg.legend(figure, tokens)
    cells = [[name(row.name), optional(row.key("best_validation_loss"), decimals), optional(row.key("final_validation_loss"), decimals)]
             for row in rows]
    caption = text("Validation losses of the first set. Time is that of steps, without evaluations and checkpoints.{more}{above}{apart}",
                   more=curves.words(found), above=above, apart=curves.apart(rows))
    return drawn(figure, "progress" + study.suffix, "Loss over tokens and time" + study.scale, caption, ["row", "best", "last"], cells)


def _label(group: list[Traced], rows: list[Traced]) -> str:
    """With the size of the set where rows validate over different ones."""
    return curves.label_of(group) + (f", over {validation_samples(group[0].row)} sequences" if curves.apart(rows) else "")


def _has_curve(row: Traced) -> bool:
    metrics = row.row.metrics
    return bool(metrics and row.tokens_per_step and metrics.is_of_one_batch and "loss" in metrics.evals and len(metrics.evals) > 1 and
                "seconds" in metrics.steps)


def _steps(row: Traced) -> np.ndarray:
    return row.row.metrics.evals.index.to_numpy(np.float64)


def _losses(row: Traced) -> np.ndarray:
    return row.row.metrics.evals["loss"].to_numpy(np.float64)


def _seconds(row: Traced) -> np.ndarray:
    """Seconds of all steps up to each evaluation."""
    metrics = row.row.metrics
    return metrics.steps["seconds"].cumsum().reindex(metrics.evals.index, method="ffill").to_numpy(np.float64)
