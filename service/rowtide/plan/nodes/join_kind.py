"""Which rows of a join come out without a match."""

from __future__ import annotations

from enum import Enum


class JoinKind(Enum):
    """Of which sides a row without a match comes out, NULLs beside it."""

    INNER = "INNER"
    LEFT = "LEFT"
    RIGHT = "RIGHT"
    FULL = "FULL"

    @property
    def keeps_left(self) -> bool:
        """Return whether unmatched rows of the left side come out."""
        return self in (JoinKind.LEFT, JoinKind.FULL)

    @property
    def keeps_right(self) -> bool:
        """Return whether unmatched rows of the right side come out."""
        return self in (JoinKind.RIGHT, JoinKind.FULL)
