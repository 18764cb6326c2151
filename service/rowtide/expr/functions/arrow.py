"""Conversions between Arrow and NumPy arrays, without a copy where possible."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from rowtide.expr.functions.function import CallSignature
from rowtide.rows.arrays import Mask
from rowtide.rows.column import arrow_values


def flags(array: Any) -> Mask:
    """Return an Arrow array of booleans as a mask; values of NULLs are undefined."""
    count = len(array)
    if not count:
        return np.zeros(0, dtype=np.bool_)
    bits = np.frombuffer(array.buffers()[1], dtype=np.uint8)
    offset = array.offset
    return np.unpackbits(bits, count=offset + count, bitorder="little")[offset:].view(np.bool_)


def numbers(array: Any, dtype: str) -> Any:
    """Return an Arrow array of fixed width as NumPy array; values of NULLs are undefined."""
    count = len(array)
    if not count:
        return np.zeros(0, dtype=dtype)
    return np.frombuffer(array.buffers()[1], dtype=dtype)[array.offset : array.offset + count]


def value_bytes(array: Any) -> Any:
    """Return the bytes of all values of an Arrow array of text or binary, after one another."""
    count = len(array)
    offsets_buffer, bytes_buffer = array.buffers()[1:]
    if not count or bytes_buffer is None:
        return np.zeros(0, dtype=np.uint8)
    offsets = np.frombuffer(offsets_buffer, dtype=np.int32)
    start, stop = offsets[array.offset], offsets[array.offset + count]
    return np.frombuffer(bytes_buffer, dtype=np.uint8)[start:stop]


def common_length(array: Any) -> int | None:
    """Return the bytes that each value of an Arrow array has; None if they differ or one is NULL."""
    if array.null_count or not len(array):
        return None
    offsets = np.frombuffer(array.buffers()[1], dtype=np.int32)[array.offset : array.offset + len(array) + 1]
    lengths = np.diff(offsets)
    return int(lengths[0]) if (lengths == lengths[0]).all() else None


def gather_fixed(array: Any, length: int, indices: Any) -> Any:
    """Return the values at ``indices`` of an array whose values all have ``length`` bytes, not zero."""
    values = value_bytes(array).view(f"V{length}" if length > 1 else np.uint8).take(indices)
    offsets = np.arange(0, (len(indices) + 1) * length, length, dtype=np.int32)
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(values)]
    return pa.Array.from_buffers(array.type, len(indices), buffers)


def chosen_byte(choice: Mask, first: Any, second: Any) -> Any:
    """Return the one value of ``first`` or of ``second`` for each row; None if they are not one byte each."""
    byte, other = (value_bytes(array) for array in (first, second))
    if first.null_count or second.null_count or len(byte) != 1 or len(other) != 1:
        return None
    offsets = np.arange(len(choice) + 1, dtype=np.int32)
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(np.where(choice, byte, other))]
    return pa.Array.from_buffers(first.type, len(choice), buffers)


def is_ascii(array: Any) -> bool:
    """Return whether every value of an Arrow array of text is ASCII."""
    held = value_bytes(array)
    return not len(held) or int(held.max()) < 128


def scalar(signature: CallSignature, index: int) -> Any:
    """Return the Arrow scalar of an argument that is constant, None if it is not."""
    value = signature.constants[index]
    return None if value is None else arrow_values(signature.args[index], [value])[0]


def operand(signature: CallSignature, index: int, values: Any) -> Any:
    """Return an argument of an Arrow function: its constant as a scalar, or the array itself."""
    constant = scalar(signature, index)
    return values if constant is None else constant
