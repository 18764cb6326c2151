"""Sorts rows that are mostly sorted, and takes the values of rows by index."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from rowtide.rows.arrays import Int64s


@njit(cache=True, nogil=True, error_model="numpy")
def part(rowtime: Int64s, highest: int, ascending: Int64s, in_turn: Int64s, others: Int64s) -> int:
    """Part rows not earlier than ``highest`` or any row before them from the others, and count them.

    ``in_turn`` becomes the times of those that ascend.
    """
    count = 0
    for row in range(len(rowtime)):
        time = rowtime[row]
        if time >= highest:
            highest = time
            ascending[np.uint64(count)], in_turn[np.uint64(count)] = row, time
            count += 1
        else:
            others[np.uint64(row - count)] = row
    return count


@njit(cache=True, nogil=True, error_model="numpy")
def zip_in(
    times: Int64s,
    rows: Int64s,
    move: int,
    other_times: Int64s,
    other_places: Int64s,
    done: int,
    order: Int64s,
    rowtime: Int64s,
) -> int:
    """Put a sequence in order of time into one with others from ``done`` on that come before its end.

    Returns how many others are done then. Of one time those of ``times`` come first. The places in ``rows``,
    or 0, 1, 2 ... if it is empty, move by ``move``. ``order`` becomes the places of the rows and ``rowtime``
    their times.
    """
    written = np.uint64(0)
    other, end = np.uint64(done), np.uint64(len(other_times))
    for each in range(len(times)):
        time = times[each]
        while other < end and other_times[other] < time:
            order[written], rowtime[written] = other_places[other], other_times[other]
            other += np.uint64(1)
            written += np.uint64(1)
        order[written], rowtime[written] = (rows[each] if len(rows) else each) + move, time
        written += np.uint64(1)
    return int(other)


@njit(cache=True, nogil=True, error_model="numpy")
def take(values: NDArray[Any], places: Int64s, out: NDArray[Any]) -> None:
    """Take values by index. Works on whole numbers of any width."""
    for row in range(len(places)):
        out[row] = values[np.uint64(places[row])]
