"""The least value of each group, of values that are added and removed: two heaps for each group.

One has the added values, the other the removed ones. While the least of both are equal they are dropped. The
lists of group g (``kernels.pools``) have the numbers 2 g and 2 g + 1.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from rowtide.operators.aggregates.kernels.frames import ENTER
from rowtide.operators.storage.kernels.pools import BEGIN, DONE, LENGTH, ROOM, make_room
from rowtide.rows.arrays import Int64s, Mask

STALE_OVER = 64
"""Removed values are dropped once they are more than this, and more than half the others."""


@njit(cache=True, nogil=True)
def follow_least(
    groups: Int64s,
    steps: Int64s,
    codes: Int64s,
    used: Mask,
    pool: Int64s,
    lists: Int64s,
    progress: Int64s,
    found: Int64s,
    known: Mask,
) -> None:
    """Add and remove values; ``found`` becomes the least one after each entry, if any (``known``).

    A call ends when all is done or the pool is full, and can be repeated with a larger one.
    """
    entry = progress[DONE]
    while entry < len(groups):
        here = 2 * groups[entry]
        gone = here + 1
        if used[entry]:
            enters = steps[entry] & ENTER != 0
            length = lists[here, LENGTH]
            at_top = length > 0 and pool[lists[here, BEGIN]] == codes[entry]
            if enters or not at_top:
                to = here if enters else gone
                if lists[to, LENGTH] == lists[to, ROOM] and not make_room(to, pool, lists, progress):
                    break
                _push(to, codes[entry], pool, lists)
                if not enters and lists[gone, LENGTH] > max(STALE_OVER, lists[here, LENGTH] // 2):
                    _cancel(here, pool, lists)
            else:
                _pop(here, pool, lists)
                while lists[gone, LENGTH] and pool[lists[gone, BEGIN]] == pool[lists[here, BEGIN]]:
                    _pop(here, pool, lists)
                    _pop(gone, pool, lists)
        known[entry] = lists[here, LENGTH] > 0
        found[entry] = pool[lists[here, BEGIN]] if known[entry] else 0
        entry += 1
    progress[DONE] = entry


@njit(cache=True, nogil=True)
def _push(to: int, code: int, pool: Int64s, lists: Int64s) -> None:
    begin, at = lists[to, BEGIN], lists[to, LENGTH]
    while at > 0:
        above = (at - 1) // 2
        if pool[begin + above] <= code:
            break
        pool[begin + at] = pool[begin + above]
        at = above
    pool[begin + at] = code
    lists[to, LENGTH] += 1


@njit(cache=True, nogil=True)
def _pop(of: int, pool: Int64s, lists: Int64s) -> None:
    begin, length = lists[of, BEGIN], lists[of, LENGTH] - 1
    lists[of, LENGTH] = length
    code = pool[begin + length]
    at = 0
    while 2 * at + 1 < length:
        below = 2 * at + 1
        if below + 1 < length and pool[begin + below + 1] < pool[begin + below]:
            below += 1
        if code <= pool[begin + below]:
            break
        pool[begin + at] = pool[begin + below]
        at = below
    pool[begin + at] = code


@njit(cache=True, nogil=True)
def _cancel(here: int, pool: Int64s, lists: Int64s) -> None:
    """Drop a group's removed values. The rest is sorted, which is a heap, too."""
    begin, length = lists[here, BEGIN], lists[here, LENGTH]
    gone, leaving = lists[here + 1, BEGIN], lists[here + 1, LENGTH]
    values = np.sort(pool[begin : begin + length])
    others = np.sort(pool[gone : gone + leaving])
    kept, other = 0, 0
    for index in range(length):
        if other < leaving and others[other] == values[index]:
            other += 1
        else:
            pool[begin + kept] = values[index]
            kept += 1
    lists[here, LENGTH] = kept
    lists[here + 1, LENGTH] = 0


@njit(cache=True, nogil=True)
def cancel_all(pool: Int64s, lists: Int64s) -> None:
    """Drop all removed values, and sort the others."""
    for group in range(len(lists) // 2):
        _cancel(2 * group, pool, lists)
