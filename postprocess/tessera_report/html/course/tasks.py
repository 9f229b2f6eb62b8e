"""The seven tasks of the course as tables of the run's figures."""
from __future__ import annotations

from typing import Callable, NamedTuple, Optional

from ..panels.bandwidth import Measured, measured
from ..panels.scaling import weak_groups
from ..quantity import (Html, call, decimals, duration, gigabytes_per_second, name, optional, percent, scientific,
                        short, show, size, text, times, whole)
from ..study import Study
from ..traced import CATEGORIES, Traced
from .dumps import dump_differences
from .rows import prefetch_pairs, reshard_pairs

TOY_PARAMETERS = 150
MOST_STEPS = 12  # of the toy's table


class Result(NamedTuple):
    """A table under a sentence."""

    sentence: Html
    head: list[str]
    cells: list[list[Html]]


class Task(NamedTuple):
    title: str
    answer: Callable[[Study], Optional[Result]]


def memory(study: Study) -> Optional[Result]:
    """Planned memory by category over ranks of one strategy and model, and what 1/W of one rank's state is."""
    rows = [row for row in study.trained if row.state() and row.option("shard.strategy") == "zero3"]
    by_model: dict[float, list[Traced]] = {}
    for row in rows:
        by_model.setdefault(row.values["parameters"], []).append(row)
    found = max(by_model.values(), key=lambda group: len({row.values["ranks"] for row in group}), default=[])
    first: dict[int, Traced] = {}
    for row in found:
        first.setdefault(row.values["ranks"], row)
    if len(first) < 2:
        return None
    least = first[min(first)]
    cells = []
    for _, row in sorted(first.items()):
        line = least.state() * least.ranks / row.ranks
        cells.append([
            name(row.name),
            show(row.ranks, whole),
            optional(row.micro_steps, whole), *(optional(row.memory(part, "planned"), size) for part in CATEGORIES),
            show(row.state(), size),
            show(line, size)
        ])
    return Result(
        text(
            "State is parameters, gradients and moments; the last column is the state of {row} times its ranks over W.{steps}",
            row=name(least.name),
            steps=_steps_differ(list(first.values()))),
        ["row", "W", "K", *(part.replace("_", " ") for part in CATEGORIES), "state", "1/W line"], cells)


def _steps_differ(rows: list[Traced]) -> Html:
    """What to compare where K, the micro-steps of a step, is not the same."""
    if len({row.micro_steps.value for row in rows if row.micro_steps}) < 2:
        return Html("")
    return text(" K differs, and with more than one micro-step gradients hold their sums too: compare only parameters "
                "and moments with 1/W.")


def collectives(study: Study) -> Optional[Result]:
    """Time and bandwidth of all-gather and reduce-scatter, a line for each communicator."""
    lines = [line for line in measured(study) if line.collective in ("all_gather", "reduce_scatter")]
    if not lines:
        return None
    sizes = sorted({line.size.value for line in lines})
    by_place: dict[tuple[str, str, str], dict[float, Measured]] = {}
    for line in lines:
        by_place.setdefault((line.row.name, line.collective, line.by), {})[line.size.value] = line
    cells = []
    for (row, collective, by), found in by_place.items():
        seconds = [optional(found[one].seconds if one in found else None, duration) for one in sizes]
        bandwidth = [optional(found[one].bandwidth if one in found else None, gigabytes_per_second) for one in sizes]
        cells.append(
            [name(row),
             text("{kind}", kind=collective.replace("_", "-")),
             text("{by}", by=by), *seconds, *bandwidth])
    return Result(text("Time and bus bandwidth, the median of repeats; sizes are those of the full buffer."),
                  ["row", "collective", "by", *(size(one) for one in sizes), *(size(one) for one in sizes)], cells)


def _paired(pairs: list[tuple[Traced, Traced]], sentence: str) -> Optional[Result]:
    if not pairs:
        return None
    cells = []
    for off, on in pairs:
        for row in (off, on):
            ratio = row.key("tokens_per_second") / off.key("tokens_per_second")
            cells.append([
                name(row.name),
                name(row.option("comm.emulate") or "none"),
                show(row.key("tokens_per_second"), short),
                show(ratio, times),
                optional(row.key("exposed_share"), percent),
                optional(row.memory("gathered_units", "planned"), size),
                optional(row.sent(), size)
            ])
    return Result(text(sentence),
                  ["row", "comm.emulate", "tokens/s", "ratio", "exposed", "gathered units", "sent a step"], cells)


def prefetch(study: Study) -> Optional[Result]:
    return _paired(prefetch_pairs(study),
                   "Pairs that differ in prefetch only; the ratio is against the row without it.")


def reshard(study: Study) -> Optional[Result]:
    return _paired(reshard_pairs(study),
                   "Pairs that differ in reshard_after_forward only; the ratio is against the row that keeps units.")


def weak(study: Study) -> Optional[Result]:
    """Model FLOP/s a rank while work grows with the ranks."""
    found = weak_groups(study)
    if not found:
        return None
    cells = []
    for group in found:
        base = group[0].key("tokens_per_second") * group[0].flops_per_token / group[0].ranks
        for row in group:
            speed = row.key("tokens_per_second") * row.flops_per_token / row.ranks
            cells.append([
                name(row.name),
                show(row.ranks, whole),
                optional(row.key("parameters"), whole),
                show(row.key("tokens_per_second"), short),
                show(row.key("step_seconds"), duration),
                show(speed / base, percent)
            ])
    return Result(text("Efficiency: model FLOP/s of a rank, over those of the first row of its group."),
                  ["row", "ranks", "parameters", "tokens/s", "step", "efficiency"], cells)


def toy_rows(study: Study) -> Optional[tuple[Traced, list[Traced]]]:
    """The toy's row on one rank, and the others; the smallest model of the sweep where none has exactly 150 parameters."""
    rows = [
        row for row in study.trained if row.values["parameters"] and row.row.metrics and "loss" in row.row.metrics.steps
    ]
    rows = [row for row in rows if row.values["parameters"] == TOY_PARAMETERS]
    one = next((row for row in rows if row.values["ranks"] == 1), None)
    others = [
        row for row in rows if row is not one and row.row.metrics.steps.index.equals(one.row.metrics.steps.index)
    ] if one else []
    return (one, others) if others else None


def toy(study: Study) -> Optional[Result]:
    """Losses step by step of one rank and of a sharded row; then how far parameters and gradients are apart at the end."""
    found = toy_rows(study)
    if found is None:
        return None
    one, others = found
    other = max(others, key=lambda row: (row.option("shard.strategy") == "zero3", row.values["ranks"]))
    steps = one.row.metrics.steps.index
    every = max(1, len(steps) // (MOST_STEPS - 1))
    cells = []
    for place in sorted({*range(0, len(steps), every), len(steps) - 1}):
        a, b = (call(row.row.metrics.steps["loss"].iloc[place], "at", row.name, "/steps/loss", place)
                for row in (one, other))
        step = call(steps[place], "at", one.name, "/steps/step", place)
        cells.append(
            [show(step, whole),
             show(a, decimals),
             show(b, decimals),
             show(b - a, lambda value: f"{value:.3f}")])
    sentence = text("{one} beside {other}, {parameters} parameters.",
                    one=name(one.name),
                    other=name(other.name),
                    parameters=show(one.key("parameters"), whole))
    for what, difference, norm in dump_differences(one, other):
        sentence = text("{sentence} L2 difference of the final {what}: {difference} (their norm: {norm}).",
                        sentence=sentence,
                        what=what,
                        difference=show(difference, scientific),
                        norm=show(norm))
    return Result(sentence, ["step", "baseline loss", "sharded loss", "difference"], cells)


def time_a_step(study: Study) -> Optional[Result]:
    """One rank, then without and with prefetch: time, speed-up, share of communication."""
    pairs = prefetch_pairs(study)
    if not pairs:
        return None
    cells = []
    for off, on in pairs:
        one = next((row for row in study.trained
                    if row.values["ranks"] == 1 and row.values["parameters"] == off.values["parameters"]), None)
        for row, role in ((one, "one rank"), (off, "without prefetch"), (on, "with prefetch")):
            if row is None or [name(row.name), text(role)] in [line[:2] for line in cells]:
                continue
            ratio = row.key("tokens_per_second") / (one or off).key("tokens_per_second")
            cells.append([
                name(row.name),
                text(role),
                show(row.key("step_seconds"), duration),
                show(ratio, times),
                optional(row.key("exposed_share"), percent)
            ])
    return Result(text("Speed-up: tokens/s against one rank, or against the row without prefetch where there is none."),
                  ["row", "what", "time a step", "speed-up", "share of communication"], cells)


TASKS = [
    Task("Memory over ranks, with its breakdown and its 1/W line", memory),
    Task("All-gather and reduce-scatter over sizes", collectives),
    Task("With and without prefetch", prefetch),
    Task("Reshard after forward, or not", reshard),
    Task("Weak scaling", weak),
    Task("A toy model, sharded against one rank", toy),
    Task("Time of a step, speed-up and share of communication", time_a_step),
]
