"""Sums of the values in the frames of an OVER, following the steps that ``kernels.frames`` recorded.

Sums are exact (``aggregates.arithmetic.exact_sums``). A value that has left a frame has no effect.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.extending import intrinsic

from rowtide.operators.aggregates.arithmetic.exact_sums import HIGHEST, LOWEST
from rowtide.operators.aggregates.kernels.frames import ENTER, WRITE
from rowtide.rows.arrays import Int64s, Mask, Words

Sum = tuple[np.uint64, np.uint64, np.uint64, np.uint64]
"""Words of a sum, the lowest first, in two's complement. In variables: a load of several words just after
each was stored waits for them all."""

HALF = 0xFFFFFFFF
"""The low half of an integer: integers are summed by halves, which carry over only when a result is made."""
MANTISSA = (1 << 52) - 1
MIN_INT64 = -(2**63)


def _count_leading_zeros(typing_context: Any, value: Any) -> Any:
    """Count the zero bits above the first one of a uint64 that is not 0."""

    def generate(context: Any, builder: ir.IRBuilder, signature: Any, args: Any) -> Any:
        return builder.ctlz(args[0], ir.Constant(ir.IntType(1), 1))

    return types.int64(types.uint64), generate


leading_zeros: Any = intrinsic(_count_leading_zeros)


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
    """Return whether the sums of these doubles can be kept in words; infinities and NaN cannot."""
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
    """Return a sum and a double, or without it where it leaves."""
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
        # The complement plus 1: adding it subtracts the value.
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
def rounded(high: np.uint64, below: bool, exponent: int) -> int:
    """Return the bits of the double nearest to ``high`` * 2**exponent and what is below; ties go to even.

    The highest bit of ``high`` is set; ``below``: there is something more, less than one of its units.
    """
    kept = np.int64(high >> np.uint64(11))
    rest = np.int64(high & np.uint64(0x7FF))
    # More than half a unit rounds up, and just a half where there is more below or the unit is odd.
    kept += (rest + 0x3FF + ((1 if below else 0) | (kept & 1))) >> 11
    # If ``kept`` is 2**53, it carries over into the exponent, which is correct.
    return int(((exponent + 11 + 52 + 1023) << 52) + kept - (1 << 52))


@njit(cache=True, nogil=True, error_model="numpy", forceinline=True)
def _nearest(sum_: Sum, count: int) -> int:
    """Return the bits of the double nearest to a sum divided by ``count``; ties go to even."""
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
    zeros = leading_zeros(high)
    if zeros:
        high = (high << np.uint64(zeros)) | (low >> np.uint64(64 - zeros))
        low <<= np.uint64(zeros)
        exponent -= zeros
        zeros = 0
    if count > 1:
        divisor = np.uint64(count)
        quotient = high // divisor
        rest = high - quotient * divisor
        zeros = leading_zeros(quotient)
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
    bits = rounded(high, below or low != zero, exponent + 64 - zeros)
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
