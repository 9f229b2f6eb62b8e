"""Predicted and measured times on the terminal: of few rows by class, of many how far off they are."""
from __future__ import annotations

import html
import re
import textwrap
from typing import Optional

from .html.predicted import FEW, classes_of, differences, errors, judged, order, predicted_rows, sentence, step_of, typical
from .html.study import make_study
from .rows import Row
from .table import seconds_text, share


def predictions_text(rows: list[Row], baseline: Optional[Row], width: int, warmup: Optional[int] = None) -> str:
    """Empty without rows that have a prediction."""
    study = make_study(rows, baseline, [], warmup)
    predicted = predicted_rows(study)
    if not predicted:
        return ""
    if len(predicted) > FEW:
        return _together(study, width)
    size = max(len("row"), *(len(row.name) for row in predicted))
    lines = ["predicted and measured: seconds a step on rank 0, medians; +-: as the prices state",
             f"{'row':<{size}}  {'time':<22}  {'predicted':>9}   +-  {'measured':>9}  ratio"]
    lines.append("-" * len(lines[1]))
    said = []
    for row in predicted:
        for one in (step_of(row), *classes_of(row)):
            stated = f"{one.uncertainty.value:.0%}" if one.uncertainty.value else ""
            predicted_s, measured = (seconds_text(one.value) if one and one.value > 0 else "-" for one in (one.predicted, one.measured))
            ratio = f"{one.ratio.value:.2f}" if one.ratio else "-"
            lines.append(f"{row.name:<{size}}  {one.name:<22}  {predicted_s:>9}  {stated:>3}  {measured:>9}  {ratio:>5}")
        said += [html.unescape(re.sub("<[^>]*>", "", sentence(row, one))) for one in differences(row)]
    said = said or ["none: no time differs from its prediction by more than the prices state"]
    return "\n".join(lines) + "\n\n" + "\n".join(textwrap.fill(f"findings: {one}", width, subsequent_indent="  ") for one in said)


def _together(study, width: int) -> str:
    counting, noisy, crowded = judged(study)
    text = f"predictions: {len(counting)} of {len(predicted_rows(study))} rows can judge theirs"
    if counting:
        middle, high = typical(errors(counting))
        pairs, right = order([counting])
        text += f"; median error {share(middle.value)}, 95th percentile {share(high.value)}"
        if pairs.value:
            text += f"; of {pairs.value:.0f} pairs that differ, the faster one is named right in {share(right.value / pairs.value)}"
    for rows, why in ((noisy, "have quartiles too far apart or began while other work ran"), (crowded, "have more compute threads than cores")):
        text += f"; {len(rows)} {why}" if rows else ""
    return textwrap.fill(text, width, subsequent_indent="  ")
