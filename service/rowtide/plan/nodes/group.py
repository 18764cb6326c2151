"""Groups of a window of rowtime: one row a group when its window closes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rowtide.expr.tree import AggregateCall
from rowtide.plan.calls import has_accumulator, is_commutative
from rowtide.plan.nodes.lineage import SourceRows, in_window, picked, time_of
from rowtide.plan.nodes.node import Agreed, Form, PartitionKey, require
from rowtide.plan.nodes.over_one import OverOne, names_of
from rowtide.plan.nodes.row_wise import done_but_for
from rowtide.plan.show import show_aggregate, show_group_window, show_period
from rowtide.rows.rowop import TimedRow
from rowtide.rows.types import RowType
from rowtide.rowtime.period import (
    Cumulate,
    CumulateByMonths,
    GridWindow,
    Hop,
    HopByMonths,
    Period,
    PeriodEdge,
    Session,
    first_closing,
    value_of,
)


class GroupNode(OverOne):
    """The base of all nodes that make rows of groups.

    Out: the start or name of the window, if any, then ``keys``, then ``aggregates``. ``keys`` and the
    aggregates' arguments are fields of the input: a Project below computes them.
    """

    __slots__ = ()
    keys: tuple[int, ...]
    aggregates: tuple[AggregateCall, ...]

    def partition_key(self) -> PartitionKey | None:
        """Return the keys."""
        return (self.keys,)

    def each_key(self) -> str:
        """Return the groups, for EXPLAIN."""
        return (
            f"a group for each {names_of(self.input.row_type, self.keys)}"
            if self.keys
            else "a group for each"
        )

    def calls_by(self, window: str | None) -> str:
        """Return the aggregates and the terms of the grouping, for EXPLAIN."""
        row_type = self.input.row_type
        terms = [*([] if window is None else [window]), *(row_type[key].name for key in self.keys)]
        calls = [show_aggregate(call, row_type) for call in self.aggregates]
        return f"{', '.join(calls) or 'no aggregate'} by {', '.join(terms) or 'nothing'}"


class _ClosedGroup(GroupNode):
    """A group with one final row."""

    __slots__ = ()

    def is_changelog(self) -> bool:
        """Return False: the row of a group is final."""
        return False

    def only_inserts(self) -> bool:
        """Return True."""
        return True

    def is_ordered(self) -> bool:
        """Return True: rows come when their window closes."""
        return True

    def holds_rowtime(self, field: int) -> bool:
        """Return whether it is the window."""
        return field == 0

    def closing(self, rowtime: int) -> tuple[int, int] | None:
        """Return the end of the first window."""
        (window,) = self.windows_of_input()
        return first_closing(window, rowtime)

    def work(self) -> str | None:
        """Return the aggregates that are not compiled."""
        row_type = self.input.row_type
        by_row = [show_aggregate(call, row_type) for call in self.aggregates if not has_accumulator(call)]
        return done_but_for(Form.COMPILED.value, by_row)

    def origins(self, own: int, ports: Sequence[Sequence[int]], *, merged: bool) -> tuple[int, ...]:
        """Return its own origin."""
        return (own,)

    def parts_of_own_rows(self) -> Agreed:
        """Return the keys."""
        return frozenset(range(1, 1 + len(self.keys)))

    def order_through(self, agreed: Agreed, port: int) -> Agreed:
        """Return the keys, if the aggregates do not depend on order or rows of one group keep theirs."""
        require(agreed, self.keys, unless=all(map(is_commutative, self.aggregates)))
        return self.parts_of_own_rows()


@dataclass(frozen=True, slots=True)
class GroupByPeriod(_ClosedGroup):
    """Group by a period of the rowtime and further keys; one row a group when its period closes.

    The first field is the period's value: its start for FLOOR, its end for CEIL, the rowtime for EXACT. The
    rowtime is the period's end; rows of one closing are in the order in which their keys first appeared
    (docs/sql/group-by.md).
    """

    period: Period
    keys: tuple[int, ...]
    aggregates: tuple[AggregateCall, ...]
    row_type: RowType

    def keeps(self) -> str | None:
        """Return which groups are open."""
        return f"{self.each_key()} and period that is not over"

    def detail(self) -> str:
        """Return aggregates and grouping."""
        return self.calls_by(show_period(self.period))

    def ended_window(self) -> GridWindow | None:
        """Return the period; groups of one rowtime have that of their rows."""
        return self.input.ended_window() if self.period.edge is PeriodEdge.EXACT else self.period

    def windows_of_input(self) -> tuple[GridWindow, ...]:
        """Return the period."""
        return (self.period,)

    def made_of(self, row: TimedRow) -> Iterator[SourceRows]:
        """Yield the rows of the period and key."""
        period, keys, name = self.period, self.keys, time_of(row.row[0])
        wanted = row.row[1 : 1 + len(keys)]
        yield SourceRows(
            0,
            lambda each: value_of(period, each.rowtime) == name and picked(each.row, keys) == wanted,
            end=row.rowtime,
        )


@dataclass(frozen=True, slots=True)
class GroupByHop(_ClosedGroup):
    """Group by windows that overlap and further keys; one row a window and key when the window ends.

    The first field is the window's start. The rowtime is the window's end; rows of one end are in the order
    in which their keys first appeared in that window (docs/sql/group-by.md).
    """

    hop: Hop | HopByMonths
    keys: tuple[int, ...]
    aggregates: tuple[AggregateCall, ...]
    row_type: RowType

    def keeps(self) -> str | None:
        """Return which groups are open."""
        return f"{self.each_key()} and window that is not over: {self.hop.at_a_time()} at a time"

    def detail(self) -> str:
        """Return aggregates and grouping."""
        return self.calls_by(show_group_window(self.hop))

    def ended_window(self) -> GridWindow | None:
        """Return the window."""
        return self.hop

    def windows_of_input(self) -> tuple[GridWindow, ...]:
        """Return the window."""
        return (self.hop,)

    def made_of(self, row: TimedRow) -> Iterator[SourceRows]:
        """Yield the rows of the window and key."""
        yield in_window(row, self.hop, self.keys, end=row.rowtime - 1)


@dataclass(frozen=True, slots=True)
class GroupByCumulate(_ClosedGroup):
    """Group by windows that grow by a step, and further keys; one row a window and key when the window ends.

    The first field is the window's start. The rowtime is the window's end; rows of one end are in the order
    in which their keys first appeared in that window (docs/sql/group-by.md).
    """

    cumulate: Cumulate | CumulateByMonths
    keys: tuple[int, ...]
    aggregates: tuple[AggregateCall, ...]
    row_type: RowType

    def keeps(self) -> str | None:
        """Return which groups are open."""
        return f"{self.each_key()} and window that is not over: {self.cumulate.at_a_time()} at a time"

    def detail(self) -> str:
        """Return aggregates and grouping."""
        return self.calls_by(show_group_window(self.cumulate))

    def ended_window(self) -> GridWindow | None:
        """Return the window."""
        return self.cumulate

    def windows_of_input(self) -> tuple[GridWindow, ...]:
        """Return the window."""
        return (self.cumulate,)

    def made_of(self, row: TimedRow) -> Iterator[SourceRows]:
        """Yield the rows of the window and key."""
        keys, start = self.keys, time_of(row.row[0])
        wanted = row.row[1 : 1 + len(keys)]
        yield SourceRows(
            0,
            lambda each: start <= each.rowtime < row.rowtime and picked(each.row, keys) == wanted,
            end=row.rowtime - 1,
        )


@dataclass(frozen=True, slots=True)
class GroupBySession(_ClosedGroup):
    """Group each key's rows into sessions; one row a session when no row can prolong it any more.

    Two rows exactly one gap apart are two sessions. The first field is the first row's rowtime. The rowtime
    is that of the last row + gap; rows of one rowtime are in the order in which the sessions began
    (docs/sql/group-by.md).
    """

    session: Session
    keys: tuple[int, ...]
    aggregates: tuple[AggregateCall, ...]
    row_type: RowType

    def keeps(self) -> str | None:
        """Return which groups are open."""
        return f"{self.each_key()} and session that is not over"

    def detail(self) -> str:
        """Return aggregates and grouping."""
        return self.calls_by(show_group_window(self.session))

    def closing(self, rowtime: int) -> tuple[int, int] | None:
        """Return the end of a session of this row."""
        return rowtime + self.session.gap_ms, rowtime + self.session.gap_ms

    def made_of(self, row: TimedRow) -> Iterator[SourceRows]:
        """Yield the rows of the session and key."""
        yield in_window(row, self.session, self.keys, end=row.rowtime - self.session.gap_ms)
