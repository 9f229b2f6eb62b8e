"""Predicted and measured times: of a row by class, and of all rows together."""
from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from typing import Optional, Sequence

import numpy as np

from .panels.times import TIMES
from .quantity import Html, Quantity, call, constant, duration, median, name, rounded, show, text, times
from .quartiles import crowding, load_of_others, spread
from .study import Study
from .traced import Traced

CLASSES = (*TIMES, "host")
LEAST = 0.01  # of the predicted step: smaller differences are not worth a sentence
FEW = 4  # rows that are shown by class
NOISY = 0.05  # quartiles that lie further apart cannot judge a prediction
TIE = 0.05  # of the slower step: pairs that are closer have no order
COMPUTE = ("forward", "recompute", "backward", "optimizer")
SUBJECTS = {"data": "reading tokens", "forward": "forward", "recompute": "recomputation", "backward": "backward",
            "optimizer": "the optimizer", "exposed_gather": "compute's wait for all-gather",
            "exposed_reduce_scatter": "compute's wait for reduce-scatter", "exposed_all_reduce": "compute's wait for all-reduce",
            "exposed_other": "compute's wait for copies and the host's operations", "host": "the host"}


@dataclass
class Beside:
    """Seconds a step on rank 0: as predicted, with its relative uncertainty (0: none is stated), and the median measured."""

    name: str
    predicted: Quantity
    uncertainty: Quantity
    measured: Optional[Quantity]

    @property
    def ratio(self) -> Optional[Quantity]:
        return self.measured / self.predicted if self.measured and self.predicted.value > 0 else None

    @property
    def error(self) -> Optional[Quantity]:
        """Of the prediction, as a share of what was measured."""
        return self.predicted / self.measured - 1 if self.measured and self.measured.value > 0 else None

    def differs(self, step: Quantity) -> bool:
        """By more than is stated, and by enough of the predicted step."""
        apart = abs(self.measured.value - self.predicted.value) if self.measured else 0.0
        return apart > self.uncertainty.value * self.predicted.value and apart >= LEAST * step.value


def step_of(row: Traced) -> Optional[Beside]:
    """The whole step; None where there is no prediction of it."""
    predicted, measured = row.key("predicted_seconds"), row.key("step_seconds")
    return Beside("step", predicted, row.key("predicted_uncertainty"), measured) if predicted and measured else None


def classes_of(row: Traced) -> list[Beside]:
    """The classes that are predicted or measured, the host last."""
    found = []
    for key in CLASSES:
        predicted = row.attribute("/prediction/host_seconds" if key == "host" else f"/prediction/time/{key}")
        uncertainty = row.attribute(f"/prediction/uncertainty/{key}") or constant(0)
        one = Beside(key, predicted, uncertainty, row.median_time(key)) if predicted else None
        if one and (one.predicted.value > 0 or one.measured and one.measured.value > 0):
            found.append(one)
    return found


def sentence(row: Traced, one: Beside) -> Html:
    """What took longer or shorter than its price."""
    subject = "a step" if one.name == "step" else SUBJECTS[one.name]
    if one.ratio is None:
        return text("{row}: {subject} took {measured} a step, and nothing was predicted", row=name(row.name), subject=subject,
                    measured=show(one.measured, duration))
    stated = text(", although +- {stated} were stated", stated=show(one.uncertainty, rounded)) if one.uncertainty.value else ""
    return text("{row}: {subject} took {ratio} its {what}: {measured} instead of {predicted}{stated}", row=name(row.name),
                subject=subject, ratio=show(one.ratio, times), measured=show(one.measured, duration),
                what="price" if one.name in COMPUTE else "prediction", predicted=show(one.predicted, duration), stated=stated)


def differences(row: Traced) -> list[Beside]:
    """What differs from its prediction by more than its uncertainty: the step, then classes."""
    step = step_of(row)
    return [one for one in (step, *classes_of(row)) if one.differs(step.predicted)] if step else []


# All rows together -----------------------------------------------------------------------------------------------------


def predicted_rows(study: Study) -> list[Traced]:
    """Rows that ended with a prediction and a measured step."""
    return [row for row in study.rows if row.done and step_of(row)]


def judged(study: Study) -> tuple[list[Traced], list[Traced], list[Traced]]:
    """Rows that can judge their predictions; those whose quartiles lie too far apart or that began while other work ran; those with more threads than cores."""
    rows = predicted_rows(study)
    crowded = [row for row in rows if crowding(row)]
    noisy = [row for row in rows if row not in crowded and (load_of_others(row) or not ((apart := spread(row)) and apart.value <= NOISY))]
    return [row for row in rows if row not in crowded and row not in noisy], noisy, crowded


def size_of_error(error: Quantity) -> Quantity:
    return call(abs(error.value), "abs", error)


def errors(rows: Sequence[Traced]) -> list[Quantity]:
    """Sizes of the errors of the rows' steps."""
    return [size_of_error(row.key("prediction_error")) for row in rows]


def typical(quantities: list[Quantity]) -> tuple[Quantity, Quantity]:
    """The median and the 95th percentile."""
    high = float(np.quantile([one.value for one in quantities], 0.95))
    return median(quantities), call(high, "quantile_of", 0.95, *quantities)


def order(groups: list[list[Traced]]) -> tuple[Quantity, Quantity]:
    """Pairs of rows within the groups whose steps differ by more than TIE, and those whose faster one was predicted to be faster."""
    pairs, right = constant(0), constant(0)
    for rows in groups:
        steps = [(row.values["step_seconds"], row.values["predicted_seconds"]) for row in rows]
        told = [(a[0] - b[0]) * (a[1] - b[1]) > 0 for a, b in combinations(steps, 2) if abs(a[0] - b[0]) > TIE * max(a[0], b[0])]
        names = [row.name for row in rows]
        pairs, right = pairs + call(len(told), "pairs", TIE, *names), right + call(sum(told), "pairs_right", TIE, *names)
    return pairs, right


def same_work(rows: Sequence[Traced]) -> list[list[Traced]]:
    """Rows that do the same work on as many ranks, so that only options tell their speeds apart."""
    found: dict[tuple, list[Traced]] = {}
    for row in rows:
        found.setdefault((row.option("train.seq_len"), *map(row.values.get, ("parameters", "tokens_per_step", "ranks"))), []).append(row)
    return [group for group in found.values() if len(group) > 1]
