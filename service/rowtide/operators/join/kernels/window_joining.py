"""Joins two streams within a window of rowtime.

The rows of a side have numbers in order of arrival, which is that of rowtime. Each side has chains of the
open rows of one key, the oldest first. A key is one int64, its code.

``links`` has a power of two links; a row's is its number modulo them. There are its code and rowtime, the
number of the next row of the chain, -1 for none, and, for the first row of a chain, that of the last one:
``LINKED`` for any other row of a chain, ``LOOSE`` for a row that is in no chain.

``slots`` finds the first row of a key: the low bits of its number are there, below some bits of the code's
hash. Slots of hashed codes are a power of two: the slot of a code is at its place or after it, ``EMPTY``
ends the search, ``GONE`` does not. Else a code is its own place. ``counts`` is: slots in use; slots that are
not empty. ``operators.join.window_join_chains`` makes room: no kernel ever lacks a slot or a link.
"""

from __future__ import annotations

import numpy as np

from rowtide.operators.storage.kernels.lean import lean, lean_part
from rowtide.operators.storage.kernels.prefetch import prefetch
from rowtide.rows.arrays import Int64s, Mask

CODE, TIME, NEXT, LAST = np.uint64(0), np.uint64(1), np.uint64(2), np.uint64(3)
"""Indexes in a link."""
LINK_BITS = np.uint64(2)
LINK_WIDTH = 4
"""Two links fill a cache line."""
LINKED, LOOSE = -1, -2
FRESH = -2
"""The place in the other chain: its beginning."""
USED, FILLED = 0, 1
"""Indexes in ``counts``."""
EMPTY, GONE = -1, -2
ROW_BITS = 32
ROW = np.int64((1 << 32) - 1)
"""The bits of a row's number in a slot. There are never more rows in memory."""
TAG_SHIFT = np.uint64(33)
"""The bits of a hash in a slot, so that few rows of other keys are compared."""
AHEAD = 16
"""Rows between prefetch and read of links, and as many before that of slots: a power of two."""

MIX = np.uint64(0x9E3779B97F4A7C15)
SHIFT = np.uint64(29)
NEAR_BITS = np.uint64(3)
NEAR = np.uint64((1 << 3) - 1)
"""Consecutive codes, like most assigned numbers, share a cache line."""

Whole = int | np.int64

HIGHEST, LOWEST = 2**63 - 1, -(2**63)


@lean_part
def _distance(right: Whole, left: Whole) -> int:
    """Return right - left, kept within int64."""
    found = int(right - left)
    if ((right ^ left) & (right ^ found)) < 0:
        return HIGHEST if right > left else LOWEST
    return found


@lean_part
def _is_before(port: int, met: Whole, time: Whole, low: int, high: int) -> bool:
    """Return whether a row of the other side is before the window of a row of ``port``."""
    return _distance(met, time) < low if port == 0 else _distance(time, met) > high


@lean_part
def _is_behind(port: int, met: Whole, time: Whole, low: int, high: int) -> bool:
    """Return whether a row of the other side is after the window of a row of ``port``."""
    return _distance(met, time) > high if port == 0 else _distance(time, met) < low


@lean_part
def _hash(code: Whole) -> np.uint64:
    """Return a number that differs in its high bits unless codes are near each other."""
    value = (np.uint64(code) >> NEAR_BITS) * MIX
    return value ^ (value >> SHIFT)


@lean_part
def _place(code: Whole, value: np.uint64, slots: Int64s) -> np.int64:
    """Return the first index at which a code with this hash is searched."""
    return np.int64((value & ~NEAR) | (np.uint64(code) & NEAR)) & np.int64(len(slots) - 1)


@lean_part
def _tag(value: np.uint64) -> np.int64:
    """Return the bits of a hash in a slot."""
    return np.int64(value >> TAG_SHIFT) << ROW_BITS


@lean_part
def _first(found: Whole, links: Int64s) -> np.uint64:
    """Return the index of the link of a slot's row."""
    return (np.uint64(found) << LINK_BITS) & np.uint64(len(links) - 1)


@lean_part
def _at(number: Whole, links: Int64s) -> np.uint64:
    """Return the index of the link of a row."""
    return (np.uint64(number) << LINK_BITS) & np.uint64(len(links) - 1)


@lean_part
def _find(code: Whole, hashed: bool, slots: Int64s, links: Int64s) -> np.int64:
    """Return the slot of a code, and -1 - the slot for it if it has no row."""
    if not hashed:
        return np.int64(code) if slots[np.uint64(code)] >= 0 else np.int64(-1 - code)
    value = _hash(code)
    place, tag = np.uint64(_place(code, value, slots)), _tag(value)
    mask = np.uint64(len(slots) - 1)
    free = np.int64(-1)
    while True:
        found = slots[place]
        if found >= 0:
            if (found & ~ROW) == tag and links[_first(found, links) + CODE] == code:
                return np.int64(place)
        elif found == EMPTY:
            return -1 - (np.int64(place) if free < 0 else free)
        elif free < 0:
            free = np.int64(place)
        place = (place + np.uint64(1)) & mask


@lean_part
def _link(
    number: Whole, code: Whole, time: Whole, hashed: bool, slots: Int64s, links: Int64s, counts: Int64s
) -> None:
    """Append a row to the chain of its key."""
    at = _at(number, links)
    slot = _find(code, hashed, slots, links)
    links[at + CODE], links[at + TIME], links[at + NEXT] = code, time, -1
    if slot >= 0:
        head = _first(slots[np.uint64(slot)], links)
        links[_at(links[head + LAST], links) + NEXT] = number
        links[head + LAST] = number
        links[at + LAST] = LINKED
    else:
        place = np.uint64(-1 - slot)
        if slots[place] == EMPTY:
            counts[FILLED] += 1
        counts[USED] += 1
        slots[place] = (number & ROW) | (_tag(_hash(code)) if hashed else np.int64(0))
        links[at + LAST] = number


@lean_part
def _begin_with(
    number: Whole, last: Whole, slot: Whole, hashed: bool, slots: Int64s, links: Int64s, counts: Int64s
) -> None:
    """Set the first row of the chain of a slot; -1: the chain is empty."""
    place = np.uint64(slot)
    if number >= 0:
        links[_at(number, links) + LAST] = last
        slots[place] = (slots[place] & ~ROW) | (number & ROW)
    else:
        counts[USED] -= 1
        slots[place] = GONE if hashed else EMPTY
        mask = np.uint64(len(slots) - 1)
        # No search goes past this empty slot.
        while slots[place] == GONE and slots[(place + np.uint64(1)) & mask] == EMPTY:
            slots[place] = EMPTY
            counts[FILLED] -= 1
            place = (place - np.uint64(1)) & mask


@lean_part
def _ask_slot(codes: Int64s, row: int, hashed: bool, slots: Int64s) -> None:
    """Prefetch the first slot of a row's code, if the row exists."""
    if row < len(codes):
        code = codes[np.uint64(row)]
        prefetch(slots, _place(code, _hash(code), slots) if hashed else code)


@lean_part
def _guess(codes: Int64s, row: int, hashed: bool, slots: Int64s, links: Int64s, guesses: Int64s) -> None:
    """Search the slot of a row's code by the bits of hashes, -1 for none; prefetch its link."""
    if row >= len(codes):
        return
    code = codes[np.uint64(row)]
    guess = np.uint64(row) & np.uint64(AHEAD - 1)
    guesses[guess] = -1
    if hashed:
        value = _hash(code)
        place, tag = np.uint64(_place(code, value, slots)), _tag(value)
        mask = np.uint64(len(slots) - 1)
        found = slots[place]
        while found != EMPTY and (found & ~ROW) != tag:
            place = (place + np.uint64(1)) & mask
            found = slots[place]
    else:
        place = np.uint64(code)
        found = slots[place]
    if found != EMPTY:
        guesses[guess] = np.int64(place)
        prefetch(links, np.int64(_first(found, links)))


@lean_part
def _surely(code: Whole, row: Whole, hashed: bool, slots: Int64s, links: Int64s, guesses: Int64s) -> np.int64:
    """Do the same as ``_find`` for guessed rows. The slots have not changed since the guess."""
    guess = guesses[np.uint64(row) & np.uint64(AHEAD - 1)]
    if guess < 0:
        return np.int64(-1)
    found = slots[np.uint64(guess)]
    if found >= 0 and links[_first(found, links) + CODE] == code:
        return np.int64(guess)
    return _find(code, hashed, slots, links)


@lean
def place_chains(first: int, stop: int, slots: Int64s, links: Int64s, counts: Int64s) -> None:
    """Find room in ``slots``, of hashed codes and all empty, for the chains of the rows before ``stop``."""
    for number in range(first, stop):
        at = _at(number, links)
        if links[at + LAST] >= 0:
            code = links[at + CODE]
            slots[np.uint64(-1 - _find(code, True, slots, links))] = (number & ROW) | _tag(_hash(code))
    counts[FILLED] = counts[USED]


@lean
def move_links(first: int, stop: int, links: Int64s, larger: Int64s) -> None:
    """Take the links of the rows from ``first`` to before ``stop`` to another array."""
    for number in range(first, stop):
        for each in (CODE, TIME, NEXT, LAST):
            larger[_at(number, larger) + each] = links[_at(number, links) + each]


@lean
def probe(
    port: int,
    times: Int64s,
    codes: Int64s,
    missing: Mask,
    first: int,
    over: int,
    hashed: bool,
    slots: Int64s,
    links: Int64s,
    counts: Int64s,
    other_slots: Int64s,
    other_links: Int64s,
    other_counts: Int64s,
    other_end: int,
    low: int,
    high: int,
    whose_time: int,
    progress: Int64s,
    guesses: Int64s,
    found: Int64s,
) -> int:
    """Write the places of the pairs of new rows of ``port``, numbered from ``first``, with the other side's.

    A row with all of its pairs written is added to its own side's chain, except for the first ``over`` of
    them, which no later row can match. Rows before a window are before those of all later rows, too, and
    leave their chain. A row with a ``missing`` key matches nothing. ``other_end`` is the number of the
    other side's next row. ``progress`` is the row and the place in the other chain to continue at
    (``FRESH``: at its beginning): a call ends when all rows are done or the room is full. Returns the
    number of pairs. A pair has the rowtime of the left row where ``whose_time`` is 0, of the right one
    where it is 1, and else of the later one. ``guesses`` is room for ``AHEAD`` numbers.
    """
    row, place = progress[0], progress[1]
    count = 0
    room = len(found)
    # The other side's rows only leave here, so an empty chain stays empty.
    meets = other_counts[USED] > 0
    if meets:
        for each in range(row, row + 2 * AHEAD):
            _ask_slot(codes, each, hashed, other_slots)
        for each in range(row, row + AHEAD):
            _guess(codes, each, hashed, other_slots, other_links, guesses)
    while row < len(times):
        if meets:
            _ask_slot(codes, row + 2 * AHEAD, hashed, other_slots)
        if row + AHEAD >= over:
            _ask_slot(codes, row + AHEAD, hashed, slots)
        number = first + row
        if missing[np.uint64(row)]:
            if row >= over:
                links[_at(number, links) + LAST] = LOOSE
        else:
            code, time = codes[np.uint64(row)], times[np.uint64(row)]
            if place == FRESH:
                place = np.int64(-1)
                slot = np.int64(-1)
                if meets:
                    slot = _surely(code, row, hashed, other_slots, other_links, guesses)
                if slot >= 0:
                    place = other_end - ((other_end - other_slots[np.uint64(slot)]) & ROW)
                    at = _at(place, other_links)
                    if _is_before(port, other_links[at + TIME], time, low, high):
                        last = other_links[at + LAST]
                        while place >= 0 and _is_before(port, other_links[at + TIME], time, low, high):
                            other_links[at + LAST] = LOOSE
                            place = other_links[at + NEXT]
                            at = _at(place, other_links)
                        _begin_with(place, last, slot, hashed, other_slots, other_links, other_counts)
            while place >= 0:
                at = _at(place, other_links)
                met = other_links[at + TIME]
                if _is_behind(port, met, time, low, high):
                    break
                if count == room:
                    progress[0], progress[1] = row, place
                    return count
                pair = np.uint64(count)
                if whose_time == 2:
                    found[pair, 0] = max(time, met)
                else:
                    found[pair, 0] = time if whose_time == port else met
                found[pair, 1 + port] = number
                found[pair, 2 - port] = place
                count += 1
                place = other_links[at + NEXT]
            if row >= over:
                _link(number, code, time, hashed, slots, links, counts)
        if meets:
            _guess(codes, row + AHEAD, hashed, other_slots, other_links, guesses)
        row += 1
        place = np.int64(FRESH)
    progress[0], progress[1] = row, place
    return count


@lean
def enchain(
    times: Int64s,
    codes: Int64s,
    missing: Mask,
    first: int,
    hashed: bool,
    slots: Int64s,
    links: Int64s,
    counts: Int64s,
) -> None:
    """Add existing rows, numbered from ``first``, to chains, in order; see ``probe``."""
    for row in range(len(codes)):
        if missing[row]:
            links[_at(first + row, links) + LAST] = LOOSE
        else:
            _link(first + row, codes[row], times[row], hashed, slots, links, counts)


@lean
def unchain(first: int, stop: int, hashed: bool, slots: Int64s, links: Int64s, counts: Int64s) -> None:
    """Remove the oldest rows, from ``first`` to before ``stop``, from their chains."""
    for number in range(first, stop):
        code = links[_at(number + AHEAD, links) + CODE]
        if hashed:
            prefetch(slots, _place(code, _hash(code), slots))
        at = _at(number, links)
        if links[at + LAST] != LOOSE:
            slot = _find(links[at + CODE], hashed, slots, links)
            _begin_with(links[at + NEXT], links[at + LAST], slot, hashed, slots, links, counts)
