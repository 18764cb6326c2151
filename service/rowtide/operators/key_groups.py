"""Numbers of distinct keys, in the order of their first appearance."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from rowtide.operators.keys import KeyCoder, power_of_two
from rowtide.rows.column import Column
from rowtide.rows.types import Type

Groups = NDArray[np.int64]


class KeyGroups:
    """Gives equal keys equal numbers, from 0 on, for as long as it lives."""

    def __init__(self, types: Sequence[Type]) -> None:
        self.count = 0
        self._coder = KeyCoder(types)
        self._slots = np.full(power_of_two(0), -1, dtype=np.int32)
        self._keys = np.zeros((0, self._coder.width), dtype=np.int64)

    def number(self, columns: Sequence[Column], rows: int) -> Groups:
        """Give the number of each row's key; new keys get new numbers."""
        from rowtide.operators.kernels.groups import assign

        codes = self._encode(columns, rows)
        self._reserve(rows)
        groups = np.empty(rows, dtype=np.int64)
        firsts = np.empty(self.count + rows, dtype=np.int64)
        self.count = assign(codes, self._slots, self._keys, self.count, groups, firsts)
        return groups

    def find(self, columns: Sequence[Column], rows: int) -> Groups:
        """Give the number of each row's key, -1 for a key that has none."""
        from rowtide.operators.kernels.groups import find

        groups = np.empty(rows, dtype=np.int64)
        find(self._encode(columns, rows), self._slots, self._keys, groups)
        return groups

    def _encode(self, columns: Sequence[Column], rows: int) -> NDArray[np.int64]:
        codes = np.empty((rows, self._coder.width), dtype=np.int64)
        self._coder.encode(columns, codes)
        return codes

    def _reserve(self, rows: int) -> None:
        from rowtide.operators.kernels.groups import enter

        needed = self.count + rows
        if needed > len(self._keys):
            larger = np.zeros((max(needed, 2 * len(self._keys)), self._keys.shape[1]), dtype=np.int64)
            larger[: self.count] = self._keys[: self.count]
            self._keys = larger
        if power_of_two(2 * needed) > len(self._slots):
            self._slots = np.full(power_of_two(2 * needed), -1, dtype=np.int32)
            enter(self._keys, self.count, self._slots)


def without_nulls(groups: Groups, columns: Sequence[Column]) -> Groups:
    """Give -1 where a key has a NULL: in SQL it meets nothing."""
    for column in columns:
        if column.valid is not None:
            groups = np.where(column.valid, groups, -1)
    return groups
