"""The rows of a join that come out without a match."""

from __future__ import annotations

from enum import Enum


class JoinKind(Enum):
    """The sides whose rows come out without a match, with NULLs for the other side."""

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
