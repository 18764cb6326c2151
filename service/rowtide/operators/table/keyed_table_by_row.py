"""An engine table row by row, in plain Python: rowops in, its changelog out.

See docs/sql/semantics.md#rows-with-the-same-primary-key.

It is the reference of the compiled form, and runs for tables without a primary key and for keys without a
code (``Node.form``).
"""

from __future__ import annotations

from collections import deque
from itertools import chain

from rowtide.errors import Reason
from rowtide.operators.at_once import AtOnce
from rowtide.operators.contract import Account, Fault, OperatorSite, State
from rowtide.operators.faults import rejected
from rowtide.operators.storage.row_keys import key_getter
from rowtide.plan.nodes import KeyedTable
from rowtide.rows.rowop import Opcode, Row, TimedRow
from rowtide.rows.tray import Tray


class KeyedTableByRow(AtOnce):
    """Rows by primary key, or a multiset without one; plain Python, row by row.

    A change has the place in consistent time of the rowop that caused it.
    """

    def __init__(self, node: KeyedTable, _site: OperatorSite) -> None:
        super().__init__()
        self._node = node
        self._row_type = node.row_type
        self._key = node.key
        self._key_of = key_getter(node.key)
        self._rows: dict[Row, TimedRow] = {}
        self._copies: dict[Row, deque[TimedRow]] = {}

    def _take(self, tray: Tray, faults: list[Fault]) -> Tray | None:
        out: list[TimedRow] = []
        for timed in tray.rows():
            fault = self._refused(timed)
            if fault is not None:
                faults.append(fault)
            elif self._key:
                self._change_by_key(timed, out)
            else:
                self._change_multiset(timed, out)
        return Tray.from_rows(self._row_type, out) if out else None

    def contents(self) -> Tray:
        """Return the rows that the table has now."""
        if self._key:
            return Tray.from_rows(self._row_type, self._rows.values())
        return Tray.from_rows(self._row_type, chain.from_iterable(self._copies.values()))

    def snapshot(self) -> State:
        """``rows`` has a row for each row of the table."""
        return {"account": self.account.to_arrow(), "rows": self.contents().to_arrow()}

    def restore(self, state: State) -> None:
        self.account = Account.from_arrow(state["account"])
        for timed in Tray.from_arrow(self._row_type, state["rows"]).rows():
            self._put(timed)

    def _put(self, timed: TimedRow) -> None:
        if self._key:
            self._rows[self._key_of(timed.row)] = timed
        else:
            self._copies.setdefault(timed.row, deque()).append(timed)

    def _refused(self, timed: TimedRow) -> Fault | None:
        """Return the fault of a rowop that the table does not take; a DELETE of no row changes nothing."""
        refused = timed.opcode != Opcode.DELETE and None in self._key_of(timed.row)
        return null_key(self._node, timed) if refused else None

    def _change_by_key(self, timed: TimedRow, out: list[TimedRow]) -> None:
        if timed.opcode == Opcode.NOP:
            return
        key = self._key_of(timed.row)
        old = self._rows.pop(key, None)
        if old is not None:
            out.append(timed._replace(opcode=Opcode.DELETE, row=old.row))
        if timed.opcode == Opcode.INSERT:
            self._rows[key] = timed
            out.append(timed)

    def _change_multiset(self, timed: TimedRow, out: list[TimedRow]) -> None:
        if timed.opcode == Opcode.INSERT:
            self._put(timed)
            out.append(timed)
        elif timed.opcode == Opcode.DELETE and timed.row in self._copies:
            copies = self._copies[timed.row]
            copies.popleft()
            if not copies:
                del self._copies[timed.row]
            out.append(timed)


def null_key(node: KeyedTable, timed: TimedRow) -> Fault:
    """Return the fault of a row that has a NULL in its key."""
    name = next(node.row_type[index].name for index in node.key if timed.row[index] is None)
    message = f'column "{name}" of the primary key is NULL'
    return rejected(node.relation, Reason.NULL_KEY, message, timed, node.row_type.names)
