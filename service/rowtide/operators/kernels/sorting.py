"""The t-sort: judging rows that are mostly in time, and putting rows in order that mostly are."""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

Int64s = NDArray[np.int64]


@njit(cache=True, nogil=True, error_model="numpy")
def judge(rowtime: Int64s, highest: int, earliest: int, within: int, explicit: int) -> int:
    """Give the highest rowtime after these rows, or ``earliest`` if one of them is late."""
    least = max(max(highest, earliest + within) - within, explicit)
    for row in range(len(rowtime)):
        now = rowtime[row]
        if now < least:
            return earliest
        if now > highest:
            highest = now
            least = max(max(highest, earliest + within) - within, explicit)
    return highest


@njit(cache=True, nogil=True, error_model="numpy")
def split(rowtime: Int64s, ascending: Int64s, others: Int64s) -> int:
    """Part rows into those not earlier than any row before them, and others; count the former."""
    count = 0
    highest = rowtime[0]
    for row in range(len(rowtime)):
        if rowtime[row] >= highest:
            highest = rowtime[row]
            ascending[count] = row
            count += 1
        else:
            others[row - count] = row
    return count


@njit(cache=True, nogil=True, error_model="numpy")
def zip_together(rowtime: Int64s, ascending: Int64s, others: Int64s, order: Int64s) -> None:
    """Put two parts, each in order of time, into one; of one rowtime, the rows in order of their numbers."""
    first = second = 0
    for place in range(len(order)):
        if second == len(others):
            takes_first = True
        elif first == len(ascending):
            takes_first = False
        else:
            one, other = rowtime[ascending[first]], rowtime[others[second]]
            takes_first = one < other or (one == other and ascending[first] < others[second])
        if takes_first:
            order[place] = ascending[first]
            first += 1
        else:
            order[place] = others[second]
            second += 1
