"""Finding each row's group, and accumulating over groups.

Groups are numbered in the order of their first row. A group's key is a row of
int64 codes (``operators.storage.keys``); its period is part of the key.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from rowtide.operators.storage.kernels.extremes import is_better
from rowtide.operators.storage.kernels.prefetch import BLOCK, prefetch, prefetch_block
from rowtide.operators.storage.kernels.prefetch import NEAR as NEAR_PLACES
from rowtide.rows.arrays import Floats, Int32s, Int64s, Mask

Places = NDArray[np.uint64]

MIX = np.uint64(0x9E3779B97F4A7C15)
SHIFT = np.uint64(29)
NEAR_BITS = np.uint64(3)
NEAR = np.uint64((1 << 3) - 1)
"""Keys with consecutive last fields, like most assigned numbers, share a cache line."""


@njit(cache=True, nogil=True)
def _mixed(value: np.uint64, word: np.uint64) -> np.uint64:
    value = (value ^ word) * MIX
    return value ^ (value >> SHIFT)


@njit(cache=True, nogil=True)
def _near(value: np.uint64, word: np.uint64, mask: np.uint64) -> np.uint64:
    """Return the place of a key with hash ``value`` and last field ``word``."""
    return ((value & ~NEAR) | (word & NEAR)) & mask


@njit(cache=True, nogil=True)
def _place(keys: Int64s, row: int, mask: np.uint64) -> np.uint64:
    width = keys.shape[1]
    last = np.uint64(keys[row, max(width - 2, 0)])
    value = _mixed(np.uint64(0), last >> NEAR_BITS)
    for index in range(width):
        if index != width - 2:
            value = _mixed(value, np.uint64(keys[row, index]))
    return _near(value, last, mask)


@njit(cache=True, nogil=True)
def assign(
    keys: Int64s, slots: Int32s, group_keys: Int64s, count: int, groups: Int64s, firsts: Int64s
) -> int:
    """Write each row's group into ``groups`` and return the new number of groups.

    ``keys`` is (rows, width). ``slots`` has a power of two elements, -1 if empty, and room for all.
    ``group_keys`` is (capacity, width). ``firsts`` becomes the rows that began new groups, in order.
    """
    # The usual widths, one and two fields and the bits of their NULLs, need no inner loops.
    if keys.shape[1] == 2:
        return _assign_two(keys, slots, group_keys, count, groups, firsts)
    if keys.shape[1] == 3:
        return _assign_three(keys, slots, group_keys, count, groups, firsts)
    before = count
    mask = np.uint64(len(slots) - 1)
    width = keys.shape[1]
    for row in range(keys.shape[0]):
        place = _place(keys, row, mask)
        while True:
            group = slots[place]
            if group < 0:
                slots[place] = count
                for index in range(width):
                    group_keys[count, index] = keys[row, index]
                firsts[count - before] = row
                groups[row] = count
                count += 1
                break
            same = True
            for index in range(width):
                if group_keys[group, index] != keys[row, index]:
                    same = False
                    break
            if same:
                groups[row] = group
                break
            place = (place + np.uint64(1)) & mask
    return count


@njit(cache=True, nogil=True, forceinline=True)
def _place_of_two(keys: Int64s, row: int, mask: np.uint64) -> np.uint64:
    word = np.uint64(keys[row, 0])
    return _near(_mixed(_mixed(np.uint64(0), word >> NEAR_BITS), np.uint64(keys[row, 1])), word, mask)


@njit(cache=True, nogil=True, forceinline=True)
def _place_of_three(keys: Int64s, row: int, mask: np.uint64) -> np.uint64:
    word = np.uint64(keys[row, 1])
    value = _mixed(_mixed(np.uint64(0), word >> NEAR_BITS), np.uint64(keys[row, 0]))
    return _near(_mixed(value, np.uint64(keys[row, 2])), word, mask)


@njit(cache=True, nogil=True, forceinline=True)
def _ask(places: Places, rows: int, slots: Int32s, group_keys: Int64s) -> None:
    """Prefetch the memory of slots, then that of their keys, so that many loads overlap."""
    if len(slots) > NEAR_PLACES:
        for at in range(rows):
            prefetch(slots, np.int64(places[at]))
        for at in range(rows):
            prefetch(group_keys, max(np.int64(slots[places[at]]), 0))


@njit(cache=True, nogil=True)
def _assign_two(
    keys: Int64s, slots: Int32s, group_keys: Int64s, count: int, groups: Int64s, firsts: Int64s
) -> int:
    before = count
    mask = np.uint64(len(slots) - 1)
    places = np.empty(BLOCK, dtype=np.uint64)
    for row in range(keys.shape[0]):
        at = row & (BLOCK - 1)
        if at == 0:
            rows = min(BLOCK, keys.shape[0] - row)
            for one in range(rows):
                places[one] = _place_of_two(keys, row + one, mask)
            _ask(places, rows, slots, group_keys)
        first, nulls = keys[row, 0], keys[row, 1]
        place = places[at]
        while True:
            group = slots[place]
            if group < 0:
                slots[place] = count
                group_keys[count, 0], group_keys[count, 1] = first, nulls
                firsts[count - before] = row
                groups[row] = count
                count += 1
                break
            if group_keys[group, 0] == first and group_keys[group, 1] == nulls:
                groups[row] = group
                break
            place = (place + np.uint64(1)) & mask
    return count


@njit(cache=True, nogil=True)
def _assign_three(
    keys: Int64s, slots: Int32s, group_keys: Int64s, count: int, groups: Int64s, firsts: Int64s
) -> int:
    before = count
    mask = np.uint64(len(slots) - 1)
    places = np.empty(BLOCK, dtype=np.uint64)
    for row in range(keys.shape[0]):
        at = row & (BLOCK - 1)
        if at == 0:
            rows = min(BLOCK, keys.shape[0] - row)
            for one in range(rows):
                places[one] = _place_of_three(keys, row + one, mask)
            _ask(places, rows, slots, group_keys)
        first, second, nulls = keys[row, 0], keys[row, 1], keys[row, 2]
        place = places[at]
        while True:
            group = slots[place]
            if group < 0:
                slots[place] = count
                group_keys[count, 0], group_keys[count, 1] = first, second
                group_keys[count, 2] = nulls
                firsts[count - before] = row
                groups[row] = count
                count += 1
                break
            if (
                group_keys[group, 0] == first
                and group_keys[group, 1] == second
                and group_keys[group, 2] == nulls
            ):
                groups[row] = group
                break
            place = (place + np.uint64(1)) & mask
    return count


@njit(cache=True, nogil=True)
def assign_codes(
    codes: Int64s, group_of: Int64s, group_keys: Int64s, count: int, groups: Int64s, firsts: Int64s
) -> int:
    """Do the same as ``assign`` for dense keys of one code each: ``group_of`` has one element for each code.

    A NULL is the code -1, so its element is the last one. Elements without a group are -1.
    """
    before = count
    null = len(group_of) - 1
    for row in range(len(codes)):
        code = codes[row]
        place = code if code >= 0 else null
        group = group_of[place]
        if group < 0:
            group = count
            group_of[place] = group
            group_keys[group, 0] = max(code, 0)
            group_keys[group, 1] = code < 0
            firsts[count - before] = row
            count += 1
        groups[row] = group
    return count


@njit(cache=True, nogil=True)
def begin_codes(codes: Int64s, group_keys: Int64s, count: int, firsts: Int64s) -> int:
    """Do the same as ``assign`` if each row's group is its code: new codes are consecutive."""
    before = count
    for row in range(len(codes)):
        if codes[row] >= count:
            group_keys[count, 0], group_keys[count, 1] = codes[row], 0
            firsts[count - before] = row
            count += 1
    return count


@njit(cache=True, nogil=True)
def find(keys: Int64s, slots: Int32s, group_keys: Int64s, groups: Int64s) -> None:
    """Write each row's group into ``groups``, -1 if it has none. Makes no groups."""
    if keys.shape[1] == 2:
        _find_two(keys, slots, group_keys, groups)
        return
    mask = np.uint64(len(slots) - 1)
    width = keys.shape[1]
    for row in range(keys.shape[0]):
        place = _place(keys, row, mask)
        groups[row] = -1
        while slots[place] >= 0:
            group = slots[place]
            same = True
            for index in range(width):
                if group_keys[group, index] != keys[row, index]:
                    same = False
                    break
            if same:
                groups[row] = group
                break
            place = (place + np.uint64(1)) & mask


@njit(cache=True, nogil=True)
def _find_two(keys: Int64s, slots: Int32s, group_keys: Int64s, groups: Int64s) -> None:
    mask = np.uint64(len(slots) - 1)
    for row in range(keys.shape[0]):
        first, nulls = keys[row, 0], keys[row, 1]
        word = np.uint64(first)
        value = _mixed(_mixed(np.uint64(0), word >> NEAR_BITS), np.uint64(nulls))
        place = _near(value, word, mask)
        group = slots[place]
        while group >= 0 and (group_keys[group, 0] != first or group_keys[group, 1] != nulls):
            place = (place + np.uint64(1)) & mask
            group = slots[place]
        groups[row] = group


@njit(cache=True, nogil=True)
def enter(keys: Int64s, count: int, slots: Int32s) -> None:
    """Enter the first ``count`` distinct ``keys`` into ``slots``, which are all empty."""
    mask = np.uint64(len(slots) - 1)
    places = np.empty(BLOCK, dtype=np.uint64)
    for row in range(count):
        at = row & (BLOCK - 1)
        if at == 0:
            rows = min(BLOCK, count - row)
            for one in range(rows):
                places[one] = _place(keys, row + one, mask)
            for one in range(rows):
                prefetch(slots, np.int64(places[one]))
        place = places[at]
        while slots[place] >= 0:
            place = (place + np.uint64(1)) & mask
        slots[place] = row


@njit(cache=True, nogil=True)
def count_rows(groups: Int64s, use: Mask, total: Int64s) -> None:
    """Count the rows to use in each group."""
    for row in range(len(groups)):
        prefetch_block(total, groups, row)
        if use[row]:
            total[groups[row]] += 1


@njit(cache=True, nogil=True)
def sums_fit(groups: Int64s, values: Int64s, use: Mask, total: Int64s) -> bool:
    """Return whether no sum leaves int64 when these rows are added in order; ``total`` is as before."""
    rows = len(groups)
    added = 0
    while added < rows:
        if use[added]:
            group = groups[added]
            before = total[group]
            value = values[added]
            after = before + value
            if ((before ^ after) & (value ^ after)) < 0:
                break
            total[group] = after
        added += 1
    for row in range(added - 1, -1, -1):
        if use[row]:
            total[groups[row]] -= values[row]
    return added == rows


@njit(cache=True, nogil=True)
def float_sums_fit(groups: Int64s, values: Floats, use: Mask, total: Floats, before: Floats) -> bool:
    """Return whether all sums stay finite; ``total`` is as before, bit by bit.

    ``before`` has a place a row, for what the row's group had.
    """
    rows = len(groups)
    added = 0
    fit = True
    while added < rows and fit:
        if use[added]:
            group = groups[added]
            before[added] = total[group]
            total[group] += values[added]
            fit = np.isfinite(total[group])
        added += 1
    for row in range(added - 1, -1, -1):
        if use[row]:
            total[groups[row]] = before[row]
    return fit


@njit(cache=True, nogil=True)
def add_up(groups: Int64s, values: Int64s, use: Mask, total: Int64s) -> None:
    """Add values that fit, in row order. Works on int64 and double arrays."""
    for row in range(len(groups)):
        prefetch_block(total, groups, row)
        if use[row]:
            total[groups[row]] += values[row]


@njit(cache=True, nogil=True)
def add_all(groups: Int64s, values: Int64s, total: Int64s) -> None:
    """Add values that fit if all rows are used."""
    for row in range(len(groups)):
        prefetch_block(total, groups, row)
        total[groups[row]] += values[row]


@njit(cache=True, nogil=True)
def sum_wide(groups: Int64s, values: Int64s, use: Mask, high: Int64s, low: Int64s) -> None:
    """Add up int64 without a limit: the sum is high * 2**32 + low (for up to 2**31 rows a group)."""
    for row in range(len(groups)):
        prefetch_block(high, groups, row)
        prefetch_block(low, groups, row)
        if use[row]:
            group = groups[row]
            high[group] += values[row] >> 32
            low[group] += values[row] & 0xFFFFFFFF


@njit(cache=True, nogil=True)
def least(groups: Int64s, values: Int64s, use: Mask, best: Int64s, seen: Mask) -> None:
    """Keep the least value of each group. Works on int64 and double arrays."""
    for row in range(len(groups)):
        prefetch_block(best, groups, row)
        prefetch_block(seen, groups, row)
        if use[row]:
            group = groups[row]
            if not seen[group] or is_better(values[row], best[group], False):
                best[group] = values[row]
                seen[group] = True


@njit(cache=True, nogil=True)
def greatest(groups: Int64s, values: Int64s, use: Mask, best: Int64s, seen: Mask) -> None:
    """Keep the greatest value of each group. Works on int64 and double arrays."""
    for row in range(len(groups)):
        prefetch_block(best, groups, row)
        prefetch_block(seen, groups, row)
        if use[row]:
            group = groups[row]
            if not seen[group] or is_better(values[row], best[group], True):
                best[group] = values[row]
                seen[group] = True


@njit(cache=True, nogil=True)
def least_of_all(groups: Int64s, values: Int64s, best: Int64s, begun: int) -> int:
    """Do the same as ``least`` if all rows are used. The first ``begun`` groups have a value.

    Groups begin in the order of their numbers. Returns the number of groups with a value.
    """
    for row in range(len(groups)):
        prefetch_block(best, groups, row)
        group, value = groups[row], values[row]
        if group >= begun:
            best[group] = value
            begun = group + 1
        # No branch: the processor could not predict which value is better.
        held = best[group]
        best[group] = value if is_better(value, held, False) else held
    return begun


@njit(cache=True, nogil=True)
def greatest_of_all(groups: Int64s, values: Int64s, best: Int64s, begun: int) -> int:
    """Do the same as ``least_of_all`` for the greatest value."""
    for row in range(len(groups)):
        prefetch_block(best, groups, row)
        group, value = groups[row], values[row]
        if group >= begun:
            best[group] = value
            begun = group + 1
        # No branch: the processor could not predict which value is better.
        held = best[group]
        best[group] = value if is_better(value, held, True) else held
    return begun
