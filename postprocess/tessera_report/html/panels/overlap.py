"""How much prefetch hides and takes, and where it cannot help: rows that differ in prefetch and batch only."""
from __future__ import annotations

from dataclasses import dataclass
from typing import Optional, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ...errors import Unreadable
from ...rows import Row
from ...trace_file import Span
from .. import svg
from ..quantity import Html, name, optional, percent, show, size, text, whole
from ..study import BATCH, Study, groups
from ..traced import Traced, emulated_link
from .measured import draw_queues, newest_trace
from .panel import Panel, drawn, unit_of

PREFETCH = {"shard.prefetch_forward", "shard.prefetch_backward", "shard.limit_all_gathers"}
WIDTH = 9.4  # inches


@dataclass
class Point:
    """A row: how many units it gathers ahead, tokens of a rank's micro-batch, the share of a step that is exposed."""

    row: Traced
    depth: int
    tokens: int

    @property
    def share(self) -> float:
        return self.row.values["exposed_share"]


def exposed_over_prefetch(study: Study) -> Optional[Panel]:
    """The exposed share of one micro-batch, a bar for each number of units gathered ahead, with the memory that they take."""
    points = several_batches(study.sound)
    if not points:
        return None
    figure, axes = svg.figure(2.5)
    _draw_depths(axes, at_one_batch(points))
    caption = text(
        "Exposed: the part of a step in which compute waits for communication. Below each share: the planned peak of gathered "
        "units, prefetch's price.")
    return drawn(figure, "overlap", "Exposed communication against prefetch", caption, *_numbers(at_one_batch(points)))


def exposed_over_batch(study: Study) -> Optional[Panel]:
    """The exposed share against the tokens of a micro-batch, a curve for each number of units gathered ahead."""
    points = several_batches(study.sound)
    if not points:
        return None
    figure, axes = svg.figure(2.5)
    _draw_tokens(axes, points)
    svg.legend(figure, axes)
    caption = text(
        "The exposed share of a step over the tokens of a rank's micro-batch.{dotted}",
        dotted=" Dotted: the tokens at which a block's forward takes as long as its gather over the emulated link; with fewer, "
        "prefetch can hide a part only." if hidden_from(points) else "")
    return drawn(figure, "overlap-batch", "Exposed communication against the batch", caption, *_numbers(points))


def _numbers(points: Sequence[Point]) -> tuple[list[str], list[list[Html]]]:
    """Head and cells of the points."""
    return ["row", "units ahead", "tokens a step", "exposed", "gathered units"], [[
        name(point.row.name), show(point.row.attribute("/config/shard.prefetch_forward"), whole), show(point.row.tokens_per_step, whole),
        show(point.row.key("exposed_share"), percent), optional(point.row.memory("gathered_units", "planned"), size)
    ] for point in points]


def several_batches(rows: Sequence[Traced]) -> list[Point]:
    """Comparable rows, where there are two sizes of a micro-batch: one alone makes no curve."""
    points = comparable(rows)
    return points if len({point.tokens for point in points}) > 1 else []


def comparable(rows: Sequence[Traced]) -> list[Point]:
    """The largest group of rows that differ in prefetch and batch only and have both prefetch 0 and more; else none."""
    ready = [row for row in rows if row.values["exposed_share"] is not None and (row.values["ranks"] or 1) > 1]
    found = [[point for row in group if (point := _point(row))] for group in groups(ready, PREFETCH | BATCH | {"train.seq_len"}, "ranks")]
    found = [list({(p.tokens, p.depth): p for p in reversed(group)}.values()) for group in found]  # the first of equal ones
    found = [group for group in found if any(p.depth == 0 for p in group) and any(p.depth > 0 for p in group)]
    found.sort(key=lambda group: (len({p.tokens for p in group}) > 1, len(group), max(p.share for p in group)))
    return sorted(found[-1] if found else [], key=lambda p: (p.tokens, p.depth))


def traced_overlap(study: Study) -> Optional[Figure]:
    points = several_batches(study.sound)
    return draw_overlap(points) if points else None


def draw_overlap(points: Sequence[Point]) -> Figure:
    """Two traced steps over their bars and curves; the caller has set svg.STYLE."""
    shown = at_one_batch(points)
    traced = [(point, spans) for point in shown[:2] if (spans := _last_step(point.row.row))]
    figure = Figure(figsize=(WIDTH, 2.9 + 1.25 * len(traced)), layout="constrained")
    grid = figure.add_gridspec(1 + len(traced), 2, height_ratios=[*([1.0] * len(traced)), 2.1])
    longest = max((spans[-1].end - spans[0].begin for _, spans in traced), default=0.0)
    for place, (point, spans) in enumerate(traced):
        axes = figure.add_subplot(grid[place, :])
        draw_queues(axes, f"{_named(point.depth)}: {100 * point.share:.0f}% of the step exposed", spans, ["gather", "compute", "reduce"],
                    spans[0].begin, 1e3, longest)
        axes.set_xlim(0, 1e3 * longest)
        if place == len(traced) - 1:
            axes.set_xlabel(f"ms of a step, rank 0, {shown[0].tokens} tokens a micro-batch; red: compute waits")
    _draw_depths(figure.add_subplot(grid[-1, 0]), shown)
    right = figure.add_subplot(grid[-1, 1])
    _draw_tokens(right, points)
    right.legend(loc="lower left", bbox_to_anchor=(0, 1), ncol=2, borderaxespad=0.2)
    return figure


def hidden_from(points: Sequence[Point]) -> Optional[float]:
    """Tokens of a micro-batch at which a block's forward takes as long as its gather over the emulated link.

    t_forward(T) = t_gather: 2 u T / X = latency + b u (F-1) / (F B), for u parameters of b bytes over F ranks. Both are
    taken from the run: forward from the times of steps, by blocks; the gather from its bytes and comm.emulate. Between
    two measured T the time is a power of T. None where no measured T is on either side.
    """
    least = min((point.depth for point in points if point.depth > 0), default=0)
    longer = [(point.tokens, ratio) for point in points if point.depth == least and (ratio := _forward_over_gather(point.row))]
    for (tokens, ratio), (further, larger) in zip(longer, longer[1:]):
        if ratio < 1 <= larger and tokens < further:
            along = np.log(1 / ratio) / np.log(larger / ratio)
            return float(np.exp(np.log(tokens) + along * np.log(further / tokens)))
    return None


def _point(row: Traced) -> Optional[Point]:
    ahead, batch, length = (row.option(key) for key in ("shard.prefetch_forward", "train.micro_batch", "train.seq_len"))
    if ahead is None or ahead != row.option("shard.prefetch_backward") or not batch or not length:
        return None
    return Point(row, int(ahead), int(batch) * int(length))


def at_one_batch(points: Sequence[Point]) -> list[Point]:
    """One row per depth, for the tokens with the most depths (the fewest tokens if there are several)."""
    by_tokens: dict[int, dict[int, Point]] = {}
    for point in points:
        by_tokens.setdefault(point.tokens, {}).setdefault(point.depth, point)
    candidates = [line for line in by_tokens.values() if 0 in line] or list(by_tokens.values())
    line = max(candidates, key=len)
    return [line[depth] for depth in sorted(line)]


def _last_step(row: Row) -> list[Span]:
    """The last traced step on rank 0; nothing where there is no good trace."""
    try:
        trace = newest_trace(row.entry.runs)
    except Unreadable:
        return []
    spans = trace.measured.get((0, trace.steps[1]), []) if trace else []
    return sorted((span for span in spans if span.queue in ("gather", "compute", "reduce")), key=lambda span: (span.begin, span.end))


def _named(depth: int) -> str:
    return "no prefetch" if depth == 0 else f"{depth} unit{'s' if depth > 1 else ''} ahead"


def _draw_depths(axes: Axes, line: Sequence[Point]) -> None:
    """Bars of the exposed share by depth, with the memory of gathered units."""
    places = np.arange(len(line))
    memory = [(amount.value if (amount := point.row.memory("gathered_units", "planned")) else 0.0) for point in line]
    unit, scale = unit_of(max(memory) or 1.0)
    axes.bar(places, [100 * point.share for point in line], 0.6, color=[svg.BASELINE if p.depth == 0 else svg.OTHERS for p in line])
    for place, point, amount in zip(places, line, memory):
        axes.annotate(f"{100 * point.share:.0f}%\n{amount / scale:.3g} {unit}", (place, 100 * point.share), xytext=(0, 2),
                      textcoords="offset points", ha="center", va="bottom", fontsize=8)
    axes.set_ylim(0, 135 * max(point.share for point in line) or 1.0)
    axes.set_xticks(places, [_named(point.depth) for point in line])
    axes.tick_params(axis="x", length=0)
    axes.set_ylabel("% of a step exposed")
    axes.set_title(f"{line[0].tokens} tokens: exposed, and bytes of gathered units")


def _draw_tokens(axes: Axes, points: Sequence[Point]) -> None:
    """Curves of the exposed share over the tokens of a micro-batch, one per depth."""
    for place, depth in enumerate(sorted({point.depth for point in points})):
        line = [point for point in points if point.depth == depth]
        axes.plot([p.tokens for p in line], [100 * p.share for p in line], label=_named(depth), marker="o", markersize=3.5,
                  linewidth=1.2, **svg.style_of(place))
    threshold = hidden_from(points)
    if threshold:
        axes.axvline(threshold, linestyle=":", color=svg.FAINT, linewidth=1)
        axes.annotate(f" forward = gather at {threshold:.0f} tokens", (threshold, 0.99), xycoords=("data", "axes fraction"), va="top",
                      fontsize=8, color=svg.FAINT)
    every = sorted({point.tokens for point in points})
    axes.set_xscale("log", base=2)
    axes.set_xticks(every, [str(tokens) for tokens in every])
    axes.minorticks_off()
    axes.set_ylim(bottom=0)
    axes.set_xlabel("tokens of a micro-batch")
    axes.set_ylabel("% of a step exposed")
    axes.grid()


def _forward_over_gather(row: Traced) -> Optional[float]:
    """How much longer a block's forward takes than its gather over the emulated link; None where the row cannot tell.

    Forward holds embedding and head too, so blocks count by their share of what forward reads of the parameters.
    """
    schedule, link, forward = row.schedule, emulated_link(row.option("comm.emulate") or "none"), row.times("forward")
    if not schedule or not link or not forward:
        return None
    blocks = [unit for unit in schedule["units"] if unit["block"] and unit["parts"]]
    sent = [op["wire_bytes"] for segment in schedule["segments"] if segment["role"] == "micro_step"
            for op in segment["operations"] if op["kind"] == "gather" and op["unit"] in {unit["name"] for unit in blocks}]
    if not blocks or not sent:
        return None
    latency, rate = link
    gather = latency + (max(sent) / rate if rate else 0.0)
    largest = max(unit["elements"] for unit in blocks)
    everything = sum(unit["elements"] for unit in schedule["units"])
    return forward.value * largest / everything / schedule["accumulation"] / gather if gather > 0 else None
