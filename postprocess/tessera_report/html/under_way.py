"""How far a run is: in words, for a page of one run and for rows of a sweep that is not complete."""
from __future__ import annotations

import math
from typing import Optional

from .quantity import Html, Quantity, call, decimals, duration, join, name, number_of, short, show, text, whole
from .study import Study
from .traced import Traced


def _status(row: Traced, key: str) -> Optional[Quantity]:
    """A number in the status.json of its newest run."""
    value = row.row.entry.progress.get(key)
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)
    return call(value, "status", row.name, key) if is_number else None


def _steps(row: Traced) -> Html:
    step, steps = _status(row, "step"), _status(row, "steps")
    return text("step {step} of {steps}", step=show(step, whole), steps=show(steps, whole)) if step and steps else Html("")


def _figures(row: Traced) -> list[Html]:
    """Its losses and its speed so far."""
    found = [(row.key("final_loss"), "loss {number}", decimals), (row.key("final_validation_loss"), "validation loss {number}", decimals),
             (row.key("tokens_per_second"), "{number} tokens/s", short)]
    return [text(words, number=show(number, form)) for number, words, form in found if number]


def _left(row: Traced) -> list[Html]:
    step, steps, each = _status(row, "step"), _status(row, "steps"), row.key("step_seconds")
    return [text("about {left} of steps left", left=show((steps - step) * each, duration))] if step and steps and each else []


def state(row: Traced) -> Html:
    """What one row does, or how it ended."""
    status, quiet = row.values["status"], row.row.entry.quiet_seconds
    parts = [_steps(row), *(_left(row) if row.row.goes_on else []), *_figures(row)]
    if status == "running":
        age = text(", by data that are {age} old", age=show(call(quiet, "age", row.name), duration)) if quiet is not None else ""
        words = "says that it runs, but has written nothing for long" if "quiet" in row.values["flags"] else "is still running"
        start = text("{row} {words}{age}", row=name(row.name), words=words, age=age)
    else:
        words = {"done": "is done", "pending": "has not begun", None: "has left metrics"}.get(status, f"did not end: {status}")
        message = row.values["message"]
        start = text("{row} {words}{message}", row=name(row.name), words=words,
                     message=text(" ({message})", message=name(message.rstrip("."))) if message else "")
    parts = [part for part in parts if part]
    return text("{start}{parts}.", start=start, parts=text(": {parts}", parts=join(parts, ", ")) if parts else "")


def going_on(study: Study) -> list[Traced]:
    return [row for row in study.rows if row.row.goes_on]


def so_far(study: Study) -> list[Html]:
    """For the verdict on rows of which some still run or wait."""
    rows = going_on(study)
    return [text("So far: {rows} still run or wait.", rows=number_of([row.name for row in rows]))] if rows and len(study.rows) > 1 else []
