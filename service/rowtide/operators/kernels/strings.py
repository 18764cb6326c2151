"""Interning of variable-width values: bytes to dense int64 codes, by open addressing.

The table's arrays are owned by ``operators.keys.TextTable``, which makes room
before each call: a kernel never allocates and never fails.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

MIX = np.uint64(0x9E3779B97F4A7C15)
SHIFT = np.uint64(32)
LOW = np.uint64((1 << 32) - 1)
WORD = 8
"""Bytes that are hashed together. Values of one length up to this have one hash only if they are equal."""
BLOCK = 256
"""Values that are looked up together."""

Int64s = NDArray[np.int64]
Int32s = NDArray[np.int32]
Bytes = NDArray[np.uint8]
Marks = NDArray[np.uint64]


@njit(cache=True, nogil=True, error_model="numpy", forceinline=True)
def _word(data: Bytes, begin: int, length: int) -> np.uint64:
    """Give up to ``WORD`` bytes as a number, the first one lowest."""
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
            # Once more: places are low bits, and of texts that differ in their last letters these hardly did.
            value *= MIX
            return value ^ (value >> SHIFT)


@njit(cache=True, nogil=True, error_model="numpy", forceinline=True)
def _is_same(data: Bytes, begin: int, length: int, start: int, pool: Bytes) -> bool:
    index = 0
    while index < length and pool[start + index] == data[begin + index]:
        index += 1
    return index == length


@njit(cache=True, nogil=True, error_model="numpy", forceinline=True)
def _guess(
    offsets: Int32s,
    data: Bytes,
    slots: Int32s,
    marks: Marks,
    first: int,
    count: int,
    hashes: Marks,
    guesses: Int64s,
) -> None:
    """Look up ``count`` values from ``first`` on at their first places; -1 where they do not stand there.

    One step for all before the next one: so the memory is asked for many of them at a time.
    """
    mask = len(slots) - 1
    for at in range(count):
        begin = offsets[first + at]
        hashes[at] = _hash(data, begin, offsets[first + at + 1] - begin)
    for at in range(count):
        guesses[at] = slots[np.int64(hashes[at] & LOW) & mask]
    for at in range(count):
        code = max(guesses[at], 0)
        length = np.uint64(offsets[first + at + 1] - offsets[first + at])
        if marks[code, 0] != hashes[at] or marks[code, 1] != length:
            guesses[at] = -1


@njit(cache=True, nogil=True, error_model="numpy")
def intern(
    offsets: Int32s,
    data: Bytes,
    slots: Int32s,
    marks: Marks,
    starts: Int64s,
    pool: Bytes,
    count: int,
    codes: Int64s,
) -> int:
    """Write the code of each value into ``codes`` and give the new number of distinct values.

    ``offsets`` (n + 1) and ``data`` are the Arrow buffers of the values. ``slots`` has a power of
    two places, -1 where empty, at least twice as many as there will be distinct values; value
    ``i`` stands in ``pool[starts[i]:starts[i + 1]]`` and has hash and length ``marks[i]``.
    """
    mask = len(slots) - 1
    hashes, guesses = np.empty(BLOCK, dtype=np.uint64), np.empty(BLOCK, dtype=np.int64)
    for row in range(len(offsets) - 1):
        at = row % BLOCK
        if at == 0:
            _guess(offsets, data, slots, marks, row, min(BLOCK, len(codes) - row), hashes, guesses)
        begin = offsets[row]
        length = offsets[row + 1] - begin
        code = guesses[at]
        if code >= 0 and (length <= WORD or _is_same(data, begin, length, starts[code], pool)):
            codes[row] = code
            continue
        value = hashes[at]
        place = np.int64(value & LOW) & mask
        while True:
            code = slots[place]
            if code < 0:
                slots[place] = count
                marks[count, 0], marks[count, 1] = value, np.uint64(length)
                start = starts[count]
                for index in range(length):
                    pool[start + index] = data[begin + index]
                starts[count + 1] = start + length
                codes[row] = count
                count += 1
                break
            if (
                marks[code, 0] == value
                and marks[code, 1] == np.uint64(length)
                and (length <= WORD or _is_same(data, begin, length, starts[code], pool))
            ):
                codes[row] = code
                break
            place = (place + 1) & mask
    return count


@njit(cache=True, nogil=True, error_model="numpy")
def find(
    offsets: Int32s, data: Bytes, slots: Int32s, marks: Marks, starts: Int64s, pool: Bytes, codes: Int64s
) -> None:
    """Write the code of each value into ``codes``, -1 for one that the table does not have."""
    mask = len(slots) - 1
    hashes, guesses = np.empty(BLOCK, dtype=np.uint64), np.empty(BLOCK, dtype=np.int64)
    for row in range(len(offsets) - 1):
        at = row % BLOCK
        if at == 0:
            _guess(offsets, data, slots, marks, row, min(BLOCK, len(codes) - row), hashes, guesses)
        begin = offsets[row]
        length = offsets[row + 1] - begin
        codes[row] = guesses[at]
        if codes[row] >= 0 and (length <= WORD or _is_same(data, begin, length, starts[codes[row]], pool)):
            continue
        codes[row] = -1
        place = np.int64(hashes[at] & LOW) & mask
        while slots[place] >= 0:
            code = slots[place]
            if (
                marks[code, 0] == hashes[at]
                and marks[code, 1] == np.uint64(length)
                and (length <= WORD or _is_same(data, begin, length, starts[code], pool))
            ):
                codes[row] = code
                break
            place = (place + 1) & mask


@njit(cache=True, nogil=True, error_model="numpy")
def numbers_of(codes: Int64s, number_of: Int64s, numbers: Int64s) -> None:
    """Write the number that stands at each code: of -2 (NULL) the last one, of -1 (unknown) -1."""
    for row in range(len(codes)):
        code = codes[row]
        if code >= 0:
            numbers[row] = number_of[code]
        else:
            numbers[row] = -1 if code == -1 else number_of[len(number_of) - 1]


@njit(cache=True, nogil=True, error_model="numpy")
def rehash(slots: Int32s, marks: Marks, count: int) -> None:
    """Enter the first ``count`` values into ``slots``, which are all empty."""
    mask = len(slots) - 1
    for code in range(count):
        place = np.int64(marks[code, 0] & LOW) & mask
        while slots[place] >= 0:
            place = (place + 1) & mask
        slots[place] = code


@njit(cache=True, nogil=True, error_model="numpy")
def hash_all(offsets: Int32s, data: Bytes, hashes: Marks) -> None:
    """Write the hash of each value into ``hashes``: the same in every process."""
    for row in range(len(hashes)):
        hashes[row] = _hash(data, offsets[row], offsets[row + 1] - offsets[row])


@njit(cache=True, nogil=True, error_model="numpy")
def lay_out(codes: Int64s, starts: Int64s, offsets: Int32s) -> int:
    """Write where each value of ``codes`` will begin, and behind it the end (n + 1); give how many bytes."""
    end = 0
    offsets[0] = 0
    for row in range(len(codes)):
        end += starts[codes[row] + 1] - starts[codes[row]]
        offsets[row + 1] = end
    return end


@njit(cache=True, nogil=True, error_model="numpy")
def gather(codes: Int64s, starts: Int64s, pool: Bytes, offsets: Int32s, data: Bytes) -> None:
    """Write the values of ``codes`` to where ``lay_out`` has put them.

    What is no longer than a word is written as one; the next value goes over what is too much of it.
    """
    for row in range(len(codes)):
        start = starts[codes[row]]
        begin = int(offsets[row])
        length = int(offsets[row + 1]) - begin
        if length <= WORD and begin + WORD <= len(data):
            _store(data, begin, _word(pool, start, length))
        else:
            for index in range(length):
                data[begin + index] = pool[start + index]


@njit(cache=True, nogil=True, error_model="numpy")
def take_texts(offsets: Int32s, data: Bytes, places: Int64s, out_offsets: Int32s, out: Bytes) -> None:
    """Take texts by their places; ``out`` has room for ``WORD`` bytes more than they have."""
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
