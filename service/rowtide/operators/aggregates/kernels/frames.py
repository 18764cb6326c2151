"""Windows of an OVER, row by row: the frames.

``advance`` moves the frame of each row, one that arrives or one that has waited for later rows, and
records the changes, in order, as ``steps``: a slot, and whether a row is written to it, enters the
frame from it, or leaves the frame and the slot. The other kernels, one per kind of call, follow these
steps and return one result per row. Slots hold the rows of all partitions, and each names the next of
its partition. A free slot is the first to be reused, so the number of slots is the maximum number of
rows at a time.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from rowtide.rows.arrays import Int32s, Int64s, Mask

Values = NDArray[Any]

HEAD, TAIL, PENDING, LAST, INSIDE, AHEAD, WAITING = range(7)
"""State of a partition: the slots of its first row inside the frame, its last row, its first row
ahead of it, its last row inside; the number of rows inside and ahead; the number of last rows that
have no result yet."""
WIDTH = 8

LEAVE, WRITE, ENTER = range(3)
"""Kinds of steps; 3 is WRITE and ENTER. A step is a slot * 4 + this."""
STORED, FREE = range(2)
"""How many slots were ever taken, and how many of them are free."""

BY_ROWS, START, TO_CURRENT, END_BY_ROWS, END, ENDLESS = range(6)
"""Parameters of a frame: whether its edges count rows, their offsets, whether it ends with the
current row, and whether it has no start. Without a start, a row that enters leaves its slot at
once."""


@njit(cache=True, nogil=True, error_model="numpy")
def advance(
    groups: Int64s,
    order: Int64s,
    first_row: int,
    held: bool,
    frame: Int64s,
    partitions: Int32s,
    following: Int32s,
    orders: Int64s,
    free: Int32s,
    slots: Int64s,
    steps: Int64s,
    until: Int64s,
    first: Int64s,
    last: Int64s,
) -> int:
    """Move the frames of the rows from ``first_row`` on; return the row before which ``steps`` is full.

    ``held``: the rows have waited in their slots; others come, and are written. ``orders`` has what a slot's
    row is ordered by, where an edge is in time. ``until`` becomes how many steps there are after each row,
    ``first`` and ``last`` the slots at the ends of its frame, -1 if that is empty.
    """
    by_rows, start, to_current = frame[BY_ROWS] != 0, frame[START], frame[TO_CURRENT] != 0
    end_by_rows, end, endless = frame[END_BY_ROWS] != 0, frame[END], frame[ENDLESS] != 0
    only_rows = by_rows and end_by_rows
    stored, free_slots = slots[STORED], slots[FREE]
    used = 0
    stop = len(groups)
    for row in range(first_row, len(groups)):
        group = groups[row]
        inside, ahead = np.int64(partitions[group, INSIDE]), np.int64(partitions[group, AHEAD])
        waiting = np.int64(partitions[group, WAITING])
        # Of rows as many come in or go as an edge moves; in time, a row ahead may enter and leave at once.
        if used + 1 > len(steps) - (
            max(0, min(ahead, ahead - waiting + end + 1))
            + max(0, min(inside + ahead, inside + ahead - waiting + start))
            if only_rows
            else inside + 2 * ahead
        ):
            stop = row
            break
        head, final = np.int64(partitions[group, HEAD]), np.int64(partitions[group, LAST])
        before = inside + ahead
        if not to_current:
            pending = np.int64(partitions[group, PENDING])
            while ahead and (
                ahead - waiting + end >= 0 if end_by_rows else orders[pending] <= order[row] + end
            ):
                ahead -= 1
                steps[used] = 4 * pending + ENTER
                used += 1
                if endless:
                    free[free_slots] = pending
                    free_slots += 1
                else:
                    if not inside:
                        head = pending
                    inside += 1
                    final = pending
                pending = np.int64(following[pending])
            partitions[group, PENDING] = pending
        while inside and (
            inside + ahead - waiting + start > 0 if by_rows else orders[head] < order[row] + start
        ):
            steps[used] = 4 * head + LEAVE
            used += 1
            free[free_slots] = head
            free_slots += 1
            head = np.int64(following[head])
            inside -= 1
        if held:
            partitions[group, WAITING] = waiting - 1
        else:
            if free_slots:
                free_slots -= 1
                slot = np.int64(free[free_slots])
            else:
                slot = stored
                stored += 1
            if not only_rows:
                orders[slot] = order[row]
            if before and inside + ahead:
                following[partitions[group, TAIL]] = slot
            partitions[group, TAIL] = slot
            if to_current:
                if not inside:
                    head = slot
                inside += 1
                final = slot
                steps[used] = 4 * slot + WRITE + ENTER
            else:
                if not ahead:
                    partitions[group, PENDING] = slot
                ahead += 1
                steps[used] = 4 * slot + WRITE
            used += 1
        partitions[group, HEAD], partitions[group, LAST] = head, final
        partitions[group, INSIDE], partitions[group, AHEAD] = inside, ahead
        until[row] = used
        first[row] = head if inside else -1
        last[row] = final if inside else -1
    slots[STORED], slots[FREE] = stored, free_slots
    return stop


@njit(cache=True, nogil=True, error_model="numpy")
def arrive(
    groups: Int64s,
    order: Int64s,
    partitions: Int32s,
    following: Int32s,
    orders: Int64s,
    free: Int32s,
    slots: Int64s,
    taken: Int64s,
) -> None:
    """Let rows wait ahead of the frames; ``taken`` becomes the slot of each."""
    stored, free_slots = slots[STORED], slots[FREE]
    for row in range(len(groups)):
        group = groups[row]
        if free_slots:
            free_slots -= 1
            slot = np.int64(free[free_slots])
        else:
            slot = stored
            stored += 1
        taken[row] = slot
        orders[slot] = order[row]
        if partitions[group, INSIDE] + partitions[group, AHEAD]:
            following[partitions[group, TAIL]] = slot
        if partitions[group, AHEAD] == 0:
            partitions[group, PENDING] = slot
        partitions[group, TAIL] = slot
        partitions[group, AHEAD] += 1
        partitions[group, WAITING] += 1
    slots[STORED], slots[FREE] = stored, free_slots


@njit(cache=True, nogil=True, error_model="numpy")
def complete(
    groups: Int64s,
    order: Int64s,
    frame: Int64s,
    partitions: Int32s,
    reached: int,
    periods: Int64s,
    period: int,
) -> int:
    """Count the rows, first of those that wait, whose frames are complete.

    They are where nothing that is ordered before ``reached`` may still come. ``periods`` are those of the
    partitions, which end with them, and the least one that has not; there may be none.
    """
    end_by_rows, end = frame[END_BY_ROWS] != 0, frame[END]
    count = 0
    for row in range(len(groups)):
        group = groups[row]
        is_complete = partitions[group, WAITING] > end if end_by_rows else reached > order[row] + end
        if not is_complete and not (len(periods) and periods[group] < period):
            break
        partitions[group, WAITING] -= 1
        count += 1
    for row in range(count):
        partitions[groups[row], WAITING] += 1
    return count


@njit(cache=True, nogil=True, error_model="numpy")
def advance_rings(
    groups: Int64s, size: int, rings: Int32s, steps: Int64s, until: Int64s, first: Int64s, last: Int64s
) -> None:
    """Move frames of the last ``size`` rows: each partition has as many slots side by side.

    A partition's ``rings`` are the place of its next slot, and how many rows are inside. There is room for
    two steps a row. The others are as of ``advance``; ``first`` and ``last`` may be empty, if no one asks.
    """
    used = 0
    for row in range(len(groups)):
        group = groups[row]
        at, inside = np.int64(rings[group, 0]), np.int64(rings[group, 1])
        base = group * size
        slot = base + at
        if inside == size:
            steps[used] = 4 * slot + LEAVE
            used += 1
        else:
            inside += 1
            rings[group, 1] = inside
        steps[used] = 4 * slot + WRITE + ENTER
        used += 1
        at = (at + 1) * np.int64(at + 1 < size)
        rings[group, 0] = at
        until[row] = used
        if len(first):
            first[row] = base + at if inside == size else base
            last[row] = slot


@njit(cache=True, nogil=True, error_model="numpy")
def expire(
    partitions: Int32s,
    count: int,
    following: Int32s,
    orders: Int64s,
    free: Int32s,
    slots: Int64s,
    least: int,
    by_rows: bool,
    steps: Int64s,
    until: Int64s,
) -> None:
    """Release the rows that are ordered before ``least``: ``until`` has a place per partition.

    ``by_rows``: all rows of the partitions of which none waits instead.
    """
    used = 0
    free_slots = slots[FREE]
    for group in range(count):
        head, inside = np.int64(partitions[group, HEAD]), np.int64(partitions[group, INSIDE])
        idle = by_rows and partitions[group, WAITING] == 0
        while inside and (idle if by_rows else orders[head] < least):
            steps[used] = 4 * head + LEAVE
            used += 1
            free[free_slots] = head
            free_slots += 1
            head = np.int64(following[head])
            inside -= 1
        partitions[group, HEAD], partitions[group, INSIDE] = head, inside
        until[group] = used
        if inside:
            continue
        pending, ahead = np.int64(partitions[group, PENDING]), np.int64(partitions[group, AHEAD])
        while ahead and (idle if by_rows else orders[pending] < least):
            free[free_slots] = pending
            free_slots += 1
            pending = np.int64(following[pending])
            ahead -= 1
        partitions[group, PENDING], partitions[group, AHEAD] = pending, ahead
    slots[FREE] = free_slots


@njit(cache=True, nogil=True, error_model="numpy")
def list_rows(partitions: Int32s, kept: Int64s, following: Int32s, numbers: Int64s, slots: Int64s) -> None:
    """List the rows of the partitions ``kept``, in order: the place of each in ``kept`` and its slot."""
    count = 0
    for place in range(len(kept)):
        group = kept[place]
        inside = partitions[group, INSIDE]
        slot = np.int64(partitions[group, HEAD] if inside else partitions[group, PENDING])
        for _ in range(inside + partitions[group, AHEAD]):
            numbers[count], slots[count] = place, slot
            slot = np.int64(following[slot])
            count += 1


@njit(cache=True, nogil=True, error_model="numpy")
def exchange(steps: Int64s, count: int, row: int, given: Values, held: Values, found: Values) -> None:
    """Write the value of each step's slot; rows from ``row`` on are written where a step says so."""
    for at in range(count):
        slot = steps[at] >> 2
        if steps[at] & WRITE:
            held[slot] = given[row]
            found[at] = given[row]
            row += 1
        else:
            found[at] = held[slot]


@njit(cache=True, nogil=True, error_model="numpy")
def counts(
    groups: Int64s,
    first_row: int,
    end_row: int,
    steps: Int64s,
    until: Int64s,
    used: Mask,
    count: Int64s,
    found: Int64s,
) -> None:
    """Count the values inside."""
    at = 0
    for row in range(first_row, end_row):
        group = groups[row]
        now = count[group]
        while at < until[row]:
            if used[at]:
                if steps[at] & ENTER:
                    now += 1
                elif not steps[at] & WRITE:
                    now -= 1
            at += 1
        count[group] = now
        found[row] = now
