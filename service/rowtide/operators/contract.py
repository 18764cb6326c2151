"""What an operator is.

An operator takes trays and bounds at its ports, one ``step`` at a time, and
gives trays, a bound and faults. It holds:

* any cut of the same input into steps gives the same output rows in the same
  order (law 1): state changes row by row, a tray is only transport;
* its bound never goes back and is passed on also when rows are dropped (law 3);
* ``snapshot`` then ``restore`` into a fresh operator of the same node changes
  nothing that comes out later;
* snapshots of operators that ran on parts of the input, split by
  ``plan.nodes.partition_key``, can be ``merge``-d into the one that a single
  operator would have (how Spark hands over);
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
"""The origin of a source's rows is the number of its step and, in so many bits below it, the partition."""

RESUBMITTED = 1 << (PARTITION_BITS - 1)
"""Partitions from this number on are no topic's: each holds error rows that were resubmitted together."""

State = Mapping[str, pa.Table]
"""What an operator remembers, as named Arrow tables. What is keyed has a row a key."""


@dataclass(frozen=True, slots=True)
class Fault:
    """One row that was late or rejected: becomes a row of the error stream.

    ``origin`` and ``counter`` find the message that the row came from, if it
    still is a source's row; ``bound`` is the least rowtime that would have been
    accepted (ms; None where time was not the reason); ``row`` is in row form and
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


@dataclass(slots=True)
class Account:
    """Where the input rows of one operator went; see law 4 of the architecture."""

    rows_in: int = 0
    done: int = 0
    filtered: int = 0
    late: int = 0
    rejected: int = 0
    rows_out: int = 0

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
        """Read what ``to_arrow`` gave; several rows (of merged snapshots) are added up."""
        return cls(**{name: sum(table.column(name).to_pylist()) for name in ACCOUNT_FIELDS})


ACCOUNT_FIELDS = ("rows_in", "done", "filtered", "late", "rejected", "rows_out")


@dataclass(frozen=True, slots=True)
class StepOutput:
    """What one step gave: rows, then the bound that follows them, and faults in order of their rows."""

    tray: Tray | None
    bound: Bound
    faults: Sequence[Fault] = field(default=())


@dataclass(frozen=True, slots=True)
class OperatorSite:
    """Where in the flow an operator stands.

    ``origin`` signs the rows that it makes itself. ``merged``: its input is one merged stream, not
    one partition. ``port_origins`` (for a merge): the origins whose rows can reach each port, in
    the order in which rows of one rowtime come there. ``order`` (for a merge): in which they leave, if not
    in the order in which the origins first come. ``is_part``: it sees the rows of some keys, and others,
    which it does not know, may hold back what it could let go. ``feeds_tables`` (for a sort of a partition):
    its rows go to keyed tables and nowhere else.
    """

    origin: int
    merged: bool = True
    port_origins: tuple[tuple[int, ...], ...] = ()
    order: tuple[int, ...] = ()
    is_part: bool = False
    feeds_tables: bool = False


def joined_states(states: Sequence[State]) -> dict[str, pa.Table]:
    """Return the states of parts as one, each table after those of the parts before."""
    return {name: pa.concat_tables([state[name] for state in states]) for name in states[0]}


def saved_bounds(bounds: Sequence[Bound]) -> pa.Table:
    """Return the bounds of an operator's ports as a part of its state."""
    names = ("rowtime", "origin", "counter")
    return pa.table({name: pa.array([getattr(each, name) for each in bounds], pa.int64()) for name in names})


def loaded_bounds(table: pa.Table) -> list[Bound]:
    """Return the bounds that ``saved_bounds`` made a table of."""
    return [Bound(**row) for row in table.to_pylist()]


class Operator(Protocol):
    """One step of the dataflow. Ports are numbered like the inputs of its plan node."""

    account: Account

    def step(self, port: int, tray: Tray | None, bound: Bound) -> StepOutput:
        """Take rows and the bound that follows them at ``port``; give what can leave now.

        Each input's rows come in consistent time order (a Sort's and a Promote's input and those
        below a Merge: in log order). ``bound`` is at least what the port has promised before.
        """

    def held(self) -> int:
        """Count the input rows for which output may still come."""

    def snapshot(self) -> State:
        """Return everything the operator remembers; the operator goes on unchanged."""

    def restore(self, state: State) -> None:
        """Take over what ``snapshot`` of an operator of the same node gave; called before any step."""


@runtime_checkable
class Gathering(Protocol):
    """An operator that can take several ports' rows before it gives any: it works less and gives the same."""

    def offer(self, port: int, tray: Tray | None, bound: Bound) -> None:
        """Take rows and a bound without giving anything yet."""

    def release(self) -> StepOutput:
        """Return what can leave after all that was offered."""


@runtime_checkable
class HoldsTable(Protocol):
    """An operator that is an engine table."""

    def contents(self) -> Tray:
        """Return the rows that the table has now."""


@runtime_checkable
class HoldsTables(Protocol):
    """An operator that has tables inside, which SQL knows by name."""

    def table_inside(self, name: str) -> Tray | None:
        """Return the rows that a table has now; None where there is none of that name."""


@runtime_checkable
class Jumping(Protocol):
    """An operator that may want to know when history is over and what is live begins."""

    def jumps_from(self) -> int | None:
        """Return the rowtime that it has reached (ms), if it asks for that and has not been notified; else None."""

    def jump(self, before: int, after: int) -> None:
        """Take note that history ended at ``before`` and what is live begins at ``after`` (ms).

        What comes out is the same whenever it is notified before its time has passed ``before``. Where
        ``after`` is not later no time is skipped. Told again, it takes no note.
        """


@runtime_checkable
class Meeting(Protocol):
    """An operator with inputs that wait for each other."""

    def ahead(self) -> int:
        """Count the rows held because another input has not got as far: reading less of theirs helps."""


class Want(NamedTuple):
    """What a port must have promised: the bound ``bound`` (ms); None: no bound helps, more rows do."""

    port: int
    bound: int | None


@runtime_checkable
class Explaining(Protocol):
    """An operator that says what it waits for (law 7): all must that hold rows, or move bounds."""

    def wants(self, bound: int | None = None) -> Sequence[Want]:
        """Return what the ports must have promised, all of it together.

        Without ``bound``: so that the earliest of the rows held leaves, or is done; nothing where none is
        held. With one: so that the operator promises ``bound`` (ms); nothing where no bound of a port
        makes it, only rows do.
        """


def wants_of(operator: Operator, ports: int, bound: int | None = None) -> Sequence[Want]:
    """Return what an operator with so many ports wants; one that is not ``Explaining`` only passes bounds on."""
    if isinstance(operator, Explaining):
        return operator.wants(bound)
    return [] if bound is None else [Want(port, bound) for port in range(ports)]
