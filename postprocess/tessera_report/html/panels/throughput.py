"""Throughput of the rows with quartiles and speed-ups."""
from __future__ import annotations

from typing import Optional

from ...table import count
from .. import svg
from ..quantity import name, optional, short, show, text, times
from ..quartiles import doubts
from ..study import Study
from .panel import Panel, drawn, tick


def throughput(study: Study) -> Optional[Panel]:
    """Median tokens/s as bars, quartiles as whiskers, the speed-up behind them; the baseline is grey and comes first."""
    rows = study.trained
    if len(rows) < 2:
        return None
    figure, axes = svg.bar_axes([row.label for row in rows])
    cells = []
    for place, row in enumerate(rows):
        median, low, high = (row.key(f"tokens_per_second{end}") for end in ("", "_q1", "_q3"))
        speedup = study.speedup(row)
        colour = svg.BASELINE if row is study.baseline else svg.OTHERS
        axes.barh(place, median.value, 0.66, alpha=0.4 if doubts(row) else 1,
                  **({"color": "white", "edgecolor": colour, "hatch": "////"} if row.failed else {"color": colour}))
        axes.errorbar(median.value, place, xerr=[[median.value - low.value], [high.value - median.value]],
                      color=svg.INK, linewidth=0.9, capsize=2.5, capthick=0.9)
        label = count(median.value) + (f"  {speedup.value:.2f}x" if speedup else "")
        axes.annotate(label, (max(median.value, high.value), place), xytext=(5, 0), textcoords="offset points", va="center", fontsize=8.5)
        cells.append([name(row.name), show(median, short), show(low, short), show(high, short), optional(speedup, times)])
    axes.set_xlim(0, 1.38 * max(row.values["tokens_per_second_q3"] for row in rows) or 1)
    axes.xaxis.set_major_formatter(lambda value, _: tick(value))
    against = f"\nspeed-up against {study.baseline.name}" if any(study.speedup(row) for row in rows) else ""
    pale = "\npale: not reliable" if any(map(doubts, rows)) else ""
    axes.set_xlabel(f"tokens/s, median and quartiles{pale}{against}")
    caption = text("Bars are medians over steps after warm-up, whiskers their quartiles.")
    return drawn(figure, "throughput" + study.suffix, "Throughput" + study.scale, caption,
                 ["row", "tokens/s", "lower quartile", "upper quartile", "speed-up"], cells)
