"""Exact variances of what is in the frames of an OVER, rounded once, by the steps of ``kernels.frames``.

A partition keeps how many values there are, their sum and the sum of their squares, in words of 64 bits: of
whole numbers, or of doubles as whole numbers of 2**LOWEST (``aggregates.arithmetic.exact_sums``).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.extending import intrinsic

from rowtide.operators.aggregates.arithmetic.exact_sums import LOWEST, SQUARES, WORDS
from rowtide.operators.aggregates.kernels.frames import ENTER, WRITE
from rowtide.operators.aggregates.kernels.sums import MANTISSA, leading_zeros, rounded
from rowtide.rows.arrays import Int64s, Mask, Words

TOTAL, SQUARED = 1, 1 + WORDS
"""The index of the first word of the sums in a partition's state, after the number of its values."""
FEW_LIMBS, LIMBS = 4, 8
"""Halves of words that are divided: enough for the digits of a double, whatever they are divided by."""
FEW_BITS = 70
"""A divisor of more bits than this needs all of them."""


def _multiply(typing_context: Any, one: Any, other: Any) -> Any:
    """Return the low and the high word of a product."""
    pair = types.UniTuple(types.uint64, 2)  # type: ignore[no-untyped-call]

    def generate(context: Any, builder: ir.IRBuilder, signature: Any, args: Any) -> Any:
        wide = ir.IntType(128)
        product = builder.mul(builder.zext(args[0], wide), builder.zext(args[1], wide))
        high = builder.trunc(builder.lshr(product, ir.Constant(wide, 64)), ir.IntType(64))
        return context.make_tuple(builder, pair, (builder.trunc(product, ir.IntType(64)), high))

    return pair(types.uint64, types.uint64), generate


_product: Any = intrinsic(_multiply)


@njit(cache=True, nogil=True, error_model="numpy")
def spreads(
    groups: Int64s,
    first_row: int,
    end_row: int,
    steps: Int64s,
    until: Int64s,
    values: Int64s,
    are_doubles: bool,
    used: Mask,
    state: Words,
    found: Words,
    counted: Int64s,
) -> None:
    """Add up values and their squares; ``found`` becomes count * squares - sum**2, which is never negative.

    ``values`` are whole numbers, or the bits of doubles. ``found`` may be empty, if no one asks.
    """
    zero, one = np.uint64(0), np.uint64(1)
    total, square = np.zeros(WORDS, dtype=np.uint64), np.zeros(2 * WORDS, dtype=np.uint64)
    at = 0
    for row in range(first_row, end_row):
        group = groups[row]
        while at < until[row]:
            if not used[at] or steps[at] & 3 == WRITE:
                at += 1
                continue
            leaves, value = steps[at] & ENTER == 0, values[at]
            at += 1
            state[group, 0] += ~zero if leaves else one
            negative = value < 0
            shift = np.int64(0)
            if are_doubles:
                exponent = (value >> 52) & 0x7FF
                if exponent == 0:
                    continue
                magnitude = np.uint64((value & MANTISSA) | (1 << 52))
                shift = exponent - 1075 - LOWEST
                if shift < 0:
                    magnitude >>= np.uint64(-shift)
                    shift = np.int64(0)
            else:
                magnitude = ~np.uint64(value) + one if negative else np.uint64(value)
            # The value, then its square, which is never negative.
            for part in range(2):
                low, high = magnitude, zero
                begin, words, moved = TOTAL, WORDS, shift
                if part:
                    low, high = _product(magnitude, magnitude)
                    begin, words, moved = SQUARED, SQUARES, 2 * shift
                    negative = False
                by = np.uint64(moved & 63)
                add0 = low << by
                # In two shifts, as one of 64 is none.
                add1 = (high << by) | ((low >> one) >> (np.uint64(63) - by))
                add2 = (high >> one) >> (np.uint64(63) - by)
                away = negative != leaves
                carry = zero
                place = begin + (moved >> 6)
                for word in range(3):
                    if place == begin + words:
                        break
                    add = add0 if word == 0 else (add1 if word == 1 else add2)
                    held = state[group, place]
                    if away:
                        rest = held - add
                        state[group, place] = rest - carry
                        carry = np.uint64(held < add) | np.uint64(rest < carry)
                    else:
                        sum_ = held + add
                        state[group, place] = sum_ + carry
                        carry = np.uint64(sum_ < add) | np.uint64(sum_ + carry < carry)
                    place += 1
                while carry != zero and place < begin + words:
                    held = state[group, place]
                    state[group, place] = held - one if away else held + one
                    carry = np.uint64(held == zero) if away else np.uint64(held == ~zero)
                    place += 1
        if len(found) == 0:
            continue
        count = state[group, 0]
        counted[row] = np.int64(count)
        if count <= one:
            found[row] = zero
            continue
        # The magnitude of the sum, and its square.
        carry = one
        negative = state[group, TOTAL + WORDS - 1] >> np.uint64(63) != zero
        width = 0
        for word in range(WORDS):
            each = state[group, TOTAL + word]
            if negative:
                each = ~each + carry
                carry = carry & np.uint64(each == zero)
            total[word] = each
            if each != zero:
                width = word + 1
        square[:] = zero
        for left in range(width):
            carry = zero
            for right in range(width):
                low, high = _product(total[left], total[right])
                low += carry
                high += np.uint64(low < carry)
                low += square[left + right]
                carry = high + np.uint64(low < square[left + right])
                square[left + right] = low
            square[left + width] = carry
        carry, borrow = zero, zero
        for word in range(SQUARES):
            low, high = _product(state[group, SQUARED + word], count)
            low += carry
            carry = high + np.uint64(low < carry)
            rest = low - square[word]
            found[row, word] = rest - borrow
            borrow = np.uint64(low < square[word]) | np.uint64(rest < borrow)


@njit(cache=True, nogil=True, error_model="numpy")
def variances(
    spread: Words, counted: Int64s, sample: bool, units: Int64s, exponent: int, found: Int64s
) -> None:
    """Write the bits of the double nearest to each spread * 2**exponent / (count * weight * all units).

    ``units`` are below 2**32. If the weight is 0, the result is 0.
    """
    zero, one, full = np.uint64(0), np.uint64(1), np.uint64(0xFFFFFFFF)
    divisors = np.empty(len(units) + 2, dtype=np.uint64)
    limbs = np.zeros(LIMBS + 4, dtype=np.uint64)
    for row in range(len(counted)):
        found[row] = 0
        count = np.uint64(counted[row])
        weight = count - one if sample and count != zero else count
        top = spread.shape[1] - 1
        while top >= 0 and spread[row, top] == zero:
            top -= 1
        if weight == zero or top < 0:
            continue
        # As few divisors below 2**32 as there may be.
        last = 0
        divisors[0] = count
        for at in range(len(units) + 1):
            factor = np.uint64(units[at - 1]) if at else weight
            if divisors[last] * factor <= full:
                divisors[last] *= factor
            else:
                last += 1
                divisors[last] = factor
        bits = 0
        for at in range(last + 1):
            bits += 64 - leading_zeros(divisors[at])
        size = FEW_LIMBS if bits <= FEW_BITS else LIMBS
        # The highest bits, of which the first is set, and whether there is anything below them.
        highest = 64 * top + 63 - leading_zeros(spread[row, top])
        for at in range(size):
            lowest = highest - 32 * at - 31
            if lowest <= -32:
                limbs[at] = zero
            elif lowest < 0:
                limbs[at] = (spread[row, 0] << np.uint64(-lowest)) & full
            else:
                word, shift = lowest >> 6, np.uint64(lowest & 63)
                each = spread[row, word] >> shift
                if shift > np.uint64(32) and word < top:
                    each |= spread[row, word + 1] << (np.uint64(64) - shift)
                limbs[at] = each & full
        limbs[size : size + 4] = zero
        below = False
        lowest = highest - 32 * size + 1
        if lowest > 0:
            for word in range(lowest >> 6):
                below |= spread[row, word] != zero
            if lowest & 63:
                below |= spread[row, lowest >> 6] << np.uint64(64 - (lowest & 63)) != zero
        for at in range(last + 1):
            rest = zero
            for limb in range(size):
                each = (rest << np.uint64(32)) | limbs[limb]
                limbs[limb] = each // divisors[at]
                rest = each - limbs[limb] * divisors[at]
            below |= rest != zero
        first = 0
        while limbs[first] == zero:
            first += 1
        high = (limbs[first] << np.uint64(32)) | limbs[first + 1]
        low = (limbs[first + 2] << np.uint64(32)) | limbs[first + 3]
        zeros = leading_zeros(high)
        shift = np.uint64(zeros)
        high = (high << shift) | ((low >> one) >> (np.uint64(63) - shift))
        below |= low << shift != zero
        for limb in range(first + 4, size):
            below |= limbs[limb] != zero
        found[row] = rounded(high, below, exponent + highest + 1 - 32 * (first + 2) - zeros)
