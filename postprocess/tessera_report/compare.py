"""The losses of two rows side by side, and whether they are the same bits."""
from __future__ import annotations

from typing import Optional

import numpy as np
import pandas as pd

from .errors import Unreadable
from .rows import Row

# Options and facts (of /provenance) that change losses, and how; docs/numerics.md, contract 2, names what does not.
OPTIONS = (
    (("model.", "data.", "optim.", "run.seed", "train.seq_len"), "they learn something else"),
    (("train.micro_batch", "memory.mlp_chunk"), "other sums (docs/numerics.md, 2)"),
    (("precision.", ), "other rounding"),
    (("run.device", "run.deterministic", "run.algorithms"), "other kernels or another order of sums"),
)
FACTS = (("version", "git_revision"), ("isa", "kernels", "gpu_name"))
NOTHING = ("data.cache", "data.output", "data.on_error", "model.preset")
LINES = 20  # of the table, unless every N-th step is asked for


def compare(a: Row, b: Row, every: Optional[int] = None) -> str:
    """A table of losses over the steps that both have, and the verdict. Raises Unreadable where one has no losses."""
    for row in (a, b):
        if row.metrics is None or "loss" not in row.metrics.steps or row.metrics.steps.empty:
            raise Unreadable(f"{row.name} ({row.values['path']}) has no losses to compare")
    left, right = a.metrics.steps["loss"], b.metrics.steps["loss"]
    both = left.index.intersection(right.index).sort_values()
    if both.empty:
        raise Unreadable(f"{a.name} and {b.name} have no step in common")
    x, y = left[both].to_numpy(np.float64), right[both].to_numpy(np.float64)
    lines = [f"A: {a.name} ({a.values['path']})", f"B: {b.name} ({b.values['path']})", ""]
    lines += _table(both, x, y, every or max(1, -(-len(both) // LINES)))
    lines += ["", f"training loss: {verdict(both, x, y)}"]
    evals = [row.metrics.evals["loss"] for row in (a, b) if "loss" in row.metrics.evals]
    common = evals[0].index.intersection(evals[1].index) if len(evals) == 2 else pd.Index([])
    if len(common):
        lines.append(f"validation loss: {verdict(common, *(e[common].to_numpy(np.float64) for e in evals))}")
    sets = [row.metrics.validation_sets for row in (a, b)]
    for name in (name for name in sets[0] if name in sets[1]):
        one, other = a.metrics.validation(name), b.metrics.validation(name)
        common = one.index.intersection(other.index)
        if len(common):
            pair = (losses[common].to_numpy(np.float64) for losses in (one, other))
            lines.append(f"validation loss of {name}: {verdict(common, *pair)}")
    if "differ" in " ".join(lines[-3:]):
        lines += [f"why: {reason}" for reason in reasons(a, b)]
    if len(left) != len(both) or len(right) != len(both):
        lines.append(f"A has {len(left)} steps, B {len(right)}: compared the {len(both)} that both have")
    return "\n".join(lines)


def reasons(a: Row, b: Row) -> list[str]:
    """What may make their bits differ, by their configurations and by where they ran."""
    own, other = a.metrics.config, b.metrics.config
    differ = [key for key in sorted(own.keys() & other.keys()) if own[key] != other[key] and key not in NOTHING]
    found = []
    for prefixes, words in OPTIONS:
        if keys := [key for key in differ if key.startswith(prefixes)]:
            found.append(", ".join(f"{key} {own[key] or 'empty'} and {other[key] or 'empty'}" for key in keys[:3]) + f": {words}")
    if "train.steps" in differ and own.get("optim.schedule") != "constant":
        found.append(f"train.steps {own['train.steps']} and {other['train.steps']}: other learning rates at a step")
    one, two = ((row.values["ranks"], row.values["tokens_per_step"]) for row in (a, b))
    if one[1] and two[1] and one[1] != two[1]:
        found.append(f"{one[1]:.0f} and {two[1]:.0f} tokens a step: another batch")
    elif one[0] != two[0] and (own.get("precision.reduce") != "fp32" or any((ranks or 1) & ((ranks or 1) - 1) for ranks in (one[0], two[0]))):
        found.append(f"{one[0]} and {two[0]} ranks: sums are the same only over powers of two, reduced in fp32 (docs/numerics.md, 2)")
    if "false" in (own.get("run.deterministic"), other.get("run.deterministic")):
        found.append("run.deterministic = false: sums in any order")
    for keys in FACTS:
        told = [(key, *(str(row.metrics.provenance.get(key) or "") for row in (a, b))) for key in keys]
        found += [f"{key} {x} and {y}" for key, x, y in told if x and y and x != y][:1]
    return found or ["no option and no fact that is recorded; equal bits are expected (docs/numerics.md, 2)"]


def same_bits(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """A mask of the places where two arrays of float64 agree in every bit: NaN with NaN, but not 0 with -0."""
    return x.view(np.int64) == y.view(np.int64)


def _table(steps: pd.Index, x: np.ndarray, y: np.ndarray, every: int) -> list[str]:
    """Every N-th step, the first and the last."""
    lines = [f"{'step':>8}  {'loss A':>12}  {'loss B':>12}  {'difference':>12}"]
    lines.append("-" * len(lines[0]))
    for i in sorted({*range(0, len(steps), every), len(steps) - 1}):
        equal = same_bits(x[i:i + 1], y[i:i + 1])[0]
        lines.append(f"{steps[i]:>8}  {x[i]:>12.8f}  {y[i]:>12.8f}  {'0' if equal else f'{y[i] - x[i]:.3e}':>12}")
    return lines


def verdict(steps: pd.Index, x: np.ndarray, y: np.ndarray) -> str:
    """Equal bits, or the largest difference with its step, and the relative tolerance that all steps keep."""
    equal = same_bits(np.ascontiguousarray(x), np.ascontiguousarray(y))
    if equal.all():
        return f"equal bits at all {len(steps)} steps"
    finite = np.isfinite(x) & np.isfinite(y)
    broken = ~finite & ~equal
    if broken.any():
        return f"differs at step {steps[int(np.argmax(broken))]}, where one of them is not finite"
    with np.errstate(divide="ignore", invalid="ignore"):
        difference = np.where(finite, np.abs(y - x), 0.0)
        relative = np.where(difference > 0, difference / np.maximum(np.abs(x), np.abs(y)), 0.0)
    worst = int(np.argmax(difference))
    return (f"{int((~equal).sum())} of {len(steps)} steps differ, first step {steps[int(np.argmin(equal))]}; "
            f"maximum {difference[worst]:.3e} at step {steps[worst]}; "
            f"equal within {_rounded_up(float(relative.max()))} relative")


def _rounded_up(value: float) -> str:
    """The value with two digits, never below it, so that it can be used as a tolerance."""
    if value == 0:
        return "0"
    power = 10.0 ** (np.floor(np.log10(value)) - 1)
    return f"{np.ceil(value / power * (1 - 1e-12)) * power:.1e}"
