"""A step as it was measured on two ranks, below its planned order: drawn from the trace of run.trace."""
from __future__ import annotations

from pathlib import Path
from typing import Optional

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from ...errors import Unreadable
from ...trace_file import Span, Trace, read_trace, trace_files
from .. import svg
from ..quantity import name, text
from ..study import Study
from .panel import Panel, drawn, unit_of
from .timeline import COLOURS, HEAD

WIDTH = 10.0  # inches
QUEUES = ("data", "load", "gather", "compute", "reduce", "replica", "store", "host")
WAIT = "#d62728"
MOST = 4  # pictures in a report
LABEL = 0.0085  # of the picture's width for a letter
PLAN = "plan"
GAPS = "In gaps compute neither runs nor waits for an operation: other processes have its core."
GAPS_OF_ONE_THREAD = "One thread plays all queues (run.queues = serial), so that compute waits in its gaps for the operations of others."
MEMORY = {"parameters": "#009E73", "gradients": "#0072B2", "optimizer state": "#bba9da", "gathered units": "#56B4E9",
          "activations": "#E69F00", "communication": "#D55E00", "workspace": "#999999"}


def newest_trace(runs: list[Path]) -> Optional[Trace]:
    """The trace of the latest steps of some runs' folders; None where there is none. Unreadable if it is damaged."""
    paths = [path for run in runs for path in trace_files(run)]
    return read_trace(paths[-1]) if paths else None


def measured_timelines(study: Study) -> tuple[list[Panel], list[str]]:
    """A picture for each row that has a trace; and why a trace gave none."""
    panels, problems = [], []
    for row in study.trained:
        if len(panels) == MOST:
            break
        try:
            trace = newest_trace(row.row.entry.runs)
        except Unreadable as error:
            problems.append(str(error))
            continue
        if trace is None:
            continue
        caption = text(
            "The last step of the newest trace of {row}, on the first ranks. Red: compute waits. The plan above has each "
            "operation as early as its queue and its waits allow, as long as on the rank where it was shortest. {gaps} Below: bytes "
            "in use on the first rank, as planned.", row=name(row.name), gaps=GAPS_OF_ONE_THREAD if trace.queues == "serial" else GAPS)
        panels.append(drawn(draw_trace(trace), f"trace-{len(panels) + 1}", f"A step as measured: {row.name}", caption, wide=True))
    return panels, problems


def draw_trace(trace: Trace, ranks: tuple[int, ...] = (0, 1)) -> Figure:
    """The last step, a line for each queue; the caller has set svg.STYLE."""
    step = trace.steps[1]
    lines = {PLAN: trace.planned[step]}
    lines |= {f"rank {rank}": trace.measured[rank, step] for rank in ranks if (rank, step) in trace.measured}
    everything = [span for spans in lines.values() for span in spans]
    begin, end = min(span.begin for span in everything), max(span.end for span in everything)
    queues = [queue for queue in QUEUES if any(span.queue == queue for span in everything)]
    scale, unit = (1e3, "ms") if end - begin < 2 else (1.0, "s")
    figure, panels = svg.figure(0.6 + 0.26 * len(queues) * len(lines) + 1.2, lines=len(lines) + 1, width=WIDTH,
                                sharex=True, gridspec_kw={"height_ratios": [len(queues) + 0.6] * len(lines) + [4]})
    for axes, (title, spans) in zip(panels, lines.items()):
        draw_queues(axes, title, spans, queues, begin, scale, end - begin)
    _memory(panels[-1], trace, begin, end, scale)
    panels[-1].set_xlim(0, scale * (end - begin))
    panels[-1].set_xlabel(f"{unit} since the begin of step {step}")
    for kind in dict.fromkeys(_kind(span) for span in everything):
        panels[0].add_patch(Rectangle((0, 0), 0, 0, color=_colour(kind)[0], label="compute waits" if kind == "wait" else kind))
    svg.legend(figure, panels[0])
    return figure


def _kind(span: Span) -> str:
    if span.name == HEAD:
        return HEAD
    return span.kind if span.kind == "wait" or span.kind in COLOURS else "other"


def _colour(kind: str) -> tuple[str, str]:
    return (WAIT, "white") if kind == "wait" else COLOURS[kind]


def draw_queues(axes: Axes, title: str, spans: list[Span], queues: list[str], begin: float, scale: float, whole: float) -> None:
    """A line of boxes for each queue; `whole` is the width of the picture in seconds."""
    height = {queue: len(queues) - 1 - line for line, queue in enumerate(queues)}
    for queue in queues:
        axes.axhline(height[queue], color="#edf0f2", linewidth=8, zorder=0, solid_capstyle="butt")
    for span in spans:
        fill, ink = _colour(_kind(span))
        length, wait = span.end - span.begin, span.kind == "wait"
        axes.add_patch(Rectangle((scale * (span.begin - begin), height[span.queue] - (0.2 if wait else 0.36)),
                                 scale * length, 0.4 if wait else 0.72, facecolor=fill,
                                 edgecolor="none" if wait else "white", linewidth=0.25, zorder=3))
        label = span.name.split()[-1]
        if not wait and length / whole > LABEL * len(label):
            axes.text(scale * (0.5 * (span.begin + span.end) - begin), height[span.queue] - 0.02, label, ha="center",
                      va="center", fontsize=6.3, color=ink, zorder=4)
    axes.set_ylim(-0.6, len(queues) - 0.4)
    axes.set_yticks([height[queue] for queue in queues], queues)
    axes.tick_params(length=0)
    for spine in axes.spines.values():
        spine.set_visible(False)
    axes.set_title(title, fontsize=9.5, fontweight="bold", loc="left", pad=2)


def _memory(axes: Axes, trace: Trace, begin: float, end: float, scale: float) -> None:
    """Bytes in use on rank 0 during the step, stacked; each value holds until the next."""
    points = [(time, sizes) for time, sizes in trace.memory.get(0, ()) if begin <= time <= end]
    if not points:
        return
    times = [scale * (time - begin) for time, _ in points] + [scale * (end - begin)]
    most = max(sum(sizes.values()) for _, sizes in points)
    unit, size = unit_of(most)
    stacked = [[sizes.get(category, 0) / size for _, sizes in (*points, points[-1])] for category in MEMORY]
    axes.stackplot(times, stacked, colors=list(MEMORY.values()), labels=list(MEMORY), alpha=0.55, step="post", linewidth=0)
    axes.set_ylim(0, 1.08 * most / size)
    axes.legend(loc="lower left", bbox_to_anchor=(0, 1), ncol=len(MEMORY), fontsize=7.5, handlelength=1.2, borderpad=0.1)
    axes.set_ylabel(f"{unit}, rank 0")
