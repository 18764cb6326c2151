"""Rows that wait in order of arrival, and leave from the front."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from rowtide.rows.tray import Tray
from rowtide.rows.types import RowType

SMALL_ROWS = 4096
"""Waiting trays are put together up to this many rows: a tray of one row costs far more than its row."""


class TrayQueue:
    """Trays of one row type, one after the other. Rows that leave share memory with the added trays."""

    def __init__(self, row_type: RowType) -> None:
        self._row_type = row_type
        self._trays: deque[Tray] = deque()
        self._length = 0

    def append(self, tray: Tray) -> None:
        """Add rows at the end; small trays are put together."""
        if not len(tray):
            return
        trays = self._trays
        trays.append(tray)
        self._length += len(tray)
        while len(trays) > 1 and len(trays[-2]) <= len(trays[-1]) <= SMALL_ROWS:
            younger = trays.pop()
            trays.append(Tray.concat([trays.pop(), younger]))

    def take(self, leaving: Callable[[Tray], int]) -> Tray | None:
        """Take rows from the front: ``leaving`` counts those of a tray that leave, all before others."""
        taken = self.take_parts(leaving)
        return Tray.concat(taken) if taken else None

    def take_parts(self, leaving: Callable[[Tray], int]) -> list[Tray]:
        """Do the same as ``take``, and return also the stored rows."""
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
        self._length -= sum(map(len, taken))
        return taken

    def take_end(self, staying: Callable[[Tray], int]) -> list[Tray]:
        """Take rows from the end: ``staying`` counts those of a tray that stay, all before others."""
        taken: list[Tray] = []
        while self._trays and (count := staying(self._trays[-1])) < len(self._trays[-1]):
            tray = self._trays.pop()
            taken.insert(0, tray.slice(count, len(tray)))
            if count:
                self._trays.append(tray.slice(0, count))
                break
        self._length -= sum(map(len, taken))
        return taken

    def first(self) -> Tray | None:
        """Return a tray whose first row is the one in front."""
        return self._trays[0] if self._trays else None

    def contents(self) -> Tray:
        """Return all waiting rows; they stay."""
        return Tray.concat(list(self._trays) or [Tray.empty(self._row_type)])

    def __len__(self) -> int:
        return self._length
