"""What it means to tell every change of a group: all rows are kept, and each result is worked out again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction
from typing import cast

from contract.operators.meanings import (
    aggregate,
    as_key,
    bits,
    exact,
    hop_windows,
    next_hop_end,
    period_end,
    period_name,
    whole,
)
from contract.operators.model import Model, later
from rowtide.errors import Reason
from rowtide.expr.tree import AggregateCall, FieldRef
from rowtide.operators.contract import OperatorSite
from rowtide.plan.nodes import GroupChanges
from rowtide.rows.rowop import Opcode, Row, TimedRow
from rowtide.rowtime.bound import EARLIEST, LATEST, NO_BOUND, Bound
from rowtide.rowtime.period import Hop, HopByMonths, Period, PeriodEdge, Session


@dataclass
class Group:
    """One group: its window and key, its rows, those not reported of yet, and what was reported last."""

    start: int
    end: int
    key: Row
    rows: list[TimedRow] = field(default_factory=list)
    untold: list[TimedRow] = field(default_factory=list)
    answer: Row | None = None
    last: int = EARLIEST


class ChangesModel(Model):
    """DELETE old, INSERT new, after each row or at the multiples of the interval and the ends of windows."""

    def __init__(self, node: GroupChanges, site: OperatorSite) -> None:
        super().__init__()
        self.node = node
        self.origin = site.origin
        self.reached = EARLIEST
        self.passed = NO_BOUND
        self.groups: list[Group] = []
        self.refused: list[Row] = []
        self.waiting: list[TimedRow] = []
        self.own = 0

    def row(self, port: int, timed: TimedRow) -> None:
        self.account.rows_in += 1
        self.reach(timed.rowtime)
        if timed.opcode == Opcode.DELETE and timed.row in self.refused:
            self.refused.remove(timed.row)
        elif timed.opcode != Opcode.NOP and not self.takes_back(timed):
            self.change(timed)
        self.settle()

    def takes_back(self, timed: TimedRow) -> bool:
        """Forget a change of the same row that waits, the other way round."""
        for at, each in enumerate(self.waiting):
            if each.row == timed.row and each.opcode == -timed.opcode:
                del self.waiting[at]
                return True
        return False

    def let_in(self, group: Group) -> None:
        """Apply changes of a group that waited and fit now: one by one while any does, else all of them."""
        mine = [each for each in self.waiting if self.key_of(each) == group.key]
        before = -1
        while mine and len(mine) != before:
            before = len(mine)
            mine = [each for each in mine if not self.lets_in(group, [each])]
        if mine:
            self.lets_in(group, mine)

    def lets_in(self, group: Group, changes: Sequence[TimedRow]) -> bool:
        rows = group.rows
        for each in changes:
            rows = self.with_row(rows, each)
        try:
            self.values(rows)
        except OverflowError:
            return False
        group.rows = rows
        self.waiting = [each for each in self.waiting if all(each is not other for other in changes)]
        return True

    def key_of(self, timed: TimedRow) -> Row:
        return tuple(as_key(timed.row[index]) for index in self.node.keys)

    def never_fits(self, timed: TimedRow) -> bool:
        try:
            self.values([timed])
        except OverflowError:
            return True
        return False

    def bound(self, port: int, bound: Bound) -> None:
        self.passed = later(self.passed, bound)
        self.reach(bound.rowtime)
        self.settle()

    def change(self, timed: TimedRow) -> None:
        key = self.key_of(timed)
        found = [self.group(start, end, key) for start, end in self.windows(timed.rowtime)]
        rows = [self.with_row(group.rows, timed) for group in found]
        try:
            for each in rows:
                self.values(each)
        except OverflowError:
            self.tell(self.node.relation, Reason.OVERFLOW, timed)
            if self.node.of_changes and self.node.window is None and not self.never_fits(timed):
                self.waiting.append(timed)
            elif self.node.of_changes and timed.opcode == Opcode.INSERT:
                self.refused.append(timed.row)
            return
        for group, after in zip(found, rows, strict=True):
            if group not in self.groups:
                self.groups.append(group)
            group.rows, group.last = after, timed.rowtime
            self.let_in(group)
            if isinstance(self.node.window, Session):
                group.end = timed.rowtime + self.node.window.gap_ms
            group.untold.append(timed)
            if self.node.every_ms is None:
                self.say(group, timed.rowtime, timed)

    def with_row(self, rows: list[TimedRow], timed: TimedRow) -> list[TimedRow]:
        if timed.opcode == Opcode.INSERT:
            return [*rows, timed]
        gone = next(at for at, each in enumerate(rows) if each.row == timed.row)
        return rows[:gone] + rows[gone + 1 :]

    def windows(self, rowtime: int) -> list[tuple[int, int]]:
        match self.node.window:
            case Period() as period:
                name = period_name(period, rowtime)
                return [(name, period_end(period, name))]
            case Hop() | HopByMonths() as hop:
                return hop_windows(hop, rowtime)
            case Session(gap_ms=gap):
                return [(rowtime, rowtime + gap)]
            case None:
                return [(0, LATEST)]

    def group(self, start: int, end: int, key: Row) -> Group:
        for group in self.groups:
            if group.key == key and (isinstance(self.node.window, Session) or group.start == start):
                return group
        return Group(start, end, key)

    def values(self, rows: Sequence[TimedRow]) -> Row | None:
        """Return the results over a group's rows; None: there is no such group any more."""
        if not rows and (self.node.window is not None or self.node.keys):
            return None
        compute = aggregate_of_changes if self.node.of_changes else aggregate
        return tuple(compute(call, rows) for call in self.node.aggregates)

    def reach(self, rowtime: int) -> None:
        """Report everything that is due before ``rowtime``, moment by moment."""
        self.reached = max(self.reached, rowtime)
        while (moment := self.next_moment()) is not None:
            is_end, at = moment[1], moment[0]
            answer = [group for group in self.groups if group.untold and (group.end == at or not is_end)]
            for group in answer:
                self.say(group, at, None)
            if is_end:
                self.groups = [group for group in self.groups if group.end != at]
        if self.node.retention_ms is not None:
            oldest = self.reached - self.node.retention_ms
            self.groups = [group for group in self.groups if group.untold or group.last >= oldest]

    def next_moment(self) -> tuple[int, bool] | None:
        """Return the next time at which something is reported, and whether it is the end of a window."""
        moments = [(group.end, True) for group in self.groups if self.is_over(group)]
        untold = [timed.rowtime for group in self.groups for timed in group.untold]
        if untold and self.node.every_ms is not None:
            due = multiple_after(min(untold), self.node.every_ms)
            if due <= self.reached:
                moments.append((due, False))
        return min(moments, default=None)

    def is_over(self, group: Group) -> bool:
        window = self.node.window
        strict = isinstance(window, Period) and window.edge is not PeriodEdge.FLOOR
        return window is not None and group.end + strict <= self.reached

    def say(self, group: Group, rowtime: int, cause: TimedRow | None) -> None:
        """Report how a group has changed, if it has."""
        group.untold = []
        values = self.values(group.rows)
        if bits(values) != bits(group.answer):
            for opcode, row in ((Opcode.DELETE, group.answer), (Opcode.INSERT, values)):
                if row is None:
                    continue
                head = group.key if self.node.window is None else (group.start, *group.key)
                if cause is None:
                    self.give(TimedRow(rowtime, self.origin, self.own, opcode, (*head, *row)))
                else:
                    self.give(cause._replace(opcode=opcode, row=(*head, *row)))
            self.own += cause is None
        group.answer = values
        if values is None:
            self.groups = [each for each in self.groups if each is not group]

    def settle(self) -> None:
        self.account.done = self.account.rows_in - self.account.rejected - self.held()

    def promised(self) -> int:
        reached, every = self.reached, self.node.every_ms
        if every is None:
            return self.passed.rowtime
        if reached in (EARLIEST, LATEST):
            return reached
        found = [multiple_after(reached, every)]
        match self.node.window:
            case Period() as period:
                found.append(period_end(period, period_name(period, reached)))
            case Hop() | HopByMonths() as hop:
                found.append(next_hop_end(hop, reached))
            case Session(gap_ms=gap):
                found += [reached + gap, *(group.end for group in self.groups)]
        return min(found)

    def promise(self) -> Bound:
        return self.passed if self.node.every_ms is None else Bound(self.promised())

    def held(self) -> int:
        return len({id(timed) for group in self.groups for timed in group.untold})


def multiple_after(rowtime: int, every: int) -> int:
    """Return the first multiple of the interval that is after ``rowtime``."""
    return next(each for each in range(rowtime + 1, rowtime + every + 1) if each % every == 0)


def aggregate_of_changes(call: AggregateCall, rows: Sequence[TimedRow]) -> object:
    """Return the value of an aggregate over what is left of rows that came and went: sums are exact.

    Raises:
      OverflowError: if its type does not hold it.
    """
    rows = [timed._replace(row=tuple(as_key(value) for value in timed.row)) for timed in rows]
    if call.function not in ("SUM", "AVG"):
        return aggregate(call, rows)
    assert isinstance(call.argument, FieldRef)
    kind = call.argument.type
    if call.condition is not None:
        assert isinstance(call.condition, FieldRef)
        wanted = call.condition.index
        rows = [timed for timed in rows if timed.row[wanted] is True]
    values = [timed.row[call.argument.index] for timed in rows if timed.row[call.argument.index] is not None]
    if call.distinct:
        values = [value for at, value in enumerate(values) if value not in values[:at]]
    if not values:
        return None
    parts = [Fraction(cast("Decimal", value)) for value in values]
    total = sum(parts) / (len(parts) if call.function == "AVG" else 1)
    if kind.is_float:
        return float(total)
    if call.function == "SUM" and kind.is_integer:
        if not -(2**63) <= total < 2**63:
            raise OverflowError
        return int(total)
    if kind.is_interval:
        return whole(Fraction(total))
    for value in parts if call.function == "AVG" else ():
        exact(value, call.type)
    return exact(Fraction(total), call.type)
