"""Windowed aggregation by kernels, if the frame and every call of a window have them (``Node.form``).

The output equals that of ``operators.over.by_row.operator`` bit by bit, and each restores
snapshots of the other. When rows arrive that the kernels cannot process (a sum that may not
fit its type, doubles too far apart), the plain Python path takes over permanently.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from rowtide.operators.aggregates.windows.sums import stored_type
from rowtide.operators.contract import Fault, OperatorSite, State
from rowtide.operators.merge.ranks import RANK
from rowtide.operators.over.by_row.operator import GROUP, NUMBER, ORDER, OverOperator
from rowtide.operators.over.frames import PartitionFrames
from rowtide.operators.over.waiting import WaitingFrames
from rowtide.plan.nodes import WindowAggregate
from rowtide.rows.arrays import Int64s
from rowtide.rows.column import Column
from rowtide.rows.tray import Tray
from rowtide.rows.types import MAX_TIMESTAMP_MS
from rowtide.rowtime.bound import Bound
from rowtide.rowtime.period import period_value

_CLOCKS = ("account", "bounds")
"""The tables of a state that the plain path reads even where frames are in kernels."""


class OverInKernels(OverOperator):
    """Windowed aggregation, compiled."""

    def __init__(self, node: WindowAggregate, site: OperatorSite) -> None:
        super().__init__(node, site)
        # Rows wait if a frame ends after its row.
        self._held: WaitingFrames | None = None
        self._frames: PartitionFrames | None = None
        self._begin_frames()

    def _begin_frames(self) -> None:
        self._held = WaitingFrames(self._node) if self._frame.waits else None
        self._frames = PartitionFrames(self._node) if self._held is None else self._held

    def _at_once(self, tray: Tray, faults: list[Fault]) -> Tray | None:
        if self._frames is None:
            return super()._at_once(tray, faults)
        order = period_value(self._node.order, tray.rowtime)
        columns = self._frames.results(tray, order, int(order[0]) + self._frame.start.offset)
        if columns is None:
            self._go_on_by_row(self._frames)
            return super()._at_once(tray, faults)
        return tray.with_columns(self._node.row_type, (*tray.columns, *columns))

    def _go_on_by_row(self, frames: PartitionFrames) -> None:
        """Pass the held rows to the plain path."""
        state = self._state(frames)
        self._frames = self._held = None
        self.restore(state)

    def _wait(self, tray: Tray, faults: list[Fault]) -> None:
        if self._held is not None and self._held.add(tray):
            return
        if self._held is not None:
            self._go_on_by_row(self._held)
        super()._wait(tray, faults)

    def _release(self, faults: list[Fault]) -> Tray | None:
        if self._held is None:
            return super()._release(faults)
        over = self._bound.rowtime > MAX_TIMESTAMP_MS
        snap = self._node.snap
        reached = None if over else self._of_bound(self._node.order)
        released = self._held.release(reached, None if snap is None else self._of_bound(snap[1]))
        if released is None:
            return None
        tray, columns = released
        return tray.with_columns(self._node.row_type, (*tray.columns, *columns))

    def held(self) -> int:
        return super().held() if self._held is None else len(self._held)

    def _bound_out(self) -> Bound:
        if self._held is None or not len(self._held):
            return super()._bound_out()
        return self._held.first()

    def _waiting(self, bound: int | None) -> Sequence[tuple[int, int | None]]:
        if self._held is None:
            return super()._waiting(bound)
        rows = 1 if bound is None else int(np.searchsorted(self._held.rowtimes(), bound))
        orders = self._held.orders()[:rows].tolist()
        if self._node.snap is None:
            return [(order, None) for order in dict.fromkeys(orders)]
        periods = self._held.periods(self._node.snap[0])[:rows].tolist()
        return list(dict.fromkeys(zip(orders, periods, strict=True)))

    def _forget(self) -> None:
        if self._frames is None:
            super()._forget()
            return
        if self._frames.is_littered():
            state = self.snapshot()
            self._begin_frames()
            self.restore(state)
        if self._frames is None:
            return
        if (snap := self._node.snap) is not None and self._of_bound(snap[1]) > self._snapped:
            self._snapped = self._of_bound(snap[1])
            self._frames.forget_ended(snap[0], self._snapped)

    def snapshot(self) -> State:
        # The same format as that of the plain path.
        if self._frames is None:
            return super().snapshot()
        if self._expires:
            waiting = self._waiting(None)
            first = waiting[0][0] if waiting else self._of_bound(self._node.order)
            self._frames.expire(first + self._frame.start.offset)
        return self._state(self._frames)

    def _state(self, frames: PartitionFrames) -> State:
        state = super().snapshot()
        keys, kept, numbers = frames.groups()
        of, order, values = frames.entries(numbers)
        groups = {f"key {index}": column.to_arrow() for index, column in enumerate(keys)} | kept
        entries = {f"value {index}": column.to_arrow() for index, column in enumerate(values)}
        if self._held is not None:
            state = {**state, "pending": self._pending_table(self._held, numbers)}
        return {
            **state,
            "groups": pa.table(groups),
            "entries": pa.table({GROUP: pa.array(of), ORDER: pa.array(order), **entries}),
        }

    def _pending_table(self, frames: WaitingFrames, kept: Int64s) -> pa.Table:
        """Return the waiting rows; ``kept`` are the numbers of the partitions in the snapshot."""
        tray = frames.waiting()
        numbers, places = frames.numbered(kept)
        table = tray.to_arrow().append_column(RANK, pa.array(self._ranks.of(tray.origin)))
        return table.append_column(NUMBER, pa.array(numbers)).append_column(GROUP, pa.array(places))

    def restore(self, state: State) -> None:
        if self._frames is not None:
            groups, entries, pending = state["groups"], state["entries"], state["pending"]
            keys = [
                Column.from_arrow(self._node.input.row_type[position].type, groups.column(f"key {index}"))
                for index, position in enumerate(self._node.partition)
            ]
            values = [
                Column.from_arrow(stored_type(call), entries.column(f"value {index}"))
                for index, call in enumerate(self._calls)
            ]
            of, order = entries.column(GROUP).to_numpy(), entries.column(ORDER).to_numpy()
            if self._frames.load(keys, groups, order, values, of):
                state = {
                    name: table if name in _CLOCKS else table.slice(0, 0) for name, table in state.items()
                }
                if self._held is not None:
                    rows = Tray.from_arrow(self._node.input.row_type, pending)
                    self._held.load_waiting(rows, pending.column(GROUP).to_pylist())
            else:
                self._frames = self._held = None
        super().restore(state)
