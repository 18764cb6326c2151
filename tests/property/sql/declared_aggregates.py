"""Aggregates in Python for a property: a sum and an ordered list, with and without ``retract``."""

from __future__ import annotations

LIMIT = 7


class Total:
    """The sum of integers."""

    def create(self) -> int:
        return 0

    def add(self, state: int, x: int) -> int:
        return state + x

    def result(self, state: int) -> int:
        return state


class Moving(Total):
    """The sum, which can retract."""

    def retract(self, state: int, x: int) -> int:
        return state - x


class Texts:
    """The texts in their order, and their number, in a dictionary that is changed in place."""

    def create(self) -> dict[str, object]:
        return {"all": [], "n": 0}

    def add(self, state: dict[str, object], text: str) -> dict[str, object]:
        held = state["all"]
        assert isinstance(held, list)
        held.append(text)
        state["n"] = len(held)
        return state

    def result(self, state: dict[str, object]) -> str:
        held = state["all"]
        assert isinstance(held, list)
        assert state["n"] == len(held)
        return "".join(held)


class Refusing(Total):
    """The sum of integers below a limit: others, and an old value that is one of them, raise."""

    def add(self, state: int, x: int) -> int:
        if x >= LIMIT:
            raise ValueError(f"{x} is too large")
        return state + x


class RefusingMoving(Refusing):
    """The same, which can retract."""

    def retract(self, state: int, x: int) -> int:
        return state - x


class Drifting:
    """A sum of floating-point numbers, which depends on all that has left it."""

    def create(self) -> float:
        return 0.0

    def add(self, state: float, x: int) -> float:
        return state + x / 7 + x * 1e15

    def retract(self, state: float, x: int) -> float:
        return state - x / 7 - x * 1e15

    def result(self, state: float) -> float:
        return state
