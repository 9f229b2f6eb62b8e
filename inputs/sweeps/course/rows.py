"""Which rows of a course's sweep show what."""
from __future__ import annotations

from typing import Optional

from tessera_report.html.study import Study
from tessera_report.html.traced import Traced

PREFETCH = {"shard.prefetch_forward", "shard.prefetch_backward", "shard.limit_all_gathers"}
RESHARD = {"shard.reshard_after_forward", "shard.prefetch_backward", "shard.limit_all_gathers"}


def sharded(study: Study) -> Optional[Traced]:
    """The zero3 row of the baseline's model on the most ranks."""
    rows = [row for row in study.trained if row.option("shard.strategy") == "zero3" and (row.values["ranks"] or 1) > 1]
    rows = [row for row in rows if "model" not in row.values["flags"]] or rows
    return max(rows, key=lambda row: (row.values["ranks"], row.schedule is not None), default=None)


def alone(study: Study, like: Traced) -> Optional[Traced]:
    """The row on one rank with the same model."""
    rows = [
        row for row in study.trained
        if row.values["ranks"] == 1 and row.values["parameters"] == like.values["parameters"]
    ]
    same = [row for row in rows if row.option("train.micro_batch") == like.option("train.micro_batch")]
    return (same or rows or [None])[0]


def pairs(study: Study, options: set[str], key: str, off: str) -> list[tuple[Traced, Traced]]:
    """Pairs (off, on) on several ranks that differ in the option only: one rank sends nothing."""
    found = [(one, other) if one.option(key) == off else (other, one) for one, other in study.pairs(options, key)]
    return [(one, other) for one, other in found if one.option(key) == off and (one.values["ranks"] or 1) > 1]


def prefetch_pairs(study: Study) -> list[tuple[Traced, Traced]]:
    return pairs(study, PREFETCH, "shard.prefetch_forward", "0")


def reshard_pairs(study: Study) -> list[tuple[Traced, Traced]]:
    """(kept, dropped again)."""
    return pairs(study, RESHARD, "shard.reshard_after_forward", "false")
