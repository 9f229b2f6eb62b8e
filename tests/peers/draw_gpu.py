#!/usr/bin/env python3
"""Draws steps measured on a GPU: bars of tokens/s of Tessera, the best setting of PyTorch, and llm.c, a panel for each model.

    /usr/bin/python3 draw_gpu.py RESULTS.json PICTURE.png

RESULTS.json is what `compare.py --device cuda --output` writes, or a file of docs/measurements. A bar is the median over rounds; where
there are several, a line goes from the least to the largest.
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
    bars += [(name, values, THEIRS) for name, values in rates.items() if name.startswith("llm.c")]
    return [bar for bar in bars if bar[1]]


def draw_model(axes, model):
    bars = bars_of(model["tokens_per_second"])
    medians = [statistics.median(values) for _, values, _ in bars]
    places = range(len(bars))
    spread = [[middle - min(values) for middle, (_, values, _) in zip(medians, bars)],
              [max(values) - middle for middle, (_, values, _) in zip(medians, bars)]]
    axes.barh(places, [middle / 1e3 for middle in medians], color=[colour for _, _, colour in bars], height=0.7,
              xerr=[[value / 1e3 for value in side] for side in spread] if any(map(any, spread)) else None)
    axes.set_yticks(places, [label for label, _, _ in bars], fontsize=8)
    axes.invert_yaxis()
    for place, middle in zip(places, medians):
        axes.annotate(f"{middle / 1e3:.{1 if middle < 1e5 else 0}f}K", (middle / 1e3, place), xytext=(-4, 0), textcoords="offset points", ha="right",
                      va="center", fontsize=8, color="white" if place == 0 else "black")
    axes.set_title(f"{model['preset']}, {model['micro_batch']} x {model['sequence']}", fontsize=9)
    axes.set_xlabel("thousand tokens/s", fontsize=8)
    axes.tick_params(axis="x", labelsize=8)
    axes.spines[["top", "right"]].set_visible(False)


def main(results, picture):
    with open(results, encoding="utf-8") as file:
        measured = json.load(file)
    models = [model for model in measured["models"] if len(bars_of(model["tokens_per_second"])) > 1]
    if not models:
        sys.exit(f"{results}: no model has two contenders to compare")
    figure, panels = plt.subplots(1, len(models), figsize=(3.8 * len(models), 2.1), squeeze=False, layout="constrained")
    for axes, model in zip(panels[0], models):
        draw_model(axes, model)
    figure.suptitle(f"One {measured['gpu']}, {measured['precision']}, {measured['date']}", fontsize=9)
    figure.savefig(picture, dpi=110)


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    main(*sys.argv[1:])
