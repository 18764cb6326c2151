"""DISTINCT: feeds another accumulator with the first row of each distinct value of a group.

The values of groups are a table of (group, value), in which a kernel searches. Its groups are counted from
the very first one, so that dropping groups at the front does not change the others.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from rowtide.operators.aggregates.groups.key_groups import KeyGroups
from rowtide.rows.arrays import Mask
from rowtide.rows.column import Column, arrow_type
from rowtide.rows.types import Type

if TYPE_CHECKING:
    from rowtide.operators.aggregates.groups.accumulators import Accumulator

Groups = NDArray[np.int64]

CLEAN_OVER = 1 << 14
"""Values of dropped groups are dropped once they are more than this, and more than twice those left the last
time."""


class DistinctAccumulator:
    """An accumulator around another."""

    def __init__(self, inner: Accumulator, argument: Type) -> None:
        self.inner = inner
        self._argument = argument
        self._values = KeyGroups([argument], windows=True)
        self._dropped = 0
        self._clean_at = CLEAN_OVER
        self._tried: _Tried | None = None

    def reserve(self, groups: int) -> None:
        self.inner.reserve(groups)

    def refused(self, column: Column | None, use: Mask) -> Mask | None:
        return self.inner.refused(column, use)

    def fits(self, groups: Groups, column: Column | None, use: Mask) -> bool:
        return self.inner.fits(groups, column, self._fresh(groups, column, use))

    def add(self, groups: Groups, column: Column | None, use: Mask) -> None:
        fresh = self._fresh(groups, column, use)
        self._tried = None
        self.inner.add(groups, column, fresh)

    def results(self, count: int) -> Column:
        return self.inner.results(count)

    def drop(self, count: int, rest: int) -> None:
        self._take_back()
        self._dropped += count
        if self._values.count > self._clean_at:
            self._values.keep(np.flatnonzero(self._values.windows() >= self._dropped))
            self._clean_at = max(CLEAN_OVER, 2 * self._values.count)
        self.inner.drop(count, rest)

    def state(self, count: int) -> pa.Table:
        # The values are a list for each group, sorted so that equal states are equal.
        self._take_back()
        held: list[list[object]] = [[] for _ in range(count)]
        (values,) = self._values.columns()
        groups = self._values.windows() - self._dropped
        for group, value in zip(groups.tolist(), values.to_arrow().to_pylist(), strict=True):
            if 0 <= group < count:
                held[group].append(value)
        for each in held:
            each.sort()
        values_of = pa.array(held, pa.list_(arrow_type(self._argument)))
        return self.inner.state(count).append_column("$distinct", values_of)

    def load(self, table: pa.Table) -> None:
        lists = table.column("$distinct").combine_chunks()
        lengths = [0 if each is None else len(each) for each in lists.to_pylist()]
        groups = np.repeat(np.arange(len(lengths), dtype=np.int64), lengths)
        self._values = KeyGroups([self._argument], windows=True)
        self._dropped, self._clean_at, self._tried = 0, CLEAN_OVER, None
        values = Column.from_arrow(self._argument, lists.flatten())
        self._values.number([values], len(groups), groups)
        self.inner.load(table.drop_columns(["$distinct"]))

    def _fresh(self, groups: Groups, column: Column | None, use: Mask) -> Mask:
        """Return the rows with a new value. The values are noted provisionally."""
        if column is None:
            raise ValueError("DISTINCT has an argument")
        if self._tried is not None and self._tried.are(groups, column, use):
            return self._tried.fresh
        self._take_back()
        before = self._values.count
        where = np.flatnonzero(use)
        _, firsts = self._values.numbered([column.take(where)], len(where), groups[where] + self._dropped)
        fresh = np.zeros(len(use), dtype=np.bool_)
        fresh[where[firsts]] = True
        self._tried = _Tried(groups, column, use, before, fresh)
        return fresh

    def _take_back(self) -> None:
        """Drop the values of rows that were tried and not added."""
        if self._tried is not None:
            self._values.keep(slice(0, self._tried.before))
            self._tried = None


class _Tried:
    """Rows whose values are noted but may not be added."""

    def __init__(self, groups: Groups, column: Column, use: Mask, before: int, fresh: Mask) -> None:
        self._rows = (groups, column, use)
        self.before = before
        self.fresh = fresh

    def are(self, groups: Groups, column: Column, use: Mask) -> bool:
        """Return whether these very rows were tried."""
        return all(one is other for one, other in zip(self._rows, (groups, column, use), strict=True))
