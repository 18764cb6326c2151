"""Joins a stream with a table as of each row's rowtime.

The table's rows are in a store, in order of arrival. Rows of one join key
(group) are chained: ``head`` and ``tail`` by group, ``following`` by row of the
store, -1 at the end.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from rowtide.rows.arrays import Int8s, Int64s

CHANGES, ROWS, PAIRS, STORED = range(4)
"""Indexes in ``progress``: changes applied, stream rows joined, pairs written, and rows stored."""


@njit(cache=True, nogil=True)
def join_as_of(
    change_time: Int64s,
    change_opcode: Int8s,
    change_group: Int64s,
    change_ident: Int64s,
    stream_time: Int64s,
    stream_group: Int64s,
    head: Int64s,
    tail: Int64s,
    following: Int64s,
    ident: Int64s,
    progress: Int64s,
    out_stream: Int64s,
    out_store: Int64s,
    keep_unmatched: bool,
) -> None:
    """Apply changes and join stream rows, in order of time, changes first among equal rowtimes.

    A call ends when everything is done or the pairs of the next stream row do not fit, and can be
    repeated with more room. A group of -1 has a NULL in its key, which matches nothing.
    """
    change, row = progress[CHANGES], progress[ROWS]
    pairs, stored = progress[PAIRS], progress[STORED]
    while True:
        before = row >= len(stream_time) or (
            change < len(change_time) and change_time[change] <= stream_time[row]
        )
        if change < len(change_time) and before:
            group = change_group[change]
            if change_opcode[change] > 0:
                following[stored] = -1
                ident[stored] = change_ident[change]
                if group >= 0:
                    if head[group] < 0:
                        head[group] = stored
                    else:
                        following[tail[group]] = stored
                    tail[group] = stored
                stored += 1
            elif group >= 0 and change_opcode[change] < 0:
                previous = np.int64(-1)
                place = head[group]
                while place >= 0 and ident[place] != change_ident[change]:
                    previous = place
                    place = following[place]
                if place >= 0:
                    if previous < 0:
                        head[group] = following[place]
                    else:
                        following[previous] = following[place]
                    if tail[group] == place:
                        tail[group] = previous
            change += 1
        elif row < len(stream_time):
            group = stream_group[row]
            first = head[group] if group >= 0 else np.int64(-1)
            needed = 0
            place = first
            while place >= 0:
                needed += 1
                place = following[place]
            if needed == 0 and keep_unmatched:
                needed = 1
            if pairs + needed > len(out_stream):
                break
            if first < 0:
                if keep_unmatched:
                    out_stream[pairs] = row
                    out_store[pairs] = -1
                    pairs += 1
            else:
                place = first
                while place >= 0:
                    out_stream[pairs] = row
                    out_store[pairs] = place
                    pairs += 1
                    place = following[place]
            row += 1
        else:
            break
    progress[CHANGES], progress[ROWS] = change, row
    progress[PAIRS], progress[STORED] = pairs, stored


@njit(cache=True, nogil=True)
def live_rows(head: Int64s, groups: int, following: Int64s, alive: NDArray[np.bool_]) -> None:
    """Mark the rows of the store that a chain still holds."""
    for group in range(groups):
        place = head[group]
        while place >= 0:
            alive[place] = True
            place = following[place]
