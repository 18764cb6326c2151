"""Rows of one file in groups of limited size, as messages will have them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

GROUP_ROWS = 1_000
GROUP_BYTES = 1 << 20
"""A group ends with the row that reaches one of these."""
CHUNK_BYTES = 1 << 16
"""The bytes that are read at once."""


class Row(NamedTuple):
    """A row: its place in its file and its message. With ``why`` it is damaged, and ``value`` what could be read."""

    place: int
    value: bytes | None
    why: str | None = None


@dataclass(slots=True)
class FileRows:
    """Some rows: the place of each in its file, ascending, and its message; ``damaged`` has reasons by index."""

    places: list[int] = field(default_factory=list)
    values: list[bytes | None] = field(default_factory=list)
    damaged: dict[int, str] = field(default_factory=dict)
    size: int = 0

    @property
    def is_full(self) -> bool:
        """Whether the next row belongs in another group."""
        return len(self.places) >= GROUP_ROWS or self.size >= GROUP_BYTES

    def __len__(self) -> int:
        return len(self.places)

    def add(self, row: Row) -> None:
        """Add a row."""
        if row.why is not None:
            self.damaged[len(self.places)] = row.why
        self.places.append(row.place)
        self.values.append(row.value)
        self.size += len(row.value or b"")


def grouped(rows: Iterable[Row]) -> Iterator[FileRows]:
    """Yield groups of rows. What comes before an error is yielded before it."""
    group = FileRows()
    try:
        for row in rows:
            group.add(row)
            if group.is_full:
                full, group = group, FileRows()
                yield full
    except Exception:
        if len(group):
            yield group
        raise
    if len(group):
        yield group
