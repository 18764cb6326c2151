"""The output of one commit to a foreign table: rows folded by key, without rows that do not fit.

After a commit the table is as if every rowop had been written alone: only the
last rowop on each key has an effect. A table without PRIMARY KEY takes every
INSERT and no DELETE. A row that the database refuses becomes a fault, too,
and the others are folded again without it.

Which rows are refused does not depend on how rows are cut into commits:
values that the database cannot hold are detected in rows that are folded
away, too, and a table with further constraints or triggers receives every
rowop in order.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from rowtide.errors import FaultError, Reason
from rowtide.expr.rowwise import compile_row
from rowtide.expr.tree import Call, FieldRef
from rowtide.operators.contract import Account, Fault
from rowtide.plan.plan import ForeignTable
from rowtide.rows.arrays import Mask
from rowtide.rows.column import Column, Indices
from rowtide.rows.rowop import Opcode, Row
from rowtide.rows.tray import Tray
from rowtide.rows.types import MAX_TIMESTAMP_MS, MIN_TIMESTAMP_MS, VARCHAR, Kind, RowType
from rowtide.runtime.state.owned_tables import SHARED
from rowtide_connectors.api import TableColumn, TargetTable, Transaction
from rowtide_connectors.errors import RefusedRowsError
from rowtide_connectors.sizes import WRITE_BYTES

_Write = Callable[[TargetTable, Mapping[str, Sequence[object]]], None]


@dataclass(frozen=True, slots=True)
class RefusedWrites:
    """Rows that a database refuses, and why. ``of_table`` are the reasons for which the table may be at fault."""

    rows: dict[int, str] = dataclasses.field(default_factory=dict)
    of_table: set[str] = dataclasses.field(default_factory=set)


@dataclass(frozen=True, slots=True, eq=False)
class Writes:
    """The rowops of one commit on one table, in order, not yet folded."""

    name: str
    target: TargetTable
    tray: Tray
    account: Account
    """The table's account, which a refused row changes."""

    def only(self, indices: Sequence[int]) -> Writes:
        """Return the writes of the rows at ``indices``, which ascend."""
        return replace(self, tray=self.tray.take(np.array(indices, dtype=np.int64)))

    def without(self, indices: Iterable[int]) -> Writes:
        """Return the writes without the rows at ``indices``."""
        others = np.ones(len(self.tray), dtype=np.bool_)
        others[list(indices)] = False
        return replace(self, tray=self.tray.where(others))

    def fault(self, index: int, why: str) -> Fault:
        """Return the fault of a row that the database refuses."""
        (row,) = self.tray.slice(index, index + 1).rows()
        return Fault(
            self.name,
            Reason.CONSTRAINT,
            why,
            row.rowtime,
            row.origin,
            row.counter,
            row.row,
            names=self.tray.row_type.names,
        )

    def folded(self) -> Tray:
        """Return the last rowop of each key, or all rowops of a table without a key."""
        if not self.target.key:
            return self.tray
        return self.tray.take(last_of_each([column.to_list() for column in self._key_columns()]))

    def apply(self, transaction: Transaction) -> None:
        """Do the writes; the transaction commits them or not.

        Raises:
          RefusedRowsError: the database does not take a row; ``refused`` finds out which.
        """
        for write, indices, columns in self._steps(transaction):
            write(self.target, self._values(indices, columns))

    def refused(self, transaction: Transaction) -> RefusedWrites:
        """Return the rows that the database refuses, from a transaction that finds them."""
        found = RefusedWrites()
        for write, indices, columns in self._steps(transaction):
            try:
                write(self.target, self._values(indices, columns))
            except RefusedRowsError as error:
                found.rows.update({int(indices[index]): why for index, why in error.rows.items()})
                found.of_table.update(error.rows[index] for index in error.of_table)
        return found

    def _steps(self, transaction: Transaction) -> Iterator[tuple[_Write, Indices, Sequence[TableColumn]]]:
        """Yield what to write, in order: a call of the transaction, rows of limited size, and their columns."""
        for write, indices, columns in self._calls(transaction):
            for part in self._parts(indices):
                yield write, part, columns

    def _parts(self, indices: Indices) -> Iterator[Indices]:
        """Cut rows so that the values of a part, which are copied for the connector, have about WRITE_BYTES."""
        sized = [column.values for column in self.tray.columns if column.type.is_variable_width]
        if sum(values.nbytes for values in sized) <= WRITE_BYTES:
            yield indices
            return
        sizes = sum(
            (binary_lengths(values) for values in sized), start=np.zeros(len(self.tray), dtype=np.int64)
        )
        reached = sizes[indices].cumsum() // WRITE_BYTES
        yield from np.split(indices, np.flatnonzero(np.diff(reached)) + 1)

    def _calls(self, transaction: Transaction) -> Iterator[tuple[_Write, Indices, Sequence[TableColumn]]]:
        """Yield what to write, in order: a call of the transaction, the rows, and their columns."""
        if not self.target.key:
            yield transaction.append, np.arange(len(self.tray), dtype=np.int64), self.target.columns
        elif transaction.judges_rows(self.target):
            for segment in self._segments(transaction):
                yield from self._changes(transaction, segment)
        else:
            last = self._last(transaction)
            superseded = np.setdiff1d(np.flatnonzero(self.tray.opcode != Opcode.DELETE), last)
            if len(superseded):
                yield transaction.check, superseded, self.target.columns
            yield from self._changes(transaction, last)

    def _changes(
        self, transaction: Transaction, indices: Indices
    ) -> Iterator[tuple[_Write, Indices, Sequence[TableColumn]]]:
        """Yield the writes of rowops of distinct keys, the DELETEs first."""
        gone = self.tray.opcode[indices] == Opcode.DELETE
        if gone.any():
            key = [column for column in self.target.columns if column.name in self.target.key]
            yield transaction.delete, indices[gone], key
        if not gone.all():
            yield transaction.upsert, indices[~gone], self.target.columns

    def _segments(self, transaction: Transaction) -> Iterator[Indices]:
        """Cut the rowops where their order may matter: at a repeated key, or at a DELETE after an INSERT."""
        keys = zip(*self._keys(transaction), strict=True)
        seen: set[tuple[object, ...]] = set()
        start, inserts = 0, False
        for at, (key, opcode) in enumerate(zip(keys, self.tray.opcode.tolist(), strict=True)):
            if key in seen or (inserts and opcode == Opcode.DELETE):
                yield np.arange(start, at, dtype=np.int64)
                start, inserts = at, False
                seen.clear()
            seen.add(key)
            inserts = inserts or opcode != Opcode.DELETE
        yield np.arange(start, len(self.tray), dtype=np.int64)

    def _last(self, transaction: Transaction) -> Indices:
        return last_of_each(self._keys(transaction))

    def _keys(self, transaction: Transaction) -> Sequence[Sequence[object]]:
        """Return the columns of the keys, equal where the database takes them for one key."""
        columns = zip(self.target.key, self._key_columns(), strict=True)
        return transaction.compared(self.target, {name: column.to_list() for name, column in columns})

    def _key_columns(self) -> list[Column]:
        return [self.tray.columns[self.tray.row_type.index(name)] for name in self.target.key]

    def _values(self, indices: Indices, columns: Sequence[TableColumn]) -> Mapping[str, Sequence[object]]:
        chosen = self.tray if len(indices) == len(self.tray) else self.tray.take(indices)
        return {
            column.name: values_for_target(chosen.columns[self.tray.row_type.index(column.name)])
            for column in columns
        }


class TableOutput:
    """Gathers the rows of one foreign table between two commits.

    ``account`` counts them (law 4): input rows are done or rejected.
    """

    def __init__(self, table: ForeignTable) -> None:
        self.target = target_table(table)
        self.account = Account()
        self._table = table
        self._trays: list[Tray] = []
        self._gathered = 0
        self._required = [
            index for index, field in enumerate(table.row_type) if index in table.key or not field.nullable
        ]

    def __len__(self) -> int:
        return self._gathered

    def add(self, trays: Sequence[Tray]) -> list[Fault]:
        """Take rows in order; return the faults of those that the table cannot take.

        A DELETE that it cannot take is one of such a row, which has had its fault and was never written.
        """
        faults: list[Fault] = []
        for given in trays:
            tray = given
            self.account.rows_in += len(tray)
            misfits = self._misfits(tray)
            if misfits:
                wrong = np.logical_or.reduce(list(misfits.values()))
                came = np.flatnonzero(wrong & (tray.opcode != Opcode.DELETE))
                faults += [self._rejected(tray, misfits, row) for row in came.tolist()]
                tray = tray.where(~wrong)
            if not self._table.key and (tray.opcode == Opcode.DELETE).any():
                raise FaultError(f'foreign table "{self._table.name}" has no key and was given a DELETE')
            if len(tray):
                self._trays.append(tray)
                self._gathered += len(tray)
        self.account.rejected += len(faults)
        self.account.done += sum(map(len, trays)) - len(faults)
        return faults

    def take(self) -> Writes | None:
        """Return the gathered rows and start again; None if there are none."""
        if not self._trays:
            return None
        tray = Tray.concat(self._trays)
        self._trays = []
        self._gathered = 0
        return Writes(self._table.name, self.target, tray, self.account)

    def fold(self) -> Tray | None:
        """Return the last gathered rowop of each key, and start again; None if there are none."""
        writes = self.take()
        return None if writes is None else writes.folded()

    def _misfits(self, tray: Tray) -> dict[int, Mask]:
        """Return, by field, the rows that the table cannot take. A DELETE needs only its key."""
        found: dict[int, Mask] = {}
        for index, (field, column) in enumerate(zip(self._table.row_type, tray.columns, strict=True)):
            wrong: Mask | None = None
            if column.valid is not None and index in self._required:
                wrong = ~column.valid
            if field.type.is_timestamp:
                beyond = (column.values < MIN_TIMESTAMP_MS) | (column.values > MAX_TIMESTAMP_MS)
                beyond &= column.valid_mask()
                wrong = beyond if wrong is None else wrong | beyond
            if wrong is not None and index not in self._table.key:
                wrong &= tray.opcode != Opcode.DELETE
            if wrong is not None and wrong.any():
                found[index] = wrong
        return found

    def _rejected(self, tray: Tray, misfits: Mapping[int, Mask], row: int) -> Fault:
        """Return the fault of the row at ``row``: its first field that does not fit."""
        index = next(index for index, mask in misfits.items() if mask[row])
        (timed,) = tray.slice(row, row + 1).rows()
        column = self._table.row_type[index].name
        reason = Reason.CONSTRAINT
        if timed.row[index] is not None:
            said = "is not within the years 1 to 9999"
        elif index in self._table.key:
            reason, said = Reason.NULL_KEY, "is of the PRIMARY KEY and NULL"
        else:
            said = "is NOT NULL"
        message = f'column "{column}" {said}'
        return Fault(
            self._table.name,
            reason,
            message,
            timed.rowtime,
            timed.origin,
            timed.counter,
            timed.row,
            names=tray.row_type.names,
        )


def values_for_target(column: Column) -> list[object]:
    """Return the values of a column as connectors take them: in row form, arrays as text (``api.Transaction``)."""
    return list(column.values.to_pylist()) if column.type.kind is Kind.ARRAY else column.to_list()


def rows_of_target(row_type: RowType, rows: Iterable[Row]) -> Iterator[Row]:
    """Return rows of connectors, which give arrays as text, in row form.

    Raises:
      RejectedRowError: a text is not an array of the declared type.
    """
    arrays = {
        index: compile_row(Call("CAST", (FieldRef(index, VARCHAR),), field.type))
        for index, field in enumerate(row_type)
        if field.type.kind is Kind.ARRAY
    }
    if not arrays:
        yield from rows
        return
    for row in rows:
        yield tuple(arrays[at](row, 0) if at in arrays else value for at, value in enumerate(row))


def binary_lengths(values: pa.Array) -> NDArray[np.int64]:
    """Return how many bytes each text or binary value has; 0 for NULL."""
    return np.asarray(pc.binary_length(values).fill_null(0), dtype=np.int64)


def target_table(table: ForeignTable) -> TargetTable:
    """Return a foreign table in the form of the connectors' interface."""
    return TargetTable(
        name=table.name,
        columns=tuple(
            TableColumn(field.name, str(field.type), field.nullable and index not in table.key)
            for index, field in enumerate(table.row_type)
        ),
        key=tuple(table.row_type[index].name for index in table.key),
        options={name: value for name, value in table.options if name != SHARED},
    )


def last_of_each(keys: Sequence[Sequence[object]]) -> Indices:
    """Return the position of the last row of each key, in order of the rows."""
    listed = keys[0] if len(keys) == 1 else list(zip(*keys, strict=True))
    last = dict(zip(listed, range(len(listed)), strict=True))
    return np.sort(np.fromiter(last.values(), dtype=np.int64, count=len(last)))
