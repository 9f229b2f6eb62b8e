"""Curves of many rows: seeds of one setting as their mean and spread, and colours for those with the lowest last loss."""
from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes

from ...flags import validation_samples
from ...measures import finite_column
from .. import svg
from ..quantity import Html, names, text
from ..study import SEEDS, groups, seeds_of
from ..traced import Traced

MOST = 10  # curves with a colour and a name
REST = {"color": "#c5cdd3", "linestyle": "-", "linewidth": 0.7, "zorder": 1}


def by_seeds(rows: list[Traced]) -> list[list[Traced]]:
    """Rows that differ in their seeds only are one curve; rows that differ in nothing are not, nor rows of other steps, nor such
    that failed."""
    found = [part for alike in groups(rows, {*SEEDS}, "ranks")
             for part in ([row for row in alike if not row.failed], *([row] for row in alike if row.failed)) if part]
    return [part for group in found
            for part in ([group] if seeds_of(group) == len(group) and _have_equal_steps(group) else [[row] for row in group])]


def _have_equal_steps(group: list[Traced]) -> bool:
    """Whether rows were measured and evaluated after the same steps, as far as all of them came."""
    for tables in ([row.row.metrics.steps.index for row in group], [row.row.metrics.evals.index for row in group]):
        length = min(map(len, tables))
        if any(list(steps[:length]) != list(tables[0][:length]) for steps in tables):
            return False
    return True


def label_of(group: list[Traced]) -> str:
    return group[0].label if len(group) == 1 else f"{group[0].name} ({len(group)} seeds)"


def styles(last: list[float], names: list[str]) -> list[dict[str, Any]]:
    """Of each curve: the first and those with the lowest last values have colours and names; the others are grey. The
    first is wide, so that it shows under curves that lie on it."""
    order = sorted(range(1, len(last)), key=lambda place: (not np.isfinite(last[place]), last[place]))
    shown = {0, *order[:MOST - 1]} if last else set()
    grey = next((place for place in range(len(last)) if place not in shown), None)
    found, colour = [], 0
    for place, own in enumerate(names):
        if place in shown:
            width = 2.6 if place == 0 < len(names) - 1 else 1.2
            found.append({"linewidth": width, "label": f" {own}" if own.startswith("_") else own, **svg.style_of(colour)})
            colour += 1
        else:
            found.append({**REST, "label": f"{len(last) - len(shown)} more" if place == grey else None})
    return found


def draw(axes: Axes, curves: list[tuple[np.ndarray, np.ndarray]], style: dict[str, Any]) -> None:
    """One curve, or the mean of several with equally many points and the band from their lowest to their highest."""
    length = min(len(y) for _, y in curves)
    x, y = (np.array([one[part][:length] for one in curves], dtype=np.float64) for part in (0, 1))
    y = np.where(np.isfinite(y), y, np.nan)
    axes.plot(x.mean(axis=0), y.mean(axis=0), **style)
    if len(curves) > 1:
        axes.fill_between(x.mean(axis=0), y.min(axis=0), y.max(axis=0), color=style["color"], alpha=0.18, linewidth=0)


def cut(axes: Axes, drawn: dict[Traced, list[np.ndarray]]) -> Html:
    """Leaves the heights out of the picture to which losses diverged, three times the highest first loss and 5 nats above it, so
    that the other curves are told apart. What a caption says about that."""
    first = max((losses[0] for row in drawn if len(losses := finite_column(row.row.metrics.steps, "loss"))), default=np.inf)
    bound = max(3 * first, first + 5)
    values = {row: np.concatenate([np.ravel(part) for part in parts]) for row, parts in drawn.items()}
    values = {row: own[np.isfinite(own)] for row, own in values.items()}
    out = [row for row, own in values.items() if (own > bound).any()]
    if not out:
        return Html("")
    inside = [row for row in values if row not in out and len(values[row])]
    high = max((values[row].max() for row in inside), default=bound)
    low = min(own.min() for own in values.values() if len(own))
    axes.set_ylim(low - 0.05 * (high - low), high + 0.05 * (high - low))
    return text(" Losses above the picture: {rows}.", rows=names([row.name for row in out]))


def apart(rows: list[Traced]) -> Html:
    """What a caption says where rows validate over different numbers of sequences."""
    counts = sorted({count for row in rows if (count := validation_samples(row.row))})
    return text(" Validation is over {counts} sequences: compare only curves over equal numbers.",
                counts=" or ".join(map(str, counts))) if len(counts) > 1 else Html("")


def words(groups_of_rows: list[list[Traced]]) -> Html:
    """What a caption says about them."""
    parts = [" Rows that differ in seeds only are one curve, their mean, in the band from the lowest to the highest."
             if any(len(group) > 1 for group in groups_of_rows) else "",
             " Colours are for the first row and those with the lowest last losses." if len(groups_of_rows) > MOST else ""]
    return text("{words}", words="".join(parts))
