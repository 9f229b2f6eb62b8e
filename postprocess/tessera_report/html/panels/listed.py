"""All pictures of the report, in the order of the page."""
from __future__ import annotations

from typing import Callable, Optional

import matplotlib

from ...errors import Unreadable
from ..study import Study
from ..svg import STYLE
from .bandwidth import bandwidth
from .communication import volume
from .last_second import last_seconds
from .losses import losses
from .measured import measured_timelines
from .memory import at_the_peak, over_batch, over_ranks
from .overlap import exposed_over_batch, exposed_over_prefetch
from .panel import Panel
from .predictions import planned_and_measured, points
from .progress import progress
from .scaling import strong, weak
from .throughput import throughput
from .timeline import timelines
from .times import breakdown
from .utilization import device, model_flops

OVERLAP = "rows on several ranks that differ in prefetch and batch only, 0 among them, with two micro-batches"
# Title, function, and the needs of a panel, which the page names where it is left out.
PANELS: list[tuple[str, Callable[[Study], Optional[Panel]], str]] = [
    ("Throughput", throughput, "two rows with tokens/s"),
    ("Loss", losses, "a row with losses of two steps"),
    ("Loss over tokens and time", progress, "two rows that validated twice, with different losses"),
    ("Memory at the peak", at_the_peak, "a row whose plan is a twentieth of what was measured or more"),
    ("Time of a step", breakdown, "a row whose operations were timed"),
    ("Planned and measured", planned_and_measured, "a run with plan.cluster"),
    ("Predicted against measured", points, "two runs with plan.cluster"),
    ("Communication", volume, "a row on several ranks that counts its bytes"),
    ("Training state over ranks", over_ranks, "rows that differ in their number of ranks only"),
    ("Strong scaling", strong, "one model and one global batch on several numbers of ranks"),
    ("Weak scaling", weak, "work that grows with the ranks"),
    ("Exposed communication against prefetch", exposed_over_prefetch, OVERLAP),
    ("Exposed communication against the batch", exposed_over_batch, OVERLAP),
    ("Speed and memory against the batch", over_batch, "rows that differ in micro-batch or accumulation only"),
    ("Model FLOPs utilization (MFU)", model_flops,
     "rows over several micro-batches and accumulations, with a peak of the device"),
    ("GPU utilization", device, "GPUs whose driver tells"),
    ("Bandwidth against size", bandwidth, "a row with the tables of tessera bench comm over two sizes"),
]
TIMELINE = ("Timeline of a step", "a run that keeps its schedule in metrics.h5")
MEASURED = ("A step as measured", "a run with run.trace")

# Pictures with bars, or with losses: models of other scales get their own picture.
BY_SCALE = (throughput, losses, progress, at_the_peak, breakdown, volume, over_ranks, strong)


def draw(study: Study) -> tuple[list[Panel], list[tuple[str, str]]]:
    """The panels that have data, and of the others the titles and needs."""
    found, aside, left_out = [], [], []
    with matplotlib.rc_context(STYLE):
        for title, panel, needs in PANELS:
            parts = study.scales() if panel in BY_SCALE else [study]
            for part, pictures in zip(parts, (found, aside)):
                try:
                    made = panel(part)
                except Unreadable as error:
                    made, needs = None, f"files that can be read ({error})"
                pictures += [made] if made else []
                left_out += [] if made else [(title + part.scale, needs)]
        lines = timelines(study)
        traces, problems = measured_timelines(study)
        ends, unreadable = last_seconds(study)
    left_out += [] if lines else [TIMELINE]
    left_out += [(MEASURED[0], f"a trace that can be read ({problem})") for problem in problems] or ([] if traces else [MEASURED])
    left_out += [("The last second", f"flight files that can be read ({problem})") for problem in unreadable]
    return found + aside + lines + traces + ends, left_out
