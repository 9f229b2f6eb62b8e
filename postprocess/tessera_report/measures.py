"""The measures of a row: speed, losses, memory, shares of the time."""
from __future__ import annotations

import math
from typing import Any, Iterable, Optional

import numpy as np
import pandas as pd

from .errors import Unreadable
from .find import QUIET_SECONDS, Entry
from .metrics import read_metrics
from .rows import KEYS, Row


def make_row(entry: Entry, warmup: Optional[int] = None) -> Row:
    """Reads an entry's metrics and computes its numbers, but for what needs other rows."""
    row = Row(entry)
    row.values.update(row=entry.name, path=str(entry.path), status=entry.status, code=entry.code,
                      message=entry.message, ranks=entry.ranks, flags=[])
    for run in entry.runs:
        try:
            row.repeats.append(read_metrics(run))
            entry.problems += row.repeats[-1].problems
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
    _speed(row)
    _losses(row)
    _memory(row)
    _shares(row)
    _prediction(row)


def finite_column(table: pd.DataFrame, name: str) -> np.ndarray:
    """The finite values of a column; empty where there is none of that name."""
    values = table[name].to_numpy(np.float64) if name in table else np.array([])
    return values[np.isfinite(values)]


def number(value: Any) -> Optional[float]:
    """An attribute as a number: "0.52 0.40 0.30" is 0.52."""
    try:
        found = float(str(value).split()[0])
    except (ValueError, IndexError):
        return None
    return found if math.isfinite(found) else None


def _facts(row: Row) -> None:
    """The provenance of the first repeat."""
    metrics, values = row.metrics, row.values
    values["attempts"] = metrics.attempts
    values["steps"] = len(metrics.steps)
    values["timed_steps"] = len(row.timed)
    for key in ("hosts", "cpu", "gpu_name", "version", "git_revision"):
        values[key] = metrics.provenance.get(key)
    for key in ("load_average_start", "load_average_end", "gpu_foreign_processes_start", "gpu_foreign_processes_end"):
        values[key] = number(metrics.provenance.get(key))
    for key in ("parameters", "tokens_per_step", "steps_per_epoch", "flops_per_token_6n", "flops_per_token",
                "device_peak_flops"):
        values[key] = number(metrics.model.get(key))
    values["device_peak_source"] = metrics.model.get("device_peak_source")
    for key, name in (("seed", "run.seed"), ("data_seed", "data.seed"), ("data_source", "data.source")):
        values[key] = row.option(name)
    planned = metrics.memory.get("process/planned")
    if planned is not None and planned.ndim == 1 and len(planned):
        values["ranks"] = len(planned)
    elif values["ranks"] is None and number(metrics.config.get("ranks")):
        values["ranks"] = int(number(metrics.config["ranks"]))
    factors = [values["ranks"], number(row.option("train.micro_batch")), micro_steps(row), number(row.option("train.seq_len"))]
    if values["tokens_per_step"] is None and all(factors):
        values["tokens_per_step"] = math.prod(factors)
    values["startup_seconds"] = _median(m.startup_seconds for m in row.repeats if m.startup_seconds is not None)


def micro_steps(row: Row) -> Optional[float]:
    """Micro-batches per rank and step: train.accumulation, or the number that makes train.global_batch."""
    batch, together = number(row.option("train.global_batch")), number(row.option("train.micro_batch"))
    if not batch:
        return number(row.option("train.accumulation"))
    return batch / (row.values["ranks"] * together) if row.values["ranks"] and together else None


def _median(numbers: Iterable[float]) -> Optional[float]:
    found = list(numbers)
    return float(np.median(found)) if found else None


def _speed(row: Row) -> None:
    values = row.values
    seconds = finite_column(row.timed, "seconds")
    seconds = seconds[seconds > 0]
    rates = finite_column(row.timed, "tokens_per_second")
    if not len(rates) and len(seconds) and values["tokens_per_step"]:
        rates = values["tokens_per_step"] / seconds
    if len(rates):
        quartiles = np.percentile(rates, [25, 50, 75])
        for key, value in zip(("tokens_per_second_q1", "tokens_per_second", "tokens_per_second_q3"), quartiles):
            values[key] = float(value)
    values["step_seconds"] = _median(seconds)
    if values["step_seconds"] is not None:
        parts = micro_steps(row)
        values["batch_seconds"] = values["step_seconds"] / parts if parts else None
        epoch = values["steps_per_epoch"]
        values["epoch_seconds"] = values["step_seconds"] * epoch if epoch else None


def _prediction(row: Row) -> None:
    """The predicted step, unless attempts or repeats were predicted differently: their measured steps are mixed."""
    told = set().union(*(metrics.predicted for metrics in row.repeats))
    if told <= {None}:
        return
    if len(told) > 1:
        row.notes.append("its starts have different predictions, or some have none, so it is not compared with them")
        return
    values, prediction = row.values, row.metrics.prediction
    values["predicted_seconds"] = number(prediction.get("step_seconds"))
    values["predicted_uncertainty"] = number(prediction.get("uncertainty"))
    if values["predicted_seconds"] and values["step_seconds"]:
        values["prediction_error"] = values["predicted_seconds"] / values["step_seconds"] - 1


def _losses(row: Row) -> None:
    for table, kind in ((row.metrics.steps, "loss"), (row.metrics.evals, "validation_loss")):
        if "loss" not in table or table.empty:
            continue
        losses = table["loss"].to_numpy(np.float64)
        finite = np.isfinite(losses)
        row.values[f"final_{kind}"] = float(losses[-1])
        if finite.any():
            best = int(np.argmin(np.where(finite, losses, np.inf)))
            row.values[f"best_{kind}"], row.values[f"best_{kind}_step"] = float(losses[best]), int(table.index[best])
        if not finite.all():
            first = table.index[int(np.argmin(finite))]
            row.flag("nan", f"the {kind.replace('_', ' ')} is not finite at step {first}")


def _memory(row: Row) -> None:
    """Bytes: planned, and measured as /ranks has it over the whole run, else as it was after the first step."""
    planned = row.metrics.memory.get("process/planned")
    if planned is not None and planned.size:
        row.values["memory_planned"], row.values["memory_planned_average"] = int(planned.max()), float(planned.mean())
    peaks, averages = [], []
    for metrics in row.repeats:
        reports = [attempt for attempt in metrics.ranks if "memory/peak" in attempt]
        after_first_step = {"memory/peak": metrics.memory.get("process/measured", np.array([]))}
        for source in reports or [after_first_step]:
            peak = source["memory/peak"]
            average = source.get("memory/average", peak if not reports else np.array([]))
            peaks.append(peak[np.isfinite(peak) & (peak >= 0)])
            averages.append(average[np.isfinite(average) & (average >= 0)])
    peak, average = np.concatenate(peaks), np.concatenate(averages)
    row.values["memory_peak"] = int(peak.max()) if peak.size else None
    row.values["memory_average"] = float(average.mean()) if average.size else None


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
            row.values[f"{key}_seconds"] = float(spent / len(known))
            row.values[f"{key}_share"] = float(spent / whole) if whole > 0 else None
