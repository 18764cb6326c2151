"""t-sort: the node that judges lateness and sorts rows by rowtime."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rowtide.plan.nodes.lineage import SourceRows
from rowtide.plan.nodes.node import BY_PARTITION, Agreed, StepScope
from rowtide.plan.nodes.over_one import SameFields
from rowtide.plan.nodes.sources import Source
from rowtide.plan.nodes.walk import below_same_rowtime
from rowtide.plan.show import show_interval
from rowtide.rows.rowop import TimedRow
from rowtide.rowtime.period import GridWindow


@dataclass(frozen=True, slots=True)
class Sort(SameFields):
    """Judge lateness, and release rows in the order of rowtime (docs/sql/rowtime.md).

    With H the highest rowtime seen, a row is late iff t + within < H; rows with t <= H - within leave, ties
    in order of arrival. ``within_ms`` 0 judges only. ``relation`` is the one that error rows name. A change of
    a table is never late: it takes H instead (docs/sql/tables.md#tables-that-a-topic-fills).
    """

    within_ms: int

    @property
    def is_in_log_order(self) -> bool:
        """Whether no row is late: its rowtime is at least that of the partition's clock."""
        return isinstance(self.input, Source) and self.input.in_log_order

    def is_changelog(self) -> bool:
        """Return whether the input is a changelog."""
        return self.input.is_changelog()

    def shows_opcodes(self) -> bool:
        """Return whether those of the input are."""
        return self.input.shows_opcodes()

    def only_inserts(self) -> bool:
        """Return whether a stream is sorted, or what the input does."""
        return isinstance(self.input, Source) or self.input.only_inserts()

    def key_fields(self) -> tuple[int, ...] | None:
        """Return those of the input."""
        return self.input.key_fields()

    def is_ordered(self) -> bool:
        """Return whether it sorts merged rows: those of partitions are in order each by itself."""
        return not isinstance(below_same_rowtime(self.input), Source)

    def holds_rowtime(self, field: int) -> bool:
        """Return whether the input's field does."""
        return self.input.holds_rowtime(field)

    def ended_window(self) -> GridWindow | None:
        """Return that of the input, whose rowtimes its rows have."""
        return self.input.ended_window()

    def keeps(self) -> str | None:
        """Return how far below the highest rowtime rows are buffered."""
        if self.within_ms == 0:
            return "the highest rowtime"
        return f"rows up to {show_interval(self.within_ms)} below the highest rowtime"

    def is_limited(self) -> bool:
        """Return whether the input is limited."""
        return self.input.is_limited()

    def detail(self) -> str:
        """Return what WITHIN allows."""
        if self.is_in_log_order:
            return "a row below the highest rowtime takes it"
        if self.within_ms == 0:
            return "a row below the highest rowtime is late"
        return f"by ROWTIME WITHIN {show_interval(self.within_ms)}"

    def scope(self) -> StepScope:
        """Return that it runs for each partition of its input."""
        return BY_PARTITION

    def origins(self, own: int, ports: Sequence[Sequence[int]], *, merged: bool) -> tuple[int, ...]:
        """Return its own origin over merged rows, because it reorders ties."""
        return (own,) if merged else tuple(dict.fromkeys(ports[0]))

    def order_through(self, agreed: Agreed, port: int) -> Agreed:
        """Return the same fields."""
        return agreed

    def passes_on(self, row: TimedRow, own: int) -> bool:
        """Return whether the row kept its place."""
        return row.origin != own

    def made_of(self, row: TimedRow) -> Iterator[SourceRows]:
        """Yield the equal rows of the same rowtime."""
        values, time = row.row, row.rowtime
        yield SourceRows(0, lambda each: each.row == values, begin=time, end=time)
