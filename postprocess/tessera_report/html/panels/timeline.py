"""The step's timeline, drawn from the schedule that the run played (/schedule in metrics.h5).

Positions are by order and dependencies, not by time: a box starts once its queue is free and its waits have ended, and
every box is one column wide.
"""
from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch, Rectangle

from .. import svg
from ..quantity import Html, call, name, names, show, size, text, whole
from ..recommendation import recommend
from ..study import Study
from ..traced import Traced
from .panel import Panel, drawn

COLUMNS = 20  # of a phase at most
NARROWEST = 14  # columns
WIDTH = 11.0  # inches of so many columns
BLOCKS = 2  # columns shown at the begin of each phase, and as many at its end
AT_REST = "at rest"  # a line above the queues: a rank's share of each unit, which no operation makes
QUEUES = (AT_REST, "load", "gather", "compute", "reduce", "replica", "store", "host")
HEAD = "head+loss"
# Fill and letters of a box by the kind of operation.
COLOURS = {
    "share": ("#f3dcc8", "black"), "load": ("#8a6d3b", "white"), "store": ("#c9a66b", "black"), "gather": ("#56B4E9", "black"),
    "cast": ("#a6d8f2", "black"),
    "forward": ("#8fd0b5", "black"), HEAD: ("#F0E442", "black"), "recompute": ("#CC79A7", "black"),
    "backward": ("#0072B2", "white"), "reduce-scatter": ("#D55E00", "white"), "all-reduce": ("#E69F00", "black"),
    "norm": ("#d9dfe3", "black"), "update": ("#bba9da", "black"), "other": ("#c9cfd4", "black")
}
PARTS = ("share", "forward", "recompute", "backward", "update")  # kinds that say where a block stands in a phase
SUMS = ("reduce-scatter", "all-reduce", "accumulate", "norm")  # what follows backward
SHORT = {"accumulate": "add"}
MOST = 4  # timelines in a report


@dataclass
class Box:
    """An operation in its column, or the share of a unit."""

    operation: dict[str, Any]
    column: int

    @property
    def queue(self) -> str:
        return self.operation["queue"]

    @property
    def label(self) -> str:
        operation, kind = self.operation, self.operation["kind"]
        if kind == "share":
            return operation["name"]
        if kind in ("load", "clip") or operation["name"] == HEAD:
            return operation["name"].split()[-1] if kind == "load" else kind if kind == "clip" else HEAD
        what = operation["part"] or operation["unit"] or ""
        return what or kind if kind in COLOURS else f"{SHORT.get(kind, kind)} {what}".strip()


def timelines(study: Study) -> list[Panel]:
    """A picture for each strategy on several ranks: of zero3 first, of a row with prefetch, the recommended one, where there is
    one; without several ranks one picture."""
    rows = [row for row in study.trained if row.schedule and row.schedule["step"]]
    several = [row for row in rows if (row.values["ranks"] or 1) > 1]
    best = recommend(study).row

    def order(row: Traced) -> tuple[Any, ...]:
        return (row.schedule["strategy"] != "zero3", not gathers_ahead(row.schedule), row is not best, "model" in row.values["flags"],
                -len(row.schedule["units"]))

    ordered = sorted(several or rows, key=order)
    chosen: dict[str, Traced] = {}
    for row in ordered if several else ordered[:1]:
        chosen.setdefault(row.schedule["strategy"], row)
    return [_timeline(row) for row in list(chosen.values())[:MOST]]


def gathers_ahead(schedule: dict[str, Any]) -> bool:
    return any(schedule.get(f"prefetch_{way}") for way in ("forward", "backward"))


def place(operations: list[dict[str, Any]]) -> list[Box]:
    """Columns of a segment's operations: the first that is free in its queue and lies behind all waits."""
    free: dict[str, int] = {}
    end: dict[int, int] = {}
    boxes = []
    for operation in operations:
        queue = operation["queue"]
        waits = [*operation["waits"], *(after["operation"] for after in operation.get("after", ()))]
        column = max([free.get(queue, 0), *(end.get(wait, 0) for wait in waits)])
        free[queue] = end[operation["id"]] = column + 1
        boxes.append(Box(operation, column))
    return boxes


def phases(schedule: dict[str, Any]) -> list[tuple[str, list[Box]]]:
    """Boxes of init, forward, backward and optimizer: the micro-step that communicates most, and the update."""
    segments = [schedule["segments"][played["segment"]] for played in schedule["step"]]
    micro_steps = [segment for segment in segments if segment["role"] == "micro_step"]
    chosen = max(micro_steps, key=lambda segment: sum(operation["wire_bytes"] > 0 for operation in segment["operations"]))
    boxes = place(chosen["operations"])
    head = next((box.column for box in boxes if box.label == HEAD), None)
    first_backward = min((box.column for box in boxes if box.operation["kind"] == "backward"), default=None)
    border = head if head is not None else first_backward if first_backward is not None else len(boxes)
    found = [("init", _init(schedule)), ("forward", [box for box in boxes if box.column <= border]),
             ("backward", [box for box in boxes if box.column > border])]
    for segment in segments:
        if segment["role"] == "update":
            found.append(("optimizer", place(segment["operations"])))
    return [(phase, moved) for phase, boxes in found if (moved := _moved(boxes))]


def _init(schedule: dict[str, Any]) -> list[Box]:
    """A rank's share of each unit, filled before the first step, and the prologue that gathers what stays full."""
    shares = []
    for column, unit in enumerate(schedule["units"]):
        parts = unit["padded"] // unit["share"]
        name_of_share = unit["name"] + (f" 1/{parts}" if parts > 1 else "")
        shares.append(Box({"kind": "share", "queue": AT_REST, "name": name_of_share, "id": -1 - column, "waits": [],
                           "unit": unit["name"], "part": None}, column))
    played = [schedule["segments"][play["segment"]]["operations"] for play in schedule["prologue"]]
    return shares + [Box(box.operation, box.column + 1) for operations in played for box in place(operations)]


def _moved(boxes: list[Box]) -> list[Box]:
    """The boxes from column 0 on."""
    start = min((box.column for box in boxes), default=0)
    return [Box(box.operation, box.column - start) for box in boxes]


def shortened(boxes: list[Box], units: list[dict[str, Any]]) -> tuple[list[Box], list[int]]:
    """A phase without the columns between its first and last blocks, and without those at its end that only finish sums;
    and where dots stand for them."""
    owner = {part: unit["name"] for unit in units if unit["block"] for part in (unit["name"], *unit["parts"])}
    ends: dict[str, tuple[int, int]] = {}
    for box in boxes:
        block = owner.get(box.operation["part"] or box.operation["unit"])
        if block and box.operation["kind"] in PARTS:
            first, last = ends.get(block, (box.column, box.column))
            ends[block] = min(first, box.column), max(last, box.column)
    order = sorted(ends.values())
    end = max((box.column for box in boxes if box.operation["kind"] not in ("norm", "accumulate")), default=-1) + 1
    kept = sorted({box.column for box in boxes if box.column <= end})
    if len(order) > 2 * BLOCKS:
        kept = [column for column in kept if column <= order[BLOCKS - 1][1] or column >= order[-BLOCKS][0]]
    if len(kept) > COLUMNS:
        kept = kept[:COLUMNS // 2] + kept[-(COLUMNS // 2):]
    moved, dots = {}, []
    for before, column in zip([-1, *kept], kept):
        dots += [len(moved) + len(dots)] if column > before + 1 else []
        moved[column] = len(moved) + len(dots)
    dots += [len(moved) + len(dots)] if any(box.column > kept[-1] for box in boxes) else []
    return [Box(box.operation, moved[box.column]) for box in boxes if box.column in moved], dots


def draw_timeline(schedule: dict[str, Any]) -> Figure:
    """A line for each phase; the caller has set svg.STYLE."""
    parts = [(phase, *shortened(boxes, schedule["units"])) for phase, boxes in phases(schedule)]
    shown = [(phase, boxes) for phase, boxes, _ in parts]
    columns = max([NARROWEST] + [box.column + 1 for _, boxes in shown for box in boxes] + [dot + 1 for *_, dots in parts for dot in dots])
    width = WIDTH * (columns + 1) / (COLUMNS + 1)
    queues = {phase: [queue for queue in QUEUES if any(box.queue == queue for box in boxes)] for phase, boxes in shown}
    heights = [0.5 + len(queues[phase]) for phase, _ in shown]
    figure, panels = svg.figure(0.35 + 0.34 * sum(heights), lines=len(shown), width=width, squeeze=False, gridspec_kw={"height_ratios": heights})
    for axes, (phase, boxes, dots) in zip(panels.flat, parts):
        _phase(axes, phase, boxes, queues[phase], dots)
        axes.set_xlim(-0.05, columns + 0.4)
    for kind in dict.fromkeys(_kind(box.operation) for _, boxes in shown for box in boxes):
        panels.flat[0].add_patch(Rectangle((0, 0), 0, 0, color=COLOURS[kind][0], label=kind))
    svg.legend(figure, panels.flat[0])
    return figure


def _timeline(row: Traced) -> Panel:
    key = f"timeline-{row.schedule['strategy']}"
    title = f"Timeline of a step: {row.name}"
    return drawn(draw_timeline(row.schedule), key, title, _caption(row), wide=True)


def _caption(row: Traced) -> Html:
    schedule, shown = row.schedule, phases(row.schedule)
    operations, left = (sum(box.queue != AT_REST for boxes in lists for box in boxes)
                        for lists in ([boxes for _, boxes in shown], [shortened(boxes, schedule["units"])[0] for _, boxes in shown]))
    sums = [box.operation["unit"] for phase, boxes in shown if phase == "forward" for box in boxes
            if box.operation["kind"] in SUMS and box.operation["unit"]]
    micro_steps = schedule["accumulation"]
    gathers = any(box.operation["kind"] == "gather" for phase, boxes in shown if phase == "forward" for box in boxes)
    ahead = text(", prefetch {units}", units=show(row.planned("prefetch_forward"), whole)) if gathers else ""
    parts = [
        text("Drawn from the schedule that {row} played ({strategy}{ahead}). ",
             row=name(row.name), strategy=name(schedule["strategy"]), ahead=ahead),
        text(
            "Positions follow order and dependencies, not time. Lines are waits between queues; dashed: for prefetch or a limit. "
            "Init is no operation: each rank fills its own share of every unit. "
        )
    ]
    if micro_steps > 1:
        parts.append(text("One of {count} micro-steps is shown, the one that communicates most. ", count=show(row.planned("accumulation"), whole)))
    if sums:
        parts.append(text("Forward also reduces {units}: the last gradients of the micro-step before. ", units=names(list(dict.fromkeys(sums)))))
    if left < operations:
        parts.append(text("Dots stand for {cut} of {all} operations: blocks in the middle, or sums at the end. ",
                          cut=show(call(operations - left, "cut_operations", row.name), whole),
                          all=show(call(operations, "drawn_operations", row.name), whole)))
    sent = row.planned("wire_bytes_per_step")
    if sent:
        parts.append(text("A rank sends {bytes} a step.", bytes=show(sent, size)))
    return Html("".join(parts))


def _kind(operation: dict[str, Any]) -> str:
    if operation["name"] == HEAD:
        return HEAD
    return operation["kind"] if operation["kind"] in COLOURS else "other"


def _phase(axes: Axes, phase: str, boxes: list[Box], queues: list[str], dots: list[int]) -> None:
    """One line of the picture: a queue below another, boxes in columns, and dots in other columns."""
    height = {queue: len(queues) - 1 - line for line, queue in enumerate(queues)}
    for queue in queues:
        axes.axhline(height[queue], color="#edf0f2", linewidth=9, zorder=0, solid_capstyle="butt")
    where = {box.operation["id"]: box for box in boxes}
    waited: dict[tuple[str, str], int] = {}  # the last operation of another queue that a queue has waited for
    for box in boxes:
        fill, ink = COLOURS[_kind(box.operation)]
        axes.add_patch(FancyBboxPatch((box.column + 0.06, height[box.queue] - 0.31), 0.88, 0.62,
                                      boxstyle="round,pad=0,rounding_size=0.08", facecolor=fill, edgecolor="none", zorder=3))
        axes.text(box.column + 0.5, height[box.queue] - 0.02, _fitted(box.label), ha="center", va="center",
                  fontsize=7 if len(box.label) < 8 else 5.6, color=ink, zorder=4)
        reasons = {after["operation"] for after in box.operation.get("after", ())}
        for wait in sorted({*box.operation["waits"], *reasons}):
            if wait in where and where[wait].queue != box.queue and wait > waited.get((box.queue, where[wait].queue), -1):
                waited[box.queue, where[wait].queue] = wait
                _wait(axes, where[wait], box, height, wait in reasons)
    axes.set_ylim(-0.6, len(queues) - 0.4)
    for column in dots:
        axes.text(column + 0.5, height.get("compute", len(queues) - 1), "…", ha="center", va="center", fontsize=11)
    axes.set_yticks([height[queue] for queue in queues], queues)
    axes.set_xticks([])
    axes.tick_params(length=0)
    for spine in axes.spines.values():
        spine.set_visible(False)
    axes.set_title(phase, fontsize=9.5, fontweight="bold")


def _wait(axes: Axes, before: Box, after: Box, height: dict[str, int], asked: bool) -> None:
    """A line from the end of one box to the start of the one that waits for it."""
    axes.plot([before.column + 0.94, after.column + 0.06], [height[before.queue], height[after.queue]], color="#7b8790",
              linewidth=0.8, linestyle=(0, (2, 1.5)) if asked else "-", zorder=2)


def _fitted(label: str) -> str:
    return label if len(label) <= 10 else label[:9] + "…"
