"""Values between values, for CREATE FUNCTION .. RETURNS TABLE."""

from __future__ import annotations

_Last = tuple[int, float] | tuple[()]
"""Time (ms) and value of the last row; empty before the first one."""


class Linear:
    """The values at all multiples of a step, on the straight lines between the rows.

    It is called with the value of a row, the step, and the longest gap to be bridged, both as intervals of days
    to seconds. It returns rows of a time and a value: for a row at *t* after one at *s* the multiples from after
    *s* to *t*, counted from 1970-01-01. A first row, and one after a longer gap, gives only its own time, if that
    is a multiple. Rows without a value are left out. Of rows at one time, the last one begins the next line.
    """

    def create(self) -> _Last:
        """Return the state without any row."""
        return ()

    def add(
        self, state: _Last, rowtime: int, x: float | None, step: int, longest: int
    ) -> tuple[_Last, list[tuple[int, float]]]:
        """Return the state with a row, and the values up to it.

        Raises:
          ValueError: ``step`` is not above zero.
        """
        if step <= 0:
            raise ValueError("a step is above zero")
        if x is None:
            return state, []
        if not state or rowtime - state[0] > longest:
            return (rowtime, x), [(rowtime, x)] if rowtime % step == 0 else []
        start, before = state
        found = []
        for time in range((start // step + 1) * step, rowtime + 1, step):
            share = (time - start) / (rowtime - start)
            found.append((time, x if time == rowtime else before + share * (x - before)))
        return (rowtime, x), found
