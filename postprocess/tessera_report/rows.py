"""The numbers of the table: one dictionary for each entry, with the same keys; None where a number is not known."""
from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, Optional

import pandas as pd

from .find import Entry
from .measure_table import REPORTED
from .metrics import Metrics
from .quantity import Quantity, call

# The keys of a row, in the order of CSV columns; docs/manual/report_numbers.md says what each is.
KEYS = """row path status code message ranks strategy attempts repeats steps timed_steps
tokens_per_second tokens_per_second_q1 tokens_per_second_q3 speedup
final_loss best_loss best_loss_step final_validation_loss best_validation_loss best_validation_loss_step
step_seconds batch_seconds epoch_seconds
predicted_seconds predicted_uncertainty prediction_error
memory_planned memory_planned_average memory_peak memory_average
exposed_seconds exposed_share data_seconds data_share
mfu mfu_exact mfu_formula mfu_peak_flops flops_per_token_6n flops_per_token device_peak_flops device_peak_source
startup_seconds parameters tokens_per_step steps_per_epoch
seed data_seed data_source hosts cpu gpu_name version git_revision""".split()
KEYS += [*REPORTED, "flags"]
OTHER_WORK = {"model", "sequence"}  # flags of rows whose tokens cost other work than the baseline's


def failed(values: dict[str, Any]) -> bool:
    """Whether a row's numbers are no result: it broke off by an error, or its losses are not finite."""
    return values["status"] in ("failed", "does-not-fit") or "nan" in values["flags"]


@dataclass
class Row:
    """An entry with its metrics (one for each repeat, none where nothing was written yet) and the values of KEYS."""

    entry: Entry
    repeats: list[Metrics] = field(default_factory=list)
    warmup: list[int] = field(default_factory=list)  # steps that are left out of `timed`, where that was asked for
    timed: pd.DataFrame = field(default_factory=pd.DataFrame)  # of all repeats
    values: dict[str, Any] = field(default_factory=lambda: dict.fromkeys(KEYS))
    sources: dict[str, str] = field(default_factory=dict)  # of the numbers among them: Quantity.source
    notes: list[str] = field(default_factory=list)  # a sentence for each flag
    together: list[str] = field(default_factory=list)  # rows that ran at the same time on a host of this one
    left_load: float = 0.0  # of its load average at the start: what rows that ended before on its host still add
    peak: Optional[Row] = None  # the row whose device_peak_flops its utilization is a share of

    @property
    def name(self) -> str:
        return self.entry.name

    @property
    def metrics(self) -> Optional[Metrics]:
        return self.repeats[0] if self.repeats else None

    @property
    def trains(self) -> bool:
        """False for a command that ended and measured something else, such as tessera bench."""
        return self.entry.kind != "command" or bool(self.repeats) or self.values["status"] not in ("done", None)

    @property
    def goes_on(self) -> bool:
        """It runs, as far as its status.json tells, or waits for its turn."""
        return self.values["status"] in ("running", "pending") and "quiet" not in self.values["flags"]

    def option(self, name: str) -> Optional[str]:
        """An option by its full name: as the run resolved it, else as the sweep's config.ini has it."""
        config = self.metrics.config if self.metrics and self.metrics.config else self.entry.config
        return config.get(name)

    def put(self, key: str, quantity: Optional[Quantity], value: Any = None) -> None:
        """Keeps a number and its source; `value` where it is not the quantity's float."""
        if quantity is not None:
            self.values[key] = quantity.value if value is None else value
            self.sources[key] = quantity.source

    def quantity(self, key: str) -> Optional[Quantity]:
        """A number with its source; None where it is not known, and for a fact that is no number."""
        value = self.values[key]
        return Quantity(float(value), self.sources[key]) if key in self.sources and value is not None else None

    def attribute(self, path: str) -> Optional[Quantity]:
        """A number among the attributes: "/model/parameters", "/config/train.accumulation"; of "0.52 0.40 0.30" the first.
        Those of /config are also known of a row without metrics, from the sweep's config.ini."""
        _, group, key = path.split("/", 2)
        try:
            found = self.option(key) if group == "config" else getattr(self.metrics, group)[key]
            value = float(str(found).split()[0])
        except (AttributeError, LookupError, ValueError):
            return None
        return call(value, "attribute", self.name, path) if math.isfinite(value) else None

    def timed_source(self, path: str) -> Quantity:
        """A column over timed steps, as the source of other numbers."""
        return call(math.nan, "timed", self.name, path, *self.warmup)

    def flag(self, word: str, note: str) -> None:
        if word not in self.values["flags"]:
            self.values["flags"].append(word)
        self.notes.append(note)


def add_speedups(rows: list[Row], baseline: Optional[Row]) -> None:
    """Fills `speedup`: median tokens/s over the baseline's."""
    reference = baseline.values["tokens_per_second"] if baseline else None
    for row in rows:
        rate = row.values["tokens_per_second"]
        row.values["speedup"] = rate / reference if rate and reference else None
