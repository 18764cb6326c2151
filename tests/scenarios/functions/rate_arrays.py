"""Functions of arrays for the scenarios beside it."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc


def halves(numbers: npt.NDArray[np.int32]) -> npt.NDArray[np.int32]:
    """Return half of each number; all must be even."""
    if np.any(numbers % 2):
        raise ValueError("an odd number")
    return numbers // 2


def first_word(texts: pa.StringArray, other: pa.StringArray) -> pa.Array:
    """Return what is before the first blank, and the other text for NULL."""
    return pc.coalesce(pc.struct_field(pc.extract_regex(texts, "^(?P<first>[^ ]*)"), "first"), other)


def filled(numbers: np.ma.MaskedArray[Any, Any]) -> npt.NDArray[np.float64]:
    """Return half of each number, and -1 for NULL."""
    return np.where(np.ma.getmaskarray(numbers), -1, numbers.data / 2)


def average(numbers: np.ma.MaskedArray[Any, Any]) -> float:
    """Return one value for all rows, which is not the form of a function of arrays."""
    return float(np.mean(numbers.filled(0)))
