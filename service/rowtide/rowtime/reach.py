"""The least rowtime at which a bound that grows with rowtime is reached."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable

from rowtide.rows.types import MAX_TIMESTAMP_MS, MIN_TIMESTAMP_MS


def least_reaching(promised: Callable[[int], int], bound: int) -> int:
    """Return the least rowtime (ms) for which ``promised``, which never falls, is ``bound`` or more.

    Searches the rowtimes of the years 1 to 9999. If none is found, the result is after the last one.
    """
    rowtimes = range(MIN_TIMESTAMP_MS, MAX_TIMESTAMP_MS + 1)
    return MIN_TIMESTAMP_MS + bisect_left(rowtimes, bound, key=promised)
