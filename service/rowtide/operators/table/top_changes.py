"""The first rows of a table, and how they change (ORDER BY .. LIMIT over changes), compiled.

Rows of a stream are never deleted, so only the first ones are kept.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from rowtide.operators.aggregates.groups.key_groups import KeyGroups
from rowtide.operators.at_once import AtOnce
from rowtide.operators.contract import Account, Fault, OperatorSite, State
from rowtide.operators.storage.growing import grown
from rowtide.operators.storage.keys import sort_codes
from rowtide.operators.storage.pooled_lists import PooledLists
from rowtide.operators.storage.row_store import RowStore
from rowtide.plan.nodes import NumberedChanges, TopChanges
from rowtide.rows.column import Column
from rowtide.rows.tray import Tray
from rowtide.rows.types import BIGINT

CLEAN_OVER = 1 << 14
"""Deleted rows are dropped once they are more than this, and more than the existing rows."""


class TopChangesOperator(AtOnce):
    """All rows that may be among the first ones, sorted within each partition."""

    def __init__(self, node: TopChanges, _site: OperatorSite) -> None:
        super().__init__()
        self._node = node
        self._image = _Image(node)

    def _take(self, tray: Tray, faults: list[Fault]) -> Tray | None:
        out = self._image.run(tray)
        self._image = self._image.cleaned()
        return out

    def snapshot(self) -> State:
        """``rows`` are all that are kept, in the order in which they came."""
        return {"account": self.account.to_arrow(), "rows": self._image.rows().to_arrow()}

    def restore(self, state: State) -> None:
        self.account = Account.from_arrow(state["account"])
        self._image = _Image(self._node)
        rows = Tray.from_arrow(self._node.input.row_type, state["rows"])
        self._image.load(rows)


class _Image:
    """The rows of the table: the data of the kernel."""

    def __init__(self, node: TopChanges) -> None:
        self._node = node
        self._is_numbered = isinstance(node, NumberedChanges)
        self._end = -1 if node.limit is None else node.offset + node.limit
        # A row that is pushed out can come back only if rows are deleted.
        self._stays = self._end >= 0 and node.input.only_inserts()
        # Rows that a DELETE brings are there too, until the next cleaning.
        self._store = RowStore(node.input.row_type)
        self._partitions = KeyGroups([node.input.row_type[index].type for index in node.partition])
        self._known = KeyGroups([field.type for field in node.input.row_type])
        self._idents = np.empty(0, dtype=np.int64)
        self._orders = np.empty((0, 2 * len(node.keys)), dtype=np.int64)
        self._lists = PooledLists()
        self._looked_at = 0

    def run(self, tray: Tray) -> Tray:
        """Apply changes, and return those of the first rows."""
        causes, places, numbers, opcodes, alike = self._apply(tray, numbered=self._is_numbered)
        if alike.any():
            keep = self._differ(places, np.flatnonzero(alike))
            causes, places, numbers, opcodes = causes[keep], places[keep], numbers[keep], opcodes[keep]
        columns = self._store.joined(places)
        if self._is_numbered:
            columns.append(Column(BIGINT, numbers))
        return Tray(
            self._node.row_type,
            tuple(columns),
            tray.rowtime[causes],
            tray.origin[causes],
            tray.counter[causes],
            opcodes,
        )

    def load(self, rows: Tray) -> None:
        """Restore the result of ``rows``."""
        if len(rows):
            self._apply(rows, numbered=False)

    def _apply(self, tray: Tray, *, numbered: bool) -> tuple[NDArray[Any], ...]:
        """Apply changes, and return the arrays that the kernel writes."""
        from rowtide.operators.storage.kernels.pools import DONE, POOLED
        from rowtide.operators.table.kernels.top_rows import WRITTEN, change_top

        count, first = len(tray), self._store.end
        keys = [tray.columns[index] for index in self._node.partition]
        groups = self._partitions.number(keys, count)
        self._store.append(tray)
        if not self._stays:
            self._idents = grown(self._idents, first + count)
            self._idents[first : first + count] = self._known.number(tray.columns, count)
        self._orders = grown(self._orders, first + count)
        self._write_orders(tray, self._orders[first : first + count])
        self._lists.reserve(self._partitions.count)
        rows = np.arange(first, first + count, dtype=np.int64)
        most = 2 * (self._end - self._node.offset) if numbered else 2
        room = 2 * count + most
        parts: list[tuple[NDArray[Any], ...]] = []
        progress = np.array([0, self._lists.used, 0], dtype=np.int64)
        while progress[DONE] < count:
            causes, places, numbers = (np.empty(room, dtype=np.int64) for _ in range(3))
            opcodes, alike = np.empty(room, dtype=np.int8), np.empty(room, dtype=np.bool_)
            progress[WRITTEN] = 0
            change_top(
                tray.opcode,
                groups,
                rows,
                self._orders,
                self._idents,
                self._lists.pool,
                self._lists.lists,
                self._node.offset,
                self._end,
                self._stays,
                numbered,
                self._node.newest_first,
                progress,
                causes,
                opcodes,
                places,
                numbers,
                alike,
            )
            written = int(progress[WRITTEN])
            parts.append(tuple(each[:written] for each in (causes, places, numbers, opcodes, alike)))
            if progress[DONE] < count and written + most <= room:
                self._lists.make_room()
                progress[POOLED] = self._lists.used
        self._lists.used = int(progress[POOLED])
        return tuple(map(np.concatenate, zip(*parts, strict=True)))

    def _differ(self, places: NDArray[np.int64], going: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Return the changes to emit, without an INSERT that equals the DELETE just before it."""
        kinds = [field.type for field in self._node.input.row_type]
        pairs = self._store.take(np.concatenate([places[going], places[going + 1]]))
        gone, come = np.split(KeyGroups(kinds).number(pairs.columns, len(pairs)), 2)
        keep = np.ones(len(places), dtype=np.bool_)
        keep[going[gone == come]] = False
        keep[going[gone == come] + 1] = False
        return keep

    def rows(self) -> Tray:
        """Return all rows, in the order in which they came."""
        came = np.sort(self._lists.listed()[1])
        zeros = np.zeros(len(came), dtype=np.int64)
        return Tray.from_columns(self._node.input.row_type, self._store.take(came).columns, zeros, 0, zeros)

    def cleaned(self) -> _Image:
        """Return an image without the deleted rows, if there are too many of them."""
        if self._store.end < self._looked_at + CLEAN_OVER:
            # Counting the rows reads all partitions.
            return self
        self._looked_at = self._store.end
        there = self._lists.total
        if self._store.end - there <= max(CLEAN_OVER, there):
            return self
        fresh = _Image(self._node)
        fresh.load(self.rows())
        return fresh

    def _write_orders(self, tray: Tray, orders: NDArray[np.int64]) -> None:
        """Write the sort keys of rows: for each field whether it is NULL, and its code."""
        for at, (index, descending) in enumerate(self._node.keys):
            column = tray.columns[index]
            codes = sort_codes(column, descending=descending)
            missing = np.zeros(len(tray), dtype=np.int64)
            if column.valid is not None:
                missing[~column.valid] = 1
                codes = np.where(column.valid, codes, 0)
            # The complement of a whole number sorts the other way round, and none overflows.
            orders[:, 2 * at] = ~missing if descending else missing
            orders[:, 2 * at + 1] = codes
