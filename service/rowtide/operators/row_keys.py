"""Keys of rows in row form."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import itemgetter

from rowtide.rows.rowop import Row


def key_getter(fields: Sequence[int]) -> Callable[[Row], Row]:
    """Give the function that takes a key out of a row, as a tuple whatever its width."""
    if not fields:
        return lambda row: ()
    if len(fields) == 1:
        (only,) = fields
        return lambda row: (row[only],)
    return itemgetter(*fields)
