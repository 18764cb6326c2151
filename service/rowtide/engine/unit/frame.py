"""Frames: the queues of rowops that a unit has yet to run, one for each nested call."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from rowtide.engine.unit.rowop import Rowop

if TYPE_CHECKING:
    from rowtide.engine.unit.unit import Unit


class Frame:
    """The rowops queued at one level of nesting. A closed frame takes no more rowops."""

    __slots__ = ("is_open", "queue")

    def __init__(self) -> None:
        self.queue: deque[Rowop] = deque()
        self.is_open = True


class FrameMark:
    """A reference to a frame, in which a loop can queue its next turn; see ``Unit.set_mark``.

    A mark is unset at first, and again when the marked frame is closed.
    """

    __slots__ = ("_frame", "_unit", "name")

    def __init__(self, name: str) -> None:
        self.name = name
        self._frame: Frame | None = None
        self._unit: Unit | None = None

    @property
    def is_set(self) -> bool:
        """Whether the marked frame is still open."""
        return self._frame is not None and self._frame.is_open
