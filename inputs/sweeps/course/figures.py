"""What the run shows about each of the course's questions: a sentence of figures, or None where no row shows it."""
from __future__ import annotations

from typing import Optional

from tessera_report.html.panels.bandwidth import measured
from tessera_report.html.quantity import (Html, Quantity, call, gigabytes_per_second, join, name, percent, show, size,
                                           text, times, whole)
from tessera_report.html.quartiles import unsure
from tessera_report.html.study import Study
from tessera_report.html.traced import CATEGORIES, Traced, known

from .rows import alone, prefetch_pairs, reshard_pairs, sharded

FASTER = 1.1  # the bandwidth of a smaller buffer over the largest one's, to be named


def breakdown(study: Study) -> Optional[Html]:
    row = sharded(study)
    one = alone(study, row) if row else next(
        (row for row in study.trained if row.memory("parameters", "planned")), None)
    if one is None or one.memory("parameters", "planned") is None:
        return None
    parts = [
        text("{category} {bytes}",
             category=category.replace("_", " "),
             bytes=show(one.memory(category, "planned"), size))
        for category in CATEGORIES
        if one.memory(category, "planned") and one.memory(category, "planned").value
    ]
    sums = text(" With {k} micro-steps a step gradients include their sums so far.",
                k=show(one.micro_steps, whole)) if one.micro_steps and one.micro_steps.value > 1 else ""
    return text("{row} plans {parts}.{sums}", row=name(one.name), parts=join(parts, ", "), sums=sums)


def factor(study: Study) -> Optional[Html]:
    row = sharded(study)
    one = alone(study, row) if row else None
    if one is None or not known(one.state(), row.state(), one.memory("activations", "planned"),
                                row.memory("activations", "planned")):
        return None
    sentence = text("From {one} to {row} on {ranks} ranks parameters and moments fall by {rest}, with gradients by {state}"
                    "{steps}; activations by {activations}",
                    one=name(one.name),
                    row=name(row.name),
                    ranks=show(row.ranks, whole),
                    rest=show(one.at_rest() / row.at_rest(), times),
                    state=show(one.state() / row.state(), times),
                    steps=_steps(one, row),
                    activations=show(
                        one.memory("activations", "planned") / row.memory("activations", "planned"), times))
    if known(one.key("memory_planned"), row.key("memory_planned")):
        sentence = text("{sentence}, all of it by {all}", sentence=sentence,
                        all=show(one.key("memory_planned") / row.key("memory_planned"), times))
    return text("{sentence}.", sentence=sentence)


def _steps(one: Traced, row: Traced) -> Html:
    """Why gradients are apart: K of both rows, where it differs."""
    if not known(one.micro_steps, row.micro_steps) or one.micro_steps.value == row.micro_steps.value:
        return Html("")
    return text(" (their sums depend on K, which is {before} and {after})", before=show(one.micro_steps, whole),
                after=show(row.micro_steps, whole))


def reshard(study: Study) -> Optional[Html]:
    for kept, dropped in reshard_pairs(study):
        units = kept.memory("gathered_units", "planned"), dropped.memory("gathered_units", "planned")
        if known(*units, kept.sent(), dropped.sent()):
            return text(
                "{kept} keeps up to {more} gathered and sends {few} a step; {dropped} keeps up to {less} and sends {many}, {ratio}.",
                kept=name(kept.name),
                more=show(units[0], size),
                few=show(kept.sent(), size),
                dropped=name(dropped.name),
                less=show(units[1], size),
                many=show(dropped.sent(), size),
                ratio=show(dropped.sent() / kept.sent(), times))
    return None


def sharded_share(study: Study) -> Optional[Html]:
    row = sharded(study)
    if row is None or not known(row.state(), row.key("memory_planned"), row.memory("gathered_units", "planned")):
        return None
    return text("In {row} the sharded state is {state} a rank: parameters, moments and one gradient. Gathered for a moment are at most {units}.",
                row=name(row.name), state=show(row.at_rest() + row.one_gradient(), size),
                units=show(row.memory("gathered_units", "planned"), size))


def gathers(study: Study) -> Optional[Html]:
    row = sharded(study)
    if row is None or not known(row.sent("all_gather"), row.padded(), row.element_bytes("compute"), row.ranks):
        return None
    once = row.padded() * row.element_bytes("compute") * (row.ranks - 1) / row.ranks
    if not once.value:
        return None
    sentence = text("{row} gathers {bytes} a step and rank, {ratio} of what gathering every parameter once sends{steps}.",
                    steps=text(", with K = {k} micro-steps", k=show(row.micro_steps, whole)) if row.micro_steps and row.micro_steps.value > 1 else "",
                    row=name(row.name), bytes=show(row.sent("all_gather"), size),
                    ratio=show(row.sent("all_gather") / once, times))
    savings = (row.schedule or {}).get("savings", [])
    if not savings:
        return sentence
    saved = call(sum(saving["bytes"] for saving in savings), "saved_bytes", row.name)
    return text("{sentence} Its schedule saves {bytes}: {savings}.", sentence=sentence, bytes=show(saved, size),
                savings=join([name(saving["name"]) for saving in savings], ", "))


def reduce_scatter(study: Study) -> Optional[Html]:
    row = sharded(study)
    if row is None or not known(row.sent("reduce_scatter"), row.key("parameters"), row.ranks):
        return None
    sentence = text("{row}: N = {all} gradients, N/W = {shard} a rank; reduce-scatter sends {bytes} a step.",
                    row=name(row.name), all=show(row.key("parameters"), whole),
                    shard=show(row.key("parameters") / row.ranks, whole), bytes=show(row.sent("reduce_scatter"), size))
    whole_sum = _ring_all_reduce(row)
    if whole_sum is not None:
        sentence = text("{sentence} A ring's all-reduce of the same gradients would send {bytes}, {ratio}.",
                        sentence=sentence, bytes=show(whole_sum, size),
                        ratio=show(whole_sum / row.sent("reduce_scatter"), times))
    ddp = next((other for other in study.trained
                if other.option("shard.strategy") == "ddp" and other.values["ranks"] == row.values["ranks"]
                and other.values["parameters"] == row.values["parameters"] and other.sent() and other.sent().value),
               None)
    if ddp is None or not row.sent("reduce_scatter").value:
        return sentence
    return text("{sentence} The all-reduce of {ddp} sends {bytes}, {ratio}.", sentence=sentence, ddp=name(ddp.name),
                bytes=show(ddp.sent(), size), ratio=show(ddp.sent() / row.sent("reduce_scatter"), times))


def _ring_all_reduce(row: Traced) -> Optional[Quantity]:
    """Bytes that a rank of a ring sends a step where all gradients are all-reduced: twice (W−1)/W of them each time."""
    if row.option("shard.group_size") not in (None, "", "0") or not row.sent("reduce_scatter").value:
        return None
    if not known(row.padded(), row.element_bytes("reduce"), row.micro_steps):
        return None
    once = row.padded() * row.element_bytes("reduce") * 2 * (row.ranks - 1) / row.ranks
    return once if row.option("shard.reduce") == "step" else once * row.micro_steps


def volume(study: Study) -> Optional[Html]:
    row = sharded(study)
    if row is None or not known(row.micro_steps, row.element_bytes("compute"), row.element_bytes("reduce"),
                                row.padded(), row.ranks, row.sent()):
        return None
    formula = row.micro_steps * (row.element_bytes("compute") * 2 +
                                 row.element_bytes("reduce")) * row.padded() * (row.ranks - 1) / row.ranks
    sentence = text("{row}: K = {k}, b_p = {bp}, b_r = {br}, P = {p} with padding, W = {w}: {formula}. Counted: {sent}",
                    row=name(row.name), k=show(row.micro_steps, whole), bp=show(row.element_bytes("compute"), whole),
                    br=show(row.element_bytes("reduce"), whole), p=show(row.padded(), whole), w=show(row.ranks, whole),
                    formula=show(formula, size), sent=show(row.sent(), size))
    if row.planned("formula", "bytes") and row.schedule["savings"]:
        saved = call(sum(saving["bytes"] for saving in row.schedule["savings"]), "saved_bytes", row.name)
        return text("{sentence}, which the schedule's savings of {saved} and the reduction of scalars explain.",
                    sentence=sentence, saved=show(saved, size))
    return text("{sentence}.", sentence=sentence)


def _speeds(pair: tuple[Traced, Traced]) -> Html:
    off, on = pair
    sentence = text("{on} trains at {ratio} of the speed of {off}", on=name(on.name), off=name(off.name),
                    ratio=show(on.key("tokens_per_second") / off.key("tokens_per_second"), times))
    if known(off.key("exposed_share"), on.key("exposed_share")):
        sentence = text("{sentence}; exposed communication: {before} without, {after} with", sentence=sentence,
                        before=show(off.key("exposed_share"), percent), after=show(on.key("exposed_share"), percent))
    return text("{sentence}{unsure}.", sentence=sentence, unsure=unsure(off, on))


def prefetch(study: Study) -> Optional[Html]:
    pairs = sorted(prefetch_pairs(study), key=lambda pair: not pair[0].emulated)
    return _speeds(pairs[0]) if pairs else None


def prefetch_memory(study: Study) -> Optional[Html]:
    for off, on in prefetch_pairs(study):
        before, after = off.memory("gathered_units", "planned"), on.memory("gathered_units", "planned")
        if known(before, after):
            return text("Gathered units peak at {before} in {off} and at {after} in {on}; the largest unit has {unit}.",
                        before=show(before, size), off=name(off.name), after=show(after, size), on=name(on.name),
                        unit=_unit(on))
    return None


def _unit(row: Traced) -> Html:
    unit = row.largest_unit()
    return text("{elements} elements", elements=show(unit, whole)) if unit else text("a size that the run did not keep")


def prefetch_in_vain(study: Study) -> Optional[Html]:
    pairs = [pair for pair in prefetch_pairs(study) if not pair[0].emulated]
    if not pairs:
        return None
    return text("Without slowed collectives: {speeds}", speeds=_speeds(pairs[0]))


def flat(study: Study) -> Optional[Html]:
    row = sharded(study)
    if row is None or row.schedule is None or row.key("parameters") is None:
        return None
    units = call(len(row.schedule["units"]), "units", row.name)
    calls = call(sum(entry["calls"] for entry in row.schedule["collectives"]), "collective_calls", row.name)
    padding = row.padded() / row.key("parameters") - 1
    return text(
        "{row} has {units} units and makes {calls} collectives a step; padding and alignment add {share} to the parameters.",
        row=name(row.name),
        units=show(units, whole),
        calls=show(calls, whole),
        share=show(padding, lambda value: f"{value:.2%}"))


def unit_size(study: Study) -> Optional[Html]:
    parts = []
    row = sharded(study)
    if row and row.largest_unit():
        parts.append(text("The largest unit of {row} has {elements} elements.", row=name(row.name),
                          elements=show(row.largest_unit(), whole)))
    lines = [line for line in measured(study) if line.collective == "all_gather"]
    lines = [line for line in lines if line.by == lines[0].by and line.row is lines[0].row]
    if len(lines) > 1:
        small, large = min(lines, key=lambda line: line.size.value), max(lines, key=lambda line: line.size.value)
        parts.append(text("An all-gather of {small} reaches {low}, one of {large} {high}.",
                          small=show(small.size, size), large=show(large.size, size),
                          low=show(small.bandwidth, gigabytes_per_second),
                          high=show(large.bandwidth, gigabytes_per_second)))
        best = max(lines, key=lambda line: line.bandwidth.value)
        if best.bandwidth.value > FASTER * large.bandwidth.value:
            parts.append(
                text("The largest is not the fastest: that is {size}, {rate}. Buffers that fit in a cache can be faster.",
                     size=show(best.size, size),
                     rate=show(best.bandwidth, gigabytes_per_second)))
    return join(parts, " ") if parts else None


def tied(study: Study) -> Optional[Html]:
    row = sharded(study)
    units = [
        unit for unit in (row.schedule or {}).get("units", []) if len({"embed", "head"} & set(unit["parts"])) == 2
    ] if row else []
    if not units:
        return None
    elements = call(units[0]["padded"], "unit_elements", row.name, units[0]["name"])
    return text("In {row} the unit {unit} of {elements} elements is read by {parts}.", row=name(row.name),
                unit=name(units[0]["name"]), elements=show(elements, whole), parts=" and ".join(units[0]["parts"]))
