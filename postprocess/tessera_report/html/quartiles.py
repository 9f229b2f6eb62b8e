"""Whether two rows' speeds are told apart: their quartiles of tokens/s."""
from __future__ import annotations

from .quantity import Html, text
from .traced import Traced


def overlap(one: Traced, other: Traced) -> bool:
    """The quartiles of tokens/s meet, or one of the rows has none."""
    ends = [row.values[f"tokens_per_second_{end}"] for row in (one, other) for end in ("q1", "q3")]
    if None in ends:
        return True
    low, high, other_low, other_high = ends
    return high >= other_low and low <= other_high


def unsure(one: Traced, other: Traced) -> Html:
    """What a sentence on the speeds of two rows has to add; empty where they are told apart."""
    return text("; their quartiles overlap, so their speeds are not told apart") if overlap(one, other) else Html("")
