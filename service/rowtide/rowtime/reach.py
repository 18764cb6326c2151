"""From which rowtime on a promise that grows with rowtime is made."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable

from rowtide.rows.types import MAX_TIMESTAMP_MS, MIN_TIMESTAMP_MS


def least_reaching(promised: Callable[[int], int], bound: int) -> int:
    """Return the least rowtime (ms) for which ``promised``, which never falls, is ``bound`` or more.

    Looked for among the rowtimes of the years 1 to 9999; after the last one where there is none.
    """
    rowtimes = range(MIN_TIMESTAMP_MS, MAX_TIMESTAMP_MS + 1)
    return MIN_TIMESTAMP_MS + bisect_left(rowtimes, bound, key=promised)
