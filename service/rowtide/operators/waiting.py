"""Rows that wait in the order in which they came, and leave from the front."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from rowtide.rows.tray import Tray
from rowtide.rows.types import RowType


class TrayQueue:
    """Trays of one row type, one behind the other; what leaves shares memory with what came."""

    def __init__(self, row_type: RowType) -> None:
        self._row_type = row_type
        self._trays: deque[Tray] = deque()
        self._length = 0

    def append(self, tray: Tray) -> None:
        """Add rows at the end."""
        if len(tray):
            self._trays.append(tray)
            self._length += len(tray)

    def take(self, leaving: Callable[[Tray], int]) -> Tray | None:
        """Take rows from the front: ``leaving`` counts those of a tray that leave, all before others."""
        taken = []
        while self._trays:
            tray = self._trays[0]
            count = leaving(tray)
            if count:
                taken.append(tray if count == len(tray) else tray.slice(0, count))
            if count < len(tray):
                if count:
                    self._trays[0] = tray.slice(count, len(tray))
                break
            self._trays.popleft()
        if not taken:
            return None
        self._length -= sum(map(len, taken))
        return Tray.concat(taken)

    def first(self) -> Tray | None:
        """Give a tray whose first row is the one in front."""
        return self._trays[0] if self._trays else None

    def contents(self) -> Tray:
        """Give all rows that wait; they stay."""
        return Tray.concat(list(self._trays) or [Tray.empty(self._row_type)])

    def __len__(self) -> int:
        return self._length
