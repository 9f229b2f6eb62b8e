"""The page's pictures as files. The baseline comes first."""
from __future__ import annotations

from pathlib import Path
from typing import Callable, Optional

import matplotlib
from matplotlib.figure import Figure

from .bench_file import is_bench_file
from .errors import Unreadable
from .html.panels.bandwidth import bandwidth
from .html.panels.losses import losses
from .html.panels.listed import MEASURED, OVERLAP, PANELS, TIMELINE
from .html.panels.measured import measured_timelines
from .html.panels.communication import volume
from .html.panels.memory import at_the_peak, over_batch
from .html.panels.overlap import traced_overlap
from .html.panels.panel import Panel
from .html.panels.predictions import planned_and_measured, points
from .html.panels.progress import progress
from .html.panels.throughput import throughput
from .html.panels.timeline import timelines
from .html.panels.times import breakdown
from .html.panels.utilization import model_flops
from .html.study import Study, make_study
from .html.svg import STYLE
from .rows import Row


def _trace(study: Study) -> Optional[Panel]:
    made, problems = measured_timelines(study)
    if problems and not made:
        raise Unreadable(problems[0])
    return made[0] if made else None


NEEDS = {panel: needs for _, panel, needs in PANELS}


def _file(panel: Callable[[Study], Optional[Panel]], needs: Optional[str] = None) -> tuple[Callable[[Study], Optional[Figure]], str]:
    return lambda study: made.figure if (made := panel(study)) else None, needs or NEEDS[panel]


# Files of --plots: how each is drawn, and what it needs.
FILES: dict[str, tuple[Callable[[Study], Optional[Figure]], str]] = {
    "throughput": _file(throughput), "loss": _file(losses), "time": _file(breakdown), "memory": _file(at_the_peak),
    "timeline": _file(lambda study: next(iter(timelines(study)), None), TIMELINE[1]), "trace": _file(_trace, MEASURED[1]),
    "overlap": (traced_overlap, OVERLAP), "bandwidth": _file(bandwidth), "progress": _file(progress),
    "batch": _file(over_batch), "communication": _file(volume), "mfu": _file(model_flops),
    "predicted": _file(planned_and_measured), "accuracy": _file(points)
}


def draw(rows: list[Row], baseline: Optional[Row], folder: Path, kind: str = "png") -> tuple[list[Path], list[str]]:
    """Writes the page's pictures for which there are data. Returns the files, and a sentence for each left out."""
    study = make_study(rows, baseline, [], None)
    empty = [row.name for row in rows if not row.repeats and not is_bench_file(row.entry.path)]
    written, left_out = [], [f"not in them, without metrics: {', '.join(empty)}"] if empty else []
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, (picture, needs) in FILES.items():
            path, why = folder / f"{name}.{kind}", f"it needs {needs}"
            with matplotlib.rc_context({**STYLE, "svg.fonttype": "path"}):
                try:
                    figure = picture(study)
                except Unreadable as error:
                    figure, why = None, str(error)
                if figure is None:
                    path.unlink(missing_ok=True)  # an older picture would pass for one of these rows
                    left_out.append(f"{path.name} is left out: {why}")
                    continue
                figure.savefig(path, dpi=200, facecolor="white")
            written.append(path)
    except OSError as error:
        raise Unreadable(f"cannot write plots into {folder} ({error.strerror or error})") from error
    return written, left_out
