"""Which rows a row was made of: what to look for at the inputs of each operator (law 7).

Rows carry no lineage. A row that an operator only passes on keeps its place in
consistent time (origin and counter), so it is followed by that; of a row that
an operator has made, its values say what it was made of: the window and key of
a group, the two halves of a pair. ``Lineage`` turns that into searches, which
whoever replays the input holds against what every step gives.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from rowtide.flow.program import Program, Step
from rowtide.plan.frames import EdgeUnit
from rowtide.plan.models import Model
from rowtide.plan.nodes import (
    ROW_WISE,
    AsOfJoin,
    GroupByHop,
    GroupByPeriod,
    GroupBySession,
    GroupChanges,
    JoinTime,
    KeyedTable,
    Merge,
    Sort,
    SortInPeriod,
    WindowAggregate,
    WindowJoin,
    WindowsAbreast,
)
from rowtide.plan.table_join import TableJoin
from rowtide.plan.top_changes import TopChanges
from rowtide.rows.rowop import Opcode, Row, TimedRow
from rowtide.rows.tray import Tray
from rowtide.rowtime.bound import EARLIEST, LATEST
from rowtide.rowtime.period import Hop, Period, Session, end_after, value_of

MAX_ROWS = 100
"""Rows of one search that are kept and followed further; how many there are is told in any case."""

Identity = tuple[int, int]
"""Origin and counter of a row."""


@dataclass(slots=True)
class Search:
    """Looks for rows among what step ``at`` gives, for the sake of ``step``, which reads it.

    Looks at rowtimes from ``begin`` to ``end`` (ms, both included). ``first``: only the first is wanted;
    ``last``: only so many of those that came last. ``until``: nothing behind the rows of this identity is,
    but for ``after`` rows. ``rows`` are ``MAX_ROWS`` at most, ``matched`` counts all.
    """

    at: int
    step: int
    matches: Callable[[TimedRow], bool]
    begin: int = EARLIEST
    end: int = LATEST
    first: bool = False
    last: int | None = None
    until: Identity | None = None
    after: int = 0
    matched: int = 0
    rows: deque[TimedRow] = field(default_factory=deque)
    _at_end: bool = False
    _passed: bool = False

    @property
    def count(self) -> int:
        """How many rows are wanted, of those that match."""
        return self.matched if self.last is None else len(self.rows)

    def see(self, tray: Tray) -> None:
        """Look at rows that the step has given."""
        if self._passed and not self.after:
            return
        inside = np.flatnonzero((tray.rowtime >= self.begin) & (tray.rowtime <= self.end))
        if not len(inside):
            return
        for row in (tray if len(inside) == len(tray) else tray.take(inside)).rows():
            here = self.until == (row.origin, row.counter)
            self._passed = self._passed or (self._at_end and not here)
            self._at_end = self._at_end or here
            if self._passed and not self.after:
                return
            if self.matches(row):
                self.after -= self._passed
                self._add(row)

    def _add(self, row: TimedRow) -> None:
        self.matched += 1
        self.rows.append(row)
        if self.first:
            self._passed = True
        elif self.last is not None and not self._passed:
            if len(self.rows) > self.last:
                self.rows.popleft()
        elif len(self.rows) > max(MAX_ROWS, self.last or 0):
            self.rows.pop()


@dataclass(frozen=True, slots=True)
class Back:
    """How far a row can be followed by its place: through ``path``, up to ``step``.

    ``port`` says, of each step of the path that reads several, by which of its ports the row came.
    """

    path: tuple[int, ...]
    step: int
    ports: dict[int, int]


class Lineage:
    """Follows rows back through a program."""

    def __init__(self, program: Program) -> None:
        self._steps = program.steps
        self.feeders: dict[int, dict[int, int]] = {}
        for at, step in enumerate(program.steps):
            for target, port in step.targets:
                self.feeders.setdefault(target, {})[port] = at

    def back(self, at: int, row: TimedRow) -> list[Back]:
        """Follow a row that step ``at`` has given, to where it entered or more than one row made it.

        Where branches of one stream meet, it may have come by each of them.
        """
        return list(self._back((at,), {}, row))

    def _back(self, path: tuple[int, ...], ports: dict[int, int], row: TimedRow) -> Iterator[Back]:
        at = path[-1]
        if not self._passes_on(self._steps[at], row):
            yield Back(path, at, ports)
            return
        for port, feeder in sorted(self.feeders[at].items()):
            if row.origin in self._steps[feeder].origins:
                yield from self._back((*path, feeder), ports | {at: port}, row)

    @staticmethod
    def _passes_on(step: Step, row: TimedRow) -> bool:
        if isinstance(step.node, (*ROW_WISE, Merge)):
            return True
        return isinstance(step.node, Sort) and step.place.origin != row.origin

    def locate(self, at: int, row: TimedRow) -> Search:
        """Look for a row as step ``at`` has given it."""
        opcode = row.opcode
        return self._same(at, at, row, lambda each: each.opcode == opcode)

    def searches(self, at: int, row: TimedRow) -> list[Search]:
        """Look for what step ``at`` has made a row of, which it has given so."""
        return list(self._searches(at, row))

    def _searches(self, at: int, row: TimedRow) -> Iterator[Search]:
        node, feeders = self._steps[at].node, self.feeders[at]
        values, time = row.row, row.rowtime
        below = feeders[0]
        match node:
            case GroupByPeriod(period=period, keys=keys):
                name = _time(values[0])
                wanted = values[1 : 1 + len(keys)]
                yield Search(
                    below,
                    at,
                    lambda each: value_of(period, each.rowtime) == name and _picked(each, keys) == wanted,
                    end=time,
                )
            case GroupByHop(hop=hop, keys=keys):
                yield self._in_window(at, row, hop, keys, end=time - 1)
            case GroupBySession(session=session, keys=keys):
                yield self._in_window(at, row, session, keys, end=time - session.gap_ms)
            case GroupChanges(window=window, keys=keys, every_ms=every):
                if every is None:
                    yield self._in_window(at, row, window, keys, end=time, until=_identity(row))
                else:
                    yield self._in_window(at, row, window, keys, end=time - 1)
            case WindowAggregate():
                yield self._in_frame(at, node, row)
            case WindowsAbreast():
                for each in node.each():
                    yield self._in_frame(at, each, row)
            case SortInPeriod(period=period):
                yield Search(
                    below, at, lambda each: each.row == values and end_after(period, each.rowtime) == time
                )
            case Sort():
                yield Search(below, at, lambda each: each.row == values, begin=time, end=time)
            case KeyedTable():
                key: Sequence[int] = node.key or range(len(values))
                yield self._same(below, at, row)
                if row.opcode == Opcode.DELETE:
                    held = _fields(values, key)
                    yield self._before(below, at, row, lambda each: _picked(each, key) == held)
            case AsOfJoin(table_key=table_key, stream_key=stream_key):
                yield self._same(feeders[1], at, row)
                own = _fields(values, stream_key)
                width = len(node.stream.row_type)
                if any(map(_is_there, values[width:])):
                    yield Search(
                        below,
                        at,
                        lambda each: each.opcode != Opcode.DELETE and _picked(each, table_key) == own,
                        end=time,
                        last=1,
                    )
            case WindowJoin():
                yield from self._halves(at, node, row)
            case TableJoin(keys=compared, left=left):
                halves = [any(map(_is_there, half)) for half in (values[:left], values[left:])]
                # Of a change that made a pair, what it took out is no part; a single may be left by it.
                made = row.opcode != Opcode.DELETE and all(halves)
                yield self._same(below, at, row, lambda each: not made or each.opcode != Opcode.DELETE)
                start = 1 + compared
                for side, half in enumerate((values[:left], values[left:])):
                    if halves[side]:
                        first = start + side * left
                        yield self._before(below, at, row, _half(side, first, half), inclusive=True)
            case TopChanges():
                yield self._same(below, at, row)
                held = values[: len(node.input.row_type)]
                yield self._before(below, at, row, lambda each: each.row == held, inclusive=True)
            case Model():
                yield Search(below, at, lambda _each: True, begin=time, end=time)

    def _in_window(
        self,
        at: int,
        row: TimedRow,
        window: Period | Hop | Session | None,
        keys: Sequence[int],
        *,
        end: int,
        until: Identity | None = None,
    ) -> Search:
        """Look for the rows of a group whose row begins with its window, if any, and its keys."""
        first = 0 if window is None else 1
        wanted = row.row[first : first + len(keys)]
        name = EARLIEST if window is None else _time(row.row[0])

        def matches(each: TimedRow) -> bool:
            match window:
                case Period():
                    inside = value_of(window, each.rowtime) == name
                case Hop():
                    inside = name in window.starts(each.rowtime)
                case _:
                    inside = each.rowtime >= name
            return inside and _picked(each, keys) == wanted

        return Search(self.feeders[at][0], at, matches, end=end, until=until)

    def _in_frame(self, at: int, node: WindowAggregate, row: TimedRow) -> Search:
        """Look for the rows of a frame, and the row itself."""
        frame, order = node.frame, node.order
        partition, own = node.partition, _fields(row.row, node.partition)
        here, identity = value_of(order, row.rowtime), _identity(row)

        def matches(each: TimedRow) -> bool:
            if (each.origin, each.counter) == identity:
                return True
            if _picked(each, partition) != own:
                return False
            distance = value_of(order, each.rowtime) - here
            if frame.start.unit is EdgeUnit.RANGE and distance < frame.start.offset:
                return False
            return not (frame.end.unit is EdgeUnit.RANGE and distance > frame.end.offset)

        last = None
        if frame.start.unit is EdgeUnit.ROWS and frame.start.offset <= 0:
            last = 1 - frame.start.offset
        after = frame.end.offset if frame.waits_for_rows else 0
        in_time = frame.end.unit is EdgeUnit.RANGE and frame.end.offset >= 0
        return Search(
            self.feeders[at][0], at, matches, last=last, until=None if in_time else identity, after=after
        )

    def _halves(self, at: int, node: WindowJoin, row: TimedRow) -> Iterator[Search]:
        """Look for the rows of a pair, or the one row that found no partner."""
        width = len(node.left.row_type)
        halves = (row.row[:width], row.row[width:])
        there = [any(map(_is_there, half)) for half in halves]
        length = node.high_ms - node.low_ms
        delays = (node.left_delay_ms, node.right_delay_ms)
        for port, half in enumerate(halves):
            if not there[port]:
                continue
            if not there[1 - port]:
                begin = end = row.rowtime - delays[port]
            elif node.time is (JoinTime.LEFT, JoinTime.RIGHT)[port]:
                begin = end = row.rowtime
            elif node.time is JoinTime.LATER:
                begin, end = row.rowtime - max(abs(node.low_ms), abs(node.high_ms), length), row.rowtime
            elif port == 0:
                begin, end = row.rowtime - node.high_ms, row.rowtime - node.low_ms
            else:
                begin, end = row.rowtime + node.low_ms, row.rowtime + node.high_ms
            yield Search(self.feeders[at][port], at, _equals(half), begin=begin, end=end)

    def _same(
        self, at: int, step: int, row: TimedRow, also: Callable[[TimedRow], bool] = lambda _row: True
    ) -> Search:
        """Look for the row of the same place."""
        identity = _identity(row)
        return Search(at, step, lambda each: (each.origin, each.counter) == identity and also(each))

    def _before(
        self,
        at: int,
        step: int,
        row: TimedRow,
        matches: Callable[[TimedRow], bool],
        *,
        inclusive: bool = False,
    ) -> Search:
        """Look for the last INSERT that matches, up to the place of ``row``."""
        identity = _identity(row)
        return Search(
            at,
            step,
            lambda each: (
                each.opcode != Opcode.DELETE
                and (inclusive or (each.origin, each.counter) != identity)
                and matches(each)
            ),
            end=row.rowtime,
            last=1,
            until=identity,
        )


def _identity(row: TimedRow) -> Identity:
    return row.origin, row.counter


def _fields(values: Row, fields: Sequence[int]) -> Row:
    return tuple(values[at] for at in fields)


def _picked(row: TimedRow, fields: Sequence[int]) -> Row:
    return tuple(row.row[at] for at in fields)


def _is_there(value: object) -> bool:
    return value is not None


def _equals(half: Row) -> Callable[[TimedRow], bool]:
    return lambda each: each.row == half


def _half(side: int, first: int, fields: Row) -> Callable[[TimedRow], bool]:
    """Match a tagged row of one side of a join of tables by its fields."""
    return lambda each: each.row[0] == side and each.row[first : first + len(fields)] == fields


def _time(value: object) -> int:
    assert isinstance(value, int)
    return value
