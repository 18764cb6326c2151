"""Trays: an ordered sequence of rowops in columnar form.

Besides its columns a tray holds, for each row, ``rowtime`` (int64 ms),
``origin`` (int32) and ``counter`` (int64), which break ties, and ``opcode``
(int8). How rows are cut into trays must never change a result (law 1).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from rowtide.rows.arrays import Mask
from rowtide.rows.column import Column, Indices, arrow_type, owned
from rowtide.rows.rowop import Opcode, TimedRow
from rowtide.rows.types import RowType

ROWTIME, ORIGIN, COUNTER, OPCODE = "$rowtime", "$origin", "$counter", "$opcode"
"""Names of the columns for a row's time and opcode in Arrow form. They differ from every SQL name."""


@dataclass(frozen=True, slots=True, eq=False)
class Tray:
    """An ordered sequence of rowops of one row type; immutable."""

    row_type: RowType
    columns: tuple[Column, ...]
    rowtime: NDArray[np.int64]
    origin: NDArray[np.int32]
    counter: NDArray[np.int64]
    opcode: NDArray[np.int8]

    @classmethod
    def empty(cls, row_type: RowType) -> Tray:
        """Make a tray without rows."""
        return cls.from_rows(row_type, ())

    @classmethod
    def from_rows(cls, row_type: RowType, rows: Iterable[TimedRow]) -> Tray:
        """Make a tray from rows in row form."""
        held = list(rows)
        count = len(held)
        values = zip(*[timed.row for timed in held], strict=True) if held else ((),) * len(row_type)
        columns = tuple(
            Column.from_values(column.type, each) for column, each in zip(row_type, values, strict=True)
        )
        return cls(
            row_type,
            columns,
            np.fromiter((timed.rowtime for timed in held), np.int64, count),
            np.fromiter((timed.origin for timed in held), np.int32, count),
            np.fromiter((timed.counter for timed in held), np.int64, count),
            np.fromiter((timed.opcode for timed in held), np.int8, count),
        )

    @classmethod
    def from_columns(
        cls,
        row_type: RowType,
        columns: Sequence[Column],
        rowtime: NDArray[np.int64],
        origin: int,
        counter: NDArray[np.int64],
        opcode: NDArray[np.int8] | None = None,
    ) -> Tray:
        """Make a tray of rowops that all come from one ``origin``; without ``opcode`` they are INSERTs."""
        count = len(rowtime)
        return cls(
            row_type,
            tuple(columns),
            rowtime,
            np.full(count, origin, dtype=np.int32),
            counter,
            np.full(count, Opcode.INSERT, dtype=np.int8) if opcode is None else opcode,
        )

    @classmethod
    def concat(cls, trays: Sequence[Tray]) -> Tray:
        """Concatenate trays of one row type; at least one."""
        first = trays[0]
        if len(trays) == 1:
            return first
        return cls(
            first.row_type,
            tuple(Column.concat(parts) for parts in zip(*(tray.columns for tray in trays), strict=True)),
            np.concatenate([tray.rowtime for tray in trays]),
            np.concatenate([tray.origin for tray in trays]),
            np.concatenate([tray.counter for tray in trays]),
            np.concatenate([tray.opcode for tray in trays]),
        )

    def __len__(self) -> int:
        return len(self.rowtime)

    def rows(self) -> Iterator[TimedRow]:
        """Return the rows in row form."""
        count = len(self)
        values = (
            zip(*(column.to_list() for column in self.columns), strict=True)
            if self.columns
            else iter([()] * count)
        )
        times = zip(
            self.rowtime.tolist(),
            self.origin.tolist(),
            self.counter.tolist(),
            self.opcode.tolist(),
            values,
            strict=True,
        )
        return (TimedRow(*each) for each in times)

    def take(self, indices: Indices) -> Tray:
        """Return the rows at ``indices``, in that order."""
        return Tray(
            self.row_type,
            tuple(column.take(indices) for column in self.columns),
            self.rowtime[indices],
            self.origin[indices],
            self.counter[indices],
            self.opcode[indices],
        )

    def where(self, mask: Mask) -> Tray:
        """Return the rows where ``mask`` holds; this tray itself if it holds everywhere."""
        if mask.all():
            return self
        return self.take(np.flatnonzero(mask))

    def slice(self, start: int, stop: int) -> Tray:
        """Return the rows from ``start`` (inclusive) to ``stop`` (exclusive), sharing memory."""
        return Tray(
            self.row_type,
            tuple(column.slice(start, stop) for column in self.columns),
            self.rowtime[start:stop],
            self.origin[start:stop],
            self.counter[start:stop],
            self.opcode[start:stop],
        )

    def with_columns(self, row_type: RowType, columns: Sequence[Column]) -> Tray:
        """Return the same rowops in time with other columns."""
        return replace(self, row_type=row_type, columns=tuple(columns))

    def with_rowtime(self, rowtime: NDArray[np.int64]) -> Tray:
        """Return the same rowops at other rowtimes."""
        return replace(self, rowtime=rowtime)

    def to_arrow(self) -> pa.Table:
        """Return the Arrow table of ``tray_schema(self.row_type)``."""
        arrays = [column.to_arrow() for column in self.columns]
        arrays += [pa.array(part) for part in (self.rowtime, self.origin, self.counter, self.opcode)]
        return pa.Table.from_arrays(arrays, schema=tray_schema(self.row_type))

    @classmethod
    def from_arrow(cls, row_type: RowType, table: pa.Table | pa.RecordBatch) -> Tray:
        """Make a tray from the result of ``to_arrow``. Further columns are left out."""
        columns = tuple(Column.from_arrow(field.type, table.column(field.name)) for field in row_type)
        rowtime, origin, counter, opcode = (
            owned(np.asarray(table.column(name))) for name in (ROWTIME, ORIGIN, COUNTER, OPCODE)
        )
        return cls(row_type, columns, rowtime, origin, counter, opcode)


def tray_schema(row_type: RowType) -> pa.Schema:
    """Return the Arrow schema of a tray: its fields, then the four columns of time and opcode."""
    fields = [pa.field(column.name, arrow_type(column.type)) for column in row_type]
    fields += [
        pa.field(ROWTIME, pa.int64(), nullable=False),
        pa.field(ORIGIN, pa.int32(), nullable=False),
        pa.field(COUNTER, pa.int64(), nullable=False),
        pa.field(OPCODE, pa.int8(), nullable=False),
    ]
    return pa.schema(fields)


def same_place(rowtime: NDArray[np.int64], origin: NDArray[np.int32], counter: NDArray[np.int64]) -> Mask:
    """Return, for each row but the last, whether the next one has the same place: both have one cause."""
    found = counter[1:] == counter[:-1]
    found &= rowtime[1:] == rowtime[:-1]
    found &= origin[1:] == origin[:-1]
    return np.asarray(found)
