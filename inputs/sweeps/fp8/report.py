"""What this study adds to its page: how far rows in fp8 are from the row of their seed that multiplies in the compute type."""
from __future__ import annotations

from typing import Optional

import numpy as np

from tessera_report.html.learning import mean
from tessera_report.html.quantity import (Html, Quantity, call, decimals, join, largest, name, nats, optional, show, smallest,
                                           text, times, whole)
from tessera_report.html.study import SEEDS, Study, differing, groups, seeds_of
from tessera_report.html.tables import table
from tessera_report.html.traced import Traced

LINEAR = "precision.linear"
FP8 = {LINEAR, "precision.fp8_gradients", "precision.fp8_scale", "precision.fp8_smallest"}
PLACES = (0.25, 0.5, 0.75, 1.0)  # of the training, where losses are compared
Pair = tuple[Traced, Traced]  # a row in fp8, and its twin
HEAD = ["rows", "gradients", "seeds", *(f"{place:.0%} of the steps" for place in PLACES), "largest of a step", "step", "planned"]
WORDS = ("Validation loss minus that of the twin, the row that differs in {linear} alone, in nats: the mean of the seeds, with the lowest and "
         "the highest. Largest of a step: of the training loss, of all seeds. Step and planned memory are ratios to the twin's, where fp8 "
         "gains if they are below 1.")


def _has_losses(row: Traced) -> bool:
    return row.done and row.row.metrics is not None and "loss" in row.row.metrics.evals and len(row.row.metrics.evals) > 0


def pairs(study: Study) -> list[Pair]:
    rows = [row for row in study.rows if _has_losses(row)]
    found = []
    for row in rows:
        twin = next((one for one in rows if one.option(LINEAR) == "compute" and differing(one, row) <= FP8), None)
        if row.option(LINEAR) == "fp8" and twin is not None:
            found.append((row, twin))
    return found


def _after(row: Traced, place: float, steps: Quantity) -> Quantity:
    """The validation loss after a share of the steps, between evaluations."""
    evals = row.row.metrics.evals["loss"].dropna()
    at = steps * place
    return call(np.interp(at.value, evals.index.to_numpy(np.float64), evals.to_numpy(np.float64)), "validation_after", row.name, at)


def distance(pair: Pair, place: float) -> Quantity:
    row, twin = pair
    last = row.row.metrics.evals["loss"].dropna().index[-1]
    steps = call(float(last), "last", row.name, "/eval/step")
    return _after(row, place, steps) - _after(twin, place, steps)


def _largest_of_a_step(pair: Pair) -> Quantity:
    own, other = (row.row.metrics.steps["loss"] for row in pair)
    both = own.index.intersection(other.index)
    return call(np.abs(own[both].to_numpy(np.float64) - other[both].to_numpy(np.float64)).max(), "largest_difference",
                *(row.name for row in pair), "/steps/loss")


def _ratio(found: list[Pair], key: str) -> Optional[Quantity]:
    ratios = [row.key(key) / twin.key(key) for row, twin in found if row.key(key) and twin.key(key) and twin.key(key).value]
    return mean(ratios) if ratios else None


def _spread(quantities: list[Quantity]) -> Html:
    """Their mean; of several, also the lowest and the highest."""
    one = show(mean(quantities), nats_apart)
    if len(quantities) == 1:
        return one
    return join([one, text(" ({low} to {high})", low=show(smallest(quantities), nats_apart), high=show(largest(quantities), nats_apart))])


def nats_apart(value: float) -> str:
    return f"{value:+.4f}"


def distances(study: Study) -> Html:
    """A line for each way to compute in fp8, over its seeds."""
    found = pairs(study)
    if not found:
        return Html('<p class="none">No two rows of this sweep differ in fp8 alone and have validation losses.</p>')
    cells = []
    for rows in groups([row for row, _ in found], set(SEEDS)):
        own = [pair for pair in found if pair[0] in rows]
        cells.append([
            join([name(row.name) for row in rows], ", "), name(rows[0].option("precision.fp8_gradients")),
            show(call(seeds_of(rows), "seeds", *(row.name for row in rows)), whole),
            *(_spread([distance(pair, place) for pair in own]) for place in PLACES),
            show(largest([_largest_of_a_step(pair) for pair in own]), nats), optional(_ratio(own, "step_seconds"), times),
            optional(_ratio(own, "memory_planned"), times)
        ])
    return join([Html(f"<p>{text(WORDS, linear=name(LINEAR))} {_twins(found)}</p>"), table(HEAD, cells)])


def _twins(found: list[Pair]) -> Html:
    """What seeds alone do to the twins: the measure of the distances."""
    twins = list({twin.name: twin for _, twin in found}.values())
    if seeds_of(twins) < 2:
        return text("With more seeds (run.seed) it would show how much of it is chance.")
    losses = [twin.key("final_validation_loss") for twin in twins]
    return text("Seeds alone move the last loss of the twins from {low} to {high}.", low=show(smallest(losses), decimals),
                high=show(largest(losses), decimals))


SECTIONS = [("fp8", "What 8 bits cost", distances)]
