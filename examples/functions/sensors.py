"""Functions of a pipeline: a template to copy. One is called for each row, one with arrays; one is an aggregate."""

from __future__ import annotations

from decimal import Decimal

import numpy as np
from numpy.typing import NDArray

STEPS = ((Decimal("0.10"), "low"), (Decimal("0.50"), "medium"))


def grade(share: Decimal | None) -> str:
    """Return the word for a share from 0 to 1."""
    if share is None:
        return "unknown"
    if not 0 <= share <= 1:
        raise ValueError("a share is from 0 to 1")
    return next((word for limit, word in STEPS if share < limit), "high")


def dew_point(celsius: NDArray[np.float64], humidity: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the dew points in °C by the Magnus formula; the humidity is in percent."""
    if not np.all((humidity > 0) & (humidity <= 100)):
        raise ValueError("a humidity is above 0 and at most 100 percent")
    gamma = np.log(humidity / 100) + 17.62 * celsius / (243.12 + celsius)
    point: NDArray[np.float64] = 243.12 * gamma / (17.62 - gamma)
    return point


class Swing:
    """The greatest change from one value to the next."""

    def create(self) -> tuple[float, ...]:
        """Return the state without any value."""
        return ()

    def add(self, state: tuple[float, ...], x: float) -> tuple[float, ...]:
        """Return the last value, and the greatest change up to it."""
        if not state:
            return x, 0.0
        last, greatest = state
        return x, max(greatest, abs(x - last))

    def result(self, state: tuple[float, ...]) -> float:
        """Return the greatest change."""
        return state[1]
