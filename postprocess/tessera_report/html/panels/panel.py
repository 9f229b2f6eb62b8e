"""A panel: a picture, its caption, and its numbers with their sources."""
from __future__ import annotations

from dataclasses import dataclass, field
from typing import Optional

from matplotlib.figure import Figure

from ..quantity import Html
from ..svg import WIDTH, inline

Cells = list[Html]
UNITS = [("GB", 1e9), ("MB", 1e6), ("kB", 1e3), ("B", 1.0)]


@dataclass
class Panel:
    """A picture with its caption. `head` and `cells` are the table of the numbers in it; wide ones take a line."""

    key: str
    title: str
    picture: Html
    caption: Html
    head: list[str] = field(default_factory=list)
    cells: list[Cells] = field(default_factory=list)
    wide: bool = False
    figure: Optional[Figure] = None

    @property
    def is_low(self) -> bool:
        """Whether its letters stay readable in the height that a picture has on the first screen."""
        return self.figure is not None and self.figure.get_figheight() < 0.85 * WIDTH


def drawn(figure: Figure,
          key: str, title: str, caption: Html, head: Optional[list[str]] = None, cells: Optional[list[Cells]] = None, wide: bool = False) -> Panel:
    return Panel(key, title, Html(inline(figure, key, title)), caption, head or [], cells or [], wide, figure)


def unit_of(most: float) -> tuple[str, float]:
    """The unit of bytes in which the largest value of a picture has one to three digits before the point."""
    return next(((unit, size) for unit, size in UNITS if most >= size), UNITS[-1])


def tick(value: float) -> str:
    """A number at an axis: 500, 5K, 2.5M."""
    unit, scale = next(((unit, scale) for unit, scale in (("G", 1e9), ("M", 1e6), ("K", 1e3)) if abs(value) >= scale), ("", 1.0))
    return f"{value / scale:g}{unit}"
