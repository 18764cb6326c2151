"""Calls that give a value at any place of a frame, or of all rows so far; some leave out NULLs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from rowtide.operators.growing import grown
from rowtide.operators.over_calls import Held, Int64s, Moved, Values
from rowtide.operators.over_codes import Form
from rowtide.operators.window_functions import from_json, to_json
from rowtide.rows.column import Column, Mask
from rowtide.rows.types import Type


class _Places(Held):
    """What both have: results that may not be there."""

    def begin(self, values: Values, use: Mask) -> None:
        """See the protocol; ``there`` tells a frame with too few values from a value that is NULL."""
        super().begin(values, use)
        self._found = np.zeros(len(use), dtype=self._values.dtype)
        self._known = np.zeros(len(use), dtype=np.bool_)
        self.there = np.zeros(len(use), dtype=np.bool_)

    def result(self) -> tuple[Values, Mask | None]:
        """See the protocol."""
        return self._found, self._known


class Nth(_Places):
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
        """See the protocol."""
        super().hold(slots)
        self._behind, self._inside = grown(self._behind, slots), grown(self._inside, slots)
        self._inside_use = grown(self._inside_use, slots)

    def follow(self, moved: Moved) -> None:
        """See the protocol."""
        from rowtide.operators.kernels.over_picks import nths

        nths(
            moved.groups,
            moved.start,
            moved.stop,
            moved.steps,
            moved.until,
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


class RunningNth(_Places):
    """The value ``number`` places from an end of all rows so far."""

    counts: Int64s
    held: Values
    known: Mask

    def __init__(self, of: Type, form: Form, number: int, *, from_end: bool, ignore_nulls: bool) -> None:
        dtype = np.float64 if of.is_float else np.int64
        super().__init__(dtype, counts=(np.int64, 0), held=(dtype, number), known=(np.bool_, number))
        self._of, self._form = of, form
        self._number = number
        self._from_end = from_end
        self._ignore = ignore_nulls

    def follow(self, moved: Moved) -> None:
        """See the protocol."""
        from rowtide.operators.kernels.over_picks import running_nths

        running_nths(
            moved.groups,
            moved.start,
            moved.stop,
            moved.steps,
            moved.until,
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
        """See the protocol; of each partition the values in order."""
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
        """See the protocol."""
        for group, values in enumerate(saved):
            count = len(values)
            column = Column.from_values(self._of, [from_json(self._of, value) for value in values])
            self.held[group, :count], self.known[group, :count] = self._form.encode(column)
            self.counts[group] = count
        return True
