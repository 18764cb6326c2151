"""The changelog of groups: EMIT CHANGES, and aggregates over changelogs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rowtide.expr.tree import AggregateCall, Expr
from rowtide.plan.calls import (
    has_retracting_kernel,
    has_running_kernel,
    is_commutative,
    is_small_of_changes,
    is_small_of_rows,
)
from rowtide.plan.limits import FOR_EVER_MS
from rowtide.plan.nodes.group import GroupNode
from rowtide.plan.nodes.lineage import SourceRows, identity, in_window
from rowtide.plan.nodes.node import Agreed, Form, require
from rowtide.plan.nodes.over_one import names_of
from rowtide.plan.show import show_group_window, show_interval, show_period
from rowtide.rows.rowop import TimedRow
from rowtide.rows.types import RowType
from rowtide.rowtime.period import Hop, HopByMonths, Period, Session


@dataclass(frozen=True, slots=True)
class GroupChanges(GroupNode):
    """Group by a window, if any, and further keys; emit every change of a group's row.

    A change is DELETE old, INSERT new, at the place in consistent time of the row that caused it. With
    ``every_ms``, changes come at its multiples, for rows below the multiple, and at the end of the window,
    in the order in which the groups began. An unchanged row is not emitted again, and a closed group is not
    deleted (docs/sql/changelogs.md).

    ``of_changes``: rows have opcodes, a DELETE removes a row from its group, and a group without rows is
    deleted. ``retention_ms``: a group without a change for longer is dropped. ``shown``: the expressions
    over the output fields that something reads; a change that leaves all of them equal is not emitted.
    """

    window: Period | Hop | HopByMonths | Session | None
    keys: tuple[int, ...]
    aggregates: tuple[AggregateCall, ...]
    row_type: RowType
    every_ms: int | None = None
    of_changes: bool = False
    retention_ms: int | None = None
    shown: tuple[Expr, ...] | None = None

    def is_changelog(self) -> bool:
        """Return True."""
        return True

    def only_inserts(self) -> bool:
        """Return False: a changed row is deleted first."""
        return False

    def follows_contents(self) -> bool:
        """Return whether it groups a table by fields alone, and the order of rows does not matter."""
        of_table = self.of_changes and self.window is None and self.every_ms is None
        forgets = self.retention_ms is not None and self.retention_ms < FOR_EVER_MS
        return of_table and not forgets and all(map(is_commutative, self.aggregates))

    def key_fields(self) -> tuple[int, ...] | None:
        """Return the window and the keys."""
        return tuple(range(self._first_key() + len(self.keys)))

    def is_ordered(self) -> bool:
        """Return whether it emits at its own times, or its input is in order."""
        return self.every_ms is not None or self.input.is_ordered()

    def holds_rowtime(self, field: int) -> bool:
        """Return whether the field is the window."""
        return self.window is not None and field == 0

    def keeps(self) -> str | None:
        """Return the groups, and how long they stay."""
        names = names_of(self.input.row_type, self.keys)
        match self.window:
            case None if not names:
                text = "one group"
            case None:
                text = f"a group for each {names}"
            case Period():
                text = f"{self.each_key()} and period that is not over"
            case Hop() | HopByMonths() as hop:
                text = f"{self.each_key()} and window that is not over: {hop.at_a_time()} at a time"
            case Session():
                text = f"{self.each_key()} and session that is not over"
        if self.of_changes and not self.is_one_small_group():
            text += ", with the values of its rows"
        if self.retention_ms is not None and self.retention_ms < FOR_EVER_MS:
            return f"{text}, until nothing has changed it for {show_interval(self.retention_ms)}"
        if self.window is None and names and not (self.of_changes and self.input.is_limited()):
            return f"{text}, forever"
        return text

    def is_limited(self) -> bool:
        """Return whether its groups are limited by a table, or are declared to be kept forever."""
        return self.window is None and self.retention_ms is None

    def unlimited_state(self) -> str | None:
        """Return how long it keeps its groups, unless windows or a table limit them."""
        if (
            self.is_one_small_group()
            or self.window is not None
            or (self.of_changes and self.input.is_limited())
        ):
            return None
        names = names_of(self.input.row_type, self.keys)
        of = f"a group for every {names}" if names else "its group"
        if self.retention_ms is None:
            return f"keeps {of} forever: RETENTION is UNBOUNDED"
        return f"keeps {of} for {show_interval(self.retention_ms)} after its last row, then forgets it"

    def is_one_small_group(self) -> bool:
        """Return whether all rows are of one group, whose state does not grow with the rows."""
        is_small = is_small_of_changes if self.of_changes else is_small_of_rows
        no_groups = not self.keys and self.window is None and self.retention_ms is None
        return no_groups and all(map(is_small, self.aggregates))

    def form(self) -> Form | None:
        """Return whether changes come after each row and every aggregate has a kernel for that."""
        at_once = self.every_ms is None and self.retention_ms is None
        plain = self.window is None or (isinstance(self.window, Period) and not self.of_changes)
        has_kernel = has_retracting_kernel if self.of_changes else has_running_kernel
        return Form.COMPILED if at_once and plain and all(map(has_kernel, self.aggregates)) else Form.BY_ROW

    def detail(self) -> str:
        """Return the grouping, when its changes come, and how long a group is kept."""
        match self.window:
            case Period() as period:
                window: str | None = show_period(period)
            case None:
                window = None
            case other:
                window = show_group_window(other)
        rows = "change" if self.of_changes else "row"
        when = f"every {rows}" if self.every_ms is None else f"every {show_interval(self.every_ms)}"
        kept = "" if self.retention_ms is None else f"; kept {show_interval(self.retention_ms)}"
        return f"{self.calls_by(window)}; changes after {when}{kept}"

    def origins(self, own: int, ports: Sequence[Sequence[int]], *, merged: bool) -> tuple[int, ...]:
        """Return its own origin if it emits at its own times."""
        return (own,) if self.every_ms is not None else tuple(dict.fromkeys(ports[0]))

    def parts_of_own_rows(self) -> Agreed:
        """Return the keys."""
        first = self._first_key()
        return frozenset(range(first, first + len(self.keys)))

    def order_through(self, agreed: Agreed, port: int) -> Agreed:
        """Return the keys, if rows of one group keep their order or only their multiset matters."""
        at_times = self.every_ms is not None and not self.of_changes
        require(agreed, self.keys, unless=at_times and all(map(is_commutative, self.aggregates)))
        return self.parts_of_own_rows()

    def made_of(self, row: TimedRow) -> Iterator[SourceRows]:
        """Yield the rows of the group up to the one that caused the change, or below the multiple."""
        if self.every_ms is None:
            yield in_window(row, self.window, self.keys, end=row.rowtime, until=identity(row))
        else:
            yield in_window(row, self.window, self.keys, end=row.rowtime - 1)

    @property
    def lineage_note(self) -> str | None:
        """Retracted rows of a changelog match, too."""
        return "rows that were taken out of the group again are among them" if self.of_changes else None

    def _first_key(self) -> int:
        return 0 if self.window is None else 1
