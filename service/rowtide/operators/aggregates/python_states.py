"""An aggregate in Python over a frame: its state as rows enter, or computed again from the rows of the frame.

``result`` raises RejectedRowError where a method of the class fails: then the current row is rejected.
"""

from __future__ import annotations

from collections import deque
from typing import Any

from rowtide.errors import RejectedRowError
from rowtide.expr.python.states import Aggregator, aggregator_of
from rowtide.expr.tree import PythonAggregate
from rowtide.operators.aggregates.row_functions import WindowFunction


def over_frame(of: PythonAggregate, *, endless: bool, distinct: bool) -> WindowFunction:
    """Make the function of an aggregate; ``endless``: its frame has no start, so values never leave."""
    aggregator = aggregator_of(of)
    if endless:
        return GrowingState(aggregator, distinct=distinct)
    if of.retracts and not distinct:
        return SlidingState(aggregator)
    return FrameRows(aggregator, distinct=distinct)


def take_back(function: WindowFunction, value: object) -> None:
    """Undo the last ``add`` of a function."""
    if isinstance(function, SlidingState | FrameRows):
        function.undo(value)
    else:
        function.drop(value)


def is_saved(function: WindowFunction) -> bool:
    """Return whether a function needs its saved state in a frame whose rows are added again."""
    return isinstance(function, SlidingState)


class GrowingState:
    """The state over rows that are only added. A row that fails spoils one result, and does not count."""

    def __init__(self, aggregator: Aggregator, *, distinct: bool) -> None:
        self._aggregator = aggregator
        self._state: bytes | None = None
        self._seen: dict[bytes, None] | None = {} if distinct else None
        self._before: tuple[bytes | None, bytes | None] = (None, None)
        self._failed: RejectedRowError | None = None

    def add(self, value: Any) -> None:
        if value is None:
            return
        self._before = (self._state, None)
        if self._seen is not None and value in self._seen:
            return
        try:
            self._state = self._aggregator.added(self._state, value)
        except RejectedRowError as error:
            self._failed = self._failed or error
            return
        if self._seen is not None:
            self._seen[value] = None
            self._before = (self._before[0], value)

    def drop(self, value: Any) -> None:
        """Take back the value that came last."""
        if value is None:
            return
        self._state, fresh = self._before
        if self._seen is not None and fresh is not None:
            del self._seen[fresh]

    def result(self) -> object:
        failed, self._failed = self._failed, None
        if failed is not None:
            raise failed
        return self._state

    def save(self) -> list[Any]:
        return [_text(self._state), None if self._seen is None else list(map(_text, self._seen))]

    def load(self, saved: list[Any]) -> None:
        state, seen = saved
        self._state, self._failed = _bytes(state), None
        if seen is not None:
            self._seen = {bytes.fromhex(value): None for value in seen}


class FrameRows:
    """The rows of a frame, in order: the state is computed from all of them."""

    def __init__(self, aggregator: Aggregator, *, distinct: bool) -> None:
        self._aggregator = aggregator
        self._distinct = distinct
        self._rows: deque[bytes] = deque()

    def add(self, value: Any) -> None:
        if value is not None:
            self._rows.append(value)

    def drop(self, value: Any) -> None:
        if value is not None:
            self._rows.popleft()

    def undo(self, value: Any) -> None:
        """Take back the row that came last."""
        if value is not None:
            self._rows.pop()

    def result(self) -> object:
        return self._aggregator.folded(dict.fromkeys(self._rows) if self._distinct else self._rows)

    def save(self) -> list[Any]:
        return [_text(value) for value in self._rows]

    def load(self, saved: list[Any]) -> None:
        self._rows = deque(bytes.fromhex(value) for value in saved)


class SlidingState:
    """The state over rows that enter at the end and leave at the front, of a class that can retract.

    A state may depend on rows that have left (a sum of floats does), so it is saved, and not computed again.
    A row that fails is None among the rows: it spoils one result, and does not count.
    """

    def __init__(self, aggregator: Aggregator) -> None:
        self._aggregator = aggregator
        self._rows: deque[bytes | None] = deque()
        self._state: bytes | None = None
        self._before: bytes | None = None
        self._failed: RejectedRowError | None = None

    def add(self, value: Any) -> None:
        if value is None:
            return
        self._before = self._state
        try:
            self._state = self._aggregator.added(self._state, value)
        except RejectedRowError as error:
            self._failed = self._failed or error
            self._rows.append(None)
        else:
            self._rows.append(value)

    def drop(self, value: Any) -> None:
        if value is None:
            return
        held = self._rows.popleft()
        if held is None:
            return
        if not any(row is not None for row in self._rows):
            self._state = None
            return
        try:
            self._state = self._aggregator.retracted(self._state, held)
        except RejectedRowError as error:
            # The state without the row is that of the other rows.
            rows, self._rows, self._state = self._rows, deque(), None
            for row in rows:
                if row is None:
                    self._rows.append(None)
                else:
                    self.add(row)
            self._failed = error

    def undo(self, value: Any) -> None:
        """Take back the row that came last."""
        if value is not None:
            self._rows.pop()
            self._state = self._before

    def result(self) -> object:
        failed, self._failed = self._failed, None
        if failed is not None:
            raise failed
        return self._state

    def save(self) -> list[Any]:
        return [_text(self._state), [at for at, row in enumerate(self._rows) if row is None]]

    def load(self, saved: list[Any]) -> None:
        """Restore the state over the rows, which have been added again."""
        state, failed = saved
        self._state, self._failed = _bytes(state), None
        for at in failed:
            self._rows[at] = None


def _text(value: bytes | None) -> str | None:
    return None if value is None else value.hex()


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else bytes.fromhex(text)
