"""All findings, in the order of the page."""
from __future__ import annotations

from typing import Callable, Optional

from ..quantity import Html, join, name, names, number_of, out_of, text
from ..study import Study
from ..under_way import going_on, state
from .losses import equal_losses, loss_stands, near_losses, other_precision
from .options import checkpointing, gather_limit, graphs, official, prefetch, reshard, unit_size, whole_model
from .predictions import beyond_price
from .resources import least_memory, plan_and_memory, volume
from .speed import fastest, reading, start_up, straggler, strong_scaling, unreliable, waiting, weak_scaling


def not_ended(study: Study) -> Optional[Html]:
    """Rows that ended without a result."""
    rows = [row.name for row in study.rows if row.values["status"] not in (None, "done", "skipped") and not row.row.goes_on]
    if not rows or len(study.rows) == 1:
        return None
    return text("{rows} ended without a result: {names}.", rows=out_of(rows, [row.name for row in study.rows]), names=names(rows))


def under_way(study: Study) -> Optional[Html]:
    """Rows that run, and how many wait."""
    rows = going_on(study) if len(study.rows) > 1 else []
    running, waiting = ([row for row in rows if (row.values["status"] == "running") is runs] for runs in (True, False))
    words = [state(row) for row in running[:3]]
    words += [text("{rows}: {names}.", rows=number_of([row.name for row in waiting], "row waits", "rows wait"), names=names([row.name for row in waiting]))] if waiting else []
    return join(words, " ") if rows else None


def skipped(study: Study) -> Optional[Html]:
    """Rows that were skipped, and why."""
    rows = [row for row in study.rows if row.values["status"] == "skipped"]
    return text("{rows} skipped: {names}.", rows=number_of([row.name for row in rows], "row was", "rows were"), names=join(
        [text("{row} ({why})", row=name(row.name), why=(row.values["message"] or "").rstrip(".") or "without a reason") for row in rows[:6]], ", ")) if rows else None


FINDINGS: list[Callable[[Study], Optional[Html]]] = [
    under_way, not_ended, prefetch, strong_scaling, fastest, least_memory, weak_scaling, equal_losses, near_losses, other_precision,
    loss_stands, waiting, straggler, reading, reshard, checkpointing, gather_limit, whole_model, official, unit_size, graphs, volume,
    plan_and_memory, beyond_price, start_up, unreliable, skipped
]
ANSWERS = 3  # findings that stand with the recommendation


def find(study: Study, answers: int = ANSWERS) -> tuple[list[Html], list[Html]]:
    """All findings whose conditions hold: the first as answers, and the others."""
    found = [sentence for finding in FINDINGS if (sentence := finding(study)) is not None]
    return found[:answers], found[answers:]
