"""Engine tables."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from rowtide.plan.nodes.lineage import SourceRows, last_insert, picked, same_row
from rowtide.plan.nodes.node import Agreed, Form, OrderMattersError, PartitionKey, require, types_of
from rowtide.plan.nodes.over_one import SameFields, names_of
from rowtide.rows.rowop import Opcode, TimedRow
from rowtide.rows.types import RowType


@dataclass(frozen=True, slots=True)
class KeyedTable(SameFields):
    """An engine table: applies rowops by primary key and emits its changelog.

    An INSERT of an existing key emits DELETE old, INSERT new. A DELETE needs only the key fields,
    and emits nothing if the key does not exist (docs/sql/tables.md). A NULL in the key is rejected
    (NULL_KEY). Without ``key`` rows are a multiset, and a DELETE removes one equal row.
    """

    key: tuple[int, ...]

    @property
    def row_type(self) -> RowType:
        """The row type of the input, whose key may be NULL, while that of the table never is."""
        fields = (
            replace(field, nullable=False) if at in self.key else field
            for at, field in enumerate(self.input.row_type)
        )
        return RowType(tuple(fields))

    def is_changelog(self) -> bool:
        """Return True."""
        return True

    def only_inserts(self) -> bool:
        """Return False: an INSERT may replace a row."""
        return False

    def key_fields(self) -> tuple[int, ...] | None:
        """Return the primary key."""
        return self.key or None

    def holds_rowtime(self, field: int) -> bool:
        """Return whether the input's field does."""
        return self.input.holds_rowtime(field)

    def keeps(self) -> str | None:
        """Return the table's rows."""
        return f"a row for each {names_of(self.row_type, self.key)}" if self.key else "every row"

    def is_limited(self) -> bool:
        """Return True: a table is limited by definition."""
        return True

    def form(self) -> Form | None:
        """Return COMPILED."""
        return Form.COMPILED

    def detail(self) -> str:
        """Return the keys."""
        return f"primary key ({names_of(self.row_type, self.key)})" if self.key else "no primary key"

    def signature(self) -> tuple[object, ...]:
        """Return the same with and without UNIQUE, which may be added or dropped while the rows stay."""
        own = tuple(each for each in self.own_fields() if each[0] != "unique")
        return (KeyedTable, own, types_of(self.row_type), self.read_types())

    def partition_key(self) -> PartitionKey | None:
        """Return the primary key."""
        return (self.key,) if self.key else None

    def order_through(self, agreed: Agreed, port: int) -> Agreed:
        """Return the same fields, if rows of a key keep their order."""
        require(agreed, self.key)
        return agreed

    def made_of(self, row: TimedRow) -> Iterator[SourceRows]:
        """Yield the row that caused the change, and for a DELETE the row that it removes."""
        key = self.key or range(len(row.row))
        yield same_row(row)
        if row.opcode == Opcode.DELETE:
            held = picked(row.row, key)
            yield last_insert(row, lambda each: picked(each.row, key) == held)


@dataclass(frozen=True, slots=True)
class PatchedTable(KeyedTable):
    """An engine table whose INSERTs may leave columns unchanged, and may move a row to another key.

    After its columns the input has a field that names the unchanged ones by number, and the columns of the row
    before a move. An INSERT that leaves some, of a row that is not known, is rejected (docs/sql/tables.md).
    """

    @property
    def row_type(self) -> RowType:
        """That of the input up to the field that names unchanged columns."""
        fields = tuple(self.input.row_type)
        return RowType(
            tuple(
                replace(field, nullable=False) if at in self.key else field
                for at, field in enumerate(fields[: len(fields) // 2])
            )
        )

    def form(self) -> Form | None:
        """Return that rows are applied one by one."""
        return Form.BY_ROW

    def signature(self) -> tuple[object, ...]:
        """Return the table with what it reads."""
        return (PatchedTable, self.own_fields(), types_of(self.row_type), self.read_types())

    def partition_key(self) -> PartitionKey | None:
        """Return None: a move concerns the rows of two keys."""
        return None

    def order_through(self, agreed: Agreed, port: int) -> Agreed:
        """Refuse: which row of a key stays depends on the order of rows that had other keys before."""
        raise OrderMattersError


@dataclass(frozen=True, slots=True)
class UniqueTable(KeyedTable):
    """An engine table with UNIQUE constraints: each of ``unique`` names fields that differ in any two rows.

    An INSERT with the values of another row is rejected (CONSTRAINT). NULLs are never equal.
    """

    unique: tuple[tuple[int, ...], ...]

    def form(self) -> Form | None:
        """Return that rows are applied one by one."""
        return Form.BY_ROW

    def detail(self) -> str:
        """Return the keys and what is unique."""
        also = [f"unique ({names_of(self.row_type, columns)})" for columns in self.unique]
        return ", ".join([KeyedTable.detail(self), *also])

    def partition_key(self) -> PartitionKey | None:
        """Return None: rows of different keys may violate the constraint."""
        return None

    def order_through(self, agreed: Agreed, port: int) -> Agreed:
        """Refuse: which of two rows of different keys is rejected depends on their order."""
        raise OrderMattersError
