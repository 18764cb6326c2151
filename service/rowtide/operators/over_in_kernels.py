"""Windowed aggregation by kernels, where the frame and every call of a window have them (``plan.paths``).

What comes out is what ``operators.over`` gives, bit by bit, and a snapshot of
either is one of the other. Where rows come that the kernels cannot take (a sum
that its type may not hold, doubles too far apart), the plain Python path takes
over for good.
"""

from __future__ import annotations

import pyarrow as pa

from rowtide.operators.contract import Fault, Place, State
from rowtide.operators.over import GROUP, ORDER, OverOperator
from rowtide.operators.over_calls import stored_type
from rowtide.operators.over_frames import Frames
from rowtide.plan.nodes import WindowAggregate
from rowtide.rows.column import Column
from rowtide.rows.tray import Tray
from rowtide.rowtime.period import period_value


class OverInKernels(OverOperator):
    """Windowed aggregation, compiled."""

    def __init__(self, node: WindowAggregate, place: Place) -> None:
        super().__init__(node, place)
        self._frames: Frames | None = Frames(node)

    def _at_once(self, tray: Tray, faults: list[Fault]) -> Tray | None:
        if self._frames is None:
            return super()._at_once(tray, faults)
        order = period_value(self._node.order, tray.rowtime)
        columns = self._frames.results(tray, order, int(order[0]) + self._frame.start.offset)
        if columns is None:
            state = self._state(self._frames)
            self._frames = None
            self.restore(state)
            return super()._at_once(tray, faults)
        return tray.with_columns(self._node.row_type, (*tray.columns, *columns))

    def _forget(self) -> None:
        if self._frames is None:
            super()._forget()
        elif (snap := self._node.snap) is not None and self._of_bound(snap[1]) > self._snapped:
            self._snapped = self._of_bound(snap[1])
            self._frames.forget_ended(snap[0], self._snapped)

    def snapshot(self) -> State:
        """See the contract; the same as of the plain path."""
        if self._frames is None:
            return super().snapshot()
        if self._expires:
            self._frames.expire(self._of_bound(self._node.order) + self._frame.start.offset)
        return self._state(self._frames)

    def _state(self, frames: Frames) -> State:
        state = super().snapshot()
        keys, kept, numbers = frames.groups()
        of, order, values = frames.entries(numbers)
        groups = {f"key {index}": column.to_arrow() for index, column in enumerate(keys)} | kept
        entries = {f"value {index}": column.to_arrow() for index, column in enumerate(values)}
        return {
            **state,
            "groups": pa.table(groups),
            "entries": pa.table({GROUP: pa.array(of), ORDER: pa.array(order), **entries}),
        }

    def restore(self, state: State) -> None:
        """See the contract."""
        if self._frames is not None:
            groups, entries = state["groups"], state["entries"]
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
                state = {**state, "groups": groups.slice(0, 0), "entries": entries.slice(0, 0)}
            else:
                self._frames = None
        super().restore(state)
