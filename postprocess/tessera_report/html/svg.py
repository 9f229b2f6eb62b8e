"""matplotlib's figures as SVG inside the page: the same input gives the same bytes, and ids are unique in a page."""
from __future__ import annotations

import html
import io
import re
from typing import Any

import matplotlib

matplotlib.use("Agg")  # no display needed
from matplotlib.axes import Axes  # noqa: E402 (after the choice of the backend)
from matplotlib.figure import Figure  # noqa: E402

# Okabe and Ito's colours, which differ for the colour-blind too.
COLOURS = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#8C8C00"]
LINES = ["-", "--", "-.", ":"]
WIDTH = 4.9  # inches: an SVG that fills a phone of 400 pixels has letters of 10 pixels
LETTER = 0.074  # inches of a letter in a legend
MOST_LETTERS = 32  # of a row's name on an axis
INK, FAINT, GRID = "#1c2733", "#5b6770", "#dfe4e8"
BASELINE, OTHERS = "#5b6770", "#3b8dc4"
STYLE: dict[str, Any] = {
    "svg.fonttype": "none",
    "svg.hashsalt": "tessera",
    "font.family": "DejaVu Sans",
    "font.size": 9,
    "axes.edgecolor": "#9aa5ad",
    "axes.labelcolor": INK,
    "axes.titlesize": 9.5,
    "axes.titlelocation": "left",
    "text.color": INK,
    "xtick.color": FAINT,
    "ytick.color": FAINT,
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
    "axes.linewidth": 0.7,
    "xtick.major.width": 0.7,
    "ytick.major.width": 0.7,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "grid.color": GRID,
    "grid.linewidth": 0.7,
    "legend.frameon": False,
    "legend.fontsize": 8.5,
    "hatch.linewidth": 0.5,
    "axes.axisbelow": True,
    "figure.facecolor": "none",
    "axes.facecolor": "none",
}
if "text.parse_math" in matplotlib.rcParams:  # since 3.6: a name may hold $
    STYLE["text.parse_math"] = False


def figure(height: float, columns: int = 1, lines: int = 1, width: float = WIDTH, **options: Any) -> tuple[Figure, Any]:
    """A figure (inches) and its axes, as plt.subplots gives them. The caller has set STYLE."""
    made = Figure(figsize=(width, height), layout="constrained")
    return made, made.subplots(lines, columns, **options)


def short_name(name: str) -> str:
    """The begin and the end of a long name, so that the picture has room for more than names."""
    return name if len(name) <= MOST_LETTERS else f"{name[:MOST_LETTERS // 2 - 1]}\N{HORIZONTAL ELLIPSIS}{name[-MOST_LETTERS // 2:]}"


def bar_axes(names: list[str], extra: float = 0.8) -> tuple[Figure, Axes]:
    """Horizontal bars, a line for each name, the first on top."""
    made, axes = figure(extra + 0.27 * len(names))
    axes.set_yticks(range(len(names)), [short_name(name) for name in names])
    axes.set_ylim(len(names) - 0.4, -0.6)
    axes.tick_params(axis="y", length=0)
    axes.spines["left"].set_visible(False)
    axes.grid(axis="x")
    return made, axes


def legend(made: Figure, axes: Axes, **options: Any) -> None:
    """The legend of `axes` above the whole figure, which grows by it; as many columns as fit."""
    handles, labels = axes.get_legend_handles_labels()
    if not labels:
        return
    wide, high = made.get_size_inches()
    columns = max(1, min(len(labels), int(wide / (0.42 + LETTER * max(map(len, labels))))))
    extra = 0.06 + 0.175 * -(-len(labels) // columns)
    made.set_figheight(high + extra)
    drawn = made.legend(handles, labels, loc="upper left", bbox_to_anchor=(0.0, 1.0), ncol=columns, fontsize=8,
                        handlelength=1.6, columnspacing=1.2, borderaxespad=0.1, borderpad=0.1, **options)
    drawn.set_in_layout(False)
    made.get_layout_engine().set(rect=(0, 0, 1, high / (high + extra)))


def ranks_axis(axes: Axes, ranks: list[int]) -> None:
    """Ticks at the ranks; over a wide range both axes are logarithmic, so that the ideal stays a straight line."""
    if max(ranks) > 8 * min(ranks):
        axes.set_xscale("log", base=2)
    axes.set_xticks(ranks, [str(rank) for rank in ranks])
    axes.minorticks_off()


def style_of(place: int) -> dict[str, Any]:
    """Colour and line of the n-th curve: they differ for the colour-blind too."""
    return {"color": COLOURS[place % len(COLOURS)], "linestyle": LINES[place // len(COLOURS) % len(LINES)]}


def inline(made: Figure, key: str, title: str) -> str:
    """The figure as an <svg> element; ids begin with `key`."""
    buffer = io.StringIO()
    with matplotlib.rc_context({"svg.hashsalt": key}):
        made.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None, "Format": None, "Type": None})
    text = buffer.getvalue()
    text = text[text.index("<svg"):]
    text = re.sub(r"<metadata>.*?</metadata>\s*", "", text, flags=re.S)
    text = re.sub(r"<!--.*?-->\s*", "", text, flags=re.S)
    text = _own_ids(text.replace("xlink:href", "href"), key)
    text = re.sub(r"font: (?:bold )?([\d.]+)px [^;\"]*", r"font-size: \1px", text)  # the page's own letters
    text = re.sub(r"<[^>]+>", lambda tag: re.sub(r"-?\d+\.\d{3,}", lambda match: f"{float(match[0]):.2f}", tag[0]), text)
    text = re.sub(r"\n\s*", "\n", text)
    view = re.search(r'viewBox="([^"]*)"', text)[1]
    label = html.escape(title)
    head = (f'<svg viewBox="{view}" role="img" aria-labelledby="{key}-title" preserveAspectRatio="xMinYMin meet">'
            f'<title id="{key}-title">{label}</title>')
    return head + text[text.index(">") + 1:].strip()


def _own_ids(text: str, key: str) -> str:
    """Ids that something refers to, numbered in their order behind `key`; the others go. matplotlib's change from run to run."""
    used = dict.fromkeys(re.findall(r'(?:url\(|href=")#([^")]*)', text))
    number = {name: f"{key}-{place}" for place, name in enumerate(used, start=1)}
    text = re.sub(r' id="([^"]*)"', lambda match: f' id="{number[match[1]]}"' if match[1] in number else "", text)
    return re.sub(r'(url\(#|href="#)([^")]*)', lambda match: match[1] + number[match[2]], text)
