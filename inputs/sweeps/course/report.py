"""What the course adds to the page of its sweep: the explanations are fixed, the figures are the run's."""
from tessera_report.html.quantity import Html
from tessera_report.html.tables import TEMPLATES

from .questions import QUESTIONS
from .tasks import TASKS

TASK = TEMPLATES.from_string("""{% for task in tasks %}{% set answer = task.answer(study) %}
<div class="question"><h3>{{ loop.index }}. {{ task.title }}</h3>
{% if answer %}<p>{{ answer.sentence }}</p>{{ table(answer.head, answer.cells) }}{% else %}<p class="none">No rows of this sweep show it.</p>{% endif %}
</div>{% endfor %}""")
QUESTION = TEMPLATES.from_string("""{% for question in questions %}{% set figure = question.figure(study) %}
<div class="question"><h3>{{ loop.index }}. {{ question.question }}</h3><p>{{ question.explanation }}</p>
{% if figure %}<p class="figures">{{ figure }}</p>{% else %}<p class="none">No row of this sweep shows it.</p>{% endif %}
</div>{% endfor %}""")
SECTIONS = [("tasks", "The seven tasks", lambda study: Html(TASK.render(study=study, tasks=TASKS))),
            ("questions", "The thirteen questions", lambda study: Html(QUESTION.render(study=study, questions=QUESTIONS)))]
