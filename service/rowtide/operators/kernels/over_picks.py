"""Values at places in the frames of an OVER, and ranks, following the steps of ``kernels.over``."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from rowtide.operators.kernels.over import ENTER, WRITE

Int64s = NDArray[np.int64]
Values = NDArray[Any]
Mask = NDArray[np.bool_]


@njit(cache=True, nogil=True, error_model="numpy")
def picks(
    first_row: int,
    end_row: int,
    steps: Int64s,
    until: Int64s,
    ends: Int64s,
    given: Values,
    use: Mask,
    held: Values,
    held_use: Mask,
    found: Values,
    known: Mask,
) -> None:
    """Give the value at one end of each row's frame, 0 where that is empty."""
    at = 0
    for row in range(first_row, end_row):
        slot = -1
        while at < until[row]:
            if steps[at] & WRITE:
                slot = steps[at] >> 2
                if steps[at] & ENTER:
                    held[slot], held_use[slot] = given[row], use[row]
            at += 1
        end = ends[row]
        found[row] = held[end] if end >= 0 else 0
        known[row] = end >= 0 and held_use[end]
        # A row ahead of its own frame may have the slot of one that has just left it.
        if slot >= 0:
            held[slot], held_use[slot] = given[row], use[row]


@njit(cache=True, nogil=True, error_model="numpy")
def ranks(
    groups: Int64s, order: Int64s, rows: Int64s, rank: Int64s, last: Int64s, dense: bool, found: Int64s
) -> None:
    """Rank rows by what the window is ordered by."""
    for row in range(len(groups)):
        group = groups[row]
        rows[group] += 1
        if rows[group] == 1 or order[row] != last[group]:
            rank[group] = rank[group] + 1 if dense else rows[group]
            last[group] = order[row]
        found[row] = rank[group]
