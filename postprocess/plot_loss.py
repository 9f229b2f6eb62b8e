#!/usr/bin/env python3
"""Draws the loss curves of runs: plot_loss.py RUN [RUN ...] [--output FILE.png] (default: RUN/loss.png of the first).

Needs h5py, numpy and matplotlib (Debian: python3-h5py, python3-numpy, python3-matplotlib). Works while a run goes on.
"""

import argparse
import re
import sys
from pathlib import Path

try:
    import h5py
    import matplotlib
    import numpy as np
    matplotlib.use("Agg")  # no display needed
    import matplotlib.pyplot as plt
except ModuleNotFoundError as missing:
    sys.exit(f"{missing.name} is missing in {sys.executable}: {sys.executable} -m pip install {missing.name}, or "
             "apt-get install python3-h5py python3-numpy python3-matplotlib and /usr/bin/python3")


def metrics_files(run):
    """metrics.h5, metrics.1.h5, ... in the order of restarts."""
    found = {}
    for path in Path(run).glob("metrics*.h5"):
        match = re.fullmatch(r"metrics(?:\.(\d+))?\.h5", path.name)
        if match:
            found[int(match.group(1) or 0)] = path
    return [found[number] for number in sorted(found)]


def read_curve(run, group):
    """Steps and losses of /steps or /eval over all restarts. Files of older versions repeat steps that were done again:
    the later row counts."""
    curve = {}
    for path in metrics_files(run):
        with h5py.File(path, "r", libver="latest", swmr=True) as file:
            if group not in file:
                continue
            steps, losses = file[group]["step"][:], file[group]["loss"][:]
            rows = min(len(steps), len(losses))  # a crash may leave one dataset a row ahead
            if rows:
                curve = {step: loss for step, loss in curve.items() if step < steps[0]}
                curve.update(zip(steps[:rows].tolist(), losses[:rows].tolist()))
    steps = np.array(sorted(curve), dtype=np.int64)
    return steps, np.array([curve[step] for step in steps.tolist()], dtype=np.float64)


def plot(runs, output):
    figure, axes = plt.subplots(figsize=(7, 4.2), constrained_layout=True)
    for run in runs:
        label = Path(run).resolve().name
        (line,) = axes.plot(*read_curve(run, "steps"), linewidth=1, label=f"{label}: training")
        steps, losses = read_curve(run, "eval")
        if len(steps):
            axes.plot(steps, losses, "o--", markersize=4, linewidth=1, color=line.get_color(), markerfacecolor="white",
                      label=f"{label}: validation")
    axes.set_xlabel("step")
    axes.set_ylabel("loss (nats per token)")
    axes.grid(alpha=0.3)
    axes.legend(frameon=False)
    figure.savefig(output, dpi=150)
    plt.close(figure)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("runs", nargs="+", metavar="RUN")
    parser.add_argument("--output", help="picture to write (default: RUN/loss.png of the first run)")
    options = parser.parse_args()
    for run in options.runs:
        if not metrics_files(run):
            sys.exit(f"{run} holds no metrics.h5: name the folder of a run")
        if not len(read_curve(run, "steps")[0]):
            sys.exit(f"{run} has no step in its metrics yet: wait for the first one")
    output = options.output or str(Path(options.runs[0]) / "loss.png")
    plot(options.runs, output)
    print(f"plot: {output}")


if __name__ == "__main__":
    main()
