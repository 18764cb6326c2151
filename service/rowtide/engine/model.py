"""A model inside a pipeline: named inputs and outputs, rowtime, events at a rowtime, snapshots.

The model's class is called with a ``ModelSetup`` (and its options) and wires its
unit: that is all it ever does by itself. ``ModelRun`` then feeds it rowops in
order of rowtime and gives what reaches its outputs. Everything that the model
remembers must be in tables, collapses or parts given to ``Unit.keep``: two runs
of one model that were given the same rowops, or a snapshot and the rest of them,
give the same.
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
    """A rowop that is to run at a rowtime; events of one rowtime run in the order of ``number``."""

    rowtime: int
    number: int
    label: str
    opcode: int
    row: Row


class RowtimeClock(CountsChanges):
    """What time it is for a model: the rowtime of what is being worked off, in ms; it never goes back."""

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
        """How many events have been asked for; whoever lets one run, or time pass, knows that himself."""
        return self._number

    def at(self, rowtime: int, rowop: Rowop) -> None:
        """Let ``rowop`` run at ``rowtime``, before the rows of that rowtime that come in later.

        Raises:
          ModelError: if that rowtime has passed, or the label is not the only one of its name.
        """
        if rowtime < self.rowtime:
            raise ModelError(
                f'an event of label "{rowop.label.name}" at {rowtime} comes too late: it is {self.rowtime}'
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
                raise ModelError(f'{len(labels)} labels are called "{name}"; events need one')
            known = self._known[name] = labels[0]
        return known

    def advance(self, rowtime: int) -> None:
        """Go to ``rowtime``, running the events up to and including it, each followed by a drain.

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
        """Run the next event, and drain.

        Raises:
          ExecutionError: if a label raised.
        """
        event = heappop(self._events)
        self.rowtime = event.rowtime
        self._label(event.label).send(Opcode(event.opcode), event.row)
        self._unit.drain()

    def also_known(self, last: Callable[[], int | None]) -> None:
        """Have ``last`` asked for the rowtime of the last event that a part of the model will ask for.

        A part that asks for one event after the other knows of more than the clock does.
        """
        self._known_elsewhere.append(last)

    def when_dropped(self, label: Label, handler: Callable[[int], None]) -> None:
        """Have ``handler`` called with the rowtime of an event of ``label`` that failed and comes no more.

        Everything is then as it was before that event, and the event is gone.
        """
        self._when_dropped[label.name] = handler

    def drop_event(self) -> None:
        """Take the next event away without running it."""
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
        """The rowtime of the last event that is known now, or None."""
        known = [event.rowtime for event in self._events]
        elsewhere = (told() for told in self._known_elsewhere)
        return max([*known, *(rowtime for rowtime in elsewhere if rowtime is not None)], default=None)

    def snapshot(self) -> Any:
        """Give rowtime and pending events as plain values."""
        return self.rowtime, self._number, [tuple(event) for event in sorted(self._events)]

    def restore(self, state: Any) -> None:
        """Take over what ``snapshot`` gave."""
        self.rowtime, self._number, events = state
        self._events = [Event(*event) for event in events]
        heapify(self._events)


class ModelSetup:
    """What a model's class gets to wire itself to: a unit, a clock, and names for what it offers."""

    def __init__(self, name: str) -> None:
        self.unit = Unit(name)
        self.clock = RowtimeClock(self.unit)
        self.unit.keep("rowtime", self.clock)
        self.inputs: dict[str, Label] = {}
        self.outputs: dict[str, Label] = {}
        self.tables: dict[str, Table] = {}
        self.changes: dict[str, tuple[str, ...]] = {}
        """The outputs that are changes of a table, with the fields that tell its rows apart (or none)."""
        self.keys: dict[str, tuple[str, ...]] = {}
        """The fields of each input by whose values a pipeline may split the model."""
        self.jumps: list[Callable[[int, int], None]] = []
        """What wants to know when history is over."""

    def input(self, name: str, label: Label, *, key: Sequence[str] = ()) -> None:
        """Offer a label as an input of the model.

        With ``key`` a pipeline makes a model of its own for each value of these fields, and rows of all
        inputs go to the one of their value: such a model can be split, and knows nothing of the others.
        """
        for field in key:
            label.row_type.index(field)
        self._offer(self.inputs, name, label)
        self.keys[name] = tuple(key)

    def output(self, name: str, label: Label) -> None:
        """Offer what reaches a label as an output of the model; in SQL a stream, which takes no DELETE."""
        self._offer(self.outputs, name, label)

    def changelog(self, name: str, label: Label, *key: str) -> None:
        """Offer what reaches a label as the changes of a table, in which ``key`` tells rows apart.

        Without a key the table may hold equal rows.
        """
        for field in key:
            label.row_type.index(field)
        self.output(name, label)
        self.changes[name] = key

    def table(self, name: str, table: Table) -> None:
        """Offer a table: its changes are an output, and its rows may be read.

        Its key is that of the first of its indexes that hold one row for each value of a key.
        """
        self.changelog(name, table.out, *table.type.unique_key())
        self.tables[name] = table

    def on_jump(self, handler: Callable[[int, int], None]) -> None:
        """Have ``handler`` called with two rowtimes (ms) between which what was due may be told as one.

        That is when history is over and what is live begins. It is called once at most, at any time before
        the first of them has passed, with no effect on what came before.
        """
        self.jumps.append(handler)

    def _offer(self, offered: dict[str, Label], name: str, label: Label) -> None:
        if name in offered:
            raise ModelError(f'model "{self.unit.name}" offers "{name}" twice')
        if label.unit is not self.unit:
            raise ModelError(f'model "{self.unit.name}" cannot offer label "{label.name}" of another unit')
        offered[name] = label


class Mark(NamedTuple):
    """Where a model stands: how many events are pending, and how often its parts have changed."""

    rowtime: int
    events: int
    changes: tuple[int, ...]


class Sent(NamedTuple):
    """One rowop that reached an output of a model, and when."""

    output: str
    opcode: Opcode
    row: Row
    rowtime: int


class ModelRun:
    """One model at work."""

    def __init__(
        self, name: str, model: Callable[..., object], options: Mapping[str, Any] | None = None
    ) -> None:
        self._setup = ModelSetup(name)
        self._sent: list[Sent] = []
        # The model may be an object that its own labels refer to; this keeps it for those that do not.
        self.model = model(self._setup, **(options or {}))
        for table in self._setup.tables.values():
            if len(table):
                raise ModelError(
                    f'model "{name}" fills table "{table.name}" while it is wired',
                    hint="Rows come with the input, or with an event.",
                )
        for output, label in self._setup.outputs.items():
            label.then(self._collector(output), name=f"{label.name}.collected")

    def _collector(self, output: str) -> Callable[[Rowop], None]:
        clock, sent = self._setup.clock, self._sent
        return lambda rowop: sent.append(Sent(output, rowop.opcode, rowop.row, clock.rowtime))

    @property
    def name(self) -> str:
        """The name that the model was given."""
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
        """The fields of each input by whose values the model may be split."""
        return self._setup.keys

    @property
    def changes(self) -> Mapping[str, tuple[str, ...]]:
        """The outputs that are changes of a table, with the fields that tell its rows apart (or none)."""
        return self._setup.changes

    @property
    def tables(self) -> Mapping[str, Table]:
        """The tables that the model lets others read, by name."""
        return self._setup.tables

    @property
    def next_event(self) -> int | None:
        """The rowtime of the next event that the model has asked for, or None."""
        return self._setup.clock.next_event

    @property
    def last_event(self) -> int | None:
        """The rowtime of the last of the events that it has asked for so far, or None."""
        return self._setup.clock.last_event

    def take(self, name: str, opcode: Opcode, row: Row, rowtime: int) -> list[Sent]:
        """Run the events up to ``rowtime``, then one rowop at an input; give what reached the outputs.

        Raises:
          ModelError: if there is no such input, rowtime goes back or the row is of another type.
          FieldValueError: if a value does not fit.
          ExecutionError: if a label raised; the model is to be thrown away.
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
        """Run the events up to ``rowtime``, before which no more rows come; give what came out."""
        self._setup.clock.advance(rowtime)
        return self._take_sent()

    @property
    def wants_jump(self) -> bool:
        """Tell whether the model wants to know when history is over."""
        return bool(self._setup.jumps)

    def jump(self, before: int, after: int) -> None:
        """Tell the model that history ended at ``before`` and what is live begins at ``after`` (ms)."""
        for handler in self._setup.jumps:
            handler(before, after)

    def run_event(self) -> list[Sent]:
        """Run the next event; give what came out.

        Raises:
          ExecutionError: if a label raised; the model is to be thrown away.
        """
        self._setup.clock.run_event()
        return self._take_sent()

    def drop_event(self) -> None:
        """Take the next event away without running it."""
        self._setup.clock.drop_event()

    def mark(self) -> Mark | None:
        """Give what ``forget_since`` needs; None if parts of the model do not tell whether they change."""
        changes, clock = self._setup.unit.changes(), self._setup.clock
        return None if changes is None else Mark(clock.rowtime, len(clock), changes)

    def forget_since(self, mark: Mark | None, dropped: int = 0) -> bool:
        """Be as at ``mark`` again, which was given before a step that failed; False if more has changed.

        ``dropped`` says how many events were taken away to run, and stay away.
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
        """Give everything that the model remembers, as plain values by name."""
        return self._setup.unit.snapshot()

    def held(self) -> int:
        """Count what the model remembers: rows, events and the like."""
        return self._setup.unit.held()

    def restore(self, state: Mapping[str, Any]) -> None:
        """Take over, while new, what ``snapshot`` of a run of the same model gave."""
        self._setup.unit.restore(state)
