"""The form of values in kernels: whole numbers or doubles, and codes of Python objects."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from rowtide.operators.storage.keys import KeyCoder
from rowtide.rows.arrays import Mask
from rowtide.rows.column import Column
from rowtide.rows.types import Kind, Type

Values = NDArray[Any]


class KernelForm(Protocol):
    """Conversion of values of one type to the form of kernels and back to a column."""

    @property
    def interned(self) -> int:
        """The number of stored values."""

    def encode(self, column: Column) -> tuple[Values, Mask]:
        """Return values, and the mask of those that are not NULL."""

    def decode(self, of: Type, values: Values, known: Mask | None) -> Column:
        """Return a column with NULL for unknown values."""


def values_of(column: Column) -> tuple[Values, Mask]:
    """Return the kernels' form of a column. Of variable-width columns only the NULLs matter."""
    use = column.valid_mask()
    if column.type.dtype == object:
        return np.zeros(len(column), dtype=np.int64), use
    # Kernels are compiled for writable arrays.
    dtype = np.float64 if column.type.is_float else np.int64
    return np.require(column.values, dtype, ["C", "W"]), np.require(use, requirements=["C", "W"])


def column_of(of: Type, values: Values, known: Mask | None) -> Column:
    """Return the column of kernels' values."""
    if of.is_variable_width:
        empty = () if of.kind is Kind.ARRAY else "" if of.is_string else b""
        mask = np.ones(len(values), dtype=np.bool_) if known is None else known
        return Column.from_values(of, [empty if each else None for each in mask.tolist()])
    if known is not None and known.all():
        known = None
    return Column(of, values.astype(of.dtype, copy=False), known)


class Fixed:
    """Values of fixed width unchanged. Of others only the NULLs matter."""

    interned = 0

    def encode(self, column: Column) -> tuple[Values, Mask]:
        return values_of(column)

    def decode(self, of: Type, values: Values, known: Mask | None) -> Column:
        return column_of(of, values, known)


class ObjectCodes:
    """Texts and wide decimals, in windows that only move or count them.

    Equal values have equal codes. Codes have no order.
    """

    def __init__(self, of: Type) -> None:
        self._coder = KeyCoder([of])

    @property
    def interned(self) -> int:
        return self._coder.interned

    def encode(self, column: Column) -> tuple[Values, Mask]:
        codes = np.empty((len(column), 2), dtype=np.int64)
        self._coder.encode([column], codes)
        return np.ascontiguousarray(codes[:, 0]), codes[:, 1] == 0

    def decode(self, of: Type, values: Values, known: Mask | None) -> Column:
        if known is not None and not known.any():
            return Column.nulls(of, len(values))
        codes = np.zeros((len(values), 2), dtype=np.int64)
        codes[:, 0] = values if known is None else np.where(known, values, values[known.argmax()])
        if known is not None:
            codes[:, 1] = ~known
        (column,) = self._coder.decode(codes)
        return Column(of, column.values, column.valid)
