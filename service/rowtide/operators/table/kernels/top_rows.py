"""The first rows of a table, by partition: adds and removes rows, and writes the changes.

The rows of a partition (group) are a list in order (``kernels.pools``), as numbers. ``orders`` has for each
row what it is sorted by, ``idents`` which rows are equal.
"""

from __future__ import annotations

import numpy as np

from rowtide.operators.storage.kernels.lean import lean
from rowtide.operators.storage.kernels.pools import BEGIN, DONE, LENGTH, ROOM, Whole, make_room
from rowtide.rows.arrays import Int8s, Int64s, Mask

WRITTEN = 2
"""Index of the number of output rows in ``progress``."""


@lean
def change_top(
    opcodes: Int8s,
    groups: Int64s,
    rows: Int64s,
    orders: Int64s,
    idents: Int64s,
    pool: Int64s,
    lists: Int64s,
    offset: int,
    end: int,
    stays: bool,
    numbered: bool,
    newest_first: bool,
    progress: Int64s,
    causes: Int64s,
    out_opcodes: Int8s,
    places: Int64s,
    numbers: Int64s,
    alike: Mask,
) -> None:
    """Apply changes; write those of the rows from ``offset`` to before ``end`` (-1: all): cause, opcode, row.

    ``rows`` are the numbers of the changes' own rows. If rows ``stays``, because no DELETE arrives,
    rows from ``end`` on are dropped, and ``idents`` is empty: ``alike`` becomes True where a row goes
    and one comes that is sorted like it, which may be an equal one. ``numbered``: each place is
    emitted by itself, with its number. ``newest_first``: a row comes before those sorted like it. A call ends
    when all is done, the pool is full or the next change may not fit, and can be repeated with more room.
    """
    change, written = progress[DONE], progress[WRITTEN]
    most = 2 * (end - offset) if numbered else 2
    while change < len(opcodes) and written + most <= len(causes):
        group, row, comes_in = groups[change], rows[change], opcodes[change] > 0
        length = lists[group, LENGTH]
        begin, at = lists[group, BEGIN], length
        if comes_in:
            if length == lists[group, ROOM]:
                if not make_room(group, pool, lists, progress):
                    break
                begin = lists[group, BEGIN]
            at = _place(row, begin, length, pool, orders, not newest_first)
            if stays and 0 <= end <= at:
                change += 1
                continue
            for index in range(length, at, -1):
                pool[begin + index] = pool[begin + index - 1]
            pool[begin + at] = row
            length += 1
        elif opcodes[change] < 0 and not stays:
            at = _place(row, begin, length, pool, orders, False)
            while at < length and idents[pool[begin + at]] != idents[row]:
                at += 1
        # The list has the inserted row, or still has the deleted one. The row ``behind`` a place is
        # the one that the insert pushes out or the delete moves up.
        stop = length if end < 0 else min(length, end)
        first = max(at, offset)
        for place in range(first, stop if numbered else min(stop, first + 1)):
            behind = place + 1 if numbered else end
            here, other = pool[begin + place], np.int64(-1)
            if 0 <= behind < length:
                other = pool[begin + behind]
            gone, comes = (other, here) if comes_in else (here, other)
            written = _tell(
                change,
                gone,
                comes,
                place,
                idents,
                written,
                causes,
                out_opcodes,
                places,
                numbers,
                orders,
                alike,
            )
        if not comes_in and at < length:
            length -= 1
            for index in range(at, length):
                pool[begin + index] = pool[begin + index + 1]
        lists[group, LENGTH] = min(length, end) if stays and end >= 0 else length
        change += 1
    progress[DONE], progress[WRITTEN] = change, written


@lean
def _tell(
    change: Whole,
    gone: Whole,
    comes: Whole,
    place: Whole,
    idents: Int64s,
    written: Whole,
    causes: Int64s,
    out_opcodes: Int8s,
    places: Int64s,
    numbers: Int64s,
    orders: Int64s,
    alike: Mask,
) -> int:
    """Write a DELETE and an INSERT (-1: none), unless the rows are equal; return the number written."""
    both = gone >= 0 and comes >= 0
    if both and len(idents) and idents[gone] == idents[comes]:
        return int(written)
    if gone >= 0:
        alike[written] = both and not len(idents) and _compared(gone, comes, orders) == 0
        causes[written], out_opcodes[written], places[written] = change, -1, gone
        numbers[written] = place + 1
        written += 1
    if comes >= 0:
        alike[written] = False
        causes[written], out_opcodes[written], places[written] = change, 1, comes
        numbers[written] = place + 1
        written += 1
    return int(written)


@lean
def _compared(one: Whole, other: Whole, orders: Int64s) -> int:
    """Compare two rows: below 0 if the first is sorted before the other."""
    for index in range(orders.shape[1]):
        if orders[one, index] != orders[other, index]:
            return -1 if orders[one, index] < orders[other, index] else 1
    return 0


@lean
def _place(row: Whole, begin: Whole, length: Whole, pool: Int64s, orders: Int64s, behind: bool) -> int:
    """Return the place of a row in a list: after equally sorted rows if ``behind``, else before them."""
    low, high = 0, int(length)
    while low < high:
        middle = (low + high) // 2
        found = _compared(pool[begin + middle], row, orders)
        if found < 0 or (behind and found == 0):
            low = middle + 1
        else:
            high = middle
    return low
