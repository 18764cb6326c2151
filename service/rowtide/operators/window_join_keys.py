"""The keys of a windowed join: where the chains of the rows of each key begin and end.

A key that is one value of fixed width is its own code, and is found by hashing while rows are joined. Any
other key is numbered first, and its number is where its chains stand.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rowtide.operators.key_groups import KeyGroups
from rowtide.operators.keys import power_of_two, whole_codes
from rowtide.rows.column import Column
from rowtide.rows.types import Type

FIRST_ROOM = 64
SLOTS_PER_KEY = 3
"""At least so many slots there are for each key when slots are made; there are never less than two."""
LINE_BYTES = 64

Codes = NDArray[np.int64]


class Entries(NamedTuple):
    """What kernels find keys in: see ``kernels.window_joining``."""

    slots: NDArray[np.int64]
    entries: NDArray[np.int64]
    counts: NDArray[np.int64]


class JoinKeys:
    """The keys of both sides, of these types."""

    def __init__(self, types: Sequence[Type]) -> None:
        self._types = tuple(types)
        self._is_whole = len(types) == 1 and not types[0].is_variable_width and types[0].dtype != object
        self.forget()

    def forget(self) -> None:
        """Know no key any more."""
        self._groups = None if self._is_whole else KeyGroups(self._types)
        self._slots = np.full(0, -1, dtype=np.int64)
        self._entries = _lines(0)
        self._counts = np.array([0, -1, 0, 0], dtype=np.int64)

    @property
    def made(self) -> int:
        """For how many keys there is memory, of rows that are open and of some that were."""
        return int(self._counts[0]) if self._groups is None else self._groups.count

    def codes(self, columns: Sequence[Column], rows: int) -> tuple[Codes, Codes]:
        """Give the code of each row's key, and the rows of which a field is NULL: those meet nothing."""
        missing = np.zeros(rows, dtype=np.bool_)
        for column in columns:
            if column.valid is not None:
                missing |= ~column.valid
        if self._groups is not None:
            return self._groups.number(columns, rows), np.flatnonzero(missing)
        return whole_codes(columns[0]), np.flatnonzero(missing)

    def entries(self, rows: int) -> Entries:
        """Give the entries, with room for the keys of ``rows`` more rows."""
        needed = self.made + (rows if self._groups is None else 0)
        if needed > len(self._entries):
            larger = _lines(max(2 * needed, FIRST_ROOM))
            larger[: len(self._entries)] = self._entries
            self._entries = larger
        if self._groups is None:
            self._reserve_slots(rows)
        return Entries(self._slots, self._entries, self._counts)

    def _reserve_slots(self, rows: int) -> None:
        from rowtide.operators.kernels.window_joining import place_entries

        _, _, used, filled = self._counts.tolist()
        if 2 * (filled + rows) >= len(self._slots):
            self._slots = np.full(power_of_two(SLOTS_PER_KEY * (used + rows)), -1, dtype=np.int64)
            place_entries(self._slots, self._entries, self._counts)


def _lines(count: int) -> Codes:
    """Give entries without rows, each in a line of the cache of its own."""
    from rowtide.operators.kernels.window_joining import ENTRY_WIDTH

    room = np.full((count + 1) * ENTRY_WIDTH, -1, dtype=np.int64)
    begin = (-room.ctypes.data % LINE_BYTES) // room.itemsize
    return room[begin : begin + count * ENTRY_WIDTH].reshape(count, ENTRY_WIDTH)
