"""The form that values have in kernels: whole numbers or doubles, and codes of what is a Python object."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from rowtide.operators.storage.keys import KeyCoder
from rowtide.rows.arrays import Mask
from rowtide.rows.column import Column
from rowtide.rows.types import Type

Values = NDArray[Any]


class KernelForm(Protocol):
    """How values of one type are given to kernels, and what those give is a column again."""

    @property
    def interned(self) -> int:
        """How many values are remembered."""

    def encode(self, column: Column) -> tuple[Values, Mask]:
        """Return values, and which are no NULLs."""

    def decode(self, of: Type, values: Values, known: Mask | None) -> Column:
        """Return a column, NULL where a value is not known."""


def values_of(column: Column) -> tuple[Values, Mask]:
    """Return what kernels make of a column; of one of variable width only what is NULL matters."""
    use = column.valid_mask()
    if column.type.dtype == object:
        return np.zeros(len(column), dtype=np.int64), use
    # Kernels are compiled for arrays that can be written.
    dtype = np.float64 if column.type.is_float else np.int64
    return np.require(column.values, dtype, ["C", "W"]), np.require(use, requirements=["C", "W"])


def column_of(of: Type, values: Values, known: Mask | None) -> Column:
    """Return the column that kernels' values make."""
    if of.is_variable_width:
        empty = "" if of.is_text else b""
        mask = np.ones(len(values), dtype=np.bool_) if known is None else known
        return Column.from_values(of, [empty if each else None for each in mask.tolist()])
    if known is not None and known.all():
        known = None
    return Column(of, values.astype(of.dtype, copy=False), known)


class Fixed:
    """Values of fixed width as they are; of others only what is NULL matters."""

    interned = 0

    def encode(self, column: Column) -> tuple[Values, Mask]:
        return values_of(column)

    def decode(self, of: Type, values: Values, known: Mask | None) -> Column:
        return column_of(of, values, known)


class ObjectCodes:
    """Texts and wide decimals, which windows that only move or count them need not look into.

    Equal values have equal codes; codes say nothing about order.
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
