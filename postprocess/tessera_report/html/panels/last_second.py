"""The last second of each rank of a run that did not finish, from its flight files."""
from __future__ import annotations

from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from ...errors import Unreadable
from ...flight_file import SEGMENTS, Flight, read_flights
from .. import svg
from ..quantity import name, text
from ..study import Study
from .measured import WIDTH
from .panel import Panel, drawn
from .timeline import COLOURS, HEAD

MOST, MOST_RANKS = 4, 8
RIGHT = 0.08  # seconds that the picture shows of operations under way


def last_seconds(study: Study) -> tuple[list[Panel], list[str]]:
    """A picture for each row that did not finish; and why files gave none."""
    panels, problems = [], []
    for row in study.rows:
        runs = row.row.entry.runs
        try:
            flights = read_flights(runs[-1]) if runs and len(panels) < MOST else []
        except Unreadable as error:
            problems.append(str(error))
            continue
        if all(flight.is_finished or not flight.records for flight in flights):
            continue
        caption = text("The second before the last operation of any rank of {row} began, on the first ranks. An operation that "
                       "never ended reaches to the right, outlined in red: a rank without one there that others wait in never "
                       "arrived{live}. tessera postmortem says what it did.", row=name(row.name),
                       live=", unless the run still goes on, which its status does not rule out" if row.row.goes_on else "")
        panels.append(drawn(draw_flights(flights), f"last-second-{len(panels) + 1}", f"The last second: {row.name}", caption,
                            wide=True))
    return panels, problems


def draw_flights(flights: list[Flight]) -> Figure:
    """A line for each stream of each rank; the caller has set svg.STYLE."""
    last = max(begin for flight in flights for *_, begin, _ in flight.records)
    lines = [(flight, stream) for flight in flights[:MOST_RANKS] for stream in sorted({one[1] for one in flight.records})]
    figure, axes = svg.figure(0.8 + 0.3 * len(lines), width=WIDTH)
    kinds: dict[str, None] = {}
    for height, (flight, stream) in enumerate(lines):
        for operation, on, begin, end in flight.records:
            if on != stream or (end is not None and end < last - 1):
                continue
            left, until = max(begin - last, -1.0), RIGHT if end is None else end - last
            kind = HEAD if operation == HEAD else operation.split()[0] if operation.split() else "other"
            kind = kind if kind in COLOURS else "other"
            kinds[kind] = None
            axes.add_patch(Rectangle((left, height - 0.36), until - left, 0.72, facecolor=COLOURS[kind][0], linewidth=0 if end else 1.2,
                                     edgecolor=svg.COLOURS[1] if end is None else "none", zorder=3 if end else 4))
            if end is None:
                axes.text(RIGHT, height, f"  {operation}", va="center", fontsize=7.5)
    for kind in kinds:
        axes.add_patch(Rectangle((0, 0), 0, 0, color=COLOURS[kind][0], label=kind))
    axes.add_patch(Rectangle((0, 0), 0, 0, facecolor="none", edgecolor=svg.COLOURS[1], label="under way"))
    axes.set_yticks(range(len(lines)), [f"rank {flight.rank}, {f'stream {stream}' if stream != SEGMENTS else 'segments'}"
                                        for flight, stream in lines])
    axes.set_xlim(-1, RIGHT)
    axes.set_ylim(len(lines) - 0.4, -0.6)
    axes.set_xlabel("s before the last operation began")
    svg.legend(figure, axes)
    return figure
