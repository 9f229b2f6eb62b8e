"""The page's section on predictions: how far off they were, by row and by class."""
from __future__ import annotations

from .predicted import (CLASSES, FEW, NOISY, TIE, Beside, classes_of, differences, errors, judged, order, predicted_rows, same_work, sentence,
                        size_of_error, step_of, typical)
from .quantity import (Html, constant, counted, duration, join, median, name, number_of, optional, percent, rounded, show, signed,
                       text, times, whole)
from .quartiles import spread
from .study import Study
from .tables import TEMPLATES
from .traced import Traced

SECTION = TEMPLATES.from_string("""<p>{{ summary }}</p>
{% for row, found, cells in few %}<h3>{{ name(row.name) }}</h3>{{ table(["time", "predicted", "+-", "measured", "ratio"], cells) }}
{% if found %}<ul>{% for one in found %}<li>{{ one }}.</li>{% endfor %}</ul>{% endif %}{% endfor %}
{% if rows | length > 1 %}{{ table(["row", "predicted", "+-", "measured", "error", "quartiles apart", "counted"], rows) }}{% endif %}

{% if classes %}<h3>By class, over the rows that count</h3>
{{ table(["class", "rows", "share of the step", "error, median", "95th percentile", "difference, of the step"], classes) }}{% endif %}
<details><summary>Prices</summary>{{ table(["row", "cluster file", "hash", "predicted at"], files) }}</details>""")


def predictions(study: Study) -> Html:
    """Empty without rows that have a prediction."""
    rows = predicted_rows(study)
    if not rows:
        return Html("")
    counting, noisy, _ = judged(study)
    few = [(row, [sentence(row, one) for one in differences(row)], [_line(one) for one in (step_of(row), *classes_of(row))])
           for row in rows] if len(rows) <= FEW else []
    by_error = sorted(rows, key=lambda row: -abs(row.values["prediction_error"]))
    return Html(SECTION.render(
        summary=_summary(study), few=few, rows=[_row(row, row in counting, row in noisy) for row in by_error],
        classes=_by_class(counting) if len(counting) > 1 else [],
        files=[[name(row.name), *(text("{fact}", fact=row.row.metrics.prediction.get(key) or "–")
                                  for key in ("cluster", "cluster_hash", "predicted_at"))] for row in rows]))


def _line(one: Beside) -> list[Html]:
    return [text("{what}", what=one.name.replace("_", " ")), optional(one.predicted if one.predicted.value else None, duration),
            show(one.uncertainty, rounded) if one.uncertainty.value else Html("–"), optional(one.measured, duration), optional(one.ratio, times)]


def _row(row: Traced, counts: bool, noisy: bool) -> list[Html]:
    step = step_of(row)
    why = "yes" if counts else "no: its quartiles lie too far apart, or other work ran" if noisy else "no: more threads than cores"
    return [name(row.name), show(step.predicted, duration), show(step.uncertainty, rounded), show(step.measured, duration),
            show(row.key("prediction_error"), signed), optional(spread(row), percent), text("{why}", why=why)]


def _order(groups: list[list[Traced]], which: str) -> Html:
    pairs, right = order(groups)
    return text(" Of {pairs} pairs{which} whose steps differ by more than {tie}, the faster one was predicted to be faster in {share}.",
                pairs=show(pairs, whole), which=which, tie=show(constant(TIE), rounded),
                share=show(right / pairs, percent)) if pairs.value else Html("")


def _summary(study: Study) -> Html:
    counting, noisy, crowded = judged(study)
    parts = [text("A prediction is written before step one. Its error is its difference from the median step, as a share of that step. ")]
    if counting:
        middle, high = typical(errors(counting))
        parts.append(text("{rows} can judge it: the median of the sizes of their errors is {middle}, the ninety-fifth percentile {high}.",
                          rows=number_of([row.name for row in counting]), middle=show(middle, percent), high=show(high, percent)))
        parts.append(_order([counting], ""))
        parts.append(_order(same_work(counting), " that do the same work on as many ranks"))
    else:
        parts.append("No row can judge it.")
    if not any(differences(row) for row in predicted_rows(study)):
        parts.append(" No time of a step differs from its prediction by more than the prices state.")
    for rows, why in ((noisy, text("whose quartiles lie more than {limit} apart or that began while other work ran", limit=show(constant(NOISY), rounded))),
                      (crowded, "with more compute threads than cores")):
        if rows:
            parts.append(text(" Not counted: {rows} {why}, with a median error of {middle}.",
                              rows=number_of([row.name for row in rows]), why=why, middle=show(median(errors(rows)), percent)))
    return join(parts)


def _by_class(rows: list[Traced]) -> list[list[Html]]:
    """Each class over the rows that have it in prediction and measurement."""
    lines = []
    for key in CLASSES:
        found = [(row, one) for row in rows for one in classes_of(row) if one.name == key and one.error and one.predicted.value > 0]
        if not found:
            continue
        middle, high = typical([size_of_error(one.error) for _, one in found])
        shares = [one.measured / row.key("step_seconds") for row, one in found]
        apart = [size_of_error(one.predicted - one.measured) / row.key("step_seconds") for row, one in found]
        lines.append([text("{key}", key=key.replace("_", " ")), show(counted([row.name for row, _ in found]), whole),
                      show(median(shares), percent), show(middle, percent), show(high, percent), show(median(apart), percent)])
    return lines
