"""GROUP BY SESSION: rows of one key that are less than a gap apart."""

from __future__ import annotations

import numpy as np

from rowtide.operators.contract import OperatorSite
from rowtide.operators.group.open_groups import Assigned, OpenGroupsOperator, of_rows, row_places
from rowtide.plan.nodes import GroupBySession
from rowtide.rows.arrays import Int64s
from rowtide.rows.tray import Tray


class GroupBySessionOperator(OpenGroupsOperator):
    """One row for each session when the bound has reached its last row + gap."""

    def __init__(self, node: GroupBySession, site: OperatorSite) -> None:
        self._gap = node.session.gap_ms
        super().__init__(node, site)

    def _assign(self, tray: Tray, rows: Int64s, keys: Int64s) -> Assigned:
        from rowtide.operators.group.kernels.open_groups import into_sessions

        self._reserve(len(rows))
        groups, ends = np.empty(len(rows), dtype=np.int64), np.empty(len(rows), dtype=np.int64)
        self._count = into_sessions(
            of_rows(keys, rows),
            self._gap,
            *row_places(tray, rows),
            self._latest,
            self._groups,
            self._count,
            groups,
            ends,
        )
        return Assigned(groups, ends=ends)

    def _promised(self, bound: int) -> int:
        ends = self._ends()
        later = ends[ends > bound]
        return min(bound + self._gap, int(later.min())) if len(later) else bound + self._gap
