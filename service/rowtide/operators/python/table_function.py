"""TableFunction: a class in Python makes rows of each row and the state of its key.

A key is dropped when no later row can use its state. RETENTION compares the ROWTIMEs of two rows, so the drop has no
effect on rows.
"""

from __future__ import annotations

import pyarrow as pa

from rowtide.errors import RejectedRowError
from rowtide.expr.python.tables import row_maker_of
from rowtide.operators.at_once import AtOnce
from rowtide.operators.contract import Account, Fault, OperatorSite, State, StepOutput
from rowtide.operators.faults import rejected
from rowtide.plan.nodes.table_function import TableFunction
from rowtide.rows.rowop import Opcode, Row, TimedRow
from rowtide.rows.tray import Tray
from rowtide.rows.types import RowType
from rowtide.rowtime.bound import Bound

_STATE = "$state"
_NAN = float("nan")
"""The one NaN of keys: it is found again because it is the same object."""


class TableFunctionOperator(AtOnce):
    """The stored state of each key, and the rowtime of its last row; the key that is longest without one is first."""

    def __init__(self, node: TableFunction, _site: OperatorSite) -> None:
        super().__init__()
        self._node = node
        self._maker = row_maker_of(node.of)
        self._constants = tuple(each.value for each in node.constants)
        self._key_type = RowType(tuple(node.input.row_type)[: node.keys])
        self._states: dict[Row, tuple[int, bytes]] = {}

    def step(self, port: int, tray: Tray | None, bound: Bound) -> StepOutput:
        found = super().step(port, tray, bound)
        self._forget(bound.rowtime)
        return found

    def _take(self, tray: Tray, faults: list[Fault]) -> Tray | None:
        out: list[TimedRow] = []
        for timed in tray.rows():
            if timed.opcode == Opcode.INSERT:
                try:
                    out += self._made(timed)
                except RejectedRowError as error:
                    names = self._node.input.row_type.names
                    faults.append(rejected(self._node.relation, error.reason, error.message, timed, names))
        return Tray.from_rows(self._node.row_type, out) if out else None

    def _made(self, timed: TimedRow) -> list[TimedRow]:
        """Return the rows of a row, and store the new state of its key.

        Raises:
          RejectedRowError: the class fails; nothing has changed.
        """
        keys, given = timed.row[: self._node.keys], (*timed.row[self._node.keys :], *self._constants)
        if not self._node.of.takes_null and None in given:
            return []
        key = _key(keys)
        last, state = self._states.get(key, (timed.rowtime, None))
        if self._is_over(last, timed.rowtime):
            state = None
        state, rows = self._maker.added(state, timed.rowtime, given)
        self._states.pop(key, None)
        self._states[key] = timed.rowtime, state
        return [timed._replace(row=(*keys, *row)) for row in rows]

    def _forget(self, rowtime: int) -> None:
        """Drop the keys whose state no row from ``rowtime`` on can see."""
        while self._states:
            key, (last, _) = next(iter(self._states.items()))
            if not self._is_over(last, rowtime):
                return
            del self._states[key]

    def _is_over(self, last: int, rowtime: int) -> bool:
        return self._node.retention_ms is not None and rowtime - last > self._node.retention_ms

    def snapshot(self) -> State:
        """``states`` has a row for each key, at the rowtime of its last row."""
        rows = [TimedRow(last, 0, 0, Opcode.INSERT, key) for key, (last, _) in self._states.items()]
        states = pa.array([state for _, state in self._states.values()], pa.large_binary())
        table = Tray.from_rows(self._key_type, rows).to_arrow().append_column(_STATE, states)
        return {"account": self.account.to_arrow(), "states": table}

    def restore(self, state: State) -> None:
        self.account = Account.from_arrow(state["account"])
        rows = Tray.from_arrow(self._key_type, state["states"]).rows()
        found = zip(rows, state["states"].column(_STATE).to_pylist(), strict=True)
        # Parts of a split are joined one after the other.
        for timed, held in sorted(found, key=lambda each: each[0].rowtime):
            self._states[_key(timed.row)] = timed.rowtime, held


def _key(values: Row) -> Row:
    return tuple(_NAN if value != value else value for value in values)  # noqa: PLR0124 - only NaN differs from itself
