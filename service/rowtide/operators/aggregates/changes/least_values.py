"""MIN and MAX of values that are added and removed, by kernel (``kernels.heaps``), like ``over_held``."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from rowtide.operators.aggregates.row_functions import from_json, to_json
from rowtide.operators.aggregates.windows.calls import Moved, Values
from rowtide.operators.storage.keys import in_order, sort_codes
from rowtide.operators.storage.pooled_lists import PooledLists
from rowtide.rows.arrays import Int64s, Mask
from rowtide.rows.column import Column
from rowtide.rows.types import Type


class LeastValue:
    """The least or the greatest value of each group. Values are kept as codes in their order."""

    def __init__(self, of: Type, *, greatest: bool) -> None:
        self._of = of
        self._greatest = greatest
        self._lists = PooledLists()
        self._codes, self._use = np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.bool_)

    def fits(self, values: Values, use: Mask, most: int) -> bool:
        return True

    def reserve(self, groups: int) -> None:
        self._lists.reserve(2 * groups)

    def begin(self, values: Values, use: Mask) -> None:
        self._codes, self._use = self._coded(Column(self._of, values)), use
        self._found = np.empty(len(use), dtype=np.int64)
        self._known = np.empty(len(use), dtype=np.bool_)

    def follow(self, moved: Moved) -> None:
        """No values are in slots, and each row has one step."""
        from rowtide.operators.aggregates.kernels.heaps import follow_least
        from rowtide.operators.storage.kernels.pools import DONE, POOLED

        progress = np.array([0, self._lists.used], dtype=np.int64)
        while True:
            follow_least(
                moved.groups,
                moved.steps,
                self._codes,
                self._use,
                self._lists.pool,
                self._lists.lists,
                progress,
                self._found,
                self._known,
            )
            if progress[DONE] == moved.stop:
                break
            self._lists.make_room()
            progress[POOLED] = self._lists.used
        self._lists.used = int(progress[POOLED])

    def result(self) -> tuple[Values, Mask | None]:
        return self._decoded(self._found), self._known

    def keep(self, kept: Int64s) -> None:
        self._lists.lists = self._lists.lists.reshape(-1, 6)[kept].reshape(-1, 3)

    def save(self, groups: Int64s) -> Iterable[list[Any]]:
        """Each value with its count, in order."""
        from rowtide.operators.aggregates.kernels.heaps import cancel_all

        cancel_all(self._lists.pool, self._lists.lists)
        owners, codes = self._lists.listed(2 * groups)
        if self._greatest:
            codes = ~codes
        order = np.lexsort((codes, owners))
        codes, owners = codes[order], owners[order]
        is_first = np.ones(len(codes), dtype=np.bool_)
        is_first[1:] = (codes[1:] != codes[:-1]) | (owners[1:] != owners[:-1])
        firsts = np.flatnonzero(is_first)
        counts = np.diff(firsts, append=len(codes)).tolist()
        chosen = ~codes[firsts] if self._greatest else codes[firsts]
        values = Column(self._of, self._decoded(chosen).astype(self._of.dtype)).to_list()
        saved: list[list[Any]] = [[] for _ in range(len(groups))]
        for owner, value, count in zip(owners[firsts].tolist(), values, counts, strict=True):
            saved[owner].append([to_json(value), count])
        return saved

    def load(self, saved: Sequence[list[Any]]) -> bool:
        values = [from_json(self._of, value) for each in saved for value, _ in each]
        counts = [count for each in saved for _, count in each]
        owners = np.repeat(np.arange(len(saved)), [sum(count for _, count in each) for each in saved])
        codes = np.repeat(self._coded(Column.from_values(self._of, values)), counts)
        # A sorted list is a heap.
        self._lists.fill(
            codes[np.lexsort((codes, owners))], np.bincount(owners, minlength=len(saved)), every=2
        )
        return True

    def _coded(self, column: Column) -> Int64s:
        return sort_codes(column, descending=self._greatest)

    def _decoded(self, codes: Int64s) -> Values:
        codes = in_order(~codes if self._greatest else codes, self._of)
        return codes.view(np.float64) if self._of.is_float else codes
