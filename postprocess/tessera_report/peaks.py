"""Utilization: model FLOP/s as a share of the device's peak, which rows on equal devices share."""
from __future__ import annotations

from typing import Any, Optional

from .quantity import Quantity
from .rows import Row

MFU_FORMULA = "tokens/s x FLOPs a token / (ranks x peak FLOP/s of a rank's device)"


def add_utilization(rows: list[Row]) -> None:
    """Fills mfu_peak_flops and MFU. A peak measured at the start is too low where other work slowed it, so rows whose
    peaks must be equal take the highest of theirs."""
    best: dict[tuple[Any, ...], Row] = {}
    for row in rows:
        key = _device(row)
        if key is not None and (key not in best or _peak(row) > _peak(best[key])):
            best[key] = row
    for row in rows:
        key = _device(row)
        row.peak = best[key] if key is not None else row
        _utilization(row, row.peak.quantity("device_peak_flops"))


def _peak(row: Row) -> Optional[float]:
    return row.values["device_peak_flops"]


def _device(row: Row) -> Optional[tuple[Any, ...]]:
    """The facts that decide the peak of a rank's device. None: the row has no peak, or does not say where it ran."""
    values = row.values
    if not _peak(row) or not values["hosts"]:
        return None
    return (values["hosts"], values["cpu"], values["gpu_name"], values["ranks"], values["device_peak_source"],
            row.option("precision.compute"), row.option("run.threads"))


def _utilization(row: Row, peak: Optional[Quantity]) -> None:
    """Model FLOPs utilization by both ways of counting a token's FLOPs."""
    rate, ranks = row.quantity("tokens_per_second"), row.quantity("ranks")
    row.put("mfu_peak_flops", peak)
    if not all(one and one.value for one in (rate, ranks, peak)):
        return
    row.values["mfu_formula"] = MFU_FORMULA
    for key, counted in (("mfu", "flops_per_token_6n"), ("mfu_exact", "flops_per_token")):
        flops = row.quantity(counted)
        row.put(key, rate * flops / (ranks * peak) if flops and flops.value else None)
