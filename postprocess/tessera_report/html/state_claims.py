"""Claims about training state and memory."""
from __future__ import annotations

from .claim import BETTER, NOTHING, UNKNOWN, Claim, hundredths, pairs, steps, verdict, verdict_of_all
from .quantity import Quantity, constant, join, name, percent, plain, show, size, tenths, text, whole
from .study import Study
from .traced import Traced

ADAM_BYTES = 16  # fp32 weight, gradient and two moments of a parameter
# A sharding study's figures for GPT-2 on 1, 4 and 8 GPUs, in GB, and that model's parameters. The first is its sum of
# parameters 0.5, gradients 0.5 and optimizer 2.0; the others are parts of it.
FOLKLORE_GB = {1: 3.0, 4: 0.75, 8: 0.37}
GPT2_PARAMETERS = 124_439_808


def state_shrinks(study: Study, ranks: int) -> Claim:
    """State divided by W: 4, 8. Judged without gradients, whose sums under accumulation differ with K; the measured peak,
    which holds activations too, stands next to it."""
    expected = text("Training state of zero3 on {ranks} ranks: ÷{ranks} of one rank's.", ranks=ranks)
    formula = text("parameters, gradients and two moments are sharded: {bytes}·P/W bytes, W = {ranks}", bytes=ADAM_BYTES, ranks=ranks)
    for row in _by_adamw(study):
        if row.option("shard.strategy") != "zero3" or row.values["ranks"] != ranks or row.state() is None:
            continue
        ones = [one for one in _by_adamw(study) if one.values["ranks"] == 1 and one.state() and one.values["parameters"] == row.values["parameters"]]
        if ones:
            one = min(ones, key=lambda one: one.option("train.micro_batch") != row.option("train.micro_batch"))
            ratio = one.at_rest() / row.at_rest()
            peak = text(", measured peak ÷{ratio}", ratio=show(one.key("memory_peak") / row.key("memory_peak"), hundredths)
                        ) if one.values["memory_peak"] and row.values["memory_peak"] else ""
            measured = text("{one} to {row}: parameters and moments ÷{ratio}; only they are judged. With gradients ÷{all}{peak}{copy}",
                            one=name(one.name), row=name(row.name), ratio=show(ratio, hundredths), peak=peak,
                            all=show(one.state() / row.state(), hundredths),
                            copy=f". One rank keeps a copy in {one.option('precision.compute')} too, which zero3 gathers" if _has_copy(one) else "")
            holds = f"{BETTER} (more)" if ratio.value > 1.1 * ranks else verdict(ratio, 0.9 * ranks, 1.1 * ranks)
            return Claim(expected, formula, measured, holds)
    return Claim(expected, formula, NOTHING, UNKNOWN)


def _by_adamw(study: Study) -> list[Traced]:
    """The rows that the claims are about: another optimizer keeps less than two moments of each element."""
    return [row for row in study.alike if row.option("optim.name") in (None, "adamw")]


def _has_copy(row: Traced) -> bool:
    """Parameters stay full in a 16-bit type, in addition to their fp32 masters."""
    return row.option("shard.strategy") in ("ddp", "zero1") and row.option("precision.compute") != "fp32"


def folklore_bytes(study: Study, ranks: int) -> Claim:
    """3.0, 0.75 and 0.37 GB for GPT-2, in bytes of a parameter. Judged on that model only, without what gradients take for
    a while: sums over micro-steps, and units that are not reduced yet."""
    claimed = constant(FOLKLORE_GB[ranks]) * 1_000_000_000 / GPT2_PARAMETERS
    expected = text("GPT-2 124M on {on}: {gb} GB of state per rank, {each} bytes a parameter.",
                    on="1 rank" if ranks == 1 else f"{ranks} ranks", gb=FOLKLORE_GB[ranks], each=show(claimed, tenths))
    parts = [show(constant(each) * GPT2_PARAMETERS / ranks, size) for each in (4, 4, 8, ADAM_BYTES)]
    formula = text("parameters {p} + gradients {g} + moments {m} = {total}, {each} bytes a parameter. The claim {is_of} 0.5 + 0.5 + 2.0 GB; "
                   "its optimizer, 2.0, should be 1.0: two moments of 4 bytes",
                   p=parts[0], g=parts[1], m=parts[2], total=parts[3], each=show(constant(ADAM_BYTES) / ranks, tenths),
                   is_of="is" if ranks == 1 else f"is 1/{ranks} of")
    rows = [row for row in _by_adamw(study) if row.values["ranks"] == ranks and row.state() and row.key("parameters") and
            (ranks == 1 or row.option("shard.strategy") == "zero3")]
    if not rows:
        return Claim(expected, formula, NOTHING, UNKNOWN)
    row = next((row for row in rows if row.values["parameters"] == GPT2_PARAMETERS), rows[0])
    each = (row.at_rest() + row.one_gradient()) / row.key("parameters")
    measured = text("{row}, {parameters} parameters: {each} bytes of each with one gradient{copy}. Sums and gradients that are not reduced yet take "
                    "up to {gradients} of each for a while{steps}",
                    row=name(row.name), parameters=show(row.key("parameters"), whole), each=show(each, tenths),
                    copy=f" and a copy in {row.option('precision.compute')}" if _has_copy(row) else "",
                    gradients=show(row.memory("gradients", "planned") / row.key("parameters"), tenths),
                    steps=text(" (K = {steps})", steps=show(row.micro_steps, whole)) if row.micro_steps else "")
    judged = row.values["parameters"] == GPT2_PARAMETERS
    return Claim(expected, formula, measured, verdict(each, 0.9 * claimed.value, 1.1 * claimed.value) if judged else UNKNOWN)


def zero1_half(study: Study) -> Claim:
    """ZeRO-1: moments from 8N to 8N/W bytes, and about half of the state."""
    expected = text("zero1 halves ddp's state: 8N bytes of the optimizer become 8N/W.")
    formula = text("(8 + 8/W)/16 in fp32: 75% for W = 2, 56% for W = 8, half for large W only. (6 + 12/W)/18 in bf16, where masters are sharded too: "
                   "half at W = 4")
    found = [((b.at_rest() + b.one_gradient()) / (a.at_rest() + a.one_gradient()), a, b)
             for a, b in pairs(study, "ddp", "zero1") if a.state() and b.state()]
    if not found:
        return Claim(expected, formula, NOTHING, UNKNOWN)
    parts = [text("{b} {share}, moments {before} to {after}", b=name(b.name), share=show(share, percent),
                  before=show(a.memory("optimizer_state", "planned"), size), after=show(b.memory("optimizer_state", "planned"), size))
             for share, a, b in found]
    holds = verdict_of_all([(share, "W", b.values["ranks"]) for share, _, b in found], 0.0, 0.55)
    return Claim(expected, formula, text("with one gradient: {parts}", parts=join(parts, ", ")), holds)


def zero3_memory(study: Study) -> Claim:
    """40 to 60% less memory than zero2, and where that can hold. The best pair for each W and K; the best of all is judged."""
    expected = text("zero3 needs 40 to 60% less memory than zero2.")
    rule = (
        "at most b/(b + 16/W) = W/(W + 16/b) of the state, b bytes of a gathered parameter. Activations lower it, and sums of gradients, which "
        "grow with K; so does K = 1, where zero2 also gives units back in backward")
    found = [(a, b) for a, b in pairs(study, "zero2", "zero3") if a.key("memory_planned") and b.key("memory_planned")]
    if not found:
        return Claim(expected, text(rule), NOTHING, UNKNOWN)
    saved = [(constant(1) - b.key("memory_planned") / a.key("memory_planned"), a, b) for a, b in found]
    best, _, b = max(saved, key=lambda entry: entry[0].value)
    element, ranks = b.element_bytes("compute"), b.ranks
    formula = text(rule)
    if element:
        bound = ranks / (ranks + constant(ADAM_BYTES) / element)
        low, high = (constant(ADAM_BYTES) / element * constant(limit) / (constant(1) - constant(limit)) for limit in (0.4, 0.6))
        formula = text("{rule}. For W = {ranks} at most {bound}. It can hold from W = {low} on; above W = {high} the bound is over 60%",
                       rule=rule, bound=show(bound, percent), ranks=show(ranks, whole), low=show(low, plain), high=show(high, plain))
    best_of: dict[tuple[float, float], tuple[Quantity, Traced, Traced]] = {}
    for entry in sorted(saved, key=lambda entry: entry[0].value):
        best_of[entry[2].ranks.value, steps(entry[2])] = entry
    parts = [
        text("{b} {share} less than {a}{settings}", a=name(a.name), b=name(b.name), share=show(share, percent),
             settings=text(" (W = {ranks}, K = {steps})", ranks=show(b.ranks, whole), steps=show(b.micro_steps, whole))
             if b.micro_steps else "") for _, (share, a, b) in sorted(best_of.items(), key=lambda entry: entry[0])
    ]
    return Claim(expected, formula, text("planned: {parts}", parts=join(parts, ", ")), verdict(best, 0.4, 0.6))
