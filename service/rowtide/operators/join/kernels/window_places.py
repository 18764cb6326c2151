"""The found pairs of a windowed join: recorded, and emitted in order.

A place is (rowtime, left row, right row), -1 for a missing row: the order of
what comes out. Places that cannot leave yet wait in ``heap``, a binary heap.
``base`` is the number of a side's first row in memory.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from rowtide.operators.storage.kernels.lean import lean, lean_part
from rowtide.rows.arrays import Int64s, Mask


@lean
def mark(places: Int64s, left_base: int, right_base: int, lefts: Mask, rights: Mask) -> None:
    """Note that the rows of these pairs have met one of the other side."""
    for pair in range(len(places)):
        lefts[places[pair, 1] - left_base] = True
        rights[places[pair, 2] - right_base] = True


@lean
def first_unmatched(first: int, stop: int, base: int, matched: Mask) -> int:
    """Return the first row that has met none, ``stop`` if there is none."""
    number = first
    while number < stop and matched[number - base]:
        number += 1
    return number


@lean_part
def _before(places: Int64s, one: int, others: Int64s, other: int) -> bool:
    if places[one, 0] != others[other, 0]:
        return places[one, 0] < others[other, 0]
    if places[one, 1] != others[other, 1]:
        return places[one, 1] < others[other, 1]
    return places[one, 2] < others[other, 2]


@lean
def are_before(places: Int64s, frontier: Int64s) -> bool:
    """Return whether all places are before the frontier."""
    each = 0
    while each < len(places) and _before(places, each, frontier, 0):
        each += 1
    return each == len(places)


@lean
def _push(heap: Int64s, size: int, places: Int64s, which: int) -> None:
    """Add a place to a heap of ``size``, which has room."""
    at = size
    while at > 0:
        above = (at - 1) >> 1
        if not _before(places, which, heap, above):
            break
        for index in range(3):
            heap[at, index] = heap[above, index]
        at = above
    for index in range(3):
        heap[at, index] = places[which, index]


@lean
def _pop(heap: Int64s, size: int) -> None:
    """Take the first place away."""
    last = size - 1
    at = 0
    while True:
        below = 2 * at + 1
        if below >= last:
            break
        if below + 1 < last and _before(heap, below + 1, heap, below):
            below += 1
        if not _before(heap, below, heap, last):
            break
        for index in range(3):
            heap[at, index] = heap[below, index]
        at = below
    for index in range(3):
        heap[at, index] = heap[last, index]


@lean
def sift(
    found: Int64s,
    frontier: Int64s,
    heap: Int64s,
    size: int,
    opened: Int64s,
    bases: Int64s,
    left_waiting: Int64s,
    right_waiting: Int64s,
    closed_waiting: Int64s,
    out: Int64s,
) -> int:
    """Write the found and waiting places before the frontier to ``out``; return their number.

    Found places that stay go to the heap. ``opened`` is the first open row of each side;
    ``*_waiting`` counts the waiting places of each row, ``closed_waiting[0]`` the closed rows that have
    any. The heap's new size is in ``closed_waiting[1]``.
    """
    count = 0
    for each in range(len(found)):
        if _before(found, each, frontier, 0):
            for index in range(3):
                out[count, index] = found[each, index]
            count += 1
        else:
            _push(heap, size, found, each)
            size += 1
            left, right = found[each, 1], found[each, 2]
            if left >= 0:
                if left < opened[0] and left_waiting[left - bases[0]] == 0:
                    closed_waiting[0] += 1
                left_waiting[left - bases[0]] += 1
            if right >= 0:
                if right < opened[1] and right_waiting[right - bases[1]] == 0:
                    closed_waiting[0] += 1
                right_waiting[right - bases[1]] += 1
    while size > 0 and _before(heap, 0, frontier, 0):
        left, right = heap[0, 1], heap[0, 2]
        for index in range(3):
            out[count, index] = heap[0, index]
        count += 1
        _pop(heap, size)
        size -= 1
        if left >= 0:
            left_waiting[left - bases[0]] -= 1
            if left < opened[0] and left_waiting[left - bases[0]] == 0:
                closed_waiting[0] -= 1
        if right >= 0:
            right_waiting[right - bases[1]] -= 1
            if right < opened[1] and right_waiting[right - bases[1]] == 0:
                closed_waiting[0] -= 1
    closed_waiting[1] = size
    return count


@njit(cache=True, nogil=True)
def in_order(places: Int64s, count: int, patience: int) -> bool:
    """Put the first places in order by moving each to the front; False if that takes too many moves."""
    moved = 0
    hand = np.empty((1, 3), dtype=np.int64)
    for each in range(1, count):
        if not _before(places, each, places, each - 1):
            continue
        for index in range(3):
            hand[0, index] = places[each, index]
        at = each
        while at > 0 and _before(hand, 0, places, at - 1):
            for index in range(3):
                places[at, index] = places[at - 1, index]
            at -= 1
            moved += 1
        for index in range(3):
            places[at, index] = hand[0, index]
        if moved > patience:
            return False
    return True


@lean
def apart(places: Int64s, times: Int64s, lefts: Int64s, rights: Int64s) -> None:
    """Write the three parts of places to separate arrays."""
    for each in range(len(places)):
        times[each], lefts[each], rights[each] = places[each, 0], places[each, 1], places[each, 2]


@lean
def settled(first: int, opened: int, base: int, waiting: Int64s) -> int:
    """Return the first row that is open or waits. Earlier rows can be dropped."""
    number = first
    while number < opened and waiting[number - base] == 0:
        number += 1
    return number
