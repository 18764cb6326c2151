"""Functions in Python that property tests call."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa


class Untyped:
    """A value of no type of SQL, whose text is the same in every process."""

    def __repr__(self) -> str:
        return "<untyped>"


def last(*args: object) -> object:
    """Return the last argument, and for some arguments raise an exception or return no value of any type."""
    # Arrow has an array of a row as a list.
    size = len(repr(tuple(tuple(arg) if isinstance(arg, list) else arg for arg in args)))
    if size % 5 == 0:
        raise ValueError(f"{size} characters")
    if size % 7 == 0:
        return Untyped()
    return None if size % 11 == 0 else args[-1]


def last_of_arrays(*arrays: Any) -> Any:
    """Return ``last`` of each row of NumPy arrays, as an array of its own type if NULL is not among them."""
    found = [last(*row) for row in zip(*[array.tolist() for array in arrays], strict=True)]
    if {type(each) for each in found} in ({int}, {float}, {bool}):
        return np.array(found)
    values = np.empty(len(found), dtype=object)
    for at, each in enumerate(found):
        values[at] = each
    return np.ma.MaskedArray(values, mask=[each is None for each in found])


def last_of_arrow(*arrays: Any) -> Any:
    """Return ``last`` of each row of Arrow arrays."""
    return pa.array([last(*row) for row in zip(*[array.to_pylist() for array in arrays], strict=True)])
