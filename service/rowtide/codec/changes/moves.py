"""Changes that move a row to another key: they have the row before them (docs/sql/tables.md)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Generic, TypeVar

from rowtide.codec.contract import Decoded
from rowtide.codec.options import Declared
from rowtide.rows.rowop import Row

Image = TypeVar("Image")


class Moves(Generic[Image]):
    """Finds the changes that move a row; ``keys`` and ``rows`` decode images to the key and to the whole row.

    A key that cannot be read is that of no row of the table. If another value cannot be read, only the key is known.
    """

    def __init__(
        self,
        declared: Declared,
        keys: Callable[[Sequence[Image]], Decoded],
        rows: Callable[[Sequence[Image]], Decoded],
    ) -> None:
        self._key = declared.key
        self._width = len(declared.row_type)
        self._keys = keys
        self._rows = rows

    def rows_before(
        self, decoded: Decoded, places: Sequence[int], images: Mapping[int, Image]
    ) -> dict[int, Row]:
        """Return the rows before the changes at ``places`` that move them, by message.

        ``decoded`` are the rows after the changes; ``images`` has what the messages say of the rows before.
        """
        if not images:
            return {}
        after = _by_place(decoded, places, self._key)
        there = [at for at in after if at in images]
        keys = _by_place(self._keys([images[at] for at in there]), there)
        moved = [at for at, key in keys.items() if key != after[at]]
        found = {at: self._of_key(keys[at]) for at in moved}
        return found | _by_place(self._rows([images[at] for at in moved]), moved)

    def _of_key(self, key: Row) -> Row:
        values = dict(zip(self._key, key, strict=True))
        return tuple(values.get(at) for at in range(self._width))


def _by_place(
    decoded: Decoded, places: Sequence[int], columns: Sequence[int] | None = None
) -> dict[int, Row]:
    """Return decoded rows, or some of their columns, by message."""
    picked = decoded.columns if columns is None else [decoded.columns[at] for at in columns]
    rows = zip(*(column.to_list() for column in picked), strict=True)
    return {places[at]: row for at, row in zip(decoded.accepted.tolist(), rows, strict=True)}
