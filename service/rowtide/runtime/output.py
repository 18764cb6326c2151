"""What one commit writes to a foreign table: rows folded by key, rows that do not fit put aside.

The table of a commit shows what it would show had every rowop been written
alone: of the rowops on one key only the last matters. A table without PRIMARY
KEY takes every INSERT and no DELETE.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta

import numpy as np

from rowtide.errors import FaultError, Reason
from rowtide.operators.contract import Account, Fault
from rowtide.plan.plan import ForeignTable
from rowtide.rows.column import Column, Mask
from rowtide.rows.rowop import Opcode
from rowtide.rows.tray import Tray
from rowtide.rows.types import MAX_TIMESTAMP_MS, MIN_TIMESTAMP_MS, Kind, Type
from rowtide_connectors.api import TableColumn, TargetTable, Transaction

_EPOCH = datetime(1970, 1, 1)
_EPOCH_ORDINAL = _EPOCH.toordinal()


@dataclass(frozen=True, slots=True)
class Writes:
    """The writes of one commit to one table; ``rows`` and ``deleted`` are disjoint in their keys."""

    table: TargetTable
    rows: dict[str, list[object]]
    deleted: dict[str, list[object]]

    def apply(self, transaction: Transaction) -> None:
        """Do the writes; the transaction commits them or not."""
        if any(self.deleted.values()):
            transaction.delete(self.table, self.deleted)
        if any(self.rows.values()):
            if self.table.key:
                transaction.upsert(self.table, self.rows)
            else:
                transaction.append(self.table, self.rows)


class TableOutput:
    """Gathers the rows of one foreign table between two commits.

    ``account`` says where they went (law 4): rows in are done or rejected.
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
        """Take rows in order; give the faults of those that the table cannot take."""
        faults: list[Fault] = []
        for given in trays:
            tray = given
            self.account.rows_in += len(tray)
            misfits = self._misfits(tray)
            if misfits:
                wrong = np.logical_or.reduce(list(misfits.values()))
                faults += [self._rejected(tray, misfits, row) for row in np.flatnonzero(wrong).tolist()]
                tray = tray.where(~wrong)
            if not self._table.key and (tray.opcode == Opcode.DELETE).any():
                raise FaultError(f'foreign table "{self._table.name}" has no key and was given a DELETE')
            if len(tray):
                self._trays.append(tray)
                self._gathered += len(tray)
                self.account.done += len(tray)
        self.account.rejected += len(faults)
        return faults

    def fold(self) -> Tray | None:
        """Give what has gathered, of each key the last rowop, and begin anew; None where nothing has."""
        if not self._trays:
            return None
        tray = Tray.concat(self._trays)
        self._trays = []
        self._gathered = 0
        if self._table.key:
            tray = tray.take(_last_of_each([tray.columns[index] for index in self._table.key]))
        return tray

    def take(self) -> Writes | None:
        """Give what has gathered, folded, as writes, and begin anew; None where nothing has."""
        tray = self.fold()
        if tray is None:
            return None
        deleted: dict[str, list[object]] = {}
        if self._table.key:
            gone = tray.opcode == Opcode.DELETE
            if gone.any():
                lost = tray.where(gone)
                tray = tray.where(~gone)
                names = self._table.row_type.names
                deleted = {names[index]: native(lost.columns[index]) for index in self._table.key}
        rows = {
            field.name: native(column)
            for field, column in zip(self._table.row_type, tray.columns, strict=True)
        }
        return Writes(self.target, rows, deleted)

    def _misfits(self, tray: Tray) -> dict[int, Mask]:
        """Tell, by field, which rows the table cannot take; a DELETE needs its key only."""
        found: dict[int, Mask] = {}
        for index, (field, column) in enumerate(zip(self._table.row_type, tray.columns, strict=True)):
            wrong: Mask | None = None
            if column.valid is not None and index in self._required:
                wrong = ~column.valid
            if field.type.kind is Kind.TIMESTAMP:
                beyond = (column.values < MIN_TIMESTAMP_MS) | (column.values > MAX_TIMESTAMP_MS)
                beyond &= column.valid_mask()
                wrong = beyond if wrong is None else wrong | beyond
            if wrong is not None and index not in self._table.key:
                wrong &= tray.opcode != Opcode.DELETE
            if wrong is not None and wrong.any():
                found[index] = wrong
        return found

    def _rejected(self, tray: Tray, misfits: Mapping[int, Mask], row: int) -> Fault:
        """Give the fault of the row at ``row``: its first field that does not fit."""
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
        return Fault(self._table.name, reason, message, timed.rowtime, timed.origin, timed.counter, timed.row)


def target_table(table: ForeignTable) -> TargetTable:
    """Give a foreign table as connectors see it."""
    options = dict(table.options)
    return TargetTable(
        name=options.get("table_name", table.name),
        columns=tuple(
            TableColumn(field.name, str(field.type), field.nullable and index not in table.key)
            for index, field in enumerate(table.row_type)
        ),
        key=tuple(table.row_type[index].name for index in table.key),
        options=options,
    )


def native(column: Column) -> list[object]:
    """Give a column's values as databases take them: dates and times as ``datetime`` (without zone, UTC)."""
    convert = _NATIVE.get(column.type.kind)
    values = column.to_list()
    if convert is None:
        return values
    return [None if value is None else convert(value) for value in values]


def from_native(kind: Type, value: object) -> object:
    """Give a value that a database gave in row form: the inverse of ``native``."""
    match value:
        case datetime():
            plain = value if value.tzinfo is None else value.astimezone(UTC).replace(tzinfo=None)
            return (plain - _EPOCH) // timedelta(milliseconds=1)
        case date():
            return value.toordinal() - _EPOCH_ORDINAL
        case time():
            return ((value.hour * 60 + value.minute) * 60 + value.second) * 1000 + value.microsecond // 1000
        case timedelta():
            return value // timedelta(milliseconds=1)
        case memoryview() | bytearray():
            return bytes(value)
        case int() if kind.kind is Kind.BOOLEAN:
            return bool(value)
        case _:
            return value


def _timestamp(value: object) -> object:
    return _EPOCH + timedelta(milliseconds=value)  # type: ignore[arg-type]


def _date(value: object) -> object:
    return date.fromordinal(_EPOCH_ORDINAL + value)  # type: ignore[operator]


def _time(value: object) -> object:
    return (_EPOCH + timedelta(milliseconds=value)).time()  # type: ignore[arg-type]


def _interval(value: object) -> object:
    return timedelta(milliseconds=value)  # type: ignore[arg-type]


_NATIVE: dict[Kind, Callable[[object], object]] = {
    Kind.TIMESTAMP: _timestamp,
    Kind.DATE: _date,
    Kind.TIME: _time,
    Kind.INTERVAL_DAY: _interval,
}


def _last_of_each(keys: Sequence[Column]) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Give the position of the last row of each key, in order of the rows."""
    listed: Sequence[object]
    if len(keys) == 1:
        listed = keys[0].to_list()
    else:
        listed = list(zip(*(column.to_list() for column in keys), strict=True))
    last = dict(zip(listed, range(len(listed)), strict=True))
    return np.sort(np.fromiter(last.values(), dtype=np.int64, count=len(last)))
