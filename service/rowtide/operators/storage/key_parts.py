"""Splitting rows by key: equal keys have equal parts, in every process and at every port of an operator."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from rowtide.operators.storage.arrow_buffers import text_buffers
from rowtide.rows.column import Column

_MIX = np.uint64(0x9E3779B97F4A7C15)
_HALF = np.uint64(32)
_FIRST = np.uint64(0xD1B54A32D192ED03)
"""Any odd number that sends TRUE and FALSE apart where there are few parts."""
_NULL = np.uint64(0xD6E8FEB86659FD93)


def parts_of(key: Sequence[Column], parts: int) -> NDArray[np.int64]:
    """Return for each row the part that it belongs to, from 0 on.

    Keys are equal as for ``KeyCoder``: NULL is a separate value, both zeros of floating point are
    one. Columns at one place must be of one kind if their parts must agree.
    """
    mixed = np.full(len(key[0]), _FIRST, dtype=np.uint64)
    for column in key:
        mixed = (mixed ^ _bits(column)) * _MIX
        mixed ^= mixed >> _HALF
    # After the multiplication, high bits depend on all bits of the value; low ones only on low ones.
    return (((mixed * _MIX) >> _HALF) % np.uint64(parts)).astype(np.int64)


def _bits(column: Column) -> NDArray[np.uint64]:
    if column.type.is_variable_width:
        from rowtide.operators.storage.kernels import strings

        bits = np.empty(len(column), dtype=np.uint64)
        strings.hash_all(*text_buffers(column.values), bits)
    elif column.values.dtype == object:
        bits = np.array([hash(value) for value in column.values], dtype=np.int64).view(np.uint64)
    elif column.type.is_float:
        values = column.values.astype(np.float64) + 0.0
        bits = np.where(np.isnan(values), np.nan, values).view(np.uint64)
    else:
        bits = column.values.astype(np.int64).view(np.uint64)
    return bits if column.valid is None else np.where(column.valid, bits, _NULL)
