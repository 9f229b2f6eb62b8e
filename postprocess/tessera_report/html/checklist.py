"""The checklist of ten of the GPT-2 study: each ticked by a figure, or left open with the reason."""
from __future__ import annotations

from dataclasses import dataclass
from typing import Callable, Optional

import numpy as np

from .findings.losses import loss_difference, same_tokens
from .quantity import Html, Quantity, call, decimals, name, scientific, short, show, size, text, whole
from .study import Study, differing
from .traced import Traced

FLOAT_TOLERANCE = 1e-4  # of the loss: rows that start from the same weights


@dataclass
class Check:
    """An item; ticked is None where no row could show it."""

    item: str
    ticked: Optional[bool]
    figure: Html


def _on_ranks(study: Study, ranks: int) -> Check:
    item = "one rank alone trains" if ranks == 1 else f"{ranks} ranks train"
    rows = [row for row in study.alike if row.values["ranks"] == ranks and row.done]
    if not rows:
        failed = [
            row for row in study.rows
            if row.values["ranks"] == ranks and row.values["status"] not in (None, "done", "pending", "skipped")
        ]
        return Check(item, False if failed else None, text("{why}",
                                                           why="no such row ended" if failed else "no such row"))
    row = max(rows, key=lambda row: row.values["tokens_per_second"])
    return Check(
        item, True,
        text("{row}: {steps} steps at {rate} tokens/s",
             row=name(row.name),
             steps=show(row.key("steps"), whole),
             rate=show(row.key("tokens_per_second"), short)))


def memory_falls(study: Study) -> Check:
    """Planned memory of a sharding strategy from the fewest to the most ranks."""
    item = "memory falls with the ranks"
    best: Optional[tuple[Traced, Traced]] = None
    for row in study.alike:
        for other in study.alike:
            same = row.option("shard.strategy") == other.option("shard.strategy") in (
                "zero1", "zero2", "zero3") and row.state() and other.state()
            if same and row.values["ranks"] < other.values["ranks"] and row.values["parameters"] == other.values[
                    "parameters"]:
                if best is None or other.values["ranks"] / row.values["ranks"] > best[1].values["ranks"] / best[
                        0].values["ranks"]:
                    best = (row, other)
    if best is None:
        return Check(item, None, text("no sharded rows on several numbers of ranks"))
    few, many = best
    return Check(
        item,
        many.state().value < few.state().value,
        text("{few} to {many}: state {high} to {low}",
             few=name(few.name),
             many=name(many.name),
             high=show(few.state(), size),
             low=show(many.state(), size)))


def losses_fall(study: Study) -> Check:
    """Losses fall, and rows on the same tokens have those of DDP, or of one rank, where all strategies do the same."""
    item = "losses fall and equal DDP's"
    full = [row for row in study.alike if row.option("shard.strategy") == "ddp" or row.values["ranks"] == 1]
    base = study.baseline if study.baseline in full else next(iter(full), None)
    rows = [
        row for row in same_tokens(study, base) if not {"precision.compute", "precision.reduce"} & differing(row, base)
    ] if base else []
    if base is None or not rows or base.key("final_loss") is None:
        return Check(item, None, text("no rows on the same tokens"))
    first: Quantity = call(base.row.metrics.steps["loss"].iloc[0], "first", base.name, "/steps/loss")
    last = base.key("final_loss")
    row, worst = max(((row, loss_difference(row, base)) for row in rows), key=lambda pair: pair[1].value)
    ticked = last.value < first.value and worst.value <= FLOAT_TOLERANCE * first.value
    return Check(
        item, ticked,
        text("{base}: {first} to {last}; largest difference of a row {worst} ({row})",
             base=name(base.name),
             first=show(first, decimals),
             last=show(last, decimals),
             worst=show(worst, scientific),
             row=name(row.name)))


def was_resumed(row: Traced) -> bool:
    """A checkpoint was its start, or one of its attempts'."""
    first = int(row.row.metrics.steps.index[0]) if row.row.metrics and len(row.row.metrics.steps) else 1
    return (row.values["attempts"] or 0) > 1 or first != 1


def resumes(study: Study) -> Check:
    """A run went on from a checkpoint; its losses against the baseline's where both train on the same tokens."""
    item = "checkpoint and resume"
    for row in study.trained:
        if not was_resumed(row):
            continue
        start = call(row.row.metrics.steps.index[0], "first", row.name, "/steps/step")
        figure = text("{row}: steps from {first} on, metrics files: {attempts}",
                      row=name(row.name),
                      first=show(start, whole),
                      attempts=show(call(row.values["attempts"], "attempts", row.name), whole))
        if row not in same_tokens(study):
            return Check(item, True, figure)
        difference = loss_difference(row, study.baseline)
        return Check(
            item, difference.value <= FLOAT_TOLERANCE * row.values["final_loss"],
            text("{figure}; largest difference to the losses of {base} {difference}",
                 figure=figure,
                 base=name(study.baseline.name),
                 difference=show(difference, scientific)))
    return Check(item, None, text("no row was resumed"))


def clipping(study: Study) -> Check:
    """Gradient norms above optim.clip."""
    item = "clipping"
    for row in study.trained:
        clip = row.attribute("/config/optim.clip")
        if clip is None or not clip.value or "grad_norm" not in row.row.metrics.steps:
            continue
        norms = row.row.metrics.steps["grad_norm"].to_numpy(np.float64)
        over = call(np.nansum(norms > clip.value), "above", row.name, "/steps/grad_norm", clip)
        if over.value:
            return Check(
                item, True,
                text("{row}: {count} of {steps} steps had a norm above {clip}",
                     row=name(row.name),
                     count=show(over, whole),
                     steps=show(row.key("steps"), whole),
                     clip=show(clip)))
    return Check(item, None, text("no row clipped a gradient"))


def accumulation(study: Study) -> Check:
    item = "accumulation"
    rows = [row for row in study.trained if row.micro_steps and row.micro_steps.value > 1 and row.done]
    if not rows:
        return Check(item, None, text("no row accumulates"))
    row = max(rows, key=lambda row: row.micro_steps.value)
    return Check(
        item, True,
        text("{row}: {count} micro-steps a step, last loss {loss}",
             row=name(row.name),
             count=show(row.micro_steps, whole),
             loss=show(row.key("final_loss"), decimals) if row.key("final_loss") else "not known"))


def mixed_precision(study: Study) -> Check:
    item = "mixed precision"
    rows = [
        row for row in study.trained
        if row.option("precision.compute") in ("bf16", "fp16") and row.key("final_loss") and row.done
    ]
    if not rows:
        return Check(item, None, text("no row computes in bf16 or fp16"))
    row = rows[0]
    first = call(row.row.metrics.steps["loss"].iloc[0], "first", row.name, "/steps/loss")
    return Check(
        item,
        row.key("final_loss").value < first.value,
        text("{row} in {kind}: loss {first} to {last}",
             row=name(row.name),
             kind=name(row.option("precision.compute")),
             first=show(first, decimals),
             last=show(row.key("final_loss"), decimals)))


ITEMS: list[Callable[[Study], Check]] = [
    *(lambda study, ranks=ranks: _on_ranks(study, ranks) for ranks in (1, 2, 4, 8)), memory_falls, losses_fall, resumes,
    clipping, accumulation, mixed_precision
]


def checklist(study: Study) -> list[Check]:
    return [item(study) for item in ITEMS]
