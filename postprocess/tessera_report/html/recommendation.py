"""Which row to take, by rules that the report prints."""
from __future__ import annotations

from dataclasses import dataclass, field
from typing import Optional

from .quantity import Html, Quantity, escaped, join, name, optional, short, show, size, text
from .quartiles import crowding, doubts, overlap
from .study import Study
from .traced import Traced, link_text

LINK = "comm.emulate"
REPEATS = 4  # more tell no more
RULES = [
    "A row is eligible if it fitted, ended, kept finite losses, and trained the baseline's model on its data, in sequences "
    "as long, over collectives that comm.emulate slowed no more and no less.",
    "Its speed must be reliable: no more threads than cores, no other row at the same time on its host, and quartiles of "
    "tokens/s at most a fifth of the median apart.",
    "Nothing is decided where a row that is only too noisy, or was not alone, might be the fastest: where its upper quartile "
    "reaches the lower quartile of the fastest eligible row.",
    "The fastest is the eligible row with the highest median of tokens/s.",
    "A row whose quartiles of tokens/s overlap the fastest row's is tied with it.",
    "Of the tied rows the one with the least memory is recommended: the measured peak where all of them have one, "
    "else the planned memory; of equals the faster.",
]


@dataclass
class Recommendation:
    """The row to take, None where none is; the reasons of rows that are not taken by name. `doubtful` are rows that only
    their measurement keeps from being eligible, the fastest first."""

    row: Optional[Traced]
    doubtful: list[Traced] = field(default_factory=list)
    tied: list[str] = field(default_factory=list)
    reasons: dict[str, Html] = field(default_factory=dict)
    memory_key: str = "memory_peak"


def recommend(study: Study) -> Recommendation:
    """Applies RULES."""
    result = Recommendation(None)
    if len(study.rows) == 1:
        return result
    eligible = []
    for row in study.rows:
        reason = _not_eligible(row, study.baseline)
        if reason is None and (reasons := doubts(row)):
            result.doubtful.append(row)
            reason = text("Its speed is not reliable: {reasons}.", reasons=join(reasons, ", and "))
        if reason is None:
            eligible.append(row)
        else:
            result.reasons[row.name] = reason
    result.doubtful.sort(key=_rate, reverse=True)
    fastest = max(eligible, key=_rate, default=None)
    if fastest is None or any(_might_win(row, fastest) for row in result.doubtful):
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


def _not_eligible(row: Traced, baseline: Optional[Traced]) -> Optional[Html]:
    values = row.values
    if values["status"] == "does-not-fit":
        return text("It does not fit{message}.", message=_message(row))
    if values["status"] in ("skipped", "pending"):
        return text("It was not run: {status}{message}.", status=values["status"], message=_message(row))
    if values["status"] not in (None, "done"):
        return text("It did not end: {status}{message}.", status=values["status"], message=_message(row))
    if values["tokens_per_second"] is None:
        return text("It measures no training.")
    if "nan" in values["flags"]:
        return text("A loss is not finite.")
    if "model" in values["flags"]:
        return text("It trains another model than the baseline.")
    if "data" in values["flags"]:
        return text("It trains on other data than the baseline.")
    if "sequence" in values["flags"]:
        return text("Its sequences are not as long as the baseline's: {option}.", option=_option(row, "train.seq_len"))
    if (row.emulated or baseline and baseline.emulated) and row.option(LINK) != baseline.option(LINK):
        return text("Its collectives are slowed otherwise than the baseline's: {option}.", option=_option(row, LINK))
    return None


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
        ratio=show(ratio, lambda value: f"{value:.2f}x"),
        fastest=name(fastest.name),
        high=show(row.key("tokens_per_second_q3"), short),
        low=show(fastest.key("tokens_per_second_q1"), short))


def sentence(result: Recommendation) -> Html:
    """The recommendation in words."""
    if result.row is None and not result.doubtful:
        return text("No row is eligible, so none is recommended." if result.reasons else "There is one row, so there is nothing to choose.")
    if result.row is None and all(crowding(row) for row in result.doubtful):
        return text("Not decided: {reason}, and so it is with every row that could be taken. Repeat with a core for each thread.",
                    reason=doubts(result.doubtful[0])[0])
    if result.row is None:
        worst = max((row for row in result.doubtful if not crowding(row)), key=lambda row: row.values["tokens_per_second_q3"])
        repeated = (worst.values["repeats"] or 1) >= REPEATS
        how = text("on a quieter machine") if repeated else text("with {option}", option=name(f"--sweep.repeat={REPEATS}"))
        return text("Not decided: repeat {how}. {reason}, and it might be the fastest row.",
                    how=how, reason=Html(escaped(doubts(worst)[0]).replace("the q", "The q", 1)))
    row = result.row
    memory = row.key(result.memory_key)
    link = text(" over collectives slowed by {option}", option=_option(row, LINK)) if row.emulated else ""
    start = text("Take {row}: {rate} tokens/s{link}", row=name(row.name), rate=show(row.key("tokens_per_second"), short), link=link)
    with_memory = text(
        " with {memory} of {kind} memory per rank",
        memory=show(memory, size),
        kind="measured peak" if result.memory_key == "memory_peak" else "planned") if memory else Html("")
    if len(result.tied) == 1:
        return text("{start}{memory}. No other row's quartiles overlap it.", start=start, memory=with_memory)
    others = [one for one in result.tied if one != row.name]
    return text("{start}{memory}. It is the smallest of the rows tied for the fastest: {others}.", start=start,
                memory=with_memory, others=Html(", ".join([name(row.name), *map(name, others)])))
