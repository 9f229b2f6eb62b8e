"""The measures of a row: speed, losses, memory, shares of the time."""
from __future__ import annotations

import math
from typing import Any, Optional

import numpy as np
import pandas as pd

from .errors import Unreadable
from .find import QUIET_SECONDS, Entry
from .measure_table import REPORTED
from .metrics import read_metrics
from .quantity import Quantity, call
from .rows import KEYS, Row


def make_row(entry: Entry, warmup: Optional[int] = None) -> Row:
    """Reads an entry's metrics and computes its numbers, but for what needs other rows."""
    row = Row(entry, warmup=[] if warmup is None else [warmup])
    row.values.update(row=entry.name, path=str(entry.path), status=entry.status, code=entry.code, message=entry.message,
                      flags=[])
    if entry.ranks is not None:
        row.put("ranks", call(entry.ranks, "ranks_asked", row.name), entry.ranks)
    for place, run in enumerate(entry.runs):
        try:
            row.repeats.append(read_metrics(run))
            entry.problems += row.repeats[-1].problems
            _flag_lost(row, entry.ends[place] if entry.ends else None)
        except Unreadable as error:
            entry.problems.append(str(error))
    for problem in entry.problems:
        row.flag("unreadable", problem)
    row.values["repeats"] = len(row.repeats)
    row.values["strategy"] = _strategy(row)
    if row.repeats:
        row.timed = pd.concat([metrics.timed(warmup) for metrics in row.repeats])
        _measure(row)
    quiet = entry.quiet_seconds
    if quiet is not None and quiet > max(QUIET_SECONDS, 20 * (row.values["step_seconds"] or 0)):
        row.flag("quiet", f"runs by its status, but has written nothing for {quiet / 60:.0f} min: killed?")
    row.values = {key: _finite(row.values[key]) for key in KEYS}
    return row


def _flag_lost(row: Row, end: Optional[int]) -> None:
    """Says so where the newest repeat's metrics end before its run did, as on a full disk."""
    steps = row.repeats[-1].steps.index
    last = int(steps[-1]) if len(steps) else 0
    if end is not None and last < end:
        after = f" after step {last}" if last else ""
        row.flag("lost", f"metrics.h5 has no rows{after}, but the run came to step {end}: the report knows nothing of the steps that are missing")


def _finite(value: Any) -> Any:
    """A plain Python value that JSON can hold."""
    if isinstance(value, np.generic):
        value = value.item()
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _strategy(row: Row) -> Optional[str]:
    if row.entry.kind == "command" and not row.repeats:
        return None  # it trains nothing
    strategy, group = row.option("shard.strategy"), row.option("shard.group_size")
    return f"{strategy}/{group}" if strategy and group not in (None, "", "0") else strategy


def _measure(row: Row) -> None:
    """Fills the values of a row that has metrics, but for what needs other rows: speed-up and utilization."""
    _facts(row)
    _starts(row)
    _speed(row)
    _losses(row)
    _memory(row)
    _shares(row)
    _prediction(row)


def finite_column(table: pd.DataFrame, name: str) -> np.ndarray:
    """The finite values of a column; empty where there is none of that name."""
    values = table[name].to_numpy(np.float64) if name in table else np.array([])
    return values[np.isfinite(values)]


def _facts(row: Row) -> None:
    """The provenance of the first repeat."""
    metrics, values = row.metrics, row.values
    values["attempts"] = metrics.attempts
    row.put("steps", call(len(metrics.steps), "length", row.name, "/steps/step"), len(metrics.steps))
    row.put("timed_steps", call(len(row.timed), "size", row.timed_source("/steps/seconds")), len(row.timed))
    for key in ("hosts", "cpu", "gpu_name", "version", "git_revision"):
        values[key] = metrics.provenance.get(key)
    for key, path in REPORTED.items():
        row.put(key, row.attribute(path))
    for key in ("parameters", "tokens_per_step", "steps_per_epoch", "flops_per_token_6n", "flops_per_token",
                "device_peak_flops"):
        row.put(key, row.attribute(f"/model/{key}"))
    values["device_peak_source"] = metrics.model.get("device_peak_source")
    for key, name in (("seed", "run.seed"), ("data_seed", "data.seed"), ("data_source", "data.source")):
        values[key] = row.option(name)
    planned, asked = metrics.memory.get("process/planned"), row.attribute("/config/ranks")
    if planned is not None and planned.ndim == 1 and len(planned):
        row.put("ranks", call(len(planned), "size", _dataset(row, "/memory/process/planned")), len(planned))
    elif values["ranks"] is None and asked and asked.value:
        row.put("ranks", call(asked.value, "ranks_asked", row.name), int(asked.value))
    ranks, batch, length = row.quantity("ranks"), row.attribute("/config/train.micro_batch"), row.attribute("/config/train.seq_len")
    if values["tokens_per_step"] is None and ranks and batch and micro_steps(row) and length:
        row.put("tokens_per_step", ranks * batch * micro_steps(row) * length)
    started = [m.startup_seconds for m in row.repeats if m.startup_seconds is not None]
    if started:
        row.put("startup_seconds", call(np.median(started), "startup", row.name))


def _dataset(row: Row, path: str) -> Quantity:
    return call(math.nan, "dataset", row.name, path)


def micro_steps(row: Row) -> Optional[Quantity]:
    """Micro-batches per rank and step: train.accumulation, or the number that makes train.global_batch."""
    batch, ranks = row.attribute("/config/train.global_batch"), row.quantity("ranks")
    together = row.attribute("/config/train.micro_batch")
    if batch is None or not batch.value:
        found = row.attribute("/config/train.accumulation")
        return found if found and found.value else None
    return batch / (ranks * together) if ranks and together and together.value else None


def _speed(row: Row) -> None:
    seconds = finite_column(row.timed, "seconds")
    seconds = seconds[seconds > 0]
    rates, source = finite_column(row.timed, "tokens_per_second"), row.timed_source("/steps/tokens_per_second")
    if not len(rates) and len(seconds) and row.values["tokens_per_step"]:
        rates = row.values["tokens_per_step"] / seconds
        source = row.quantity("tokens_per_step") / row.timed_source("/steps/seconds")
    for key, share in (("tokens_per_second_q1", 0.25), ("tokens_per_second", 0.5), ("tokens_per_second_q3", 0.75)):
        if len(rates):
            row.put(key, call(np.percentile(rates, 100 * share), "quantile", source, share))
    if len(seconds):
        step = call(np.median(seconds), "quantile", row.timed_source("/steps/seconds"), 0.5)
        parts, epoch = micro_steps(row), row.quantity("steps_per_epoch")
        row.put("step_seconds", step)
        row.put("batch_seconds", step / parts if parts else None)
        row.put("epoch_seconds", step * epoch if epoch and epoch.value else None)


def _starts(row: Row) -> None:
    """Says so where steps of the run are not timed, or none is."""
    if row.timed.empty and any(len(metrics.steps) for metrics in row.repeats):
        row.notes.append("no step is left after warm-up, so it has no speed" + ("" if row.warmup == [0] else ": see --warmup"))
    if not all(metrics.is_of_one_shape for metrics in row.repeats):
        row.notes.append("its starts were on other numbers of ranks or tokens a step: only those like the last one are timed")


def _prediction(row: Row) -> None:
    """The predicted step, unless attempts or repeats were predicted differently: their measured steps are mixed."""
    told = set().union(*(metrics.predicted for metrics in row.repeats))
    if told <= {None}:
        return
    if len(told) > 1:
        row.notes.append("its starts have different predictions, or some have none, so it is not compared with them")
        return
    predicted, step = row.attribute("/prediction/step_seconds"), row.quantity("step_seconds")
    row.put("predicted_seconds", predicted)
    row.put("predicted_uncertainty", row.attribute("/prediction/uncertainty"))
    if predicted and predicted.value and step and step.value:
        row.put("prediction_error", predicted / step - 1)


def _losses(row: Row) -> None:
    for table, kind, path in ((row.metrics.steps, "loss", "/steps/loss"), (row.metrics.evals, "validation_loss", "/eval/loss")):
        if "loss" not in table or table.empty:
            continue
        losses = table["loss"].to_numpy(np.float64)
        finite = np.isfinite(losses)
        row.put(f"final_{kind}", call(losses[-1], "last", row.name, path))
        if finite.any():
            best = int(np.argmin(np.where(finite, losses, np.inf)))
            row.put(f"best_{kind}", call(losses[best], "lowest", row.name, path))
            row.values[f"best_{kind}_step"] = int(table.index[best])
        # With run.on_bad_step = skip a run goes on without a step that is not.
        known = finite | (table["skipped"].to_numpy() == 1) if "skipped" in table else finite
        if not known.all():
            first = table.index[int(np.argmin(known))]
            row.flag("nan", f"the {kind.replace('_', ' ')} is not finite at step {first}")


def _memory(row: Row) -> None:
    """Bytes: planned, and measured as /ranks has it over the whole run, else as it was after the first step."""
    planned = row.metrics.memory.get("process/planned")
    planned = planned[planned >= 0] if planned is not None else None  # -1: a full disk did not take it
    if planned is not None and planned.size:
        row.put("memory_planned", call(planned.max(), "max", _dataset(row, "/memory/process/planned")), int(planned.max()))
        row.values["memory_planned_average"] = float(planned.mean())
    peaks, averages = [], []
    over_time = any("memory/peak" in attempt for metrics in row.repeats for attempt in metrics.alike_ranks)
    path = "/ranks/memory/{}" if over_time else "/memory/process/measured"
    for metrics in row.repeats:
        reports = [attempt for attempt in metrics.alike_ranks if "memory/peak" in attempt]
        after_first_step = {"memory/peak": metrics.memory.get("process/measured", np.array([]))}
        for source in reports or [after_first_step]:
            peak = source["memory/peak"]
            average = source.get("memory/average", peak if not reports else np.array([]))
            peaks.append(peak[np.isfinite(peak) & (peak >= 0)])
            averages.append(average[np.isfinite(average) & (average >= 0)])
    peak, average = np.concatenate(peaks), np.concatenate(averages)
    if peak.size:
        row.put("memory_peak", call(peak.max(), "max", call(math.nan, "measured", row.name, path.format("peak"))), int(peak.max()))
    if average.size:
        row.put("memory_average", call(average.mean(), "mean", call(math.nan, "measured", row.name, path.format("average"))))


def _shares(row: Row) -> None:
    """Mean seconds per step, and share of the time, over the timed steps for which rank 0 measured them."""
    exposed = [name for name in row.timed if str(name).startswith("time/exposed_")]
    for key, columns in (("exposed", exposed), ("data", ["time/data"])):
        needed = [*columns, "seconds"]
        if not columns or not set(needed) <= set(row.timed):
            continue
        known = row.timed[needed].to_numpy(np.float64)
        known = known[np.isfinite(known).all(axis=1)]
        if len(known):
            spent, whole = known[:, :-1].sum(), known[:, -1].sum()
            where = (row.name, [f"/steps/{name}" for name in columns], *row.warmup)
            row.put(f"{key}_seconds", call(spent / len(known), "seconds_a_step", *where))
            row.put(f"{key}_share", call(spent / whole, "share_of_step", *where) if whole > 0 else None)
