"""The t-sort: judging rows that are mostly in time, and putting rows in order that mostly are."""

from __future__ import annotations

from numba import njit

from rowtide.rows.arrays import Int64s


@njit(cache=True, nogil=True, error_model="numpy")
def judge(rowtime: Int64s, highest: int, earliest: int, within: int, explicit: int) -> int:
    """Return the highest rowtime after these rows, or ``earliest`` if one of them is late."""
    least = max(max(highest, earliest + within) - within, explicit)
    for row in range(len(rowtime)):
        now = rowtime[row]
        if now < least:
            return earliest
        if now > highest:
            highest = now
            least = max(max(highest, earliest + within) - within, explicit)
    return highest
