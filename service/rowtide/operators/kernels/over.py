"""Windows of an OVER, row by row: frames that end with the current row or before it.

``advance`` moves each row's frame and writes down what happens, in order, as
``steps``: a slot, and whether a row is written to it, enters the frame from it,
or leaves the frame and the slot. The other kernels follow these steps, one for
what a call computes, and give a result a row. Slots hold the rows of all
partitions, each names the next of its partition; one that is left is the first
to be taken again, so they are as many as there ever were rows at a time.

Sums are exact (``operators.exact_sums``). What has left a frame leaves no
trace, as in ``operators.window_functions``.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.extending import intrinsic
from numpy.typing import NDArray

from rowtide.operators.exact_sums import HIGHEST, LOWEST

Int64s = NDArray[np.int64]
Int32s = NDArray[np.int32]
Words = NDArray[np.uint64]
Values = NDArray[Any]
Sum = tuple[np.uint64, np.uint64, np.uint64, np.uint64]
"""Words of a sum, the lowest first, in two's complement. In variables: a load of several words just after
each was stored waits for them all."""
Mask = NDArray[np.bool_]

HEAD, TAIL, PENDING, LAST, INSIDE, AHEAD = range(6)
"""Of a partition: the slots of its first row inside the frame, its last row, its first row ahead of it, its
last row inside; how many are inside and how many ahead."""
WIDTH = 8

LEAVE, WRITE, ENTER = range(3)
"""What a step does; 3 is WRITE and ENTER. A step is a slot * 4 + this."""
STORED, FREE = range(2)
"""How many slots were ever taken, and how many of them are free."""

BY_ROWS, START, TO_CURRENT, END_BY_ROWS, END = range(5)
"""Of a frame: whether its edges count rows, their offsets, whether it ends with the current row."""

HALF = 0xFFFFFFFF
"""The low half of an integer: integers are summed by halves, which carry over only when a result is made."""
MANTISSA = (1 << 52) - 1
MIN_INT64 = -(2**63)


def _count_leading_zeros(typing_context: Any, value: Any) -> Any:
    """Count the zero bits above the first one of a uint64 that is not 0."""

    def generate(context: Any, builder: ir.IRBuilder, signature: Any, args: Any) -> Any:
        return builder.ctlz(args[0], ir.Constant(ir.IntType(1), 1))

    return types.int64(types.uint64), generate


_leading_zeros: Any = intrinsic(_count_leading_zeros)


@njit(cache=True, nogil=True, error_model="numpy")
def advance(
    groups: Int64s,
    order: Int64s,
    first_row: int,
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
    """Move the frames of the rows from ``first_row`` on; give the row before which ``steps`` is full.

    ``orders`` has what a slot's row is ordered by, where an edge is in time. ``until`` becomes how many steps
    there are after each row, ``first`` and ``last`` the slots at the ends of its frame, -1 if that is empty.
    """
    by_rows, start, to_current = frame[BY_ROWS] != 0, frame[START], frame[TO_CURRENT] != 0
    end_by_rows, end = frame[END_BY_ROWS] != 0, frame[END]
    only_rows = by_rows and end_by_rows
    stored, free_slots = slots[STORED], slots[FREE]
    used = 0
    stop = len(groups)
    for row in range(first_row, len(groups)):
        group = groups[row]
        inside, ahead = np.int64(partitions[group, INSIDE]), np.int64(partitions[group, AHEAD])
        # Counted by rows, an edge moves by one at most; by time, a row ahead may enter and leave at once.
        if used + (3 if only_rows else inside + 2 * ahead + 1) > len(steps):
            stop = row
            break
        head, final = np.int64(partitions[group, HEAD]), np.int64(partitions[group, LAST])
        before = inside + ahead
        if not to_current:
            pending = np.int64(partitions[group, PENDING])
            while ahead and (ahead + end >= 0 if end_by_rows else orders[pending] <= order[row] + end):
                if not inside:
                    head = pending
                inside += 1
                ahead -= 1
                final = pending
                steps[used] = 4 * pending + ENTER
                used += 1
                pending = np.int64(following[pending])
            partitions[group, PENDING] = pending
        while inside and (inside + ahead + start > 0 if by_rows else orders[head] < order[row] + start):
            steps[used] = 4 * head + LEAVE
            used += 1
            free[free_slots] = head
            free_slots += 1
            head = np.int64(following[head])
            inside -= 1
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
def advance_rings(
    groups: Int64s, size: int, rings: Int32s, steps: Int64s, until: Int64s, first: Int64s, last: Int64s
) -> None:
    """Move frames of the last ``size`` rows: each partition has as many slots side by side.

    A partition's ``rings`` are the place of its next slot, and how many rows are inside. There is room for
    two steps a row. The others are as of ``advance``; ``first`` and ``last`` may be empty, if nobody asks.
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
    steps: Int64s,
    until: Int64s,
) -> None:
    """Let the rows go that are ordered before ``least``: ``until`` has a place a partition."""
    used = 0
    free_slots = slots[FREE]
    for group in range(count):
        head, inside = np.int64(partitions[group, HEAD]), np.int64(partitions[group, INSIDE])
        while inside and orders[head] < least:
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
        while ahead and orders[pending] < least:
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
    """Give the value of each step's slot; rows from ``row`` on are written where a step says so."""
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


@njit(cache=True, nogil=True, error_model="numpy")
def sums(
    groups: Int64s,
    first_row: int,
    end_row: int,
    steps: Int64s,
    until: Int64s,
    values: Int64s,
    used: Mask,
    state: Int64s,
    found: Int64s,
    above: Int64s,
    counted: Int64s,
) -> None:
    """Add up integers: ``found`` is the sum modulo 2**64, ``above`` what it has from bit 63 on.

    A partition's ``state`` is how many values there are, then the halves of their sum.
    """
    at = 0
    for row in range(first_row, end_row):
        group = groups[row]
        now, low, high = state[group, 0], state[group, 1], state[group, 2]
        while at < until[row]:
            if used[at] and steps[at] & 3 != WRITE:
                sign = 1 if steps[at] & ENTER else -1
                now += sign
                low += sign * (values[at] & HALF)
                high += sign * (values[at] >> 32)
            at += 1
        state[group, 0], state[group, 1], state[group, 2] = now, low, high
        high += low >> 32
        found[row] = (high << 32) | (low & HALF)
        above[row] = high >> 31
        counted[row] = now


@njit(cache=True, nogil=True, error_model="numpy")
def doubles_fit(bits: Int64s, use: Mask) -> bool:
    """Tell whether the sums of these doubles can be kept in words; infinities and NaN cannot."""
    for row in range(len(bits)):
        exponent = (bits[row] >> 52) & 0x7FF
        if 1075 + LOWEST <= exponent < 1023 + HIGHEST or not use[row]:
            continue
        mantissa = bits[row] & MANTISSA
        if exponent == 0 and mantissa == 0:
            continue
        below = LOWEST - (exponent - 1075)
        if exponent == 0 or below <= 0 or below > 52 or mantissa & ((1 << below) - 1):
            return False
    return True


@njit(cache=True, nogil=True, error_model="numpy", forceinline=True)
def _added(sum_: Sum, bits: int, leaves: bool) -> Sum:
    """Give a sum and a double, or without it where it leaves."""
    exponent = (bits >> 52) & 0x7FF
    if exponent == 0:
        return sum_
    mantissa = (bits & MANTISSA) | (1 << 52)
    shift = exponent - 1075 - LOWEST
    if shift < 0:
        mantissa >>= -shift
        shift = 0
    low = np.uint64(mantissa) << np.uint64(shift & 63)
    # In two shifts, as one of 64 is none.
    high = (np.uint64(mantissa) >> np.uint64(1)) >> np.uint64(63 - (shift & 63))
    zero = np.uint64(0)
    add0, add1, add2, add3 = low, high, zero, zero
    if shift >= 128:
        add0, add1, add2, add3 = zero, zero, low, high
    elif shift >= 64:
        add0, add1, add2, add3 = zero, low, high, zero
    carry = zero
    if (bits < 0) != leaves:
        # The complement, and 1: what is added is taken away.
        add0, add1, add2, add3 = ~add0, ~add1, ~add2, ~add3
        carry = np.uint64(1)
    word0 = sum_[0] + add0 + carry
    carry = np.uint64(word0 < add0 or (carry != zero and word0 == add0))
    word1 = sum_[1] + add1 + carry
    carry = np.uint64(word1 < add1 or (carry != zero and word1 == add1))
    word2 = sum_[2] + add2 + carry
    carry = np.uint64(word2 < add2 or (carry != zero and word2 == add2))
    return word0, word1, word2, sum_[3] + add3 + carry


@njit(cache=True, nogil=True, error_model="numpy", forceinline=True)
def _nearest(sum_: Sum, count: int) -> int:
    """Give the bits of the double nearest to a sum divided by ``count``; ties go to even."""
    word0, word1, word2, word3 = sum_
    zero, one = np.uint64(0), np.uint64(1)
    negative = word3 >> np.uint64(63) != zero
    if negative:
        # The complement, and 1: the magnitude.
        word0 = ~word0 + one
        word1 = ~word1 + np.uint64(word0 == zero)
        word2 = ~word2 + np.uint64(word0 == zero and word1 == zero)
        word3 = ~word3 + np.uint64(word0 == zero and word1 == zero and word2 == zero)
    # The sum is high * 2**64 + low and what is below, in units of 2**exponent.
    if word3 != zero:
        high, low, below, exponent = word3, word2, (word1 | word0) != zero, LOWEST + 128
    elif word2 != zero:
        high, low, below, exponent = word2, word1, word0 != zero, LOWEST + 64
    elif word1 != zero:
        high, low, below, exponent = word1, word0, False, LOWEST
    elif word0 != zero:
        high, low, below, exponent = word0, zero, False, LOWEST - 64
    else:
        return 0
    zeros = _leading_zeros(high)
    if zeros:
        high = (high << np.uint64(zeros)) | (low >> np.uint64(64 - zeros))
        low <<= np.uint64(zeros)
        exponent -= zeros
        zeros = 0
    if count > 1:
        divisor = np.uint64(count)
        quotient = high // divisor
        rest = high - quotient * divisor
        zeros = _leading_zeros(quotient)
        if zeros <= 9:
            # The quotient alone has the bits that a double has, and one more.
            high = quotient << np.uint64(zeros)
            below |= (low | rest) != 0
            low = np.uint64(0)
        else:
            below |= low & np.uint64(HALF) != 0
            low = (rest << np.uint64(32)) | (low >> np.uint64(32))
            next_quotient = low // divisor
            below |= low != next_quotient * divisor
            low = next_quotient << np.uint64(32)
            high = (quotient << np.uint64(zeros)) | (low >> np.uint64(64 - zeros))
            low <<= np.uint64(zeros)
    below |= low != 0
    kept = np.int64(high >> np.uint64(11))
    rounded = np.int64(high & np.uint64(0x7FF))
    # More than half a unit rounds up, and just a half where there is more below or the unit is odd.
    kept += (rounded + 0x3FF + ((1 if below else 0) | (kept & 1))) >> 11
    # Where ``kept`` has become 2**53 it carries over into the exponent, as it should.
    bits = ((exponent + 64 - zeros + 11 + 52 + 1023) << 52) + kept - (1 << 52)
    return bits | MIN_INT64 if negative else bits


@njit(cache=True, nogil=True, error_model="numpy")
def double_sums(
    groups: Int64s,
    first_row: int,
    end_row: int,
    steps: Int64s,
    until: Int64s,
    bits: Int64s,
    used: Mask,
    state: Words,
    mean: bool,
    found: Int64s,
    known: Mask,
) -> None:
    """Add up doubles; ``found`` becomes the bits of the sums, or of the means.

    A partition's ``state`` is how many values there are, then the words of their sum.
    """
    at = 0
    for row in range(first_row, end_row):
        group = groups[row]
        now = np.int64(state[group, 0])
        sum_ = (state[group, 1], state[group, 2], state[group, 3], state[group, 4])
        while at < until[row]:
            if used[at] and steps[at] & 3 != WRITE:
                enters = steps[at] & ENTER != 0
                now += 1 if enters else -1
                sum_ = _added(sum_, bits[at], not enters)
            at += 1
        state[group, 0] = np.uint64(now)
        state[group, 1], state[group, 2], state[group, 3], state[group, 4] = sum_
        known[row] = now > 0
        found[row] = _nearest(sum_, int(now) if mean else 1) if now else 0


LENGTH, FRONT, BACK = range(3)
"""Of a partition, for MIN and MAX: how many values may still become the best, the first and the last one."""


@njit(cache=True, nogil=True, error_model="numpy")
def extremes(
    groups: Int64s,
    first_row: int,
    end_row: int,
    steps: Int64s,
    until: Int64s,
    values: Values,
    use: Mask,
    held: Values,
    best: Int64s,
    before: Int32s,
    behind: Int32s,
    greatest: bool,
    found: Values,
    known: Mask,
) -> None:
    """Find the least or greatest value; ``before`` and ``behind`` link those that may still become the best.

    ``values`` and ``use`` are by step; ``held`` are the values of slots. Of equal ones (zeros have signs) the
    first is the result.
    """
    at = 0
    for row in range(first_row, end_row):
        group = groups[row]
        length, front, back = best[group, LENGTH], best[group, FRONT], best[group, BACK]
        while at < until[row]:
            slot, kind = steps[at] >> 2, steps[at] & 3
            if kind == LEAVE:
                if length and front == slot:
                    length -= 1
                    front = np.int64(behind[front])
            elif kind & ENTER and use[at]:
                value = values[at]
                held[slot] = value
                while length and (held[back] < value if greatest else held[back] > value):
                    length -= 1
                    back = np.int64(before[back])
                if length:
                    behind[back] = slot
                    before[slot] = back
                else:
                    front = slot
                back = slot
                length += 1
            at += 1
        best[group, LENGTH], best[group, FRONT], best[group, BACK] = length, front, back
        known[row] = length > 0
        if length:
            found[row] = held[front]


@njit(cache=True, nogil=True, error_model="numpy")
def picks(
    first_row: int,
    end_row: int,
    steps: Int64s,
    until: Int64s,
    ends: Int64s,
    given: Values,
    use: Mask,
    held: Values,
    held_use: Mask,
    found: Values,
    known: Mask,
) -> None:
    """Give the value at one end of each row's frame, 0 where that is empty."""
    at = 0
    for row in range(first_row, end_row):
        slot = -1
        while at < until[row]:
            if steps[at] & WRITE:
                slot = steps[at] >> 2
                if steps[at] & ENTER:
                    held[slot], held_use[slot] = given[row], use[row]
            at += 1
        end = ends[row]
        found[row] = held[end] if end >= 0 else 0
        known[row] = end >= 0 and held_use[end]
        # A row ahead of its own frame may have the slot of one that has just left it.
        held[slot], held_use[slot] = given[row], use[row]


@njit(cache=True, nogil=True, error_model="numpy")
def running_extremes(
    groups: Int64s,
    values: Values,
    use: Mask,
    seen: Mask,
    best: Values,
    greatest: bool,
    found: Values,
    known: Mask,
) -> None:
    """Find the least or greatest value so far, of equal ones the first; ``seen``: a partition has had one."""
    for row in range(len(groups)):
        group, value = groups[row], values[row]
        if use[row] and (not seen[group] or (value > best[group] if greatest else value < best[group])):
            best[group] = value
            seen[group] = True
        found[row], known[row] = best[group], seen[group]


@njit(cache=True, nogil=True, error_model="numpy")
def ranks(
    groups: Int64s, order: Int64s, rows: Int64s, rank: Int64s, last: Int64s, dense: bool, found: Int64s
) -> None:
    """Rank rows by what the window is ordered by."""
    for row in range(len(groups)):
        group = groups[row]
        rows[group] += 1
        if rows[group] == 1 or order[row] != last[group]:
            rank[group] = rank[group] + 1 if dense else rows[group]
            last[group] = order[row]
        found[row] = rank[group]
