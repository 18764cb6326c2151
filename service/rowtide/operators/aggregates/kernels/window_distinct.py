"""Distinct values of a frame: counts by partition and value, in an open-addressing hash table.

A place holds a partition, a value's code and its count; -1 instead of a partition: free. Places whose
count is 0 stay until the table is created again.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from rowtide.operators.aggregates.kernels.frames import ENTER, WRITE
from rowtide.rows.arrays import Int64s, Mask

SPREAD = np.uint64(0x9E3779B97F4A7C15)
"""Multiplication by this moves neighbours far apart."""


@njit(cache=True, nogil=True, error_model="numpy", forceinline=True)
def _hash(group: int, code: int) -> np.uint64:
    mixed = (np.uint64(code) ^ (np.uint64(group) * SPREAD)) * SPREAD
    return (mixed ^ (mixed >> np.uint64(32))) * SPREAD >> np.uint64(20)


@njit(cache=True, nogil=True, error_model="numpy")
def once(
    groups: Int64s,
    first_row: int,
    end_row: int,
    steps: Int64s,
    until: Int64s,
    codes: Int64s,
    use: Mask,
    table: Int64s,
    filled: Int64s,
    found: Mask,
) -> None:
    """Report of each step whether its value comes as the only one of its kind, or is the last that goes.

    The length of ``table`` is a power of two.
    """
    mask = np.uint64(len(table) - 1)
    at = 0
    for row in range(first_row, end_row):
        group = groups[row]
        while at < until[row]:
            found[at] = False
            kind = steps[at] & 3
            if use[at] and kind != WRITE:
                code = codes[at]
                place = _hash(group, code) & mask
                while table[place, 0] != -1 and (table[place, 0] != group or table[place, 1] != code):
                    place = (place + np.uint64(1)) & mask
                if table[place, 0] == -1:
                    table[place, 0], table[place, 1] = group, code
                    filled[0] += 1
                if kind & ENTER:
                    table[place, 2] += 1
                    found[at] = table[place, 2] == 1
                else:
                    table[place, 2] -= 1
                    found[at] = table[place, 2] == 0
            at += 1


@njit(cache=True, nogil=True, error_model="numpy")
def enter(live: Int64s, table: Int64s) -> None:
    """Put values, each of which is new, into a table."""
    mask = np.uint64(len(table) - 1)
    for row in range(len(live)):
        place = _hash(live[row, 0], live[row, 1]) & mask
        while table[place, 0] != -1:
            place = (place + np.uint64(1)) & mask
        table[place] = live[row]
