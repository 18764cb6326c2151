"""Aggregates of groups that have no kernel: spreads, picks and percentiles, row by row in plain Python."""

from __future__ import annotations

import json
import math
from bisect import insort_right
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from rowtide.errors import RejectedRowError
from rowtide.expr.tree import AggregateCall
from rowtide.operators.group.value_functions import CONTINUOUS, LISTS, SORTED, between, picked
from rowtide.operators.over.by_row.functions import VarianceFunction
from rowtide.rows.arrays import Mask
from rowtide.rows.column import Column, arrow_type
from rowtide.rows.types import MAX_DECIMAL_PRECISION, Kind, Type

Groups = NDArray[np.int64]

SAFE_DOUBLE = 1e150
"""Doubles up to here have a variance that is a double, however many they are."""
PICKS = LISTS | {"FIRST_VALUE", "LAST_VALUE", "ANY_VALUE", "MODE", "EVERY", "BOOL_AND", "BOOL_OR"}


def counts_nulls(call: AggregateCall) -> bool:
    """Return whether an aggregate takes rows where its argument is NULL.

    See docs/sql/semantics.md#frames-of-window-functions.
    """
    return call.function in ("FIRST_VALUE", "LAST_VALUE") and not call.ignore_nulls


class Spreads:
    """Variances and standard deviations: a function a group, the same as over a window."""

    def __init__(self, call: AggregateCall, argument: Type) -> None:
        self._call = call
        self._argument = argument
        self._held: list[VarianceFunction] = []
        self._safe = True

    def reserve(self, groups: int) -> None:
        self._held.extend(self._fresh() for _ in range(groups - len(self._held)))

    def refused(self, column: Column | None, use: Mask) -> Mask | None:
        return None

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
        # Sums are exact and longer than 64 bits, so they go as text.
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
        """Return whether neither what is held nor what comes can overflow."""
        if not self._argument.is_float or column is None:
            return True
        values = np.abs(np.asarray(column.values, dtype=np.float64)[use])
        return self._safe and not (values > SAFE_DOUBLE).any()


class ValueLists:
    """Aggregates that are one of the values, or stand between two: keeps a list of values a group."""

    def __init__(self, call: AggregateCall, argument: Type) -> None:
        self._call = call
        self._argument = argument
        self._held: list[list[Any]] = []

    def reserve(self, groups: int) -> None:
        self._held.extend([] for _ in range(groups - len(self._held)))

    def refused(self, column: Column | None, use: Mask) -> Mask | None:
        # What a percentile's type cannot hold.
        kind = self._call.type
        if self._call.function not in CONTINUOUS or kind.kind is not Kind.DECIMAL or column is None:
            return None
        limit = 10 ** (MAX_DECIMAL_PRECISION - kind.scale + self._argument.scale)
        found = np.zeros(len(use), dtype=np.bool_)
        for row in np.flatnonzero(use).tolist():
            found[row] = abs(int(column.values[row])) >= limit
        return found

    def fits(self, groups: Groups, column: Column | None, use: Mask) -> bool:
        return True

    def add(self, groups: Groups, column: Column | None, use: Mask) -> None:
        name = self._call.function
        for group, value in rows_of(groups, column, use):
            held = self._held[group]
            if name in SORTED or name == "SORTED_LISTAGG":
                insort_right(held, value)
            elif name in ("MODE", "LISTAGG") or not held:
                held.append(value)
            elif name == "LAST_VALUE":
                held[0] = value
            elif name in ("EVERY", "BOOL_AND"):
                held[0] = held[0] and value
            elif name == "BOOL_OR":
                held[0] = held[0] or value

    def results(self, count: int) -> Column:
        return Column.from_values(self._call.type, [self._result(held) for held in self._held[:count]])

    def drop(self, count: int, rest: int) -> None:
        del self._held[:count]

    def state(self, count: int) -> pa.Table:
        kind = pa.list_(arrow_type(self._argument))
        return pa.table({"held": pa.array(self._held[:count], kind)})

    def load(self, table: pa.Table) -> None:
        self._held = table.column("held").to_pylist()

    def _result(self, held: list[Any]) -> object:
        if not held:
            return None
        name = self._call.function
        fraction = self._call.fraction or Fraction(0)
        if name in CONTINUOUS:
            return between(held, fraction, self._call.type)
        if name == "PERCENTILE_DISC":
            return held[max(0, math.ceil(fraction * len(held)) - 1)]
        return picked(name, held)


def rows_of(groups: Groups, column: Column | None, use: Mask) -> Iterator[tuple[int, Any]]:
    """Return group and value, in row form, of each row to use."""
    if column is None:
        raise ValueError("this aggregate has an argument")
    where = np.flatnonzero(use)
    return zip(groups[where].tolist(), column.take(where).to_list(), strict=True)
