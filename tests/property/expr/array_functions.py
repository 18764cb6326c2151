"""A function of one number in the forms of functions of arrays, for a property test."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa

REFUSED = 13
CURRENT: list[Any] = []
"""The function of a number that the functions below apply."""


def one(number: int | None) -> Any:
    if number == REFUSED:
        raise ValueError("refused")
    return None if number is None or number % 7 == 3 else CURRENT[0](number)


def of_numpy(numbers: Any) -> Any:
    found = [one(number) for number in numbers.tolist()]
    numbers[:] = 0  # what a function does to its arguments does not matter
    if all(each is not None and not isinstance(each, str | bytes | Decimal) for each in found):
        return np.array(found)
    values = np.empty(len(found), dtype=object)
    values[:] = found
    return np.ma.MaskedArray(values, mask=[each is None for each in found])


def of_arrow(numbers: Any) -> Any:
    return pa.array([one(number) for number in numbers.to_pylist()])
