"""Values of groups, in columns: all of them for percentiles, MODE and LISTAGG, one of them for picks.

All values of the open groups are one column, in the order of the rows. They are brought to their groups by a sort
when results are wanted. The results and the states are those of ``ValueLists``, which goes row by row.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute
from numpy.typing import NDArray

from rowtide.expr.aggregates import aggregate_of
from rowtide.expr.tree import AggregateCall
from rowtide.operators.aggregates.arithmetic.codes import column_of, values_of
from rowtide.operators.aggregates.arithmetic.rounding import Interpolation
from rowtide.operators.aggregates.groups.group_functions import refused
from rowtide.operators.storage.growing import Growing, grown
from rowtide.operators.storage.row_store import values_store
from rowtide.rows.arrays import Int64s, Mask
from rowtide.rows.column import Column
from rowtide.rows.types import Type


@dataclass(frozen=True, slots=True)
class ListedValues:
    """The values of groups, one group after the other; ``counts`` of each group."""

    values: Column
    counts: Int64s

    @property
    def begins(self) -> Int64s:
        """Return the place of each group's first value."""
        begins: Int64s = np.cumsum(self.counts) - self.counts
        return begins

    def owners(self) -> Int64s:
        """Return the group of each value."""
        return np.repeat(np.arange(len(self.counts), dtype=np.int64), self.counts)

    def picked(self, of: Type, places: Int64s) -> Column:
        """Return the values at a place for each group, NULL for groups without a value."""
        if not len(self.values):
            return Column.nulls(of, len(self.counts))
        known = self.counts > 0
        taken = self.values.take(np.where(known, places, 0))
        return taken if known.all() else taken.where_valid(known)


Results = Callable[[AggregateCall, ListedValues], Column]


class GatheredValues:
    """An aggregate of all values of each group. ``_groups`` are counted from the very first group."""

    def __init__(self, call: AggregateCall, argument: Type) -> None:
        self._call = call
        self._ascending = aggregate_of(call).ascending
        self._argument = argument
        self._dropped = 0
        self._groups = Growing(np.int64)
        self._values = values_store(argument)

    def reserve(self, groups: int) -> None:
        """Do nothing: a group without a value takes no room."""

    def refused(self, column: Column | None, use: Mask) -> Mask | None:
        return refused(self._call, column, use)

    def fits(self, groups: Int64s, column: Column | None, use: Mask) -> bool:
        return True

    def add(self, groups: Int64s, column: Column | None, use: Mask) -> None:
        if column is None:
            raise ValueError("this aggregate has an argument")
        if not use.all():
            where = np.flatnonzero(use)
            groups, column = groups[where], column.take(where)
        self._groups.append(groups + self._dropped)
        # A value to use is not NULL.
        self._values.append(Column(column.type, column.values))

    def results(self, count: int) -> Column:
        return RESULTS[self._call.function](self._call, self._listed(count))

    def drop(self, count: int, rest: int) -> None:
        self._dropped += count
        kept = np.flatnonzero(self._groups.view() >= self._dropped)
        if not len(kept):
            self._empty()
        elif 2 * len(kept) <= self._groups.length:
            groups = self._groups.view()[kept]
            self._groups = Growing(np.int64)
            self._groups.append(groups)
            self._values = self._values.kept(kept)

    def state(self, count: int) -> pa.Table:
        listed = self._listed(count)
        ends = np.concatenate([[0], np.cumsum(listed.counts)]).astype(np.int32)
        return pa.table({"held": pa.ListArray.from_arrays(pa.array(ends), listed.values.to_arrow())})

    def load(self, table: pa.Table) -> None:
        lists = table.column("held").combine_chunks()
        lengths = pa.compute.list_value_length(lists).to_numpy(zero_copy_only=False)
        self._dropped = 0
        self._empty()
        self._groups.append(np.repeat(np.arange(len(lists), dtype=np.int64), lengths))
        self._values.append(Column.from_arrow(self._argument, lists.flatten()))

    def _empty(self) -> None:
        self._groups = Growing(np.int64)
        self._values = values_store(self._argument)

    def _listed(self, count: int) -> ListedValues:
        """Return the values of the first groups: in the order of the rows, or in ascending order."""
        groups = self._groups.view() - self._dropped
        where = np.flatnonzero((groups >= 0) & (groups < count))
        values, groups = self._values.take(where), groups[where]
        if self._ascending:
            upwards = _upwards(values)
            order = upwards[np.argsort(groups[upwards], kind="stable")]
        else:
            order = np.argsort(groups, kind="stable")
        return ListedValues(values.take(order), np.bincount(groups, minlength=count))


def _upwards(values: Column) -> Int64s:
    """Return the places of values in ascending order, equal ones in their order, NaN last."""
    if values.type.is_variable_width:
        order: Int64s = pa.compute.sort_indices(values.values).to_numpy().astype(np.int64)
        return order
    return np.argsort(values.values, kind="stable")


def _numbers_in(listed: ListedValues) -> Int64s:
    """Return how many values of each group count: those that are not NaN, or all if there is nothing else."""
    if not listed.values.type.is_float:
        return listed.counts
    nans = np.bincount(listed.owners()[np.isnan(listed.values.values)], minlength=len(listed.counts))
    return np.where(nans < listed.counts, listed.counts - nans, listed.counts)


def _for_each(counts: Int64s, place: Callable[[int], int]) -> Int64s:
    """Return what a function returns for each number of values: few different ones, as a rule."""
    different, of_each = np.unique(counts, return_inverse=True)
    return np.array([place(count) if count else 0 for count in different.tolist()], dtype=np.int64)[of_each]


def _one_at(call: AggregateCall, listed: ListedValues) -> Column:
    fraction = call.fraction or Fraction(0)

    def place(count: int) -> int:
        return max(0, -(-fraction.numerator * count // fraction.denominator) - 1)

    return listed.picked(call.type, listed.begins + _for_each(_numbers_in(listed), place))


def _between(call: AggregateCall, listed: ListedValues) -> Column:
    fraction, counts, of = call.fraction or Fraction(0), listed.counts, listed.values.type
    numerator, parts = fraction.numerator, fraction.denominator
    if not len(listed.values):
        return Column.nulls(call.type, len(counts))
    known = counts > 0
    first = _for_each(counts, lambda count: numerator * (count - 1) // parts)
    part = _for_each(counts, lambda count: numerator * (count - 1) % parts)
    values = values_of(listed.values)[0]
    low = np.where(known, listed.begins + first, 0)
    high = np.where(part > 0, low + 1, low)
    found = Interpolation(of, call.type, parts).values(values[low], values[high], part)
    return column_of(call.type, found, known)


def _mode(call: AggregateCall, listed: ListedValues) -> Column:
    codes, owners = _codes(listed.values), listed.owners()
    order = np.lexsort((codes, owners))
    codes, owners = codes[order], owners[order]
    starts = np.ones(len(order), dtype=np.bool_)
    starts[1:] = (codes[1:] != codes[:-1]) | (owners[1:] != owners[:-1])
    runs = np.flatnonzero(starts)
    # The sort keeps the order of equal values, so a run begins with the first of them.
    firsts, lengths, of = order[runs], np.diff(runs, append=len(order)), owners[runs]
    best = np.lexsort((firsts, -lengths, of))
    places = np.zeros(len(listed.counts), dtype=np.int64)
    # Of several runs of a group the best one is written last.
    places[of[best][::-1]] = firsts[best][::-1]
    return listed.picked(call.type, places)


def _codes(values: Column) -> NDArray[Any]:
    """Return a whole number for each value, the same for equal ones: zeros, and NaNs, are equal."""
    if values.type.is_variable_width:
        return np.asarray(values.values.dictionary_encode().indices, dtype=np.int64)
    if not values.type.is_float:
        return np.asarray(values.values)
    doubles = np.asarray(values.values, dtype=np.float64) + 0.0
    doubles[np.isnan(doubles)] = np.nan
    return doubles.view(np.int64)


def _joined(call: AggregateCall, listed: ListedValues) -> Column:
    ends = np.concatenate([[0], np.cumsum(listed.counts)]).astype(np.int32)
    lists = pa.ListArray.from_arrays(pa.array(ends), listed.values.to_arrow())
    joined = Column.from_arrow(call.type, pa.compute.binary_join(lists, ""))
    known = listed.counts > 0
    return joined if known.all() else joined.where_valid(known)


RESULTS: Mapping[str, Results] = {
    **dict.fromkeys(("MEDIAN", "PERCENTILE_CONT"), _between),
    "PERCENTILE_DISC": _one_at,
    "MODE": _mode,
    **dict.fromkeys(("LISTAGG", "SORTED_LISTAGG"), _joined),
}
"""The results over listed values."""


class PickedValues:
    """FIRST_VALUE, LAST_VALUE and ANY_VALUE: the first or the last value of each group.

    Of the rows of a tray only the first or the last one of each group is looked at. Values of variable width,
    and wide decimals, are in row form.
    """

    def __init__(self, call: AggregateCall, argument: Type) -> None:
        self._type = argument
        self._last = call.function == "LAST_VALUE"
        self._values = np.zeros(0, dtype=np.dtype(object) if argument.is_variable_width else argument.dtype)
        self._known = np.zeros(0, dtype=np.bool_)
        self._begun = np.zeros(0, dtype=np.bool_)
        self._rows = np.zeros(0, dtype=np.int64)

    def reserve(self, groups: int) -> None:
        self._values, self._known = grown(self._values, groups), grown(self._known, groups)
        self._begun, self._rows = grown(self._begun, groups), grown(self._rows, groups)

    def refused(self, column: Column | None, use: Mask) -> Mask | None:
        return None

    def fits(self, groups: Int64s, column: Column | None, use: Mask) -> bool:
        return True

    def add(self, groups: Int64s, column: Column | None, use: Mask) -> None:
        if column is None:
            raise ValueError("this aggregate has an argument")
        rows = np.flatnonzero(use if self._last else use & ~self._begun[groups])
        of = groups[rows]
        # Of several rows of a group the one that counts is written last.
        self._rows[of if self._last else of[::-1]] = rows if self._last else rows[::-1]
        rows = rows[self._rows[of] == rows]
        self._set(groups[rows], column.take(rows))

    def results(self, count: int) -> Column:
        return self._column(np.arange(count))

    def drop(self, count: int, rest: int) -> None:
        for array in (self._values, self._known, self._begun):
            array[:rest] = array[count : count + rest]
            array[rest : count + rest] = 0

    def state(self, count: int) -> pa.Table:
        begun = self._begun[:count]
        ends = np.concatenate([[0], np.cumsum(begun)]).astype(np.int32)
        held = self._column(np.flatnonzero(begun)).to_arrow()
        return pa.table({"held": pa.ListArray.from_arrays(pa.array(ends), held)})

    def load(self, table: pa.Table) -> None:
        lists = table.column("held").combine_chunks()
        self.reserve(len(lists))
        begun = pa.compute.list_value_length(lists).to_numpy(zero_copy_only=False) > 0
        self._set(np.flatnonzero(begun), Column.from_arrow(self._type, lists.flatten()))

    def _set(self, groups: Int64s, column: Column) -> None:
        values: Any = column.values
        if self._type.is_variable_width:
            values = np.empty(len(column), dtype=object)
            values[:] = column.to_list()
        self._values[groups], self._known[groups] = values, column.valid_mask()
        self._begun[groups] = True

    def _column(self, groups: Int64s) -> Column:
        values, known = self._values[groups], self._known[groups]
        if self._type.is_variable_width:
            held = zip(values.tolist(), known.tolist(), strict=True)
            return Column.from_values(self._type, [value if valid else None for value, valid in held])
        return Column(self._type, values, None if known.all() else known)
