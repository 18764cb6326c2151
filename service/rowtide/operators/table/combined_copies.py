"""EXCEPT ALL and INTERSECT ALL of tables, compiled.

See docs/sql/semantics.md#set-operations.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa

from rowtide.operators.aggregates.groups.key_groups import KeyGroups
from rowtide.operators.at_once import AtOnce
from rowtide.operators.contract import Account, Fault, OperatorSite, State
from rowtide.operators.storage.growing import grown
from rowtide.plan.nodes.changes.combined_copies import CombinedCopies
from rowtide.rows.tray import Tray

FIRST, SECOND = "$first", "$second"
"""The columns of a snapshot with the counts of the two tables, after those of a tray of the rows."""
CLEAN_OVER = 1 << 14
"""Rows in neither table are dropped once they are more than this, and more than the others."""


class CombinedCopiesOperator(AtOnce):
    """For each row its number in either table, by the number of its key."""

    def __init__(self, node: CombinedCopies, _site: OperatorSite) -> None:
        super().__init__()
        self._node = node
        self._keys = KeyGroups([field.type for field in node.row_type])
        self._counts = np.zeros((0, 2), dtype=np.int64)

    def _take(self, tray: Tray, faults: list[Fault]) -> Tray | None:
        from rowtide.operators.table.kernels.copies import combine_copies

        *fields, side = tray.columns
        groups = self._keys.number(fields, len(tray))
        self._counts = grown(self._counts, self._keys.count)
        changes = np.empty(len(tray), dtype=np.int8)
        is_except = self._node.operation == "EXCEPT"
        combine_copies(groups, side.values, tray.opcode, is_except, self._counts, changes)
        self._clean()
        changed = replace(tray.with_columns(self._node.row_type, tuple(fields)), opcode=changes)
        return changed.where(changes != 0)

    def snapshot(self) -> State:
        """``rows`` has each row once, with its two counts."""
        living = self._living()
        count = len(living)
        zeros, inserts = np.zeros(count, dtype=np.int64), np.ones(count, dtype=np.int8)
        columns = tuple(self._keys.columns(living))
        rows = Tray(self._node.row_type, columns, zeros, zeros.astype(np.int32), zeros, inserts)
        return {"account": self.account.to_arrow(), "rows": counted(rows, self._counts[living].tolist())}

    def restore(self, state: State) -> None:
        self.account = Account.from_arrow(state["account"])
        rows = Tray.from_arrow(self._node.row_type, state["rows"])
        if len(rows):
            groups = self._keys.number(rows.columns, len(rows))
            self._counts = grown(self._counts, self._keys.count)
            counts = [np.asarray(state["rows"].column(name)) for name in (FIRST, SECOND)]
            self._counts[groups] = np.column_stack(counts)

    def _living(self) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
        """Return the numbers of the rows that a table has."""
        return np.flatnonzero(self._counts[: self._keys.count].any(axis=1))

    def _clean(self) -> None:
        """Drop the rows that no table has if they are most."""
        if self._keys.count <= CLEAN_OVER:
            return
        living = self._living()
        if self._keys.count - len(living) > max(CLEAN_OVER, len(living)):
            self._keys.keep(living)
            kept = self._counts[living]
            self._counts = np.zeros_like(self._counts)
            self._counts[: len(living)] = kept


def counted(rows: Tray, counts: list[list[int]]) -> pa.Table:
    """Return the rows of a snapshot with their counts."""
    table = rows.to_arrow()
    for at, name in enumerate((FIRST, SECOND)):
        table = table.append_column(name, pa.array([each[at] for each in counts], pa.int64()))
    return table
