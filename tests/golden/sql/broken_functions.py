"""Functions that CREATE FUNCTION refuses, for ``errors.txt``."""

from __future__ import annotations

from collections.abc import Iterator

NUMBER = 7


def good(x: float) -> float:
    """Return the argument."""
    return x


async def later(x: float) -> float:
    """Return the argument later."""
    return x


def several(x: float) -> Iterator[float]:
    """Yield the argument."""
    yield x
