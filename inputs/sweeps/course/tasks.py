"""The seven tasks of the course as tables of the run's figures."""
from __future__ import annotations

import math
from typing import Callable, NamedTuple, Optional

from tessera_report.html.checklist import FLOAT_TOLERANCE
from tessera_report.html.findings.losses import loss_difference
from tessera_report.html.panels.bandwidth import Measured, measured
from tessera_report.html.panels.scaling import strong_groups, weak_groups
from tessera_report.html.quantity import (Html, Quantity, call, decimals, duration, gigabytes_per_second, join, name, optional,
                                           percent, scientific, short, show, size, text, times, whole)
from tessera_report.html.quartiles import doubts, overlap
from tessera_report.html.study import Study
from tessera_report.html.traced import CATEGORIES, Traced

from .dumps import dump_differences
from .rows import prefetch_pairs, reshard_pairs

TOY_PARAMETERS = 150
MOST_STEPS = 12  # of the toy's table
SPEED = ["tokens/s", "q1", "q3", "ratio", "told apart"]
UNSURE = " Speeds are medians with their quartiles; rows whose quartiles overlap are not told apart, and nothing is where the rules call a speed unreliable."


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
        all_of_it = row.key("memory_planned")
        cells.append([
            name(row.name),
            show(row.ranks, whole),
            show(least.at_rest() / row.at_rest(), times),
            optional(all_of_it, size),
            optional(row.key("memory_peak"), size),
            optional(least.key("memory_planned") / all_of_it if all_of_it and least.key("memory_planned") else None, times),
            show(row.one_gradient(), size),
            optional(row.micro_steps, whole), *(optional(row.memory(part, "planned"), size) for part in CATEGORIES),
            show(row.state(), size),
            show(line, size)
        ])
    return Result(
        text(
            "State is parameters, gradients and moments; the 1/W line is the state of {row} times its ranks over W. Reduction: of parameters "
            "and moments, then of all that is planned. One gradient: of each parameter, without sums.{steps}",
            row=name(least.name),
            steps=_steps_differ(list(first.values()))),
        ["row", "W", "reduction", "planned", "measured peak", "reduction of all", "one gradient", "K",
         *(part.replace("_", " ") for part in CATEGORIES), "state", "1/W line"], cells)


def _steps_differ(rows: list[Traced]) -> Html:
    """What to compare where K, the micro-steps of a step, is not the same."""
    if len({row.micro_steps.value for row in rows if row.micro_steps}) < 2:
        return Html("")
    return text(" K differs, and with more than one micro-step gradients hold their sums too: compare only parameters, "
                "one gradient and moments with 1/W.")


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
    return Result(text("Time and rate (bus bandwidth), the median of repeats; sizes are those of the full buffer.{faster}", faster=_faster(by_place, sizes)),
                  ["row", "collective", "by", *(f"time, {size(one)}" for one in sizes), *(f"rate, {size(one)}" for one in sizes)], cells)


def _faster(found: dict[tuple[str, str, str], dict[float, Measured]], sizes: list[float]) -> Html:
    """Which collective is faster at the largest size, and how time grows with size, on the most ranks by what is named first."""
    small, large = sizes[0], sizes[-1]
    row = list(found)[-1][0]
    by = next(by for one, _, by in found if one == row)
    pair = [found.get((row, kind, by), {}) for kind in ("all_gather", "reduce_scatter")]
    if small == large or not all({small, large} <= set(one) for one in pair):
        return Html("")
    faster, slower = sorted(pair, key=lambda one: one[large].seconds.value)
    grown = [_exponent(one[small], one[large]) for one in pair]
    return text(" In {row} by {by} {faster} is the faster one at {size}, {ratio} as fast as {slower}. Over sizes the time of all-gather grows with the "
                "power {gather} of the bytes, that of reduce-scatter with {scatter}: one where bandwidth decides, less where latency counts.", row=name(row), by=by,
                faster=faster[large].collective.replace("_", "-"), slower=slower[large].collective.replace("_", "-"), size=show(faster[large].size, size),
                ratio=show(slower[large].seconds / faster[large].seconds, times), gather=show(grown[0]), scatter=show(grown[1]))


def _exponent(small: Measured, large: Measured) -> Quantity:
    values = math.log(large.seconds.value / small.seconds.value) / math.log(large.size.value / small.size.value)
    return call(values, "exponent", small.seconds, large.seconds, small.size, large.size)


def _paired(pairs: list[tuple[Traced, Traced]], sentence: str) -> Optional[Result]:
    if not pairs:
        return None
    cells = [[name(row.name), name(row.option("comm.emulate") or "none"), *_speed(row, off),
              optional(row.key("exposed_share"), percent), optional(row.memory("gathered_units", "planned"), size),
              optional(row.sent(), size)] for off, on in pairs for row in (off, on)]
    return Result(text(sentence + UNSURE), ["row", "comm.emulate", *SPEED, "exposed", "gathered units", "sent a step"], cells)


def _speed(row: Traced, base: Traced) -> list[Html]:
    """Tokens/s with their quartiles, the ratio to another row's, and whether the two are told apart."""
    apart = "–" if row is base else "no" if overlap(row, base) else "not reliable" if doubts(row) or doubts(base) else "yes"
    return [*(optional(row.key(f"tokens_per_second{end}"), short) for end in ("", "_q1", "_q3")),
            show(row.key("tokens_per_second") / base.key("tokens_per_second"), times), text(apart)]


def prefetch(study: Study) -> Optional[Result]:
    return _paired(prefetch_pairs(study),
                   "Pairs that differ in prefetch only; the ratio is against the row without it.")


def reshard(study: Study) -> Optional[Result]:
    return _paired(reshard_pairs(study),
                   "Pairs that differ in reshard_after_forward only; the ratio is against the row that keeps units.")


def weak(study: Study) -> Optional[Result]:
    """Model FLOP/s and memory of a rank while the work grows with the ranks."""
    cells = []
    for group in weak_groups(study):
        base = group[0].key("tokens_per_second") * group[0].flops_per_token / group[0].ranks
        for row in group:
            speed = row.key("tokens_per_second") * row.flops_per_token / row.ranks
            cells.append([name(row.name), show(row.ranks, whole), optional(row.key("parameters"), whole), show(row.key("tokens_per_second"), short),
                          show(row.key("step_seconds"), duration), show(speed / base, percent), optional(row.key("memory_planned"), size),
                          optional(row.key("memory_peak"), size)])
    return Result(
        text("Efficiency: model FLOP/s of a rank, six for each parameter and token, over those of the first row of its group. Where the model grows with the ranks, memory per "
             "rank should stay the same."),
        ["row", "ranks", "parameters", "tokens/s", "step", "efficiency", "planned memory per rank", "measured peak"], cells) if cells else None


def toy_rows(study: Study) -> Optional[tuple[Traced, list[Traced]]]:
    """The toy's row on one rank, and the others."""
    rows = [row for row in study.trained
            if row.values["parameters"] == TOY_PARAMETERS and row.row.metrics and "loss" in row.row.metrics.steps]
    one = next((row for row in rows if row.values["ranks"] == 1), None)
    others = [
        row for row in rows if row is not one and row.row.metrics.steps.index.equals(one.row.metrics.steps.index)
    ] if one else []
    return (one, others) if others else None


def toy(study: Study) -> Optional[Result]:
    """Losses step by step of one rank and of each sharded row; then how far parameters and gradients are apart at the end."""
    found = toy_rows(study)
    if found is None:
        return None
    one, others = found
    steps = one.row.metrics.steps.index
    every = max(1, len(steps) // (MOST_STEPS - 1))
    cells = []
    for place in sorted({*range(0, len(steps), every), len(steps) - 1}):
        losses = [call(row.row.metrics.steps["loss"].iloc[place], "at", row.name, "/steps/loss", place) for row in (one, *others)]
        farthest = max((loss - losses[0] for loss in losses[1:]), key=lambda difference: abs(difference.value))
        step = call(steps[place], "at", one.name, "/steps/step", place)
        cells.append([show(step, whole), *(show(loss, decimals) for loss in losses), show(farthest, scientific)])
    sentences = [text("{parameters} parameters.", parameters=show(one.key("parameters"), whole))]
    for row in others:
        apart = loss_difference(row, one)
        sentences.append(
            text("{row}: losses differ by at most {apart} (tolerance {most}).", row=name(row.name), apart=show(apart, scientific),
                 most=show(one.key("final_loss") * FLOAT_TOLERANCE, scientific)))
        sentences += [text("L2 difference of the final {what}: {difference} (their norm: {norm}).", what=what,
                           difference=show(difference, scientific), norm=show(norm)) for what, difference, norm in dump_differences(one, row)]
    return Result(join(sentences, " "), ["step", one.name, *(row.name for row in others), "largest difference"], cells)


def time_a_step(study: Study) -> Optional[Result]:
    """One rank, then without and with prefetch, then the same model and batch on other ranks: time, speed-up, communication."""
    pairs = prefetch_pairs(study)
    if not pairs:
        return None
    found: dict[str, tuple[Traced, Traced, str]] = {}
    for off, on in pairs:
        one = next((row for row in study.trained if row.values["ranks"] == 1 and row.values["parameters"] == off.values["parameters"]), None)
        for row, role in ((one, "one rank"), (off, "without prefetch"), (on, "with prefetch")):
            if row is not None:
                found.setdefault(row.name, (row, one or off, role))
        for row in (row for group in strong_groups(study) if one in group for row in group):
            found.setdefault(row.name, (row, one, "on more ranks"))
    cells = [[name(row.name), text(role), show(row.key("step_seconds"), duration), *_speed(row, base), optional(row.key("exposed_share"), percent)]
             for row, base, role in found.values()]
    return Result(text("Ratio: the speed-up against one rank, or against the row without prefetch where there is none." + UNSURE),
                  ["row", "what", "time a step", *SPEED, "share of communication"], cells)


TASKS = [
    Task("Memory over ranks, with its breakdown and its 1/W line", memory),
    Task("All-gather and reduce-scatter over sizes", collectives),
    Task("With and without prefetch", prefetch),
    Task("Reshard after forward, or not", reshard),
    Task("Weak scaling", weak),
    Task("A toy model, sharded against one rank", toy),
    Task("Time of a step, speed-up and share of communication", time_a_step),
]
