"""Findings on memory and on bytes sent."""
from __future__ import annotations

from typing import Optional

from ..quantity import Html, Quantity, call, counted, name, number_of, out_of, show, size, text, times
from ..study import Study
from ..traced import Traced

APART = 0.15  # planned and measured memory


def least_memory(study: Study) -> Optional[Html]:
    """The row with the least measured memory against the one with the most, of the baseline's model."""
    rows = [row for row in study.alike if row.key("memory_peak")]
    if len(rows) < 2:
        return None
    least, most = (choose(rows, key=lambda row: row.values["memory_peak"]) for choose in (min, max))
    ratio = most.key("memory_peak") / least.key("memory_peak") if least.values["memory_peak"] else None
    if ratio is None or ratio.value < 1.1:
        return None
    planned = [row for row in study.alike if row.key("memory_planned")]
    by_plan = min(planned, key=lambda row: row.values["memory_planned"], default=least)
    plan = text(" By plan {row} needs least, {bytes}: the rest of a peak is memory that the plan does not count.", row=name(by_plan.name),
                bytes=show(by_plan.key("memory_planned"), size)) if by_plan.values["memory_planned"] and _plans_more(least, by_plan) else ""
    among = study.among(lambda row: row.values["memory_peak"] and row.values["memory_peak"] < least.values["memory_peak"])
    return text("{least} has the lowest peak of memory{among}, {low} per rank; {most} needs {high}, {ratio} as much.{plan}",
                least=name(least.name), among=among, plan=plan, low=show(least.key("memory_peak"), size), most=name(most.name),
                high=show(most.key("memory_peak"), size), ratio=show(ratio, times))


def _plans_more(row: Traced, other: Traced) -> bool:
    return (row.values["memory_planned"] or 0) > other.values["memory_planned"]


def volume(study: Study) -> Optional[Html]:
    """Whether the bytes counted are the schedule's."""
    rows = [row for row in study.sound if row.planned("wire_bytes_per_step") and _counted(row)]
    if not rows:
        return None
    apart = [row for row in rows if abs(_counted(row).value - row.planned("wire_bytes_per_step").value) > 0.5]
    if apart:
        row = apart[0]
        return text(
            "{row} sent {counted} a step, its schedule says {planned}; {rows} sent other bytes than planned.", row=name(row.name),
            counted=show(_counted(row), size), planned=show(row.planned("wire_bytes_per_step"), size),
            rows=out_of([row.name for row in apart], [row.name for row in rows]))
    return text("{all} on several ranks: each sent exactly the bytes that its schedule says.", all=number_of([row.name for row in rows]))


def plan_and_memory(study: Study) -> Optional[Html]:
    """Rows that measured more memory than planned: how many bytes more, which libraries take whatever the model is."""
    rows = [(row, row.key("memory_peak") - row.key("memory_planned"))
            for row in study.alike
            if row.values["memory_peak"] and row.values["memory_planned"]]
    over = sorted(((row, more) for row, more in rows if more.value > APART * row.values["memory_planned"]), key=lambda pair: pair[1].value)
    if not over:
        return None
    return text(
        "{rows} measured more memory than planned, by {least} ({first}){most}: libraries and the process itself take memory "
        "that the plan does not count.", rows=out_of([row.name for row, _ in over], [row.name for row, _ in rows]), least=show(over[0][1], size), first=name(over[0][0].name),
        most=text(" to {more} per rank ({row})", more=show(over[-1][1], size), row=name(over[-1][0].name)) if len(over) > 1 else " per rank")


def _counted(row: Traced) -> Optional[Quantity]:
    """Bytes of a step without the reduction of scalars, which the formula leaves out."""
    sent = row.sent()
    scalars = [entry["bytes"] for entry in (row.schedule or {}).get("collectives", ()) if not entry["in_formula"]]
    if sent is None or sent.value == 0:
        return None
    return sent - call(sum(scalars), "scalar_bytes", row.name)
