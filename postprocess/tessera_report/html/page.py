"""The page: sections in the order in which a reader asks."""
from __future__ import annotations

import html
import re
import textwrap
from pathlib import Path
from typing import Optional, Sequence

from ..metrics import MOST_WARMUP_STEPS
from ..rows import Row
from ..studies import brought_sections
from .checklist import checklist
from .claims import UNKNOWN, claims
from .findings.listed import find
from .panels import listed as panels
from .panels.panel import Panel
from .quantity import Html, counted, escaped, join, name, number_of, show, text, whole
from .recommendation import RULES, Recommendation, recommend, sentence
from .study import Study, blocks, header, make_study
from .tables import configuration, provenance, results, table
from .traced import Traced

HERE = Path(__file__).parent


def make_page(rows: list[Row], baseline: Optional[Row], paths: Sequence[Path], warmup: Optional[int] = None) -> str:
    """The whole report as HTML. Raises Unreadable for a damaged bench file."""
    return render(make_study(rows, baseline, paths, warmup))


def render(study: Study) -> str:
    best = recommend(study)
    drawn, left_out = panels.draw(study)
    picture = next((panel for panel in drawn if panel.key == "overlap"), drawn[0] if drawn else None)
    pictures = "\n".join(_panel(panel) for panel in drawn if panel is not picture)
    answers, others = find(study)
    sections = [
        ("asked", "", _asked(study)),
        ("recommendation", "Answer", _answer(study, best, answers, picture)),
        ("results", "Results", join([results(study, best.row), _legend(study)])),
        ("findings", "Further findings", _list(others)),
        ("configuration", "Configuration", configuration(study)),
        ("panels", "Pictures", Html(f'<div class="panels">{pictures}</div>') if pictures else ""),
        ("samples", "What the models wrote", _samples(study)),
        ("claims", "Expected, formula, measured", _claims(study)),
        ("checklist", "Checklist of ten", _checklist(study)),
    ]
    sections += [(key, title, content(study)) for key, title, content in brought_sections(study.files)]
    sections += [("provenance", "Provenance", provenance(study)),
                 ("left-out", "What is left out, and why", _left_out(study, left_out))]
    sections = [section for section in sections if section[2]]
    body = "\n".join(
        f'<section id="{key}">{f"<h2>{escaped(title)}</h2>" if title else ""}\n{content}</section>' for key, title, content in sections)
    links = " ".join(f'<a href="#{key}">{escaped(title.partition(",")[0])}</a>' for key, title, _ in sections if title)
    style, script = ((HERE / file).read_text(encoding="utf-8") for file in ("style.css", "sort.js"))
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{html.escape(study.name)}: Tessera report</title>
<style>
{style}</style>
</head>
<body>
<header>
<p class="kicker">Tessera report</p>
<h1>{html.escape(study.name)}</h1>
<p class="facts">{_facts(study)}</p>
<nav aria-label="Sections">{links}</nav>
</header>
<main>
{body}
</main>
<footer>Every number carries its source: point at it. Its expression is explained in postprocess/README.md.</footer>
<script>
{script}</script>
</body>
</html>
"""


def _facts(study: Study) -> Html:
    done = [row.name for row in study.rows if row.values["status"] in ("done", None)]
    parts = [
        text("{rows}, {done} with a result",
             rows=number_of([row.name for row in study.rows]),
             done=show(counted(done), whole))
    ]
    if study.baseline:
        parts.append(text("baseline {row}", row=name(study.baseline.name)))
    for key in ("hosts", "cpu", "gpu_name"):
        found = [str(row.values[key]) for row in study.rows if row.values[key]]
        values = list(dict.fromkeys(value.split()[0] if key == "hosts" else value for value in found))
        if values:
            parts.append(text("{words}{value}", words="on " if key == "hosts" else "", value=", ".join(values[:3])))
    starts = sorted(
        str(row.row.metrics.provenance["start_time"])
        for row in study.rows
        if row.row.metrics and row.row.metrics.provenance.get("start_time"))
    return join([*parts, starts[0][:10]] if starts else parts, " · ")


def _asked(study: Study) -> Html:
    """The first sentences; the rest folds."""
    if study.asked is None:
        rows = join([name(row.name) for row in study.rows], ", ")
        return Html(f'<p class="facts">{text("The folder has no sweep.ini. Rows: {rows}.", rows=rows)}</p>')
    words, rest = header(study.asked)
    prose = blocks(words)
    first = prose.pop(0)[1] if prose and not prose[0][0] else ""
    parts = [
        Html(f"<pre>{html.escape(textwrap.dedent(block))}</pre>" if laid_out else f"<p>{_coded(block)}</p>")
        for laid_out, block in prose
    ]
    if study.arguments:
        parts.append(Html(f"<p>Given on the command line:</p><pre>{html.escape(' '.join(study.arguments))}</pre>"))
    for title, content in (("The sweep's file", rest), ("Its base", study.base)):
        if content:
            parts.append(Html(f"<details><summary>{title}</summary><pre>{html.escape(content)}</pre></details>"))
    return Html(f'<details class="fold"><summary>What was asked</summary>{join(parts)}</details><p>{_coded(first)}</p>')


def _coded(words: str) -> str:
    """Prose as HTML: what stands between backticks is code."""
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", html.escape(words))


def _answer(study: Study, best: Recommendation, answers: list[Html], picture: Optional[Panel]) -> Html:
    """What to take and what the study shows first, beside one picture; why not the other rows, and the rules, fold."""
    cells = [[name(row.name), best.reasons[row.name]] for row in study.rows if row.name in best.reasons]
    title = "Every other row, and why not" if best.row else "Rows that are not eligible, and why"
    others = f'<details class="fold"><summary>{title}</summary>{table(["row", "why not"], cells)}</details>' if cells else ""
    verdict = [sentence(best)]
    if picture and picture.key == "overlap":
        verdict, answers = [answers[0], *verdict], answers[1:]
    words = (f'<div><div class="verdict">{join([Html(f"<p>{one}</p>") for one in verdict])}</div>{_list(answers)}{others}'
             f'<details class="fold"><summary>The rules</summary>{_list(list(map(text, RULES)), "ol")}</details></div>')
    return Html(f'<div class="lead">{words}{_panel(picture) if picture else ""}</div>')


def _list(sentences: list[Html], kind: str = "ul") -> Html:
    return Html(f"<{kind}>" + "".join(f"<li>{one}</li>" for one in sentences) + f"</{kind}>") if sentences else Html("")


def _samples(study: Study) -> Html:
    """What each row's model wrote first, halfway and last; empty where no row wrote anything."""
    parts = []
    for row in study.rows:
        written = sorted(row.row.metrics.samples.items()) if row.row.metrics else []
        chosen = dict.fromkeys((0, len(written) // 2, len(written) - 1)) if written else {}
        texts = []
        for step, words in (written[place] for place in chosen):
            when = f"after step {step}" if step else "before the first step"
            texts.append(Html(f"<p>{when}:</p><pre>{html.escape(words)}</pre>"))
        if texts:
            parts.append(Html(f"<details open><summary>{name(row.name)}</summary>{join(texts)}</details>"))
    return join(parts)


def _legend(study: Study) -> Html:
    notes = [text("{row}: {note}", row=name(row.name), note=note) for row in study.rows for note in row.row.notes]
    shown = Html("<details><summary>Notes on flagged rows</summary><ul>" +
                 "".join(f"<li>{note}</li>" for note in notes) + "</ul></details>") if notes else Html("")
    warm = f"the first fifth of the steps, 1 to {MOST_WARMUP_STEPS}, of each attempt" if study.warmup is None else "the warm-up asked for"
    words = (
        f"tokens/s and step: median, without {warm}. Loss: of the last step. Planned / peak: memory of the fullest rank; average: "
        "of all. Exposed: share of the time in which compute on rank 0 waited for communication. MFU: by 6 N, exact: by the model's matmuls. "
        "Click a title to sort.")
    return Html(f'<p class="facts">{html.escape(words)}</p>{shown}')


def _panel(panel: Panel) -> str:
    numbers = f"<details><summary>Numbers</summary>{table(panel.head, panel.cells)}</details>" if panel.cells else ""
    picture = f'<div class="frame">{panel.picture}</div>' if panel.wide else panel.picture
    kind = " class=wide" if panel.wide else " class=low" if panel.is_low else ""
    return (
        f'<figure id="panel-{panel.key}"{kind}><h3>{html.escape(panel.title)}</h3>\n{picture}\n'
        f"<figcaption>{panel.caption}</figcaption>{numbers}</figure>")


def _claims(study: Study) -> Html:
    def verdict(holds: str) -> Html:
        return Html(f'<span class="holds {"open" if holds == UNKNOWN else holds}">{holds}</span>')

    cells = [[claim.expected, claim.formula, claim.measured, verdict(claim.holds)] for claim in claims(study)]
    intro = text(
        "What folklore and published studies claim. P: parameters; W: ranks; K: micro-steps of a step; b_p, b_r: bytes of a gathered and of a reduced element."
    )
    return join([Html(f"<p>{intro}</p>"), table(["expected", "formula", "measured", "holds"], cells, "text-table")])


def _checklist(study: Study) -> Html:
    marks = {
        True: Html('<span class="holds yes">✓ yes</span>'), False: Html('<span class="holds no">✗ no</span>'),
        None: Html('<span class="holds open">not shown</span>')
    }
    return table(["item", "ticked", "figure"],
                 [[check.item, marks[check.ticked], check.figure] for check in checklist(study)], "text-table")


def _left_out(study: Study, left_out: list[tuple[str, str]]) -> Html:
    lines = [text("The picture “{title}” needs {needs}.", title=title, needs=needs) for title, needs in left_out]
    without = [row for row in study.rows if row not in study.trained]
    lines += [text("{row} is in no picture of training: {why}.", row=name(row.name), why=_why(row)) for row in without]
    return Html("<ul>" + "".join(f"<li>{line}</li>" for line in lines) + "</ul>") if lines else text("Nothing.")


def _why(row: Traced) -> Html:
    status, message = row.values["status"], row.values["message"]
    if status in ("done", None):
        return text("it leaves no tokens/s")
    return text("{status}: {words}", status=status, words=name(message.rstrip("."))) if message else text("{status}",
                                                                                                          status=status)
