"""The contents of a table that a query lists: the net effect of its changes, in the order of its ORDER BY.

The last fields of the rows are the sort keys, which are not shown. Without an order, rows are in
order of arrival.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from math import isnan
from typing import TypeVar

from rowtide.plan.nodes import Node
from rowtide.rows.rowop import Opcode, Row, TimedRow

_Column = TypeVar("_Column")


class Contents:
    """The net effect of changes. ``order`` is True for each descending sort key; ``size`` counts the rows.

    Of a query with a ``limit`` there are at most so many rows.
    """

    def __init__(self, order: Sequence[bool], limit: int | None = None) -> None:
        self._order = tuple(order)
        self._limit = limit
        self._held: dict[Row, int] = {}
        self.size = 0

    def is_complete(self, node: Node) -> bool:
        """Return whether the contents are final: the limit is reached, nothing is ordered, and no row goes."""
        enough = self._limit is not None and not self._order and self.size >= self._limit
        return enough and node.only_inserts()

    def take(self, changes: Iterable[TimedRow]) -> None:
        """Apply changes."""
        held = self._held
        for timed in changes:
            change = -1 if timed.opcode == Opcode.DELETE else 1
            self.size += change
            count = held.get(timed.row, 0) + change
            if count:
                held[timed.row] = count
            else:
                # What is gone takes no memory.
                del held[timed.row]

    def rows(self) -> list[Row]:
        """Return the sorted rows without their sort keys, as many as are wanted."""
        rows = [row for row, count in self._held.items() for _ in range(count)]
        for key in reversed(range(len(self._order))):
            at = key - len(self._order)
            descending = self._order[key]
            ranks = partial(_rank, at, descending=descending)
            rows.sort(key=ranks, reverse=descending)
        return [self.shown(row) for row in rows[: self._limit]]

    def shown(self, columns: Sequence[_Column]) -> tuple[_Column, ...]:
        """Return the shown part of a row, or of its column names."""
        return tuple(columns[: len(columns) - len(self._order)])


def _rank(at: int, row: Row, *, descending: bool) -> tuple[int, object]:
    """Return the sort key of a row: NULL is the greatest value, NaN comes after all others."""
    value = row[at]
    if value is None:
        return 2, 0
    if isinstance(value, float) and isnan(value):
        return (-1 if descending else 1), 0
    return 0, value
