"""Pictures of the rows: throughput, losses, time of a step, memory, a step as planned and as measured, what
prefetch hides. The baseline comes first."""
from __future__ import annotations

import json
from pathlib import Path
from typing import Callable, Optional

import matplotlib
import numpy as np

matplotlib.use("Agg")  # no display needed
import matplotlib.pyplot as plt  # noqa: E402 (after the choice of the backend)
from matplotlib.figure import Figure  # noqa: E402

from .bench_file import is_bench_file  # noqa: E402
from .errors import Unreadable  # noqa: E402
from .measures import finite_column  # noqa: E402
from .rows import Row  # noqa: E402
from .table import count  # noqa: E402

# Okabe and Ito's colours, which differ for the colour-blind too.
COLOURS = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#8C8C00"]
LINES = ["-", "--", "-.", ":"]
# Of validation sets after the first: marker and word.
SET_MARKS = (("s", "square"), ("^", "triangle up"), ("D", "diamond"), ("v", "triangle down"), ("<", "triangle left"),
             (">", "triangle right"), ("p", "pentagon"), ("*", "star"))


def marks_of(rows: list[Row]) -> dict[str, tuple[str, str]]:
    """The mark of each validation set after the first, the same in every row."""
    names = dict.fromkeys(name for row in rows if row.metrics for name in row.metrics.further_sets)
    return {name: SET_MARKS[place % len(SET_MARKS)] for place, name in enumerate(names)}
BASELINE, OTHERS = "#595959", "#56B4E9"
# Categories of a step's time with colour and hatch; what waits for communication is hatched.
TIMES = {"data": ("#F0E442", ""), "forward": ("#56B4E9", ""), "recompute": ("#CC79A7", ""),
         "backward": ("#0072B2", ""), "optimizer": ("#009E73", ""), "exposed_gather": ("#D55E00", "////"),
         "exposed_reduce_scatter": ("#E69F00", "////"), "exposed_all_reduce": ("#999999", "////"),
         "exposed_other": ("#595959", "////")}
MEMORY = ["process", "parameters", "gradients", "optimizer_state", "gathered_units", "activations", "communication",
          "workspace"]
UNITS = [("GB", 1e9), ("MB", 1e6), ("kB", 1e3), ("B", 1.0)]
WIDTH, ROW_HEIGHT = 7.0, 0.36  # inches


def draw(rows: list[Row], baseline: Optional[Row], folder: Path, kind: str = "png") -> tuple[list[Path], list[str]]:
    """Writes the pictures for which there are data. Returns the files, and a sentence for each left out."""
    ordered = [row for row in rows if row is baseline] + [row for row in rows if row is not baseline]
    pictures: dict[str, Callable[[list[Row], Optional[Row]], Optional[Figure]]] = {
        "throughput": _throughput, "loss": _losses, "time": _times, "memory": _memory,
        "timeline": _timeline, "trace": _trace, "overlap": _overlap, "bandwidth": _bandwidth}
    empty = [row.name for row in rows if not row.repeats and not is_bench_file(row.entry.path)]
    written, left_out = [], [f"not in them, without metrics: {', '.join(empty)}"] if empty else []
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, picture in pictures.items():
            path, why = folder / f"{name}.{kind}", "no row has data for it"
            try:
                figure = picture(ordered, baseline)
            except Unreadable as error:
                figure, why = None, str(error)
            if figure is None:
                path.unlink(missing_ok=True)  # an older picture would pass for one of these rows
                left_out.append(f"{path.name} is left out: {why}")
                continue
            figure.savefig(path, dpi=150)
            plt.close(figure)
            written.append(path)
    except OSError as error:
        raise Unreadable(f"cannot write plots into {folder} ({error.strerror or error})") from error
    return written, left_out


def _width(rows: list[Row]) -> float:
    """Inches: wider for long names."""
    return WIDTH + 0.08 * max(0, max(len(row.name) for row in rows) - 12)


def _bars(rows: list[Row]) -> tuple[Figure, plt.Axes]:
    figure, axes = plt.subplots(figsize=(_width(rows), 1.3 + ROW_HEIGHT * len(rows)), constrained_layout=True)
    axes.set_yticks(range(len(rows)))
    axes.set_yticklabels([row.name for row in rows])
    axes.set_ylim(len(rows) - 0.4, -0.6)
    axes.grid(axis="x", alpha=0.3)
    axes.set_axisbelow(True)
    axes.set_ylabel("row")
    return figure, axes


def _throughput(rows: list[Row], baseline: Optional[Row]) -> Optional[Figure]:
    """Median tokens/s with quartiles and speed-ups."""
    rows = [row for row in rows if row.values["tokens_per_second"] is not None]
    if not rows:
        return None
    figure, axes = _bars(rows)
    for place, row in enumerate(rows):
        values = row.values
        rate, low, high = (values[f"tokens_per_second{end}"] for end in ("", "_q1", "_q3"))
        axes.barh(place, rate, 0.7, color=BASELINE if row is baseline else OTHERS)
        axes.errorbar(rate, place, xerr=[[rate - low], [high - rate]], color="black", linewidth=1, capsize=3)
        text = f" {count(rate)}"
        if values["speedup"] is not None and "model" not in values["flags"] and len(rows) > 1:
            text += f" ({values['speedup']:.2f}x)"
        axes.annotate(text, (max(rate, high), place), xytext=(3, 0), textcoords="offset points", va="center",
                      fontsize=9)
    axes.set_xlim(0, 1.3 * max(row.values["tokens_per_second_q3"] for row in rows) or 1)
    axes.xaxis.set_major_formatter(lambda value, _: count(value))
    against = f"\nspeed-up against {baseline.name}" if baseline and len(rows) > 1 else ""
    axes.set_xlabel(f"tokens/s (median and quartiles){against}")
    return figure


def _losses(rows: list[Row], _: Optional[Row]) -> Optional[Figure]:
    """Training and validation losses over steps."""
    rows = [row for row in rows if row.metrics and len(finite_column(row.metrics.steps, "loss"))]
    if not rows:
        return None
    aside = len(rows) > 4  # a long legend stands beside the curves
    marks = marks_of(rows)
    size = (_width(rows) + 2.0 if aside else WIDTH, max(4.2, 0.17 * len(rows)))
    figure, axes = plt.subplots(figsize=size, constrained_layout=True)
    for place, row in enumerate(rows):
        wider = 0.8 * max(0, min(len(rows), 4) - 1 - place)  # the first ones show below others with the same losses
        style = {"color": COLOURS[place % len(COLOURS)], "linewidth": 1 + wider}
        line = LINES[place // len(COLOURS) % len(LINES)]
        steps = row.metrics.steps["loss"]
        evals = row.metrics.evals.get("loss", ())
        label = f"{row.name}: training" if len(evals) and not aside else row.name
        marker = "." if len(steps) == 1 else ""
        axes.plot(steps.index, steps.where(np.isfinite(steps)), line, label=label, marker=marker, **style)
        if len(evals):
            label = None if aside else f"{row.name}: validation"
            axes.plot(evals.index, evals.where(np.isfinite(evals)), "o--", markersize=4, markerfacecolor="white",
                      label=label, **style)
        for name in row.metrics.further_sets:
            losses = row.metrics.validation(name)
            axes.plot(losses.index, losses.where(np.isfinite(losses)), f"{marks[name][0]}:", markersize=4,
                      markerfacecolor="white", label=None if aside else f"{row.name}: {name}", **style)
    axes.set_xlabel("step" + ("; circles: validation" if aside and any(len(row.metrics.evals) for row in rows) else ""))
    axes.set_ylabel("loss (nats per token)")
    axes.grid(alpha=0.3)
    axes.legend(frameon=False, **({"bbox_to_anchor": (1.01, 1), "loc": "upper left", "fontsize": 9} if aside else {}))
    return figure


def step_times(row: Row) -> dict[str, float]:
    """Mean milliseconds a step by category, over the timed steps that were measured."""
    times = {name: finite_column(row.timed, f"time/{name}") for name in TIMES}
    return {name: 1e3 * float(values.mean()) for name, values in times.items() if len(values)}


def _times(rows: list[Row], _: Optional[Row]) -> Optional[Figure]:
    """What a step on rank 0 consists of."""
    times = {row.name: step_times(row) for row in rows}
    rows = [row for row in rows if any(times[row.name].values())]
    if not rows:
        return None
    figure, axes = _bars(rows)
    start = np.zeros(len(rows))
    for name, (colour, hatch) in TIMES.items():
        values = np.array([times[row.name].get(name, 0.0) for row in rows])
        if values.any():
            axes.barh(range(len(rows)), values, 0.7, left=start, color=colour, hatch=hatch, edgecolor="white",
                      linewidth=0.5, label=name.replace("_", " "))
        start += values
    axes.set_xlabel("time of a step on rank 0 (ms, mean)\nhatched: compute waits for communication")
    figure.set_size_inches(_width(rows), figure.get_size_inches()[1] + 0.7)
    axes.legend(loc="lower right", bbox_to_anchor=(1.0, 1.01), ncol=3, frameon=False, fontsize=8)
    return figure


def largest_memory(row: Row, category: str, kind: str) -> float:
    """Bytes of the fullest rank, planned or measured: over the whole run by /ranks, else after the first step."""
    name = f"{category}/{kind}"
    found = [m.memory[name] for m in row.repeats if name in m.memory]
    over_time = [attempt[f"memory/{name}"] for m in row.repeats for attempt in m.ranks if f"memory/{name}" in attempt]
    return max((float(values.max()) for values in over_time or found if values.size), default=0.0)


def _memory(rows: list[Row], _: Optional[Row]) -> Optional[Figure]:
    """Planned and measured memory of the fullest rank, a panel for each category (peaks at different times: no sum)."""
    def is_known(row: Row, name: str) -> bool:
        return any(largest_memory(row, name, kind) > 0 for kind in ("planned", "measured"))

    names = [name for name in MEMORY if any(is_known(row, name) for row in rows)]
    rows = [row for row in rows if any(is_known(row, name) for name in names)]
    if not rows or not names:
        return None
    columns = min(4, len(names))
    lines = -(-len(names) // columns)
    figure, panels = plt.subplots(lines, columns, sharey=True, squeeze=False, constrained_layout=True,
                                  figsize=(_width(rows) + 2.5, 0.8 + lines * (0.9 + 0.3 * len(rows))))
    for panel, name in zip(panels.flat, names):
        measured = np.array([max(0.0, largest_memory(row, name, "measured")) for row in rows])
        planned = np.array([largest_memory(row, name, "planned") for row in rows])
        most = max(measured.max(), planned.max())
        unit, size = next(((unit, size) for unit, size in UNITS if most >= size), UNITS[-1])
        panel.barh(range(len(rows)), measured / size, 0.7, color=OTHERS)
        panel.barh(range(len(rows)), planned / size, 0.7, fill=False, edgecolor="black", linewidth=1)
        panel.set_title("all of the process" if name == "process" else name.replace("_", " "), fontsize=9)
        panel.set_xlabel(f"{unit} a rank", fontsize=8)
        panel.tick_params(labelsize=8)
        panel.grid(axis="x", alpha=0.3)
        panel.set_axisbelow(True)
    figure.suptitle("memory of the fullest rank; filled: measured, outlined: planned (each category at its own peak)",
                    fontsize=9)
    for panel in list(panels.flat)[len(names):]:
        panel.set_axis_off()
    panels[0, 0].set_ylim(len(rows) - 0.4, -0.6)
    for panel in panels[:, 0]:
        panel.set_yticks(range(len(rows)))
        panel.set_yticklabels([row.name for row in rows])
        panel.set_ylabel("row", fontsize=8)
    return figure


def _timeline(rows: list[Row], _: Optional[Row]) -> Optional[Figure]:
    """The step of the first row on several ranks under zero3, else of the first row that keeps its schedule."""
    from .html.panels.timeline import narrow_timeline
    from .html.svg import STYLE
    kept = [json.loads(row.metrics.schedule) for row in rows if row.metrics and row.metrics.schedule]
    kept = [schedule for schedule in kept if schedule["step"]]
    chosen = min(kept, key=lambda schedule: (schedule["ranks"] == 1, schedule["strategy"] != "zero3"), default=None)
    if chosen is None:
        return None
    with matplotlib.rc_context(STYLE):
        return narrow_timeline(chosen)


def _bandwidth(rows: list[Row], _: Optional[Row]) -> Optional[Figure]:
    """Bus bandwidth of collectives over the message's size, of every row with a table of tessera bench comm."""
    from .html.panels.bandwidth import measured_of, white_bandwidth
    from .html.svg import STYLE
    with matplotlib.rc_context(STYLE):
        return white_bandwidth(measured_of([(row, row.entry.path) for row in rows]))


def _trace(rows: list[Row], _: Optional[Row]) -> Optional[Figure]:
    """The last step that was traced, of the first row with a good trace: what two ranks measured, and the planned order."""
    from .html.panels.measured import newest_trace, white_trace
    from .html.svg import STYLE
    damaged: Optional[Unreadable] = None
    for row in rows:
        try:
            trace = newest_trace(row.entry.runs)
        except Unreadable as error:
            damaged = damaged or error
            continue
        if trace is not None:
            with matplotlib.rc_context(STYLE):
                return white_trace(trace)
    if damaged:
        raise damaged
    return None


def _overlap(rows: list[Row], _: Optional[Row]) -> Optional[Figure]:
    """What prefetch hides, of rows that differ in nothing else."""
    from .html.panels.overlap import comparable, draw_overlap
    from .html.svg import STYLE
    from .html.traced import Traced
    points = comparable([Traced(row) for row in rows if row.metrics])
    if not points:
        return None
    with matplotlib.rc_context({**STYLE, "figure.facecolor": "white"}):
        figure = draw_overlap(points)
        figure.set_facecolor("white")
        return figure
