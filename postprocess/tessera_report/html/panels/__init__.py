"""The pictures of the report, each a function of the study that returns a panel, or None where it has nothing to show."""
from __future__ import annotations

from typing import Callable, Optional

import matplotlib

from ..study import Study
from ..svg import STYLE
from .bandwidth import bandwidth
from .communication import volume
from .losses import losses
from .measured import measured_timelines
from .memory import categories, over_batch, over_ranks
from .overlap import exposed_over_prefetch
from .panel import Panel
from .scaling import strong, weak
from .throughput import throughput
from .timeline import timelines
from .times import breakdown
from .utilization import device, model_flops

# Title, function, and what a sweep needs for it: said where the panel is left out.
PANELS: list[tuple[str, Callable[[Study], Optional[Panel]], str]] = [
    ("Throughput", throughput, "a row with tokens/s"),
    ("Loss", losses, "a row with losses"),
    ("Memory by category", categories, "a row with planned memory"),
    ("Time of a step", breakdown, "a row whose operations were timed"),
    ("Communication", volume, "a row on several ranks that counts its bytes"),
    ("Training state over ranks", over_ranks, "rows that differ in their number of ranks only"),
    ("Strong scaling", strong, "one model and one global batch on several numbers of ranks"),
    ("Weak scaling", weak, "work that grows with the ranks"),
    ("Exposed communication against prefetch", exposed_over_prefetch, "rows on several ranks that differ in prefetch only, 0 among them"),
    ("Speed and memory against the batch", over_batch, "rows that differ in micro-batch or accumulation only"),
    ("Model FLOPs utilization (MFU)", model_flops,
     "rows over several micro-batches and accumulations, with a peak of the device"),
    ("GPU utilization", device, "GPUs whose driver tells"),
    ("Bandwidth against size", bandwidth, "a row with the tables of tessera bench comm"),
]
TIMELINE = ("Timeline of a step", "a run that keeps its schedule in metrics.h5")
MEASURED = ("A step as measured", "a run with run.trace")

# Pictures with bars, or with losses: models of other scales get a picture of their own.
BY_SCALE = (throughput, losses, categories, breakdown, volume, over_ranks, strong)


def draw(study: Study) -> tuple[list[Panel], list[tuple[str, str]]]:
    """The panels that have data, and of the others the title and what they need."""
    found, left_out = [], []
    with matplotlib.rc_context(STYLE):
        for title, panel, needs in PANELS:
            parts = study.scales() if panel in BY_SCALE else [study]
            made = [one for part in parts if (one := panel(part)) is not None]
            found += made
            left_out += [] if made else [(title, needs)]
        lines = timelines(study)
        traces, problems = measured_timelines(study)
    left_out += [] if lines else [TIMELINE]
    left_out += [(MEASURED[0], f"a trace that can be read ({problem})") for problem in problems] or ([] if traces else [MEASURED])
    return found + lines + traces, left_out
