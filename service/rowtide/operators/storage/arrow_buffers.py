"""Variable-width columns as offsets and bytes, for kernels, and back."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from rowtide.rows.arrays import Mask
from rowtide.rows.column import arrow_type
from rowtide.rows.types import Type

Offsets = NDArray[np.int32]
Content = NDArray[np.uint8]
Places = NDArray[np.int64]


def text_buffers(array: pa.Array) -> tuple[Offsets, Content]:
    """Return the offsets (n + 1) and bytes of an Arrow string or binary array, to be read only; no copy."""
    _, offsets, data = array.buffers()
    content = np.zeros(0, dtype=np.uint8) if data is None else np.frombuffer(data, dtype=np.uint8)
    if offsets is None:
        found = np.zeros(len(array) + 1, dtype=np.int32)
    else:
        found = np.frombuffer(offsets, dtype=np.int32)[array.offset : array.offset + len(array) + 1]
    # Some of Arrow's buffers may be written to and some not: kernels would be compiled for each.
    found.flags.writeable = content.flags.writeable = False
    return found, content


def text_array(kind: Type, offsets: Offsets, content: Content, valid: Mask | None) -> pa.Array:
    """Return the Arrow array of a column of ``kind`` that has these values, NULL where not valid."""
    nulls = None if valid is None else pa.py_buffer(np.packbits(valid, bitorder="little"))
    buffers = [nulls, pa.py_buffer(offsets), pa.py_buffer(content)]
    return pa.Array.from_buffers(arrow_type(kind), len(offsets) - 1, buffers)


def gather_texts(places: Places, starts: Places, pool: Content) -> tuple[Offsets, Content]:
    """Return the offsets and bytes of values of a pool, of which value i is between starts i and i + 1."""
    from rowtide.operators.storage.kernels import strings

    offsets = np.empty(len(places) + 1, dtype=np.int32)
    content = np.empty(strings.lay_out(places, starts, offsets) + strings.WIDE, dtype=np.uint8)
    strings.gather(places, starts, pool, offsets, content)
    return offsets, content
