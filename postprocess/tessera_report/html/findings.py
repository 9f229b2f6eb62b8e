"""Findings: each a function of the study that returns a sentence, or None where its condition does not hold."""
from __future__ import annotations

from typing import Callable, Optional

import numpy as np

from .quantity import (Html, Quantity, call, constant, counted, decimals, duration, name, names, percent, scientific, show, size,
                       text, times, whole)
from .panels.scaling import strong_groups, weak_groups
from .study import Study, differing
from .traced import Traced

PRECISION = {"precision.compute", "precision.reduce"}
NOISY = 0.15  # of the median: distance of the quartiles
WAITS = 0.2  # of the time: exposed communication
DATA = 0.1  # of the time: reading
APART = 0.15  # planned and measured memory


def fastest(study: Study) -> Optional[Html]:
    """The fastest row of the baseline's model against the baseline."""
    rows = [row for row in study.alike if row is not study.baseline and row.done]
    if study.baseline is None or not rows or not study.baseline.done:
        return None
    best = max(rows, key=lambda row: row.values["tokens_per_second"])
    ratio = study.speedup(best)
    if ratio is None or ratio.value <= 1:
        return text("No row is faster than the baseline {base}: the next, {row}, reaches {ratio} of its tokens/s.",
                    base=name(study.baseline.name), row=name(best.name), ratio=show(ratio, times)) if ratio else None
    return text("{row} is the fastest row, {ratio} as fast as the baseline {base}.", row=name(best.name), ratio=show(ratio, times),
                base=name(study.baseline.name))


def least_memory(study: Study) -> Optional[Html]:
    """The row with the least measured memory against the one with the most, of the baseline's model."""
    rows = [row for row in study.alike if row.key("memory_peak")]
    if len(rows) < 2:
        return None
    least, most = (choose(rows, key=lambda row: row.values["memory_peak"]) for choose in (min, max))
    ratio = most.key("memory_peak") / least.key("memory_peak") if least.values["memory_peak"] else None
    if ratio is None or ratio.value < 1.1:
        return None
    return text("{least} has the lowest peak of memory, {low} a rank; {most} needs {high}, {ratio} as much.", least=name(least.name),
                low=show(least.key("memory_peak"), size), most=name(most.name), high=show(most.key("memory_peak"), size), ratio=show(ratio, times))


def equal_losses(study: Study) -> Optional[Html]:
    """Rows whose losses are the baseline's to the last bit."""
    same = [row.name for row in same_tokens(study) if loss_difference(row, study.baseline).value == 0]
    if not same:
        return None
    return text("{rows} of {all} rows on the same tokens have the baseline's losses to the last bit at every step: {names}.",
                rows=show(counted(same), whole), all=show(counted([row.name for row in same_tokens(study)]), whole), names=names(same))


def near_losses(study: Study) -> Optional[Html]:
    """Rows on the same tokens in the baseline's precision whose losses are not the same bits: how far apart."""
    apart = [(row, difference) for row, difference in _apart(study) if not PRECISION & differing(row, study.baseline)]
    return _apart_text("In the baseline's precision", apart)


def other_precision(study: Study) -> Optional[Html]:
    """Rows on the same tokens in another precision: how far apart."""
    apart = [(row, difference) for row, difference in _apart(study) if PRECISION & differing(row, study.baseline)]
    return _apart_text("In another precision than the baseline's", apart)


def _apart(study: Study) -> list[tuple[Traced, Quantity]]:
    return [(row, difference) for row in same_tokens(study) if (difference := loss_difference(row, study.baseline)).value > 0]


def _apart_text(where: str, apart: list[tuple[Traced, Quantity]]) -> Optional[Html]:
    if not apart:
        return None
    row, worst = max(apart, key=lambda pair: pair[1].value)
    return text("{where} the losses of {count} rows on the same tokens differ from it; the most those of {row}, by at most {difference} nats at a step.",
                where=where, count=show(counted([row.name for row, _ in apart]), whole), row=name(row.name), difference=show(worst, scientific))


def same_tokens(study: Study, base: Optional[Traced] = None) -> list[Traced]:
    """Rows with the baseline's data, seed, model and batch that share steps with `base` (the baseline itself by default)."""
    base = base or study.baseline
    if base is None or not base.row.metrics or "loss" not in base.row.metrics.steps:
        return []
    return [row for row in study.alike if row is not base and not {"batch", "nan"} & set(row.values["flags"])
            and "loss" in row.row.metrics.steps and len(row.row.metrics.steps.index.intersection(base.row.metrics.steps.index))]


def loss_difference(row: Traced, base: Traced) -> Quantity:
    own, other = row.row.metrics.steps["loss"], base.row.metrics.steps["loss"]
    both = own.index.intersection(other.index)
    worst = np.abs(own[both].to_numpy(np.float64) - other[both].to_numpy(np.float64)).max()
    return call(worst, "largest_difference", row.name, base.name, "/steps/loss")


def waiting(study: Study) -> Optional[Html]:
    """Rows that wait for communication for long."""
    rows = [row for row in study.trained if (row.values["exposed_share"] or 0) > WAITS]
    if not rows:
        return None
    worst = max(rows, key=lambda row: row.values["exposed_share"])
    return text("{count} rows wait for communication for more than {limit} of the time; most {row}, {share}.",
                count=show(counted([row.name for row in rows]), whole), limit=show(constant(WAITS), _round), row=name(worst.name),
                share=show(worst.key("exposed_share"), percent))


def reading(study: Study) -> Optional[Html]:
    """Rows that read for long."""
    rows = [row for row in study.trained if (row.values["data_share"] or 0) > DATA]
    if not rows:
        return None
    worst = max(rows, key=lambda row: row.values["data_share"])
    return text("Reading the batch takes more than {limit} of the time in {names}; most in {row}, {share}.", limit=show(constant(DATA), _round),
                names=names([row.name for row in rows]), row=name(worst.name), share=show(worst.key("data_share"), percent))


def noise(study: Study) -> Optional[Html]:
    """Rows whose quartiles are far apart."""
    spread = [(row, (row.key("tokens_per_second_q3") - row.key("tokens_per_second_q1")) / row.key("tokens_per_second")) for row in study.trained
              if row.values["tokens_per_second"]]
    wide = [(row, value) for row, value in spread if value.value > NOISY]
    if not wide:
        return None
    row, worst = max(wide, key=lambda pair: pair[1].value)
    return text("Timings are noisy: in {count} of {all} rows the quartiles lie more than {limit} of the median apart, in {row} {share}. "
                "Speeds closer than that are not told apart.", count=show(counted([row.name for row, _ in wide]), whole),
                all=show(counted([row.name for row, _ in spread]), whole), limit=show(constant(NOISY), _round), row=name(row.name),
                share=show(worst, _round))


def volume(study: Study) -> Optional[Html]:
    """Whether the bytes counted are the schedule's."""
    rows = [row for row in study.trained if row.planned("wire_bytes_per_step") and _counted(row)]
    if not rows:
        return None
    apart = [row for row in rows if abs(_counted(row).value - row.planned("wire_bytes_per_step").value) > 0.5]
    if apart:
        row = apart[0]
        return text("{row} sent {counted} a step, its schedule says {planned}: {count} of {all} rows differ from their plan.", row=name(row.name),
                    counted=show(_counted(row), size), planned=show(row.planned("wire_bytes_per_step"), size),
                    count=show(counted([row.name for row in apart]), whole), all=show(counted([row.name for row in rows]), whole))
    return text("All {all} rows on several ranks sent exactly the bytes that their schedule says.", all=show(counted([row.name for row in rows]), whole))


def _counted(row: Traced) -> Optional[Quantity]:
    """Bytes of a step without the reduction of scalars, which the formula leaves out."""
    sent = row.sent()
    scalars = [entry["bytes"] for entry in (row.schedule or {}).get("collectives", ()) if not entry["in_formula"]]
    if sent is None or sent.value == 0:
        return None
    return sent - call(sum(scalars), "scalar_bytes", row.name)


def plan_and_memory(study: Study) -> Optional[Html]:
    """Rows that measured more memory than planned."""
    rows = [(row, row.key("memory_peak") / row.key("memory_planned")) for row in study.alike
            if row.values["memory_peak"] and row.values["memory_planned"]]
    over = [(row, ratio) for row, ratio in rows if ratio.value > 1 + APART]
    if not over:
        return None
    row, worst = max(over, key=lambda pair: pair[1].value)
    return text("{count} of {all} rows measured over {limit} more memory than planned; most {row}, {ratio}: {peak} against {planned}. The peak "
                "counts the whole process, libraries included.", count=show(counted([row.name for row, _ in over]), whole),
                all=show(counted([row.name for row, _ in rows]), whole), limit=show(constant(APART), _round), row=name(row.name),
                ratio=show(worst, times), peak=show(row.key("memory_peak"), size), planned=show(row.key("memory_planned"), size))


def not_ended(study: Study) -> Optional[Html]:
    """Rows without a result."""
    rows = [row.name for row in study.rows if row.values["status"] not in (None, "done")]
    if not rows:
        return None
    return text("{count} of {all} rows have no result: {names}.", count=show(counted(rows), whole),
                all=show(counted([row.name for row in study.rows]), whole), names=names(rows))


def loss_stands(study: Study) -> Optional[Html]:
    """Rows whose last loss is not below their first."""
    rows = [row for row in study.trained if row.values["final_loss"] is not None and row.row.metrics.steps["loss"].iloc[0] <= row.values["final_loss"]]
    if not rows:
        return None
    first = call(rows[0].row.metrics.steps["loss"].iloc[0], "first", rows[0].name, "/steps/loss")
    return text("The loss did not fall in {names}: in {row} from {first} to {last}.", names=names([row.name for row in rows]), row=name(rows[0].name),
                first=show(first, decimals), last=show(rows[0].key("final_loss"), decimals))


def _pair(study: Study, options: set[str], key: str, words: str) -> Optional[Html]:
    """What one option does to speed and memory, in the pair of rows with the largest change of speed."""
    pairs = [(a, b, b.key("tokens_per_second") / a.key("tokens_per_second")) for a, b in study.pairs(options, key)]
    if not pairs:
        return None
    a, b, ratio = max(pairs, key=lambda pair: abs(np.log(pair[2].value)))
    memory = ""
    if a.values["memory_planned"] and b.values["memory_planned"]:
        memory = text(" and plans {ratio} of its memory", ratio=show(b.key("memory_planned") / a.key("memory_planned"), times))
    return text("{words}: {b} ({own}) trains at {ratio} of the speed of {a} ({other}){memory}.", words=words, b=name(b.name), own=_setting(b, key),
                ratio=show(ratio, times), a=name(a.name), other=_setting(a, key), memory=memory)


def _setting(row: Traced, key: str) -> Html:
    return name(f"{key} = {row.option(key)}")


def prefetch(study: Study) -> Optional[Html]:
    return _pair(study, {"shard.prefetch_forward", "shard.prefetch_backward"}, "shard.prefetch_forward", "Prefetch")


def reshard(study: Study) -> Optional[Html]:
    options = {"shard.reshard_after_forward", "shard.prefetch_backward", "shard.limit_all_gathers"}
    return _pair(study, options, "shard.reshard_after_forward", "Reshard after forward")


def checkpointing(study: Study) -> Optional[Html]:
    return _pair(study, {"memory.checkpoint"}, "memory.checkpoint", "Activation checkpointing")


def gather_limit(study: Study) -> Optional[Html]:
    return _pair(study, {"shard.limit_all_gathers"}, "shard.limit_all_gathers", "The limit of gathered units")


def strong_scaling(study: Study) -> Optional[Html]:
    """The best speed-up on the most ranks."""
    found = strong_groups(study)
    if not found:
        return None
    group = max(found, key=lambda group: (group[-1].values["ranks"], group[-1].values["tokens_per_second"] / group[0].values["tokens_per_second"]))
    ratio = group[-1].key("tokens_per_second") / group[0].key("tokens_per_second")
    return text("Strong scaling: from {few} to {many} ranks {last} is {ratio} as fast as {first}.", few=show(group[0].ranks, whole),
                many=show(group[-1].ranks, whole), last=name(group[-1].name), ratio=show(ratio, times), first=name(group[0].name))


def weak_scaling(study: Study) -> Optional[Html]:
    """The efficiency on the most ranks."""
    found = weak_groups(study)
    if not found:
        return None
    group = max(found, key=lambda group: group[-1].values["ranks"])
    first, last = (row.key("tokens_per_second") * row.flops_per_token / row.ranks for row in (group[0], group[-1]))
    return text("Weak scaling: on {many} ranks {row} keeps {share} of the FLOP/s that a rank has in {first}.", many=show(group[-1].ranks, whole),
                row=name(group[-1].name), share=show(last / first, percent), first=name(group[0].name))


def busy_machine(study: Study) -> Optional[Html]:
    """Rows that began on a loaded machine."""
    rows = [row for row in study.trained if (row.values["load_average_start"] or 0) > max(2.0, 1.5 * (row.values["ranks"] or 1))]
    if not rows:
        return None
    worst = max(rows, key=lambda row: row.values["load_average_start"])
    return text("The machine was busy: {count} rows began at a load average above their ranks, {row} at {load}.",
                count=show(counted([row.name for row in rows]), whole), row=name(worst.name),
                load=show(worst.attribute("/provenance/load_average_start"), lambda value: f"{value:.1f}"))


def start_up(study: Study) -> Optional[Html]:
    """The slowest start, where it takes longer than ten steps."""
    rows = [row for row in study.trained if row.values["startup_seconds"] and row.values["step_seconds"] and
            row.values["startup_seconds"] > 10 * row.values["step_seconds"]]
    if not rows:
        return None
    worst = max(rows, key=lambda row: row.values["startup_seconds"])
    return text("Setting up takes longest in {row}: {seconds}, the time of {steps} steps.", row=name(worst.name),
                seconds=show(worst.key("startup_seconds"), duration), steps=show(worst.key("startup_seconds") / worst.key("step_seconds"), whole))


def _round(value: float) -> str:
    return f"{value:.0%}"


FINDINGS: list[Callable[[Study], Optional[Html]]] = [
    not_ended, fastest, least_memory, equal_losses, near_losses, other_precision, loss_stands, strong_scaling, weak_scaling, waiting, reading, prefetch, reshard,
    checkpointing, gather_limit, volume, plan_and_memory, start_up, noise, busy_machine]


def find(study: Study) -> list[Html]:
    """All findings whose conditions hold."""
    return [found for finding in FINDINGS if (found := finding(study)) is not None]

