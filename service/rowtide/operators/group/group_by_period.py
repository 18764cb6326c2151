"""Groups by a period of the rowtime and further keys: one row for each group when its period closes.

Rows come in rowtime order, so the groups that close are always a prefix, already in the output order
(docs/sql/semantics.md#rowtime-of-a-group).
"""

from __future__ import annotations

from typing import Literal

import numpy as np

from rowtide.operators.contract import OperatorSite
from rowtide.operators.group.open_groups import AT_START, Assigned, OpenGroupsOperator, of_rows, row_places
from rowtide.plan.nodes import GroupByPeriod
from rowtide.rows.arrays import Int64s
from rowtide.rows.column import compact
from rowtide.rows.tray import Tray
from rowtide.rowtime.bound import EARLIEST, LATEST, Bound
from rowtide.rowtime.period import PeriodEdge, period_end, period_value

FEW_PERIODS = 8
"""Maximum number of periods of a tray that are searched one by one. For more, every row is checked."""


class GroupByPeriodOperator(OpenGroupsOperator):
    """Streaming aggregation by periods."""

    def __init__(self, node: GroupByPeriod, site: OperatorSite) -> None:
        self._period = node.period
        # A period that includes its end is over when the bound has passed it.
        self._behind = 0 if node.period.edge is PeriodEdge.FLOOR else 1
        self._promise = (EARLIEST, Bound(EARLIEST))
        self._last = (LATEST, EARLIEST)
        super().__init__(node, site)

    def _assign(self, tray: Tray, rows: Int64s, keys: Int64s) -> Assigned:
        from rowtide.operators.group.kernels.open_groups import into_periods

        self._reserve(len(rows))
        rowtime, origin, counter = row_places(tray, rows)
        stops, starts, ends = self._periods(rowtime)
        # Rows come in order of time, so the groups of a period are adjacent.
        firsts = np.searchsorted(self._groups[: self._count, AT_START], starts)
        groups = np.empty(len(rows), dtype=np.int64)
        self._count = into_periods(
            of_rows(keys, rows),
            stops,
            starts,
            compact(ends),
            firsts,
            rowtime,
            origin,
            counter,
            self._latest,
            self._groups,
            self._count,
            groups,
        )
        return Assigned(groups)

    def _periods(self, rowtime: Int64s) -> tuple[Int64s, Int64s, Int64s]:
        """Return the periods of rows, in order: the row after the last one of each, its name and its end."""
        stops, names, ends = list[int](), list[int](), list[int]()
        # A period that includes its end has the rows up to the end, others the rows before it.
        side: Literal["left", "right"] = "right" if self._behind else "left"
        stop = 0
        while stop < len(rowtime) and len(stops) < FEW_PERIODS:
            name, end = self._period_of(int(rowtime[stop]))
            stop = int(np.searchsorted(rowtime, end, side=side))
            stops.append(stop)
            names.append(name)
            ends.append(end)
        if stop == len(rowtime):
            of_each = np.array([stops, names, ends], dtype=np.int64)
            return of_each[0], of_each[1], of_each[2]
        named = period_value(self._period, rowtime)
        begins = np.flatnonzero(named[1:] != named[:-1]) + 1
        of_period = named[np.append(0, begins)]
        return np.append(begins, len(rowtime)), of_period, period_end(self._period, of_period)

    def _period_of(self, rowtime: int) -> tuple[int, int]:
        """Return the name and the end of the period that contains a rowtime: mostly that of the last one."""
        if self._behind or not self._last[0] <= rowtime < self._last[1]:
            name = period_value(self._period, np.array([rowtime], dtype=np.int64))
            self._last = (int(name[0]), int(period_end(self._period, name)[0]))
        return self._last

    def _closed_by(self, end: int) -> int:
        return end + self._behind

    def _promised(self, bound: int) -> int:
        """Return the end of the period that contains the bound: later groups close at this time or later."""
        _, end = self._period_of(bound)
        # The last period ends with the last rowtime.
        return LATEST if end < bound else end

    def _bound_out(self) -> Bound:
        if self._promise[0] != self._bound:
            self._promise = (self._bound, super()._bound_out())
        return self._promise[1]
