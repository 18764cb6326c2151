"""DISTINCT: the values that enter a frame for the first time, or leave it for the last time."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rowtide.operators.aggregates.arithmetic.codes import KernelForm
from rowtide.operators.aggregates.groups.value_functions import make_window_function
from rowtide.operators.aggregates.row_functions import from_json, to_json
from rowtide.operators.aggregates.windows.calls import Moved, Values, WindowKernelCall
from rowtide.operators.aggregates.windows.sums import stored_type
from rowtide.operators.storage.keys import power_of_two
from rowtide.plan.frames import WindowCall
from rowtide.rows.arrays import Int64s, Mask
from rowtide.rows.column import Column

Codes = NDArray[np.int64]


class DistinctCounts:
    """The count of each value in the frame of each partition."""

    def __init__(self) -> None:
        self._table = _empty(0)
        self._filled = np.zeros(1, dtype=np.int64)

    def filtered(self, moved: Moved, values: Values, use: Mask) -> Mask:
        """Return the used steps that change the set of values."""
        from rowtide.operators.aggregates.kernels.window_distinct import once

        self._make_room(len(values))
        found = np.empty(len(values), dtype=np.bool_)
        once(
            *moved.path,
            codes_of(values),
            use,
            self._table,
            self._filled,
            found,
        )
        return found

    def keep(self, kept: Int64s) -> None:
        """Drop all partitions except these, in order."""
        live = self._live()
        places = np.searchsorted(kept, live[:, 0])
        there = places < len(kept)
        there[there] = kept[places[there]] == live[there, 0]
        live[:, 0] = places
        self._enter(live[there], 0)

    def counted(self, groups: Int64s) -> Iterable[tuple[Codes, Int64s]]:
        """Yield the codes of the values of each partition, and the count of each."""
        live = self._live()
        live = live[np.argsort(live[:, 0], kind="stable")]
        starts = np.searchsorted(live[:, 0], groups)
        ends = np.searchsorted(live[:, 0], groups, side="right")
        for start, end in zip(starts.tolist(), ends.tolist(), strict=True):
            yield live[start:end, 1], live[start:end, 2]

    def load(self, parts: Sequence[tuple[Values, Sequence[int]]]) -> None:
        """Restore the values of each partition, and the count of each."""
        rows = [
            np.stack([np.full(len(counts), group), codes_of(values), np.array(counts, np.int64)], axis=1)
            for group, (values, counts) in enumerate(parts)
            if counts
        ]
        self._enter(np.concatenate([self._live(), *rows]), 0)

    def _live(self) -> NDArray[np.int64]:
        return self._table[self._table[:, 2] > 0]

    def _make_room(self, values: int) -> None:
        if 2 * (int(self._filled[0]) + values) > len(self._table):
            self._enter(self._live(), values)

    def _enter(self, live: NDArray[np.int64], more: int) -> None:
        """Rebuild with these values, without the entries of removed values."""
        from rowtide.operators.aggregates.kernels.window_distinct import enter

        self._table = _empty(power_of_two(3 * (len(live) + more)))
        self._filled[0] = len(live)
        enter(np.ascontiguousarray(live), self._table)


def save_distinct(
    once: DistinctCounts, call: WindowCall, form: KernelForm, groups: Int64s
) -> Iterable[list[Any]]:
    """Yield the state of a call with DISTINCT in a frame without a start, as ``window_functions`` save it."""
    of = stored_type(call)
    for codes, counts in once.counted(groups):
        values = codes.view(np.float64) if of.is_float else codes
        column = form.decode(of, values, None).to_list() if len(codes) else []
        pairs = sorted(zip(column, counts.tolist(), strict=True))
        yield [[to_json(value), count] for value, count in pairs]


def load_distinct(
    inner: WindowKernelCall,
    once: DistinctCounts,
    call: WindowCall,
    form: KernelForm,
    saved: Sequence[list[Any]],
) -> bool:
    """Restore the result of ``save_distinct``; False: it does not fit."""
    of = stored_type(call)
    parts, alone = [], []
    for pairs in saved:
        values = [from_json(of, value) for value, _ in pairs]
        function = make_window_function(replace(call, distinct=False), endless=True)
        for value in values:
            function.add(value)
        alone.append(function.save())
        parts.append((form.encode(Column.from_values(of, values))[0], [count for _, count in pairs]))
    once.load(parts)
    return inner.load(alone)


def _empty(length: int) -> NDArray[np.int64]:
    table = np.zeros((length, 3), dtype=np.int64)
    table[:, 0] = -1
    return table


def codes_of(values: Values) -> Codes:
    """Return whole numbers that are equal if the values are: zero has two forms."""
    if values.dtype == np.float64:
        return (values + 0.0).view(np.int64)
    return values
