"""ORDER BY a period of ROWTIME and further columns."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rowtide.plan.nodes.lineage import SourceRows
from rowtide.plan.nodes.node import Agreed, OrderMattersError
from rowtide.plan.nodes.over_one import SameFields, newest_first, terms_of
from rowtide.plan.show import show_period
from rowtide.rows.rowop import TimedRow
from rowtide.rowtime.period import GridWindow, Period, PeriodEdge, end_after, first_closing


@dataclass(frozen=True, slots=True)
class SortInPeriod(SameFields):
    """Sort the rows of each period of the rowtime; they come when it closes, with its end as rowtime.

    ``keys`` are fields, each with True where it descends; NULL is the greatest value. Rows that are equal in
    all of them keep their order, or reverse it (``newest_first``; docs/sql/order-by.md). If ``limit`` is given,
    only that number of rows of each period comes, after the first ``offset``.
    """

    period: Period
    keys: tuple[tuple[int, bool], ...]
    limit: int | None = None
    offset: int = 0

    @property
    def newest_first(self) -> bool:
        """Whether the last of equal rows to arrive is the first of them."""
        return newest_first(self.input, self.keys)

    def is_changelog(self) -> bool:
        """Return False: rows of a period are final."""
        return False

    def only_inserts(self) -> bool:
        """Return True."""
        return True

    def is_ordered(self) -> bool:
        """Return True: rows come when their period closes."""
        return True

    def holds_rowtime(self, field: int) -> bool:
        """Return whether the input's field does."""
        return self.input.holds_rowtime(field)

    def ended_window(self) -> GridWindow | None:
        """Return the period; rows of one rowtime keep it."""
        return self.input.ended_window() if self.period.edge is PeriodEdge.EXACT else self.period

    def windows_of_input(self) -> tuple[GridWindow, ...]:
        """Return the period."""
        return (self.period,)

    def closing(self, rowtime: int) -> tuple[int, int] | None:
        """Return the end of the period."""
        return first_closing(self.period, rowtime)

    def keeps(self) -> str | None:
        """Return the rows of a period that are kept."""
        if self.limit is None:
            return "rows of periods that are not over"
        return f"the first {self.limit + self.offset} rows of each period that is not over"

    def detail(self) -> str:
        """Return the terms."""
        limit = "" if self.limit is None else f", the first {self.limit}"
        limit += f", without {self.offset} before them" if self.offset else ""
        return f"by {', '.join([show_period(self.period), *terms_of(self.row_type, self.keys)])}{limit}"

    def origins(self, own: int, ports: Sequence[Sequence[int]], *, merged: bool) -> tuple[int, ...]:
        """Return its own origin."""
        return (own,)

    def order_through(self, agreed: Agreed, port: int) -> Agreed:
        """Refuse: equal rows keep their order."""
        raise OrderMattersError

    def made_of(self, row: TimedRow) -> Iterator[SourceRows]:
        """Yield the equal rows of the period."""
        values, time, period = row.row, row.rowtime, self.period
        yield SourceRows(0, lambda each: each.row == values and end_after(period, each.rowtime) == time)
