"""Which row to take, by rules that the report prints."""
from __future__ import annotations

from dataclasses import dataclass, field
from typing import Optional

from .learning import Learning, learning, unlike, verdict
from .quantity import Html, Quantity, decimals, join, name, names, optional, short, show, size, text
from .quartiles import crowding, doubts, load_of_others, overlap
from .study import SEEDS, Study, differing
from .traced import Traced, link_text, starts_late

LINK = "comm.emulate"
REPEATS = 4  # more tell no more
RULES = [
    "A row is eligible if it fitted, ended, kept finite losses, and trained as the baseline does: its model, its data, its optimizer and, "
    "where it is given, its train.global_batch, in sequences as long, from the first step on and not fewer steps, over collectives that comm.emulate slowed no more and no less.",
    "Its speed must be reliable: no more threads than cores, no other work on its cores when it began (the load average, without what rows "
    "before it left), no other row at the same time on its host, and quartiles of tokens/s at most a fifth of the median apart.",
    "Nothing is decided where a row that is only too noisy, or was not alone, might be the fastest: where its upper quartile "
    "reaches the lower quartile of the fastest eligible row.", "The fastest is the eligible row with the highest median of tokens/s.",
    "A row whose quartiles of tokens/s overlap the fastest row's is tied with it.",
    "Of the tied rows the one with the least memory is recommended: the measured peak where all of them have one, "
    "else the planned memory; of equals the faster.",
]


@dataclass
class Recommendation:
    """The row to take, None where none is; the reasons of rows that are not taken by name. `doubtful` are rows that only
    their measurement keeps from being eligible, the fastest first. `learn`: rows that learn otherwise than `base`, without validation
    losses that would tell, where no other row could be compared with it. `learning`: by what the row was chosen instead of speed."""

    row: Optional[Traced]
    doubtful: list[Traced] = field(default_factory=list)
    tied: list[str] = field(default_factory=list)
    reasons: dict[str, Html] = field(default_factory=dict)
    memory_key: str = "memory_peak"
    base: Optional[Traced] = None
    learn: list[Traced] = field(default_factory=list)
    learning: Optional[Learning] = None


def recommend(study: Study) -> Recommendation:
    """By validation loss where rows learn differently, else by speed."""
    found = learning(study)
    return _by_loss(study, found) if found else _by_speed(study, study.rows)


def _by_loss(study: Study, found: Learning) -> Recommendation:
    """The setting with the lowest loss; by speed among its rows and tied settings, where these are more than seeds."""
    if len(found.settings) == 1:
        return Recommendation(None, learning=found)
    pool = [row for one in (found.settings[0], *found.tied) for row in one.rows]
    result = Recommendation(pool[0])
    if any(differing(row, pool[0]) - {*SEEDS} for row in pool):
        by_speed = _by_speed(study, pool, pool[0])
        result = by_speed if by_speed.row else result
    result.learning, taken = found, found.of(result.row)
    for row in study.rows:
        own = found.of(row)
        if row is result.row:
            continue
        if own is None:
            result.reasons[row.name] = _not_eligible(row, study.baseline, False) or text("It has no validation loss of the set that is compared.")
        elif own is not taken:
            result.reasons[row.name] = text("Validation loss {own} after {tokens} tokens{tied}; that of {best}: {loss}.", own=show(own.loss, decimals),
                                            tokens=show(found.tokens, short), best=name(result.row.name), loss=show(taken.loss, decimals),
                                            tied=", tied" if own is found.settings[0] or own in found.tied else "")
        else:
            result.reasons.setdefault(row.name, text("It has the same setting."))
    return result


def _by_speed(study: Study, rows: list[Traced], base: Optional[Traced] = None) -> Recommendation:
    """Applies RULES to some rows, which train as `base` does, by default the baseline."""
    result = Recommendation(None, base=base or study.baseline)
    if len(study.rows) == 1:
        return result
    eligible = []
    for row in rows:
        reason = _not_eligible(row, base or study.baseline, base is None)
        if base is None and reason is not None and row.done and study.baseline and unlike(row, study.baseline):
            result.learn.append(row)
        if reason is None and (reasons := doubts(row)):
            result.doubtful.append(row)
            reason = text("Its speed is not reliable: {reasons}.", reasons=join(reasons, ", and "))
        if reason is None:
            eligible.append(row)
        else:
            result.reasons[row.name] = reason
    result.doubtful.sort(key=_rate, reverse=True)
    result.learn = result.learn if len(eligible) + len(result.doubtful) < 2 else []
    fastest = max(eligible, key=_rate, default=None)
    if result.learn or fastest is None or any(_might_win(row, fastest) for row in result.doubtful):
        return result
    tied = [row for row in eligible if overlap(row, fastest)]
    if any(row.values["memory_peak"] is None for row in tied):
        result.memory_key = "memory_planned"
    result.row = min(tied, key=lambda row: (_memory(row, result.memory_key), -_rate(row)))
    result.tied = [row.name for row in tied]
    for row in eligible:
        if row is not result.row:
            result.reasons[row.name] = _lost(row, result.row, fastest, row in tied, result.memory_key)
    return result


def _rate(row: Traced) -> float:
    return row.values["tokens_per_second"]


def _might_win(row: Traced, fastest: Traced) -> bool:
    """Whether a better measurement could make the row the fastest. More threads than cores are not a matter of measuring."""
    return crowding(row) is None and row.values["tokens_per_second_q3"] >= fastest.values["tokens_per_second_q1"]


def _memory(row: Traced, key: str) -> float:
    return row.values[key] if row.values[key] is not None else float("inf")


def _not_eligible(row: Traced, baseline: Optional[Traced], alike: bool = True) -> Optional[Html]:
    """Why a row cannot be taken; `alike`: as one of those that train as the baseline does."""
    values = row.values
    if values["status"] == "does-not-fit":
        return text("It does not fit{message}.", message=_message(row))
    if values["status"] in ("skipped", "pending"):
        return text("It was not run: {status}{message}.", status=values["status"], message=_message(row))
    if values["status"] == "running":
        return text("It is still running." if row.row.goes_on else "It says that it runs, but has written nothing for long.")
    if values["status"] not in (None, "done"):
        return text("It did not end: {status}{message}.", status=values["status"], message=_message(row))
    if values["tokens_per_second"] is None:
        return text("It measures no training.")
    if "nan" in values["flags"]:
        return text("A loss is not finite.")
    if starts_late(row):
        return text("It started from a checkpoint.")
    if not alike:
        return None
    if "model" in values["flags"]:
        return text("It trains another model than the baseline.")
    if "data" in values["flags"]:
        return text("It trains on other data than the baseline.")
    if "sequence" in values["flags"]:
        return text("Its sequences are not as long as the baseline's: {option}.", option=_option(row, "train.seq_len"))
    if baseline and (options := unlike(row, baseline)):
        return text("It does not learn as the baseline does: {options}.", options=join([_option(row, key) for key in options[:2]], ", "))
    if baseline and _less(row, baseline, "steps") and _less(row, baseline, "tokens"):
        return text("It trained fewer steps than the baseline.")
    if (row.emulated or baseline and baseline.emulated) and row.option(LINK) != baseline.option(LINK):
        return text("Its collectives are slowed otherwise than the baseline's: {option}.", option=_option(row, LINK))
    return None


def _less(row: Traced, baseline: Traced, what: str) -> bool:
    own, other = (one.values["steps"] and one.values["steps"] * (1 if what == "steps" else one.values["tokens_per_step"] or 1) for one in (row, baseline))
    return bool(own and other and own < other)


def _option(row: Traced, key: str) -> Html:
    value = row.option(key)
    return name(f"{key} = {link_text(value) if key == LINK else value}")


def _message(row: Traced) -> Html:
    """The program's own words."""
    message = row.values["message"]
    return text(": {words}", words=name(message.rstrip("."))) if message else Html("")


def _lost(row: Traced, best: Traced, fastest: Traced, tied: bool, key: str) -> Html:
    """Why an eligible row is not the one."""
    if tied:
        more = row.key(key)
        if more is None:
            return text("Tied with the fastest, but its memory is not known.")
        return text("Tied with the fastest; needs {own}, {best} needs {other}.", own=show(more, size),
                    best=name(best.name), other=optional(best.key(key), size))
    ratio: Quantity = row.key("tokens_per_second") / fastest.key("tokens_per_second")
    return text(
        "Slower: {ratio} of the median of {fastest}; its upper quartile {high} is below the lower quartile {low}.",
        ratio=show(ratio, lambda value: f"{value:.2f}x"), fastest=name(fastest.name), high=show(row.key("tokens_per_second_q3"), short),
        low=show(fastest.key("tokens_per_second_q1"), short))


def sentence(result: Recommendation) -> Html:
    """The recommendation in words."""
    return join(sentences(result), " ")


def sentences(result: Recommendation) -> list[Html]:
    if result.learning:
        return verdict(result.learning, result.row)
    if result.row is not None:
        return [_taken(result)]
    if result.learn:
        options = sorted({key for row in result.learn for key in unlike(row, result.base)})
        return [text("Not decided: rows differ in {options}, and so in what they learn. Validation losses of one set decide that, and rows lack them: "
                     "see data.val_source, data.val_fraction, train.eval_every and train.eval_batches.", options=names(options, 3))]
    if not result.doubtful:
        return [text("No row is eligible, so none is recommended." if result.reasons else "There is one row, so there is nothing to choose.")]
    reason = doubts(result.doubtful[0])[0]
    if all(crowding(row) for row in result.doubtful):
        return [text("Not decided: {reason}, and so it is with every row that could be taken. Repeat with a core for each thread.", reason=reason)]
    worst = max((row for row in result.doubtful if not crowding(row)), key=lambda row: row.values["tokens_per_second_q3"])
    quiet = load_of_others(worst) or (worst.values["repeats"] or 1) >= REPEATS
    how = text("on a quieter machine") if quiet else text("with {option}", option=name(f"--sweep.repeat={REPEATS}"))
    reason = doubts(worst)[0]
    return [text("Not decided: repeat {how}. {reason}, and it might be the fastest row.", how=how,
                 reason=Html(reason if reason.startswith("<") else reason[0].upper() + reason[1:]))]


def _taken(result: Recommendation) -> Html:
    row = result.row
    memory = row.key(result.memory_key)
    link = text(" over collectives slowed by {option}", option=_option(row, LINK)) if row.emulated else ""
    start = text("Take {row}: {rate} tokens/s{link}", row=name(row.name), rate=show(row.key("tokens_per_second"), short), link=link)
    with_memory = text(
        " with {memory} of {kind} memory per rank", memory=show(memory, size),
        kind="measured peak" if result.memory_key == "memory_peak" else "planned") if memory else Html("")
    if len(result.tied) == 1:
        return text("{start}{memory}. No other row's quartiles overlap it.", start=start, memory=with_memory)
    others = [one for one in result.tied if one != row.name]
    return text("{start}{memory}. It is the smallest of the rows tied for the fastest: {others}.", start=start,
                memory=with_memory, others=Html(", ".join([name(row.name), *map(name, others)])))
