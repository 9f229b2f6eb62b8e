"""Expected | formula | measured | holds: what folklore and published studies claim, beside the formulas and the run."""
from __future__ import annotations

from dataclasses import dataclass
from typing import Callable

from .checklist import was_resumed
from .course.rows import at_rest
from .quantity import Html, Quantity, call, constant, duration, join, largest, name, percent, plain, show, size, text, times, whole
from .study import OF_RANKS, Study
from .traced import Traced

YES, NO, UNKNOWN = "yes", "no", "not measured"
ADAM_BYTES = 16  # fp32 weight, gradient and two moments of a parameter
# A sharding study's figures for GPT-2 on 1, 4 and 8 GPUs, in GB, and that model's parameters.
FOLKLORE_GB = {1: 3.0, 4: 0.75, 8: 0.37}
GPT2_PARAMETERS = 124_439_808


@dataclass
class Claim:
    """A line of the table; `holds` is yes, no (which may say on which side) or not measured."""

    expected: Html
    formula: Html
    measured: Html
    holds: str


def _hundredths(value: float) -> str:
    return f"{value:.2f}"


def _tenths(value: float) -> str:
    return f"{value:.1f}"


NOTHING = text("no such rows")


def _verdict(quantity: Quantity, low: float, high: float) -> str:
    return YES if low <= quantity.value <= high else NO


def _pairs(study: Study, one: str, other: str) -> list[tuple[Traced, Traced]]:
    """Rows of two strategies on as many ranks with one model, batch and precision; none that went on from a checkpoint,
    and none of a command, which may be any program."""
    def alike(a: Traced, b: Traced) -> bool:
        a_settings, b_settings = a.settings(), b.settings()
        return all(a_settings[key] == b_settings[key]
                   for key in a_settings.keys() & b_settings.keys()
                   if (not key.startswith("shard.") or key == "shard.wrap")
                   and key not in OF_RANKS) and a.values["tokens_per_step"] == b.values["tokens_per_step"]

    def plain_rows(strategy: str) -> list[Traced]:
        return [
            row for row in study.trained if row.option("shard.strategy") == strategy and (row.values["ranks"] or 1) > 1
            and row.row.entry.kind != "command" and not was_resumed(row)
        ]

    return [(a, b)
            for a in plain_rows(one)
            for b in plain_rows(other)
            if a.values["ranks"] == b.values["ranks"] and alike(a, b)]


def state_shrinks(study: Study, ranks: int) -> Claim:
    """State divided by W: 4, 8. Judged without gradients, whose sums under accumulation differ with K; the measured peak,
    which holds activations too, stands beside."""
    expected = text("Training state of zero3 on {ranks} ranks: ÷{ranks} of one rank's.", ranks=ranks)
    formula = text("parameters, gradients and two moments are sharded: {bytes}·P/W bytes, W = {ranks}",
                   bytes=ADAM_BYTES,
                   ranks=ranks)
    for row in study.trained:
        if row.option("shard.strategy") != "zero3" or row.values["ranks"] != ranks or row.state() is None:
            continue
        ones = [
            one for one in study.trained
            if one.values["ranks"] == 1 and one.state() and one.values["parameters"] == row.values["parameters"]
        ]
        if ones:
            one = min(ones, key=lambda one: one.option("train.micro_batch") != row.option("train.micro_batch"))
            ratio = at_rest(one) / at_rest(row)
            measured = text("{one} to {row}: parameters and moments ÷{ratio}; only they are judged. With gradients ÷{all}{peak}",
                            one=name(one.name),
                            row=name(row.name),
                            ratio=show(ratio, _hundredths),
                            all=show(one.state() / row.state(), _hundredths),
                            peak=text(", measured peak ÷{ratio}",
                                      ratio=show(one.key("memory_peak") / row.key("memory_peak"), _hundredths))
                            if one.values["memory_peak"] and row.values["memory_peak"] else "")
            return Claim(expected, formula, measured, _verdict(ratio, 0.9 * ranks, 1.1 * ranks))
    return Claim(expected, formula, NOTHING, UNKNOWN)


def folklore_bytes(study: Study, ranks: int) -> Claim:
    """3.0, 0.75 and 0.37 GB for GPT-2, in bytes of a parameter. Judged on that model only."""
    claimed = constant(FOLKLORE_GB[ranks]) * 1_000_000_000 / GPT2_PARAMETERS
    on = "1 rank" if ranks == 1 else f"{ranks} ranks"
    expected = text("GPT-2 124M on {on}: {gb} GB of state a rank, {each} bytes a parameter.",
                    on=on,
                    gb=FOLKLORE_GB[ranks],
                    each=show(claimed, _tenths))
    formula = text("{bytes}·P/W = {total}, {each} bytes a parameter: {bytes} bytes do not give it",
                   bytes=ADAM_BYTES,
                   total=show(constant(ADAM_BYTES) * GPT2_PARAMETERS / ranks, size),
                   each=show(constant(ADAM_BYTES) / ranks, _tenths))
    rows = [
        row for row in study.alike if row.values["ranks"] == ranks and row.state() and row.key("parameters") and (
            ranks == 1 or row.option("shard.strategy") == "zero3")
    ]
    if not rows:
        return Claim(expected, formula, NOTHING, UNKNOWN)
    row = next((row for row in rows if row.values["parameters"] == GPT2_PARAMETERS), rows[0])
    each = row.state() / row.key("parameters")
    measured = text("{row}, {parameters} parameters: {each} bytes of each, {gradients} of them gradients{steps}",
                    row=name(row.name),
                    parameters=show(row.key("parameters"), whole),
                    each=show(each, _tenths),
                    gradients=show(row.memory("gradients", "planned") / row.key("parameters"), _tenths),
                    steps=text(" (K = {steps})", steps=show(row.micro_steps, whole)) if row.micro_steps else "")
    holds = _verdict(each, 0.9 * claimed.value, 1.1 *
                     claimed.value) if row.values["parameters"] == GPT2_PARAMETERS else UNKNOWN
    return Claim(expected, formula, measured, holds)


def zero3_memory(study: Study) -> Claim:
    """40 to 60% less memory than zero2, and where that can hold. The best pair for each W and K; the best of all is judged."""
    expected = text("zero3 needs 40 to 60% less memory than zero2.")
    pairs = [(a, b) for a, b in _pairs(study, "zero2", "zero3") if a.key("memory_planned") and b.key("memory_planned")]
    rule = (
        "at most b/(b + 16/W) = W/(W + 16/b) of the state, b bytes of a gathered parameter. Activations lower it, and sums of gradients, which "
        "grow with K; so does K = 1, where zero2 also gives units back in backward")
    if not pairs:
        return Claim(expected, text(rule), NOTHING, UNKNOWN)
    saved = [(constant(1) - b.key("memory_planned") / a.key("memory_planned"), a, b) for a, b in pairs]
    best, _, b = max(saved, key=lambda entry: entry[0].value)
    element, ranks = b.element_bytes("compute"), b.ranks
    formula = text(rule)
    if element:
        bound = ranks / (ranks + constant(ADAM_BYTES) / element)
        low, high = (constant(ADAM_BYTES) / element * constant(limit) / (constant(1) - constant(limit))
                     for limit in (0.4, 0.6))
        formula = text("{rule}. For W = {ranks} at most {bound}. It can hold from W = {low} on; above W = {high} the bound is over 60%",
                       rule=rule,
                       bound=show(bound, percent),
                       ranks=show(ranks, whole),
                       low=show(low, plain),
                       high=show(high, plain))
    best_of: dict[tuple[float, float], tuple[Quantity, Traced, Traced]] = {}
    for entry in sorted(saved, key=lambda entry: entry[0].value):
        best_of[entry[2].ranks.value, _steps(entry[2])] = entry
    parts = [
        text("{b} {share} less than {a}{settings}",
             a=name(a.name),
             b=name(b.name),
             share=show(share, percent),
             settings=text(" (W = {ranks}, K = {steps})",
                           ranks=show(b.ranks, whole),
                           steps=show(b.micro_steps, whole)) if b.micro_steps else "")
        for _, (share, a, b) in sorted(best_of.items(), key=lambda entry: entry[0])
    ]
    return Claim(expected, formula, text("planned: {parts}", parts=join(parts, ", ")), _verdict(best, 0.4, 0.6))


def _steps(row: Traced) -> float:
    return row.micro_steps.value if row.micro_steps else 1


def zero3_volume(study: Study) -> Claim:
    """2 to 3 times the communication."""
    expected = text("zero3 communicates 2 to 3 times as much as zero2.")
    rule = "K·(2·b_p + b_r) / (K·b_r + b_p): 1.5 at K = 1, 2.4 at K = 4, below 3 for every K (b_p = b_r)"
    pairs = [(a, b) for a, b in _pairs(study, "zero2", "zero3") if a.sent() and b.sent() and a.sent().value]
    if not pairs:
        return Claim(expected, text(rule), NOTHING, UNKNOWN)
    by_steps: dict[float, tuple[Traced, Traced]] = {}
    for a, b in pairs:
        by_steps.setdefault(_steps(b), (a, b))
    ratios = [(b.sent() / a.sent(), a, b) for _, (a, b) in sorted(by_steps.items())]
    ratio, a, b = ratios[-1]
    formula: Html = text(rule)
    steps, gathered, reduced = b.micro_steps, b.element_bytes("compute"), b.element_bytes("reduce")
    if steps and gathered and reduced:
        here = steps * (gathered * 2 + reduced) / (steps * reduced + gathered)
        formula = text("{rule}; {here} with K = {steps}", rule=rule, here=show(here, times), steps=show(steps, whole))
    parts = [
        text("{a} to {b}: {ratio}{saved}", a=name(a.name), b=name(b.name), ratio=show(ratio, times), saved=_saved(b))
        for ratio, a, b in ratios
    ]
    return Claim(expected, formula, join(parts, ", "), _verdict(ratio, 2.0, 3.0))


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
    pairs = [(a, b, b.key("tokens_per_second") / a.key("tokens_per_second")) for a, b in _pairs(study, "ddp", "zero3")]
    if not pairs:
        return Claim(expected, formula, NOTHING, UNKNOWN)
    parts = [text("{b}: {share}", b=name(b.name), share=show(ratio, percent)) for _, b, ratio in pairs[:6]]
    missed = [
        side for side, is_it in (("above", any(ratio.value > 0.95 for _, _, ratio in pairs)),
                                 ("below", any(ratio.value < 0.85 for _, _, ratio in pairs))) if is_it
    ]
    return Claim(expected, formula, Html(", ".join(parts)), f"{NO} ({', '.join(missed)})" if missed else YES)


def utilization(study: Study) -> Claim:
    """Utilization over 70%."""
    expected = text("GPU utilization is over 70%.")
    formula = text("share of the time in which a kernel runs: 1 − exposed − data")
    measured = [(row, row.mean_utilization()) for row in study.trained if row.mean_utilization()]
    if measured:
        row, least = min(measured, key=lambda pair: pair[1].value)
        return Claim(expected, formula,
                     text("lowest in {row}: {share} by the driver", row=name(row.name), share=show(least, percent)),
                     _verdict(least, 0.7, 1.0))
    busy = [(row, constant(1) - row.key("exposed_share") - row.key("data_share"))
            for row in study.trained
            if row.key("exposed_share") and row.key("data_share")]
    if not busy:
        return Claim(expected, formula, text("no GPU measured it"), UNKNOWN)
    row, least = min(busy, key=lambda pair: pair[1].value)
    return Claim(
        expected, formula,
        text("no GPU measured it; on cores compute takes {share} of the time in {row}, the lowest",
             share=show(least, percent),
             row=name(row.name)), UNKNOWN)


def data_share(study: Study) -> Claim:
    """Data under 10%."""
    expected = text("Reading data takes less than 10% of the time.")
    rows = [row for row in study.trained if row.key("data_share")]
    formula = text("time for reading / time of a step")
    if not rows:
        return Claim(expected, formula, text("not measured"), UNKNOWN)
    worst = max(rows, key=lambda row: row.values["data_share"])
    return Claim(expected, formula,
                 text("highest in {row}: {share}", row=name(worst.name), share=show(worst.key("data_share"), percent)),
                 _verdict(worst.key("data_share"), 0.0, 0.1))


def start_up(study: Study) -> Claim:
    """Set-up in 10 to 30 s."""
    expected = text("Setting up takes 10 to 30 s.")
    rows = [row for row in study.trained if row.key("startup_seconds")]
    formula = text("from the start of the program to the end of the first step")
    if not rows:
        return Claim(expected, formula, text("not measured"), UNKNOWN)
    slowest = largest([row.key("startup_seconds") for row in rows])
    return Claim(expected, formula, text("longest: {seconds}", seconds=show(slowest, duration)),
                 _verdict(slowest, 10, 30))


CLAIMS: list[Callable[[Study], Claim]] = [
    lambda study: state_shrinks(study, 4), lambda study: state_shrinks(study, 8),
    *(lambda study, ranks=ranks: folklore_bytes(study, ranks) for ranks in FOLKLORE_GB), zero3_memory, zero3_volume,
    share_of_ddp, utilization, data_share, start_up
]


def claims(study: Study) -> list[Claim]:
    return [claim(study) for claim in CLAIMS]
