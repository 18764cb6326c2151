"""Keys as integers: columns to int64 codes and back.

Equal values have equal codes for as long as the coder lives; codes say nothing
about order. A fixed-width value is its own code; variable-width values are
interned. The last code of a key is a bit mask of its NULLs, so that NULL is a separate value.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute
from numpy.typing import NDArray

from rowtide.operators.storage.arrow_buffers import gather_texts, text_buffers
from rowtide.operators.storage.growing import grown, zeros_in_lines
from rowtide.rows.column import Column, arrow_type
from rowtide.rows.types import Type

FIRST_SLOTS = 1 << 10
FIRST_BYTES = 1 << 14
_BELOW_SIGN = np.int64(2**63 - 1)


def power_of_two(least: int) -> int:
    """Return the least power of two that is at least ``least`` and ``FIRST_SLOTS``."""
    return max(FIRST_SLOTS, 1 << max(0, (least - 1).bit_length()))


def whole_codes(column: Column) -> NDArray[np.int64]:
    """Return the code of each value of a fixed-width type that is not a Python object; undefined for NULL."""
    if column.type.is_float:
        # Zero has two forms.
        return np.asarray((column.values.astype(np.float64) + 0.0).view(np.int64))
    return np.asarray(column.values.astype(np.int64, copy=False))


def in_order(codes: NDArray[np.int64], of: Type) -> NDArray[np.int64]:
    """Return codes that are in the order of the values of a fixed-width type; given those, the codes again."""
    # Of negative doubles the larger bits are the lesser values.
    return np.where(codes < 0, codes ^ _BELOW_SIGN, codes) if of.is_float else codes


def sort_codes(column: Column, *, descending: bool) -> NDArray[np.int64]:
    """Return the codes of a fixed-width type in the order of a sort; NaN comes last in either direction."""
    codes = in_order(whole_codes(column), column.type)
    if descending:
        codes = ~codes
    return np.where(np.isnan(column.values), _BELOW_SIGN, codes) if column.type.is_float else codes


class TextTable:
    """Distinct variable-width values with dense codes, in order of first appearance."""

    def __init__(self) -> None:
        self.count = 0
        self._slots = _empty_slots(FIRST_SLOTS)
        self._starts = np.zeros(FIRST_SLOTS // 2 + 1, dtype=np.int64)
        self._pool = np.zeros(FIRST_BYTES, dtype=np.uint8)

    def intern(self, array: pa.Array) -> NDArray[np.int64]:
        """Return the code of each value; those of NULLs mean nothing."""
        from rowtide.operators.storage.kernels import strings

        if not len(array):
            return np.empty(0, dtype=np.int64)
        offsets, data = text_buffers(array)
        used = int(self._starts[self.count]) + int(offsets[-1] - offsets[0])
        if used > len(self._pool):
            self._pool = grown(self._pool, power_of_two(used))
        codes = np.empty(len(array), dtype=np.int64)
        done = 0
        while True:
            self.count, done = strings.intern(
                offsets, data, done, self._slots, self._starts, self._pool, self.count, codes
            )
            if done == len(codes):
                return codes
            self._grow()

    def find(self, array: pa.Array) -> NDArray[np.int64]:
        """Return the code of each value, -1 for one that was never interned; those of NULLs mean nothing."""
        from rowtide.operators.storage.kernels import strings

        offsets, data = text_buffers(array)
        codes = np.empty(len(array), dtype=np.int64)
        strings.find(offsets, data, self._slots, self._starts, self._pool, codes)
        return codes

    def reader(self) -> Callable[[NDArray[np.int64]], tuple[NDArray[np.int32], NDArray[np.uint8]]]:
        """Return a function that looks up the current codes later: the values' offsets and bytes."""
        starts, pool = self._starts, self._pool
        return lambda codes: gather_texts(codes, starts, pool)

    def values(self, codes: NDArray[np.int64], kind: pa.DataType) -> pa.Array:
        """Return the values of ``codes`` as an Arrow array of ``kind`` (string or binary)."""
        offsets, data = self.reader()(codes)
        return pa.Array.from_buffers(kind, len(codes), [None, pa.py_buffer(offsets), pa.py_buffer(data)])

    def _grow(self) -> None:
        """Make room for twice as many values."""
        from rowtide.operators.storage.kernels import strings

        larger = _empty_slots(2 * len(self._slots))
        strings.rehash(self._slots, larger)
        self._slots = larger
        self._starts = grown(self._starts, len(larger) // 2 + 1)


class KeyCoder:
    """Codes of the keys of one operator: fields of fixed types, in order."""

    def __init__(self, types: Sequence[Type]) -> None:
        self.types = tuple(types)
        self._tables = [TextTable() if kind.is_variable_width else None for kind in types]
        self._objects: list[_ObjectTable | None] = [
            _ObjectTable() if kind.dtype == object and not kind.is_variable_width else None for kind in types
        ]

    @property
    def width(self) -> int:
        """How many int64 a key has."""
        return len(self.types) + 1

    @property
    def interned(self) -> int:
        """How many distinct values are held for interned fields, the most of any field."""
        counts = [table.count for table in self._tables if table is not None]
        return max([*counts, *(table.count for table in self._objects if table is not None)], default=0)

    def text_codes(self, column: Column) -> NDArray[np.int64]:
        """Return the codes of keys that are one text each; -1 for NULL."""
        (table,) = self._tables
        if table is None:
            raise TypeError("these keys are not a single text")
        codes = table.intern(column.values)
        return codes if column.valid is None else np.where(column.valid, codes, -1)

    def known_text_codes(self, column: Column) -> NDArray[np.int64]:
        """Return the codes of keys that are one text each, -1 for a text that is new, -2 for NULL."""
        (table,) = self._tables
        if table is None:
            raise TypeError("these keys are not a single text")
        codes = table.find(column.values)
        return codes if column.valid is None else np.where(column.valid, codes, -2)

    def encode(self, columns: Sequence[Column], out: NDArray[np.int64]) -> None:
        """Write the codes of the rows of ``columns`` into ``out`` (rows, width)."""
        self._write(columns, out, TextTable.intern, _ObjectTable.intern)

    def look_up(self, columns: Sequence[Column], out: NDArray[np.int64]) -> None:
        """Write codes as ``encode`` does, remembering nothing: a value that is new has the code -1."""
        self._write(columns, out, TextTable.find, _ObjectTable.find)

    def _write(
        self,
        columns: Sequence[Column],
        out: NDArray[np.int64],
        of_text: Callable[[TextTable, pa.Array], NDArray[np.int64]],
        of_object: Callable[[_ObjectTable, NDArray[np.object_]], NDArray[np.int64]],
    ) -> None:
        nulls = out[:, len(self.types)]
        nulls[:] = 0
        for index, (column, table, objects) in enumerate(
            zip(columns, self._tables, self._objects, strict=True)
        ):
            if table is not None:
                codes = of_text(table, column.values)
            elif objects is not None:
                codes = of_object(objects, column.values)
            else:
                codes = whole_codes(column)
            if column.valid is None:
                out[:, index] = codes
            else:
                out[:, index] = np.where(column.valid, codes, 0)
                nulls |= np.where(column.valid, 0, np.int64(1) << index)

    def decode(self, codes: NDArray[np.int64]) -> list[Column]:
        """Return the columns of the keys in ``codes`` (rows, width)."""
        nulls = codes[:, len(self.types)]
        columns = []
        for index, (kind, table, objects) in enumerate(
            zip(self.types, self._tables, self._objects, strict=True)
        ):
            valid = None
            if nulls.any():
                valid = (nulls >> index) & 1 == 0
                if valid.all():
                    valid = None
            mine = np.ascontiguousarray(codes[:, index])
            if table is not None:
                array = table.values(mine, arrow_type(kind))
                if valid is not None:
                    array = pa.compute.if_else(pa.array(valid), array, pa.scalar(None, array.type))
                columns.append(Column(kind, array, valid))
            elif objects is not None:
                columns.append(Column(kind, objects.values(mine), valid))
            elif kind.is_float:
                columns.append(Column(kind, mine.view(np.float64).astype(kind.dtype), valid))
            else:
                columns.append(Column(kind, mine.astype(kind.dtype), valid))
        return columns


class _ObjectTable:
    """Distinct Python values with dense codes: for wide decimals, which have no kernel."""

    def __init__(self) -> None:
        self._codes: dict[object, int] = {}
        self._values: list[object] = []

    @property
    def count(self) -> int:
        return len(self._values)

    def intern(self, values: NDArray[np.object_]) -> NDArray[np.int64]:
        codes = np.empty(len(values), dtype=np.int64)
        for row, value in enumerate(values):
            code = self._codes.setdefault(value, len(self._values))
            if code == len(self._values):
                self._values.append(value)
            codes[row] = code
        return codes

    def find(self, values: NDArray[np.object_]) -> NDArray[np.int64]:
        return np.array([self._codes.get(value, -1) for value in values], dtype=np.int64)

    def values(self, codes: NDArray[np.int64]) -> NDArray[np.object_]:
        found = np.empty(len(codes), dtype=object)
        for row, code in enumerate(codes.tolist()):
            found[row] = self._values[code] if code < len(self._values) else 0
        return found


def _empty_slots(number: int) -> NDArray[np.uint64]:
    """Return slots of 16 bytes that begin where a line of the cache does."""
    return zeros_in_lines(2 * number, np.uint64).reshape(number, 2)
