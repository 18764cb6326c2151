"""Variances of a window, by kernels: the double nearest to the exact one, and its root."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rowtide.expr.aggregates.variance import SPREADS
from rowtide.operators.aggregates.arithmetic.exact_sums import LOWEST, SQUARES, WORDS, whole_of, words_of
from rowtide.operators.aggregates.row_functions import FLOAT_BITS
from rowtide.operators.aggregates.windows.calls import Held, Moved, Values
from rowtide.rows.arrays import Int64s, Mask
from rowtide.rows.types import Type

DIGITS_AT_ONCE = 9
"""Kernels divide by no more digits than this at a time."""


class VarianceKernel(Held):
    """Variances of integers, narrow decimals and doubles, and their roots."""

    sums: NDArray[np.uint64]

    def __init__(self, of: Type, function: str) -> None:
        dtype = np.float64 if of.is_float else np.int64
        super().__init__(dtype, sums=(np.uint64, 1 + WORDS + SQUARES))
        self._are_doubles = of.is_float
        self._sample, self._root = SPREADS[function]
        digits = 2 * of.scale
        parts = [DIGITS_AT_ONCE] * (digits // DIGITS_AT_ONCE) + [digits % DIGITS_AT_ONCE]
        self._units = np.array([10**part for part in parts if part], dtype=np.int64)

    def fits(self, values: Values, use: Mask, most: int) -> bool:
        from rowtide.operators.aggregates.kernels.sums import doubles_fit

        return not self._are_doubles or bool(doubles_fit(values.view(np.int64), use))

    def begin(self, values: Values, use: Mask) -> None:
        super().begin(values, use)
        self._found = np.empty((len(use), SQUARES), dtype=np.uint64)
        self._counted = np.empty(len(use), dtype=np.int64)

    def follow(self, moved: Moved) -> None:
        from rowtide.operators.aggregates.kernels.spreads import spreads

        spreads(
            *moved.path,
            self._values_of(moved).view(np.int64),
            self._are_doubles,
            self._use_of(moved),
            self.sums,
            self._found,
            self._counted,
        )

    def add(self, groups: Int64s, values: Values, use: Mask) -> None:
        """Add values to partitions and give no result."""
        from rowtide.operators.aggregates.kernels.spreads import spreads

        nothing, bits = np.zeros((0, SQUARES), dtype=np.uint64), values.view(np.int64)
        count = np.zeros(0, dtype=np.int64)
        spreads(*Moved.added(groups).path, bits, self._are_doubles, use, self.sums, nothing, count)

    def of_groups(self, count: int) -> tuple[Values, Mask | None]:
        """Return the results of the first partitions unchanged."""
        groups = np.arange(count)
        self.begin_held(count)
        self.follow(Moved(groups, 0, count, groups[:0], np.zeros(count, dtype=np.int64), groups, groups))
        return self.result()

    def result(self) -> tuple[Values, Mask | None]:
        from rowtide.operators.aggregates.kernels.spreads import variances

        bits = np.empty(len(self._counted), dtype=np.int64)
        exponent = 2 * LOWEST if self._are_doubles else 0
        variances(self._found, self._counted, self._sample, self._units, exponent, bits)
        found = bits.view(np.float64)
        return np.sqrt(found) if self._root else found, self._counted > int(self._sample)

    def save(self, groups: Int64s) -> Iterable[list[Any]]:
        up = self._below
        saved = []
        for count, *words in self.sums[groups].tolist():
            total, squares = whole_of(words[:WORDS]), whole_of(words[WORDS:])
            saved.append([count, total << up, squares << 2 * up])
        return saved

    def load(self, saved: Sequence[list[Any]]) -> bool:
        down = self._below
        for group, (count, *sums) in enumerate(saved):
            total, squares = sums[0] >> down, sums[1] >> 2 * down
            exact = [total << down, squares << 2 * down] == sums
            if not exact or abs(total) >> (64 * WORDS - 2) or squares >> (64 * SQUARES - 32):
                return False
            self.sums[group] = [count, *words_of(total, WORDS), *words_of(squares, SQUARES)]
        return True

    @property
    def _below(self) -> int:
        """The number of bits by which the unit of sums is lower if it is that of the plain path."""
        return FLOAT_BITS + LOWEST if self._are_doubles else 0
