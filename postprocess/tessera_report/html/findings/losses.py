"""Findings on losses."""
from __future__ import annotations

from typing import Optional

import numpy as np

from ..learning import unlike
from ..quantity import Html, Quantity, call, decimals, name, names, nats, number_of, out_of, show, text
from ..study import Study, differing
from ..traced import Traced

PRECISION = {"precision.compute", "precision.reduce", "precision.matmul", "precision.logits", "precision.linear",
             "precision.fp8_gradients", "precision.fp8_scale", "precision.fp8_smallest"}


def equal_losses(study: Study) -> Optional[Html]:
    """Rows whose losses are the baseline's to the last bit."""
    same = [row.name for row in same_tokens(study) if loss_difference(row, study.baseline).value == 0]
    if not same:
        return None
    return text("{rows} on the same tokens {has} the baseline's losses to the last bit at every step: {names}.", names=names(same),
                rows=out_of(same, [row.name for row in same_tokens(study)]), has="has" if len(same) == 1 else "have")


def near_losses(study: Study) -> Optional[Html]:
    """Rows on the same tokens in the baseline's precision whose losses are not the same bits: how far apart."""
    apart = [(row, difference) for row, difference in _apart(study) if not PRECISION & differing(row, study.baseline)]
    return _apart_text("In the baseline's precision", apart)


def other_precision(study: Study) -> Optional[Html]:
    """Rows on the same tokens in another precision: how far apart."""
    apart = [(row, difference) for row, difference in _apart(study) if PRECISION & differing(row, study.baseline)]
    return _apart_text("In another precision than the baseline's", apart)


def loss_stands(study: Study) -> Optional[Html]:
    """Rows whose last loss is not below their first."""
    rows = [
        row for row in study.sound
        if row.values["final_loss"] is not None and row.row.metrics.steps["loss"].iloc[0] <= row.values["final_loss"]
    ]
    if not rows:
        return None
    first = call(rows[0].row.metrics.steps["loss"].iloc[0], "first", rows[0].name, "/steps/loss")
    return text("The loss did not fall in {names}: in {row} from {first} to {last}.",
                names=names([row.name for row in rows]), row=name(rows[0].name), first=show(first, decimals),
                last=show(rows[0].key("final_loss"), decimals))


def _apart(study: Study) -> list[tuple[Traced, Quantity]]:
    return [(row, difference) for row in same_tokens(study) if (difference := loss_difference(row, study.baseline)).value > 0]


def _apart_text(where: str, apart: list[tuple[Traced, Quantity]]) -> Optional[Html]:
    if not apart:
        return None
    row, worst = max(apart, key=lambda pair: pair[1].value)
    return text(
        "{where} the losses of {rows} on the same tokens differ from it; the most those of {row}, by at most {difference} nats at a step.",
        where=where, rows=number_of([row.name for row, _ in apart]), row=name(row.name), difference=show(worst, nats))


def _has_all_losses(row: Traced) -> bool:
    """Whether each step has a finite loss, which skipped ones may lack."""
    steps = row.row.metrics.steps
    return "loss" in steps and bool(np.isfinite(steps["loss"]).all())


def same_tokens(study: Study, base: Optional[Traced] = None) -> list[Traced]:
    """Rows that learn as the baseline does, with its batch, and share steps with `base` (the baseline itself by default)."""
    base = base or study.baseline
    if base is None or not base.row.metrics or not _has_all_losses(base) or "nan" in base.values["flags"]:
        return []
    return [
        row for row in study.alike
        if row is not base and not unlike(row, base) and not {"batch", "nan"} & set(row.values["flags"]) and _has_all_losses(row)
        and len(row.row.metrics.steps.index.intersection(base.row.metrics.steps.index))
    ]


def loss_difference(row: Traced, base: Traced) -> Quantity:
    own, other = row.row.metrics.steps["loss"], base.row.metrics.steps["loss"]
    both = own.index.intersection(other.index)
    worst = np.abs(own[both].to_numpy(np.float64) - other[both].to_numpy(np.float64)).max()
    return call(worst, "largest_difference", row.name, base.name, "/steps/loss")
