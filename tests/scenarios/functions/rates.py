"""Functions in Python for the scenarios beside it."""

from __future__ import annotations

import math
import sys
from decimal import Decimal


def root(x: float, factor: int) -> float:
    """Return the square root times a factor; 13 is refused."""
    if factor == 13:
        raise ValueError("13 is not a factor")
    return math.sqrt(x) * factor


def net(price: Decimal) -> Decimal:
    """Return a price without a tax of 19 %."""
    return price / Decimal("1.19")


def coded(text: str | None) -> str | None:
    """Return a text backwards, and '?' for NULL."""
    return "?" if text is None else text[::-1] or None


def odd(number: int) -> object:
    """Return what INTEGER takes only for some numbers."""
    kinds: list[object] = [number, 2**40, 1.5, "text", None, [number], True, float("nan")]
    return kinds[number]


def leave(number: int) -> int:
    """End the process for 0, raise what says nothing for 1 and 2."""
    if number == 0:
        sys.exit(3)
    if number == 1:
        raise KeyError
    if number == 2:
        raise Speechless
    return number


class Speechless(Exception):
    """An exception that fails to say what it is."""

    def __str__(self) -> str:
        raise ValueError
