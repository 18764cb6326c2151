"""An engine table without a primary key, compiled: rowops in, its changelog out.

See docs/sql/semantics.md#rows-with-the-same-primary-key.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from rowtide.operators.aggregates.groups.key_groups import KeyGroups
from rowtide.operators.at_once import AtOnce
from rowtide.operators.contract import Account, Fault, OperatorSite, State
from rowtide.operators.storage.growing import Growing
from rowtide.operators.storage.row_store import RowStore
from rowtide.plan.nodes import KeyedTable
from rowtide.rows.tray import Tray

CLEAN_OVER = 1 << 14
"""Deleted rows are dropped once they are more than this, and more than the rows in the table."""


class MultisetTableOperator(AtOnce):
    """A multiset of rows: a DELETE removes the oldest equal row, if any."""

    def __init__(self, node: KeyedTable, _site: OperatorSite) -> None:
        super().__init__()
        self._node = node
        self._begin()

    def _take(self, tray: Tray, faults: list[Fault]) -> Tray | None:
        out = tray.where(self._apply(tray))
        self._clean()
        return out

    def contents(self) -> Tray:
        """Return the current rows of the table: equal ones together, at the place of the first."""
        numbers = np.flatnonzero(self._is_there.view())
        came = self._came.array[self._groups.view()[numbers]]
        return self._store.take(numbers[np.argsort(came, kind="stable")])

    def snapshot(self) -> State:
        """``rows`` has a row for each row of the table."""
        return {"account": self.account.to_arrow(), "rows": self.contents().to_arrow()}

    def restore(self, state: State) -> None:
        self.account = Account.from_arrow(state["account"])
        rows = Tray.from_arrow(self._node.row_type, state["rows"])
        if len(rows):
            self._apply(rows)

    def _begin(self) -> None:
        self._store = RowStore(self._node.row_type)
        self._keys = KeyGroups([field.type for field in self._node.row_type])
        # By row: its group, the next equal one, and whether it is in the table.
        self._groups, self._following = Growing(np.int64), Growing(np.int64, -1)
        self._is_there = Growing(np.bool_, False)
        # By group: the oldest row and the youngest one, and when the oldest came.
        self._oldest, self._youngest, self._came = (Growing(np.int64, -1) for _ in range(3))
        self._rows = 0

    def _apply(self, tray: Tray) -> NDArray[np.bool_]:
        """Apply rowops, and return which of them change the table."""
        from rowtide.operators.table.kernels.upserting import count_copies

        first = self._store.end
        groups = self._keys.number(tray.columns, len(tray))
        self._store.append(tray)
        self._groups.append(groups)
        for of_row in (self._following, self._is_there):
            of_row.extend(len(tray))
        for of_group in (self._oldest, self._youngest, self._came):
            of_group.extend(self._keys.count - of_group.length)
        changes = np.empty(len(tray), dtype=np.bool_)
        self._rows += count_copies(
            groups,
            self._store.opcodes(first),
            first,
            self._oldest.array,
            self._youngest.array,
            self._came.array,
            self._following.array,
            self._is_there.array,
            changes,
        )
        return changes

    def _clean(self) -> None:
        """Copy the rows of the table if most rows are deleted, so that memory follows its size."""
        if self._store.end - self._rows > max(CLEAN_OVER, self._rows):
            rows = self.contents()
            self._begin()
            if len(rows):
                self._apply(rows)
