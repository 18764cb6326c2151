"""Functions of arrays in Python."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc


def doubled(array: tuple[int | None, ...] | None) -> list[int | None] | None:
    """Return each number twice as large."""
    return None if array is None else [None if each is None else 2 * each for each in array]


def broken(array: tuple[int | None, ...]) -> list[object]:
    """Return what is not an array of numbers."""
    return [*array, "x"]


def sizes(arrays: Any) -> Any:
    """Return the number of elements of each array."""
    return np.array([len(each) for each in arrays], dtype=np.int64)


def reversed_lists(arrays: Any) -> Any:
    """Return the arrays of text with their elements in the reverse order."""
    return pa.array([list(reversed(each)) for each in arrays.to_pylist()], pa.list_(pa.string()))


def lengths(arrays: Any) -> Any:
    """Return the number of elements, by Arrow."""
    return pc.list_value_length(arrays)


class Longest:
    """The longest array of a group."""

    def create(self) -> tuple[int, ...]:
        """Return the state of an empty group."""
        return ()

    def add(self, state: tuple[int, ...], array: tuple[int, ...]) -> tuple[int, ...]:
        """Take an array."""
        return array if len(array) > len(state) else state

    def result(self, state: tuple[int, ...]) -> tuple[int, ...]:
        """Return the longest one so far."""
        return state
