"""Lists of values in ascending order, for aggregates of sorted values. NaN, which has no order, comes last.

Such an aggregate skips NaN if there is another value (docs/sql/semantics.md#nan), so NaN is kept apart, at the end.
"""

from __future__ import annotations

from bisect import bisect_left, insort_right
from collections.abc import Sequence
from typing import Any


def is_nan(value: Any) -> bool:
    """Return whether a value is NaN, which alone differs from itself."""
    return bool(value != value)  # noqa: PLR0124


def put(held: list[Any], value: Any) -> None:
    """Put a value in its place, after those that are equal."""
    if is_nan(value):
        held.append(value)
    elif held and is_nan(held[-1]):
        insort_right(held, value, hi=_numbers(held))
    else:
        insort_right(held, value)


def put_greatest(held: list[Any], value: Any, most: int) -> None:
    """Put a value in its place if it is one of the ``most`` greatest, and take out what is not one any more."""
    if len(held) < most:
        put(held, value)
    elif is_nan(held[-1]):
        put(held, value)
        held.pop()
    elif value > held[0]:
        del held[0]
        put(held, value)


def take_out(held: list[Any], value: Any) -> None:
    """Take out a value that is there, of equal ones the first."""
    if is_nan(value):
        held.pop()
    elif is_nan(held[-1]):
        del held[bisect_left(held, value, hi=_numbers(held))]
    else:
        del held[bisect_left(held, value)]


def counted(held: Sequence[Any]) -> Sequence[Any]:
    """Return the values that count: all but NaN, or NaN if there is nothing else."""
    return held[: _numbers(held)] or held if held and is_nan(held[-1]) else held


def _numbers(held: Sequence[Any]) -> int:
    """Return how many values are not NaN."""
    return next((at + 1 for at in range(len(held) - 1, -1, -1) if not is_nan(held[at])), 0)
