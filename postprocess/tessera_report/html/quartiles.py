"""The worth of a row's speed: whether it can be relied on, and whether two rows' speeds are told apart."""
from __future__ import annotations

from typing import Optional

from .quantity import Html, Quantity, join, name, names, rounded, show, text, whole
from .traced import Traced, known

SPREAD = 0.2  # share of the median; quartiles that are further apart decide nothing


def overlap(one: Traced, other: Traced) -> bool:
    """The quartiles of tokens/s meet, or one of the rows has none."""
    ends = [row.values[f"tokens_per_second_{end}"] for row in (one, other) for end in ("q1", "q3")]
    if None in ends:
        return True
    low, high, other_low, other_high = ends
    return high >= other_low and low <= other_high


def spread(row: Traced) -> Optional[Quantity]:
    """The distance of the quartiles as a share of the median."""
    middle, low, high = (row.key(f"tokens_per_second{end}") for end in ("", "_q1", "_q3"))
    return (high - low) / middle if known(middle, low, high) and middle.value else None


def crowding(row: Traced) -> Optional[tuple[Quantity, Quantity]]:
    """Threads that compute and cores, where there are more threads."""
    threads, cores = (row.attribute(f"/provenance/{key}") for key in ("compute_threads", "cores"))
    return (threads, cores) if known(threads, cores) and threads.value > cores.value else None


def doubts(row: Traced) -> list[Html]:
    """Why a row's speed cannot be relied on, each a clause; nothing where it can."""
    found = []
    if crowded := crowding(row):
        found.append(text("{row} had {threads} compute threads on {cores} cores", row=name(row.name),
                          threads=show(crowded[0], whole), cores=show(crowded[1], whole)))
    if row.row.together:
        found.append(text("{row} ran at the same time as {others}", row=name(row.name), others=names(row.row.together, 3)))
    apart = spread(row)
    if apart and apart.value > SPREAD:
        found.append(text("the quartiles of {row} lie {share} of its median apart", row=name(row.name), share=show(apart, rounded)))
    return found


def caveat(*rows: Traced) -> Html:
    """The caveat that a sentence on the speeds of rows needs where they cannot be relied on."""
    reasons = [reason for row in rows for reason in doubts(row)]
    return text("; this is not reliable, because {reasons}", reasons=join(reasons, ", and ")) if reasons else Html("")


def unsure(one: Traced, other: Traced) -> Html:
    """The same of a ratio of two speeds, or that they are not told apart; empty where nothing weakens it."""
    return caveat(one, other) or text("; their quartiles overlap, so their speeds are not told apart" if overlap(one, other) else "")
