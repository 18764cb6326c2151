"""An aggregate in Python over rows that are added and removed: its state, or the rows that are left.

Every change can be undone exactly: ``moved`` returns how.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from typing import Any

from rowtide.errors import RejectedRowError
from rowtide.expr.python.states import aggregator_of
from rowtide.expr.tree import AggregateCall, FieldRef, PythonAggregate
from rowtide.operators.aggregates.row_functions import from_json, to_json
from rowtide.rows.rowop import Row
from rowtide.rows.types import RowType

Undo = Callable[[], None]


def over_changes(call: AggregateCall, of: PythonAggregate, row_type: RowType) -> ChangedState | RowsLeft:
    """Make the function of an aggregate, which takes whole rows of ``row_type``."""
    if not isinstance(call.argument, FieldRef):
        raise TypeError("this aggregate has a field as argument")
    if of.retracts and not call.distinct:
        return ChangedState(of, call.argument.index)
    return RowsLeft(of, call.argument.index, row_type, distinct=call.distinct)


class ChangedState:
    """The state of a class that can retract, and the number of its rows. The state is None without rows."""

    def __init__(self, of: PythonAggregate, argument: int) -> None:
        self._aggregator = aggregator_of(of)
        self._argument = argument
        self._held: tuple[bytes | None, int] = (None, 0)

    def moved(self, row: Row, *, leaves: bool) -> Undo:
        """Add or remove a row, and return what undoes it.

        Raises:
          RejectedRowError: the class fails; nothing has changed.
        """
        before = self._held
        state, count = before
        value: Any = row[self._argument]
        if not leaves:
            self._held = (self._aggregator.added(state, value), count + 1)
        elif count > 1:
            self._held = (self._aggregator.retracted(state, value), count - 1)
        else:
            self._held = (None, 0)

        def undo() -> None:
            self._held = before

        return undo

    def add(self, value: Any) -> None:
        self.moved(value, leaves=False)

    def drop(self, value: Any) -> None:
        self.moved(value, leaves=True)

    def result(self) -> object:
        return self._held[0]

    def save(self) -> list[Any]:
        state, count = self._held
        return [to_json(state), count]

    def load(self, saved: list[Any]) -> None:
        state, count = saved
        self._held = (None if state is None else bytes.fromhex(state), count)


class RowsLeft:
    """The rows of a group in the order in which they came; of equal rows the first is removed.

    The state is computed from all of them.
    """

    def __init__(self, of: PythonAggregate, argument: int, row_type: RowType, *, distinct: bool) -> None:
        self._aggregator = aggregator_of(of)
        self._argument = argument
        self._distinct = distinct
        self._types = [field.type for field in row_type]
        self._added = 0
        self._rows: dict[int, Row] = {}
        self._numbers: dict[Row, deque[int]] = {}
        self._state: bytes | RejectedRowError | None = None
        self._is_known = True

    def moved(self, row: Row, *, leaves: bool) -> Undo:
        """Add or remove a row, and return what undoes it."""
        before = (self._state, self._is_known)
        if leaves:
            number = self._taken(row, first=True)
        else:
            number = self._added
            self._added += 1
            self._put(number, row, first=False)
        self._is_known = False

        def undo() -> None:
            if leaves:
                self._put(number, row, first=True)
            else:
                self._taken(row, first=False)
            self._state, self._is_known = before

        return undo

    def add(self, value: Any) -> None:
        self.moved(value, leaves=False)

    def drop(self, value: Any) -> None:
        self.moved(value, leaves=True)

    def result(self) -> object:
        if not self._is_known:
            try:
                self._state = self._aggregator.folded(self._values())
            except RejectedRowError as error:
                self._state = error
            self._is_known = True
        if isinstance(self._state, RejectedRowError):
            raise self._state
        return self._state

    def save(self) -> list[Any]:
        return [[to_json(value) for value in self._rows[number]] for number in sorted(self._rows)]

    def load(self, saved: list[Any]) -> None:
        for row in saved:
            self.add(tuple(from_json(of, value) for of, value in zip(self._types, row, strict=True)))

    def _values(self) -> Iterable[Any]:
        # A row whose removal was undone is at the end of the dictionary.
        values = [self._rows[number][self._argument] for number in sorted(self._rows)]
        return dict.fromkeys(values) if self._distinct else values

    def _put(self, number: int, row: Row, *, first: bool) -> None:
        self._rows[number] = row
        numbers = self._numbers.setdefault(row, deque())
        if first:
            numbers.appendleft(number)
        else:
            numbers.append(number)

    def _taken(self, row: Row, *, first: bool) -> int:
        """Remove the first or the last of equal rows, and return its number."""
        numbers = self._numbers[row]
        number = numbers.popleft() if first else numbers.pop()
        if not numbers:
            del self._numbers[row]
        del self._rows[number]
        return number
