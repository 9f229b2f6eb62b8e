"""All findings, in the order of the page."""
from __future__ import annotations

from typing import Callable, Optional

from ..quantity import Html, counted, names, show, text, whole
from ..study import Study
from .losses import equal_losses, loss_stands, near_losses, other_precision
from .options import checkpointing, gather_limit, graphs, prefetch, reshard, unit_size
from .predictions import beyond_price
from .resources import least_memory, plan_and_memory, volume
from .speed import (busy_machine, crowded, fastest, noise, overlapped, reading, start_up, straggler, strong_scaling, waiting,
                    weak_scaling)


def not_ended(study: Study) -> Optional[Html]:
    """Rows without a result."""
    rows = [row.name for row in study.rows if row.values["status"] not in (None, "done")]
    if not rows:
        return None
    return text("{count} of {all} rows ended without a result: {names}.", count=show(counted(rows), whole),
                all=show(counted([row.name for row in study.rows]), whole), names=names(rows))


FINDINGS: list[Callable[[Study], Optional[Html]]] = [
    not_ended, prefetch, strong_scaling, fastest, least_memory, weak_scaling, equal_losses, near_losses, other_precision,
    loss_stands, waiting, straggler, reading, reshard, checkpointing, gather_limit, unit_size, graphs, volume,
    plan_and_memory, beyond_price, start_up, noise, overlapped, crowded, busy_machine
]
ANSWERS = 3  # findings that stand with the recommendation


def find(study: Study) -> tuple[list[Html], list[Html]]:
    """All findings whose conditions hold: the first as answers, and the others."""
    found = [sentence for finding in FINDINGS if (sentence := finding(study)) is not None]
    return found[:ANSWERS], found[ANSWERS:]
