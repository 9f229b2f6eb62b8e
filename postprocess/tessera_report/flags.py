"""Marks rows that are not measured like the baseline: other data, seed, host, load, model, sequence or batch; and rows
that ran at the same time on one host."""
from __future__ import annotations

import math
import re
from typing import Any, Optional

from .rows import Row

LOAD_FADES = 60.0  # seconds in which a load average of a minute falls to 1/e
LOAD_DIFFERENCE = 1.0  # of the load average: a core's worth of other work
NOT_DATA = {"data.seed", "data.cache", "data.output", "data.on_error", "data.synthetic_tokens"}


def data_options(config: dict[str, Any]) -> set[str]:
    """Names of the options that decide which text is read, and in which order, but for the seed."""
    found = {name for name in config if name.startswith("data.")} - NOT_DATA
    return found | {"data.synthetic_tokens"} if config.get("data.source") == "synthetic" else found


def flag_differences(rows: list[Row], baseline: Optional[Row]) -> None:
    """Adds flags and the sentences that explain them. The first row with metrics stands in for a baseline without."""
    if baseline is None or not baseline.repeats:
        baseline = next((row for row in rows if row.repeats), None)
    _flag_overlaps(rows)
    for row in rows:
        row.left_load = _left_load(row, rows)
        _flag_foreign_processes(row)
        if row is baseline or not row.repeats:
            continue
        _flag_options(row, baseline)
        _flag_validation(row, baseline)
        _flag_hosts(row, baseline)
        load, other = row.values["load_average_start"], baseline.values["load_average_start"]
        if load is not None and other is not None and abs(load - other) > LOAD_DIFFERENCE:
            row.flag("load", f"load average at the start {load:.1f}, {baseline.name} {other:.1f}")
        tokens, other = row.values["tokens_per_step"], baseline.values["tokens_per_step"]
        if tokens and other and tokens != other:
            row.flag("batch", f"{tokens:.0f} tokens a step, {baseline.name} {other:.0f}")


def _flag_foreign_processes(row: Row) -> None:
    for when in ("start", "end"):
        count = row.values[f"gpu_foreign_processes_{when}"]
        if count:
            row.flag("load", f"{count:.0f} other processes on its GPUs at the {when}")


def _flag_overlaps(rows: list[Row]) -> None:
    """By the times of status.json: rows that shared a host took each other's cores."""
    for row in rows:
        row.together = [
            other.name for other in rows if other is not row and _hosts(row) & _hosts(other) and any(
                min(end, others_end) > max(begin, others_begin)
                for begin, end in row.entry.times for others_begin, others_end in other.entry.times)
        ]
        if row.together:
            more = f" and {len(row.together) - 3} more" if len(row.together) > 3 else ""
            row.flag("overlap", f"it ran at the same time as {', '.join(row.together[:3])}{more}, on the same host")


def _left_load(row: Row, rows: list[Row]) -> float:
    """What rows that had ended on a host of this one still add to the load average at its start, which is not other work."""
    start = min((begin for begin, _ in row.entry.times), default=0.0)
    return sum(threads_of(other) * (math.exp((end - start) / LOAD_FADES) - math.exp((begin - start) / LOAD_FADES))
               for other in rows if _hosts(row) & _hosts(other) for begin, end in other.entry.times if end <= start)


def threads_of(row: Row) -> float:
    """Threads that compute, of all ranks."""
    told = row.metrics.provenance.get("compute_threads") if row.metrics else None
    return float(told or row.values["ranks"] or 1)


def _hosts(row: Row) -> set[str]:
    return host_names(row.values["hosts"] or row.entry.host or "")


def _flag_options(row: Row, baseline: Row) -> None:
    own, other = row.metrics.config, baseline.metrics.config
    samples, others = (of.metrics.model.get("samples_per_epoch") for of in (row, baseline))
    if samples and others and samples != others and own.get("train.seq_len") == other.get("train.seq_len"):
        row.flag("data", f"{samples:.0f} samples an epoch, {baseline.name} {others:.0f}")
    model = {name for name in own if name.startswith("model.")} - {"model.preset"}
    for word, names in (("data", data_options(own)), ("seed", {"run.seed", "data.seed"}), ("model", model), ("sequence", {"train.seq_len"})):
        for name in sorted(names):
            if name in own and name in other and own[name] != other[name]:
                row.flag(word, f"{name} = {_shown(own[name])}, {baseline.name} {_shown(other[name])}")


def validation_samples(row: Row) -> Optional[int]:
    """How many samples an evaluation takes: some micro-batches of the set, which may have fewer, or 0 of an older run for all."""
    told = row.metrics.model.get("validation_samples")
    if told is not None:
        return int(told)
    sizes = [str(row.metrics.config.get(f"train.{name}")) for name in ("eval_batches", "micro_batch")]
    return int(sizes[0]) * int(sizes[1]) if all(size.isdigit() for size in sizes) else None


def _flag_validation(row: Row, baseline: Row) -> None:
    own, other = validation_samples(row), validation_samples(baseline)
    if own and other and own != other and len(row.metrics.evals) and len(baseline.metrics.evals):
        row.flag("validation", f"validation over {own} sequences, {baseline.name} over {other}")


def _shown(value: Any) -> str:
    return str(value) if str(value) else "(empty)"


def host_names(hosts: Any) -> set[str]:
    """The names in /provenance's "hosts": "node1 x2, node2 x2" (ranks of each) without the counts."""
    return {name for name in re.split(r"[,\s]+", str(hosts)) if name and not re.fullmatch(r"x\d+", name)}


def _flag_hosts(row: Row, baseline: Row) -> None:
    own, other = row.values["hosts"], baseline.values["hosts"]
    if own and other and host_names(own) != host_names(other):
        row.flag("host", f"on {own}, {baseline.name} on {other}")
    for key in ("cpu", "gpu_name"):
        own, other = row.values[key], baseline.values[key]
        if own and other and own != other:
            row.flag("host", f"{key.replace('_name', '').upper()} {own}, {baseline.name} {other}")
