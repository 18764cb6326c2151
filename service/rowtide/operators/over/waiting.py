"""Frames that end after their rows, which wait in order of arrival until their frames are complete."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from rowtide.operators.over.frames import PartitionFrames
from rowtide.operators.storage.growing import Growing
from rowtide.operators.storage.row_store import RowStore
from rowtide.plan.nodes import WindowAggregate
from rowtide.rows.arrays import Int64s
from rowtide.rows.column import Column
from rowtide.rows.tray import Tray
from rowtide.rowtime.bound import Bound
from rowtide.rowtime.period import period_value


class WaitingFrames(PartitionFrames):
    """The partitions of one window, and the rows without a result: the last ones of each partition."""

    def __init__(self, node: WindowAggregate) -> None:
        super().__init__(node)
        self._store = RowStore(node.input.row_type)
        self._groups_of = Growing(np.int64)
        self._orders_of = Growing(np.int64)
        self._first = 0

    def __len__(self) -> int:
        """Count the rows that wait."""
        return self._store.end - self._first

    def waiting(self, count: int | None = None) -> Tray:
        """Return the waiting rows, or the first of them."""
        end = self._store.end if count is None else self._first + count
        return self._store.take(np.arange(self._first, end))

    def first(self) -> Bound:
        """Return the bound while rows wait: the place just before the first."""
        rowtime, origin, counter = self._store.place(self._first)
        return Bound(rowtime, origin, counter - 1)

    def rowtimes(self) -> Int64s:
        """Return the rowtimes of the waiting rows."""
        return self._store.rowtime.view()[self._first - self._store.base :]

    def orders(self) -> Int64s:
        """Return the order of the waiting rows."""
        return self._orders_of.view()[self._first - self._store.base :]

    def periods(self, field: int) -> Int64s:
        """Return that field of the partitions of the rows that wait."""
        return self._keys.whole(field)[self._numbers()]

    def _numbers(self) -> Int64s:
        """Return the partitions of the rows that wait."""
        return self._groups_of.view()[self._first - self._store.base :]

    # ----------------------------------------------------------------- rows

    def add(self, tray: Tray) -> bool:
        """Add waiting rows; False: the kernels cannot take them, and nothing has changed."""
        order = np.require(period_value(self._node.order, tray.rowtime), requirements=["C", "W"])
        inputs = self._inputs(tray, order)
        if inputs is None:
            return False
        first = int(self.orders()[0]) if len(self) else int(order[0])
        groups = self._groups(tray, first + self._node.frame.start.offset)
        slots = np.empty(len(tray), dtype=np.int64)
        self._kernels.arrive(
            groups,
            order,
            self._partitions,
            self._following,
            self._orders,
            self._free,
            self._slots,
            slots,
        )
        for call, given in zip(self._calls, inputs, strict=True):
            call.put(*given, slots)
        self._enqueue(tray, groups, order)
        return True

    def _enqueue(self, tray: Tray, groups: Int64s, order: Int64s) -> None:
        self._store.append(tray)
        self._groups_of.append(groups)
        self._orders_of.append(order)

    def release(self, reached: int | None, period: int | None) -> tuple[Tray, list[Column]] | None:
        """Remove and return the rows with complete frames, with a column for each call.

        ``reached`` is the least order of a later row, None: no row follows. ``period`` is the least
        period that a partition may still have.
        """
        count = self._complete(reached, period)
        if not count:
            return None
        tray = self.waiting(count)
        groups, order = self._numbers()[:count].copy(), self.orders()[:count].copy()
        for call in self._calls:
            call.begin_held(count)
        self._advance(groups, order, held=True)
        self._first += count
        gone = self._store.forget(self._first)
        if gone:
            self._groups_of.drop(gone)
            self._orders_of.drop(gone)
        return tray, [self._column(index, tray) for index in range(len(self._calls))]

    def _complete(self, reached: int | None, period: int | None) -> int:
        if reached is None or not len(self):
            return len(self)
        snap = self._node.snap
        ends = np.zeros(0, dtype=np.int64)
        if snap is not None:
            ends = np.ascontiguousarray(self._keys.whole(snap[0]))
        return int(
            self._kernels.complete(
                self._numbers(), self.orders(), self._frame, self._partitions, reached, ends, period or 0
            )
        )

    def _keep(self, kept: Int64s) -> None:
        numbers = np.full(self._keys.count, -1)
        numbers[kept] = np.arange(len(kept))
        mine = self._numbers()
        mine[:] = numbers[mine]
        super()._keep(kept)

    # -------------------------------------------------------------- snapshot

    def numbered(self, kept: Int64s) -> tuple[Int64s, Int64s]:
        """Return of each row that waits its number in its partition, and the place of that in ``kept``."""
        groups = self._numbers()
        order = np.argsort(groups, kind="stable")
        counts = np.bincount(groups, minlength=self._keys.count)
        within = np.empty(len(groups), dtype=np.int64)
        within[order] = np.arange(len(groups)) - np.repeat(np.cumsum(counts) - counts, counts)
        return (self._lengths() - counts)[groups] + within, np.searchsorted(kept, groups)

    def load_waiting(self, tray: Tray, groups: Sequence[int]) -> None:
        """Take over the waiting rows, after those that ``load`` took over."""
        numbers = np.array(groups, dtype=np.int64)
        waiting = np.bincount(numbers, minlength=self._keys.count)
        self._partitions[: self._keys.count, self._kernels.WAITING] = waiting
        order = period_value(self._node.order, tray.rowtime)
        self._enqueue(tray, numbers, order)
