"""A number that knows where it came from: an expression that a reader, or a test, can compute again.

docs/manual/report_numbers.md lists the functions of these expressions.
"""
from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any, Callable, Union

Number = Union["Quantity", int, float]


@dataclass(frozen=True)
class Quantity:
    """A finite number in base units (bytes, seconds, tokens/s, shares of 1) and the expression that gives it."""

    value: float
    source: str

    def __add__(self, other: Number) -> "Quantity":
        return self._with(other, "+", lambda a, b: a + b)

    def __sub__(self, other: Number) -> "Quantity":
        return self._with(other, "-", lambda a, b: a - b)

    def __mul__(self, other: Number) -> "Quantity":
        return self._with(other, "*", lambda a, b: a * b)

    def __truediv__(self, other: Number) -> "Quantity":
        return self._with(other, "/", lambda a, b: a / b)

    def _with(self, other: Number, sign: str, result: Callable[[float, float], float]) -> "Quantity":
        other = other if isinstance(other, Quantity) else constant(other)
        return Quantity(result(self.value, other.value), f"{_grouped(self.source)} {sign} {_grouped(other.source)}")


def _grouped(source: str) -> str:
    """In parentheses, unless the expression is one call or one number."""
    return source if re.fullmatch(r"[\w.]+(\([^()]*\))?", source) else f"({source})"


def constant(value: float) -> Quantity:
    return Quantity(value, f"{value:g}" if isinstance(value, float) else str(value))


def call(value: float, function: str, *arguments: Any) -> Quantity:
    """The result of `function` of texts and numbers: call(7.0, "last", ...)."""
    texts = (argument.source if isinstance(argument, Quantity) else json.dumps(argument) for argument in arguments)
    return Quantity(float(value), f"{function}({', '.join(texts)})")
