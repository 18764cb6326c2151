"""Interning of variable-width values: bytes to dense int64 codes, by open addressing.

The table's arrays are owned by ``operators.storage.keys.TextTable``, which makes room
before each call: a kernel never allocates and never fails.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from rowtide.operators.storage.growing import LINE_BYTES
from rowtide.operators.storage.kernels.prefetch import prefetch, prefetch_block
from rowtide.rows.arrays import Bytes, Int32s, Int64s

MIX = np.uint64(0x9E3779B97F4A7C15)
SHIFT = np.uint64(32)
HALF = np.uint64(32)
LOW = np.uint64((1 << 32) - 1)
EMPTY = np.uint64(0)
ZERO = np.int64(0)
WORD = 8
"""Bytes that are hashed together. Values of one length up to this have one hash only if they are equal."""
WIDE = 32
"""Bytes that are copied together."""
SHORT = 64
"""Up to this number of bytes are copied word by word."""
BLOCK = 256
"""Number of values that are looked up together."""
BUCKET = 4
"""Slots in a line of the cache."""
NEAR = 1 << 14
"""This number of slots is in the cache anyway."""

NEAR_BYTES = 1 << 18
"""This number of bytes of texts is in the cache anyway."""

Slots = NDArray[np.uint64]
Hashes = NDArray[np.uint64]


@njit(cache=True, nogil=True, error_model="numpy", forceinline=True)
def _word(data: Bytes, begin: int, length: int) -> np.uint64:
    """Return up to ``WORD`` bytes as a number, the first one lowest."""
    if begin + WORD > len(data):
        word = np.uint64(0)
        for index in range(min(WORD, length)):
            word |= np.uint64(data[begin + index]) << np.uint64(8 * index)
        return word
    # Written out, these are one load.
    at = np.uint64(begin)
    word = (
        np.uint64(data[at])
        | np.uint64(data[at + np.uint64(1)]) << np.uint64(8)
        | np.uint64(data[at + np.uint64(2)]) << np.uint64(16)
        | np.uint64(data[at + np.uint64(3)]) << np.uint64(24)
        | np.uint64(data[at + np.uint64(4)]) << np.uint64(32)
        | np.uint64(data[at + np.uint64(5)]) << np.uint64(40)
        | np.uint64(data[at + np.uint64(6)]) << np.uint64(48)
        | np.uint64(data[at + np.uint64(7)]) << np.uint64(56)
    )
    if length >= WORD:
        return word
    return word & ((np.uint64(1) << np.uint64(8 * length)) - np.uint64(1))


@njit(cache=True, nogil=True, error_model="numpy", forceinline=True)
def _store(out: Bytes, begin: int, word: np.uint64) -> None:
    """Write a number as ``WORD`` bytes, the lowest first; written out, these are one store."""
    at = np.uint64(begin)
    out[at] = np.uint8(word)
    out[at + np.uint64(1)] = np.uint8(word >> np.uint64(8))
    out[at + np.uint64(2)] = np.uint8(word >> np.uint64(16))
    out[at + np.uint64(3)] = np.uint8(word >> np.uint64(24))
    out[at + np.uint64(4)] = np.uint8(word >> np.uint64(32))
    out[at + np.uint64(5)] = np.uint8(word >> np.uint64(40))
    out[at + np.uint64(6)] = np.uint8(word >> np.uint64(48))
    out[at + np.uint64(7)] = np.uint8(word >> np.uint64(56))


@njit(cache=True, nogil=True, error_model="numpy", forceinline=True)
def _hash(data: Bytes, begin: int, length: int) -> np.uint64:
    value = np.uint64(length) * MIX
    done = 0
    while True:
        value = (value ^ _word(data, begin + done, length - done)) * MIX
        value ^= value >> SHIFT
        done += WORD
        if done >= length:
            # Mix again: the index uses low bits, which hardly differ for texts that differ only in their last
            # letters.
            value *= MIX
            return value ^ (value >> SHIFT)


@njit(cache=True, nogil=True, error_model="numpy", forceinline=True)
def _is_same(data: Bytes, begin: int, length: int, start: int, pool: Bytes) -> bool:
    # One return: if there are two, Numba counts the references of all arrays at every call.
    done = 0
    same = True
    while same and done < length:
        rest = length - done
        same = _word(pool, start + done, rest) == _word(data, begin + done, rest)
        done += WORD
    return same


@njit(cache=True, nogil=True, error_model="numpy", forceinline=True)
def _bucket(value: np.uint64, slots: Slots) -> np.int64:
    """Return the first index of the cache line in which a value with this hash is searched first."""
    return np.int64(value & LOW) * BUCKET & (len(slots) - 1)


@njit(cache=True, nogil=True, error_model="numpy", forceinline=True)
def _search(
    value: np.uint64, length: int, data: Bytes, begin: int, slots: Slots, starts: Int64s, pool: Bytes
) -> np.int64:
    """Return the code of a value with hash ``value``, or -1 minus the empty place for it."""
    place = _bucket(value, slots)
    code = np.int64(-1)
    while code < 0 and slots[place, 1] != EMPTY:
        held = slots[place, 1]
        if slots[place, 0] == value and held >> HALF == np.uint64(length):
            found = np.int64(held & LOW) - 1
            if length <= WORD or _is_same(data, begin, length, starts[found], pool):
                code = found
        if code < 0:
            place = (place + 1) & (len(slots) - 1)
    return code if code >= 0 else -1 - place


@njit(cache=True, nogil=True, error_model="numpy", forceinline=True)
def _guess(
    offsets: Int32s,
    data: Bytes,
    slots: Slots,
    starts: Int64s,
    pool: Bytes,
    first: int,
    count: int,
    hashes: Hashes,
    guesses: Int64s,
) -> None:
    """Look up ``count`` values from ``first`` on, each in one line of the cache, by their hashes alone.

    A guess is the slot with the hash, if any; it must still be compared. Each short step runs for all
    values before the next step, so that many loads overlap.
    """
    is_far = len(slots) > NEAR
    begin = offsets[first]
    longest = 0
    for at in range(count):
        end = offsets[first + at + 1]
        hashes[at] = _hash(data, begin, end - begin)
        longest = max(longest, end - begin)
        begin = end
    if is_far:
        for at in range(count):
            prefetch(slots, _bucket(hashes[at], slots))
    for at in range(count):
        value = hashes[at]
        place = _bucket(value, slots)
        # No branch, and no form that a compiler turns into one: the place cannot be predicted.
        behind = (
            np.int64(slots[place + 1, 0] == value)
            + 2 * np.int64(slots[place + 2, 0] == value)
            + 3 * np.int64(slots[place + 3, 0] == value)
        )
        guesses[at] = place + (behind & (BUCKET - 1))
    if is_far:
        for at in range(count):
            if slots[guesses[at], 0] != hashes[at]:
                prefetch(slots, (guesses[at] + BUCKET) & (len(slots) - 1))
    if longest > WORD:
        for at in range(count):
            prefetch(starts, max(np.int64(slots[guesses[at], 1] & LOW) - 1, ZERO))
        for at in range(count):
            prefetch(pool, starts[max(np.int64(slots[guesses[at], 1] & LOW) - 1, ZERO)])


@njit(cache=True, nogil=True, error_model="numpy")
def intern(
    offsets: Int32s,
    data: Bytes,
    first: int,
    slots: Slots,
    starts: Int64s,
    pool: Bytes,
    count: int,
    codes: Int64s,
) -> tuple[int, int]:
    """Write the code of each value from ``first`` on into ``codes``, until the room is used up.

    Returns the new number of distinct values, and the row before which it stopped. ``offsets`` (n + 1) and
    ``data`` are the Arrow buffers of the values. ``slots`` has a power of two places: the hash of a value,
    then its length and one more than its code in a half each, or ``EMPTY``; at most half of them are taken.
    Value ``i`` is in ``pool[starts[i]:starts[i + 1]]``; ``pool`` has room for all.
    """
    room = len(slots) // 2
    hashes, guesses = np.empty(BLOCK, dtype=np.uint64), np.empty(BLOCK, dtype=np.int64)
    for block in range(first, len(codes), BLOCK):
        rows = min(BLOCK, len(codes) - block)
        _guess(offsets, data, slots, starts, pool, block, rows, hashes, guesses)
        for at in range(rows):
            row = block + at
            begin = offsets[row]
            length = offsets[row + 1] - begin
            held = slots[guesses[at], 1]
            code = np.int64(held & LOW) - 1
            is_found = slots[guesses[at], 0] == hashes[at] and held >> HALF == np.uint64(length) and code >= 0
            if is_found and (length <= WORD or _is_same(data, begin, length, starts[code], pool)):
                codes[row] = code
                continue
            code = _search(hashes[at], length, data, begin, slots, starts, pool)
            if code < 0:
                if count == room:
                    return count, row
                place = -1 - code
                code = np.int64(count)
                count += 1
                slots[place, 0], slots[place, 1] = hashes[at], np.uint64(length) << HALF | np.uint64(count)
                start = starts[code]
                for index in range(length):
                    pool[start + index] = data[begin + index]
                starts[count] = start + length
            codes[row] = code
    return count, len(codes)


@njit(cache=True, nogil=True, error_model="numpy")
def find(offsets: Int32s, data: Bytes, slots: Slots, starts: Int64s, pool: Bytes, codes: Int64s) -> None:
    """Write the code of each value into ``codes``, -1 for one that the table does not have."""
    hashes, guesses = np.empty(BLOCK, dtype=np.uint64), np.empty(BLOCK, dtype=np.int64)
    for block in range(0, len(codes), BLOCK):
        rows = min(BLOCK, len(codes) - block)
        _guess(offsets, data, slots, starts, pool, block, rows, hashes, guesses)
        for at in range(rows):
            begin = offsets[block + at]
            length = offsets[block + at + 1] - begin
            held = slots[guesses[at], 1]
            code = np.int64(held & LOW) - 1
            is_found = slots[guesses[at], 0] == hashes[at] and held >> HALF == np.uint64(length) and code >= 0
            if not (is_found and (length <= WORD or _is_same(data, begin, length, starts[code], pool))):
                code = _search(hashes[at], length, data, begin, slots, starts, pool)
            codes[block + at] = max(code, np.int64(-1))


@njit(cache=True, nogil=True, error_model="numpy")
def numbers_of(codes: Int64s, number_of: Int64s, numbers: Int64s) -> None:
    """Write the number at each code: for -2 (NULL) the last one, for -1 (unknown) -1."""
    for row in range(len(codes)):
        prefetch_block(number_of, codes, row)
        code = codes[row]
        if code >= 0:
            numbers[row] = number_of[code]
        else:
            numbers[row] = -1 if code == -1 else number_of[len(number_of) - 1]


@njit(cache=True, nogil=True, error_model="numpy")
def rehash(slots: Slots, larger: Slots) -> None:
    """Copy the entries of ``slots`` into ``larger``, which is empty."""
    for old in range(len(slots)):
        if slots[old, 1] != EMPTY:
            place = _bucket(slots[old, 0], larger)
            while larger[place, 1] != EMPTY:
                place = (place + 1) & (len(larger) - 1)
            larger[place, 0], larger[place, 1] = slots[old, 0], slots[old, 1]


@njit(cache=True, nogil=True, error_model="numpy")
def hash_all(offsets: Int32s, data: Bytes, hashes: Hashes) -> None:
    """Write the hash of each value into ``hashes``: the same in every process."""
    for row in range(len(hashes)):
        hashes[row] = _hash(data, offsets[row], offsets[row + 1] - offsets[row])


@njit(cache=True, nogil=True, error_model="numpy")
def lay_out(codes: Int64s, starts: Int64s, offsets: Int32s) -> int:
    """Write the start of each value of ``codes``, and the end (n + 1); return the number of bytes."""
    end = 0
    offsets[0] = 0
    for row in range(len(codes)):
        prefetch_block(starts, codes, row)
        code = np.uint64(codes[row])
        end += starts[code + np.uint64(1)] - starts[code]
        offsets[row + 1] = end
    return end


@njit(cache=True, nogil=True, error_model="numpy")
def gather(codes: Int64s, starts: Int64s, pool: Bytes, offsets: Int32s, data: Bytes) -> None:
    """Write the values of ``codes`` at the starts from ``lay_out``; ``data`` has ``WIDE`` extra bytes.

    They are copied in pieces of that size: the next value overwrites the surplus of the one before.
    """
    is_far = len(pool) > NEAR_BYTES
    for row in range(len(codes)):
        if is_far and row & (BLOCK - 1) == 0:
            for one in range(row, min(row + BLOCK, len(codes))):
                start = starts[np.uint64(codes[one])]
                prefetch(pool, start)
                prefetch(pool, min(start + LINE_BYTES, len(pool) - 1))
        start = starts[np.uint64(codes[row])]
        begin = int(offsets[row])
        _copy(pool, start, int(offsets[row + 1]) - begin, data, begin)


@njit(cache=True, nogil=True, error_model="numpy", forceinline=True)
def _copy(pool: Bytes, start: int, length: int, data: Bytes, begin: int) -> None:
    """Copy bytes, and the bytes after them up to a whole piece of ``WIDE`` bytes; short texts by words."""
    if length <= SHORT:
        done = 0
        while done < length:
            _store(data, begin + done, _word(pool, start + done, length - done))
            done += WORD
        return
    if start + length + WIDE > len(pool):
        for index in range(length):
            data[begin + index] = pool[start + index]
        return
    source, target, end = np.uint64(start), np.uint64(begin), np.uint64(start + length)
    while source < end:
        # With a fixed size, it is a few wide loads and stores.
        for at in range(WIDE):
            data[target + np.uint64(at)] = pool[source + np.uint64(at)]
        source += np.uint64(WIDE)
        target += np.uint64(WIDE)


@njit(cache=True, nogil=True, error_model="numpy")
def take_texts(offsets: Int32s, data: Bytes, places: Int64s, out_offsets: Int32s, out: Bytes) -> None:
    """Take texts by index; ``out`` has room for ``WORD`` extra bytes."""
    end = 0
    out_offsets[0] = 0
    for row in range(len(places)):
        place = np.uint64(places[row])
        begin = int(offsets[place])
        length = int(offsets[place + np.uint64(1)]) - begin
        done = 0
        while done < length:
            _store(out, end + done, _word(data, begin + done, length - done))
            done += WORD
        end += length
        out_offsets[row + 1] = end
