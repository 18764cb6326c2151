"""Joining two streams within a window of rowtime.

The rows of a side have numbers in order of arrival, which is that of rowtime.
``chains`` has a row for each key (group): first and last row of the left side's
chain, first and last of the right one's; ``following`` leads along a chain, -1
at its end. ``base`` is the number of a side's first row in memory.

A place is (rowtime, left row, right row), -1 for a missing row: the order of
what comes out. Places that cannot leave yet wait in ``heap``, a binary heap.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

Int64s = NDArray[np.int64]
Mask = NDArray[np.bool_]

HIGHEST, LOWEST = 2**63 - 1, -(2**63)


@njit(cache=True, nogil=True)
def _distance(right: int, left: int) -> int:
    """Give right - left, kept within int64."""
    found = right - left
    if ((right ^ left) & (right ^ found)) < 0:
        return HIGHEST if right > left else LOWEST
    return found


@njit(cache=True, nogil=True)
def probe(
    port: int,
    times: Int64s,
    groups: Int64s,
    first: int,
    base: int,
    following: Int64s,
    other_times: Int64s,
    other_base: int,
    other_following: Int64s,
    chains: Int64s,
    low: int,
    high: int,
    progress: Int64s,
    out_left: Int64s,
    out_right: Int64s,
) -> int:
    """Write the pairs of new rows of ``port``, numbered from ``first``, with the other side's rows.

    A row whose pairs are all written is added to its own side's chain. What lies before a window lies
    before those of all later rows too, and leaves its chain. ``progress`` is the row and the place in
    the other chain where to go on (-2: at its beginning): a call ends when all rows are done or the
    room is full. Gives the number of pairs. A group of -1 has a NULL in its key: it meets nothing.
    """
    own, other = 2 * port, 2 * (1 - port)
    row, place = progress[0], progress[1]
    count = 0
    room = len(out_left)
    while row < len(times):
        group = groups[row]
        if group >= 0:
            time = times[row]
            if place == -2:
                place = chains[group, other]
                while place >= 0:
                    before = (
                        _distance(other_times[place - other_base], time) < low
                        if port == 0
                        else _distance(time, other_times[place - other_base]) > high
                    )
                    if not before:
                        break
                    place = other_following[place - other_base]
                chains[group, other] = place
            while place >= 0:
                inside = (
                    _distance(other_times[place - other_base], time) <= high
                    if port == 0
                    else _distance(time, other_times[place - other_base]) >= low
                )
                if not inside:
                    break
                if count == room:
                    progress[0], progress[1] = row, place
                    return count
                if port == 0:
                    out_left[count] = first + row
                    out_right[count] = place
                else:
                    out_left[count] = place
                    out_right[count] = first + row
                count += 1
                place = other_following[place - other_base]
            _enchain(first + row, group, base, following, chains, own)
        row += 1
        place = -2
    progress[0], progress[1] = row, place
    return count


@njit(cache=True, nogil=True)
def _enchain(number: int, group: int, base: int, following: Int64s, chains: Int64s, own: int) -> None:
    following[number - base] = -1
    if chains[group, own] < 0:
        chains[group, own] = number
    else:
        following[chains[group, own + 1] - base] = number
    chains[group, own + 1] = number


@njit(cache=True, nogil=True)
def enchain(
    port: int, first: int, stop: int, groups: Int64s, base: int, following: Int64s, chains: Int64s
) -> None:
    """Put rows that are there into chains, in order; ``groups`` is by place in memory."""
    for number in range(first, stop):
        group = groups[number - base]
        if group >= 0:
            _enchain(number, group, base, following, chains, 2 * port)


@njit(cache=True, nogil=True)
def close(
    port: int,
    first: int,
    stop: int,
    last_time: int,
    base: int,
    times: Int64s,
    groups: Int64s,
    following: Int64s,
    chains: Int64s,
) -> int:
    """Take the rows with rowtime <= ``last_time`` out of their chains; give the first that stays."""
    own = 2 * port
    number = first
    while number < stop and times[number - base] <= last_time:
        group = groups[number - base]
        if group >= 0 and chains[group, own] == number:
            chains[group, own] = following[number - base]
        number += 1
    return number


@njit(cache=True, nogil=True)
def mark(left: Int64s, right: Int64s, left_base: int, right_base: int, lefts: Mask, rights: Mask) -> None:
    """Note that these rows have met one of the other side."""
    for pair in range(len(left)):
        lefts[left[pair] - left_base] = True
        rights[right[pair] - right_base] = True


@njit(cache=True, nogil=True)
def first_unmatched(first: int, stop: int, base: int, matched: Mask) -> int:
    """Give the first row that has met none, ``stop`` if there is none."""
    number = first
    while number < stop and matched[number - base]:
        number += 1
    return number


@njit(cache=True, nogil=True)
def _before(places: Int64s, one: int, others: Int64s, other: int) -> bool:
    if places[one, 0] != others[other, 0]:
        return places[one, 0] < others[other, 0]
    if places[one, 1] != others[other, 1]:
        return places[one, 1] < others[other, 1]
    return places[one, 2] < others[other, 2]


@njit(cache=True, nogil=True)
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


@njit(cache=True, nogil=True)
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


@njit(cache=True, nogil=True)
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
    """Write the places before the frontier to ``out``, of what is found and of what waits; give how many.

    What is found and stays goes to the heap. ``opened`` is the first open row of each side;
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


@njit(cache=True, nogil=True)
def settled(first: int, opened: int, base: int, waiting: Int64s) -> int:
    """Give the first row that is open or waits: what is before it can be let go."""
    number = first
    while number < opened and waiting[number - base] == 0:
        number += 1
    return number
