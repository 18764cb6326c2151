"""Table functions of scenarios."""

from __future__ import annotations


class Differences:
    """The difference of each number from the one before; as many copies as asked for."""

    def create(self) -> dict[str, int]:
        return {}

    def add(self, state: dict[str, int], rowtime: int, n: int, copies: int) -> object:
        if n == 13:
            raise ValueError("13 is not a number here")
        if n == 14:
            return state
        if n == 15:
            return state, [(1, "too", "many")]
        if n == 16:
            return state, [(rowtime, n, "no number")]
        before = state.get("n", 0)
        state["n"] = n
        return state, [(rowtime, n - before, copy) for copy in range(copies)]
