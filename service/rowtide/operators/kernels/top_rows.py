"""The first rows of a table, by partition: where a row comes in or goes, and what that changes.

The rows of a partition (group) lie in order in ``pool``, as numbers: ``lists`` has where they begin, how
many they are, and for how many there is room. ``orders`` has for each row what it is sorted by, ``idents``
which rows are equal.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from rowtide.operators.kernels.lean import lean

BEGIN, LENGTH, ROOM = 0, 1, 2
"""Where ``lists`` has what."""
DONE, WRITTEN, POOLED = 0, 1, 2
"""Where ``progress`` has what: changes and output rows done, and how much of the pool is in use."""
FIRST_ROOM = 4

Whole = int | np.int64
Int64s = NDArray[np.int64]
Int8s = NDArray[np.int8]
Mask = NDArray[np.bool_]


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
    progress: Int64s,
    causes: Int64s,
    out_opcodes: Int8s,
    places: Int64s,
    numbers: Int64s,
    alike: Mask,
) -> None:
    """Apply changes; write those of the rows from ``offset`` to before ``end`` (-1: all): cause, opcode, row.

    ``rows`` are the numbers of the changes' own rows. Where what came ``stays``, as no DELETE comes, rows
    from ``end`` on are forgotten, and there are no ``idents``: ``alike`` becomes True where a row goes and
    one comes that is sorted like it, which may be an equal one. ``numbered``: each place is told by itself,
    with its number. A call ends when all is done, the pool is full or there is no room for what the next
    change may write, and can be repeated with more.
    """
    change, written = progress[DONE], progress[WRITTEN]
    most = 2 * (end - offset) if numbered else 2
    while change < len(opcodes) and written + most <= len(causes):
        opcode, group, row = opcodes[change], groups[change], rows[change]
        begin, length = lists[group, BEGIN], lists[group, LENGTH]
        gone, comes = np.int64(-1), np.int64(-1)
        if opcode > 0:
            if length == lists[group, ROOM]:
                if progress[POOLED] + max(FIRST_ROOM, 2 * length) > len(pool):
                    break
                begin = _roomier(group, pool, lists, progress)
            at = _place(row, begin, length, pool, orders, True)
            if stays and 0 <= end <= at:
                change += 1
                continue
            for index in range(length, at, -1):
                pool[begin + index] = pool[begin + index - 1]
            pool[begin + at] = row
            length += 1
            lists[group, LENGTH] = length
            first = max(at, offset)
            if numbered:
                for place in range(first, min(length, end)):
                    gone = pool[begin + place + 1] if place + 1 < length else np.int64(-1)
                    written = _tell(
                        change,
                        gone,
                        pool[begin + place],
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
                gone = np.int64(-1)
            elif (end < 0 or at < end) and first < length:
                comes = pool[begin + first]
                if 0 <= end < length:
                    gone = pool[begin + end]
            if stays and 0 <= end < length:
                lists[group, LENGTH] = end
        elif opcode < 0 and not stays:
            at = _place(row, begin, length, pool, orders, False)
            while at < length and idents[pool[begin + at]] != idents[row]:
                at += 1
            if at < length:
                first = max(at, offset)
                if numbered:
                    for place in range(first, min(length, end)):
                        comes = pool[begin + place + 1] if place + 1 < length else np.int64(-1)
                        written = _tell(
                            change,
                            pool[begin + place],
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
                    comes = np.int64(-1)
                elif (end < 0 or at < end) and first < length:
                    gone = pool[begin + first]
                    if 0 <= end < length:
                        comes = pool[begin + end]
                for index in range(at, length - 1):
                    pool[begin + index] = pool[begin + index + 1]
                lists[group, LENGTH] = length - 1
        written = _tell(
            change,
            gone,
            comes,
            -1,
            idents,
            written,
            causes,
            out_opcodes,
            places,
            numbers,
            orders,
            alike,
        )
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
    """Write that a row goes and one comes (-1: none), unless they are equal; give how many are written."""
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
    """Tell how two rows stand to each other: below 0 if the first is sorted before the other."""
    for index in range(orders.shape[1]):
        if orders[one, index] != orders[other, index]:
            return -1 if orders[one, index] < orders[other, index] else 1
    return 0


@lean
def _place(row: Whole, begin: Whole, length: Whole, pool: Int64s, orders: Int64s, behind: bool) -> int:
    """Give the place of a row in a list: ``behind`` those that are sorted alike, or before them."""
    low, high = 0, int(length)
    while low < high:
        middle = (low + high) // 2
        found = _compared(pool[begin + middle], row, orders)
        if found < 0 or (behind and found == 0):
            low = middle + 1
        else:
            high = middle
    return low


@lean
def _roomier(group: Whole, pool: Int64s, lists: Int64s, progress: Int64s) -> np.int64:
    """Move a list to the end of the pool, with more room; give where it begins."""
    before, begin = lists[group, BEGIN], progress[POOLED]
    for index in range(lists[group, LENGTH]):
        pool[begin + index] = pool[before + index]
    lists[group, BEGIN] = begin
    lists[group, ROOM] = max(FIRST_ROOM, 2 * lists[group, LENGTH])
    progress[POOLED] += lists[group, ROOM]
    return begin


@lean
def pack(pool: Int64s, lists: Int64s, into: Int64s) -> int:
    """Move all lists into another pool, one behind the other, without room; give how much is in use."""
    used = 0
    for group in range(len(lists)):
        for index in range(lists[group, LENGTH]):
            into[used + index] = pool[lists[group, BEGIN] + index]
        lists[group, BEGIN], lists[group, ROOM] = used, lists[group, LENGTH]
        used += lists[group, LENGTH]
    return used
