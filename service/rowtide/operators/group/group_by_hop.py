"""GROUP BY HOP: windows of one length that begin every slide. A row is in several of them, or in none."""

from __future__ import annotations

import numpy as np

from rowtide.operators.contract import OperatorSite
from rowtide.operators.group.grid_groups import GridGroupsOperator
from rowtide.operators.group.open_groups import AT_KEY, AT_START, Assigned, of_rows, row_places
from rowtide.plan.nodes import GroupByHop
from rowtide.rows.arrays import Int64s, Mask
from rowtide.rows.tray import Tray
from rowtide.rowtime.period import Hop, HopByMonths


class GroupByHopOperator(GridGroupsOperator):
    """One row for each window and key when the window has ended.

    A row is held until the last of its windows has ended. A row between two windows is done at once.
    """

    def __init__(self, node: GroupByHop, site: OperatorSite) -> None:
        self._window = window = node.hop
        # The same windows, in the unit of the grid.
        self._hop = Hop(window.slide, window.size) if isinstance(window, HopByMonths) else window
        # The maximum number of windows of a key that are open at a rowtime.
        self._windows = window.at_a_time()
        super().__init__(node, site, by_months=isinstance(window, HopByMonths))

    def _assign(self, tray: Tray, rows: Int64s, keys: Int64s) -> Assigned:
        from rowtide.operators.group.kernels.open_groups import into_hops

        room = len(rows) * self._windows
        self._reserve(room)
        of, groups, last = (np.empty(room, dtype=np.int64) for _ in range(3))
        progress = np.zeros(2, dtype=np.int64)
        rowtime, origin, counter = row_places(tray, rows)
        self._count = into_hops(
            of_rows(keys, rows),
            self._hop.slide_ms,
            self._hop.size_ms,
            self._hop.offset_ms,
            self._places_of(rowtime),
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
        used, without = progress.tolist()
        of = of[:used] if len(rows) == len(tray) else rows[of[:used]]
        return Assigned(groups[:used], of, last[:used], without=without)

    def _is_grouped(self, tray: Tray) -> Mask | None:
        hop = self._hop
        if hop.size_ms >= hop.slide_ms:
            return None
        inside: Mask = (self._places_of(tray.rowtime) - hop.offset_ms) % hop.slide_ms < hop.size_ms
        return inside

    def _latest_shape(self, keys: int) -> tuple[int, ...]:
        return (keys, self._windows)

    def _places(self, groups: Int64s) -> tuple[Int64s, ...]:
        numbers = (groups[:, AT_START] - self._hop.offset_ms) // self._hop.slide_ms
        return groups[:, AT_KEY], numbers % self._windows

    def _promised(self, bound: int) -> int:
        return self._window.next_end(bound)
