"""GROUP BY CUMULATE: windows that begin together and grow by a step. A row is in all that end after it."""

from __future__ import annotations

import numpy as np

from rowtide.operators.contract import OperatorSite
from rowtide.operators.group.grid_groups import GridGroupsOperator
from rowtide.operators.group.open_groups import AT_END, AT_KEY, AT_START, Assigned, of_rows, row_places
from rowtide.plan.nodes import GroupByCumulate
from rowtide.rows.arrays import Int64s
from rowtide.rows.tray import Tray
from rowtide.rowtime.period import Cumulate, CumulateByMonths, Period, PeriodEdge, period_end, period_value


class GroupByCumulateOperator(GridGroupsOperator):
    """One row for each window and key when the window has ended.

    A row is held until the largest of its windows has ended.
    """

    def __init__(self, node: GroupByCumulate, site: OperatorSite) -> None:
        self._window = window = node.cumulate
        self._windows = window.at_a_time()
        by_months = isinstance(window, CumulateByMonths) and window.step_ms is None
        self._step = window.step if isinstance(window, CumulateByMonths) else window.step_ms
        super().__init__(node, site, by_months=by_months)

    def _assign(self, tray: Tray, rows: Int64s, keys: Int64s) -> Assigned:
        from rowtide.operators.group.kernels.open_groups import into_growing

        room = len(rows) * self._windows
        self._reserve(room)
        of, groups, last = (np.empty(room, dtype=np.int64) for _ in range(3))
        progress = np.zeros(1, dtype=np.int64)
        rowtime, origin, counter = row_places(tray, rows)
        places = self._places_of(rowtime)
        self._count = into_growing(
            of_rows(keys, rows),
            self._step,
            *self._longest(places),
            places,
            rowtime,
            origin,
            counter,
            self._latest,
            self._groups,
            self._count,
            of,
            groups,
            last,
            progress,
        )
        used = int(progress[0])
        of = of[:used] if len(rows) == len(tray) else rows[of[:used]]
        return Assigned(groups[:used], of, last[:used])

    def _longest(self, places: Int64s) -> tuple[Int64s, Int64s]:
        """Return start and end of the longest window that contains each place."""
        match self._window:
            case Cumulate(size_ms=size, offset_ms=offset):
                starts = places - (places - offset) % size
                return starts, starts + size
            case CumulateByMonths(months=months) if self._by_months:
                starts = places - places % months
                return starts, starts + months
            case CumulateByMonths(unit=unit):
                period = Period(PeriodEdge.FLOOR, unit)
                starts = period_value(period, places)
                return starts, period_end(period, starts)

    def _latest_shape(self, keys: int) -> tuple[int, ...]:
        return (keys, self._windows)

    def _places(self, groups: Int64s) -> tuple[Int64s, ...]:
        lengths = groups[:, AT_END] - groups[:, AT_START]
        return groups[:, AT_KEY], lengths // self._step - 1

    def _promised(self, bound: int) -> int:
        return self._window.next_end(bound)
