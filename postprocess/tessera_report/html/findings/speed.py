"""Findings on speed, waiting and noise."""
from __future__ import annotations

from typing import Optional

from ..panels.scaling import strong_groups, weak_groups
from ..quantity import (Html, call, constant, counted, duration, name, names, number_of, percent, show, text, times, whole,
                        rounded)
from ..quartiles import SPREAD, caveat, crowding, spread, unsure
from ..study import Study

WAITS = 0.2  # of the time: exposed communication
DATA = 0.1  # of the time: reading


def fastest(study: Study) -> Optional[Html]:
    """The fastest row of the baseline's model against the baseline."""
    rows = [row for row in study.alike if row is not study.baseline and row.done]
    if study.baseline is None or not rows or not study.baseline.done:
        return None
    best = max(rows, key=lambda row: row.values["tokens_per_second"])
    ratio = study.speedup(best)
    if ratio is None or ratio.value <= 1:
        return text("No row is faster than the baseline {base}: the next, {row}, reaches {ratio} of its tokens/s{unsure}.",
                    base=name(study.baseline.name),
                    row=name(best.name),
                    ratio=show(ratio, times),
                    unsure=unsure(best, study.baseline)) if ratio else None
    return text("{row} is the fastest row, {ratio} as fast as the baseline {base}{unsure}.", row=name(best.name),
                ratio=show(ratio, times), base=name(study.baseline.name), unsure=unsure(best, study.baseline))


def strong_scaling(study: Study) -> Optional[Html]:
    """The best speed-up on the most ranks."""
    found = strong_groups(study)
    if not found:
        return None
    group = max(
        found,
        key=lambda group:
        (group[-1].values["ranks"], group[-1].values["tokens_per_second"] / group[0].values["tokens_per_second"]))
    ratio = group[-1].key("tokens_per_second") / group[0].key("tokens_per_second")
    return text("Strong scaling: from {few} to {many} ranks {last} is {ratio} as fast as {first}{unsure}.",
                few=show(group[0].ranks, whole), many=show(group[-1].ranks, whole), last=name(group[-1].name),
                ratio=show(ratio, times), first=name(group[0].name), unsure=unsure(group[0], group[-1]))


def weak_scaling(study: Study) -> Optional[Html]:
    """The efficiency on the most ranks."""
    found = weak_groups(study)
    if not found:
        return None
    group = max(found, key=lambda group: group[-1].values["ranks"])
    first, last = (row.key("tokens_per_second") * row.flops_per_token / row.ranks for row in (group[0], group[-1]))
    return text("Weak scaling: on {many} ranks {row} keeps {share} of the FLOP/s that a rank has in {first}{caveat}.",
                many=show(group[-1].ranks, whole), row=name(group[-1].name), share=show(last / first, percent),
                first=name(group[0].name), caveat=caveat(group[0], group[-1]))


def _takes_long(study: Study, what: str, key: str, limit: float) -> Optional[Html]:
    """Rows of the baseline's model in which a share of the time is above a limit."""
    rows = [row for row in study.trained if "model" not in row.values["flags"] and (row.values[key] or 0) > limit]
    if not rows:
        return None
    worst = max(rows, key=lambda row: row.values[key])
    return text("{what} takes more than {limit} of the time in {rows}; most in {row}, {share}{caveat}.", what=what,
                limit=show(constant(limit), rounded), rows=number_of([row.name for row in rows]), row=name(worst.name),
                share=show(worst.key(key), percent), caveat=caveat(worst))


def waiting(study: Study) -> Optional[Html]:
    """Rows that wait for communication for long."""
    return _takes_long(study, "Exposed communication", "exposed_share", WAITS)


def reading(study: Study) -> Optional[Html]:
    """Rows that read for long."""
    return _takes_long(study, "Reading the batch", "data_share", DATA)


def straggler(study: Study) -> Optional[Html]:
    """The row in which most reports name a rank that slows the others down, one and the same."""
    found = []
    for row in study.trained:
        attempts = [one for metrics in row.row.repeats for one in metrics.ranks]
        named = [rank for one in attempts for rank in one.get("straggler", ()) if rank >= 0]
        reports = sum(len(one.get("straggler", ())) for one in attempts)
        if named and len(set(named)) == 1 and 2 * len(named) > reports:
            found.append((len(named) / reports, row, int(named[0]), len(named), reports))
    if not found:
        return None
    _, row, rank, count, reports = max(found, key=lambda one: one[0])
    names_rank = call(rank, "measured", row.name, "/ranks/straggler")
    return text(
        "In {row} rank {rank} is slowing the others down: {count} of {all} reports name it, because it computes and reads longest and "
        "waits least.",
        row=name(row.name),
        rank=show(call(rank, "max", names_rank), whole),
        count=show(call(count, "size", names_rank), whole),
        all=show(call(reports, "size", call(reports, "measured", row.name, "/ranks/report")), whole))


def start_up(study: Study) -> Optional[Html]:
    """The slowest start, where it takes longer than ten steps."""
    rows = [
        row for row in study.trained
        if "model" not in row.values["flags"] and row.values["startup_seconds"] and row.values["step_seconds"] and row.values["startup_seconds"] > 10 *
        row.values["step_seconds"]
    ]
    if not rows:
        return None
    worst = max(rows, key=lambda row: row.values["startup_seconds"])
    return text("Setting up takes longest in {row}: {seconds}, the time of {steps} steps{caveat}.",
                row=name(worst.name), caveat=caveat(worst), seconds=show(worst.key("startup_seconds"), duration),
                steps=show(worst.key("startup_seconds") / worst.key("step_seconds"), whole))


def noise(study: Study) -> Optional[Html]:
    """Rows whose quartiles are far apart."""
    spreads = [(row, apart) for row in study.trained if (apart := spread(row))]
    wide = [(row, apart) for row, apart in spreads if apart.value > SPREAD]
    if not wide:
        return None
    row, worst = max(wide, key=lambda pair: pair[1].value)
    return text(
        "Timings are noisy: in {count} of {all} rows the quartiles lie more than {limit} of the median apart, in {row} {share}. "
        "Such rows decide nothing.",
        count=show(counted([row.name for row, _ in wide]), whole),
        all=show(counted([row.name for row, _ in spreads]), whole),
        limit=show(constant(SPREAD), rounded),
        row=name(row.name),
        share=show(worst, rounded))


def crowded(study: Study) -> Optional[Html]:
    """Rows with more threads that compute than cores: ranks wait for each other."""
    rows = [(row, *found) for row in study.trained if (found := crowding(row))]
    if not rows:
        return None
    row, threads, cores = max(rows, key=lambda one: one[1].value / one[2].value)
    return text(
        "{rows} had more compute threads than cores, most {row}: {threads} on {cores}. Their ranks wait for each other, so "
        "their speeds say nothing about scaling.",
        rows=number_of([one.name for one, _, _ in rows]),
        row=name(row.name),
        threads=show(threads, whole),
        cores=show(cores, whole))


def overlapped(study: Study) -> Optional[Html]:
    """Rows that ran at the same time on one host."""
    rows = [row for row in study.rows if row.row.together]
    if not rows:
        return None
    most = max(rows, key=lambda row: len(row.row.together))
    return text("{rows} did not have their hosts to themselves: by the times of status.json {row} ran at the same time as {others}.",
                rows=number_of([row.name for row in rows]),
                row=name(most.name),
                others=names(most.row.together, 3))


def busy_machine(study: Study) -> Optional[Html]:
    """Rows that began on a loaded machine."""
    rows = [
        row for row in study.trained
        if (row.values["load_average_start"] or 0) > max(2.0, 1.5 * (row.values["ranks"] or 1))
    ]
    if not rows:
        return None
    worst = max(rows, key=lambda row: row.values["load_average_start"])
    return text("The machine was busy: {rows} began at a load average above the number of ranks, {row} at {load}.",
                rows=number_of([row.name for row in rows]), row=name(worst.name),
                load=show(worst.attribute("/provenance/load_average_start"), lambda value: f"{value:.1f}"))
