"""Several parallel windows with waiting rows: a row leaves when each window has its results.

Each window is an operator that receives the rows in order of arrival, with numbers instead of their
origins, so that their outputs can be combined again: each returns its rows in the order of their
numbers, without those that it rejects. Rows that one has released and another has not wait here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa

from rowtide.errors import Reason
from rowtide.operators.contract import (
    Account,
    Fault,
    OperatorSite,
    State,
    StepOutput,
    Want,
    loaded_bounds,
    saved_bounds,
    wants_of,
)
from rowtide.operators.faults import rejected
from rowtide.operators.registry import make
from rowtide.operators.splitting import Whole
from rowtide.operators.storage.waiting import TrayQueue
from rowtide.plan.nodes import WindowAggregate, WindowsAbreast
from rowtide.rows.rowop import Opcode, TimedRow
from rowtide.rows.tray import Tray
from rowtide.rows.types import RowType
from rowtide.rowtime.bound import NO_BOUND, Bound

_ORIGIN = 0
"""The origin of every row in the windows. The counter is the row's number."""
_NUMBER, _REASON, _MESSAGE = "$number", "$reason", "$message"


_NO_FIELDS = RowType(())


class _Window:
    """One window: its results that another one does not have yet, and its first waiting row's number."""

    def __init__(self, node: WindowAggregate, site: OperatorSite) -> None:
        self.operator = make(node, site)
        self.given = TrayQueue(node.row_type)
        self.reached = 0

    def step(self, tray: Tray | None, bound: Bound, end: int) -> Sequence[Fault]:
        """Take rows, the last of them before the number ``end``; return the faults."""
        output = self.operator.step(0, tray, bound)
        if output.tray is not None:
            self.given.append(output.tray)
        self.reached = output.bound.counter + 1 if self.operator.held() else end
        return output.faults

    def take(self, number: int) -> Tray | None:
        """Remove and return its output for the rows before ``number``."""
        return self.given.take(lambda tray: int(np.searchsorted(tray.counter, number)))


class OverAbreastOperator(Whole):
    """The windows of one node; their results come after the fields of the input, window by window."""

    def __init__(self, node: WindowsAbreast, site: OperatorSite) -> None:
        self.account = Account()
        self._node = node
        self._nodes = node.each()
        inside = replace(site, origin=_ORIGIN, port_origins=((_ORIGIN,),))
        self._windows = [_Window(each, inside) for each in self._nodes]
        self._places = TrayQueue(_NO_FIELDS)
        """The places of the waiting rows in consistent time, without their fields."""
        self._first = self._end = 0
        self._bound = NO_BOUND
        self._rejected: dict[int, Fault] = {}

    def step(self, port: int, tray: Tray | None, bound: Bound) -> StepOutput:
        """Port 0, rows in rowtime order."""
        numbered: Tray | None = None
        if tray is not None and len(tray):
            self.account.rows_in += len(tray)
            numbers = np.arange(self._end, self._end + len(tray), dtype=np.int64)
            numbered = replace(tray, origin=np.full(len(tray), _ORIGIN, dtype=np.int32), counter=numbers)
            self._places.append(tray.with_columns(_NO_FIELDS, ()))
            self._end += len(tray)
            self._bound = self._bound.raised(_before(tray, len(tray) - 1))
        self._bound = self._bound.raised(bound)
        for window in self._windows:
            for fault in window.step(numbered, Bound(bound.rowtime), self._end):
                self._rejected.setdefault(fault.counter, fault)
        faults: list[Fault] = []
        out = self._release(faults)
        if out is not None:
            self.account.done += len(out)
            self.account.rows_out += len(out)
        first = self._places.first()
        return StepOutput(out, self._bound if first is None else _before(first, 0), faults)

    def _release(self, faults: list[Fault]) -> Tray | None:
        """Remove and return the rows that no window holds any longer."""
        end = min(window.reached for window in self._windows)
        if end == self._first:
            return None
        parts = [part for window in self._windows if (part := window.take(end)) is not None]
        places = self._take_places(end - self._first)
        gone = sorted(number for number in self._rejected if number < end)
        for number in gone:
            at = number - self._first
            origin, counter = int(places.origin[at]), int(places.counter[at])
            faults.append(replace(self._rejected.pop(number), origin=origin, counter=counter))
        self.account.rejected += len(gone)
        first, self._first = self._first, end
        if len(gone) == len(places):
            return None
        # Every window has returned each row that none has rejected.
        kept = [part.where(~np.isin(part.counter, gone)) for part in parts] if gone else parts
        width = len(self._node.input.row_type)
        columns = [*kept[0].columns[:width], *(column for part in kept for column in part.columns[width:])]
        left = places.take(kept[0].counter - first)
        return left.with_columns(self._node.row_type, columns)

    def _take_places(self, count: int) -> Tray:
        """Remove and return the places of the first ``count`` waiting rows."""
        wanted = count

        def leaving(tray: Tray) -> int:
            nonlocal wanted
            found = min(wanted, len(tray))
            wanted -= found
            return found

        return Tray.concat(self._places.take_parts(leaving))

    def held(self) -> int:
        """Count the rows that wait for later rows."""
        return self._end - self._first

    def wants(self, bound: int | None = None) -> Sequence[Want]:
        # The needs of the windows that hold the first row.
        if bound is None and self._first == self._end:
            return []
        wanted = [
            want
            for window in self._windows
            if bound is not None or window.reached == self._first
            for want in wants_of(window.operator, 1, bound)
        ]
        return list(dict.fromkeys(wanted))

    # ------------------------------------------------------------- snapshot

    def snapshot(self) -> State:
        # The states of the windows, their outputs, and the places of the rows.
        state: dict[str, pa.Table] = {
            "account": self.account.to_arrow(),
            "bound": saved_bounds([self._bound]),
            "places": self._places.contents().to_arrow(),
            "numbers": pa.table(
                {_NUMBER: pa.array([self._first, *(each.reached for each in self._windows)], pa.int64())}
            ),
            "rejected": self._rejected_rows(),
        }
        for at, window in enumerate(self._windows):
            state[f"given {at}"] = window.given.contents().to_arrow()
            for name, table in window.operator.snapshot().items():
                state[f"window {at} {name}"] = table
        return state

    def _rejected_rows(self) -> pa.Table:
        faults = list(self._rejected.values())
        rows = (
            TimedRow(fault.rowtime or 0, _ORIGIN, fault.counter, Opcode.INSERT, fault.row or ())
            for fault in faults
        )
        reasons = pa.array([fault.reason.name for fault in faults], type=pa.string())
        messages = pa.array([fault.message for fault in faults], type=pa.string())
        table = Tray.from_rows(self._node.input.row_type, rows).to_arrow()
        return table.append_column(_REASON, reasons).append_column(_MESSAGE, messages)

    def restore(self, state: State) -> None:
        self.account = Account.from_arrow(state["account"])
        (self._bound,) = loaded_bounds(state["bound"])
        self._first, *reached = state["numbers"].column(_NUMBER).to_pylist()
        self._places.append(Tray.from_arrow(_NO_FIELDS, state["places"]))
        self._end = self._first + len(state["places"])
        self._restore_rejected(state["rejected"])
        for at, (window, node) in enumerate(zip(self._windows, self._nodes, strict=True)):
            window.reached = reached[at]
            window.given.append(Tray.from_arrow(node.row_type, state[f"given {at}"]))
            start = f"window {at} "
            inside = {
                name.removeprefix(start): each for name, each in state.items() if name.startswith(start)
            }
            window.operator.restore(inside)

    def _restore_rejected(self, table: pa.Table) -> None:
        row_type = self._node.input.row_type
        refusals = zip(table.column(_REASON).to_pylist(), table.column(_MESSAGE).to_pylist(), strict=True)
        for row, (reason, message) in zip(Tray.from_arrow(row_type, table).rows(), refusals, strict=True):
            self._rejected[row.counter] = rejected(
                self._node.relation, Reason[reason], message, row, row_type.names
            )


def _before(tray: Tray, row: int) -> Bound:
    """Return the bound just before a row."""
    return Bound(int(tray.rowtime[row]), int(tray.origin[row]), int(tray.counter[row]) - 1)
