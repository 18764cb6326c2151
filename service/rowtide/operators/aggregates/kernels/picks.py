"""Values at places in the frames of an OVER, and ranks, following the steps of ``kernels.frames``."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from rowtide.operators.aggregates.kernels.frames import ENTER, LEAVE, WRITE
from rowtide.rows.arrays import Int32s, Int64s, Mask

Values = NDArray[Any]


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
    """Write the value at one end of each row's frame, 0 where that is empty."""
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
        # A row ahead of its frame may have the slot of one that has just left the frame.
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


@njit(cache=True, nogil=True, error_model="numpy")
def nths(
    groups: Int64s,
    first_row: int,
    end_row: int,
    steps: Int64s,
    until: Int64s,
    values: Values,
    use: Mask,
    ignore: bool,
    number: int,
    from_end: bool,
    places: Int64s,
    behind: Int32s,
    held: Values,
    held_use: Mask,
    found: Values,
    known: Mask,
    there: Mask,
) -> None:
    """Write the value ``number`` places from an end of each row's frame; ``ignore``: of those that are used.

    A partition's ``places`` are the number of values, the slots of the first and the last one, and
    that of the result. ``values`` and ``use`` are by step, ``held`` and ``held_use`` by slot;
    ``behind`` links the values that count. ``there`` is True if the frame has that number of values.
    """
    at = 0
    for row in range(first_row, end_row):
        group = groups[row]
        count, front, back, place = places[group, 0], places[group, 1], places[group, 2], places[group, 3]
        while at < until[row]:
            slot, kind = steps[at] >> 2, steps[at] & 3
            if kind != WRITE and (use[at] or not ignore):
                if kind == LEAVE:
                    if count > number and not from_end:
                        place = np.int64(behind[place])
                    front = np.int64(behind[front])
                    count -= 1
                else:
                    held[slot], held_use[slot] = values[at], use[at]
                    if count:
                        behind[back] = slot
                    else:
                        front = slot
                    back = slot
                    count += 1
                    if count == number:
                        place = front if from_end else slot
                    elif count > number and from_end:
                        place = np.int64(behind[place])
            at += 1
        places[group, 0], places[group, 1], places[group, 2], places[group, 3] = count, front, back, place
        there[row] = count >= number
        known[row] = there[row] and held_use[place]
        found[row] = held[place] if there[row] else 0


@njit(cache=True, nogil=True, error_model="numpy")
def running_nths(
    groups: Int64s,
    first_row: int,
    end_row: int,
    steps: Int64s,
    until: Int64s,
    values: Values,
    use: Mask,
    ignore: bool,
    from_end: bool,
    counts: Int64s,
    held: Values,
    held_use: Mask,
    found: Values,
    known: Mask,
    there: Mask,
) -> None:
    """Do the same as ``nths`` if nothing leaves: partitions keep as many values as ``held`` is wide.

    Those from the end are kept in turn.
    """
    number = held.shape[1]
    at = 0
    for row in range(first_row, end_row):
        group = groups[row]
        count = counts[group]
        while at < until[row]:
            if steps[at] & ENTER and (use[at] or not ignore):
                if from_end or count < number:
                    held[group, count % number] = values[at]
                    held_use[group, count % number] = use[at]
                count += 1
            at += 1
        counts[group] = count
        place = count % number if from_end else number - 1
        there[row] = count >= number
        known[row] = there[row] and held_use[group, place]
        found[row] = held[group, place] if there[row] else 0
