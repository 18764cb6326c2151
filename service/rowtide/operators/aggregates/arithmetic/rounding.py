"""Exact division of whole numbers, and values between two others: both are rounded once."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rowtide.rows.arrays import Int64s
from rowtide.rows.types import Type

Values = NDArray[Any]

SAFE = 1 << 61
"""Products below this are rounded in int64."""


def round_half_away(dividend: int, divisor: int) -> int:
    """Divide exactly and round half away from zero; ``divisor`` is positive."""
    quotient, rest = divmod(abs(dividend), divisor)
    if 2 * rest >= divisor:
        quotient += 1
    return quotient if dividend >= 0 else -quotient


@dataclass(frozen=True, slots=True)
class Interpolation:
    """What is ``part`` / ``parts`` of the way from one value to another.

    ``of`` is the type of the values, ``type`` that of the result, which has at least their scale.
    """

    of: Type
    type: Type
    parts: int

    def values(self, low: Values, high: Values, part: Int64s) -> Values:
        """Return the values between; where ``part`` is 0, ``high`` does not matter."""
        high = np.where(part > 0, high, low)
        return self._doubles(low, high, part) if self.of.is_float else self._units(low, high, part)

    def _doubles(self, low: Values, high: Values, part: Int64s) -> Values:
        """Return the doubles nearest to what is between."""
        # Zero has no sign where it is computed.
        low = low + 0.0
        differ = (part > 0) & (low != high)
        if self.parts == 2:
            with np.errstate(over="ignore"):
                sums = low + high
            # The half of a rounded sum is rounded only once: if the sum is inexact, halving it is exact.
            means = np.where(np.isfinite(sums), sums * 0.5, low * 0.5 + high * 0.5)
            return np.where(differ, means + 0.0, low)
        rows = np.flatnonzero(differ)
        ends = zip(low[rows].tolist(), high[rows].tolist(), part[rows].tolist(), strict=True)
        for row, (first, last, way) in zip(rows.tolist(), ends, strict=True):
            low[row] = float(Fraction(first) + (Fraction(last) - Fraction(first)) * Fraction(way, self.parts))
        return low

    def _units(self, low: Values, high: Values, part: Int64s) -> Values:
        """Return what is between in units of the result, rounded half away from zero."""
        of_all, factor = self.parts, 10 ** (self.type.scale - self.of.scale)
        ends = [bound for each in (low, high) if len(each) for bound in (-int(each.min()), int(each.max()))]
        if max(ends, default=0) < SAFE // (2 * of_all * factor):
            exact = (low * (of_all - part) + high * part) * factor
            units = (2 * np.abs(exact) + of_all) // (2 * of_all)
            found: Values = (np.sign(exact) * units).astype(self.type.dtype)
            return found
        found = np.zeros(len(high), dtype=self.type.dtype)
        each = zip(low.tolist(), high.tolist(), part.tolist(), strict=True)
        for row, (first, last, way) in enumerate(each):
            found[row] = round_half_away((first * (of_all - way) + last * way) * factor, of_all)
        return found
