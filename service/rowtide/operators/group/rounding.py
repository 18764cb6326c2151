"""Exact division of whole numbers."""

from __future__ import annotations


def round_half_away(dividend: int, divisor: int) -> int:
    """Divide exactly and round half away from zero; ``divisor`` is positive."""
    quotient, rest = divmod(abs(dividend), divisor)
    if 2 * rest >= divisor:
        quotient += 1
    return quotient if dividend >= 0 else -quotient
