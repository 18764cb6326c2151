"""Aggregates of groups without a kernel, row by row: variances, and aggregates of all values."""

from __future__ import annotations

import json
from collections.abc import Iterator
from copy import deepcopy
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from rowtide.errors import RejectedRowError
from rowtide.expr.aggregates import MakeSketch, Sketch, aggregate_of
from rowtide.expr.ascending import put, put_greatest
from rowtide.expr.tree import AggregateCall
from rowtide.operators.aggregates.row_functions import VarianceFunction
from rowtide.rows.arrays import Mask
from rowtide.rows.column import Column, arrow_lists, row_lists
from rowtide.rows.types import MAX_DECIMAL_PRECISION, Kind, Type

Groups = NDArray[np.int64]

SAFE_DOUBLE = 1e150
"""Any number of doubles up to this value has a variance that is a double."""


class Spreads:
    """Variances and standard deviations: one function for each group, the same as over a window."""

    def __init__(self, call: AggregateCall, argument: Type) -> None:
        self._call = call
        self._argument = argument
        self._held: list[VarianceFunction] = []
        self._safe = True

    def reserve(self, groups: int) -> None:
        self._held.extend(self._fresh() for _ in range(groups - len(self._held)))

    def refused(self, column: Column | None, use: Mask) -> Mask | None:
        return refused(self._call, column, use)

    def fits(self, groups: Groups, column: Column | None, use: Mask) -> bool:
        if self._are_safe(column, use):
            return True
        trial: dict[int, VarianceFunction] = {}
        for group, value in rows_of(groups, column, use):
            if group not in trial:
                trial[group] = self._fresh()
                trial[group].load(self._held[group].save())
            trial[group].add(value)
            try:
                trial[group].result()
            except RejectedRowError:
                return False
        return True

    def add(self, groups: Groups, column: Column | None, use: Mask) -> None:
        self._safe = self._are_safe(column, use)
        for group, value in rows_of(groups, column, use):
            self._held[group].add(value)

    def results(self, count: int) -> Column:
        return Column.from_values(self._call.type, [held.result() for held in self._held[:count]])

    def drop(self, count: int, rest: int) -> None:
        del self._held[:count]

    def state(self, count: int) -> pa.Table:
        # Sums are exact and longer than 64 bits, so they are stored as text.
        held = [json.dumps(each.save()) for each in self._held[:count]]
        return pa.table(
            {"held": pa.array(held, pa.string()), "safe": pa.array([self._safe] * count, pa.bool_())}
        )

    def load(self, table: pa.Table) -> None:
        self._held = []
        for text in table.column("held").to_pylist():
            self._held.append(self._fresh())
            self._held[-1].load(json.loads(text))
        self._safe = all(table.column("safe").to_pylist())

    def _fresh(self) -> VarianceFunction:
        return VarianceFunction(self._argument, self._call.function)

    def _are_safe(self, column: Column | None, use: Mask) -> bool:
        """Return whether neither held nor new values can overflow."""
        if not self._argument.is_float or column is None:
            return True
        values = np.abs(np.asarray(column.values, dtype=np.float64)[use])
        return self._safe and not (values > SAFE_DOUBLE).any()


class Sketches:
    """Aggregates that keep a sketch of the values of each group."""

    def __init__(self, call: AggregateCall, make: MakeSketch) -> None:
        self._call = call
        self._make = make
        self._held: list[Sketch] = []

    def reserve(self, groups: int) -> None:
        self._held.extend(self._fresh() for _ in range(groups - len(self._held)))

    def refused(self, column: Column | None, use: Mask) -> Mask | None:
        return refused(self._call, column, use)

    def fits(self, groups: Groups, column: Column | None, use: Mask) -> bool:
        if not aggregate_of(self._call).can_fail:
            return True
        trial: dict[int, Sketch] = {}
        for group, value in rows_of(groups, column, use):
            if group not in trial:
                trial[group] = deepcopy(self._held[group])
            trial[group].add(value)
            try:
                trial[group].result()
            except RejectedRowError:
                return False
        return True

    def add(self, groups: Groups, column: Column | None, use: Mask) -> None:
        for group, value in rows_of(groups, column, use):
            self._held[group].add(value)

    def results(self, count: int) -> Column:
        return Column.from_values(self._call.type, [held.result() for held in self._held[:count]])

    def drop(self, count: int, rest: int) -> None:
        del self._held[:count]

    def state(self, count: int) -> pa.Table:
        return pa.table(
            {"held": pa.array([json.dumps(each.save()) for each in self._held[:count]], pa.string())}
        )

    def load(self, table: pa.Table) -> None:
        self._held = []
        for text in table.column("held").to_pylist():
            self._held.append(self._fresh())
            self._held[-1].load(json.loads(text))

    def _fresh(self) -> Sketch:
        return self._make(self._call, True)


class ValueLists:
    """Any aggregate that declares its result over values: keeps a list of values for each group."""

    def __init__(self, call: AggregateCall, argument: Type) -> None:
        self._call = call
        self._aggregate = aggregate_of(call)
        self._argument = argument
        self._held: list[list[Any]] = []

    def reserve(self, groups: int) -> None:
        self._held.extend([] for _ in range(groups - len(self._held)))

    def refused(self, column: Column | None, use: Mask) -> Mask | None:
        return refused(self._call, column, use)

    def fits(self, groups: Groups, column: Column | None, use: Mask) -> bool:
        if not self._aggregate.can_fail or self._aggregate.between:
            return True
        trial: dict[int, list[Any]] = {}
        for group, value in rows_of(groups, column, use):
            held = trial.setdefault(group, list(self._held[group]))
            try:
                self._put(held, value)
                self._aggregate.value_of(self._call, held)
            except RejectedRowError:
                return False
        return True

    def add(self, groups: Groups, column: Column | None, use: Mask) -> None:
        for group, value in rows_of(groups, column, use):
            self._put(self._held[group], value)

    def _put(self, held: list[Any], value: Any) -> None:
        if self._call.number is not None:
            put_greatest(held, value, self._call.number)
        elif self._aggregate.ascending:
            put(held, value)
        elif self._aggregate.folds and held:
            held[0] = self._aggregate.value_of(self._call, (held[0], value))
        else:
            held.append(value)

    def results(self, count: int) -> Column:
        found = [self._aggregate.value_of(self._call, held) for held in self._held[:count]]
        return Column.from_values(self._call.type, found)

    def drop(self, count: int, rest: int) -> None:
        del self._held[:count]

    def state(self, count: int) -> pa.Table:
        return pa.table({"held": arrow_lists(self._argument, self._held[:count])})

    def load(self, table: pa.Table) -> None:
        self._held = row_lists(self._argument, table.column("held"))


def refused(call: AggregateCall, column: Column | None, use: Mask) -> Mask | None:
    """Return which rows have a value that an aggregate can never take; None: it takes all."""
    if column is None:
        return None
    if column.type.is_float and aggregate_of(call).finite:
        finite = np.isfinite(np.asarray(column.values, dtype=np.float64))
        return None if finite.all() else use & ~finite
    least = limit_of(call)
    if least is None:
        return None
    found = np.zeros(len(use), dtype=np.bool_)
    for row in np.flatnonzero(use).tolist():
        found[row] = abs(int(column.values[row])) >= least
    return found


def limit_of(call: AggregateCall) -> int | None:
    """Return the least unscaled value that an aggregate's type cannot hold; None: it holds all."""
    kind = call.type
    if call.argument is None or kind.kind is not Kind.DECIMAL or kind.scale == call.argument.type.scale:
        return None
    digits = MAX_DECIMAL_PRECISION - kind.scale + call.argument.type.scale
    return int(10**digits)


def rows_of(groups: Groups, column: Column | None, use: Mask) -> Iterator[tuple[int, Any]]:
    """Return group and value, in row form, of each row to use."""
    if column is None:
        raise ValueError("this aggregate has an argument")
    where = np.flatnonzero(use)
    return zip(groups[where].tolist(), column.take(where).to_list(), strict=True)
