"""Columns that are computed on first read, so that unread columns cost nothing.

A join returns all fields of both sides, and a query selects some. The
function must not depend on when it is called: it holds arrays that never
change. A tray that is kept keeps these arrays, too.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rowtide.rows.arrays import Mask
from rowtide.rows.column import Column, Indices
from rowtide.rows.types import Type


class DeferredColumn(Column):
    """A column of ``rows`` values that ``make`` returns. ``make`` is called at most once."""

    __slots__ = ("_made", "_make", "_rows")

    _rows: int
    _make: Callable[[], Column] | None
    _made: Column | None

    def __init__(self, kind: Type, rows: int, make: Callable[[], Column]) -> None:
        object.__setattr__(self, "type", kind)
        object.__setattr__(self, "_rows", rows)
        object.__setattr__(self, "_make", make)
        object.__setattr__(self, "_made", None)

    @property
    def values(self) -> Any:
        """The values, computed on first read."""
        return self._column().values

    @property
    def valid(self) -> Mask | None:
        """The validity mask, computed on first read."""
        return self._column().valid

    def __len__(self) -> int:
        return self._rows

    def take(self, indices: Indices) -> Column:
        """Return the rows at ``indices``, in that order, without computing them."""
        return deferred_take(self, indices)

    def _column(self) -> Column:
        if self._make is not None:
            object.__setattr__(self, "_made", self._make())
            object.__setattr__(self, "_make", None)
        assert self._made is not None
        return self._made


def deferred_take(column: Column, indices: Indices) -> Column:
    """Return the rows of a column at ``indices``, which no one changes, taken when something reads them."""
    return DeferredColumn(column.type, len(indices), lambda: _made(column).take(indices))


def _made(column: Column) -> Column:
    return column._column() if isinstance(column, DeferredColumn) else column
