"""The page: the contents of each section. Its looks are in templates/."""
from __future__ import annotations

import re
import textwrap
from pathlib import Path
from typing import Any, Optional, Sequence

from ..metrics import MOST_WARMUP_STEPS
from ..rows import Row
from ..studies import brought_sections
from .checklist import checklist
from .claims import NOTHING, UNKNOWN, claims
from .findings.listed import find
from .panels import listed as panels
from .prediction_section import predictions
from .quantity import Html, counted, escaped, join, name, number_of, show, text, whole
from .learning import RULES as LEARNING_RULES, settings_table
from .recommendation import RULES, recommend, sentences
from .study import Study, blocks, header, make_study
from .under_way import so_far, state
from .tables import TEMPLATES, configuration, provenance, results, table


def make_page(rows: list[Row], baseline: Optional[Row], paths: Sequence[Path], warmup: Optional[int] = None, refresh: Optional[int] = None) -> str:
    """The whole report as HTML, which reloads itself after `refresh` seconds. Raises Unreadable for a damaged bench file."""
    return render(make_study(rows, baseline, paths, warmup), refresh)


def render(study: Study, refresh: Optional[int] = None) -> str:
    best = recommend(study)
    drawn, missing = panels.draw(study)
    first = ("progress", "losses") if best.learning or len(study.rows) == 1 else ("overlap",)
    picture = next((panel for key in first for panel in drawn if panel.key == key), drawn[0] if drawn else None)
    answers, others = find(study, 1) if best.learning else find(study)
    verdict = [state(study.rows[0])] if len(study.rows) == 1 else [*sentences(best), *so_far(study)]
    if picture and picture.key == "overlap":
        verdict, answers = [answers[0], *verdict], answers[1:]
    return TEMPLATES.get_template("page.html").render(
        study=study, best=best, facts=_facts(study), missing=missing, verdict=verdict, answers=answers, findings=others,
        picture=picture, pictures=[panel for panel in drawn if panel is not picture], rules=[*(LEARNING_RULES if best.learning else []), *RULES] if len(study.rows) > 1 else [],
        reasons=[[name(row.name), best.reasons[row.name]] for row in study.rows if row.name in best.reasons],
        results=results(study, best.row, best.learning is not None), settings=settings_table(best.learning) if best.learning else "",
        refresh=refresh if any(row.row.goes_on for row in study.rows) else None, configuration=configuration(study), provenance=provenance(study),
        written=_samples(study), claims=_claims(study) if study.is_study else "", predictions=predictions(study),
        checklist=_checklist(study) if study.is_study else "", most_warmup=MOST_WARMUP_STEPS,
        brought=[(key, title, content(study)) for key, title, content in brought_sections(study.files)], **_asked(study))


def _facts(study: Study) -> Html:
    parts = [number_of([row.name for row in study.rows])]
    for words, rows in (("{count} with a result", [row for row in study.rows if row.values["status"] == "done" or
                                                      row.values["status"] is None and row.row.repeats]),
                        ("{count} running", [row for row in study.rows if row.row.goes_on and row.values["status"] == "running"])):
        parts += [text(words, count=show(counted([row.name for row in rows]), whole))] if rows or "result" in words and len(study.rows) > 1 else []
    if study.baseline and len(study.rows) > 1:
        parts.append(text("baseline {row}", row=name(study.baseline.name)))
    for key in ("hosts", "cpu", "gpu_name"):
        found = [str(row.values[key]) for row in study.rows if row.values[key]]
        values = list(dict.fromkeys(value.split()[0] if key == "hosts" else value for value in found))
        if values:
            parts.append(text("{words}{value}", words="on " if key == "hosts" else "", value=", ".join(values[:3])))
    starts = sorted(str(row.row.metrics.provenance["start_time"]) for row in study.rows
                    if row.row.metrics and row.row.metrics.provenance.get("start_time"))
    return join([*parts, starts[0][:10]] if starts else parts, " · ")


def _asked(study: Study) -> dict[str, Any]:
    """The comment at the head of the sweep's file, its first paragraph apart, and the files."""
    words, rest = header(study.asked or "")
    prose = [(laid_out, textwrap.dedent(block) if laid_out else _coded(block)) for laid_out, block in blocks(words)]
    first = prose.pop(0)[1] if prose and not prose[0][0] else ""
    return {"first": first, "prose": prose, "files": [("The sweep's file", rest), ("Its base", study.base)]}


def _coded(words: str) -> Html:
    """Prose as HTML: text between backticks is code."""
    return Html(re.sub(r"`([^`]+)`", r"<code>\1</code>", escaped(words)))


def _samples(study: Study) -> list[tuple[str, list[tuple[int, str]]]]:
    """The first, middle and last samples of each row's model, by the step after which they were written."""
    found = []
    for row in study.rows:
        written = sorted(row.row.metrics.samples.items()) if row.row.metrics else []
        chosen = dict.fromkeys((0, len(written) // 2, len(written) - 1)) if written else {}
        found += [(row.name, [written[place] for place in chosen])] if chosen else []
    return found


def _claims(study: Study) -> Html:
    """Claims that rows show or a formula judges; those that no row shows are folded."""
    found: dict[bool, list[list[Html]]] = {True: [], False: []}
    for claim in claims(study):
        found[claim.measured != NOTHING].append([claim.expected, claim.formula, claim.measured,
                                                 _mark("open" if claim.holds == UNKNOWN else claim.holds.partition(" ")[0], claim.holds)])
    shown, others = (table(["expected", "formula", "measured", "holds"], found[has], "text-table") if found[has] else "" for has in (True, False))
    return join([shown, Html(f"<details><summary>Claims that no row shows</summary>{others}</details>") if others else ""])


def _checklist(study: Study) -> Html:
    """Empty where rows show less than half of it."""
    marks = {True: _mark("yes", "✓ yes"), False: _mark("no", "✗ no"), None: _mark("open", "not shown")}
    checks = checklist(study)
    if 2 * sum(check.ticked is not None for check in checks) < len(checks):
        return Html("")
    return table(["item", "ticked", "figure"], [[check.item, marks[check.ticked], check.figure] for check in checks], "text-table")


def _mark(kind: str, words: str) -> Html:
    return Html(f'<span class="holds {kind}">{words}</span>')
