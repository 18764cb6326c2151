"""Numbers of distinct keys, in the order of their first appearance."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from rowtide.operators.storage.growing import grown
from rowtide.operators.storage.keys import KeyCoder, power_of_two
from rowtide.rows.column import Column
from rowtide.rows.types import Type

Groups = NDArray[np.int64]

FORGET_INTERNED_OVER = 1 << 16
"""Interned key values are dropped with keys once there are more of them than this."""


class KeyGroups:
    """Assigns equal keys equal numbers, from 0 on, until keys are dropped.

    A key may begin with a whole number that is not a field, for example the start of its window. Keys are
    found by hashing their codes. A single text was hashed when it was interned, so its code is the index of
    its number in ``_number_of``, whose last element is that of NULL. While only texts have come and none is
    dropped (``_is_dense``), its code is its number.
    """

    def __init__(self, types: Sequence[Type], *, windows: bool = False) -> None:
        self.count = 0
        self._lead = 1 if windows else 0
        self._coder = KeyCoder(types)
        self._slots = np.full(power_of_two(0), -1, dtype=np.int32)
        self._keys = np.zeros((0, self._lead + self._coder.width), dtype=np.int64)
        self._is_text = len(types) == 1 and types[0].is_variable_width and not windows
        self._is_dense = self._is_text
        self._number_of = np.full(1, -1, dtype=np.int64)

    def number(self, columns: Sequence[Column], rows: int, windows: Groups | None = None) -> Groups:
        """Return the number of each row's key. New keys get new numbers."""
        return self.numbered(columns, rows, windows)[0]

    def numbered(
        self, columns: Sequence[Column], rows: int, windows: Groups | None = None
    ) -> tuple[Groups, Groups]:
        """Return the number of each row's key, and the rows with new keys, in order."""
        from rowtide.operators.aggregates.kernels.groups import assign, assign_codes, begin_codes

        if self._is_dense and columns[0].valid is not None:
            self._is_dense = False
            self._place_texts()
        firsts = np.empty(rows, dtype=np.int64)
        before = self.count
        if self._is_dense:
            codes = self._coder.text_codes(columns[0])
            if self._coder.interned > before:
                self._reserve(rows)
                self.count = begin_codes(codes, self._keys, before, firsts)
            return codes, firsts[: self.count - before]
        groups = np.empty(rows, dtype=np.int64)
        if self._is_text:
            codes = self._coder.text_codes(columns[0])
            self._reserve(rows)
            self.count = assign_codes(codes, self._number_of, self._keys, before, groups, firsts)
        else:
            codes = self._encode(columns, rows, windows)
            self._reserve(rows)
            self.count = assign(codes, self._slots, self._keys, before, groups, firsts)
        return groups, firsts[: self.count - before]

    def find(self, columns: Sequence[Column], rows: int) -> Groups:
        """Return the number of each row's key, -1 for an unknown key. Does not add keys."""
        from rowtide.operators.aggregates.kernels.groups import find

        if self._is_text:
            from rowtide.operators.storage.kernels.strings import numbers_of

            codes = self._coder.known_text_codes(columns[0])
            if self._is_dense:
                return np.maximum(codes, -1)
            self._reserve(0)
            groups = np.empty(rows, dtype=np.int64)
            numbers_of(codes, self._number_of, groups)
            return groups
        codes = np.empty((rows, self._keys.shape[1]), dtype=np.int64)
        self._coder.look_up(columns, codes)
        groups = np.empty(rows, dtype=np.int64)
        find(codes, self._slots, self._keys, groups)
        return groups

    def windows(self) -> Groups:
        """Return the whole numbers with which the keys begin."""
        return self._keys[: self.count, 0]

    def whole(self, field: int) -> Groups:
        """Return the values of a field of the keys, of a type stored as whole numbers; undefined for NULL."""
        return self._keys[: self.count, self._lead + field]

    def columns(self, which: slice | Groups = slice(None)) -> list[Column]:
        """Return the fields of the keys, or of some of them."""
        keys = self._keys[: self.count]
        chosen = keys[which] if isinstance(which, slice) else keys.take(which, axis=0)
        return self._coder.decode(chosen[:, self._lead :])

    def keep(self, which: slice | Groups) -> None:
        """Drop all keys except these, which are numbered again in this order."""
        rest = self._keys[: self.count][which].copy()
        room = power_of_two(2 * max(self.count, len(rest)))
        self.count = len(rest)
        if self._coder.interned > max(FORGET_INTERNED_OVER, 4 * self.count):
            fields = self._coder.decode(rest[:, self._lead :])
            self._coder = KeyCoder(self._coder.types)
            self._coder.encode(fields, rest[:, self._lead :])
        self._keys[: self.count] = rest
        if self._is_text:
            self._is_dense = False
            self._place_texts()
            return
        if len(self._slots) > 4 * room:
            # One period with many keys must not make every later closing clear that many slots.
            self._slots = np.full(room, -1, dtype=np.int32)
        else:
            self._slots[:] = -1
        self._enter()

    def _encode(self, columns: Sequence[Column], rows: int, windows: Groups | None) -> NDArray[np.int64]:
        codes = np.empty((rows, self._keys.shape[1]), dtype=np.int64)
        if windows is not None:
            codes[:, 0] = windows
        self._coder.encode(columns, codes[:, self._lead :])
        return codes

    def _reserve(self, rows: int) -> None:
        """Make room for one new key for each row, and for the interned values."""
        needed = self.count + rows
        self._keys = grown(self._keys, needed)
        if self._is_text:
            if not self._is_dense and self._coder.interned >= len(self._number_of):
                self._place_texts()
        elif power_of_two(2 * needed) > len(self._slots):
            self._slots = np.full(power_of_two(2 * needed), -1, dtype=np.int32)
            self._enter()

    def _place_texts(self) -> None:
        """Rebuild the numbers of texts, with room for more."""
        self._number_of = np.full(power_of_two(2 * self._coder.interned), -1, dtype=np.int64)
        keys = self._keys[: self.count]
        self._number_of[np.where(keys[:, 1] == 0, keys[:, 0], -1)] = np.arange(self.count, dtype=np.int64)

    def _enter(self) -> None:
        from rowtide.operators.aggregates.kernels.groups import enter

        enter(self._keys, self.count, self._slots)


def without_nulls(groups: Groups, columns: Sequence[Column]) -> Groups:
    """Return -1 for a key with a NULL, which equals nothing in SQL."""
    for column in columns:
        if column.valid is not None:
            groups = np.where(column.valid, groups, -1)
    return groups
