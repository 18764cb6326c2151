"""Joining two streams within a window of rowtime.

The rows of a side have numbers in order of arrival, which is that of rowtime.
``following`` leads along a chain, -1 at its end. ``base`` is the number of a side's first row in memory.

A key is one int64, its code. Its entry has the code, its slot and how many rows are open, for the left side
and then the right one the first and the last row of a chain and the first one's rowtime; -1 for no row.
``slots`` has a power of two places: the entry of a code stands at its place or behind it, ``EMPTY`` ends
the search, ``GONE`` does not. Without ``slots`` a code is the place of its entry.

``counts`` is: entries made; the first free one or -1, which has the next one for its code; those in use;
slots that are not empty. ``operators.window_join_keys`` makes room: no kernel ever lacks a slot or an entry.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

CODE, ROWS, CHAIN = 0, 1, 2
"""Where an entry has what: from ``CHAIN`` on the chains of both sides."""
HEAD, TAIL, TIME = 0, 1, 2
"""Where a chain has what."""
CHAIN_WIDTH = 3
ENTRY_WIDTH = CHAIN + 2 * CHAIN_WIDTH
"""An entry is as wide as a line of the cache."""
MADE, FREE, USED, FILLED = 0, 1, 2, 3
"""Where ``counts`` has what."""
EMPTY, GONE = -1, -2
UNSURE = -(2**63)
ENTRY_BITS = 32
ENTRY = np.int64((1 << 32) - 1)
ONE_ROW = 1 << 32
"""An entry counts its rows in the high bits, and has its slot in the low ones."""
TAG_SHIFT = np.uint64(33)
"""A slot has an entry in its low bits and above them some of the hash: so few other entries are looked at."""
BLOCK = 128
"""Keys that are looked up together: so the memory is asked for many of them at a time."""

MIX = np.uint64(0x9E3779B97F4A7C15)
SHIFT = np.uint64(29)
NEAR_BITS = np.uint64(3)
NEAR = np.uint64((1 << 3) - 1)
"""Codes that follow one another, as most numbers given in turn do, share a line of the cache."""

Whole = int | np.int64
Int64s = NDArray[np.int64]

HIGHEST, LOWEST = 2**63 - 1, -(2**63)


@njit(cache=True, nogil=True, forceinline=True)
def _distance(right: Whole, left: Whole) -> int:
    """Give right - left, kept within int64."""
    found = int(right - left)
    if ((right ^ left) & (right ^ found)) < 0:
        return HIGHEST if right > left else LOWEST
    return found


@njit(cache=True, nogil=True, forceinline=True)
def _is_before(port: int, met: Whole, time: Whole, low: int, high: int) -> bool:
    """Tell whether a row of the other side lies before the window of a row of ``port``."""
    return _distance(met, time) < low if port == 0 else _distance(time, met) > high


@njit(cache=True, nogil=True, forceinline=True)
def _is_behind(port: int, met: Whole, time: Whole, low: int, high: int) -> bool:
    """Tell whether a row of the other side lies behind the window of a row of ``port``."""
    return _distance(met, time) > high if port == 0 else _distance(time, met) < low


@njit(cache=True, nogil=True, forceinline=True)
def _hash(code: Whole) -> np.uint64:
    """Give a number that differs in its high bits where codes are not near each other."""
    value = (np.uint64(code) >> NEAR_BITS) * MIX
    return value ^ (value >> SHIFT)


@njit(cache=True, nogil=True, forceinline=True)
def _place(code: Whole, value: np.uint64, slots: Int64s) -> np.int64:
    """Give where a code with this hash is looked for first."""
    return np.int64((value & ~NEAR) | (np.uint64(code) & NEAR)) & np.int64(len(slots) - 1)


@njit(cache=True, nogil=True, forceinline=True)
def _tag(value: np.uint64) -> np.int64:
    """Give what a slot has of a hash, beside its entry."""
    return np.int64(value >> TAG_SHIFT) << ENTRY_BITS


@njit(cache=True, nogil=True)
def _find(code: Whole, slots: Int64s, entries: Int64s) -> np.int64:
    """Give the entry of a code, and -1 - the slot for it if it has none."""
    if len(slots) == 0:
        return np.int64(code)
    mask = np.int64(len(slots) - 1)
    value = _hash(code)
    place, tag = _place(code, value, slots), _tag(value)
    free = np.int64(-1)
    while True:
        found = slots[place]
        if found < 0:
            if found == EMPTY:
                return -1 - (place if free < 0 else free)
            if free < 0:
                free = place
        elif (found & ~ENTRY) == tag and entries[found & ENTRY, CODE] == code:
            return found & ENTRY
        place = (place + 1) & mask


@njit(cache=True, nogil=True)
def _guess(codes: Int64s, first: int, stop: int, slots: Int64s, entries: Int64s, guesses: Int64s) -> None:
    """Write what ``_find`` gives for the codes from ``first`` to before ``stop``.

    ``UNSURE`` stands for a code that has another at its first place.
    """
    if len(slots) == 0:
        for row in range(first, stop):
            guesses[row - first] = codes[row]
        return
    for row in range(first, stop):
        value = _hash(codes[row])
        place = _place(codes[row], value, slots)
        found = slots[place]
        guesses[row - first] = UNSURE
        if found == EMPTY:
            guesses[row - first] = -1 - place
        elif found >= 0 and (found & ~ENTRY) == _tag(value):
            guesses[row - first] = found & ENTRY
    for row in range(first, stop):
        entry = guesses[row - first]
        if entry >= 0 and entries[entry, CODE] != codes[row]:
            guesses[row - first] = UNSURE


@njit(cache=True, nogil=True)
def _enter(code: Whole, slot: Whole, slots: Int64s, entries: Int64s, counts: Int64s) -> np.int64:
    """Make the entry of a code that has none, at the slot that ``_find`` gave."""
    entry = counts[FREE]
    if entry < 0:
        entry = counts[MADE]
        counts[MADE] += 1
    else:
        counts[FREE] = entries[entry, CODE]
    if slots[slot] == EMPTY:
        counts[FILLED] += 1
    counts[USED] += 1
    slots[slot] = _tag(_hash(code)) | entry
    entries[entry, CODE], entries[entry, ROWS] = code, slot
    entries[entry, CHAIN + HEAD] = -1
    entries[entry, CHAIN + CHAIN_WIDTH + HEAD] = -1
    return entry


@njit(cache=True, nogil=True)
def _leave(entry: Whole, slots: Int64s, entries: Int64s, counts: Int64s) -> None:
    """Take a row from the rows of a key; without any the entry is free."""
    entries[entry, ROWS] -= ONE_ROW
    if entries[entry, ROWS] >= ONE_ROW or len(slots) == 0:
        return
    mask = np.int64(len(slots) - 1)
    place = entries[entry, ROWS]
    slots[place] = GONE
    # Nothing is looked for behind what is gone there.
    while slots[place] == GONE and slots[(place + 1) & mask] == EMPTY:
        slots[place] = EMPTY
        counts[FILLED] -= 1
        place = (place - 1) & mask
    entries[entry, CODE] = counts[FREE]
    counts[FREE] = entry
    counts[USED] -= 1


@njit(cache=True, nogil=True)
def place_entries(slots: Int64s, entries: Int64s, counts: Int64s) -> None:
    """Enter all entries that are in use into ``slots``, which are all empty."""
    for entry in range(counts[MADE]):
        if entries[entry, ROWS] >= ONE_ROW:
            code, rows = entries[entry, CODE], entries[entry, ROWS] >> ENTRY_BITS
            slot = -1 - _find(code, slots, entries)
            slots[slot] = _tag(_hash(code)) | entry
            entries[entry, ROWS] = rows << ENTRY_BITS | slot
    counts[FILLED] = counts[USED]


@njit(cache=True, nogil=True)
def probe(
    port: int,
    times: Int64s,
    groups: Int64s,
    codes: Int64s,
    first: int,
    base: int,
    following: Int64s,
    other_times: Int64s,
    other_base: int,
    other_following: Int64s,
    slots: Int64s,
    entries: Int64s,
    counts: Int64s,
    low: int,
    high: int,
    over: int,
    whose_time: int,
    progress: Int64s,
    found: Int64s,
) -> int:
    """Write the places of the pairs of new rows of ``port``, numbered from ``first``, with the other side's.

    A row whose pairs are all written is added to its own side's chain, unless its rowtime is at most
    ``over``: then no later row can meet it. What lies before a window lies before those of all later rows
    too, and leaves its chain. ``progress`` is the row and the place in the other chain where to go on
    (-2: at its beginning): a call ends when all rows are done or the room is full. Gives the number of pairs.

    ``groups`` becomes the entry of each row that is in a chain; it begins as -1 where a key has a NULL,
    which meets nothing, and as 0 elsewhere. A pair has the rowtime of the left row where ``whose_time`` is
    0, of the right one where it is 1, and else of the later one.
    """
    own, other = CHAIN + CHAIN_WIDTH * port, CHAIN + CHAIN_WIDTH * (1 - port)
    row, place = progress[0], progress[1]
    guesses = np.empty(BLOCK, dtype=np.int64)
    block = guessed = row
    count = 0
    room = len(found)
    while row < len(times):
        if row == guessed:
            guessed = min(row + BLOCK, len(times))
            _guess(codes, row, guessed, slots, entries, guesses)
            block = row
        if groups[first + row - base] >= 0:
            time = times[row]
            entry = guesses[row - block]
            if entry < 0 and (entry == UNSURE or slots[-1 - entry] != EMPTY):
                entry = _find(codes[row], slots, entries)
            if entry >= 0:
                if place == -2:
                    place = entries[entry, other + HEAD]
                    if place >= 0 and _is_before(port, entries[entry, other + TIME], time, low, high):
                        while place >= 0 and _is_before(
                            port, other_times[place - other_base], time, low, high
                        ):
                            place = other_following[place - other_base]
                        entries[entry, other + HEAD] = place
                        if place >= 0:
                            entries[entry, other + TIME] = other_times[place - other_base]
                head, tail = entries[entry, other + HEAD], entries[entry, other + TAIL]
                while place >= 0:
                    met = entries[entry, other + TIME] if place == head else other_times[place - other_base]
                    if _is_behind(port, met, time, low, high):
                        break
                    if count == room:
                        progress[0], progress[1] = row, place
                        return count
                    if whose_time == 2:
                        found[count, 0] = max(time, met)
                    else:
                        found[count, 0] = time if whose_time == port else met
                    found[count, 1 + port] = first + row
                    found[count, 2 - port] = place
                    count += 1
                    place = -1 if place == tail else other_following[place - other_base]
            if time > over:
                if entry < 0:
                    entry = _enter(codes[row], -1 - entry, slots, entries, counts)
                groups[first + row - base] = entry
                _enchain(first + row, time, entry, base, following, entries, own)
            else:
                groups[first + row - base] = -1
        row += 1
        place = -2
    progress[0], progress[1] = row, place
    return count


@njit(cache=True, nogil=True)
def _enchain(
    number: int, time: int, entry: Whole, base: int, following: Int64s, entries: Int64s, own: int
) -> None:
    following[number - base] = -1
    if entries[entry, own + HEAD] < 0:
        entries[entry, own + HEAD] = number
        entries[entry, own + TIME] = time
    else:
        following[entries[entry, own + TAIL] - base] = number
    entries[entry, own + TAIL] = number
    entries[entry, ROWS] += ONE_ROW


@njit(cache=True, nogil=True)
def enchain(
    port: int,
    times: Int64s,
    first: int,
    groups: Int64s,
    codes: Int64s,
    base: int,
    following: Int64s,
    slots: Int64s,
    entries: Int64s,
    counts: Int64s,
) -> None:
    """Put rows that are there, numbered from ``first``, into chains, in order; see ``probe``."""
    for row in range(len(codes)):
        number = first + row
        if groups[number - base] >= 0:
            entry = _find(codes[row], slots, entries)
            if entry < 0:
                entry = _enter(codes[row], -1 - entry, slots, entries, counts)
            groups[number - base] = entry
            _enchain(
                number, times[number - base], entry, base, following, entries, CHAIN + CHAIN_WIDTH * port
            )


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
    slots: Int64s,
    entries: Int64s,
    counts: Int64s,
) -> int:
    """Take the rows with rowtime <= ``last_time`` out of their chains; give the first that stays."""
    own = CHAIN + CHAIN_WIDTH * port
    number = first
    while number < stop and times[number - base] <= last_time:
        entry = groups[number - base]
        if entry >= 0:
            if entries[entry, own + HEAD] == number:
                head = following[number - base]
                entries[entry, own + HEAD] = head
                if head >= 0:
                    entries[entry, own + TIME] = times[head - base]
            _leave(entry, slots, entries, counts)
        number += 1
    return number
