"""Exponential averages, for CREATE AGGREGATE FUNCTION."""

from __future__ import annotations

import math

_Weighted = tuple[float, float, int]
"""The weighted sum, the sum of the weights, and the latest time (ms)."""


class ByCount:
    """The exponential moving average of a number of rows: the weight of a row is 2 / (rows + 1) of the rest.

    It is the recursive one: the first value begins the average, and each later value x makes it
    ``average + weight * (x - average)``. It is called with a value and a number of rows.
    """

    def create(self) -> tuple[float, ...]:
        """Return the state without any value."""
        return ()

    def add(self, state: tuple[float, ...], x: float, rows: int) -> tuple[float, ...]:
        """Return the state with a value.

        Raises:
          ValueError: ``rows`` is not above zero.
        """
        if rows < 1:
            raise ValueError("the number of rows is above zero")
        if not state:
            return (x,)
        (average,) = state
        return (average + 2 / (rows + 1) * (x - average),)

    def result(self, state: tuple[float, ...]) -> float:
        """Return the average."""
        return state[0]


class ByHalfLife:
    """The exponential average by time: the weight of a value halves with each half-life that it is old.

    It is called with a value, its time, such as ROWTIME, and the half-life as an interval of days to
    seconds. The age of a value is that before the latest time. Values may come in any order of time.
    """

    def create(self) -> tuple[float, float, int]:
        """Return the state without any value."""
        return 0.0, 0.0, 0

    def add(self, state: _Weighted, x: float, time: int, half_life: int) -> _Weighted:
        """Return the state with a value; times in ms.

        Raises:
          ValueError: the half-life is not above zero.
        """
        if half_life <= 0:
            raise ValueError("a half-life is above zero")
        total, weights, latest = state
        if not weights:
            return x, 1.0, time
        if time >= latest:
            faded = 0.5 ** ((time - latest) / half_life)
            return total * faded + x, weights * faded + 1.0, time
        weight = 0.5 ** ((latest - time) / half_life)
        return total + weight * x, weights + weight, latest

    def result(self, state: _Weighted) -> float:
        """Return the average."""
        total, weights, _ = state
        return total / weights


class Kalman:
    """The Kalman filter of one quantity that changes as a random walk.

    It is called with a measurement, the variance of the measurement and the variance of the change from row to
    row, and returns the estimate. The first measurement is the first estimate.
    """

    def create(self) -> tuple[float, ...]:
        """Return the state without a measurement."""
        return ()

    def add(self, state: tuple[float, ...], x: float, noise: float, drift: float) -> tuple[float, ...]:
        """Return estimate and variance after a measurement.

        Raises:
          ValueError: a variance is below zero, that of the measurement zero, or one is not finite.
        """
        if not (0 < noise < math.inf and 0 <= drift < math.inf):
            raise ValueError("the variance of a measurement is above zero, that of a change not below zero")
        if not state:
            return x, noise
        estimate, variance = state
        variance += drift
        gain = variance / (variance + noise)
        return estimate + gain * (x - estimate), (1 - gain) * variance

    def result(self, state: tuple[float, ...]) -> float:
        """Return the estimate."""
        return state[0]
