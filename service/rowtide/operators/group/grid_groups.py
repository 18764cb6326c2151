"""Groups of windows of a grid: its points are rowtimes or, for windows by months, whole months.

A window by months is one of whole numbers, those of the months since January 1970. So the loops that find
the windows of a row are the same, and only the ends of the way translate.
"""

from __future__ import annotations

from rowtide.operators.contract import OperatorSite
from rowtide.operators.group.open_groups import OpenGroupsOperator
from rowtide.plan.nodes import GroupNode
from rowtide.rows.arrays import Int64s
from rowtide.rowtime.period import month_of, month_start, month_starts, months_of


class GridGroupsOperator(OpenGroupsOperator):
    """Keeps the edges of windows as points of the grid. A subclass assigns rows to groups by their places in it."""

    def __init__(self, node: GroupNode, site: OperatorSite, *, by_months: bool) -> None:
        self._by_months = by_months
        super().__init__(node, site)

    def _places_of(self, rowtime: Int64s) -> Int64s:
        """Return the places of rowtimes in the grid."""
        return months_of(rowtime) if self._by_months else rowtime

    def _closed_by(self, end: int) -> int:
        return month_start(end) if self._by_months else end

    def _reached(self) -> int:
        return month_of(self._bound) if self._by_months else self._bound

    def _times(self, edges: Int64s) -> Int64s:
        return month_starts(edges) if self._by_months else edges.copy()
