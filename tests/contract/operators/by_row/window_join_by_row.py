"""Two streams joined within a window of rowtime, row by row in plain Python.

See docs/sql/semantics.md#merge-order, #joins-of-two-streams.

It is the reference of the compiled form. A found pair waits in a heap until it is before the frontier
(``operators.join.window_join_places``).
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from rowtide.errors import RejectedRowError
from rowtide.expr.rowwise import compile_row
from rowtide.operators.contract import Account, Fault, OperatorSite, State, StepOutput, Want
from rowtide.operators.faults import rejected
from rowtide.operators.join.window_join_places import (
    FLAGS,
    LEFT,
    RIGHT,
    Frontier,
    JoinPlaces,
    SideView,
    clock_table,
    found_table,
    merge,
    split,
)
from rowtide.operators.merge.ranks import RANK, Ranks
from rowtide.operators.splitting import BEFORE
from rowtide.operators.storage.row_keys import key_getter
from rowtide.plan.nodes import WindowJoin
from rowtide.rows.rowop import Opcode, Row, TimedRow
from rowtide.rows.tray import Tray
from rowtide.rowtime.bound import EARLIEST, LATEST, NO_BOUND, Bound


@dataclass(slots=True, eq=False)
class _Held:
    """A row of one side: its number in order of arrival, and its pending output."""

    number: int
    timed: TimedRow
    matched: bool = False
    open: bool = True
    waiting: int = 0


@dataclass(slots=True)
class _Side:
    """The rows of one side that a row of the other may still match, in order, and by key."""

    key: Callable[[Row], Row]
    bound: Bound = NO_BOUND
    next_number: int = 0
    rows: deque[_Held] = field(default_factory=deque)
    by_key: dict[Row, deque[_Held]] = field(default_factory=dict)

    def add(self, held: _Held) -> None:
        """Keep a row."""
        self.rows.append(held)
        key = self.key(held.timed.row)
        if None not in key:
            self.by_key.setdefault(key, deque()).append(held)

    def drop_first(self) -> _Held:
        """Drop the oldest row."""
        held = self.rows.popleft()
        held.open = False
        key = self.key(held.timed.row)
        if None not in key:
            same = self.by_key[key]
            same.popleft()
            if not same:
                del self.by_key[key]
        return held


class WindowJoinByRow:
    """The join in plain Python, row by row. The operator signs its output."""

    merge = staticmethod(merge)
    split = staticmethod(split)

    def __init__(self, node: WindowJoin, site: OperatorSite) -> None:
        self.account = Account()
        self._node = node
        self._places = JoinPlaces(node, is_part=site.is_part)
        self._origin = site.origin
        self._ranks = [Ranks(origins) for origins in site.port_origins]
        self._sides = (_Side(key_getter(node.left_key)), _Side(key_getter(node.right_key)))
        self._nulls: tuple[Row, Row] = (
            (None,) * len(node.left.row_type),
            (None,) * len(node.right.row_type),
        )
        self._condition = None if node.condition is None else compile_row(node.condition)
        # Number of the right row last: no two pairs have all three equal.
        self._found: list[tuple[Frontier, _Held | None, _Held | None]] = []
        self._pairs_held = 0
        self._given = self._before = 0

    def step(self, port: int, tray: Tray | None, bound: Bound) -> StepOutput:
        """Port 0 is the left side, port 1 the right one."""
        faults: list[Fault] = []
        side = self._sides[port]
        if tray is not None:
            self.account.rows_in += len(tray)
            for timed in tray.rows():
                # A row is also a bound: it cannot match rows that it closes.
                side.bound = side.bound.raised(Bound(timed.rowtime))
                held = _Held(side.next_number, timed)
                side.next_number += 1
                self._meet(port, held, faults)
                side.add(held)
        side.bound = side.bound.raised(bound)
        self._close(LEFT)
        self._close(RIGHT)
        frontier = self._places.frontier(self._view(LEFT), self._view(RIGHT))
        out = self._release(frontier)
        given = Tray.from_rows(self._node.row_type, out) if out else None
        return StepOutput(given, Bound(max(EARLIEST, min(frontier[0], LATEST))), faults)

    def held(self) -> int:
        """Count the rows with an open window, and those with a waiting pair."""
        return len(self._sides[LEFT].rows) + len(self._sides[RIGHT].rows) + self._pairs_held

    def wants(self, bound: int | None = None) -> Sequence[Want]:
        waiting = self._found[0][0] if self._found else None
        return self._places.wants(self._look, waiting, self._last_before, bound)

    def snapshot(self) -> State:
        left, right = self._node.left.row_type, self._node.right.row_type
        lefts = self._remembered(LEFT)
        rights = self._remembered(RIGHT)
        return {
            "account": self.account.to_arrow(),
            "clock": clock_table(
                self._sides[LEFT].bound.rowtime,
                self._sides[RIGHT].bound.rowtime,
                self._sides[LEFT].next_number,
                self._sides[RIGHT].next_number,
                self._given,
                self._before,
            ),
            "left": self._table(LEFT, Tray.from_rows(left, [held.timed for held in lefts]), lefts),
            "right": self._table(RIGHT, Tray.from_rows(right, [held.timed for held in rights]), rights),
            "found": found_table(sorted(key for key, _, _ in self._found)),
        }

    def restore(self, state: State) -> None:
        self.account = Account.from_arrow(state["account"])
        clock = state["clock"].to_pylist()[0]
        self._given, self._before = clock["given"], clock.get(BEFORE, 0)
        rows: list[dict[int, _Held]] = []
        for side, name, row_type in (
            (self._sides[LEFT], "left", self._node.left.row_type),
            (self._sides[RIGHT], "right", self._node.right.row_type),
        ):
            side.bound = Bound(clock[name])
            side.next_number = clock[f"{name}_number"]
            held = {}
            flags = state[name].select(list(FLAGS)).to_pylist()
            for timed, flag in zip(Tray.from_arrow(row_type, state[name]).rows(), flags, strict=True):
                row = _Held(flag["$number"], timed, flag["$matched"], flag["$open"])
                held[row.number] = row
                if row.open:
                    side.add(row)
            rows.append(held)
        for key in state["found"].to_pylist():
            place = (key["rowtime"], key["left"], key["right"])
            self._hold(place, rows[LEFT].get(key["left"]), rows[RIGHT].get(key["right"]))

    def _meet(self, port: int, held: _Held, faults: list[Fault]) -> None:
        """Find the rows of the other side that match a new row."""
        key = self._sides[port].key(held.timed.row)
        if None in key:
            return
        for other in self._sides[1 - port].by_key.get(key, ()):
            left, right = (held, other) if port == LEFT else (other, held)
            distance = right.timed.rowtime - left.timed.rowtime
            if self._node.low_ms <= distance <= self._node.high_ms and self._agree(left, right, faults):
                left.matched = right.matched = True
                self._hold((self._time(left, right), left.number, right.number), left, right)

    def _agree(self, left: _Held, right: _Held, faults: list[Fault]) -> bool:
        if self._condition is None:
            return True
        try:
            return bool(self._condition(left.timed.row + right.timed.row, self._time(left, right)))
        except RejectedRowError as error:
            pair = left.timed._replace(row=left.timed.row + right.timed.row)
            names = self._node.row_type.names
            faults.append(rejected(self._node.relation, error.reason, error.message, pair, names))
            return False

    def _time(self, left: _Held, right: _Held) -> int:
        return self._places.time_of(left.timed.rowtime, right.timed.rowtime)

    def _hold(self, place: Frontier, left: _Held | None, right: _Held | None) -> None:
        """Keep an output row until it can leave. Its input rows are held as long."""
        heapq.heappush(self._found, (place, left, right))
        for held in (left, right):
            if held is not None:
                if not held.open and not held.waiting:
                    self._pairs_held += 1
                held.waiting += 1

    def _close(self, port: int) -> None:
        """Drop the rows that no row of the other side can match any more."""
        side, other = self._sides[port], self._sides[1 - port]
        while side.rows and self._places.last_meeting(port, side.rows[0].timed.rowtime) < other.bound.rowtime:
            held = side.drop_first()
            if held.waiting:
                self._pairs_held += 1
            if self._places.keeps(port) and not held.matched:
                place = self._places.alone(port, held.timed.rowtime, held.number)
                self._hold(place, *((held, None) if port == LEFT else (None, held)))
            elif not held.waiting:
                self.account.done += 1

    def _view(self, port: int) -> SideView:
        """Return the values that the frontier depends on."""
        rows = self._sides[port].rows
        first = (rows[0].timed.rowtime, rows[0].number) if rows else None
        lonely = None
        if self._places.keeps(port):
            found = next((held for held in rows if not held.matched), None)
            lonely = None if found is None else (found.timed.rowtime, found.number)
        return SideView(self._sides[port].bound.rowtime, first, lonely)

    def _look(self, left: int, right: int) -> tuple[SideView, SideView]:
        """Return the input of the frontier after these bounds; see ``window_join_places.Look``."""
        bounds = (
            max(left, self._sides[LEFT].bound.rowtime),
            max(right, self._sides[RIGHT].bound.rowtime),
        )
        views = []
        for port, side in enumerate(self._sides):
            opening = self._places.first_open(port, bounds[1 - port])
            rows = [held for held in side.rows if held.timed.rowtime >= opening]
            lonely = [held for held in rows if not held.matched] if self._places.keeps(port) else []
            first, alone = (
                (held[0].timed.rowtime, held[0].number) if held else None for held in (rows, lonely)
            )
            views.append(SideView(bounds[port], first, alone))
        return views[LEFT], views[RIGHT]

    def _last_before(self, port: int, rowtime: int) -> int | None:
        """Return the rowtime of the last open row before a rowtime."""
        found = (
            held.timed.rowtime for held in reversed(self._sides[port].rows) if held.timed.rowtime < rowtime
        )
        return next(found, None)

    def _release(self, frontier: Frontier) -> list[TimedRow]:
        """Remove and return the found pairs before the frontier, in order."""
        out: list[TimedRow] = []
        while self._found and self._found[0][0] < frontier:
            place, left, right = heapq.heappop(self._found)
            row = (self._nulls[LEFT] if left is None else left.timed.row) + (
                self._nulls[RIGHT] if right is None else right.timed.row
            )
            out.append(TimedRow(place[0], self._origin, self._given, Opcode.INSERT, row))
            self._given += 1
            for held in (left, right):
                if held is not None:
                    held.waiting -= 1
                    if not held.open and not held.waiting:
                        self._pairs_held -= 1
                        self.account.done += 1
        self.account.rows_out += len(out)
        return out

    def _remembered(self, port: int) -> list[_Held]:
        """Return the rows of one side that are open or have a waiting pair, by number."""
        held = {each.number: each for each in self._sides[port].rows}
        for _, left, right in self._found:
            each = left if port == LEFT else right
            if each is not None:
                held[each.number] = each
        return [held[number] for number in sorted(held)]

    def _table(self, port: int, tray: Tray, rows: Sequence[_Held]) -> pa.Table:
        table = tray.to_arrow().append_column(RANK, pa.array(self._ranks[port].of(tray.origin)))
        flags = (
            pa.array([held.number for held in rows], type=pa.int64()),
            pa.array([held.matched for held in rows], type=pa.bool_()),
            pa.array([held.open for held in rows], type=pa.bool_()),
        )
        for name, values in zip(FLAGS, flags, strict=True):
            table = table.append_column(name, values)
        return table
