"""HTML text that shows numbers with their sources."""
from __future__ import annotations

import html
import statistics
from typing import Any, Callable, Optional

from ..quantity import Quantity, call, constant  # noqa: F401: a page takes them from here
from ..table import bytes_text, count, loss, seconds_text

class Html(str):
    """Text that is HTML already. Every other text is escaped where it goes into a page."""

    def __html__(self) -> str:  # what templates ask for
        return self


def largest(quantities: list[Quantity]) -> Quantity:
    return call(max(one.value for one in quantities), "max", *quantities)


def smallest(quantities: list[Quantity]) -> Quantity:
    return call(min(one.value for one in quantities), "min", *quantities)


def median(quantities: list[Quantity]) -> Quantity:
    return call(statistics.median(one.value for one in quantities), "median", *quantities)


def counted(names: list[str]) -> Quantity:
    """How many rows: their names are the source."""
    return call(len(names), "count", *names)


# Forms: a number as text ----------------------------------------------------------------------------------------------


def short(value: float) -> str:
    return count(value)


def times(value: float) -> str:
    return f"{value:.2f}x"


def rounded(value: float) -> str:
    return f"{value:.0%}"


def percent(value: float) -> str:
    return f"{value:.1%}"


def signed(value: float) -> str:
    return f"{value:+.1%}"


def whole(value: float) -> str:
    return f"{value:.0f}" if abs(value) < 1e5 else count(value)


def tenths(value: float) -> str:
    return f"{value:.1f}"


def decimals(value: float) -> str:
    return loss(value)


def plain(value: float) -> str:
    return f"{value:.3g}"


def scientific(value: float) -> str:
    return "0" if value == 0 else f"{value:.2e}"


def gigabytes_per_second(value: float) -> str:
    return f"{bytes_text(value)}/s" if value >= 1e9 else f"{value / 1e9:.3f} GB/s"


def nats(value: float) -> str:
    return plain(value) if value >= 0.01 else scientific(value)


size, duration = bytes_text, seconds_text


def show(quantity: Quantity, form: Callable[[float], str] = plain) -> Html:
    """The number as HTML: its text, its exact value, and its source."""
    return Html(f'<data value="{quantity.value!r}" data-source="{html.escape(quantity.source)}">'
                f"{html.escape(form(quantity.value))}</data>")


def escaped(value: Any) -> str:
    return value if isinstance(value, Html) else html.escape(str(value))


def text(template: str, **values: Any) -> Html:
    """The template with its {fields}; template and values are escaped unless they are Html."""
    return Html(html.escape(template, quote=False).format(**{name: escaped(value) for name, value in values.items()}))


def join(parts: list[Any], separator: str = "") -> Html:
    return Html(html.escape(separator).join(escaped(part) for part in parts))


def name(value: str) -> Html:
    """A row's name, an option or a value, in code type."""
    return Html(f"<code{' class=long' if len(value) > 36 else ''}>{html.escape(value)}</code>")


def names(values: list[str], most: int = 6) -> Html:
    """Names with commas; of many the first, and how many more."""
    shown = [name(value) for value in values[:most]]
    if len(values) > most:
        shown.append(text("{more} more", more=show(counted(values[most:]), whole)))
    return join(shown, ", ")


def number_of(rows: list[str], noun: str = "row", nouns: str = "") -> Html:
    """"1 row", "8 rows"."""
    return text("{count} {noun}", count=show(counted(rows), whole), noun=noun if len(rows) == 1 else nouns or f"{noun}s")


def out_of(found: list[str], every: list[str]) -> Html:
    """"3 of 8 rows", "1 of 1 row"."""
    return text("{count} of {all}", count=show(counted(found), whole), all=number_of(every))


def optional(quantity: Optional[Quantity], form: Callable[[float], str]) -> Html:
    return show(quantity, form) if quantity is not None else Html("–")
