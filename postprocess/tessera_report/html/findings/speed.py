"""Findings on speed, waiting and noise."""
from __future__ import annotations

from typing import Optional

from ..panels.scaling import strong_groups, weak_groups
from ..quantity import Html, call, constant, duration, join, name, number_of, out_of, percent, rounded, show, text, times, whole
from ..quartiles import Doubt, caveat, reasons, unsure
from ..study import Study
from ..traced import Traced

WAITS = 0.2  # of the time: exposed communication
DATA = 0.1  # of the time: reading


def fastest(study: Study) -> Optional[Html]:
    """The fastest row of the baseline's model against the baseline, and their types where these differ."""
    rows = [row for row in study.alike if row is not study.baseline and row.done]
    if study.baseline is None or not rows or not study.baseline.done:
        return None
    best = max(rows, key=lambda row: row.values["tokens_per_second"])
    among = study.among(lambda row: row.done and row.values["tokens_per_second"] > best.values["tokens_per_second"])
    ratio = study.speedup(best)
    if ratio is None or ratio.value <= 1:
        return text("{none} is faster than the baseline {base}: the next, {row}, reaches {ratio} of its tokens/s{unsure}.",
                    none=text("None{among}", among=among) if among else "No row",
                    base=name(study.baseline.name), row=name(best.name), ratio=show(ratio, times),
                    unsure=unsure(best, study.baseline)) if ratio else None
    own, other = (row.option("precision.compute") for row in (best, study.baseline))
    types = text(" ({own} against {other})", own=own, other=other) if own and other and own != other else ""
    return text("{row} is the fastest{among}, {ratio} as fast as the baseline {base}{types}{unsure}.", row=name(best.name),
                among=among or " row",
                ratio=show(ratio, times), base=name(study.baseline.name), types=types, unsure=unsure(best, study.baseline))


def strong_scaling(study: Study) -> Optional[Html]:
    """The best speed-up on the most ranks."""
    found = strong_groups(study)
    if not found:
        return None
    group = max(found, key=lambda group: (group[-1].values["ranks"], group[-1].values["tokens_per_second"] / group[0].values["tokens_per_second"]))
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
    return text("Weak scaling: on {many} ranks {row} keeps {share} of the FLOP/s, six for each parameter and token, that a rank has in {first}{caveat}.",
                many=show(group[-1].ranks, whole), row=name(group[-1].name), share=show(last / first, percent),
                first=name(group[0].name), caveat=caveat(group[0], group[-1]))


def _takes_long(study: Study, what: str, key: str, limit: float) -> Optional[Html]:
    """Rows of the baseline's model in which a share of the time is above a limit."""
    rows = [row for row in study.sound if "model" not in row.values["flags"] and (row.values[key] or 0) > limit]
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
    for row in study.sound:
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
        "waits least.", row=name(row.name), rank=show(call(rank, "max", names_rank), whole), count=show(call(count, "size", names_rank), whole),
        all=show(call(reports, "size", call(reports, "measured", row.name, "/ranks/report")), whole))


def start_up(study: Study) -> Optional[Html]:
    """The slowest start, where it takes longer than ten steps."""
    rows = [
        row for row in study.sound
        if "model" not in row.values["flags"] and row.values["startup_seconds"] and row.values["step_seconds"] and row.values["startup_seconds"] > 10 *
        row.values["step_seconds"]
    ]
    if not rows:
        return None
    worst = max(rows, key=lambda row: row.values["startup_seconds"])
    return text("Setting up takes longest in {row}: {seconds}, the time of {steps} steps{caveat}.",
                row=name(worst.name), caveat=caveat(worst), seconds=show(worst.key("startup_seconds"), duration),
                steps=show(worst.key("startup_seconds") / worst.key("step_seconds"), whole))


def unreliable(study: Study) -> Optional[Html]:
    """Rows whose speeds decide nothing, by the kinds of doubts, and the worst of each kind."""
    kinds: dict[str, list[tuple[Traced, Doubt]]] = {}
    for row in study.rows if len(study.rows) > 1 else ():
        for one in reasons(row):
            kinds.setdefault(one.kind, []).append((row, one))
    if not kinds:
        return None
    parts = [text("{rows} {kind} (most: {why})", rows=number_of([row.name for row, _ in found]), kind=kind,
                  why=max(found, key=lambda pair: pair[1].size)[1].why) for kind, found in kinds.items()]
    rows = {row.name for found in kinds.values() for row, _ in found}
    return text("Speeds of {rows} are not reliable and decide nothing: {parts}.",
                rows=out_of(sorted(rows), [row.name for row in study.rows]), parts=join(parts, "; "))
