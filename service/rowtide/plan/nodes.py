"""The nodes of a relational plan.

A node says everything that an operator needs to do its step, and names its
inputs; nodes are frozen, picklable and compared by value, so two readers of
one view share one node. ``relation`` is the catalog name of the relation whose
own text the node comes from: error rows, accounts and ``--why-not`` use it.

``partition_key`` gives, for each input, the fields by which the operator can be
split: rows that agree on them meet, rows that do not never do. None: it cannot
be split. ``ROW_WISE`` nodes may be split any way.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum

from rowtide.expr.tree import AggregateCall, Expr
from rowtide.plan.frames import Frame, WindowCall
from rowtide.plan.models import Model
from rowtide.plan.table_join import TableJoin
from rowtide.plan.top_changes import TopChanges
from rowtide.rows.rowop import Row
from rowtide.rows.types import RowType
from rowtide.rowtime.period import Hop, Period, Session

PartitionKey = tuple[tuple[int, ...], ...]


class BoundPolicy(Enum):
    """What a promotion does with the bounds of its input (sql-decisions 11)."""

    PASS = "pass"
    """They are explicit bounds of a foreign stream and already speak of promoted time."""
    DROP = "drop"
    """They speak of the old rowtime and say nothing of the new one."""
    MAP = "map"
    """The new rowtime is a monotonic expression of the old one: apply it to the bound."""


@dataclass(frozen=True, slots=True)
class Source:
    """Where rows enter: a stream or foreign stream, partition by partition, in log order.

    Bounds that come out of it are explicit ones only: the rows of a source
    promise nothing until a Sort has judged them. A ``foreign`` source judges
    nothing itself: each reader does where it first needs order.
    """

    relation: str
    row_type: RowType
    foreign: bool = False

    @property
    def inputs(self) -> tuple[Node, ...]:
        """No inputs."""
        return ()


@dataclass(frozen=True, slots=True)
class TableSource:
    """Where changes of an engine table enter that no pump brings: its INSERT statements, a scenario.

    ``loaded_once``: only the pipeline's own INSERT statements fill it, so there
    is no bound to wait for (sql-decisions 17). ``rows`` are those statements' rows.
    """

    relation: str
    row_type: RowType
    rows: tuple[Row, ...] = ()
    loaded_once: bool = False

    @property
    def inputs(self) -> tuple[Node, ...]:
        """No inputs."""
        return ()


@dataclass(frozen=True, slots=True)
class _OverOne:
    """A node with one input."""

    relation: str
    input: Node

    @property
    def inputs(self) -> tuple[Node, ...]:
        """The one input."""
        return (self.input,)


@dataclass(frozen=True, slots=True)
class _SameFields(_OverOne):
    """A node that gives the fields of its one input."""

    @property
    def row_type(self) -> RowType:
        """That of the input."""
        return self.input.row_type


@dataclass(frozen=True, slots=True)
class Filter(_SameFields):
    """Keep the rows for which ``condition`` is TRUE; the others are filtered."""

    condition: Expr


@dataclass(frozen=True, slots=True)
class Project(_OverOne):
    """Compute ``expressions`` for each row; a row for which one fails is rejected."""

    expressions: tuple[Expr, ...]
    row_type: RowType


@dataclass(frozen=True, slots=True)
class Promote(_SameFields):
    """Give each row the rowtime that ``rowtime`` (a TIMESTAMP) computes from it.

    NULL is rejected (MISSING_FIELD). Where ``max_ahead_ms`` is given, a row
    further ahead of its old rowtime than that is rejected (FUTURE).
    """

    rowtime: Expr
    bounds: BoundPolicy
    max_ahead_ms: int | None = None


@dataclass(frozen=True, slots=True)
class Sort(_SameFields):
    """t-sort: judge lateness, and release rows in time order (sql-decisions 9, 10).

    With H the highest rowtime seen, a row is late iff t + within < H; rows with
    t <= H - within leave, ties in order of arrival. ``within_ms`` 0 judges only.
    ``relation`` is the one that error rows name.
    """

    within_ms: int


@dataclass(frozen=True, slots=True)
class Merge:
    """Put several ordered inputs into one order by consistent time (sql-decisions 14).

    With one input it merges the partitions of the source below it; with
    several it is UNION ALL, or the pumps into one stream, in that order.
    ``of_changes``: its rows are changes, whose order among those of one input is kept.
    """

    relation: str
    sources: tuple[Node, ...]
    of_changes: bool = False

    @property
    def inputs(self) -> tuple[Node, ...]:
        """The sources, in their order."""
        return self.sources

    @property
    def row_type(self) -> RowType:
        """That of the first source."""
        return self.sources[0].row_type


@dataclass(frozen=True, slots=True)
class GroupByPeriod(_OverOne):
    """Group by a period of the rowtime and further keys; one row a group when its period closes.

    Out: the period's value (start for FLOOR, end for CEIL, the rowtime for EXACT) as first field,
    then ``keys``, then ``aggregates``; rowtime is the period's end (sql-decisions 2), rows of one
    closing in the order in which their keys first appeared. ``keys`` and the aggregates' arguments
    are fields of the input: a Project below computes them.
    """

    period: Period
    keys: tuple[int, ...]
    aggregates: tuple[AggregateCall, ...]
    row_type: RowType


@dataclass(frozen=True, slots=True)
class GroupByHop(_OverOne):
    """Group by windows that overlap and further keys; one row a window and key when the window ends.

    Out: the window's start as first field, then as of GroupByPeriod; rowtime is the window's end, rows of one
    end in the order in which their keys first appeared in that window (sql-decisions 2, 4).
    """

    hop: Hop
    keys: tuple[int, ...]
    aggregates: tuple[AggregateCall, ...]
    row_type: RowType


@dataclass(frozen=True, slots=True)
class GroupBySession(_OverOne):
    """Group each key's rows into sessions; one row a session when no row can prolong it any more.

    Two rows exactly one gap apart are two sessions. Out: the first row's rowtime as first field, then as of
    GroupByPeriod; rowtime is that of the last row + gap, rows of one rowtime in the order in which the
    sessions began (sql-decisions 2, 4).
    """

    session: Session
    keys: tuple[int, ...]
    aggregates: tuple[AggregateCall, ...]
    row_type: RowType


@dataclass(frozen=True, slots=True)
class GroupChanges(_OverOne):
    """Group by a window, if there is one, and further keys; every change of a group's row (sql-decisions 8).

    Out: where there is a ``window`` its start or name, then as of GroupByPeriod; DELETE old, INSERT new at
    the place in consistent time of the row that caused the change. With ``every_ms`` instead at the
    multiples of it, of rows below the multiple, and at the end of the window, in the order in which the
    groups began. What is the same as before is not told, and a group that is over is not deleted.

    ``of_changes``: rows have opcodes, a DELETE takes a row out of its group, and a group without rows
    goes. ``retention_ms``: a group that nothing has changed for longer is forgotten.
    """

    window: Period | Hop | Session | None
    keys: tuple[int, ...]
    aggregates: tuple[AggregateCall, ...]
    row_type: RowType
    every_ms: int | None = None
    of_changes: bool = False
    retention_ms: int | None = None


GroupNode = GroupByPeriod | GroupByHop | GroupBySession | GroupChanges
"""Nodes that make rows of groups: the start or name of its window, its keys, its aggregates."""


@dataclass(frozen=True, slots=True)
class WindowAggregate(_OverOne):
    """Add to each row what ``calls`` give over a frame of its partition (OVER; sql-decisions 5, 6).

    ``order`` is what frames in time are measured by: EXACT for ROWTIME. ``partition``, the arguments,
    conditions and defaults of ``calls`` are fields of the input: a Project below computes them.
    Out: the input's fields, then one for each call; rowtime, tie-break and order of the input. A row
    waits until nothing that may still come can be in its frame. A row for which a call has no value
    is rejected; where the frame ends with the row itself, it is in no later frame either.

    ``snap``: the field at this place of ``partition`` is this period of ROWTIME, so a partition ends with it.
    """

    partition: tuple[int, ...]
    order: Period
    frame: Frame
    calls: tuple[WindowCall, ...]
    row_type: RowType
    snap: tuple[int, Period] | None = None


@dataclass(frozen=True, slots=True)
class WaitingWindow:
    """One of several windows whose rows wait; its fields are those of a WindowAggregate."""

    partition: tuple[int, ...]
    order: Period
    frame: Frame
    calls: tuple[WindowCall, ...]
    snap: tuple[int, Period] | None = None


@dataclass(frozen=True, slots=True)
class WindowsAbreast(_OverOne):
    """Add to each row what several windows give, each of which lets rows wait for what follows them.

    One over the other, each would wait for what the one below has let go: here all see the rows as they
    come, and a row waits no longer than for the last of them (sql-decisions 6). Out: the input's fields, then
    one for each call of each window; a row that one of them rejects is in the frames of the others.
    """

    windows: tuple[WaitingWindow, ...]
    row_type: RowType

    def each(self) -> tuple[WindowAggregate, ...]:
        """Give the windows, each alone over the input."""
        own = self.input.row_type
        found = []
        at = len(own)
        for window in self.windows:
            row_type = RowType((*own, *list(self.row_type)[at : at + len(window.calls)]))
            at += len(window.calls)
            found.append(
                WindowAggregate(
                    self.relation,
                    self.input,
                    window.partition,
                    window.order,
                    window.frame,
                    window.calls,
                    row_type,
                    window.snap,
                )
            )
        return tuple(found)


@dataclass(frozen=True, slots=True)
class SortInPeriod(_SameFields):
    """Sort the rows of each period of the rowtime; they come when it closes, with its end as rowtime.

    ``keys`` are fields, each with True where it descends; NULL is the greatest value. Rows that are equal in
    all of them keep their order (sql-decisions 7). Of each period's rows only ``limit`` come, if it is
    given, behind the first ``offset``.
    """

    period: Period
    keys: tuple[tuple[int, bool], ...]
    limit: int | None = None
    offset: int = 0


@dataclass(frozen=True, slots=True)
class KeyedTable(_SameFields):
    """An engine table: applies rowops by primary key and gives its changelog.

    An INSERT of a key that is there gives DELETE old, INSERT new; a DELETE needs the key fields
    only and of a key that is not there gives nothing (sql-decisions 20). A NULL in the key is
    rejected (NULL_KEY). Without ``key`` rows are a multiset, and a DELETE takes away one equal row.
    """

    key: tuple[int, ...]

    @property
    def row_type(self) -> RowType:
        """That of the input, whose key may be NULL where that of the table never is."""
        fields = (
            replace(field, nullable=False) if at in self.key else field
            for at, field in enumerate(self.input.row_type)
        )
        return RowType(tuple(fields))


@dataclass(frozen=True, slots=True)
class UniqueTable(KeyedTable):
    """An engine table of which each of ``unique`` names fields that no two rows have alike.

    An INSERT that would have another row's is rejected (CONSTRAINT); NULLs are never alike.
    """

    unique: tuple[tuple[int, ...], ...]


class JoinKind(Enum):
    """Of which sides a row without a match comes out, NULLs beside it."""

    INNER = "INNER"
    LEFT = "LEFT"
    RIGHT = "RIGHT"
    FULL = "FULL"

    @property
    def keeps_left(self) -> bool:
        """Tell whether unmatched rows of the left side come out."""
        return self in (JoinKind.LEFT, JoinKind.FULL)

    @property
    def keeps_right(self) -> bool:
        """Tell whether unmatched rows of the right side come out."""
        return self in (JoinKind.RIGHT, JoinKind.FULL)


@dataclass(frozen=True, slots=True)
class AsOfJoin:
    """Join each stream row with the table as of the row's rowtime (sql-decisions 17).

    Input 0 is the table's changelog, input 1 the stream. A stream row at T waits for the table's
    bound >= T + 1 ms and sees the changes of T. Rows match where the key fields are equal and not
    NULL. Out: the stream's fields, then the table's; rowtime and tie-break of the stream row.
    """

    relation: str
    table: Node
    stream: Node
    table_key: tuple[int, ...]
    stream_key: tuple[int, ...]
    kind: JoinKind
    row_type: RowType

    @property
    def inputs(self) -> tuple[Node, ...]:
        """The table, then the stream."""
        return (self.table, self.stream)


@dataclass(frozen=True, slots=True)
class AsOfJoinOn(AsOfJoin):
    """An AsOfJoin whose rows match only if ``condition``, over the joined row, is TRUE, too.

    A pair for which the condition has no value is rejected and no match. (A node of its own, so that the
    digests of plans without a condition stay what they are.)
    """

    condition: Expr


class JoinTime(Enum):
    """Whose rowtime a pair of a windowed join has."""

    LEFT = "LEFT"
    RIGHT = "RIGHT"
    LATER = "LATER"


@dataclass(frozen=True, slots=True)
class WindowJoin:
    """Join two streams where right rowtime - left rowtime is within [low_ms, high_ms], both included.

    ``time`` is the side without a window, or LATER (sql-decisions 16). An unmatched left row comes out at
    its rowtime + ``left_delay_ms``, a right one at + ``right_delay_ms``: the length of its own window where
    that is PRECEDING, else 0. Rows match where the keys are equal and not NULL and ``condition``, over the
    left fields and then the right ones, is TRUE.

    Out: the left fields, then the right ones, in the order (rowtime, left row, right row), a missing row
    first; a row leaves as soon as no earlier one can come. ``retained``: no window says how long rows are
    kept, but the pipeline's RETENTION does.
    """

    relation: str
    left: Node
    right: Node
    left_key: tuple[int, ...]
    right_key: tuple[int, ...]
    low_ms: int
    high_ms: int
    time: JoinTime
    kind: JoinKind
    row_type: RowType
    condition: Expr | None = None
    left_delay_ms: int = 0
    right_delay_ms: int = 0
    retained: bool = False

    @property
    def inputs(self) -> tuple[Node, ...]:
        """The left side, then the right one."""
        return (self.left, self.right)


Node = (
    Source
    | TableSource
    | Filter
    | Project
    | Promote
    | Sort
    | Merge
    | GroupByPeriod
    | GroupByHop
    | GroupBySession
    | GroupChanges
    | WindowAggregate
    | WindowsAbreast
    | SortInPeriod
    | KeyedTable
    | AsOfJoin
    | WindowJoin
    | TableJoin
    | TopChanges
    | Model
)

ROW_WISE = (Filter, Project, Promote)
"""Nodes that look at one row at a time: any split and any order of rows gives the same."""


def partition_key(node: Node) -> PartitionKey | None:
    """Give, for each input of ``node``, the fields by which its operator can be split."""
    match node:
        case GroupByPeriod(keys=keys) | GroupByHop(keys=keys) | GroupBySession(keys=keys):
            return (keys,)
        case GroupChanges(keys=keys):
            return (keys,)
        case WindowAggregate(partition=partition, frame=frame) if partition and not frame.waits_for_rows:
            return (partition,)
        case UniqueTable():
            return None
        case KeyedTable(key=key) | Model(key=key) if key:
            return (key,)
        case AsOfJoin(table_key=table_key, stream_key=stream_key):
            return (table_key, stream_key)
        case TopChanges(partition=partition) if partition:
            return (partition,)
        case TableJoin(keys=count) if count:
            return (tuple(range(1, 1 + count)),)
        case WindowJoin(left_key=left_key, right_key=right_key) if left_key:
            return (left_key, right_key)
        case _:
            return None
