"""Expected | formula | measured | holds: the claims of folklore and published studies next to formulas and run."""
from __future__ import annotations

from typing import Callable

from .claim import BETTER, NO, NOTHING, UNKNOWN, YES, Claim, pairs, reliable, steps, verdict, verdict_of_all
from .quantity import Html, Quantity, call, constant, duration, join, name, percent, short, show, size, text, times, whole
from .quartiles import caveat, doubts, overlap, unsure
from .state_claims import ADAM_BYTES, FOLKLORE_GB, folklore_bytes, state_shrinks, zero1_half, zero3_memory
from .study import BATCH, Study
from .traced import Traced


def zero2_volume(study: Study) -> Claim:
    """As much communication as DDP."""
    rule = text("(K·b_r + b_p) / (2·b_r): 1x at K = 1 with equal types, as an all-reduce is a reduce-scatter and an all-gather. More with K, "
                "because ddp reduces once a step")
    return _volume(study, "zero2 communicates as much as ddp (1x).", rule, pairs(study, "ddp", "zero2"), 0.9, 1.1)


def zero3_volume(study: Study) -> Claim:
    """2 to 3 times the communication, for all K."""
    rule = text("K·(2·b_p + b_r) / (K·b_r + b_p): 1.5 at K = 1, 2.4 at K = 4, below 3 for every K (b_p = b_r)")
    found = pairs(study, "zero2", "zero3")
    most = max((b for _, b in found), key=steps, default=None)
    if most and most.micro_steps and most.element_bytes("compute") and most.element_bytes("reduce"):
        count, gathered, reduced = most.micro_steps, most.element_bytes("compute"), most.element_bytes("reduce")
        here = count * (gathered * 2 + reduced) / (count * reduced + gathered)
        rule = text("{rule}; {here} with K = {count}, b_p = {bp}, b_r = {br}", rule=rule, here=show(here, times), count=show(count, whole),
                    bp=show(gathered, whole), br=show(reduced, whole))
    return _volume(study, "zero3 communicates 2 to 3 times as much as zero2.", rule, found, 2.0, 3.0)


def _volume(study: Study, expected: str, rule: Html, found: list[tuple[Traced, Traced]], low: float, high: float) -> Claim:
    """How much more the second rows send. Shows the first pair of each K and type of gradients, and judges all pairs."""
    ratios: dict[tuple, tuple[Quantity, Traced, Traced]] = {}
    for a, b in sorted(found, key=lambda pair: steps(pair[1])):
        if a.sent() and b.sent() and a.sent().value:
            ratios.setdefault((steps(b), b.option("precision.reduce")), (b.sent() / a.sent(), a, b))
    if not ratios:
        return Claim(text(expected), rule, NOTHING, UNKNOWN)
    parts = [text("{a} to {b}: {ratio}{saved}", a=name(a.name), b=name(b.name), ratio=show(ratio, times), saved=_saved(b))
             for ratio, a, b in ratios.values()]
    return Claim(text(expected), rule, join(parts, ", "),
                 verdict_of_all([(ratio, "K", count) for (count, _), (ratio, _, _) in ratios.items()], low, high))


def _saved(row: Traced) -> Html:
    """Bytes of gathers that a row's schedule leaves out."""
    savings = (row.schedule or {}).get("savings", [])
    if not savings:
        return Html("")
    saved = call(sum(saving["bytes"] for saving in savings), "saved_bytes", row.name)
    return text(" (the schedule saves {bytes} of gathers)", bytes=show(saved, size))


def share_of_ddp(study: Study) -> Claim:
    """85 to 95% of DDP's throughput."""
    expected = text("zero3 reaches 85 to 95% of DDP's throughput.")
    formula = text("as much as the gathers' overlap hides: no formula without the link's bandwidth")
    return _speed_ratio(expected, formula, pairs(study, "ddp", "zero3"), 0.85, 0.95, f"{BETTER} (above)")


def zero1_speed(study: Study) -> Claim:
    """ZeRO-1 costs 5 to 10% of DDP's throughput."""
    formula = text("a reduce-scatter and a gather send what ddp's all-reduce sends, so nothing but latency and the update differ")
    return _speed_ratio(text("zero1 loses 5 to 10% of ddp's throughput."), formula, pairs(study, "ddp", "zero1"), 0.9, 0.95, f"{BETTER} (loses less)")


def small_models(study: Study) -> Claim:
    """Sharding costs 10 to 15%, and more on small models: pairs of the baseline's model, and of others that differ in model.* only."""
    expected = text("Sharding costs 10 to 15% of the throughput, and more on small models.")
    formula = text("a model with fewer parameters computes less between gathers, whose latency stays")
    others = [row for row in study.sound if set(row.values["flags"]) <= {"model", "host", "load"}]
    found = sorted(((b.key("tokens_per_second") / a.key("tokens_per_second"), a, b) for a, b in pairs(study, "ddp", "zero3", others)),
                   key=lambda one: one[1].values["parameters"])
    small = {b.values["ranks"] for _, _, b in found if "model" in b.values["flags"]}
    found = [one for one in found if one[2].values["ranks"] in small]
    if len({a.values["parameters"] for _, a, _ in found}) < 2:
        return Claim(expected, formula, NOTHING, UNKNOWN)
    parts = [text("{parameters} parameters: {b} reaches {share} of {a}{unsure}", parameters=show(b.key("parameters"), short), b=name(b.name), a=name(a.name),
                  share=show(ratio, percent), unsure=unsure(a, b)) for ratio, a, b in found]
    few, many = found[0][0].value, found[-1][0].value
    holds = UNKNOWN if len(reliable(found)) < len(found) else YES if few < many and 0.85 <= many <= 0.9 else NO
    return Claim(expected, formula, join(parts, "; "), holds)


def _speed_ratio(expected: Html, formula: Html, found: list[tuple[Traced, Traced]], low: float, high: float, above: str) -> Claim:
    """The throughput of the second rows over the first ones'; pairs with a doubt are shown if no other is there, and judge nothing."""
    every = [(b.key("tokens_per_second") / a.key("tokens_per_second"), a, b) for a, b in found]
    if not every:
        return Claim(expected, formula, NOTHING, UNKNOWN)
    sure = reliable(every)
    parts = [text("{b}: {share}{unsure}", b=name(b.name), share=show(ratio, percent), unsure=unsure(a, b)) for ratio, a, b in (sure or every)[:6]]
    values = [ratio.value for ratio, _, _ in sure]
    holds = UNKNOWN if not values else f"{NO} (below)" if min(values) < low else above if max(values) > high else YES
    return Claim(expected, formula, join(parts, ", "), holds)


def many_ranks(study: Study) -> Claim:
    """Scaling to over 100 ranks: the formula alone."""
    formula = text("a rank sends (W−1)/W of K·(2·b_p + b_r)·P, which is less than twice what it sends for W = 2")
    rows = [row for row in study.alike if row.option("shard.strategy") == "zero3" and (row.values["ranks"] or 1) > 1]
    measured = NOTHING
    if rows:
        row = max(rows, key=lambda row: row.values["ranks"])
        grown = constant(99) / 100 / ((row.ranks - 1) / row.ranks)
        formula = text("{formula}; for W = 100 it is {grown} of {row}'s. What grows is latency, with W in a ring, while a fixed batch leaves each "
                       "rank less compute to hide it", formula=formula, grown=show(grown, times), row=name(row.name))
        measured = text("at most {ranks} ranks, in {row}", ranks=show(row.ranks, whole), row=name(row.name))
    return Claim(text("Sharding scales to over 100 ranks."), formula, measured, UNKNOWN)


def over_batch(study: Study) -> Claim:
    """Throughput against the micro-batch, K and all else the same."""
    expected = text("A larger micro-batch raises the throughput.")
    formula = text("gathers and launches of a micro-step are spread over more tokens, until compute hides them")
    found = [sorted(pair, key=_micro_batch) for pair in study.pairs(BATCH, "train.micro_batch")
             if all(row in study.alike for row in pair) and steps(pair[0]) == steps(pair[1])]
    if not found:
        return Claim(expected, formula, NOTHING, UNKNOWN)
    few, many = max(found, key=lambda pair: _micro_batch(pair[1]) / _micro_batch(pair[0]))
    ratio = many.key("tokens_per_second") / few.key("tokens_per_second")
    measured = text("{few} to {many}: {ratio}{unsure}", few=name(few.name), many=name(many.name), ratio=show(ratio, times), unsure=unsure(few, many))
    return Claim(expected, formula, measured, UNKNOWN if overlap(few, many) or doubts(few) or doubts(many) else YES if ratio.value > 1 else NO)


def _micro_batch(row: Traced) -> int:
    return int(row.option("train.micro_batch") or 1)


def largest_model(study: Study) -> Claim:
    """The largest model on eight GPUs of 80 GB: the formula alone."""
    ddp, zero1, zero3 = (constant(80_000_000_000) / each for each in (constant(ADAM_BYTES), constant(8) + constant(8) / 8, constant(ADAM_BYTES) / 8))
    formula = text("80 GB over 16 bytes of a parameter: ddp {ddp}; over 8 + 8/W: zero1 {zero1}; over 16/W: zero3 {zero3}. Activations, gathered units and "
                   "libraries take their part of that", ddp=show(ddp, short), zero1=show(zero1, short), zero3=show(zero3, short))
    return Claim(text("On 8 GPUs of 80 GB ddp trains 20B parameters, sharding 160B; zero1 no larger model than ddp."), formula,
                 join([name("tessera plan --plan.view=largest --plan.ranks=8 --plan.memory=80GB"), " counts all of it for a family of models"]),
                 f"{NO} (by the formula)")


def utilization(study: Study) -> Claim:
    """Utilization over 70%."""
    expected = text("GPU utilization is over 70%.")
    formula = text("share of the time in which a kernel runs: 1 − exposed − data")
    measured = [(row, row.mean_utilization()) for row in study.alike if row.mean_utilization()]
    if measured:
        row, least = min(_sure(measured), key=lambda pair: pair[1].value)
        return Claim(expected, formula, text("lowest in {row}: {share} by the driver{caveat}", row=name(row.name), share=show(least, percent),
                                             caveat=caveat(row)), UNKNOWN if doubts(row) else verdict(least, 0.7, 1.0))
    busy = [(row, constant(1) - row.key("exposed_share") - row.key("data_share"))
            for row in study.alike if row.key("exposed_share") and row.key("data_share")]
    if not busy:
        return Claim(expected, formula, text("no GPU measured it"), UNKNOWN)
    row, least = min(_sure(busy), key=lambda pair: pair[1].value)
    return Claim(expected, formula, text("no GPU measured it; on cores compute takes {share} of the time in {row}, the lowest{caveat}",
                                         share=show(least, percent), row=name(row.name), caveat=caveat(row)), UNKNOWN)


def _sure(found: list[tuple[Traced, Quantity]]) -> list[tuple[Traced, Quantity]]:
    """Rows that can be relied on; all, where there are none."""
    return [pair for pair in found if not doubts(pair[0])] or found


def data_share(study: Study) -> Claim:
    """Data under 10%."""
    expected = text("Reading data takes less than 10% of the time.")
    rows = [row for row in study.alike if row.key("data_share")]
    formula = text("time for reading / time of a step")
    if not rows:
        return Claim(expected, formula, text("not measured"), UNKNOWN)
    worst, share = max(_sure([(row, row.key("data_share")) for row in rows]), key=lambda pair: pair[1].value)
    return Claim(expected, formula, text("highest in {row}: {share}{caveat}", row=name(worst.name), share=show(share, percent), caveat=caveat(worst)),
                 UNKNOWN if doubts(worst) else verdict(share, 0.0, 0.1))


def start_up(study: Study) -> Claim:
    """10 to 30 s more to set up than DDP."""
    expected = text("Setting up sharding takes 10 to 30 s more than ddp.")
    formula = text("from the start of the program to the end of the first step: zero3's less ddp's")
    found = [(b.key("startup_seconds") - a.key("startup_seconds"), a, b)
             for a, b in pairs(study, "ddp", "zero3") if a.key("startup_seconds") and b.key("startup_seconds")]
    if not found:
        return Claim(expected, formula, NOTHING, UNKNOWN)
    sure = reliable(found)
    added, a, b = max(sure or found, key=lambda entry: entry[0].value)
    measured = text("most from {a} to {b}: {before} to {after},{added}{caveat}", caveat=caveat(a, b), a=name(a.name), b=name(b.name), added=text(" {more} more", more=show(added, duration)) if added.value > 0 else " none",
                    before=show(a.key("startup_seconds"), duration), after=show(b.key("startup_seconds"), duration))
    return Claim(expected, formula, measured, UNKNOWN if not sure else f"{BETTER} (less)" if added.value < 10 else verdict(added, 10, 30))


CLAIMS: list[Callable[[Study], Claim]] = [
    lambda study: state_shrinks(study, 4), lambda study: state_shrinks(study, 8),
    *(lambda study, ranks=ranks: folklore_bytes(study, ranks) for ranks in FOLKLORE_GB), zero1_half, zero3_memory, zero2_volume,
    zero3_volume, share_of_ddp, zero1_speed, small_models, largest_model, many_ranks, over_batch, utilization, data_share, start_up
]


def claims(study: Study) -> list[Claim]:
    return [claim(study) for claim in CLAIMS]
