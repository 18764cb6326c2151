"""The texts of stored rows: one after the other, or each once with a code for each row if many are equal.

As in a row store, stored values are never changed or moved in place.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from rowtide.operators.storage.arrow_buffers import gather_texts, text_buffers
from rowtide.operators.storage.gathering import take_values
from rowtide.operators.storage.growing import Growing
from rowtide.operators.storage.keys import TextTable

LONG = 24
"""Bytes of a text, in the mean, from which on finding one takes less time than keeping it again."""
ENOUGH = 1 << 16
"""Rows after which it is known whether texts are alike."""
ALIKE = 4
"""Texts are kept once each while there are at least so many rows for each of them."""
AT_ONCE = 1 << 14
"""Texts that are moved together."""

Places = NDArray[np.int64]
Buffers = tuple[NDArray[np.int32], NDArray[np.uint8]]
TextReader = Callable[[Places], Buffers]
"""Returns the texts at some places, as offsets and bytes."""


class Texts:
    """The texts of rows, by their places from 0 on."""

    def __init__(self) -> None:
        self.length = 0
        self._held: _Whole | _Coded = _Coded()

    def append(self, array: pa.Array) -> None:
        """Add texts at the end."""
        offsets, _ = text_buffers(array)
        if not self.length and int(offsets[-1] - offsets[0]) < LONG * len(array):
            self._held = _Whole()
        self._held.append(array)
        self.length += len(array)
        self._settle()

    def reader(self) -> TextReader:
        """Return a function that looks the current texts up later."""
        return self._held.reader()

    def drop(self, count: int) -> None:
        """Take away the first ``count`` texts."""
        self._held.drop(count)
        self.length -= count
        self._settle()

    def kept(self, places: Places) -> Texts:
        """Return the texts at some places alone; no more texts are added to these."""
        fresh = Texts()
        fresh.length = len(places)
        if isinstance(self._held, _Coded) and self._held.is_worth_it(len(places)):
            fresh._held = self._held.kept(places)
        else:
            fresh._held = _whole(self._held.reader(), places)
        return fresh

    def _settle(self) -> None:
        """Store texts unchanged from now on if they are not alike."""
        if isinstance(self._held, _Coded) and not self._held.is_worth_it(self.length):
            self._held = _whole(self._held.reader(), np.arange(self.length, dtype=np.int64))


class _Whole:
    """Texts one after the other in a pool of bytes: text i is between starts i and i + 1."""

    def __init__(self) -> None:
        self._starts = Growing(np.int64)
        self._starts.extend(1)
        self._pool = Growing(np.uint8)

    def append(self, array: pa.Array) -> None:
        self.add(*text_buffers(array))

    def add(self, offsets: NDArray[np.int32], content: NDArray[np.uint8]) -> None:
        first = int(offsets[0])
        self._starts.append(offsets[1:].astype(np.int64) + (self._pool.length - first))
        self._pool.append(content[first : int(offsets[-1])])

    def reader(self) -> TextReader:
        starts, pool = self._starts.array, self._pool.array
        return lambda places: gather_texts(places, starts, pool)

    def drop(self, count: int) -> None:
        begins = int(self._starts.array[count])
        self._starts.drop(count)
        self._starts.array[: self._starts.length] -= begins
        self._pool.drop(begins)


class _Coded:
    """Texts each once, and the code of each row's."""

    def __init__(self) -> None:
        self._codes = Growing(np.int32)
        self._table = TextTable()

    def is_worth_it(self, length: int) -> bool:
        """Return whether texts are alike enough, of so many rows."""
        return self._table.count * ALIKE <= max(ENOUGH, length)

    def kept(self, places: Places) -> _Coded:
        """Return the texts at some places, with the same codes."""
        fresh = _Coded()
        fresh._table = self._table
        fresh._codes.append(take_values(self._codes.array, places))
        return fresh

    def append(self, array: pa.Array) -> None:
        self._codes.append(self._table.intern(array).astype(np.int32))

    def reader(self) -> TextReader:
        codes, texts = self._codes.array, self._table.reader()
        return lambda places: texts(take_values(codes, places).astype(np.int64))

    def drop(self, count: int) -> None:
        self._codes.drop(count)


def _whole(read: TextReader, places: Places) -> _Whole:
    """Return the texts at some places one after the other."""
    fresh = _Whole()
    for first in range(0, len(places), AT_ONCE):
        fresh.add(*read(places[first : first + AT_ONCE]))
    return fresh
