"""Keys of rows in row form, and what rows are sorted by."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import isnan
from operator import itemgetter
from typing import Any

from rowtide.rows.rowop import Row


class DescendingKey:
    """A value that sorts the other way round."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, DescendingKey) and bool(self.value == other.value)

    def __hash__(self) -> int:
        return hash(self.value)

    def __lt__(self, other: DescendingKey) -> bool:
        return bool(other.value < self.value)


def key_getter(fields: Sequence[int]) -> Callable[[Row], Row]:
    """Return the function that takes a key out of a row, as a tuple whatever its width."""
    if not fields:
        return lambda row: ()
    if len(fields) == 1:
        (only,) = fields
        return lambda row: (row[only],)
    return itemgetter(*fields)


def sort_part(value: Any, *, descending: bool) -> object:
    """Return the sort key of a value: NULL is the greatest value, NaN comes after all others."""
    if isinstance(value, float) and isnan(value):
        part: tuple[Any, ...] = (False, not descending, 0)
    else:
        part = (value is None, descending, value)
    return DescendingKey(part) if descending else part
