"""Lists that grow in one pool (``operators.storage.pooled_lists``).

``lists`` has the start of each list in ``pool``, its length and its capacity. A list that needs more room
moves to the end of the used part, and leaves a gap until the pool is full and ``pack`` moves all.
"""

from __future__ import annotations

import numpy as np

from rowtide.operators.storage.kernels.lean import lean, lean_part
from rowtide.rows.arrays import Int64s

BEGIN, LENGTH, ROOM = range(3)
"""Indexes in ``lists``."""
DONE, POOLED = range(2)
"""Indexes in the ``progress`` of a kernel: the number of processed entries, and the used part of the pool."""
FIRST_ROOM = 4

Whole = int | np.int64


@lean_part
def make_room(of: Whole, pool: Int64s, lists: Int64s, progress: Int64s) -> bool:
    """Move a full list to the end of the used part; False: the pool is full."""
    length, before, begin = lists[of, LENGTH], lists[of, BEGIN], progress[POOLED]
    room = max(FIRST_ROOM, 2 * length)
    if begin + room > len(pool):
        return False
    for index in range(length):
        pool[begin + index] = pool[before + index]
    lists[of, BEGIN], lists[of, ROOM] = begin, room
    progress[POOLED] += room
    return True


@lean
def pack(pool: Int64s, lists: Int64s, into: Int64s) -> int:
    """Move all lists into another pool, one after the other, without gaps; return how much is in use."""
    used = 0
    for of in range(len(lists)):
        begin, length = lists[of, BEGIN], lists[of, LENGTH]
        for index in range(length):
            into[used + index] = pool[begin + index]
        lists[of, BEGIN], lists[of, ROOM] = used, length
        used += length
    return used
