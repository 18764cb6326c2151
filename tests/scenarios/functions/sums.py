"""Aggregates in Python for the scenarios beside it."""

from __future__ import annotations


class Total:
    """The sum of integers; 13 is refused, and 99 is no result."""

    def create(self) -> int:
        """Return the sum of nothing."""
        return 0

    def add(self, state: int, x: int) -> int:
        """Add a number."""
        if x == 13:
            raise ValueError("13 is not a number")
        return state + x

    def result(self, state: int) -> int:
        """Return the sum."""
        if state == 99:
            raise ArithmeticError("99 is not a result")
        return state


class Moving(Total):
    """The same, which can retract."""

    def retract(self, state: int, x: int) -> int:
        """Take a number back; 7 is not given back."""
        if x == 7:
            raise LookupError("7 stays")
        return state - x


class Mean:
    """The weighted mean, whose state is a dictionary that changes in place. NULL counts as 0."""

    def create(self) -> dict[str, float]:
        """Return the state of no row."""
        return {"sum": 0.0, "weight": 0.0}

    def add(self, state: dict[str, float], x: float | None, weight: float | None) -> dict[str, float]:
        """Add a value with its weight."""
        state["sum"] += (x or 0.0) * (weight or 0.0)
        state["weight"] += weight or 0.0
        return state

    def result(self, state: dict[str, float]) -> float | None:
        """Return the mean; NULL without weight."""
        return state["sum"] / state["weight"] if state["weight"] else None


class Rows:
    """The number of rows: an aggregate without arguments."""

    def create(self) -> int:
        """Return zero."""
        return 0

    def add(self, state: int) -> int:
        """Count a row."""
        return state + 1

    def result(self, state: int) -> int:
        """Return the number."""
        return state


class Odd:
    """States and results that are not taken."""

    def create(self) -> object:
        """Return a state."""
        return 0

    def add(self, state: object, x: int) -> object:
        """Return no state, one of an odd type, or a number."""
        return [None, self, x, 2**70, (x, "text", 1.5)][x]

    def result(self, state: object) -> object:
        """Return the state."""
        return state


class Count:
    """The number of rows, those with NULL among them."""

    def create(self) -> int:
        """Return zero."""
        return 0

    def add(self, state: int, x: int | None) -> int:
        """Count a row."""
        del x
        return state + 1

    def result(self, state: int) -> int:
        """Return the number."""
        return state
