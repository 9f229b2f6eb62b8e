"""Rows that learn differently: their settings by validation loss, after as many tokens and in as much time."""
from __future__ import annotations

from dataclasses import dataclass
from typing import Optional

import numpy as np

from ..flags import data_options, validation_samples
from .quantity import Html, Quantity, call, decimals, duration, join, largest, name, optional, short, show, smallest, text, whole
from .quartiles import caveat
from .study import SEEDS, Study, differing, seeds_of
from .tables import table
from .traced import Traced, starts_late

BATCH = "train.global_batch"
MOST = 12  # settings that are shown at once
ONE_SEED = 0.01  # of a loss: settings of one seed each that are closer are not told apart
RULES = [
    "Rows that differ in optim.*, data.*, model.*, train.global_batch or their seeds learn differently. They are judged by validation loss, "
    "after the tokens of the row that trained fewest and in the time of the row that trained shortest; between evaluations it is interpolated.",
    "Only losses on the same validation set are compared: the same text, tokenizer and vocabulary, and as many sequences of the "
    "same length.",
    "Rows that differ in seeds only are one setting, whose loss is the mean; the spread is from its lowest to its highest loss.",
    "Settings whose spreads meet are tied; with one seed each, those within a hundredth of the lower loss.",
    "The setting with the lowest loss is recommended. Its rows, and settings tied with it, are chosen between by speed, by the rules below.",
]


@dataclass
class Setting:
    """Rows that learn alike. `options` are those in which settings differ; losses are in the order of rows."""

    rows: list[Traced]
    options: dict[str, str]
    losses: list[Quantity]
    timed: list[Quantity]  # in equal time; empty where a row had not been evaluated by then

    @property
    def seeds(self) -> int:
        return seeds_of(self.rows)

    @property
    def loss(self) -> Quantity:
        return mean(self.losses)

    def ends(self) -> tuple[float, float]:
        """The lowest and the highest loss, as far as seeds show them."""
        losses = [one.value for one in self.losses]
        apart = ONE_SEED / 2 * min(losses) if self.seeds == 1 else 0.0
        return min(losses) - apart, max(losses) + apart

    def is_tied_with(self, best: "Setting") -> bool:
        return self.ends()[0] <= best.ends()[1]


@dataclass
class Learning:
    """Settings that learn differently, the lowest loss first, after `tokens`, and in `seconds` of steps."""

    settings: list[Setting]
    tokens: Quantity
    seconds: Quantity

    @property
    def tied(self) -> list[Setting]:
        return [one for one in self.settings[1:] if one.is_tied_with(self.settings[0])]

    def of(self, row: Traced) -> Optional[Setting]:
        return next((one for one in self.settings if row in one.rows), None)


def mean(quantities: list[Quantity]) -> Quantity:
    total = quantities[0]
    for one in quantities[1:]:
        total = total + one
    return total / len(quantities) if len(quantities) > 1 else total


def learned(row: Traced, base: Traced) -> dict[str, str]:
    """The options that decide what a row learns, but for seeds; what its program does not tell is as the baseline's."""
    own = {**base.settings(), **row.settings()}
    data = data_options(own)
    batches = [one.settings().get(BATCH) for one in (row, base)]
    given = {BATCH: own[BATCH]} if own.get(BATCH) and "0" not in batches else {}
    return {key: value for key, value in own.items() if key.startswith(("optim.", "model.")) or key in data} | given


def unlike(row: Traced, base: Traced) -> list[str]:
    """Options in which two rows learn differently."""
    own, others = learned(row, base), learned(base, row)
    return sorted(key for key in own if own[key] != others.get(key))


def _set(row: Traced) -> tuple:
    """What a validation loss is measured on."""
    source = row.option("data.val_source") or tuple(map(row.option, ("data.source", "data.val_fraction", "data.synthetic_tokens")))
    return (source, *map(row.option, ("data.tokenizer", "model.vocab", "train.seq_len")), validation_samples(row.row))


def _curve(row: Traced) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Steps, seconds of steps up to them, and losses of the evaluations."""
    metrics = row.row.metrics
    evals = metrics.evals["loss"].dropna()
    seconds = metrics.steps["seconds"].cumsum().reindex(evals.index, method="ffill").fillna(0.0)
    return evals.index.to_numpy(np.float64), seconds.to_numpy(np.float64), evals.to_numpy(np.float64)


def _is_judged(row: Traced) -> bool:
    metrics = row.row.metrics
    return (row.done and "nan" not in row.values["flags"] and not starts_late(row) and row.tokens_per_step is not None
            and metrics.is_of_one_batch and "seconds" in metrics.steps and "loss" in metrics.evals and bool(metrics.evals["loss"].notna().any()))


def learning(study: Study) -> Optional[Learning]:
    """None where fewer than two settings have validation losses on one set, and more than seeds differ."""
    rows = [row for row in study.ordered if _is_judged(row)]
    rows = [row for row in rows if _set(row) == _set(rows[0])]
    learn = [learned(row, rows[0]) for row in rows]
    seeds_only = seeds_of(rows) > 1 and not any(differing(row, rows[0]) - {*SEEDS} for row in study.trained)
    if not seeds_only and not any(one != learn[0] for one in learn):
        return None
    curves = [_curve(row) for row in rows]
    trained = [call(curve[0][-1], "last", row.name, "/eval/step") * row.tokens_per_step for row, curve in zip(rows, curves)]
    took = [call(curve[1][-1], "seconds_to_evaluation", row.name) for row, curve in zip(rows, curves)]
    tokens, seconds = (min(found, key=lambda one: one.value) for found in (trained, took))
    found: dict[tuple, Setting] = {}
    for row, own, (steps, times, losses) in zip(rows, learn, curves):
        after = tokens / row.tokens_per_step
        if after.value < steps[0]:
            continue
        key = (*sorted(own.items()), row.values["tokens_per_step"])
        setting = found.setdefault(key, Setting([], _differing(own, learn), [], []))
        setting.rows.append(row)
        setting.losses.append(call(np.interp(after.value, steps, losses), "validation_after", row.name, after))
        if seconds.value >= times[0]:
            setting.timed.append(call(np.interp(seconds.value, times, losses), "validation_in", row.name, seconds))
    for setting in found.values():
        setting.timed = setting.timed if len(setting.timed) == len(setting.rows) else []
    settings = sorted(found.values(), key=lambda one: one.loss.value)
    return Learning(settings, tokens, seconds) if len(settings) > 1 or seeds_only else None


def _differing(own: dict[str, str], every: list[dict[str, str]]) -> dict[str, str]:
    """Options in which settings differ, without those that follow from another: they divide the rows in the same way."""
    divisions, found = set(), {}
    for key in sorted(own):
        values = [one.get(key) for one in every]
        division = tuple(values.index(value) for value in values)
        if any(division) and division not in divisions:
            divisions.add(division)
            found[key] = own[key]
    return found


# Words -----------------------------------------------------------------------------------------------------------------


def label(setting: Setting) -> Html:
    """A row's name and the options of its setting."""
    options = join([name(f"{key} = {value}") for key, value in setting.options.items()], ", ")
    return text("{row} ({options})", row=name(setting.rows[0].name), options=options) if options else name(setting.rows[0].name)


def _count(setting: Setting) -> Html:
    return show(call(setting.seeds, "seeds", *(row.name for row in setting.rows)), whole)


def _seeds(setting: Setting) -> Html:
    return text(", the mean of {count} seeds from {low} to {high},", count=_count(setting), low=show(smallest(setting.losses), decimals),
                high=show(largest(setting.losses), decimals)) if setting.seeds > 1 else Html("")


def verdict(found: Learning, row: Optional[Traced]) -> list[Html]:
    """The setting of `row` against the others, if there are some: after equal tokens, then in equal time."""
    if len(found.settings) == 1:
        return [text("Rows differ in their seeds only, so there is nothing to choose: validation loss {loss}{seeds} after {tokens} tokens.",
                     loss=show(found.settings[0].loss, decimals), seeds=_seeds(found.settings[0]), tokens=show(found.tokens, short))]
    own, others = found.of(row), [one for one in found.settings if row not in one.rows]
    tied = [one for one in others if one is found.settings[0] or one in found.tied]
    start = text("Take {row}: validation loss {loss}{seeds} after {tokens} tokens", row=label(own), loss=show(own.loss, decimals), seeds=_seeds(own),
                 tokens=show(found.tokens, short))
    if tied:
        more = "more seeds (run.seed) would show" if all(one.seeds > 1 for one in (own, *tied)) else "more seeds (run.seed) would show their spread"
        names = join([text("{row} with {loss}", row=label(one), loss=show(one.loss, decimals)) for one in tied], ", ")
        said = text("{start}. It is tied for the lowest with {names}; {more}.", start=start, names=names, more=more)
    else:
        said = text("{start}, the lowest; next is {other} with {loss}.", start=start, other=label(others[0]), loss=show(others[0].loss, decimals))
    timed = sorted((one for one in found.settings if one.timed), key=lambda one: mean(one.timed).value)
    if own not in timed or len(timed) < 2:
        return [said, text("In equal time, {seconds} of steps, one of them had not been evaluated yet.", seconds=show(found.seconds, duration))]
    first = timed[0] if timed[0] is not own else timed[1]
    return [said, text("In equal time, {seconds} of steps, {it}: {own} against {other} of {row}{caveat}.", seconds=show(found.seconds, duration),
                       it="it leads too" if timed[0] is own else "another leads", own=show(mean(own.timed), decimals),
                       other=show(mean(first.timed), decimals), row=name(first.rows[0].name), caveat=caveat(own.rows[0], first.rows[0]))]


def settings_table(found: Learning) -> Html:
    """A line for each setting, the lowest loss first."""
    keys = list(dict.fromkeys(key for one in found.settings for key in one.options))
    cells = [[name(one.rows[0].name), *(name(one.options.get(key, "–")) for key in keys), _count(one), show(one.loss, decimals),
              join([show(smallest(one.losses), decimals), show(largest(one.losses), decimals)], "–") if len(one.losses) > 1 else Html("–"),
              optional(mean(one.timed) if one.timed else None, decimals), show(smallest([row.key("best_validation_loss") for row in one.rows]), decimals)]
             for one in found.settings]
    words = text("Validation loss after {tokens} tokens, and in {seconds} of steps: means over seeds, with their spread.",
                 tokens=show(found.tokens, short), seconds=show(found.seconds, duration))
    head = ["setting", *keys, "seeds", "equal tokens", "spread", "equal time", "lowest"]
    more = Html(f"<details><summary>More settings</summary>{table(head, cells[MOST:])}</details>") if len(cells) > MOST else ""
    return join([Html(f"<p>{words}</p>"), table(head, cells[:MOST], "sortable"), more])
