"""What a function declares."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rowtide.errors import StatementError
from rowtide.rows.column import Column, Mask
from rowtide.rows.types import Type

Values = Any
"""The values of a column as ``Column.values`` holds them."""

Columnar = Callable[[Sequence[Column], Type], "tuple[Values, Mask | None] | None"]
"""Computes the values of all rows at once, and tells for which rows it failed; what it gives where
an argument is NULL or the row failed means nothing. None: no fast way for these types."""


@dataclass(frozen=True, slots=True)
class Function:
    """One scalar function; NULL if any argument is NULL, unless ``lazy``.

    ``row`` computes one row from values in row form, none of them NULL, and raises
    RejectedRowError; it decides what the function is. ``columnar`` is a faster way to the same.
    A ``lazy`` function looks at its arguments itself (``expr.rowwise``, ``expr.columnar``).
    """

    name: str
    resolve: Callable[[tuple[Type, ...]], Type]
    row: Callable[[Sequence[Any], tuple[Type, ...], Type], object]
    columnar: Columnar | None = None
    lazy: bool = False


def mismatch(name: str, types: Sequence[Type], wanted: str = "") -> StatementError:
    """Make the error for arguments that a function does not take."""
    shown = ", ".join(map(str, types)) or "no arguments"
    return StatementError(f"{name} does not take {shown}", hint=wanted or None)


def as_float(column: Column) -> NDArray[np.float64]:
    """Give a numeric column that has no wide decimals as doubles."""
    values = np.asarray(column.values, dtype=np.float64)
    if column.type.scale:
        return values / 10.0**column.type.scale
    return values
