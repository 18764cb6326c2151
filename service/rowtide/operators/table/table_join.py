"""Two tables joined, compiled: the changes of the result.

Of an inner join, a further condition that cannot fail is a filter of the pairs with equal keys, in columns.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from rowtide.expr.columnar import compile_columns
from rowtide.operators.aggregates.groups.key_groups import KeyGroups, without_nulls
from rowtide.operators.at_once import AtOnce
from rowtide.operators.contract import Account, Fault, OperatorSite, State
from rowtide.operators.storage.gathering import rows_where
from rowtide.operators.storage.growing import grown
from rowtide.operators.storage.row_store import RowStore
from rowtide.plan.nodes import TableJoin
from rowtide.plan.nodes.join.table_join import LEFT, RIGHT
from rowtide.rows.column import Column
from rowtide.rows.tray import Tray
from rowtide.rows.types import RowType

CLEAN_OVER = 1 << 14
"""Deleted rows are dropped once they are more than this, and more than the existing rows."""


class TableJoinOperator(AtOnce):
    """The compiled join. No row waits, because the merge below orders the changes of both sides."""

    def __init__(self, node: TableJoin, _site: OperatorSite) -> None:
        super().__init__()
        self._node = node
        self._image = _Image(node)

    def _take(self, tray: Tray, faults: list[Fault]) -> Tray | None:
        out = self._image.run(tray)
        self._image = self._image.cleaned()
        return out

    def snapshot(self) -> State:
        """``rows`` has a row for each row of both sides."""
        return {
            "account": self.account.to_arrow(),
            "rows": self._image.rows().to_arrow(),
            "refused": Tray.empty(self._node.input.row_type).to_arrow(),
        }

    def restore(self, state: State) -> None:
        self.account = Account.from_arrow(state["account"])
        self._image = _Image(self._node)
        self._image.run(Tray.from_arrow(self._node.input.row_type, state["rows"]))


class _Image:
    """The rows of both sides: the data of the kernel."""

    def __init__(self, node: TableJoin) -> None:
        self._node = node
        self._type = node.input.row_type
        split = 1 + node.keys + node.left
        self._fields = (slice(1 + node.keys, split), slice(split, len(self._type)))
        self._keeps = np.array([node.kind.keeps_left, node.kind.keeps_right])
        keys = self._type.fields[1 : 1 + node.keys]
        types = [RowType((*keys, *self._type.fields[fields])) for fields in self._fields]
        self._stores = [RowStore(each) for each in types]
        self._idents = [KeyGroups([field.type for field in each]) for each in types]
        self._groups = KeyGroups([key.type for key in keys])
        self._copies = np.zeros((2, 0), dtype=np.int64)
        self._links = np.zeros((2, 0, 3), dtype=np.int64)
        self._ends = np.zeros((2, 0, 3), dtype=np.int64)
        self._came = 0
        self._looked_at = 0
        self._further = None if node.condition is None else compile_columns(node.condition)

    def run(self, tray: Tray) -> Tray:
        """Apply changes, and return the changes of the result."""
        from rowtide.operators.table.kernels.table_joining import DONE, NEEDED, NEXT, WRITTEN, join_changes

        sides = np.where(tray.columns[0].values == LEFT, LEFT, RIGHT).astype(np.int8)
        keys = tray.columns[1 : 1 + self._node.keys]
        groups = without_nulls(self._groups.number(keys, len(tray)), keys)
        idents = np.empty(len(tray), dtype=np.int64)
        for side in (LEFT, RIGHT):
            mine = np.flatnonzero(sides == side)
            idents[mine] = self._numbered(side, tray, mine)
        self._reserve()
        progress = np.array([0, 0, 0, self._came], dtype=np.int64)
        room = _Room(2 * len(tray))
        found: list[Tray] = []
        while True:
            join_changes(
                sides,
                tray.opcode,
                groups,
                idents,
                self._keeps,
                self._copies,
                self._links,
                self._ends,
                progress,
                room.causes,
                room.opcodes,
                room.places,
            )
            if progress[DONE] == len(tray):
                break
            if self._further is None:
                room.grow(int(progress[NEEDED]))
                continue
            # Pairs that do not match leave before others come: there may be many more of them.
            found.append(self._matching(tray, room, int(progress[WRITTEN])))
            room = _Room(max(int(progress[NEEDED] - progress[WRITTEN]), len(room.causes)))
            progress[WRITTEN] = 0
        self._came = int(progress[NEXT])
        return Tray.concat([*found, self._matching(tray, room, int(progress[WRITTEN]))])

    def rows(self) -> Tray:
        """Return every copy of the existing rows, tagged, in order of arrival."""
        from rowtide.operators.table.kernels.table_joining import CAME

        sides, came = [], []
        for side in (LEFT, RIGHT):
            there = np.flatnonzero(self._copies[side])
            numbers = np.repeat(there, self._copies[side, there])
            came.append(self._links[side, numbers, CAME])
            sides.append(self._tagged(side, numbers))
        return Tray.concat(sides).take(np.argsort(np.concatenate(came), kind="stable"))

    def _tagged(self, side: int, numbers: NDArray[np.int64]) -> Tray:
        """Return rows of one side as they came: the fields of the other one are NULL."""
        count = len(numbers)
        tag = self._type[0].type
        found = iter(self._stores[side].take(numbers).columns)
        mine = range(len(self._type))[self._fields[side]]
        columns = [Column(tag, np.full(count, side, dtype=tag.dtype))]
        for index, field in enumerate(self._type.fields[1:], start=1):
            is_there = index <= self._node.keys or index in mine
            columns.append(next(found) if is_there else Column.nulls(field.type, count))
        zeros = np.zeros(count, dtype=np.int64)
        return Tray.from_columns(self._type, columns, zeros, 0, zeros)

    def cleaned(self) -> _Image:
        """Return an image without the deleted rows, if there are too many of them."""
        known = sum(each.end for each in self._stores)
        if known < self._looked_at + CLEAN_OVER:
            # Counting the existing rows reads all rows.
            return self
        self._looked_at = known
        there = int(np.count_nonzero(self._copies))
        if known - there <= max(CLEAN_OVER, there):
            return self
        fresh = _Image(self._node)
        fresh.run(self.rows())
        return fresh

    def _numbered(self, side: int, tray: Tray, mine: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the numbers of rows of one side, and keep those that are new."""
        store = self._stores[side]
        columns = (*tray.columns[1 : 1 + self._node.keys], *tray.columns[self._fields[side]])
        fields = [column.take(mine) for column in columns]
        numbers, firsts = self._idents[side].numbered(fields, len(mine))
        if len(firsts):
            new = tray.with_columns(_NO_FIELDS, ()).take(mine[firsts])
            store.append(new.with_columns(store.row_type, [column.take(firsts) for column in fields]))
        return numbers

    def _reserve(self) -> None:
        rows = max(each.end for each in self._stores)
        self._copies = grown(self._copies, rows, axis=1)
        self._links = grown(self._links, rows, fill=-1, axis=1)
        if self._groups.count > self._ends.shape[1]:
            before = self._ends.shape[1]
            self._ends = grown(self._ends, self._groups.count, fill=-1, axis=1)
            self._ends[:, before:, 2] = 0

    def _matching(self, tray: Tray, room: _Room, count: int) -> Tray:
        """Return the first ``count`` changes of the result, without pairs that do not meet the condition."""
        pairs = self._result(tray, room, count)
        if self._further is None or not count:
            return pairs
        met = self._further(pairs).column
        return rows_where(pairs, met.values if met.valid is None else met.values & met.valid)

    def _result(self, tray: Tray, room: _Room, count: int) -> Tray:
        causes, places = room.causes[:count], room.places[:count]
        columns = [
            column
            for side in (LEFT, RIGHT)
            for column in self._stores[side].joined(np.ascontiguousarray(places[:, side]))[self._node.keys :]
        ]
        return Tray(
            self._node.row_type,
            tuple(columns),
            tray.rowtime[causes],
            tray.origin[causes],
            tray.counter[causes],
            room.opcodes[:count],
        )


class _Room:
    """Room for what the kernel writes."""

    def __init__(self, rows: int) -> None:
        self.causes = np.empty(rows, dtype=np.int64)
        self.opcodes = np.empty(rows, dtype=np.int8)
        self.places = np.empty((rows, 2), dtype=np.int64)

    def grow(self, needed: int) -> None:
        """Make room for at least ``needed`` rows."""
        larger = _Room(max(needed, 2 * len(self.causes)))
        for name in ("causes", "opcodes", "places"):
            getattr(larger, name)[: len(self.causes)] = getattr(self, name)
        self.__dict__.update(larger.__dict__)


_NO_FIELDS = RowType(())
