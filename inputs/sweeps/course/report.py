"""What the course adds to the page of its sweep: the explanations are fixed, the figures are the run's."""
from __future__ import annotations

from typing import Sequence

from tessera_report.html.quantity import Html, escaped, join
from tessera_report.html.study import Study
from tessera_report.html.tables import table

from .questions import QUESTIONS
from .tasks import TASKS


def _tasks(study: Study) -> Html:
    parts = []
    for task in TASKS:
        answer = task.answer(study)
        parts.append((task.title, f"<p>{answer.sentence}</p>{table(answer.head, answer.cells)}" if answer else
                      '<p class="none">No rows of this sweep show it.</p>'))
    return _numbered(parts)


def _numbered(parts: Sequence[tuple[str, str]]) -> Html:
    """Titles and what stands below them, one by one."""
    return join([Html(f'<div class="question"><h3>{place}. {escaped(title)}</h3>{content}</div>')
                 for place, (title, content) in enumerate(parts, start=1)])


def _questions(study: Study) -> Html:
    parts = []
    for question in QUESTIONS:
        figure = question.figure(study)
        shown = f'<p class="figures">{figure}</p>' if figure else '<p class="none">No row of this sweep shows it.</p>'
        parts.append((question.question, f"<p>{escaped(question.explanation)}</p>{shown}"))
    return _numbered(parts)


SECTIONS = [("tasks", "The seven tasks", _tasks), ("questions", "The thirteen questions", _questions)]
