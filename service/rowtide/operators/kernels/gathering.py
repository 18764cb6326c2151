"""Putting rows in order that mostly are, and taking the values of rows by their places."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

Int64s = NDArray[np.int64]


@njit(cache=True, nogil=True, error_model="numpy")
def part(rowtime: Int64s, highest: int, ascending: Int64s, others: Int64s) -> int:
    """Part rows not earlier than ``highest`` or any row before them from the others, and count them."""
    count = 0
    for row in range(len(rowtime)):
        if rowtime[row] >= highest:
            highest = rowtime[row]
            ascending[np.uint64(count)] = row
            count += 1
        else:
            others[np.uint64(row - count)] = row
    return count


@njit(cache=True, nogil=True, error_model="numpy")
def zip_together(
    times: Int64s, places: Int64s, other_times: Int64s, other_places: Int64s, order: Int64s, rowtime: Int64s
) -> None:
    """Put two sequences, each in order of time, into one; of one time those of the first one come first.

    ``order`` becomes the places of the rows and ``rowtime`` their times.
    """
    first = place = np.uint64(0)
    end = np.uint64(len(times))
    for other in range(len(other_times)):
        time = other_times[other]
        while first < end and times[first] <= time:
            order[place], rowtime[place] = places[first], times[first]
            first += np.uint64(1)
            place += np.uint64(1)
        order[place], rowtime[place] = other_places[other], time
        place += np.uint64(1)
    while first < end:
        order[place], rowtime[place] = places[first], times[first]
        first += np.uint64(1)
        place += np.uint64(1)


@njit(cache=True, nogil=True, error_model="numpy")
def take(values: NDArray[Any], places: Int64s, out: NDArray[Any]) -> None:
    """Take values by their places; works on whole numbers of any width."""
    for row in range(len(places)):
        out[row] = values[np.uint64(places[row])]
