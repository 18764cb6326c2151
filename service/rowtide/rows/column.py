"""One column of a tray: values and a validity mask.

``values`` is a NumPy array, or an Arrow array where the type has variable
width. ``valid`` is None where no value is NULL, else a boolean array; what
``values`` holds where ``valid`` is False means nothing.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import Context, Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute
from numpy.typing import NDArray

from rowtide.rows.arrays import Mask
from rowtide.rows.arrays_as_text import array_text
from rowtide.rows.types import Kind, Type

Indices = NDArray[np.int64]

EXACT = Context(prec=80)
"""Wide enough for the product of two 38-digit decimals, so nothing is rounded."""


def unscaled(value: Decimal, scale: int) -> int:
    """Return ``value`` times 10**scale; the value must have no more digits than that."""
    return int(value.scaleb(scale, EXACT))


def scaled(value: int, scale: int) -> Decimal:
    """Return the Decimal of ``value`` units of 10**-scale."""
    return Decimal(value).scaleb(-scale, EXACT)


def owned(array: NDArray[Any]) -> NDArray[Any]:
    """Return a writable array: compiled kernels refuse read-only ones, or are compiled again for them."""
    return array if array.flags.writeable else array.copy()


def arrow_type(kind: Type) -> pa.DataType:
    """Return the Arrow type of columns of a SQL type, on the wire and in snapshots."""
    if kind.is_binary:
        return pa.binary()
    if kind.is_variable_width:
        return pa.string()
    if kind.kind is Kind.DECIMAL:
        return pa.decimal128(kind.precision or 38, kind.scale)
    return pa.from_numpy_dtype(kind.dtype)


def arrow_values(kind: Type, values: Iterable[Any]) -> pa.Array:
    """Return values of a type of variable width, in row form, as the Arrow array of a column; None for NULL."""
    if kind.kind is Kind.ARRAY:
        form = array_text(kind).text
        values = [None if value is None else form(value) for value in values]
    return pa.array(values, type=arrow_type(kind))


def row_values(kind: Type, array: pa.Array) -> list[Any]:
    """Return the values, in row form, of the Arrow array of a column whose type has variable width."""
    if kind.kind is Kind.ARRAY:
        return list(array_text(kind).all_values(array.to_pylist()))
    return list(array.to_pylist())


def arrow_lists(kind: Type, lists: Sequence[Iterable[Any] | None]) -> pa.Array:
    """Return lists of values in row form as an Arrow array of lists; None for NULL."""
    if kind.kind is Kind.ARRAY:
        lists = [None if each is None else arrow_values(kind, each).to_pylist() for each in lists]
    return pa.array(lists, pa.list_(arrow_type(kind)))


def row_lists(kind: Type, lists: pa.Array | pa.ChunkedArray) -> list[list[Any]]:
    """Return the lists, in row form, of an Arrow array of ``arrow_lists``."""
    found: list[list[Any]] = lists.to_pylist()
    if kind.kind is Kind.ARRAY:
        return [list(array_text(kind).all_values(each)) for each in found]
    return found


def compact(array: NDArray[Any]) -> NDArray[Any]:
    """Return a writable, contiguous array, as kernels require."""
    flags = array.flags
    return array if flags.c_contiguous and flags.writeable else np.require(array, requirements=["C", "W"])


@dataclass(frozen=True, slots=True, eq=False)
class Column:
    """One column; immutable, shared freely between trays."""

    type: Type
    values: Any
    valid: Mask | None = None

    @classmethod
    def from_values(cls, kind: Type, values: Iterable[object]) -> Column:
        """Make a column from values in row form, None for NULL."""
        held = list(values)
        if kind.is_variable_width:
            return cls.from_arrow(kind, arrow_values(kind, held))
        valid = np.fromiter((value is not None for value in held), dtype=np.bool_, count=len(held))
        if kind.kind is Kind.DECIMAL:
            stored = np.zeros(len(held), dtype=kind.dtype)
            for index, value in enumerate(held):
                stored[index] = 0 if value is None else unscaled(value, kind.scale)  # type: ignore[arg-type]
        else:
            stored = np.array([0 if value is None else value for value in held], dtype=kind.dtype)
        return cls(kind, stored, None if valid.all() else valid)

    @classmethod
    def from_arrow(cls, kind: Type, array: pa.Array) -> Column:
        """Make a column from an Arrow array of ``arrow_type(kind)``."""
        if isinstance(array, pa.ChunkedArray):
            array = array.combine_chunks()
        valid = None
        if array.null_count:
            valid = owned(np.asarray(array.is_valid()))
        if kind.is_variable_width:
            return cls(kind, array, valid)
        if kind.kind is Kind.DECIMAL:
            if kind.dtype != object:
                return cls(kind, _low_words(array), valid)
            stored = np.zeros(len(array), dtype=kind.dtype)
            for index, value in enumerate(array.to_pylist()):
                stored[index] = 0 if value is None else unscaled(value, kind.scale)
            return cls(kind, stored, valid)
        if valid is not None:
            array = array.fill_null(False if kind.kind is Kind.BOOLEAN else 0)
        return cls(kind, owned(array.to_numpy(zero_copy_only=False)), valid)

    @classmethod
    def nulls(cls, kind: Type, length: int) -> Column:
        """Make a column of ``length`` NULLs."""
        return cls.from_values(kind, [None] * length)

    @classmethod
    def concat(cls, columns: Sequence[Column]) -> Column:
        """Concatenate columns of one type; at least one."""
        first = columns[0]
        if len(columns) == 1:
            return first
        valid = None
        if any(column.valid is not None for column in columns):
            valid = np.concatenate([column.valid_mask() for column in columns])
        if first.type.is_variable_width:
            return cls(first.type, pa.concat_arrays([column.values for column in columns]), valid)
        return cls(first.type, np.concatenate([column.values for column in columns]), valid)

    def __len__(self) -> int:
        return len(self.values)

    def valid_mask(self) -> Mask:
        """Return the validity mask; create it if there is none."""
        return np.ones(len(self.values), dtype=np.bool_) if self.valid is None else self.valid

    def take(self, indices: Indices) -> Column:
        """Return the rows at ``indices``, in that order."""
        valid = None if self.valid is None else self.valid[indices]
        if self.type.is_variable_width:
            return Column(self.type, self.values.take(pa.array(indices)), valid)
        return Column(self.type, self.values[indices], valid)

    def where_valid(self, mask: Mask) -> Column:
        """Return the same values, NULL also where ``mask`` is False."""
        valid = mask if self.valid is None else self.valid & mask
        if self.type.is_variable_width:
            null = pa.scalar(None, self.values.type)
            return Column(self.type, pa.compute.if_else(pa.array(valid), self.values, null), valid)
        return Column(self.type, self.values, valid)

    def slice(self, start: int, stop: int) -> Column:
        """Return the rows from ``start`` (inclusive) to ``stop`` (exclusive), sharing memory."""
        valid = None if self.valid is None else self.valid[start:stop]
        if self.type.is_variable_width:
            return Column(self.type, self.values.slice(start, stop - start), valid)
        return Column(self.type, self.values[start:stop], valid)

    def to_list(self) -> list[object]:
        """Return the values in row form, None for NULL and ``math.nan`` for every NaN."""
        if self.type.is_variable_width:
            return row_values(self.type, self.values)
        listed: list[object] = self.values.tolist()
        if self.type.is_float:
            for row in np.flatnonzero(np.isnan(self.values)).tolist():
                listed[row] = math.nan
        if self.valid is not None:
            listed = [
                value if valid else None for value, valid in zip(listed, self.valid.tolist(), strict=True)
            ]
        if self.type.kind is Kind.DECIMAL:
            scale = self.type.scale
            return [None if value is None else scaled(value, scale) for value in listed]  # type: ignore[arg-type]
        return listed

    def to_arrow(self) -> pa.Array:
        """Return the Arrow array of ``arrow_type(self.type)``."""
        if self.type.is_variable_width:
            return self.values
        if self.type.kind is Kind.DECIMAL:
            if self.values.dtype == object:
                return pa.array(self.to_list(), type=arrow_type(self.type))
            return _decimals(self.type, self.values, self.valid)
        mask = None if self.valid is None else ~self.valid
        return pa.array(self.values, type=arrow_type(self.type), mask=mask)


def _low_words(array: pa.Array) -> NDArray[np.int64]:
    """Return the lower halves of 128-bit decimals, which hold decimals of up to 18 digits completely."""
    _, data = array.buffers()
    if data is None:
        return np.zeros(len(array), dtype=np.int64)
    words = np.frombuffer(data, dtype=np.int64)[2 * array.offset : 2 * (array.offset + len(array))]
    return words[::2].copy()


def _decimals(kind: Type, values: NDArray[np.int64], valid: Mask | None) -> pa.Array:
    words = np.empty((len(values), 2), dtype=np.int64)
    words[:, 0] = values
    words[:, 1] = values >> 63
    nulls = None if valid is None else pa.py_buffer(np.packbits(valid, bitorder="little"))
    return pa.Array.from_buffers(arrow_type(kind), len(values), [nulls, pa.py_buffer(words)])
