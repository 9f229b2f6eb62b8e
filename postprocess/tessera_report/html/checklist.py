"""A checklist of ten, as the GPT-2 study has one: each ticked by a figure, or left open with the reason. All are judged by
rows of the baseline's model."""
from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Callable, Optional

import numpy as np

from .findings.losses import PRECISION, loss_difference, same_tokens
from .quantity import Html, Quantity, call, decimals, join, name, names, scientific, short, show, size, text, times, whole
from .quartiles import unsure
from .study import Study, differing
from .traced import Traced, starts_late

FLOAT_TOLERANCE = 1e-4  # share of the loss, for rows that start from the same weights
OUT_OF_MEMORY = re.compile(r"out of memory|does not fit|bad_alloc", re.I)


@dataclass
class Check:
    """An item; ticked is None where no row could show it."""

    item: str
    ticked: Optional[bool]
    figure: Html


def _trains(item: str, study: Study, *ranks: int) -> Check:
    """A row ended on each of these numbers of ranks."""
    parts, missing, failed = [], [], False
    for count in ranks:
        rows = [row for row in study.alike if row.values["ranks"] == count and row.done]
        if rows:
            row = max(rows, key=lambda row: row.values["tokens_per_second"])
            parts.append(text("{row}: {steps} steps at {rate} tokens/s", row=name(row.name), steps=show(row.key("steps"), whole),
                              rate=show(row.key("tokens_per_second"), short)))
        else:
            missing.append("1 rank" if count == 1 else f"{count} ranks")
            failed |= any(row.values["ranks"] == count and row.values["status"] not in (None, "done", "pending", "skipped") for row in study.rows)
    if missing:
        parts.append(text("no row ended on {ranks}", ranks=name(", ".join(missing))))
    return Check(item, False if failed else None if missing else True, join(parts, ", "))


def fits(study: Study) -> Check:
    """No row went out of memory."""
    item = "no row runs out of memory"
    over = [row.name for row in study.rows if row.values["status"] == "does-not-fit" or OUT_OF_MEMORY.search(row.values["message"] or "")]
    if over:
        return Check(item, False, text("{rows}", rows=names(over)))
    key = "memory_peak" if any(row.values["memory_peak"] for row in study.alike) else "memory_planned"
    rows = [row for row in study.alike if row.done and row.values[key]]
    if not rows:
        return Check(item, None, text("no row ended"))
    row = max(rows, key=lambda row: row.values[key])
    return Check(item, True, text("most in {row}: {bytes} {how}", row=name(row.name), bytes=show(row.key(key), size),
                                  how="at its peak" if key == "memory_peak" else "planned"))


def memory_falls(study: Study) -> Check:
    """Planned memory of a sharding strategy from the fewest to the most ranks."""
    item = "memory falls with the ranks"
    rows = [row for row in study.alike if row.option("shard.strategy") in ("zero1", "zero2", "zero3") and row.state()]
    pairs = [(few, many) for few in rows for many in rows if few.values["ranks"] < many.values["ranks"]
             and few.option("shard.strategy") == many.option("shard.strategy")
             and few.values["parameters"] == many.values["parameters"]]
    if not pairs:
        return Check(item, None, text("no sharded rows on several numbers of ranks"))
    few, many = max(pairs, key=lambda pair: pair[1].values["ranks"] / pair[0].values["ranks"])
    return Check(
        item, many.state().value < few.state().value, text("{few} to {many}: state {high} to {low}",
             few=name(few.name), many=name(many.name), high=show(few.state(), size), low=show(many.state(), size)))


def losses_fall(study: Study) -> Check:
    """Losses fall, and rows on the same tokens have those of DDP; without a row of it those of one rank."""
    ddp = [row for row in study.alike if row.option("shard.strategy") == "ddp"]
    full = ddp or [row for row in study.alike if row.values["ranks"] == 1]
    base = study.baseline if study.baseline in full else next(iter(full), None)
    item = "losses fall and equal DDP's" if ddp or not full else "losses fall and equal one rank's (no ddp row)"
    rows = [row for row in same_tokens(study, base) if not PRECISION & differing(row, base)] if base else []
    if base is None or not rows or base.key("final_loss") is None:
        why = text("no other row on the same tokens in the precision of {base}", base=name(base.name)) if base else text("no ddp row")
        return Check(item, None, why)
    first: Quantity = call(base.row.metrics.steps["loss"].iloc[0], "first", base.name, "/steps/loss")
    last = base.key("final_loss")
    row, worst = max(((row, loss_difference(row, base)) for row in rows), key=lambda pair: pair[1].value)
    most = first * FLOAT_TOLERANCE
    return Check(
        item, last.value < first.value and worst.value <= most.value,
        text("{base}: {first} to {last}; largest difference of a row {worst} ({row}), tolerance {most}", base=name(base.name),
             first=show(first, decimals), last=show(last, decimals), worst=show(worst, scientific), row=name(row.name), most=show(most, scientific)))


def was_resumed(row: Traced) -> bool:
    """A checkpoint was its start, or one of its attempts'."""
    return (row.values["attempts"] or 0) > 1 or starts_late(row)


def resumes(study: Study) -> Check:
    """A run wrote checkpoints and went on from one; its losses against the baseline's where both train on the same tokens."""
    item = "checkpoints save and resume"
    for row in study.alike:
        if not was_resumed(row):
            continue
        start = call(row.row.metrics.steps.index[0], "first", row.name, "/steps/step")
        figure = text("{row}{saved}: steps from {first} on, metrics files: {attempts}", row=name(row.name), first=show(start, whole),
                      attempts=show(call(row.values["attempts"], "attempts", row.name), whole), saved=_saved(row))
        if row not in same_tokens(study):
            return Check(item, True, figure)
        difference = loss_difference(row, study.baseline)
        return Check(
            item, difference.value <= FLOAT_TOLERANCE * row.values["final_loss"],
            text("{figure}; largest difference to the losses of {base} {difference}",
                 figure=figure, base=name(study.baseline.name), difference=show(difference, scientific)))
    saved = next((text("{row}{saved}, but ", row=name(row.name), saved=_saved(row)) for row in study.alike if _saved(row)), "")
    return Check(item, None, text("{saved}no row was resumed", saved=saved))


def _saved(row: Traced) -> Html:
    """The newest complete checkpoint of a row's run."""
    found = sorted(file.parent.name for run in row.row.entry.runs for file in run.glob("checkpoints/step-*/manifest.json"))
    return text(" wrote {checkpoint}", checkpoint=name(found[-1])) if found else Html("")


def clipping(study: Study) -> Check:
    """Updates whose gradients were scaled, because their norm was above optim.clip."""
    item = "clipping"
    for row in study.alike:
        clip = row.attribute("/config/optim.clip")
        if clip is None or not clip.value or "grad_norm" not in row.row.metrics.steps:
            continue
        norms = row.row.metrics.steps["grad_norm"].to_numpy(np.float64)
        norms = np.where(np.isfinite(norms), norms, np.nan)  # of a step that overflowed, and was skipped
        done = 1 - np.asarray(row.row.metrics.steps.get("skipped", np.zeros(len(norms))), dtype=np.float64)
        over = call(np.nansum(norms > clip.value), "above", row.name, "/steps/grad_norm", clip)
        largest_norm = call(np.nanmax(norms), "max", call(np.nan, "column", row.name, "/steps/grad_norm"))
        if over.value and done[norms > clip.value].any():
            return Check(
                item, True,
                text("{row}: {count} of {steps} steps had a norm above {clip}, so their gradients were scaled to it before the update: the largest, "
                     "{norm}, by {factor}", row=name(row.name), count=show(over, whole), steps=show(row.key("steps"), whole), clip=show(clip),
                     norm=show(largest_norm), factor=show(clip / largest_norm)))
    return Check(item, None, text("no row clipped a gradient"))


def accumulation(study: Study) -> Check:
    item = "accumulation"
    rows = [row for row in study.alike if row.micro_steps and row.micro_steps.value > 1 and row.done]
    if not rows:
        return Check(item, None, text("no row accumulates"))
    row = max(rows, key=lambda row: row.micro_steps.value)
    return Check(
        item, True, text("{row}: {count} micro-steps a step, last loss {loss}",
             row=name(row.name), count=show(row.micro_steps, whole),
             loss=show(row.key("final_loss"), decimals) if row.key("final_loss") else "not known"))


def mixed_precision(study: Study) -> Check:
    item = "mixed precision"
    rows = [row for row in study.alike if row.option("precision.compute") in ("bf16", "fp16") and row.key("final_loss") and row.done]
    if not rows:
        return Check(item, None, text("no row computes in bf16 or fp16"))
    row = rows[0]
    first = call(row.row.metrics.steps["loss"].iloc[0], "first", row.name, "/steps/loss")
    return Check(
        item, row.key("final_loss").value < first.value, text("{row} in {kind}: loss {first} to {last}",
             row=name(row.name), kind=name(row.option("precision.compute")), first=show(first, decimals), last=show(row.key("final_loss"), decimals)))


def graphs(study: Study) -> Check:
    """CUDA graphs, the counterpart of torch.compile: the same step without launches by the host."""
    item = "CUDA graphs (torch.compile's counterpart)"
    pairs = [pair for pair in study.pairs({"run.graph"}, "run.graph") if all(row.done for row in pair)]
    if not pairs:
        return Check(item, None, text("no pair of rows with and without run.graph (a GPU's choice)"))
    off, on = sorted(pairs[0], key=lambda row: row.option("run.graph") == "true")
    return Check(item, True, text("{on} trains at {ratio} of the speed of {off}{unsure}", on=name(on.name), off=name(off.name),
                                  ratio=show(on.key("tokens_per_second") / off.key("tokens_per_second"), times), unsure=unsure(off, on)))


ITEMS: list[Callable[[Study], Check]] = [
    lambda study: _trains("one rank alone trains", study, 1),
    lambda study: _trains("several ranks train: two, four and eight", study, 2, 4, 8), fits, memory_falls, losses_fall, resumes, clipping,
    accumulation, mixed_precision, graphs
]


def checklist(study: Study) -> list[Check]:
    return [item(study) for item in ITEMS]
