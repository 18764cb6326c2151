"""Aggregates with a result before and after each row: those of closed groups, and their loops."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from rowtide.expr.tree import AggregateCall
from rowtide.operators.aggregates.groups.accumulators import (
    Accumulator,
    CheckedSum,
    CountAccumulator,
    ExtremeAccumulator,
    FloatSum,
    Groups,
    values_of,
)
from rowtide.rows.arrays import Mask
from rowtide.rows.column import Column
from rowtide.rows.types import BIGINT, Type

LARGEST_DOUBLE = float(np.finfo(np.float64).max)


class RunningAccumulator(Accumulator, Protocol):
    """An accumulator whose results are emitted row by row."""

    def run(
        self, groups: Groups, begins: Mask, column: Column | None, use: Mask, changed: Mask, rows_out: int
    ) -> Column:
        """Add rows that fit, in order, and return the ``rows_out`` results before and after them.

        ``begins``: no result exists before. ``changed`` becomes True where the result differs.
        """


def make_running(call: AggregateCall) -> RunningAccumulator:
    """Choose the accumulator of a compiled aggregate (``plan.calls``).

    Raises:
      KeyError: it is not compiled.
    """
    return MAKERS[call.function](call)


class RunningCount(CountAccumulator):
    """COUNT."""

    def run(
        self, groups: Groups, begins: Mask, column: Column | None, use: Mask, changed: Mask, rows_out: int
    ) -> Column:
        from rowtide.operators.aggregates.kernels.running import count

        out = np.empty(rows_out, dtype=np.int64)
        count(groups, begins, use, self.parts["count"], out, changed)
        return Column(BIGINT, out)


class RunningSum(CheckedSum):
    """SUM of integers and intervals. ``_gaps``: there may be groups without a value, so that their sum is NULL."""

    def run(
        self, groups: Groups, begins: Mask, column: Column | None, use: Mask, changed: Mask, rows_out: int
    ) -> Column:
        self._reach = self._after(column)
        self._gaps = self._gaps or not use.all()
        out = np.empty(rows_out, dtype=np.int64)
        held = use if self._gaps else None
        valid = _add_up(groups, begins, values_of(column), held, self.parts, out, changed)
        return _column(self._type, out, valid)


class RunningFloatSum(FloatSum):
    """SUM and AVG of floats, added in row order.

    ``_reach`` is at least the absolute value of every sum: rows that cannot bring any sum near the end
    of DOUBLE need no check one by one.
    """

    def __init__(self, kind: Type, *, average: bool) -> None:
        super().__init__(kind, average=average)
        self._reach = 0.0
        self._gaps = False

    def fits(self, groups: Groups, column: Column | None, use: Mask) -> bool:
        return self._after(column) < LARGEST_DOUBLE / 2 or super().fits(groups, column, use)

    def run(
        self, groups: Groups, begins: Mask, column: Column | None, use: Mask, changed: Mask, rows_out: int
    ) -> Column:
        from rowtide.operators.aggregates.kernels.running import average

        values = values_of(column)
        self._reach = self._after(column)
        self._gaps = self._gaps or not use.all()
        out = np.empty(rows_out, dtype=np.float64)
        if not self._average:
            held = use if self._gaps else None
            return _column(self._type, out, _add_up(groups, begins, values, held, self.parts, out, changed))
        valid = np.empty(rows_out, dtype=np.bool_)
        total, rows = self.parts["total"], self.parts["count"]
        average(groups, begins, values, use, total, rows, out, valid, changed)
        return _column(self._type, out, valid)

    def drop(self, count: int, rest: int) -> None:
        super().drop(count, rest)
        self._reach = _largest_double(self.parts["total"][:rest])

    def load(self, table: pa.Table) -> None:
        super().load(table)
        self._reach = _largest_double(self.parts["total"])
        self._gaps = True

    def _after(self, column: Column | None) -> float:
        """Return an upper limit of every sum after these rows. The values under NULLs are undefined."""
        values = values_of(column)
        return self._reach + len(values) * _largest_double(values)


class RunningExtreme(ExtremeAccumulator):
    """MIN and MAX."""

    def run(
        self, groups: Groups, begins: Mask, column: Column | None, use: Mask, changed: Mask, rows_out: int
    ) -> Column:
        from rowtide.operators.aggregates.kernels.running import extreme

        best, seen = self.parts["best"], self.parts["seen"]
        out, valid = np.empty(rows_out, dtype=best.dtype), np.empty(rows_out, dtype=np.bool_)
        extreme(groups, begins, values_of(column), use, self._greatest, best, seen, out, valid, changed)
        return _column(self._type, out, valid)


def _add_up(
    groups: Groups,
    begins: Mask,
    values: NDArray[Any],
    use: Mask | None,
    parts: dict[str, NDArray[Any]],
    out: NDArray[Any],
    changed: Mask,
) -> Mask | None:
    """Write the sums into ``out`` and return which are valid; without ``use`` all are."""
    from rowtide.operators.aggregates.kernels.running import add_up, add_up_all

    total, rows = parts["total"], parts["count"]
    if use is None:
        add_up_all(groups, begins, values, total, rows, out, changed)
        return None
    valid = np.empty(len(out), dtype=np.bool_)
    add_up(groups, begins, values, use, total, rows, out, valid, changed)
    return valid


def _largest_double(values: NDArray[np.float64]) -> float:
    """Return the largest absolute value; infinite if there is a NaN."""
    if not len(values):
        return 0.0
    largest = max(-float(values.min()), float(values.max()))
    return largest if np.isfinite(largest) else np.inf


def _column(kind: Type, values: NDArray[Any], valid: Mask | None) -> Column:
    all_valid = valid is None or valid.all()
    return Column(kind, values.astype(kind.dtype, copy=False), None if all_valid else valid)


def _count(call: AggregateCall) -> RunningAccumulator:
    del call
    return RunningCount()


def _sum(call: AggregateCall) -> RunningAccumulator:
    of = None if call.argument is None else call.argument.type
    if call.function == "SUM" and of is not None and (of.is_integer or of.is_interval):
        return RunningSum(call.type)
    return RunningFloatSum(call.type, average=call.function == "AVG")


def _extreme(call: AggregateCall) -> RunningAccumulator:
    return RunningExtreme(call.type, greatest=call.function == "MAX")


MAKERS: Mapping[str, Callable[[AggregateCall], RunningAccumulator]] = {
    "COUNT": _count,
    **dict.fromkeys(("SUM", "AVG"), _sum),
    **dict.fromkeys(("MIN", "MAX"), _extreme),
}
"""Makers of the accumulators of compiled calls (``plan.calls``)."""
