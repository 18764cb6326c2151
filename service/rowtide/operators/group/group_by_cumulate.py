"""GROUP BY CUMULATE: windows that begin together and grow by a step. A row is in all that end after it."""

from __future__ import annotations

import numpy as np

from rowtide.operators.contract import OperatorSite
from rowtide.operators.group.open_groups import (
    AT_END,
    AT_KEY,
    AT_START,
    Assigned,
    OpenGroupsOperator,
    of_rows,
    row_places,
)
from rowtide.plan.nodes import GroupByCumulate
from rowtide.rows.arrays import Int64s
from rowtide.rows.tray import Tray


class GroupByCumulateOperator(OpenGroupsOperator):
    """One row for each window and key when the window has ended.

    A row is held until the largest of its windows has ended.
    """

    def __init__(self, node: GroupByCumulate, place: OperatorSite) -> None:
        self._cumulate = node.cumulate
        self._windows = node.cumulate.size_ms // node.cumulate.step_ms
        super().__init__(node, place)

    def _assign(self, tray: Tray, rows: Int64s, keys: Int64s) -> Assigned:
        from rowtide.operators.group.kernels.open_groups import into_growing

        room = len(rows) * self._windows
        self._reserve(room)
        of, groups, last = (np.empty(room, dtype=np.int64) for _ in range(3))
        progress = np.zeros(1, dtype=np.int64)
        self._count = into_growing(
            of_rows(keys, rows),
            self._cumulate.step_ms,
            self._cumulate.size_ms,
            self._cumulate.offset_ms,
            *row_places(tray, rows),
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

    def _latest_shape(self, keys: int) -> tuple[int, ...]:
        return (keys, self._windows)

    def _places(self, groups: Int64s) -> tuple[Int64s, ...]:
        lengths = groups[:, AT_END] - groups[:, AT_START]
        return groups[:, AT_KEY], lengths // self._cumulate.step_ms - 1

    def _promised(self, bound: int) -> int:
        return self._cumulate.next_end(bound)
