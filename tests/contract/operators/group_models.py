"""What grouping means; see ``model``."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from contract.operators.meanings import (
    NEAR_MONTHS,
    aggregate,
    as_key,
    hop_windows,
    month_edge,
    next_hop_end,
    period_end,
    period_name,
)
from contract.operators.model import Model
from rowtide.errors import Reason
from rowtide.operators.contract import OperatorSite
from rowtide.plan.nodes import GroupByCumulate, GroupByHop, GroupByPeriod, GroupBySession, SortInPeriod
from rowtide.rows.rowop import Opcode, Row, TimedRow
from rowtide.rowtime.bound import EARLIEST, LATEST, Bound
from rowtide.rowtime.period import CalendarUnit, Cumulate, PeriodEdge


class GroupModel(Model):
    """A row a group when its period closes; the row that overflows an aggregate was never there."""

    def __init__(self, node: GroupByPeriod, site: OperatorSite) -> None:
        super().__init__()
        self.node = node
        self.origin = site.origin
        self.reached = EARLIEST
        self.groups: dict[tuple[int, Row], list[TimedRow]] = {}

    def row(self, port: int, timed: TimedRow) -> None:
        self.account.rows_in += 1
        key = tuple(as_key(timed.row[index]) for index in self.node.keys)
        group = (period_name(self.node.period, timed.rowtime), key)
        rows = [*self.groups.get(group, []), timed]
        try:
            for call in self.node.aggregates:
                aggregate(call, rows)
        except OverflowError:
            self.tell(self.node.relation, Reason.OVERFLOW, timed)
            return
        self.groups[group] = rows

    def bound(self, port: int, bound: Bound) -> None:
        self.reached = max(self.reached, bound.rowtime)
        for group in list(self.groups):
            end = period_end(self.node.period, group[0])
            if end < self.reached or (end == self.reached and self.node.period.edge is PeriodEdge.FLOOR):
                rows = self.groups.pop(group)
                self.account.done += len(rows)
                values = tuple(aggregate(call, rows) for call in self.node.aggregates)
                row = (group[0], *group[1], *values)
                self.give(TimedRow(end, self.origin, self.account.rows_out, Opcode.INSERT, row))

    def promised(self) -> int:
        if self.reached in (EARLIEST, LATEST):
            return self.reached
        return period_end(self.node.period, period_name(self.node.period, self.reached))

    def held(self) -> int:
        return sum(len(rows) for rows in self.groups.values())


@dataclass
class Window:
    """One open group: its window, its key and its rows."""

    start: int
    end: int
    key: Row
    rows: list[TimedRow]


class WindowModel(Model):
    """Groups that end at times of their own, in the order of their first rows."""

    node: GroupByHop | GroupByCumulate | GroupBySession

    def __init__(self, node: GroupByHop | GroupByCumulate | GroupBySession, site: OperatorSite) -> None:
        super().__init__()
        self.node = node
        self.origin = site.origin
        self.reached = EARLIEST
        self.open: list[Window] = []

    def grown(self, timed: TimedRow, key: Row) -> list[tuple[Window | None, Window]]:
        """Return the groups that a row changes or, None, begins, as they were and as they are with it."""
        raise NotImplementedError

    def row(self, port: int, timed: TimedRow) -> None:
        self.account.rows_in += 1
        changes = self.grown(timed, tuple(as_key(timed.row[index]) for index in self.node.keys))
        try:
            for _, window in changes:
                for call in self.node.aggregates:
                    aggregate(call, window.rows)
        except OverflowError:
            self.tell(self.node.relation, Reason.OVERFLOW, timed)
            return
        for before, after in changes:
            if before is None:
                self.open.append(after)
            else:
                self.open[self.open.index(before)] = after
        self.account.done += not changes

    def bound(self, port: int, bound: Bound) -> None:
        self.reached = max(self.reached, bound.rowtime)
        held = self.held()
        for window in sorted(self.open, key=lambda each: each.end):
            if window.end <= self.reached:
                self.open.remove(window)
                values = tuple(aggregate(call, window.rows) for call in self.node.aggregates)
                row = (window.start, *window.key, *values)
                self.give(TimedRow(window.end, self.origin, self.account.rows_out, Opcode.INSERT, row))
        self.account.done += held - self.held()

    def held(self) -> int:
        rows = [timed for window in self.open for timed in window.rows]
        return len({(timed.rowtime, timed.origin, timed.counter) for timed in rows})


class HopModel(WindowModel):
    """Every window that holds a row, also those that began before the first one."""

    node: GroupByHop

    def grown(self, timed: TimedRow, key: Row) -> list[tuple[Window | None, Window]]:
        found = []
        for start, end in hop_windows(self.node.hop, timed.rowtime):
            before = next((each for each in self.open if (each.start, each.key) == (start, key)), None)
            found.append((before, Window(start, end, key, [*(before.rows if before else []), timed])))
        return found

    def promised(self) -> int:
        if self.reached in (EARLIEST, LATEST):
            return self.reached
        return next_hop_end(self.node.hop, self.reached)


class CumulateModel(WindowModel):
    """Every window that ends after a row and begins with the period of the whole size that has it."""

    node: GroupByCumulate

    def grown(self, timed: TimedRow, key: Row) -> list[tuple[Window | None, Window]]:
        found = []
        for start, end in self.windows(timed.rowtime):
            if end > timed.rowtime:
                before = next((each for each in self.open if (each.end, each.key) == (end, key)), None)
                found.append((before, Window(start, end, key, [*(before.rows if before else []), timed])))
        return found

    def windows(self, rowtime: int) -> list[tuple[int, int]]:
        """Return all windows that begin together with those that contain a rowtime."""
        cumulate = self.node.cumulate
        if isinstance(cumulate, Cumulate):
            step, size = cumulate.step_ms, cumulate.size_ms
            near = range(rowtime - size + 1, rowtime + 1)
            start = max(at for at in near if (at - cumulate.offset_ms) % size == 0)
            return [(start, end) for end in range(start + step, start + size + 1, step)]
        months = {CalendarUnit.MONTH: 1, CalendarUnit.QUARTER: 3, CalendarUnit.YEAR: 12}[cumulate.unit]
        first = max(at for at in NEAR_MONTHS if at % months == 0 and month_edge(at) <= rowtime)
        if cumulate.step_ms is None:
            ends = map(
                month_edge, range(first + cumulate.step_months, first + months + 1, cumulate.step_months)
            )
            return [(month_edge(first), end) for end in ends]
        start, stop = month_edge(first), month_edge(first + months)
        return [(start, end) for end in range(start + cumulate.step_ms, stop + 1, cumulate.step_ms)]

    def promised(self) -> int:
        if self.reached in (EARLIEST, LATEST):
            return self.reached
        return min(end for _, end in self.windows(self.reached) if end > self.reached)


class SessionModel(WindowModel):
    """A row less than a gap behind the one before it prolongs its key's session."""

    node: GroupBySession

    def grown(self, timed: TimedRow, key: Row) -> list[tuple[Window | None, Window]]:
        gap = self.node.session.gap_ms
        before = next((each for each in self.open if each.key == key and timed.rowtime < each.end), None)
        if before is None:
            return [(None, Window(timed.rowtime, timed.rowtime + gap, key, [timed]))]
        return [(before, Window(before.start, timed.rowtime + gap, key, [*before.rows, timed]))]

    def promised(self) -> int:
        if self.reached in (EARLIEST, LATEST):
            return self.reached
        return min([LATEST, self.reached + self.node.session.gap_ms, *(each.end for each in self.open)])


class SortInPeriodModel(Model):
    """The rows of a period, put into order one by one when it closes."""

    def __init__(self, node: SortInPeriod, site: OperatorSite) -> None:
        super().__init__()
        self.node = node
        self.origin = site.origin
        self.reached = EARLIEST
        self.waiting: list[TimedRow] = []

    def row(self, port: int, timed: TimedRow) -> None:
        self.account.rows_in += 1
        self.waiting.append(timed)

    def bound(self, port: int, bound: Bound) -> None:
        self.reached = max(self.reached, bound.rowtime)
        sorted_rows: list[tuple[int, TimedRow]] = []
        for timed in self.waiting:
            end = period_end(self.node.period, period_name(self.node.period, timed.rowtime))
            if end < self.reached or (end == self.reached and self.node.period.edge is PeriodEdge.FLOOR):
                place = len(sorted_rows)
                while place and self.before((end, timed), sorted_rows[place - 1]):
                    place -= 1
                sorted_rows.insert(place, (end, timed))
        places: Counter[int] = Counter()
        for end, timed in sorted_rows:
            self.waiting.remove(timed)
            self.account.done += 1
            places[end] += 1
            last = places[end] if self.node.limit is None else self.node.offset + self.node.limit
            if not self.node.offset < places[end] <= last:
                continue
            self.give(TimedRow(end, self.origin, self.account.rows_out, Opcode.INSERT, timed.row))

    def before(self, one: tuple[int, TimedRow], other: tuple[int, TimedRow]) -> bool:
        """Return whether one row has to come before another that came earlier."""
        if one[0] != other[0]:
            return one[0] < other[0]
        for index, descending in self.node.keys:
            left, right = one[1].row[index], other[1].row[index]
            if left == right:
                continue
            if left is None or right is None:
                return (right is None) is not descending
            return (left < right) is not descending  # type: ignore[operator]
        return self.node.newest_first

    def promised(self) -> int:
        if self.reached in (EARLIEST, LATEST):
            return self.reached
        return period_end(self.node.period, period_name(self.node.period, self.reached))

    def held(self) -> int:
        return len(self.waiting)
