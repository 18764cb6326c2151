"""Windows of an OVER, row by row: frames that end with the current row or before it.

``advance`` moves each row's frame and writes down what enters and what leaves,
in order, as ``steps``: the number of an entry that enters, or its complement
where it leaves. The other kernels follow these steps, one for what a call
computes, and give a result a row. Entries are a log of the rows of all
partitions; each names the next of its partition.

Sums are exact (``operators.exact_sums``). What has left a frame leaves no trace, as in
``operators.window_functions``.
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
Words = NDArray[np.uint64]
Values = NDArray[Any]
Sum = tuple[np.uint64, np.uint64, np.uint64, np.uint64]
"""Words of a sum, the lowest first, in two's complement. In variables: a load of several words just after
each was stored waits for them all."""
Mask = NDArray[np.bool_]

HEAD, TAIL, PENDING, LAST, INSIDE, AHEAD, LOW, SEEN = range(8)
"""Of a partition: its first row inside the frame, its last row, its first row ahead of the frame, its last
row inside; how many are inside and how many ahead; the number of the first row inside; for a frame without a
start, how many rows there were."""
WIDTH = 8

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
    partitions: Int64s,
    following: Int64s,
    orders: Int64s,
    stored: int,
    steps: Int64s,
    until: Int64s,
    first: Int64s,
    last: Int64s,
) -> int:
    """Move the frames of the rows from ``first_row`` on; give the row before which ``steps`` is full.

    Row r becomes entry ``stored`` + r; ``orders`` has what it is ordered by already. ``until`` becomes how
    many steps there are after each row, ``first`` and ``last`` the ends of its frame, -1 if that is empty.
    """
    by_rows, start, to_current = frame[BY_ROWS] != 0, frame[START], frame[TO_CURRENT] != 0
    end_by_rows, end = frame[END_BY_ROWS] != 0, frame[END]
    used = 0
    for row in range(first_row, len(groups)):
        group, now = groups[row], order[row]
        inside, ahead, low = partitions[group, INSIDE], partitions[group, AHEAD], partitions[group, LOW]
        # Counted by rows, an edge moves by one at most.
        if used + (3 if by_rows and end_by_rows else inside + ahead + 1) > len(steps):
            return row
        head, final = partitions[group, HEAD], partitions[group, LAST]
        number = low + inside + ahead
        entry = stored + row
        if inside + ahead:
            following[partitions[group, TAIL]] = entry
        partitions[group, TAIL] = entry
        if not to_current:
            pending = partitions[group, PENDING]
            while ahead and (low + inside <= number + end if end_by_rows else orders[pending] <= now + end):
                if not inside:
                    head = pending
                inside += 1
                ahead -= 1
                final = pending
                steps[used] = pending
                used += 1
                pending = following[pending]
            partitions[group, PENDING] = pending if ahead else entry
            ahead += 1
        while inside and (low < number + start if by_rows else orders[head] < now + start):
            steps[used] = ~head
            used += 1
            head = following[head]
            inside -= 1
            low += 1
        if to_current:
            if not inside:
                head = entry
            inside += 1
            final = entry
            steps[used] = entry
            used += 1
        partitions[group, HEAD], partitions[group, LAST] = head, final
        partitions[group, INSIDE], partitions[group, AHEAD], partitions[group, LOW] = inside, ahead, low
        until[row] = used
        first[row] = head if inside else -1
        last[row] = final if inside else -1
    return len(groups)


@njit(cache=True, nogil=True, error_model="numpy")
def expire(
    partitions: Int64s,
    count: int,
    following: Int64s,
    orders: Int64s,
    least: int,
    steps: Int64s,
    until: Int64s,
) -> None:
    """Let the entries go that are ordered before ``least``: ``until`` has a place a partition."""
    used = 0
    for group in range(count):
        while partitions[group, INSIDE] and orders[partitions[group, HEAD]] < least:
            steps[used] = ~partitions[group, HEAD]
            used += 1
            partitions[group, HEAD] = following[partitions[group, HEAD]]
            partitions[group, INSIDE] -= 1
            partitions[group, LOW] += 1
        until[group] = used
        if partitions[group, INSIDE]:
            continue
        while partitions[group, AHEAD] and orders[partitions[group, PENDING]] < least:
            partitions[group, PENDING] = following[partitions[group, PENDING]]
            partitions[group, AHEAD] -= 1
            partitions[group, LOW] += 1


@njit(cache=True, nogil=True, error_model="numpy")
def list_entries(
    partitions: Int64s, kept: Int64s, following: Int64s, numbers: Int64s, entries: Int64s
) -> None:
    """List the entries of the partitions ``kept``, in order: the place of each in ``kept`` and its number."""
    count = 0
    for place in range(len(kept)):
        group = kept[place]
        inside = partitions[group, INSIDE]
        entry = partitions[group, HEAD] if inside else partitions[group, PENDING]
        for _ in range(inside + partitions[group, AHEAD]):
            numbers[count], entries[count] = place, entry
            entry = following[entry]
            count += 1


@njit(cache=True, nogil=True, error_model="numpy")
def of_steps(steps: Int64s, count: int, values: Values, found: Values) -> None:
    """Give the value of the entry of each step."""
    for at in range(count):
        found[at] = values[steps[at] ^ (steps[at] >> 63)]


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
    """Count the entries in use."""
    at = 0
    for row in range(first_row, end_row):
        group = groups[row]
        now = count[group]
        while at < until[row]:
            if used[at]:
                now += 1 if steps[at] >= 0 else -1
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
    count: Int64s,
    halves: Int64s,
    found: Int64s,
    above: Int64s,
    counted: Int64s,
) -> None:
    """Add up integers: ``found`` is the sum modulo 2**64, ``above`` what it has from bit 63 on."""
    at = 0
    for row in range(first_row, end_row):
        group = groups[row]
        now, low, high = count[group], halves[group, 0], halves[group, 1]
        while at < until[row]:
            if used[at]:
                sign = 1 if steps[at] >= 0 else -1
                now += sign
                low += sign * (values[at] & HALF)
                high += sign * (values[at] >> 32)
            at += 1
        count[group], halves[group, 0], halves[group, 1] = now, low, high
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
    count: Int64s,
    words: Words,
    mean: bool,
    found: Int64s,
    known: Mask,
) -> None:
    """Add up doubles; ``found`` becomes the bits of the sums, or of the means."""
    at = 0
    for row in range(first_row, end_row):
        group = groups[row]
        now = count[group]
        sum_ = (words[group, 0], words[group, 1], words[group, 2], words[group, 3])
        while at < until[row]:
            if used[at]:
                now += 1 if steps[at] >= 0 else -1
                sum_ = _added(sum_, bits[at], steps[at] < 0)
            at += 1
        count[group] = now
        words[group, 0], words[group, 1], words[group, 2], words[group, 3] = sum_
        known[row] = now > 0
        found[row] = _nearest(sum_, now if mean else 1) if now else 0


@njit(cache=True, nogil=True, error_model="numpy")
def carry_over(halves: Int64s, count: int) -> None:
    """Let the low halves of sums carry over, so that as many rows again can be added."""
    for group in range(count):
        halves[group, 1] += halves[group, 0] >> 32
        halves[group, 0] &= HALF


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
    best: Int64s,
    before: Int64s,
    behind: Int64s,
    greatest: bool,
    found: Values,
    known: Mask,
) -> None:
    """Find the least or greatest value; ``before`` and ``behind`` link those that may still become the best.

    Of equal ones (zeros have signs) the first is the result.
    """
    at = 0
    for row in range(first_row, end_row):
        group = groups[row]
        length, front, back = best[group, LENGTH], best[group, FRONT], best[group, BACK]
        while at < until[row]:
            step = steps[at]
            at += 1
            if step < 0:
                if length and front == ~step:
                    length -= 1
                    front = behind[front]
            elif use[step]:
                value = values[step]
                while length and (values[back] < value if greatest else values[back] > value):
                    length -= 1
                    back = before[back]
                if length:
                    behind[back] = step
                    before[step] = back
                else:
                    front = step
                back = step
                length += 1
        best[group, LENGTH], best[group, FRONT], best[group, BACK] = length, front, back
        known[row] = length > 0
        if length:
            found[row] = values[front]


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
