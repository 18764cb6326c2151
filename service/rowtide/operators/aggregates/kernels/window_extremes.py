"""MIN and MAX of what is in the frames of an OVER, following the steps of ``kernels.frames``."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from rowtide.operators.aggregates.kernels.frames import ENTER, LEAVE
from rowtide.operators.storage.kernels.extremes import is_better
from rowtide.rows.arrays import Int32s, Int64s, Mask

Values = NDArray[Any]

LENGTH, FRONT, BACK = range(3)
"""State of a partition for MIN and MAX: the number of values that may still become the best, the
first and the last one."""


@njit(cache=True, nogil=True, error_model="numpy")
def extremes(
    groups: Int64s,
    first_row: int,
    end_row: int,
    steps: Int64s,
    until: Int64s,
    values: Values,
    use: Mask,
    held: Values,
    best: Int64s,
    before: Int32s,
    behind: Int32s,
    greatest: bool,
    found: Values,
    known: Mask,
) -> None:
    """Find the least or greatest value; ``before`` and ``behind`` link those that may still become the best.

    ``values`` and ``use`` are by step; ``held`` are the values of slots. Of equal ones (zeros have signs) the
    first is the result.
    """
    at = 0
    for row in range(first_row, end_row):
        group = groups[row]
        length, front, back = best[group, LENGTH], best[group, FRONT], best[group, BACK]
        while at < until[row]:
            slot, kind = steps[at] >> 2, steps[at] & 3
            if kind == LEAVE:
                if length and front == slot:
                    length -= 1
                    front = np.int64(behind[front])
            elif kind & ENTER and use[at]:
                value = values[at]
                held[slot] = value
                while length and is_better(value, held[back], greatest):
                    length -= 1
                    back = np.int64(before[back])
                if length:
                    behind[back] = slot
                    before[slot] = back
                else:
                    front = slot
                back = slot
                length += 1
            at += 1
        best[group, LENGTH], best[group, FRONT], best[group, BACK] = length, front, back
        known[row] = length > 0
        if length:
            found[row] = held[front]


@njit(cache=True, nogil=True, error_model="numpy")
def running_extremes(
    groups: Int64s,
    first_row: int,
    end_row: int,
    steps: Int64s,
    until: Int64s,
    values: Values,
    use: Mask,
    seen: Mask,
    best: Values,
    greatest: bool,
    found: Values,
    known: Mask,
) -> None:
    """Find the least or greatest value so far, of equal ones the first; ``seen``: a partition has had one."""
    at = 0
    for row in range(first_row, end_row):
        group = groups[row]
        while at < until[row]:
            value = values[at]
            if steps[at] & ENTER and use[at] and (not seen[group] or is_better(value, best[group], greatest)):
                best[group] = value
                seen[group] = True
            at += 1
        found[row], known[row] = best[group], seen[group]
