"""Accumulators: the state of the aggregates of groups.

An accumulator holds arrays with one element for each group, and takes whole
trays: for each row its group, its value and whether to use it. The name and
types of an aggregate determine its accumulator when the plan is made; types
without a kernel take ``Objects``, in plain Python. The work of a call depends
on its rows and not on the number of groups.

Results: SUM of TINYINT to BIGINT is BIGINT, of DECIMAL(p, s) DECIMAL(38, s), of floats DOUBLE; AVG
of exact types is DECIMAL(38, max(6, s)), of floats DOUBLE; both of an interval have its type
(docs/sql/semantics.md#numbers). A value that AVG's type cannot hold is refused, so an average always
fits. An overflow of a sum is detected before any change.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from rowtide.errors import RejectedRowError
from rowtide.expr.aggregates import aggregate_of
from rowtide.expr.tree import AggregateCall
from rowtide.operators.aggregates.arithmetic.rounding import round_half_away
from rowtide.operators.aggregates.group_spreads import SpreadsInKernels
from rowtide.operators.aggregates.groups.distinct import DistinctAccumulator
from rowtide.operators.aggregates.groups.gathered_values import RESULTS, GatheredValues, PickedValues
from rowtide.operators.aggregates.groups.group_functions import Sketches, Spreads, ValueLists
from rowtide.operators.aggregates.groups.group_states import GroupStates
from rowtide.operators.aggregates.row_functions import overflow
from rowtide.operators.storage.growing import grown
from rowtide.plan.calls import has_accumulator
from rowtide.rows.arrays import Mask
from rowtide.rows.column import Column, arrow_type
from rowtide.rows.types import FAST_DECIMAL_PRECISION, MAX_DECIMAL_PRECISION, Kind, Type

Groups = NDArray[np.int64]

LARGEST_INT64 = 2**63 - 1
INT64_BYTES = 8
UNSCALED_LIMIT = 10**MAX_DECIMAL_PRECISION
"""Limit of the unscaled values of DECIMAL."""


class Accumulator(Protocol):
    """The state of one aggregate, for all groups."""

    def reserve(self, groups: int) -> None:
        """Make room for ``groups`` groups. New elements are those of an empty group."""

    def refused(self, column: Column | None, use: Mask) -> Mask | None:
        """Return which rows have a value that the aggregate can never take; None: it takes all."""

    def fits(self, groups: Groups, column: Column | None, use: Mask) -> bool:
        """Return whether these rows can be added without an overflow; changes nothing that counts."""

    def add(self, groups: Groups, column: Column | None, use: Mask) -> None:
        """Add rows that fit, in order. ``use`` is False if the value is NULL or left out."""

    def results(self, count: int) -> Column:
        """Return the results of the first ``count`` groups."""

    def drop(self, count: int, rest: int) -> None:
        """Drop the first ``count`` groups. The ``rest`` after them move down."""

    def state(self, count: int) -> pa.Table:
        """Return the state of the first ``count`` groups, one row for each."""

    def load(self, table: pa.Table) -> None:
        """Restore the result of ``state``."""


def make_accumulator(call: AggregateCall) -> Accumulator:
    """Choose the accumulator of an aggregate. The operator handles its FILTER."""
    of = call.type if call.argument is None else call.argument.type
    accumulator: Accumulator
    if call.of is not None:
        accumulator = GroupStates(call.of, call.type)
    else:
        sketch = aggregate_of(call).sketch
        accumulator = (
            MAKERS.get(call.function, ValueLists)(call, of) if sketch is None else Sketches(call, sketch)
        )
    if call.distinct and call.argument is not None and aggregate_of(call).distinct_matters:
        return DistinctAccumulator(accumulator, call.argument.type)
    return accumulator


def why_not(accumulator: Accumulator) -> RejectedRowError:
    """Return why rows did not fit an accumulator, just after ``fits`` has returned False."""
    if isinstance(accumulator, DistinctAccumulator):
        return why_not(accumulator.inner)
    failure = accumulator.failure if isinstance(accumulator, GroupStates) else None
    return failure or overflow()


class _Arrays:
    """The base of all compiled accumulators: parallel arrays with one element for each group."""

    def __init__(self, **parts: Any) -> None:
        self.parts: dict[str, NDArray[Any]] = {name: np.zeros(0, dtype=kind) for name, kind in parts.items()}

    def reserve(self, groups: int) -> None:
        for name, array in self.parts.items():
            self.parts[name] = grown(array, groups)

    def drop(self, count: int, rest: int) -> None:
        for array in self.parts.values():
            array[:rest] = array[count : count + rest]
            array[rest : count + rest] = 0

    def state(self, count: int) -> pa.Table:
        # Copy: Arrow would share the memory, to which the operator continues to write.
        return pa.table({name: array[:count].copy() for name, array in self.parts.items()})

    def load(self, table: pa.Table) -> None:
        for name, array in self.parts.items():
            self.parts[name] = table.column(name).to_numpy().astype(array.dtype)

    def refused(self, column: Column | None, use: Mask) -> Mask | None:
        return None

    def fits(self, groups: Groups, column: Column | None, use: Mask) -> bool:
        return True


def largest_of(values: NDArray[np.int64]) -> int:
    """Return the largest absolute value."""
    return max(-int(values.min()), int(values.max())) if len(values) else 0


def values_of(column: Column | None) -> NDArray[Any]:
    """Return the values of an argument for kernels: doubles or int64."""
    if column is None:
        raise ValueError("this aggregate has an argument")
    if column.type.is_float:
        return np.asarray(column.values, dtype=np.float64)
    return np.asarray(column.values, dtype=np.int64)


def _or_null(kind: Type, values: NDArray[Any], seen: Mask) -> Column:
    return Column(kind, values.astype(kind.dtype, copy=True), None if seen.all() else seen.copy())


class CountAccumulator(_Arrays):
    """COUNT: the rows to use."""

    def __init__(self) -> None:
        super().__init__(count=np.int64)

    def add(self, groups: Groups, column: Column | None, use: Mask) -> None:
        from rowtide.operators.aggregates.kernels.groups import count_rows

        count_rows(groups, use, self.parts["count"])

    def results(self, count: int) -> Column:
        return Column(Type(Kind.BIGINT), self.parts["count"][:count].copy())


class CheckedSum(_Arrays):
    """SUM of integers, BIGINT, and of intervals.

    ``_reach`` is at least the absolute value of every sum: rows that cannot bring any sum out of int64
    need no check one by one. While every row is used (no ``_gaps``), a count says only whether there is
    a value.
    """

    def __init__(self, kind: Type) -> None:
        super().__init__(count=np.int64, total=np.int64)
        self._type = kind
        self._reach = 0
        self._begun = 0
        self._gaps = False

    def fits(self, groups: Groups, column: Column | None, use: Mask) -> bool:
        from rowtide.operators.aggregates.kernels.groups import sums_fit

        if self._after(column) <= LARGEST_INT64:
            return True
        self._reach = largest_of(self.parts["total"])
        if self._after(column) <= LARGEST_INT64:
            return True
        return bool(sums_fit(groups, values_of(column), use, self.parts["total"]))

    def add(self, groups: Groups, column: Column | None, use: Mask) -> None:
        from rowtide.operators.aggregates.kernels.groups import add_all, add_up, count_rows

        self._reach = self._after(column)
        if self._gaps or not use.all():
            self._gaps = True
            add_up(groups, values_of(column), use, self.parts["total"])
            count_rows(groups, use, self.parts["count"])
            return
        add_all(groups, values_of(column), self.parts["total"])
        begun = max(self._begun, int(groups.max()) + 1) if len(groups) else self._begun
        self.parts["count"][self._begun : begun] = 1
        self._begun = begun

    def results(self, count: int) -> Column:
        return _or_null(self._type, self.parts["total"][:count], self.parts["count"][:count] > 0)

    def drop(self, count: int, rest: int) -> None:
        super().drop(count, rest)
        self._begun -= count
        self._reach = largest_of(self.parts["total"][:rest])

    def load(self, table: pa.Table) -> None:
        super().load(table)
        self._reach = largest_of(self.parts["total"])
        self._begun = len(self.parts["count"])
        self._gaps = not (self.parts["count"] > 0).all()

    def _after(self, column: Column | None) -> int:
        """Return an upper limit of every sum after these rows. The values under NULLs are undefined."""
        if column is None or not len(column):
            return self._reach
        width = column.values.dtype.itemsize
        largest = largest_of(column.values) if width == INT64_BYTES else 1 << (8 * width - 1)
        return self._reach + len(column) * largest


class FloatSum(_Arrays):
    """SUM and AVG of REAL and DOUBLE, in double, added in row order."""

    def __init__(self, kind: Type, *, average: bool) -> None:
        super().__init__(count=np.int64, total=np.float64)
        self._type = kind
        self._average = average

    def fits(self, groups: Groups, column: Column | None, use: Mask) -> bool:
        from rowtide.operators.aggregates.kernels.groups import float_sums_fit

        values = values_of(column)
        return bool(float_sums_fit(groups, values, use, self.parts["total"], np.empty_like(values)))

    def add(self, groups: Groups, column: Column | None, use: Mask) -> None:
        from rowtide.operators.aggregates.kernels.groups import add_up, count_rows

        add_up(groups, values_of(column), use, self.parts["total"])
        count_rows(groups, use, self.parts["count"])

    def results(self, count: int) -> Column:
        rows, total = self.parts["count"][:count], self.parts["total"][:count]
        if self._average:
            total = total / np.maximum(rows, 1)
        return _or_null(self._type, total, rows > 0)


class WideSum(_Arrays):
    """SUM of narrow DECIMAL and AVG of exact types and intervals: a sum of up to 2**31 rows that cannot overflow."""

    def __init__(self, kind: Type, scale: int, *, average: bool) -> None:
        super().__init__(count=np.int64, high=np.int64, low=np.int64)
        self._type = kind
        self._scale = scale
        self._average = average

    def add(self, groups: Groups, column: Column | None, use: Mask) -> None:
        from rowtide.operators.aggregates.kernels.groups import count_rows, sum_wide

        sum_wide(groups, values_of(column), use, self.parts["high"], self.parts["low"])
        count_rows(groups, use, self.parts["count"])

    def results(self, count: int) -> Column:
        rows = self.parts["count"][:count]
        totals = zip(self.parts["high"][:count].tolist(), self.parts["low"][:count].tolist(), strict=True)
        found = np.zeros(count, dtype=object)
        factor = 10 ** (self._type.scale - self._scale)
        for group, ((high, low), number) in enumerate(zip(totals, rows.tolist(), strict=True)):
            total = ((high << 32) + low) * factor
            found[group] = round_half_away(total, number) if self._average and number else total
        return _or_null(self._type, found, rows > 0)


class ExtremeAccumulator(_Arrays):
    """MIN and MAX of fixed-width types.

    While every row is used (no ``_gaps``), groups get their first value in the order of their numbers: the
    first ``_begun`` have one.
    """

    def __init__(self, kind: Type, *, greatest: bool) -> None:
        super().__init__(best=np.float64 if kind.is_float else np.int64, seen=np.bool_)
        self._type = kind
        self._greatest = greatest
        self._begun = 0
        self._gaps = False

    def add(self, groups: Groups, column: Column | None, use: Mask) -> None:
        from rowtide.operators.aggregates.kernels.groups import greatest, greatest_of_all, least, least_of_all

        best, seen = self.parts["best"], self.parts["seen"]
        if self._gaps or not use.all():
            self._gaps = True
            keep = greatest if self._greatest else least
            keep(groups, values_of(column), use, best, seen)
            return
        keep_all = greatest_of_all if self._greatest else least_of_all
        begun = keep_all(groups, values_of(column), best, self._begun)
        seen[self._begun : begun] = True
        self._begun = begun

    def drop(self, count: int, rest: int) -> None:
        super().drop(count, rest)
        self._begun -= count

    def load(self, table: pa.Table) -> None:
        super().load(table)
        self._begun = len(self.parts["seen"])
        self._gaps = not self.parts["seen"].all()

    def results(self, count: int) -> Column:
        return _or_null(self._type, self.parts["best"][:count], self.parts["seen"][:count])


class Objects:
    """SUM, AVG, MIN and MAX of types without a kernel (wide DECIMAL, text, binary), row by row."""

    def __init__(self, function: str, kind: Type, argument: Type) -> None:
        self._function = function
        self._type = kind
        self._argument = argument
        self._factor = 10 ** (kind.scale - argument.scale) if function == "AVG" else 1
        self._held: list[Any] = []
        self._counts: list[int] = []

    def reserve(self, groups: int) -> None:
        missing = groups - len(self._held)
        if missing > 0:
            self._held.extend([None] * missing)
            self._counts.extend([0] * missing)

    def refused(self, column: Column | None, use: Mask) -> Mask | None:
        if self._factor == 1 or column is None:
            return None
        limit = UNSCALED_LIMIT // self._factor
        found = np.zeros(len(use), dtype=np.bool_)
        for row in np.flatnonzero(use).tolist():
            found[row] = abs(column.values[row]) >= limit
        return found

    def fits(self, groups: Groups, column: Column | None, use: Mask) -> bool:
        if self._function != "SUM":
            return True
        trial = dict[int, int]()
        for group, value in self._rows(groups, column, use):
            total = trial.get(group, self._held[group] or 0) + value
            if abs(total) >= UNSCALED_LIMIT:
                return False
            trial[group] = total
        return True

    def add(self, groups: Groups, column: Column | None, use: Mask) -> None:
        held, counts = self._held, self._counts
        for group, value in self._rows(groups, column, use):
            before = held[group]
            counts[group] += 1
            if before is None:
                held[group] = value
            elif self._function == "MIN":
                held[group] = min(before, value)
            elif self._function == "MAX":
                held[group] = max(before, value)
            else:
                held[group] = before + value

    def results(self, count: int) -> Column:
        held = self._held[:count]
        if self._function == "AVG":
            held = [
                None if total is None else round_half_away(total * self._factor, number)
                for total, number in zip(held, self._counts, strict=False)
            ]
        if self._type.is_variable_width:
            return Column.from_arrow(self._type, pa.array(held, type=arrow_type(self._type)))
        seen = np.array([value is not None for value in held], dtype=np.bool_)
        found = np.zeros(count, dtype=object)
        for group, value in enumerate(held):
            found[group] = 0 if value is None else value
        return Column(self._type, found, None if seen.all() else seen)

    def drop(self, count: int, rest: int) -> None:
        del self._held[:count]
        del self._counts[:count]

    def state(self, count: int) -> pa.Table:
        """Unscaled decimals may have more than 38 digits, so they go as text."""
        held: Sequence[Any] = self._held[:count]
        if not self._type.is_variable_width:
            held = [None if value is None else str(value) for value in held]
            kind = pa.string()
        else:
            kind = arrow_type(self._type)
        return pa.table(
            {"held": pa.array(held, type=kind), "count": pa.array(self._counts[:count], type=pa.int64())}
        )

    def load(self, table: pa.Table) -> None:
        held = table.column("held").to_pylist()
        if not self._type.is_variable_width:
            held = [None if value is None else int(value) for value in held]
        self._held = held
        self._counts = table.column("count").to_pylist()

    def _rows(self, groups: Groups, column: Column | None, use: Mask) -> list[tuple[int, Any]]:
        if column is None:
            raise ValueError("this aggregate has an argument")
        where = np.flatnonzero(use)
        taken = column.take(where).values
        values = taken.to_pylist() if self._argument.is_variable_width else taken.tolist()
        return list(zip(groups[where].tolist(), values, strict=True))


def _count(call: AggregateCall, of: Type) -> Accumulator:
    del call, of
    return CountAccumulator()


def _sum(call: AggregateCall, of: Type) -> Accumulator:
    average = call.function == "AVG"
    if of.is_float:
        return FloatSum(call.type, average=average)
    if (of.is_integer or of.is_interval) and not average:
        return CheckedSum(call.type)
    if of.is_integer or of.is_interval or (of.precision or MAX_DECIMAL_PRECISION) <= FAST_DECIMAL_PRECISION:
        return WideSum(call.type, of.scale, average=average)
    return Objects(call.function, call.type, of)


def _extreme(call: AggregateCall, of: Type) -> Accumulator:
    if of.dtype != object:
        return ExtremeAccumulator(call.type, greatest=call.function == "MAX")
    return Objects(call.function, call.type, of)


def _spread(call: AggregateCall, of: Type) -> Accumulator:
    return Spreads(call, of) if of.dtype == object else SpreadsInKernels(call, of)


def _gathered(call: AggregateCall, of: Type) -> Accumulator:
    return GatheredValues(call, of) if has_accumulator(call) else ValueLists(call, of)


def _picked(call: AggregateCall, of: Type) -> Accumulator:
    return PickedValues(call, of)


MAKERS: Mapping[str, Callable[[AggregateCall, Type], Accumulator]] = {
    "COUNT": _count,
    **dict.fromkeys(("SUM", "AVG"), _sum),
    **dict.fromkeys(("MIN", "MAX"), _extreme),
    **dict.fromkeys(("VAR_POP", "VAR_SAMP", "STDDEV_POP", "STDDEV_SAMP"), _spread),
    **dict.fromkeys(("FIRST_VALUE", "LAST_VALUE", "ANY_VALUE"), _picked),
    **dict.fromkeys(RESULTS, _gathered),
}
"""Makers of the accumulators in columns, or that continue from a result. The others are ``ValueLists``."""
