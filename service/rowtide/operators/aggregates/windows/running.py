"""Calls of a window whose frame has no start: running results, no row is kept."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from rowtide.operators.aggregates.arithmetic.codes import KernelForm
from rowtide.operators.aggregates.row_functions import from_json, to_json
from rowtide.operators.aggregates.windows.calls import Held, Known, Moved, Values
from rowtide.rows.arrays import Int64s, Mask
from rowtide.rows.column import Column
from rowtide.rows.types import Type


class RunningExtremeKernel(Known):
    """MIN and MAX of all rows so far."""

    seen: Mask
    best: Values

    def __init__(self, of: Type, form: KernelForm, *, greatest: bool) -> None:
        self._of, self._form = of, form
        self._dtype = np.float64 if of.is_float else np.int64
        super().__init__(self._dtype, seen=(np.bool_, 0), best=(self._dtype, 0))
        self._greatest = greatest

    def follow(self, moved: Moved) -> None:
        from rowtide.operators.aggregates.kernels.window_extremes import running_extremes

        running_extremes(
            *moved.path,
            self._values_of(moved),
            self._use_of(moved),
            self.seen,
            self.best,
            self._greatest,
            self._found,
            self._known,
        )

    def save(self, groups: Int64s) -> Iterable[list[Any]]:
        held = self._form.decode(self._of, self.best[groups], self.seen[groups]).to_list()
        return [[] if value is None else [to_json(value)] for value in held]

    def load(self, saved: Sequence[list[Any]]) -> bool:
        column = Column.from_values(
            self._of, [from_json(self._of, each[0]) if each else None for each in saved]
        )
        self.best[: len(saved)], self.seen[: len(saved)] = self._form.encode(column)
        return True


class RunningPick(Held):
    """FIRST_VALUE and LAST_VALUE of all rows so far."""

    began: Mask
    known: Mask
    held: Values

    def __init__(self, of: Type, form: KernelForm, *, last: bool) -> None:
        self._of, self._form = of, form
        dtype = np.float64 if of.is_float else np.int64
        super().__init__(dtype, began=(np.bool_, 0), known=(np.bool_, 0), held=(dtype, 0))
        self._last = last

    def follow(self, moved: Moved) -> None:
        groups = moved.groups
        values, use = self._given
        if self._last:
            self.held[groups], self.known[groups] = values, use
            self._result = values.copy(), use.copy()
        else:
            fresh = np.flatnonzero(~self.began[groups])[::-1]
            # If several rows have one partition, the first one is written last.
            self.held[groups[fresh]], self.known[groups[fresh]] = values[fresh], use[fresh]
            self._result = self.held[groups], self.known[groups]
        self.began[groups] = True

    def result(self) -> tuple[Values, Mask | None]:
        return self._result

    def save(self, groups: Int64s) -> Iterable[list[Any]]:
        return [
            [to_json(value)]
            for value in self._form.decode(self._of, self.held[groups], self.known[groups]).to_list()
        ]

    def load(self, saved: Sequence[list[Any]]) -> bool:
        column = Column.from_values(self._of, [from_json(self._of, each[0]) for each in saved])
        self.held[: len(saved)], self.known[: len(saved)] = self._form.encode(column)
        self.began[: len(saved)] = True
        return True


class RankKernel(Held):
    """RANK and DENSE_RANK by what the window is ordered by, which is the value."""

    rows: Int64s
    rank: Int64s
    last: Int64s

    def __init__(self, *, dense: bool) -> None:
        super().__init__(np.int64, rows=(np.int64, 0), rank=(np.int64, 0), last=(np.int64, 0))
        self._dense = dense

    def follow(self, moved: Moved) -> None:
        from rowtide.operators.aggregates.kernels.picks import ranks

        self._found = np.empty(moved.stop, dtype=np.int64)
        order = self._given[0]
        ranks(moved.groups, order, self.rows, self.rank, self.last, self._dense, self._found)

    def result(self) -> tuple[Values, Mask | None]:
        return self._found, None

    def save(self, groups: Int64s) -> Iterable[list[Any]]:
        parts = (each[groups].tolist() for each in (self.rows, self.rank, self.last))
        return [list(each) for each in zip(*parts, strict=True)]

    def load(self, saved: Sequence[list[Any]]) -> bool:
        for group, (rows, rank, last) in enumerate(saved):
            self.rows[group], self.rank[group], self.last[group] = rows, rank, last or 0
        return True
