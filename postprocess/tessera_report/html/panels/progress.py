"""Validation loss over tokens and over time: the cost and the gain of a choice."""
from __future__ import annotations

from typing import Optional

import numpy as np
from matplotlib.ticker import FuncFormatter

from .. import svg
from ..quantity import decimals, name, optional, text
from ..study import Study
from ..traced import Traced
from .panel import Panel, drawn, tick


def progress(study: Study) -> Optional[Panel]:
    """Two pictures side by side with one axis of losses. Rows whose losses are equal are one curve too few to compare."""
    rows = [row for row in study.trained if _has_curve(row)]
    if len({_losses(row).tobytes() for row in rows}) < 2:
        return None
    figure, (tokens, time) = svg.figure(2.8, 2, sharey=True)
    for place, row in enumerate(rows):
        steps, losses = row.row.metrics.evals.index.to_numpy(np.float64), _losses(row)
        style = svg.style_of(place)
        tokens.plot(steps * row.tokens_per_step.value, losses, linewidth=1.2, label=row.name, **style)
        time.plot(_seconds(row), losses, linewidth=1.2, **style)
    for axes, label in (tokens, "tokens"), (time, "seconds of steps"):
        axes.set_xlabel(label)
        axes.set_xlim(left=0)
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: tick(value)))
        axes.grid()
    tokens.set_ylabel("validation loss (nats per token)")
    svg.legend(figure, tokens)
    cells = [[name(row.name), optional(row.key("best_validation_loss"), decimals), optional(row.key("final_validation_loss"), decimals)]
             for row in rows]
    caption = text("Validation losses of the first set. Time is that of steps, without evaluations and checkpoints.")
    return drawn(figure, "progress" + study.suffix, "Loss over tokens and time" + study.scale, caption, ["row", "best", "last"], cells)


def _has_curve(row: Traced) -> bool:
    metrics = row.row.metrics
    return bool(metrics and row.tokens_per_step and "loss" in metrics.evals and len(metrics.evals) > 2 and "seconds" in metrics.steps)


def _losses(row: Traced) -> np.ndarray:
    return row.row.metrics.evals["loss"].to_numpy(np.float64)


def _seconds(row: Traced) -> np.ndarray:
    """Seconds of all steps up to each evaluation."""
    metrics = row.row.metrics
    return metrics.steps["seconds"].cumsum().reindex(metrics.evals.index, method="ffill").to_numpy(np.float64)
