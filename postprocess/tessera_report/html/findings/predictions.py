"""Findings on predictions: what differs from its price by more than the price states."""
from __future__ import annotations

from typing import Optional

from ..predicted import differences, predicted_rows, sentence
from ..quantity import Html, join, out_of, text
from ..quartiles import caveat, crowding
from ..study import Study


def beyond_price(study: Study) -> Optional[Html]:
    """The largest difference of a step and of a class, among all rows."""
    rows = predicted_rows(study)
    found = [(row, one) for row in rows for one in differences(row)]
    if not found:
        return None
    named = [(row, one) for row, one in found if not crowding(row)] or found
    steps = [pair for pair in named if pair[1].name == "step"]
    worst = [max(part, key=lambda pair: abs(pair[1].measured.value - pair[1].predicted.value) / pair[0].values["predicted_seconds"])
             for part in (steps, [pair for pair in named if pair not in steps]) if part]
    return text("Times differ from their predictions by more than the prices state in {rows}. Most: {worst}{caveat}.",
                rows=out_of(list(dict.fromkeys(row.name for row, _ in found)), [row.name for row in rows]),
                worst=join([sentence(row, one) for row, one in worst], "; "), caveat=caveat(*dict.fromkeys(row for row, _ in worst)))
