"""Communication: bytes by the formula next to the bytes counted, and its share of the time."""
from __future__ import annotations

from typing import Optional

from ...table import bytes_text
from .. import svg
from ..quantity import name, optional, percent, show, size, text
from ..study import Study
from .panel import Panel, drawn, unit_of


def volume(study: Study) -> Optional[Panel]:
    """Bytes that a rank sends per step: formula, formula less the savings of the schedule, counted; and the exposed share."""
    rows = [row for row in study.trained if row.sent() and row.sent().value]
    if not rows:
        return None
    unit, scale = unit_of(max(row.sent().value for row in rows))
    figure, axes = svg.bar_axes([row.label for row in rows])
    cells = []
    for place, row in enumerate(rows):
        formula, planned, counted = row.planned("formula", "bytes"), row.planned("wire_bytes_per_step"), row.sent()
        exposed = row.key("exposed_share")
        axes.barh(place, counted.value / scale, 0.6, color=svg.OTHERS, label=None if place else "counted")
        if formula:
            axes.barh(place, formula.value / scale, 0.72, fill=False, edgecolor=svg.INK, linewidth=0.9, label=None if place else "formula")
        most = max(counted.value, formula.value if formula else 0) / scale
        share = f", {exposed.value:.0%} exposed" if exposed else ""
        axes.annotate(f"{bytes_text(counted.value)}{share}", (most, place), xytext=(4, 0), textcoords="offset points", va="center", fontsize=8)
        cells.append([name(row.name), optional(formula, size), optional(planned, size), show(counted, size), optional(exposed, percent)])
    most = max([row.sent().value for row in rows] + [row.planned("formula", "bytes").value for row in rows if row.planned("formula", "bytes")])
    axes.set_xlim(0, 1.75 * most / scale)
    axes.set_xlabel(f"{unit} that a rank sends in a step")
    has_formula = any(row.planned("formula", "bytes") for row in rows)
    caption = text(
        "Filled: counted by the communicators. {formula}Exposed: share of the time in which compute on rank 0 waited.",
        formula="Outlined: the formula, before savings. " if has_formula else "")
    return drawn(figure, "communication" + study.suffix, "Communication" + study.scale, caption,
                 ["row", "formula", "formula less savings", "counted", "exposed share"], cells)
