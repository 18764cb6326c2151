"""Counts, sums and extremes of a window, by kernels: one class for each way of computing."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rowtide.expr.tree import FieldRef
from rowtide.operators.aggregates.arithmetic.codes import KernelForm
from rowtide.operators.aggregates.arithmetic.exact_sums import LOWEST, WORDS, whole_of, words_of
from rowtide.operators.aggregates.arithmetic.rounding import round_half_away
from rowtide.operators.aggregates.row_functions import FLOAT_BITS
from rowtide.operators.aggregates.windows.calls import Held, Known, Moved, Values
from rowtide.operators.storage.growing import grown
from rowtide.plan.frames import WindowCall
from rowtide.rows.arrays import Int64s, Mask
from rowtide.rows.tray import Tray
from rowtide.rows.types import TIMESTAMP, Kind, Type

LARGEST_INT64 = 2**63 - 1
CARRY_AFTER = 1 << 30
"""Rows after which the halves of sums carry over. They can hold twice as many."""
SAFE_TOTAL, SAFE_COUNT = 1 << 61, 1 << 40
"""Averages of totals and counts below these are rounded in int64: a factor is at most 10**6."""


class CountKernel(Held):
    """COUNT, ROW_NUMBER; values are held only if they are to be distinguished."""

    counts: Int64s

    def __init__(self, dtype: Any = np.int64) -> None:
        super().__init__(dtype, counts=(np.int64, 0))

    def hold(self, slots: int) -> None:
        if self.once is None:
            self._hold_use(slots)
        else:
            super().hold(slots)

    def put(self, values: Values, use: Mask, slots: Int64s) -> None:
        if self.once is not None:
            self._values[slots] = values
        self._use[slots] = use
        self._looks = self._looks or not use.all()

    def stored(self, slots: Int64s) -> tuple[Values, Mask]:
        # A value that is counted is any value.
        if self.once is not None:
            return super().stored(slots)
        return np.ones(len(slots), dtype=np.int64), self._use[slots]

    def begin(self, values: Values, use: Mask) -> None:
        super().begin(values, use)
        self._found = np.empty(len(use), dtype=np.int64)

    def follow(self, moved: Moved) -> None:
        from rowtide.operators.aggregates.kernels.frames import counts

        counts(
            *moved.path,
            self._use_of(moved),
            self.counts,
            self._found,
        )

    def result(self) -> tuple[Values, Mask | None]:
        return self._found, None

    def save(self, groups: Int64s) -> Iterable[list[Any]]:
        return [[count] for count in self.counts[groups].tolist()]

    def load(self, saved: Sequence[list[Any]]) -> bool:
        self.counts[: len(saved)] = [count for (count,) in saved]
        return True


class SumKernel(Held):
    """SUM and AVG of integers, intervals and narrow decimals, exact.

    A BIGINT or an interval may be too small for a sum; ``_largest`` is at least the absolute value of every value, and
    ``_reach``, for a frame without a start, of every sum.
    """

    sums: Int64s

    def __init__(self, call: WindowCall, scale: int, *, endless: bool) -> None:
        super().__init__(np.int64, sums=(np.int64, 3))
        self._type = call.type
        self._average = call.function == "AVG"
        self._factor = 10 ** (call.type.scale - scale) if self._average else 1
        self._limited = call.type.kind is Kind.BIGINT or (call.type.is_interval and not self._average)
        self._endless = endless
        self._largest = 0
        self._reach = 0
        self._added = 0

    def fits(self, values: Values, use: Mask, most: int) -> bool:
        if not self._limited or not len(values):
            return True
        mine = values if use.all() else np.where(use, values, 0)
        largest = max(-int(mine.min()), int(mine.max()))
        if self._endless:
            if self._reach + len(values) * largest > LARGEST_INT64:
                totals = self.sums[:, 2] + (self.sums[:, 1] >> 32)
                self._reach = max(-int(totals.min()), int(totals.max()) + 1) << 32 if len(totals) else 0
                # Held rows have not been added yet.
                self._reach += (most - len(values)) * self._largest
            self._largest = max(self._largest, largest)
            self._reach += len(values) * largest
            return self._reach <= LARGEST_INT64
        self._largest = max(self._largest, largest)
        return self._largest * most <= LARGEST_INT64

    def begin(self, values: Values, use: Mask) -> None:
        super().begin(values, use)
        if self._added > CARRY_AFTER - len(use):
            self.sums[:, 2] += self.sums[:, 1] >> 32
            self.sums[:, 1] &= 0xFFFFFFFF
            self._added = 0
        self._added += len(use)
        self._found, self._above, self._counted = (np.empty(len(use), dtype=np.int64) for _ in range(3))

    def follow(self, moved: Moved) -> None:
        from rowtide.operators.aggregates.kernels.sums import sums

        sums(
            *moved.path,
            self._values_of(moved),
            self._use_of(moved),
            self.sums,
            self._found,
            self._above,
            self._counted,
        )

    def result(self) -> tuple[Values, Mask | None]:
        known = self._counted > 0
        if self._limited:
            return self._found, known
        above, counts = self._above, np.maximum(self._counted, 1)
        # The bits above 63 only repeat the sign if the total is an int64.
        narrow = (above == above >> 63).all()
        if narrow and not self._average:
            return self._found.astype(self._type.dtype), known
        if narrow and _below(self._found, SAFE_TOTAL) and int(counts.max(initial=1)) < SAFE_COUNT:
            sizes = np.abs(self._found)
            whole = sizes // counts
            if _below(whole, SAFE_TOTAL // self._factor):
                # The whole part and the rest by themselves: the total times the factor may be too much.
                rest = (2 * self._factor * (sizes - whole * counts) + counts) // (2 * counts)
                means = np.sign(self._found) * (whole * self._factor + rest)
                return means.astype(self._type.dtype), known
        wide = np.zeros(len(above), dtype=self._type.dtype)
        parts = zip(above.tolist(), self._found.tolist(), counts.tolist(), strict=True)
        for row, (high, low, count) in enumerate(parts):
            total = ((high << 63) + (low & LARGEST_INT64)) * self._factor
            wide[row] = round_half_away(total, count) if self._average else total
        return wide, known

    def save(self, groups: Int64s) -> Iterable[list[Any]]:
        return [[count, low + (high << 32)] for count, low, high in self.sums[groups].tolist()]

    def load(self, saved: Sequence[list[Any]]) -> bool:
        for group, (count, total) in enumerate(saved):
            if abs(total) >> 94:
                return False
            self.sums[group] = (count, total & 0xFFFFFFFF, total >> 32)
            self._reach = max(self._reach, abs(total))
        return True


class TruthKernel(SumKernel):
    """EVERY, BOOL_AND and BOOL_OR: the sum is the number of TRUE values."""

    def __init__(self, call: WindowCall) -> None:
        super().__init__(call, 0, endless=False)
        self._all = call.function != "BOOL_OR"

    def result(self) -> tuple[Values, Mask | None]:
        return self._found == self._counted if self._all else self._found > 0, self._counted > 0

    def save(self, groups: Int64s) -> Iterable[list[Any]]:
        """Return the numbers of FALSE and TRUE values."""
        return [[count - true, true] for count, true in super().save(groups)]

    def load(self, saved: Sequence[list[Any]]) -> bool:
        return super().load([[false + true, true] for false, true in saved])


def _below(values: Int64s, limit: int) -> bool:
    return bool((values < limit).all() and (values > -limit).all())


class DoubleSum(Known):
    """SUM and AVG of REAL and DOUBLE: the double nearest to the exact result."""

    sums: NDArray[np.uint64]

    def __init__(self, *, average: bool) -> None:
        super().__init__(np.float64, sums=(np.uint64, 1 + WORDS))
        self._average = average

    def fits(self, values: Values, use: Mask, most: int) -> bool:
        from rowtide.operators.aggregates.kernels.sums import doubles_fit

        return bool(doubles_fit(values.view(np.int64), use))

    def follow(self, moved: Moved) -> None:
        from rowtide.operators.aggregates.kernels.sums import double_sums

        double_sums(
            *moved.path,
            self._values_of(moved).view(np.int64),
            self._use_of(moved),
            self.sums,
            self._average,
            self._found.view(np.int64),
            self._known,
        )

    def save(self, groups: Int64s) -> Iterable[list[Any]]:
        up = FLOAT_BITS + LOWEST
        return [[count, whole_of(words) << up] for count, *words in self.sums[groups].tolist()]

    def load(self, saved: Sequence[list[Any]]) -> bool:
        down = FLOAT_BITS + LOWEST
        for group, (count, total) in enumerate(saved):
            whole = total >> down
            if whole << down != total or abs(whole) >> (64 * WORDS - 2):
                return False
            self.sums[group] = [count, *words_of(whole, WORDS)]
        return True


class ExtremeKernel(Known):
    """MIN and MAX of a moving frame."""

    best: Int64s

    def __init__(self, dtype: Any, *, greatest: bool) -> None:
        super().__init__(dtype, best=(np.int64, 3))
        self._best_values: Values = np.zeros(0, dtype=dtype)
        self._greatest = greatest
        self._before, self._behind = (np.zeros(0, dtype=np.int32) for _ in range(2))

    def hold(self, slots: int) -> None:
        super().hold(slots)
        self._best_values = grown(self._best_values, slots)
        self._before, self._behind = grown(self._before, slots), grown(self._behind, slots)

    def follow(self, moved: Moved) -> None:
        from rowtide.operators.aggregates.kernels.window_extremes import extremes

        extremes(
            *moved.path,
            self._values_of(moved),
            self._use_of(moved),
            self._best_values,
            self.best,
            self._before,
            self._behind,
            self._greatest,
            self._found,
            self._known,
        )


def input_of(call: WindowCall, form: KernelForm, tray: Tray, order: Int64s) -> tuple[Values, Mask]:
    """Return a call's value for each row of a tray, and the rows that it uses."""
    values: Values = order
    use = np.ones(len(tray), dtype=np.bool_)
    if isinstance(call.argument, FieldRef):
        values, use = form.encode(tray.columns[call.argument.index])
    if isinstance(call.condition, FieldRef):
        flags = tray.columns[call.condition.index]
        use = use & np.asarray(flags.values, dtype=np.bool_) & flags.valid_mask()
    return values, use


def stored_type(call: WindowCall) -> Type:
    """Return the type of the values that a partition keeps for a call."""
    if call.function in ("RANK", "DENSE_RANK"):
        return TIMESTAMP
    return Type(Kind.BOOLEAN) if call.argument is None else call.argument.type
