"""Exact sums in kernels.

A sum of doubles has ``WORDS`` words of 64 bits in two's complement, of which the
lowest bit is worth 2**LOWEST: doubles below 2**HIGHEST that are multiples of
2**LOWEST are added without rounding, at least 2**31 of them, and a result is
rounded once. The plain Python path processes values that do not fit.
"""

from collections.abc import Sequence

WORDS = 4
LOWEST = -112
HIGHEST = 110
SQUARES = 2 * WORDS
"""Words of a sum of squares."""


def whole_of(words: Sequence[int]) -> int:
    """Return the number of words, the lowest first, in two's complement."""
    total = sum(word << 64 * at for at, word in enumerate(words))
    return total - (1 << 64 * len(words)) if words[-1] >> 63 else total


def words_of(whole: int, count: int) -> list[int]:
    """Return the ``count`` words of a number, the lowest first, in two's complement."""
    return [(whole >> 64 * at) & (2**64 - 1) for at in range(count)]
