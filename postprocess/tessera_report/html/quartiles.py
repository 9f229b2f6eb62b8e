"""The worth of a row's speed: whether it can be relied on, and whether two rows' speeds are told apart."""
from __future__ import annotations

from typing import NamedTuple, Optional

from ..flags import threads_of
from .quantity import Html, Quantity, join, name, names, rounded, show, tenths, text, whole
from .traced import Traced, known

BUSY = "that began while other work ran"
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


def load_of_others(row: Traced) -> Optional[Quantity]:
    """The load average at the start where other work needed over a core more than the row's threads leave."""
    load, cores = (row.attribute(f"/provenance/{key}") for key in ("load_average_start", "cores"))
    idle = max(0.0, cores.value - threads_of(row.row)) if cores else 0.0
    return load if load and load.value - row.row.left_load > idle + 1 else None


class Doubt(NamedTuple):
    """Why a row's speed cannot be relied on: the kind of such rows, how bad it is, and a clause."""

    kind: str
    size: float
    why: Html


def reasons(row: Traced) -> list[Doubt]:
    """All doubts about a row's speed."""
    found, own = [], name(row.name)
    if crowded := crowding(row):
        found.append(Doubt("with more compute threads than cores", crowded[0].value / crowded[1].value,
                           text("{row} had {threads} compute threads on {cores} cores", row=own, threads=show(crowded[0], whole), cores=show(crowded[1], whole))))
    if load := load_of_others(row):
        found.append(Doubt(BUSY, load.value, text("{row} began while other work ran, at a load average of {load}", row=own, load=show(load, tenths))))
    others = [row.attribute(f"/provenance/gpu_foreign_processes_{when}") for when in ("start", "end")]
    if foreign := next((count for count in others if count and count.value), None):
        found.append(Doubt("whose GPUs others used", foreign.value, text("{count} other processes used the GPUs of {row}", row=own, count=show(foreign, whole))))
    if row.row.together:
        found.append(Doubt("that shared their host with other rows", len(row.row.together), text("{row} ran at the same time as {others}", row=own,
                                                                                          others=names(row.row.together, 3))))
    apart = spread(row)
    if apart and apart.value > SPREAD:
        found.append(Doubt("with quartiles far apart", apart.value, text("the quartiles of {row} lie {share} of its median apart", row=own,
                                                                         share=show(apart, rounded))))
    return found


def doubts(row: Traced) -> list[Html]:
    """Why a row's speed cannot be relied on, each a clause; nothing where it can."""
    return [one.why for one in reasons(row)]


def caveat(*rows: Traced) -> Html:
    """The caveat that a sentence on the speeds of rows needs where they cannot be relied on."""
    found = [one for row in dict.fromkeys(rows) for one in reasons(row)]
    busy = [row for row in dict.fromkeys(rows) if load_of_others(row)]
    clauses = [one.why for one in found if one.kind != BUSY or len(busy) < 2]
    if len(busy) > 1:
        clauses.append(text("{rows} began while other work ran, at load averages of {loads}", rows=join([name(row.name) for row in busy], " and "),
                            loads=join([show(load_of_others(row), tenths) for row in busy], " and ")))
    return text("; this is not reliable, because {reasons}", reasons=join(clauses, ", and ")) if clauses else Html("")


def unsure(one: Traced, other: Traced) -> Html:
    """The same of a ratio of two speeds, or that they are not told apart; empty where nothing weakens it."""
    return caveat(one, other) or text("; their quartiles overlap, so their speeds are not told apart" if overlap(one, other) else "")
