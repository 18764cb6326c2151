"""Classes that CREATE AGGREGATE FUNCTION refuses, and one that it takes, for ``errors.txt``."""

from __future__ import annotations


class Total:
    """A sum."""

    def create(self) -> int:
        """Return the first state."""
        return 0

    def add(self, state: int, x: int) -> int:
        """Add a number."""
        return state + x

    def result(self, state: int) -> int:
        """Return the sum."""
        return state


class Endless:
    """A class without a result."""

    def create(self) -> int:
        """Return the first state."""
        return 0

    def add(self, state: int, x: int) -> int:
        """Add a number."""
        return state + x


class Needy(Total):
    """A class that cannot be made."""

    def __init__(self, limit: int) -> None:
        self.limit = limit


class Empty(Total):
    """A class whose first state is none."""

    def create(self) -> int:
        """Return nothing."""
        return None  # type: ignore[return-value]


class Odd(Total):
    """A class whose first state cannot be kept."""

    def create(self) -> int:
        """Return itself."""
        return self  # type: ignore[return-value]


class Retracting(Total):
    """A class whose retract takes other arguments."""

    def retract(self, state: int) -> int:
        """Take nothing back."""
        return state


def total(x: int) -> int:
    """Return the argument."""
    return x
