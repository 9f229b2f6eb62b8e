"""What pictures share, and the page's pictures as files. The baseline comes first."""
from __future__ import annotations

from pathlib import Path
from typing import Optional

import matplotlib

matplotlib.use("Agg")  # no display needed

from .bench_file import is_bench_file  # noqa: E402 (after the choice of the backend)
from .errors import Unreadable  # noqa: E402
from .rows import Row  # noqa: E402

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


# Categories of a step's time with colour and hatch; what waits for communication is hatched.
TIMES = {"data": ("#F0E442", ""), "forward": ("#56B4E9", ""), "recompute": ("#CC79A7", ""),
         "backward": ("#0072B2", ""), "optimizer": ("#009E73", ""), "exposed_gather": ("#D55E00", "////"),
         "exposed_reduce_scatter": ("#E69F00", "////"), "exposed_all_reduce": ("#999999", "////"),
         "exposed_other": ("#595959", "////")}
UNITS = [("GB", 1e9), ("MB", 1e6), ("kB", 1e3), ("B", 1.0)]


def draw(rows: list[Row], baseline: Optional[Row], folder: Path, kind: str = "png") -> tuple[list[Path], list[str]]:
    """Writes the page's pictures for which there are data. Returns the files, and a sentence for each left out."""
    from .html import panels
    from .html.study import make_study
    from .html.svg import STYLE
    study = make_study(rows, baseline, [], None)
    empty = [row.name for row in rows if not row.repeats and not is_bench_file(row.entry.path)]
    written, left_out = [], [f"not in them, without metrics: {', '.join(empty)}"] if empty else []
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, picture in panels.FILES.items():
            path, why = folder / f"{name}.{kind}", "no row has data for it"
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
