"""Growing arrays, and their alignment in memory."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

LINE_BYTES = 64
"""Bytes of a line of the cache."""


LARGE = 1 << 25
"""Bytes from which on ``roomy`` reserves ``MUCH_MORE`` times as much, not twice.

Smaller arrays get memory that others had; larger ones new pages, which cost when they are first written."""
MUCH_MORE = 16
FIRST_ROOM = 1 << 8


def roomy(length: int, dtype: np.dtype[Any]) -> NDArray[Any]:
    """Return an array of ``length`` undefined values, with room for at least as many more.

    Room that was never written uses no memory yet, so a large array has so much that it is hardly ever
    copied to a larger one.
    """
    if length * dtype.itemsize < LARGE:
        return np.empty(2 * length, dtype=dtype)
    try:
        return np.empty(MUCH_MORE * length, dtype=dtype)
    except MemoryError:
        # A system that promises no more than it has may still have twice as much.
        return np.empty(2 * length, dtype=dtype)


class Growing:
    """An array that grows at its end and can lose its front; new places are filled."""

    def __init__(self, dtype: Any, fill: object = 0) -> None:
        self.length = 0
        self._fill = fill
        self.array = np.empty(FIRST_ROOM, dtype=dtype)

    def append(self, values: NDArray[Any]) -> None:
        """Add values at the end."""
        start = self.length
        self._make_room(len(values))
        self.array[start : self.length] = values

    def extend(self, count: int) -> None:
        """Add ``count`` filled elements at the end."""
        start = self.length
        self._make_room(count)
        self.array[start : self.length] = self._fill

    def drop(self, count: int) -> None:
        """Remove the first ``count`` values."""
        rest = self.length - count
        kept = self.array[count : self.length]
        # Copied, not moved to the front, because a reader may still use the array.
        self.array = np.empty(max(FIRST_ROOM, 2 * rest), self.array.dtype)
        self.array[:rest] = kept
        self.length = rest

    def view(self) -> NDArray[Any]:
        """Return the values, sharing memory until the next call."""
        return self.array[: self.length]

    def _make_room(self, count: int) -> None:
        needed = self.length + count
        if needed > len(self.array):
            larger = roomy(needed, self.array.dtype)
            larger[: self.length] = self.array[: self.length]
            self.array = larger
        self.length = needed


def grown(array: NDArray[Any], length: int, fill: object = 0, axis: int = 0) -> NDArray[Any]:
    """Return ``array`` with room for ``length`` along an axis, new places filled.

    One that is too short becomes at least twice as long, so that growing costs little for each place.
    """
    before = array.shape[axis]
    if length <= before:
        return array
    shape = list(array.shape)
    shape[axis] = max(length, 2 * before)
    # Zeros take memory only where they are written.
    larger = np.full(shape, fill, dtype=array.dtype) if fill else np.zeros(shape, dtype=array.dtype)
    larger[(slice(None),) * axis + (slice(before),)] = array
    return larger


def zeros_in_lines(length: int, dtype: Any) -> NDArray[Any]:
    """Return zeros that begin where a line of the cache does: no half or quarter spans two lines."""
    size = np.dtype(dtype).itemsize
    room = np.zeros(length + LINE_BYTES // size, dtype=dtype)
    begin = -room.ctypes.data % LINE_BYTES // size
    return room[begin : begin + length]
