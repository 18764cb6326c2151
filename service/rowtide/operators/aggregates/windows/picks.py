"""Calls that return a value at any place of a frame, or of all rows so far; some leave out NULLs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from rowtide.operators.aggregates.arithmetic.codes import KernelForm
from rowtide.operators.aggregates.row_functions import from_json, to_json
from rowtide.operators.aggregates.windows.calls import Known, Moved, Values
from rowtide.operators.storage.growing import grown
from rowtide.rows.arrays import Int64s, Mask
from rowtide.rows.column import Column
from rowtide.rows.types import Type


class Placed(Known):
    """The value at a place of a frame, which may not be ``there``: that is not a value that is NULL."""

    def begin(self, values: Values, use: Mask) -> None:
        super().begin(values, use)
        self.there = np.zeros(len(use), dtype=np.bool_)


class Pick(Placed):
    """FIRST_VALUE, LAST_VALUE, LAG and LEAD: the value at an end of the frame."""

    def __init__(self, dtype: Any, *, last: bool) -> None:
        super().__init__(dtype)
        self._last = last

    def follow(self, moved: Moved) -> None:
        from rowtide.operators.aggregates.kernels.picks import picks

        ends = moved.last if self._last else moved.first
        rows = slice(moved.start, moved.stop)
        self.there[rows] = ends[rows] >= 0
        picks(
            moved.start,
            moved.stop,
            moved.steps,
            moved.until,
            ends,
            *self._given,
            self._values,
            self._use,
            self._found,
            self._known,
        )


class NthKernel(Placed):
    """The value ``number`` places from an end of a frame that moves."""

    places: Int64s

    def __init__(self, dtype: Any, number: int, *, from_end: bool, ignore_nulls: bool) -> None:
        super().__init__(dtype, places=(np.int64, 4))
        self._number = number
        self._from_end = from_end
        self._ignore = ignore_nulls
        self._behind = np.zeros(0, dtype=np.int32)
        self._inside: Values = np.zeros(0, dtype=dtype)
        self._inside_use: Mask = np.zeros(0, dtype=np.bool_)

    def hold(self, slots: int) -> None:
        super().hold(slots)
        self._behind, self._inside = grown(self._behind, slots), grown(self._inside, slots)
        self._inside_use = grown(self._inside_use, slots)

    def follow(self, moved: Moved) -> None:
        from rowtide.operators.aggregates.kernels.picks import nths

        nths(
            *moved.path,
            self._values_of(moved),
            self._use_of(moved),
            self._ignore,
            self._number,
            self._from_end,
            self.places,
            self._behind,
            self._inside,
            self._inside_use,
            self._found,
            self._known,
            self.there,
        )


class RunningNth(Placed):
    """The value ``number`` places from an end of all rows so far."""

    counts: Int64s
    held: Values
    known: Mask

    def __init__(
        self, of: Type, form: KernelForm, number: int, *, from_end: bool, ignore_nulls: bool
    ) -> None:
        dtype = np.float64 if of.is_float else np.int64
        super().__init__(dtype, counts=(np.int64, 0), held=(dtype, number), known=(np.bool_, number))
        self._of, self._form = of, form
        self._number = number
        self._from_end = from_end
        self._ignore = ignore_nulls

    def follow(self, moved: Moved) -> None:
        from rowtide.operators.aggregates.kernels.picks import running_nths

        running_nths(
            *moved.path,
            self._values_of(moved),
            self._use_of(moved),
            self._ignore,
            self._from_end,
            self.counts,
            self.held,
            self.known,
            self._found,
            self._known,
            self.there,
        )

    def save(self, groups: Int64s) -> Iterable[list[Any]]:
        """Of each partition the values in order."""
        saved = []
        for group in groups.tolist():
            count = int(self.counts[group])
            places = np.arange(max(0, count - self._number), count) % self._number
            if not self._from_end:
                places = np.arange(min(count, self._number))
            column = self._form.decode(self._of, self.held[group, places], self.known[group, places])
            saved.append([to_json(value) for value in column.to_list()])
        return saved

    def load(self, saved: Sequence[list[Any]]) -> bool:
        for group, values in enumerate(saved):
            count = len(values)
            column = Column.from_values(self._of, [from_json(self._of, value) for value in values])
            self.held[group, :count], self.known[group, :count] = self._form.encode(column)
            self.counts[group] = count
        return True
