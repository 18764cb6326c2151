"""The k-way merge by consistent time."""

from __future__ import annotations

from numba import njit

from rowtide.operators.storage.kernels.lean import lean, lean_part
from rowtide.rows.arrays import Int64s


@lean_part
def _before(rowtime: int, rank: int, counter: int, limit: Int64s) -> bool:
    """Return whether a row's place in consistent time comes before ``limit``."""
    if rowtime != limit[0]:
        return rowtime < limit[0]
    if rank != limit[1]:
        return rank < limit[1]
    return counter < limit[2]


@lean
def releasable(rowtime: Int64s, rank: Int64s, counter: Int64s, limit: Int64s) -> int:
    """Count the leading rows of one source that come before ``limit``; the rows are in order."""
    low, high = 0, len(rowtime)
    while low < high:
        middle = (low + high) // 2
        if _before(rowtime[middle], rank[middle], counter[middle], limit):
            low = middle + 1
        else:
            high = middle
    return low


@lean_part
def _sooner(rowtime: Int64s, rank: Int64s, counter: Int64s, row: int, other: int) -> bool:
    """Return whether ``row`` comes strictly before ``other``, whatever their sources."""
    if rowtime[row] != rowtime[other]:
        return rowtime[row] < rowtime[other]
    if rank[row] != rank[other]:
        return rank[row] < rank[other]
    return counter[row] < counter[other]


@njit(cache=True, nogil=True)
def merge_order(rowtime: Int64s, rank: Int64s, counter: Int64s, starts: Int64s, order: Int64s) -> None:
    """Write the indexes of all rows in merged order into ``order``.

    Source s has the rows from ``starts[s]`` to ``starts[s + 1]``, in order. Equal places keep the
    order of the sources. A run of one source is copied without comparing the other sources again.
    """
    sources = len(starts) - 1
    heads = starts[:-1].copy()
    written = 0
    while written < len(order):
        best = -1
        second = -1
        for source in range(sources):
            if heads[source] == starts[source + 1]:
                continue
            if best < 0:
                best = source
            elif _sooner(rowtime, rank, counter, heads[source], heads[best]):
                second = best
                best = source
            elif second < 0 or _sooner(rowtime, rank, counter, heads[source], heads[second]):
                second = source
        while heads[best] < starts[best + 1]:
            if second >= 0:
                if _sooner(rowtime, rank, counter, heads[second], heads[best]):
                    break
                if second < best and not _sooner(rowtime, rank, counter, heads[best], heads[second]):
                    break
            order[written] = heads[best]
            written += 1
            heads[best] += 1
