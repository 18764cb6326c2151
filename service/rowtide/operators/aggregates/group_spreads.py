"""Variances of groups by kernels: the same sums as over a window, to which rows are only added.

When a double arrives that the kernels cannot process, plain Python takes over permanently.
"""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from rowtide.expr.tree import AggregateCall
from rowtide.operators.aggregates.arithmetic.codes import column_of, values_of
from rowtide.operators.aggregates.groups.group_functions import Spreads
from rowtide.operators.aggregates.windows.spreads import VarianceKernel
from rowtide.rows.arrays import Mask
from rowtide.rows.column import Column
from rowtide.rows.types import Type

Groups = NDArray[np.int64]


class SpreadsInKernels(Spreads):
    """Variances of types of fixed width, and their square roots. Each form restores states of the other."""

    def __init__(self, call: AggregateCall, argument: Type) -> None:
        super().__init__(call, argument)
        self._kernel: VarianceKernel | None = VarianceKernel(argument, call.function)
        self._groups = 0

    def reserve(self, groups: int) -> None:
        if self._kernel is None:
            super().reserve(groups)
            return
        self._groups = max(self._groups, groups)
        self._kernel.reserve(self._groups)

    def fits(self, groups: Groups, column: Column | None, use: Mask) -> bool:
        if self._kernel is not None and column is not None:
            if self._kernel.fits(values_of(column)[0], use, len(use)):
                return True
            self._go_on_by_row()
        return super().fits(groups, column, use)

    def add(self, groups: Groups, column: Column | None, use: Mask) -> None:
        if self._kernel is not None and column is not None:
            self._kernel.add(groups, values_of(column)[0], use)
        else:
            super().add(groups, column, use)

    def results(self, count: int) -> Column:
        if self._kernel is None:
            return super().results(count)
        return column_of(self._call.type, *self._kernel.of_groups(count))

    def drop(self, count: int, rest: int) -> None:
        if self._kernel is None:
            super().drop(count, rest)
            return
        self._kernel.keep(np.arange(count, count + rest))
        self._groups = rest

    def state(self, count: int) -> pa.Table:
        if self._kernel is None:
            return super().state(count)
        held = [json.dumps(each) for each in self._kernel.save(np.arange(count))]
        safe = pa.array([True] * count, pa.bool_())
        return pa.table({"held": pa.array(held, pa.string()), "safe": safe})

    def load(self, table: pa.Table) -> None:
        if self._kernel is not None:
            self.reserve(len(table))
            if self._kernel.load([json.loads(text) for text in table.column("held").to_pylist()]):
                return
            self._kernel = None
        super().load(table)

    def _go_on_by_row(self) -> None:
        state = self.state(self._groups)
        self._kernel = None
        super().load(state)
