"""An engine table with a primary key, compiled: rowops in, its changelog out.

See docs/sql/semantics.md#rows-with-the-same-primary-key.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from rowtide.operators.aggregates.groups.key_groups import KeyGroups, without_nulls
from rowtide.operators.at_once import AtOnce
from rowtide.operators.contract import Account, Fault, OperatorSite, State
from rowtide.operators.storage.growing import Growing
from rowtide.operators.storage.row_store import RowStore
from rowtide.operators.table.keyed_table_by_row import null_key
from rowtide.plan.nodes import KeyedTable
from rowtide.rows.column import Column
from rowtide.rows.rowop import Opcode
from rowtide.rows.tray import Tray

CLEAN_OVER = 1 << 14
"""Deleted rows are dropped once they are more than this, and more than the rows in the table."""


class KeyedTableOperator(AtOnce):
    """Rows by primary key: each key has a number, and that the number of its row in the store.

    A change has the place in consistent time of the rowop that caused it.
    """

    def __init__(self, node: KeyedTable, _site: OperatorSite) -> None:
        super().__init__()
        self._node = node
        self._row_type = node.row_type
        self._key_types = [self._row_type[index].type for index in node.key]
        self._rows = 0
        self._store = RowStore(self._row_type)
        self._keys = KeyGroups(self._key_types)
        self._current = Growing(np.int64, -1)

    def _take(self, tray: Tray, faults: list[Fault]) -> Tray | None:
        faults += self._null_keys(tray)
        return self._apply(tray)

    def contents(self) -> Tray:
        """Return the current rows of the table, in order of arrival."""
        return self._store.take(self._live())

    def snapshot(self) -> State:
        """``rows`` has a row for each row of the table."""
        return {"account": self.account.to_arrow(), "rows": self.contents().to_arrow()}

    def restore(self, state: State) -> None:
        self.account = Account.from_arrow(state["account"])
        rows = Tray.from_arrow(self._row_type, state["rows"])
        if len(rows):
            self._apply(rows)

    def _apply(self, tray: Tray) -> Tray | None:
        """Apply rowops and return the changelog."""
        from rowtide.operators.table.kernels.upserting import upsert

        groups = self._number([tray.columns[index] for index in self._node.key], len(tray))
        first = self._store.end
        self._store.append(tray)
        rows, numbers = np.empty(2 * len(tray), dtype=np.int64), np.empty(2 * len(tray), dtype=np.int64)
        opcodes = np.empty(2 * len(tray), dtype=np.int8)
        came = self._store.opcodes(first)
        count = upsert(groups, came, first, self._current.array, rows, numbers, opcodes)
        if not count:
            self._clean()
            return None
        rows, opcodes = rows[:count], opcodes[:count]
        self._rows += int(opcodes.sum())
        out = Tray(
            self._row_type,
            tuple(self._store.joined(numbers[:count])),
            tray.rowtime[rows],
            tray.origin[rows],
            tray.counter[rows],
            opcodes,
        )
        self._clean()
        return out

    def _number(self, keys: Sequence[Column], rows: int) -> NDArray[np.int64]:
        """Return the number of each row's key, -1 where it has a NULL."""
        groups = without_nulls(self._keys.number(keys, rows), keys)
        if self._keys.count > self._current.length:
            self._current.extend(self._keys.count - self._current.length)
        return groups

    def _null_keys(self, tray: Tray) -> list[Fault]:
        """Return the faults of the rows that come in with a NULL in their key."""
        missing = np.zeros(len(tray), dtype=np.bool_)
        for index in self._node.key:
            valid = tray.columns[index].valid
            if valid is not None:
                missing |= ~valid
        missing &= tray.opcode != Opcode.DELETE
        return [null_key(self._node, timed) for timed in tray.take(np.flatnonzero(missing)).rows()]

    def _live(self) -> NDArray[np.int64]:
        """Return the numbers of the table's rows, ascending."""
        current = self._current.view()
        alive = np.zeros(self._store.end, dtype=np.bool_)
        alive[current[current >= 0]] = True
        return np.flatnonzero(alive)

    def _clean(self) -> None:
        """Drop deleted rows and keys if they are more than those in the table."""
        if self._store.end - self._rows <= max(CLEAN_OVER, self._rows):
            return
        live = self._live()
        again = np.empty(self._store.end, dtype=np.int64)
        again[live] = np.arange(len(live), dtype=np.int64)
        self._store = self._store.kept(live)
        if self._keys.count > 2 * max(CLEAN_OVER, self._rows):
            self._keys = KeyGroups(self._key_types)
            self._current = Growing(np.int64, -1)
            rows = np.arange(len(live), dtype=np.int64)
            keys = [self._store.column(index, rows) for index in self._node.key]
            self._current.array[self._number(keys, len(rows))] = rows
        else:
            current = self._current.view()
            there = current >= 0
            current[there] = again[current[there]]
