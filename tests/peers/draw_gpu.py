#!/usr/bin/env python3
"""Draws steps measured on a GPU: bars of tokens/s of Tessera, the best setting of PyTorch, llm.c and llmq, a panel for each model.

    /usr/bin/python3 draw_gpu.py RESULTS.json PICTURE.png

RESULTS.json is what `compare.py --device cuda --output` writes, or a file of docs/measurements. A bar is the median over rounds; where
several differ by more than 1%, a line goes from the least to the largest.
"""

import json
import statistics
import sys

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt

OURS, FIXED, THEIRS = "#1f6f8b", "#7fb7be", "#b8b8b8"


def bars_of(rates):
    """The bars of a model from top to bottom: (label, rates of its rounds, colour)."""
    bars = [("Tessera", rates.get("tessera"), OURS), ("Tessera, deterministic", rates.get("tessera, deterministic"), FIXED)]
    peers = {name: values for name, values in rates.items() if name.startswith("pytorch")}
    if peers:
        best = max(peers, key=lambda name: statistics.median(peers[name]))
        bars.append((f"PyTorch\n({best.removeprefix('pytorch ')})", peers[best], THEIRS))
    bars += [(name, values, THEIRS) for name, values in rates.items() if name.startswith(("llm.c", "llmq"))]
    return [bar for bar in bars if bar[1]]


def thousands(rate):
    """A rate as pages and pictures have it: 53.1K, 609K."""
    return f"{rate / 1e3:.{1 if rate < 1e5 else 0}f}K"


def spread_of(rates):
    """How far the least and the largest are from the median, if that can be seen."""
    middle = statistics.median(rates)
    return (middle - min(rates), max(rates) - middle) if max(rates) - min(rates) > middle / 100 else (0, 0)


def draw_model(axes, model):
    bars = bars_of(model["tokens_per_second"])
    medians = [statistics.median(values) for _, values, _ in bars]
    places = range(len(bars))
    spread = list(zip(*(spread_of(values) for _, values, _ in bars)))
    axes.barh(places, [middle / 1e3 for middle in medians], color=[colour for _, _, colour in bars], height=0.7,
              xerr=[[value / 1e3 for value in side] for side in spread] if any(map(any, spread)) else None)
    axes.set_yticks(places, [label for label, _, _ in bars], fontsize=8)
    axes.invert_yaxis()
    for place, middle in zip(places, medians):
        axes.annotate(thousands(middle), (middle / 1e3, place), xytext=(-4, 0), textcoords="offset points", ha="right",
                      va="center", fontsize=8, color="white" if place == 0 else "black")
    sizes = [model[size] for size in ("micro_batch", "sequence", "accumulation") if size in model]
    axes.set_title(f"{model['preset']}, {' x '.join(map(str, sizes))}", fontsize=9)
    axes.set_xlabel("thousand tokens/s", fontsize=8)
    axes.tick_params(axis="x", labelsize=8)
    axes.spines[["top", "right"]].set_visible(False)


def main(results, picture):
    with open(results, encoding="utf-8") as file:
        measured = json.load(file)
    models = [model for model in measured["models"] if len(bars_of(model["tokens_per_second"])) > 1]
    if not models:
        sys.exit(f"{results}: no model has two contenders to compare")
    rows, columns = -(-len(models) // 2), min(2, len(models))
    figure, panels = plt.subplots(rows, columns, figsize=(4.2 * columns, 2 * rows + 0.2), squeeze=False, layout="constrained")
    for axes, model in zip(panels.flat, models):
        draw_model(axes, model)
    for axes in panels.flat[len(models):]:
        axes.set_axis_off()
    figure.suptitle(f"One {measured['gpu']}, {measured['precision']}, {measured['date']}", fontsize=9)
    figure.savefig(picture, dpi=110)


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    main(*sys.argv[1:])
