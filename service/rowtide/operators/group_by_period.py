"""Groups by a period of the rowtime and further keys; a row a group when its period closes.

Rows come in rowtime order, so what closes is always a prefix of the groups, already in the order in which
it has to come out (sql-decisions 2).
"""

from __future__ import annotations

import numpy as np

from rowtide.operators.contract import Place
from rowtide.operators.open_groups import Assigned, Int64s, OpenGroupsOperator, row_places
from rowtide.plan.nodes import GroupByPeriod
from rowtide.rows.tray import Tray
from rowtide.rowtime.bound import EARLIEST, LATEST, Bound
from rowtide.rowtime.period import PeriodEdge, end_after, period_end, period_value


class GroupByPeriodOperator(OpenGroupsOperator):
    """Streaming aggregation by periods."""

    def __init__(self, node: GroupByPeriod, place: Place) -> None:
        self._period = node.period
        # A period that includes its end is over when the bound has passed it.
        self._behind = 0 if node.period.edge is PeriodEdge.FLOOR else 1
        self._promise = (EARLIEST, Bound(EARLIEST))
        super().__init__(node, place)

    def _assign(self, tray: Tray, rows: Int64s, keys: Int64s) -> Assigned:
        from rowtide.operators.kernels.open_groups import into_periods

        self._reserve(len(rows))
        starts = np.require(period_value(self._period, tray.rowtime), requirements=["C", "W"])
        ends = np.require(period_end(self._period, starts), requirements=["C", "W"])
        groups = np.empty(len(rows), dtype=np.int64)
        self._count = into_periods(
            rows, keys, starts, ends, *row_places(tray), self._latest, self._groups, self._count, groups
        )
        return Assigned(groups)

    def _closed_by(self, end: int) -> int:
        return end + self._behind

    def _promised(self, bound: int) -> int:
        """Give the end of the period that the bound is in: nothing closes later at an earlier rowtime."""
        end = end_after(self._period, bound)
        # There is no period behind the end of time.
        return LATEST if end < bound else end

    def _bound_out(self) -> Bound:
        if self._promise[0] != self._bound:
            self._promise = (self._bound, super()._bound_out())
        return self._promise[1]
