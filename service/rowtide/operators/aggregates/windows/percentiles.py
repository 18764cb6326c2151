"""MEDIAN, PERCENTILE_CONT and PERCENTILE_DISC of a window, by kernels: all values of a frame, in order."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from rowtide.operators.aggregates.arithmetic.codes import column_of, values_of
from rowtide.operators.aggregates.arithmetic.rounding import Interpolation
from rowtide.operators.aggregates.row_functions import from_json, to_json
from rowtide.operators.aggregates.windows.calls import Held, Moved, Values
from rowtide.operators.storage.growing import grown
from rowtide.plan.frames import WindowCall
from rowtide.rows.arrays import Int64s, Mask
from rowtide.rows.column import Column
from rowtide.rows.types import Type


class Percentile(Held):
    """The value at a fraction of the way through the sorted values, or between two of them."""

    roots: Int64s

    def __init__(self, call: WindowCall, of: Type) -> None:
        self._dtype = np.float64 if of.is_float else np.int64
        super().__init__(self._dtype, roots=(np.int64, 0))
        self._of = of
        self._between = call.function != "PERCENTILE_DISC"
        fraction = call.fraction or Fraction(0)
        self._on_the_way = Interpolation(of, call.type, fraction.denominator)
        numbers = [self._between, fraction.numerator, fraction.denominator]
        self._numbers = np.array(numbers, dtype=np.int64)
        self._kept: Values = np.zeros(1, dtype=self._dtype)
        self._kids = np.zeros((1, 2), dtype=np.int32)
        self._sizes, self._free = (np.zeros(1, dtype=np.int32) for _ in range(2))
        self._nodes = np.array([1, 0], dtype=np.int64)

    def fits(self, values: Values, use: Mask, most: int) -> bool:
        """No kernel takes infinity and NaN."""
        return self._dtype is np.int64 or bool(np.isfinite(values[use]).all())

    def begin(self, values: Values, use: Mask) -> None:
        super().begin(values, use)
        self._low, self._high = (np.zeros(len(use), dtype=self._dtype) for _ in range(2))
        self._part = np.zeros(len(use), dtype=np.int64)
        self._known = np.zeros(len(use), dtype=np.bool_)

    def keep(self, kept: Int64s) -> None:
        from rowtide.operators.aggregates.kernels.sorted_values import free_trees

        gone = np.ones(len(self.roots), dtype=np.bool_)
        gone[kept] = False
        free_trees(self.roots[gone], self._kids, self._free, self._nodes)
        super().keep(kept)

    def follow(self, moved: Moved) -> None:
        from rowtide.operators.aggregates.kernels.sorted_values import percentiles

        self._make_room(moved.count)
        percentiles(
            *moved.path,
            self._values_of(moved),
            self._use_of(moved),
            self._numbers,
            self.roots,
            self._kept,
            self._kids,
            self._sizes,
            self._free,
            self._nodes,
            self._low,
            self._high,
            self._part,
            self._known,
        )

    def _make_room(self, steps: int) -> None:
        """Make room for as many new nodes as there are steps."""
        stored, free = self._nodes.tolist()
        needed = stored - free + steps + 1
        self._kept, self._kids = grown(self._kept, needed), grown(self._kids, needed)
        self._sizes, self._free = grown(self._sizes, needed), grown(self._free, needed)

    def result(self) -> tuple[Values, Mask | None]:
        if not self._between:
            return self._low, self._known
        return self._on_the_way.values(self._low, self._high, self._part), self._known

    def save(self, groups: Int64s) -> Iterable[list[Any]]:
        # The values in order.
        from rowtide.operators.aggregates.kernels.sorted_values import list_values

        sizes = self._sizes[self.roots[groups]].astype(np.int64)
        values = np.empty(int(sizes.sum()), dtype=self._dtype)
        list_values(self.roots[groups], self._kept, self._kids, self._sizes, values)
        listed = [to_json(value) for value in column_of(self._of, values, None).to_list()]
        ends = np.cumsum(sizes).tolist()
        return [listed[end - size : end] for end, size in zip(ends, sizes.tolist(), strict=True)]

    def load(self, saved: Sequence[list[Any]]) -> bool:
        column = Column.from_values(self._of, [from_json(self._of, each) for held in saved for each in held])
        values, use = values_of(column)
        if not self.fits(values, use, 0):
            return False
        groups = np.repeat(np.arange(len(saved)), [len(held) for held in saved])
        self.begin(values, use)
        self.follow(Moved.added(groups))
        return True
