"""A line of the table of claims, and how its numbers are judged."""
from __future__ import annotations

from dataclasses import dataclass
from typing import Optional

from .checklist import was_resumed
from .quantity import Html, Quantity, text
from .quartiles import doubts
from .study import OF_RANKS, Study
from .traced import Traced

YES, NO, BETTER, UNKNOWN = "yes", "no", "better", "not measured"
NOTHING = text("no such rows")


@dataclass
class Claim:
    """`holds` is yes, no (which may say where), better than claimed, or not measured."""

    expected: Html
    formula: Html
    measured: Html
    holds: str


def hundredths(value: float) -> str:
    return f"{value:.2f}"


def reliable(found: list[tuple[Quantity, Traced, Traced]]) -> list[tuple[Quantity, Traced, Traced]]:
    """Numbers of pairs of rows whose speeds can be relied on: only they judge."""
    return [one for one in found if not doubts(one[1]) and not doubts(one[2])]


def verdict(quantity: Quantity, low: float, high: float) -> str:
    return YES if low <= quantity.value <= high else NO


def verdict_of_all(found: list[tuple[Quantity, str, float]], low: float, high: float) -> str:
    """Judges numbers with their settings: yes, or no with the settings outside, as in "no (below at K = 1, 2)"."""
    parts = []
    for side, outside in (("below", lambda value: value < low), ("above", lambda value: value > high)):
        at = list(dict.fromkeys(f"{setting:g}" for quantity, _, setting in found if outside(quantity.value)))
        parts += [f"{side} at {found[0][1]} = {', '.join(at)}"] if at else []
    return f"{NO} ({'; '.join(parts)})" if parts else YES


def steps(row: Traced) -> float:
    return row.micro_steps.value if row.micro_steps else 1


def pairs(study: Study, one: str, other: str, rows: Optional[list[Traced]] = None) -> list[tuple[Traced, Traced]]:
    """Rows of two strategies on as many ranks, by default with the baseline's model, one batch and one precision; none that went on
    from a checkpoint, and none of a command, which may be any program."""
    def alike(a: Traced, b: Traced) -> bool:
        a_settings, b_settings = a.settings(), b.settings()
        return all(a_settings[key] == b_settings[key]
                   for key in a_settings.keys() & b_settings.keys()
                   if (not key.startswith("shard.") or key == "shard.wrap")
                   and key not in OF_RANKS) and a.values["tokens_per_step"] == b.values["tokens_per_step"]

    def plain_rows(strategy: str) -> list[Traced]:
        return [row for row in (study.alike if rows is None else rows) if row.option("shard.strategy") == strategy and (row.values["ranks"] or 1) > 1
                and row.row.entry.kind != "command" and not was_resumed(row)]

    return [(a, b) for a in plain_rows(one) for b in plain_rows(other) if a.values["ranks"] == b.values["ranks"] and alike(a, b)]
