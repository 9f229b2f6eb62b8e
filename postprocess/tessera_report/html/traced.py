"""The numbers of a row, each with the expression that gives it from the row's HDF5 files."""
from __future__ import annotations

import json
import math
import re
from functools import cached_property
from typing import Any, Optional

import numpy as np

from ..measure_table import COLLECTIVES
from ..measures import finite_column, micro_steps
from ..quantity import Quantity, call
from ..rows import Row, failed
from ..table import bytes_text, seconds_text

# /config names that say nothing about what is trained or how: they differ freely between rows that are alike.
NEUTRAL = ("run.dir", "run.name", "run.threads", "run.queues", "run.timeout", "run.walltime", "run.dump",
           "run.share_gpu", "run.trace", "sweep.", "plan.", "bench.", "export.", "checkpoint.", "metrics.", "data.cache",
           "data.output", "grid.", "train.eval_every", "train.eval_batches", "train.sample_every", "comm.backend",
           "model.preset", "train.steps", "train.epochs", "train.tokens", "generate.")
STATE = ("parameters", "gradients", "optimizer_state")
CATEGORIES = (*STATE, "gathered_units", "activations", "communication", "workspace")
BYTES = {"fp32": 4, "bf16": 2, "fp16": 2}


class Traced:
    """A row of the table whose numbers carry sources. None stands for a number that the row does not have."""
    def __init__(self, row: Row) -> None:
        self.row = row
        self.name = row.name
        self.values = row.values

    # Numbers of the table

    def key(self, key: str) -> Optional[Quantity]:
        """A number of the table by its key in --json, but for the speed-up."""
        return self.row.quantity(key)

    # Facts

    def attribute(self, path: str) -> Optional[Quantity]:
        """A number among the attributes: "/model/parameters", "/config/train.accumulation"."""
        return self.row.attribute(path)

    @property
    def peak(self) -> Optional[Quantity]:
        """FLOP/s of a rank's device: the highest that rows on equal devices found."""
        return self.key("mfu_peak_flops")

    def option(self, key: str) -> Optional[str]:
        value = self.row.option(key)
        return None if value is None else str(value)

    @property
    def ranks(self) -> Optional[Quantity]:
        return self.key("ranks")

    @property
    def micro_steps(self) -> Optional[Quantity]:
        """Micro-batches per rank and step."""
        return micro_steps(self.row)

    @property
    def tokens_per_step(self) -> Optional[Quantity]:
        return self.key("tokens_per_step")

    @property
    def flops_per_token(self) -> Optional[Quantity]:
        return self.attribute("/model/flops_per_token_6n") or self.attribute("/model/flops_per_token")

    @property
    def strategy(self) -> str:
        return self.values["strategy"] or ""

    @property
    def done(self) -> bool:
        return self.values["status"] in ("done", None) and self.values["tokens_per_second"] is not None

    @property
    def failed(self) -> bool:
        return failed(self.values)

    @property
    def label(self) -> str:
        """Its name in a picture."""
        return self.name + (" (failed)" if self.failed else "")

    @property
    def emulated(self) -> bool:
        """Whether its collectives are slowed."""
        return (self.option("comm.emulate") or "none") != "none"

    def element_bytes(self, which: str) -> Optional[Quantity]:
        """Bytes of an element that is gathered ("compute") or reduced ("reduce")."""
        kind = self.option(f"precision.{which}")
        return call(BYTES[kind], "element_bytes", self.name, f"/config/precision.{which}") if kind in BYTES else None

    def settings(self) -> dict[str, str]:
        """The options that say what is trained and how."""
        config = (self.row.metrics.config if self.row.metrics and self.row.metrics.config else self.row.entry.config)
        return {key: str(value) for key, value in config.items() if not key.startswith(NEUTRAL)}

    # Memory and communication

    def memory(self, category: str, kind: str) -> Optional[Quantity]:
        """Bytes of the fullest rank, planned or measured: over the whole run by /ranks, else after the first step."""
        name, path = f"{category}/{kind}", f"memory/{category}/{kind}"
        over_time = [attempt[path] for m in self.row.repeats for attempt in m.alike_ranks if path in attempt]
        found = over_time or [m.memory[name] for m in self.row.repeats if name in m.memory]
        most = max((float(values.max()) for values in found if values.size), default=-1.0)
        if most < 0 or kind == "measured" and most == 0:
            return None
        return call(most, "max", call(math.nan, "measured", self.name, f"/ranks/{path}" if over_time else f"/{path}"))

    def at_peak(self) -> dict[str, Quantity]:
        """Planned bytes by category at the operation with the most in use, what is idle then, and the host's: these add up.
        Without a schedule all of the plan in one."""
        plan = (self.schedule or {}).get("memory")
        found = {key: self.planned("memory", "categories", key) for key in plan["categories"]} if plan else {}
        found |= {key: self.planned("memory", key) for key in ("idle", "host")} if plan else {"all": self.key("memory_planned")}
        return {key: quantity for key, quantity in found.items() if quantity and quantity.value}

    def state(self) -> Optional[Quantity]:
        """Planned bytes of parameters, gradients and optimizer state at rest: each at its own peak, added."""
        parts = [self.memory(category, "planned") for category in STATE]
        return parts[0] + parts[1] + parts[2] if all(parts) else None

    def at_rest(self) -> Quantity:
        """Planned bytes of parameters and moments. Gradients are left out: their sums depend on the number of micro-steps."""
        return self.memory("parameters", "planned") + self.memory("optimizer_state", "planned")

    def one_gradient(self) -> Quantity:
        """Bytes of one gradient of each parameter, of zero2 and zero3 the rank's part; without sums and gradients that are not reduced yet."""
        bytes_each = self.key("parameters") * (self.element_bytes("reduce") or 4)
        return bytes_each / self.ranks if self.option("shard.strategy") in ("zero2", "zero3") else bytes_each

    def sent(self, *kinds: str) -> Optional[Quantity]:
        """Bytes that rank 0 sent per step: the median of attempts like the last one. None where a column has no rows, or none
        but -1, as a full disk leaves it: its bytes are not known."""
        metrics = self.row.metrics
        attempts = [metrics.comm[place] for place in metrics.alike] if metrics else []
        found = {path: [attempt[path[6:]] for attempt in attempts if path[6:] in attempt]
                 for path in (f"/comm/{kind}/bytes" for kind in kinds or COLLECTIVES)}
        columns = {path: (every := np.concatenate(parts).astype(np.float64))[every >= 0] for path, parts in found.items() if parts}
        if not columns or not all(map(len, columns.values())):
            return None
        return call(sum(float(np.median(column)) for column in columns.values()), "bytes_a_step", self.name, list(columns))

    def times(self, column: str) -> Optional[Quantity]:
        """Mean seconds of a timed step by category: "forward", "exposed_gather"."""
        values = finite_column(self.row.timed, f"time/{column}")
        if not len(values):
            return None
        return call(values.mean(), "mean", self.row.timed_source(f"/steps/time/{column}"))

    def median_time(self, column: str) -> Optional[Quantity]:
        """The median of the same; of "host" what no category has."""
        if column != "host":
            values, source = finite_column(self.row.timed, f"time/{column}"), self.row.timed_source(f"/steps/time/{column}")
        else:
            columns = [name for name in self.row.timed if str(name).startswith("time/") and name != "time/recording"]
            times = self.row.timed[columns].to_numpy(np.float64).sum(axis=1) if columns else np.nan
            values = (self.row.timed["seconds"].to_numpy(np.float64) - times).clip(0)
            values, source = values[np.isfinite(values)], call(math.nan, "rest_of_step", self.name, *self.row.warmup)
        return call(np.median(values), "quantile", source, 0.5) if len(values) else None

    def _utilization(self) -> Optional[np.ndarray]:
        """Share of the time in which GPUs computed, by their driver, [report, rank]; None where that was not measured."""
        path = "device/utilization"
        reports = [attempt[path] for m in self.row.repeats for attempt in m.ranks if path in attempt]
        reports = [report.astype(np.float64) for report in reports if report.ndim == 2 and np.isfinite(report).any()]
        ranks = max((report.shape[1] for report in reports), default=0)
        wide = [np.pad(report, ((0, 0), (0, ranks - report.shape[1])), constant_values=np.nan) for report in reports]
        return np.concatenate(wide) if wide else None

    def utilization(self) -> Optional[np.ndarray]:
        """The mean of each rank; NaN where the driver did not measure it."""
        reports = self._utilization()
        if reports is None:
            return None
        return np.array([rank[np.isfinite(rank)].mean() if np.isfinite(rank).any() else np.nan for rank in reports.T])

    def mean_utilization(self) -> Optional[Quantity]:
        """The mean over all reports and ranks."""
        reports = self._utilization()
        if reports is None:
            return None
        return call(np.nanmean(reports), "mean", call(math.nan, "measured", self.name, "/ranks/device/utilization"))

    # The plan

    @cached_property
    def schedule(self) -> Optional[dict[str, Any]]:
        """/schedule as Python has it."""
        given = self.row.metrics.schedule if self.row.metrics else None
        return json.loads(given) if given else None

    def planned(self, *path: str) -> Optional[Quantity]:
        """A number in /schedule: planned("formula", "bytes")."""
        value: Any = self.schedule
        for part in path:
            value = value.get(part) if isinstance(value, dict) else None
        if not isinstance(value, (int, float)) or isinstance(value, bool):
            return None
        return call(value, "schedule", self.name, "/".join(path))

    def padded(self) -> Optional[Quantity]:
        """P of the formulas: elements of all units with their padding; without a schedule the model's parameters."""
        if self.schedule is None:
            return self.attribute("/model/parameters")
        units = [unit["padded"] for unit in self.schedule["units"]]
        return call(sum(units), "padded_elements", self.name)

    def largest_unit(self) -> Optional[Quantity]:
        """Elements of the largest unit."""
        if self.schedule is None or not self.schedule["units"]:
            return None
        return call(max(unit["padded"] for unit in self.schedule["units"]), "largest_unit", self.name)


def starts_late(row: Traced) -> bool:
    """Its first step is not the first: it started from a checkpoint."""
    metrics = row.row.metrics
    return bool(metrics and len(metrics.steps) and metrics.steps.index[0] > 1)


def known(*quantities: Optional[Quantity]) -> bool:
    return all(quantity is not None for quantity in quantities)


def emulated_link(option: str) -> Optional[tuple[float, float]]:
    """Seconds of latency and bytes/s (0: unlimited) of comm.emulate as a run resolved it; None for none."""
    match = re.fullmatch(r"([\d.e+-]+)([um]?s|),([\d.e+-]+)([kMGT]B/s|)", option)
    if not match:
        return None
    units = {"us": 1e-6, "ms": 1e-3, "kB/s": 1e3, "MB/s": 1e6, "GB/s": 1e9, "TB/s": 1e12}
    return float(match[1]) * units.get(match[2], 1), float(match[3]) * units.get(match[4], 1)


def link_text(option: Optional[str]) -> str:
    """comm.emulate with units."""
    link = emulated_link(option or "")
    return f"{seconds_text(link[0])},{f'{bytes_text(link[1])}/s' if link[1] else '0'}".replace(" ", "") if link else option or "none"
