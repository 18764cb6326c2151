"""The interface of operators.

An operator takes trays and bounds at its ports, one ``step`` at a time, and
returns trays, a bound and faults. These hold always:

* any cut of the same input into steps has the same output rows in the same
  order (law 1): state changes row by row, a tray is only transport;
* its bound never goes back, and is passed on even if rows are dropped (law 3);
* ``snapshot`` then ``restore`` into a new operator of the same node does not
  change later output;
* snapshots of operators that ran on parts of the input, split by
  ``Node.partition_key``, can be ``merge``-d into the one that a single
  operator would have (how Spark hands over);
* a snapshot of such an operator can be ``split`` into those of operators that
  continue with these parts, and ``merge`` reverses it (how Spark takes over);
* every row that went in is accounted for (law 4).

Operators are not thread-safe and never keep an array that they were given
without owning it: trays are immutable, so keeping one is owning it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol, runtime_checkable

import pyarrow as pa

from rowtide.errors import FaultError, Reason
from rowtide.rows.rowop import Row
from rowtide.rows.tray import Tray
from rowtide.rowtime.bound import Bound

PARTITION_BITS = 16
"""Bits of the partition in the origin of a source's rows. The bits above are the number of its step."""

RESUBMITTED = 1 << (PARTITION_BITS - 1)
"""Partitions from this number on do not belong to a topic: each holds error rows resubmitted together."""

State = Mapping[str, pa.Table]
"""The state of an operator as named Arrow tables. Keyed state has one row for each key."""


@dataclass(frozen=True, slots=True)
class Fault:
    """One row that was late or rejected: becomes a row of the error stream.

    ``origin`` and ``counter`` identify the message of the row, if it is still a
    source's row; ``bound`` is the least rowtime that would have been accepted
    (ms; None if time was not the reason); ``row`` is in row form and
    ``names`` are those of its fields.
    """

    relation: str
    reason: Reason
    message: str
    rowtime: int | None
    origin: int
    counter: int
    row: Row | None = None
    bound: int | None = None
    names: tuple[str, ...] | None = None

    @property
    def kind(self) -> str:
        """LATE or REJECTED."""
        return "LATE" if self.reason is Reason.LATE else "REJECTED"


class RowCounts(NamedTuple):
    """Numbers of rows since the pipeline began, and of those that are held now (law 4)."""

    rows_in: int = 0
    done: int = 0
    filtered: int = 0
    late: int = 0
    rejected: int = 0
    rows_out: int = 0
    held: int = 0


@dataclass(slots=True)
class Account:
    """The account of the input rows of one operator; see law 4 of the architecture."""

    rows_in: int = 0
    done: int = 0
    filtered: int = 0
    late: int = 0
    rejected: int = 0
    rows_out: int = 0

    def counts(self, held: int = 0) -> RowCounts:
        """Return the numbers now, with the rows that are ``held``."""
        return RowCounts(
            self.rows_in, self.done, self.filtered, self.late, self.rejected, self.rows_out, held
        )

    def add(self, other: Account) -> None:
        """Add another operator's account to this one."""
        for name in ACCOUNT_FIELDS:
            setattr(self, name, getattr(self, name) + getattr(other, name))

    def check(self, relation: str, held: int) -> None:
        """Check law 4.

        Raises:
          FaultError: if rows in are not done + filtered + late + rejected + held.
        """
        explained = self.done + self.filtered + self.late + self.rejected + held
        if explained != self.rows_in:
            raise FaultError(
                f'rows of "{relation}" are not accounted for: {self.rows_in} in, {self.done} done, '
                f"{self.filtered} filtered, {self.late} late, {self.rejected} rejected, {held} held"
            )

    def to_arrow(self) -> pa.Table:
        """Return the account as a table of one row, for a snapshot."""
        return pa.table({name: [getattr(self, name)] for name in ACCOUNT_FIELDS})

    @classmethod
    def from_arrow(cls, table: pa.Table) -> Account:
        """Read the result of ``to_arrow``. Several rows (of merged snapshots) are added up."""
        return cls(**{name: sum(table.column(name).to_pylist()) for name in ACCOUNT_FIELDS})


ACCOUNT_FIELDS = ("rows_in", "done", "filtered", "late", "rejected", "rows_out")


@dataclass(frozen=True, slots=True)
class StepOutput:
    """The output of one step: rows, then the bound that follows them, and faults in order of their rows."""

    tray: Tray | None
    bound: Bound
    faults: Sequence[Fault] = field(default=())


@dataclass(frozen=True, slots=True)
class OperatorSite:
    """The place of an operator in the flow.

    ``origin`` signs the rows that it makes. ``merged``: its input is one merged stream, not one partition.
    ``port_origins`` (for a merge): the origins whose rows can reach each port, in their order at one
    rowtime. ``order`` (for a merge): the order in which they leave, if it differs from the order in which
    the origins first arrive. ``is_part``: it has the rows of some keys, and unknown rows of other keys may
    hold back its rows. ``feeds_tables`` (for a sort of a partition): its rows go only to keyed tables.
    """

    origin: int
    merged: bool = True
    port_origins: tuple[tuple[int, ...], ...] = ()
    order: tuple[int, ...] = ()
    is_part: bool = False
    feeds_tables: bool = False


def joined_states(states: Sequence[State]) -> dict[str, pa.Table]:
    """Return the states of parts as one: each table is the concatenation of the parts'."""
    return {name: pa.concat_tables([state[name] for state in states]) for name in states[0]}


def saved_bounds(bounds: Sequence[Bound]) -> pa.Table:
    """Return the bounds of an operator's ports as a part of its state."""
    names = ("rowtime", "origin", "counter")
    return pa.table({name: pa.array([getattr(each, name) for each in bounds], pa.int64()) for name in names})


def loaded_bounds(table: pa.Table) -> list[Bound]:
    """Return the bounds in a table of ``saved_bounds``."""
    return [Bound(**row) for row in table.to_pylist()]


class Operator(Protocol):
    """One step of the dataflow. Ports are numbered like the inputs of its plan node."""

    account: Account

    def step(self, port: int, tray: Tray | None, bound: Bound) -> StepOutput:
        """Take rows and the bound that follows them at ``port``; return the rows that can leave now.

        Each input's rows come in consistent time order (a Sort's and a Promote's input and those
        below a Merge: in log order). ``bound`` is not below the port's earlier bound.
        """

    def held(self) -> int:
        """Count the input rows for which output may still come."""

    def snapshot(self) -> State:
        """Return the whole state of the operator, which does not change."""

    def restore(self, state: State) -> None:
        """Restore a snapshot of an operator of the same node. Called before any step."""


@runtime_checkable
class Gathering(Protocol):
    """An operator that can take rows of several ports before it returns any, which is faster."""

    def offer(self, port: int, tray: Tray | None, bound: Bound) -> None:
        """Take rows and a bound without returning rows yet."""

    def release(self) -> StepOutput:
        """Return the rows that can leave after all offered input."""


@runtime_checkable
class HoldsTable(Protocol):
    """An operator that is an engine table."""

    def contents(self) -> Tray:
        """Return the rows that the table has now."""


@runtime_checkable
class HoldsTables(Protocol):
    """An operator with tables inside that SQL can name."""

    def table_inside(self, name: str) -> Tray | None:
        """Return the current rows of a table; None if it does not exist."""


@runtime_checkable
class Jumping(Protocol):
    """An operator that may request a notification when history is over."""

    def jumps_from(self) -> int | None:
        """Return its rowtime (ms) if it requests the notification and has not received it; else None."""

    def jump(self, before: int, after: int) -> None:
        """Note that history ended at ``before`` and live messages begin at ``after`` (ms).

        The output is the same for any moment of the notification before its time passes ``before``. If
        ``after`` is not later, no time is skipped. A second notification has no effect.
        """


@runtime_checkable
class Meeting(Protocol):
    """An operator with inputs that wait for each other."""

    def ahead(self) -> int:
        """Count the rows held because another input lags. Reading less of their input helps."""


@runtime_checkable
class Reaching(Protocol):
    """A meeting that reads changes of tables, and reports how far it has come."""

    def reached(self) -> int:
        """Return the greatest rowtime (ms) of which rows may have been processed; EARLIEST: none.

        A port that promises no more rows does not count: a statement that is sent to a running pipeline may
        still change its table (docs/sql/tables.md#statements-sent-to-a-running-service).
        """


class Want(NamedTuple):
    """The bound that a port needs (ms); None: no bound helps, more rows do."""

    port: int
    bound: int | None


@runtime_checkable
class Explaining(Protocol):
    """An operator that reports what it waits for (law 7). Required if it holds rows or changes bounds."""

    def wants(self, bound: int | None = None) -> Sequence[Want]:
        """Return the bounds that the ports need, all together.

        Without ``bound``: for the earliest held row to leave or be done; empty if none is held. With
        ``bound`` (ms): for the operator's own bound to reach it; empty if only rows can advance it.
        """


def wants_of(operator: Operator, ports: int, bound: int | None = None) -> Sequence[Want]:
    """Return the needs of an operator. One that is not ``Explaining`` only passes bounds on."""
    if isinstance(operator, Explaining):
        return operator.wants(bound)
    return [] if bound is None else [Want(port, bound) for port in range(ports)]
