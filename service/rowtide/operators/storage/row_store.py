"""Rows in columns, found by their numbers: rows are added at the end and dropped at the front.

Numbers start at 0 and are never reused. The cost of adding and of looking up depends only on the
added or looked-up rows. Stored values are never changed or moved in place, so a later look-up
of a field returns the same values.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rowtide.operators.storage.arrow_buffers import text_array
from rowtide.operators.storage.gathering import take_values
from rowtide.operators.storage.growing import Growing
from rowtide.operators.storage.text_values import Texts
from rowtide.rows.arrays import Mask
from rowtide.rows.column import Column
from rowtide.rows.deferred import DeferredColumn
from rowtide.rows.tray import Tray
from rowtide.rows.types import RowType, Type

CLEAN_OVER = 1 << 12
"""Dropped rows at the front are removed once they are more than this, and more than the others."""

Numbers = NDArray[np.int64]
ColumnReader = Callable[[Numbers], Column]
"""Takes places in memory."""


class RowStore:
    """Rows of one type; ``base`` is the number of the first row in memory, ``end`` that of the next one."""

    def __init__(self, row_type: RowType) -> None:
        self.row_type = row_type
        self.base = 0
        self.end = 0
        self.rowtime = Growing(np.int64)
        self._origin = Growing(np.int32)
        self._counter = Growing(np.int64)
        self._opcode = Growing(np.int8)
        self._columns = [values_store(field.type) for field in row_type]

    def append(self, tray: Tray) -> None:
        """Add rows at the end."""
        self.rowtime.append(tray.rowtime)
        self._origin.append(tray.origin)
        self._counter.append(tray.counter)
        self._opcode.append(tray.opcode)
        for held, column in zip(self._columns, tray.columns, strict=True):
            held.append(column)
        self.end += len(tray)

    def column(self, field: int, numbers: Numbers) -> Column:
        """Return one field of the rows of these numbers, in that order."""
        return self._columns[field].take(numbers - self.base)

    def joined(self, numbers: Numbers) -> list[Column]:
        """Return the rows of these numbers field by field, of a negative number NULLs.

        Each field is looked up when something reads it.
        """
        places, there = numbers - self.base, None
        if len(numbers) and numbers.min() < 0:
            there = numbers >= 0
            if not there.any():
                return [Column.nulls(field.type, len(numbers)) for field in self.row_type]
            places = np.where(there, places, 0)
        return [
            DeferredColumn(field.type, len(numbers), _look_up(held.reader(), places, there))
            for field, held in zip(self.row_type, self._columns, strict=True)
        ]

    def place(self, number: int) -> tuple[int, int, int]:
        """Return rowtime, origin and counter of a row."""
        place = number - self.base
        return int(self.rowtime.array[place]), int(self._origin.array[place]), int(self._counter.array[place])

    def opcodes(self, first: int) -> NDArray[np.int8]:
        """Return the opcodes of the rows from a number on."""
        return self._opcode.view()[first - self.base :]

    def take(self, numbers: Numbers) -> Tray:
        """Return the rows of these numbers, in that order."""
        places = numbers - self.base
        return Tray(
            self.row_type,
            tuple(held.take(places) for held in self._columns),
            self.rowtime.array[places],
            self._origin.array[places],
            self._counter.array[places],
            self._opcode.array[places],
        )

    def kept(self, numbers: Numbers) -> RowStore:
        """Return a store of the rows of these numbers alone, from 0 on; this one is only read any more."""
        places = numbers - self.base
        fresh = RowStore(self.row_type)
        fresh.end = len(numbers)
        fresh.rowtime.append(self.rowtime.array[places])
        fresh._origin.append(self._origin.array[places])
        fresh._counter.append(self._counter.array[places])
        fresh._opcode.append(self._opcode.array[places])
        fresh._columns = [held.kept(places) for held in self._columns]
        return fresh

    def forget(self, before: int) -> int:
        """Drop the rows before a number; return the number of elements removed at the front."""
        gone = before - self.base
        if gone <= max(CLEAN_OVER, self.end - before):
            return 0
        for part in (self.rowtime, self._origin, self._counter, self._opcode):
            part.drop(gone)
        for held in self._columns:
            held.drop(gone)
        self.base = before
        return gone


class _Fixed:
    """The values of a field of fixed width."""

    def __init__(self, kind: Type) -> None:
        self._type = kind
        self._values = Growing(kind.dtype)
        self._valid: Growing | None = None

    def append(self, column: Column) -> None:
        _note_valid(self, column, self._values.length)
        self._values.append(column.values)

    def take(self, places: Numbers) -> Column:
        return self.reader()(places)

    def reader(self) -> ColumnReader:
        """Return a function that takes the current values later."""
        kind, values, valid = self._type, self._values.array, _array_of(self._valid)
        return lambda places: Column(
            kind, take_values(values, places), None if valid is None else take_values(valid, places)
        )

    def kept(self, places: Numbers) -> _Fixed:
        """Return the values at some places alone."""
        fresh = _Fixed(self._type)
        fresh._values.append(take_values(self._values.array, places))
        fresh._valid = _kept_valid(self._valid, places)
        return fresh

    def drop(self, count: int) -> None:
        self._values.drop(count)
        if self._valid is not None:
            self._valid.drop(count)


class _Text:
    """The values of a field of variable width."""

    def __init__(self, kind: Type) -> None:
        self._type = kind
        self._texts = Texts()
        self._valid: Growing | None = None

    def append(self, column: Column) -> None:
        _note_valid(self, column, self._texts.length)
        self._texts.append(column.values)

    def take(self, places: Numbers) -> Column:
        return self.reader()(places)

    def reader(self) -> ColumnReader:
        """Return a function that takes the current values later."""
        kind, texts, valid = self._type, self._texts.reader(), _array_of(self._valid)

        def read(places: Numbers) -> Column:
            there = None if valid is None else valid[places]
            return Column(kind, text_array(kind, *texts(places), there), there)

        return read

    def kept(self, places: Numbers) -> _Text:
        """Return the values at some places alone."""
        fresh = _Text(self._type)
        fresh._texts = self._texts.kept(places)
        fresh._valid = _kept_valid(self._valid, places)
        return fresh

    def drop(self, count: int) -> None:
        self._texts.drop(count)
        if self._valid is not None:
            self._valid.drop(count)


_Values = _Fixed | _Text


def values_store(kind: Type) -> _Values:
    """Return a store for the values of one field."""
    return _Text(kind) if kind.is_variable_width else _Fixed(kind)


def _array_of(valid: Growing | None) -> NDArray[Any] | None:
    return None if valid is None else valid.array


def _kept_valid(valid: Growing | None, places: Numbers) -> Growing | None:
    if valid is None:
        return None
    fresh = Growing(np.bool_)
    fresh.append(valid.array[places])
    return fresh


def _look_up(read: ColumnReader, places: Numbers, there: Mask | None) -> Callable[[], Column]:
    """Return a function that looks up values later; with ``there``, NULL where it is False."""
    if there is None:
        return lambda: read(places)
    return lambda: read(places).where_valid(there)


def _note_valid(values: Any, column: Column, before: int) -> None:
    """Store the validity of values added after ``before`` others; None while all are valid."""
    if values._valid is None and column.valid is not None:
        values._valid = Growing(np.bool_)
        values._valid.append(np.ones(before, dtype=np.bool_))
    if values._valid is not None:
        values._valid.append(column.valid_mask())
