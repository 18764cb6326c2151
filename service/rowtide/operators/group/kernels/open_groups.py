"""Adds rows to the groups of their windows and keys, and creates missing groups.

A group is a row of ``groups``, which is stored field by field. ``latest`` has, by key, the number of a
candidate group, which is the right one if it has the window.
"""

from __future__ import annotations

import numpy as np

from rowtide.operators.storage.kernels.lean import lean, lean_part
from rowtide.operators.storage.kernels.prefetch import BLOCK, NEAR, prefetch
from rowtide.rows.arrays import Int32s, Int64s

START, END, KEY, ROWS, ROWTIME, ORIGIN, COUNTER = range(7)
"""Fields of a group: its window, the number of its key, the rows done with it, and its first row."""
WIDTH = 7


@lean_part
def _begin(
    groups: Int64s,
    count: int,
    start: int,
    end: int,
    key: int | np.uint64,
    row: int,
    rowtime: Int64s,
    origin: Int32s,
    counter: Int64s,
) -> None:
    groups[count, START], groups[count, END], groups[count, KEY], groups[count, ROWS] = start, end, key, 0
    groups[count, ROWTIME], groups[count, ORIGIN] = rowtime[row], origin[row]
    groups[count, COUNTER] = counter[row]


@lean_part
def _ask(keys: Int64s, row: int, latest: Int64s, groups: Int64s) -> None:
    """Prefetch the groups of ``BLOCK`` rows."""
    stop = min(row + BLOCK, len(keys))
    for one in range(row, stop):
        prefetch(latest, keys[one])
    counts = groups[:, ROWS]
    for one in range(row, stop):
        prefetch(counts, latest[keys[one]])


@lean
def into_periods(
    keys: Int64s,
    stops: Int64s,
    starts: Int64s,
    ends: Int64s,
    firsts: Int64s,
    rowtime: Int64s,
    origin: Int32s,
    counter: Int64s,
    latest: Int64s,
    groups: Int64s,
    count: int,
    found: Int64s,
) -> int:
    """Write the group of each row into ``found`` and return the new number of groups.

    Period ``i`` is that of the rows before ``stops[i]``. Its groups have the numbers from ``firsts[i]`` on,
    or there are none yet: then that is ``count``. ``latest`` has no numbers but those of groups of its keys.
    """
    before = count
    is_far = len(latest) > NEAR
    begin = 0
    for period in range(len(stops)):
        first = firsts[period] if firsts[period] < before else count
        for row in range(begin, stops[period]):
            if is_far and row & (BLOCK - 1) == 0:
                _ask(keys, row, latest, groups)
            key = np.uint64(keys[row])
            group = latest[key]
            if group < first or group >= count:
                group = count
                _begin(groups, count, starts[period], ends[period], key, row, rowtime, origin, counter)
                latest[key] = group
                count += 1
            groups[np.uint64(group), ROWS] += 1
            found[row] = group
        begin = stops[period]
    return count


@lean
def into_sessions(
    keys: Int64s,
    gap: int,
    rowtime: Int64s,
    origin: Int32s,
    counter: Int64s,
    latest: Int64s,
    groups: Int64s,
    count: int,
    found: Int64s,
    ends: Int64s,
) -> int:
    """Write the session of each row into ``found``, and its end before the row into ``ends``."""
    is_far = len(latest) > NEAR
    for row in range(len(keys)):
        if is_far and row & (BLOCK - 1) == 0:
            _ask(keys, row, latest, groups)
        key, now = np.uint64(keys[row]), rowtime[row]
        group = latest[key]
        if group >= count or groups[group, KEY] != np.int64(key) or groups[group, END] <= now:
            group = count
            _begin(groups, count, now, now + gap, key, row, rowtime, origin, counter)
            latest[key] = group
            count += 1
        at = np.uint64(group)
        ends[row] = groups[at, END]
        groups[at, END] = now + gap
        groups[at, ROWS] += 1
        found[row] = group
    return count


@lean
def into_hops(
    keys: Int64s,
    slide: int,
    size: int,
    offset: int,
    places: Int64s,
    rowtime: Int64s,
    origin: Int32s,
    counter: Int64s,
    latest: Int64s,
    groups: Int64s,
    count: int,
    of: Int64s,
    found: Int64s,
    last: Int64s,
    progress: Int64s,
) -> int:
    """Write the windows of each row, the earliest first, and return the new number of groups.

    ``places`` are the rowtimes in the unit of slide, size and offset, which is that of the windows' edges.
    ``of`` becomes the row and ``found`` the group, ``last`` 1 for a row's last window; ``progress`` has how
    many there are, then how many rows are in no window. ``latest`` has a line a key: a window is at its
    number modulo the length of the line.
    """
    used = 0
    for row in range(len(keys)):
        key, now = keys[row], places[row]
        newest = now - (now - offset) % slide
        windows = max(0, -((now - newest - size) // slide))
        if windows == 0:
            progress[1] += 1
        for back in range(windows - 1, -1, -1):
            start = newest - back * slide
            at = ((start - offset) // slide) % latest.shape[1]
            group = latest[key, at]
            if group >= count or groups[group, KEY] != key or groups[group, START] != start:
                group = count
                _begin(groups, count, start, start + size, key, row, rowtime, origin, counter)
                latest[key, at] = group
                count += 1
            of[used], found[used], last[used] = row, group, back == 0
            groups[group, ROWS] += back == 0
            used += 1
    progress[0] = used
    return count


@lean
def into_growing(
    keys: Int64s,
    step: int,
    starts: Int64s,
    stops: Int64s,
    places: Int64s,
    rowtime: Int64s,
    origin: Int32s,
    counter: Int64s,
    latest: Int64s,
    groups: Int64s,
    count: int,
    of: Int64s,
    found: Int64s,
    last: Int64s,
    progress: Int64s,
) -> int:
    """Write the windows of each row, the smallest first, and return the new number of groups.

    The windows of a row begin at its ``starts`` and end every ``step`` after it, up to its ``stops``.
    ``places``, ``of``, ``found`` and ``last`` are those of ``into_hops``; ``progress`` has how many there are.
    ``latest`` has a line a key, with a place for each length of a window.
    """
    used = 0
    for row in range(len(keys)):
        key, start = keys[row], starts[row]
        windows = (stops[row] - start) // step
        for at in range((places[row] - start) // step, windows):
            group = latest[key, at]
            if group >= count or groups[group, KEY] != key or groups[group, START] != start:
                group = count
                _begin(groups, count, start, start + (at + 1) * step, key, row, rowtime, origin, counter)
                latest[key, at] = group
                count += 1
            of[used], found[used], last[used] = row, group, at == windows - 1
            groups[group, ROWS] += at == windows - 1
            used += 1
    progress[0] = used
    return count
