"""A model inside a pipeline: named inputs and outputs, rowtime, events at a rowtime, snapshots.

The class of a model is called with a ``ModelSetup`` (and its options) and wires
its unit. ``ModelRun`` then feeds it rowops in order of rowtime and returns what
reaches its outputs. All state of a model must be in tables, collapses or parts
passed to ``Unit.keep``: then two runs with the same rowops, or with a snapshot and
the rest of the rowops, have the same results.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from heapq import heapify, heappop, heappush
from typing import Any, NamedTuple

from rowtide.engine.errors import ModelError
from rowtide.engine.row_type import Row, RowType
from rowtide.engine.table.table import Table
from rowtide.engine.unit.label import Label
from rowtide.engine.unit.rowop import Rowop
from rowtide.engine.unit.unit import CountsChanges, Unit
from rowtide.rows.rowop import Opcode
from rowtide.rowtime.bound import EARLIEST


class Event(NamedTuple):
    """A rowop to run at a rowtime; events of one rowtime run in the order of ``number``."""

    rowtime: int
    number: int
    label: str
    opcode: int
    row: Row


class RowtimeClock(CountsChanges):
    """The clock of a model: ``rowtime`` is that of the current row or event in ms, and never goes back.

    Its length is the number of pending events.
    """

    def __init__(self, unit: Unit) -> None:
        self._unit = unit
        self._events: list[Event] = []
        self._number = 0
        self._known: dict[str, Label] = {}
        self._when_dropped: dict[str, Callable[[int], None]] = {}
        self._known_elsewhere: list[Callable[[], int | None]] = []
        self.rowtime = EARLIEST

    def __len__(self) -> int:
        return len(self._events)

    @property
    def changes(self) -> int:
        """The number of events that have been scheduled."""
        return self._number

    def at(self, rowtime: int, rowop: Rowop) -> None:
        """Schedule ``rowop`` to run at ``rowtime`` (ms), before rows of that rowtime that arrive later.

        Raises:
          ModelError: if that rowtime has passed, or another label has the same name.
        """
        if rowtime < self.rowtime:
            raise ModelError(
                f'event of label "{rowop.label.name}" at {rowtime} is late: the rowtime is {self.rowtime}'
            )
        self._label(rowop.label.name)
        self._number += 1
        heappush(
            self._events,
            Event(rowtime, self._number, rowop.label.name, rowop.opcode, tuple(rowop.row)),
        )

    def _label(self, name: str) -> Label:
        known = self._known.get(name)
        if known is None:
            labels = [label for label in self._unit.labels if label.name == name]
            if len(labels) != 1:
                raise ModelError(
                    f'an event needs a unique label, but {len(labels)} labels are called "{name}"'
                )
            known = self._known[name] = labels[0]
        return known

    def advance(self, rowtime: int) -> None:
        """Advance to ``rowtime``, running the events up to and including it, each followed by a drain.

        Raises:
          ModelError: if rowtime goes back.
          ExecutionError: if a label raised.
        """
        if rowtime < self.rowtime:
            raise ModelError(f'rowtime goes back in unit "{self._unit.name}": {self.rowtime}, then {rowtime}')
        while self._events and self._events[0].rowtime <= rowtime:
            self.run_event()
        self.rowtime = rowtime

    def run_event(self) -> None:
        """Run the next event, and drain the unit.

        Raises:
          ExecutionError: if a label raised.
        """
        event = heappop(self._events)
        self.rowtime = event.rowtime
        self._label(event.label).send(Opcode(event.opcode), event.row)
        self._unit.drain()

    def also_known(self, last: Callable[[], int | None]) -> None:
        """Register a function that returns the rowtime of the last event that a part will schedule, or None.

        For a part that schedules one event after another, and therefore has later events than the clock.
        """
        self._known_elsewhere.append(last)

    def when_dropped(self, label: Label, handler: Callable[[int], None]) -> None:
        """Register ``handler``, to be called with the rowtime of an event of ``label`` that failed.

        The state of the model is then that before the event, and the event has been dropped.
        """
        self._when_dropped[label.name] = handler

    def drop_event(self) -> None:
        """Drop the next event without running it."""
        event = heappop(self._events)
        if event.label in self._when_dropped:
            self.rowtime = event.rowtime
            self._when_dropped[event.label](event.rowtime)

    @property
    def next_event(self) -> int | None:
        """The rowtime of the next event, or None."""
        return self._events[0].rowtime if self._events else None

    @property
    def last_event(self) -> int | None:
        """The rowtime of the last event that is known, or None."""
        known = [event.rowtime for event in self._events]
        elsewhere = (last() for last in self._known_elsewhere)
        return max([*known, *(rowtime for rowtime in elsewhere if rowtime is not None)], default=None)

    def snapshot(self) -> Any:
        """Return the rowtime and the pending events as plain values."""
        return self.rowtime, self._number, [tuple(event) for event in sorted(self._events)]

    def restore(self, state: Any) -> None:
        """Restore the state that ``snapshot`` returned."""
        self.rowtime, self._number, events = state
        self._events = [Event(*event) for event in events]
        heapify(self._events)


class ModelSetup:
    """The argument of a model: its ``unit``, its ``clock``, and methods to declare its interface."""

    def __init__(self, name: str) -> None:
        self.unit = Unit(name)
        self.clock = RowtimeClock(self.unit)
        self.unit.keep("rowtime", self.clock)
        self.inputs: dict[str, Label] = {}
        self.outputs: dict[str, Label] = {}
        self.tables: dict[str, Table] = {}
        self.changes: dict[str, tuple[str, ...]] = {}
        """The outputs that are changes of a table, with the key fields of its rows (or none)."""
        self.keys: dict[str, tuple[str, ...]] = {}
        """The fields of each input by whose values a pipeline can split the model."""
        self.jumps: list[Callable[[int, int], None]] = []
        """The handlers to call when history is over."""

    def input(self, name: str, label: Label, *, key: Sequence[str] = ()) -> None:
        """Declare a label as an input of the model.

        With ``key``, a pipeline makes a separate model for each value of these fields, and rows of all inputs
        go to the model of their value: such a model can be split.

        Raises:
          ModelError: if the name is taken, the label is of another unit, or a field does not exist.
        """
        for field in key:
            label.row_type.index(field)
        self._offer(self.inputs, name, label)
        self.keys[name] = tuple(key)

    def output(self, name: str, label: Label) -> None:
        """Declare a label as an output of the model: a stream in SQL, so it must not get a DELETE.

        Raises:
          ModelError: if the name is taken, or the label is of another unit.
        """
        self._offer(self.outputs, name, label)

    def changelog(self, name: str, label: Label, *key: str) -> None:
        """Declare a label as an output of changes of a table, whose rows ``key`` identifies.

        Without a key, the table can have equal rows.

        Raises:
          ModelError: if the name is taken, the label is of another unit, or a field does not exist.
        """
        for field in key:
            label.row_type.index(field)
        self.output(name, label)
        self.changes[name] = key

    def table(self, name: str, table: Table) -> None:
        """Declare a table: its changes are an output, and its rows can be read.

        Its key is that of the first leaf index with one row for each key.

        Raises:
          ModelError: if the name is taken, or the table is of another unit.
        """
        self.changelog(name, table.out, *table.type.unique_key())
        self.tables[name] = table

    def on_jump(self, handler: Callable[[int, int], None]) -> None:
        """Register a handler for the rowtimes (ms) at which history ends and live data begins.

        What is due between the two can be handled as one step. The handler is called at most once, at any
        time before the first of the two has passed.
        """
        self.jumps.append(handler)

    def _offer(self, offered: dict[str, Label], name: str, label: Label) -> None:
        if name in offered:
            raise ModelError(f'model "{self.unit.name}" declares "{name}" twice')
        if label.unit is not self.unit:
            raise ModelError(f'model "{self.unit.name}" cannot declare label "{label.name}" of another unit')
        offered[name] = label


class Mark(NamedTuple):
    """The position of a model: its rowtime, number of pending events, and change counts of its parts."""

    rowtime: int
    events: int
    changes: tuple[int, ...]


class Sent(NamedTuple):
    """One rowop that reached an output of a model, with its rowtime."""

    output: str
    opcode: Opcode
    row: Row
    rowtime: int


class ModelRun:
    """One running model.

    ``model`` is called with a ``ModelSetup`` and ``options``, and wires the unit of the setup.

    Raises:
      ModelError: if the model fills a table while it is wired; and every error of ``model``.
    """

    def __init__(
        self, name: str, model: Callable[..., object], options: Mapping[str, Any] | None = None
    ) -> None:
        self._setup = ModelSetup(name)
        self._sent: list[Sent] = []
        # Keeps the model alive if its labels do not refer to it.
        self.model = model(self._setup, **(options or {}))
        for table in self._setup.tables.values():
            if len(table):
                raise ModelError(
                    f'model "{name}" fills table "{table.name}" while it is wired',
                    hint="Insert rows when input arrives, or in an event.",
                )
        for output, label in self._setup.outputs.items():
            label.then(self._collector(output), name=f"{label.name}.collected")

    def _collector(self, output: str) -> Callable[[Rowop], None]:
        clock, sent = self._setup.clock, self._sent
        return lambda rowop: sent.append(Sent(output, rowop.opcode, rowop.row, clock.rowtime))

    @property
    def name(self) -> str:
        """The name of the model."""
        return self._setup.unit.name

    @property
    def input_types(self) -> dict[str, RowType]:
        """The row types of the inputs, by name."""
        return {name: label.row_type for name, label in self._setup.inputs.items()}

    @property
    def output_types(self) -> dict[str, RowType]:
        """The row types of the outputs, by name."""
        return {name: label.row_type for name, label in self._setup.outputs.items()}

    @property
    def keys(self) -> Mapping[str, tuple[str, ...]]:
        """The fields of each input by whose values the model can be split."""
        return self._setup.keys

    @property
    def changes(self) -> Mapping[str, tuple[str, ...]]:
        """The outputs that are changes of a table, with the key fields of its rows (or none)."""
        return self._setup.changes

    @property
    def tables(self) -> Mapping[str, Table]:
        """The tables that can be read, by name."""
        return self._setup.tables

    @property
    def next_event(self) -> int | None:
        """The rowtime of the next scheduled event, or None."""
        return self._setup.clock.next_event

    @property
    def last_event(self) -> int | None:
        """The rowtime of the last event that is known, or None."""
        return self._setup.clock.last_event

    def take(self, name: str, opcode: Opcode, row: Row, rowtime: int) -> list[Sent]:
        """Run the events up to ``rowtime``, then one rowop at an input; return what reached the outputs.

        Raises:
          ModelError: if the input does not exist, rowtime goes back or the row is of another type.
          FieldValueError: if a value does not fit its field.
          ExecutionError: if a label raised; discard the model then.
        """
        label = self._setup.inputs.get(name)
        if label is None:
            there = ", ".join(self._setup.inputs)
            raise ModelError(
                f'model "{self._setup.unit.name}" has no input "{name}"', hint=f"It has {there}."
            )
        row = label.row_type.adopt(row)
        self._setup.clock.advance(rowtime)
        label.send(opcode, row)
        self._setup.unit.drain()
        return self._take_sent()

    def advance(self, rowtime: int) -> list[Sent]:
        """Run the events up to ``rowtime``; return what reached the outputs.

        No row before ``rowtime`` may follow.

        Raises:
          ModelError: if rowtime goes back.
          ExecutionError: if a label raised; discard the model then.
        """
        self._setup.clock.advance(rowtime)
        return self._take_sent()

    @property
    def wants_jump(self) -> bool:
        """Whether the model has handlers for the end of history."""
        return bool(self._setup.jumps)

    def jump(self, before: int, after: int) -> None:
        """Call the handlers for the end of history, at ``before``; live data begins at ``after`` (ms)."""
        for handler in self._setup.jumps:
            handler(before, after)

    def run_event(self) -> list[Sent]:
        """Run the next event; return what reached the outputs.

        Raises:
          ExecutionError: if a label raised; discard the model then.
        """
        self._setup.clock.run_event()
        return self._take_sent()

    def drop_event(self) -> None:
        """Drop the next event without running it."""
        self._setup.clock.drop_event()

    def mark(self) -> Mark | None:
        """Return a position for ``forget_since``; None if a part of the model does not count its changes."""
        changes, clock = self._setup.unit.changes(), self._setup.clock
        return None if changes is None else Mark(clock.rowtime, len(clock), changes)

    def forget_since(self, mark: Mark | None, dropped: int = 0) -> bool:
        """Go back to ``mark``, taken before a step that failed; return False if a part has changed since.

        ``dropped`` is the number of events that were removed to run, and are not restored.
        """
        clock = self._setup.clock
        if mark is None or mark[1:] != (len(clock) + dropped, self._setup.unit.changes()):
            return False
        self._sent.clear()
        clock.rowtime = mark.rowtime
        return True

    def _take_sent(self) -> list[Sent]:
        sent = self._sent[:]
        self._sent.clear()
        return sent

    def snapshot(self) -> dict[str, Any]:
        """Return the state of the model by name, as plain values."""
        return self._setup.unit.snapshot()

    def held(self) -> int:
        """Return the size of the state: the number of rows, events and other items."""
        return self._setup.unit.held()

    def restore(self, state: Mapping[str, Any]) -> None:
        """Restore, in a new run, the state that ``snapshot`` of a run of the same model returned."""
        self._setup.unit.restore(state)
