"""The keys of a windowed join as int64, by which the chains of its rows are found.

A key of one value of fixed width is its own code, and is hashed while rows are joined. Any other key is
numbered first, and its number is the index of its chains.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from rowtide.operators.aggregates.groups.key_groups import KeyGroups
from rowtide.operators.storage.keys import whole_codes
from rowtide.rows.arrays import Mask
from rowtide.rows.column import Column
from rowtide.rows.types import Type

Codes = NDArray[np.int64]


class JoinKeys:
    """The keys of both sides, of these types."""

    def __init__(self, types: Sequence[Type]) -> None:
        self._types = tuple(types)
        self.are_codes = len(types) == 1 and not types[0].is_variable_width and types[0].dtype != object
        self.forget()

    def forget(self) -> None:
        """Drop all keys."""
        self._groups = None if self.are_codes else KeyGroups(self._types)

    @property
    def numbered(self) -> int:
        """The number of numbered keys."""
        return 0 if self._groups is None else self._groups.count

    def codes(self, columns: Sequence[Column], rows: int) -> tuple[Codes, Mask]:
        """Return the code of each row's key, and the rows with a NULL key field, which match nothing."""
        missing = np.zeros(rows, dtype=np.bool_)
        for column in columns:
            if column.valid is not None:
                missing |= ~column.valid
        if self._groups is not None:
            return self._groups.number(columns, rows), missing
        return whole_codes(columns[0]), missing
