"""Two streams joined within a window of rowtime (sql-decisions 14, 16).

Output has a total order: (rowtime, left row, right row), where a missing row
comes first. A pair that is found waits in a heap until nothing that may still
come, or is not yet decided, can be before it: the frontier. What can still come
follows from the two bounds and from the oldest row of each side whose window
is still open.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from rowtide.errors import RejectedRowError
from rowtide.expr.rowwise import compile_row
from rowtide.operators.contract import Account, Fault, Output, Place, State, Want
from rowtide.operators.ranks import RANK, Ranks
from rowtide.operators.row_keys import key_getter
from rowtide.plan.nodes import JoinTime, WindowJoin
from rowtide.rows.rowop import Opcode, Row, TimedRow
from rowtide.rows.tray import COUNTER, ROWTIME, Tray
from rowtide.rowtime.bound import EARLIEST, LATEST, NO_BOUND, Bound

LEFT, RIGHT = 0, 1
MISSING = -1
"""The number of a missing row: before every real one."""
AFTER_ALL = 2**62
"""The number of rows that have not come yet: after every real one."""

Frontier = tuple[int, int, int]
"""Rowtime, number of the left row, number of the right row."""


@dataclass(slots=True, eq=False)
class _Held:
    """A row of one side: its number in order of arrival, and what still hangs on it."""

    number: int
    timed: TimedRow
    matched: bool = False
    open: bool = True
    waiting: int = 0


@dataclass(slots=True)
class _Side:
    """The rows of one side that a row of the other may still meet, in order, and by key."""

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
        """Let the oldest row go."""
        held = self.rows.popleft()
        held.open = False
        key = self.key(held.timed.row)
        if None not in key:
            same = self.by_key[key]
            same.popleft()
            if not same:
                del self.by_key[key]
        return held


class WindowJoinOperator:
    """Plain Python, row by row; what comes out is signed by the operator."""

    def __init__(self, node: WindowJoin, place: Place) -> None:
        self.account = Account()
        self._node = node
        self._origin = place.origin
        self._ranks = [Ranks(origins) for origins in place.port_origins]
        self._sides = (_Side(key_getter(node.left_key)), _Side(key_getter(node.right_key)))
        self._nulls: tuple[Row, Row] = (
            (None,) * len(node.left.row_type),
            (None,) * len(node.right.row_type),
        )
        self._condition = None if node.condition is None else compile_row(node.condition)
        # Number of the right row last: two pairs never have all three alike.
        self._found: list[tuple[Frontier, _Held | None, _Held | None]] = []
        self._pairs_held = 0
        self._given = 0

    def step(self, port: int, tray: Tray | None, bound: Bound) -> Output:
        """See the contract; port 0 is the left side, port 1 the right one."""
        faults: list[Fault] = []
        side = self._sides[port]
        if tray is not None:
            self.account.rows_in += len(tray)
            for timed in tray.rows():
                # A row is a bound too: what it closes cannot meet it any more.
                side.bound = side.bound.raised(Bound(timed.rowtime))
                held = _Held(side.next_number, timed)
                side.next_number += 1
                self._meet(port, held, faults)
                side.add(held)
        side.bound = side.bound.raised(bound)
        self._close(LEFT)
        self._close(RIGHT)
        frontier = self._frontier()
        out = self._release(frontier)
        given = Tray.from_rows(self._node.row_type, out) if out else None
        return Output(given, Bound(max(EARLIEST, min(frontier[0], LATEST))), faults)

    def held(self) -> int:
        """Count the rows whose window is open, and those of which a pair still waits."""
        return len(self._sides[LEFT].rows) + len(self._sides[RIGHT].rows) + self._pairs_held

    def wants(self, bound: int | None = None) -> Sequence[Want]:
        """See ``Explaining``: enough, and of two ways that are enough the one that both sides go."""
        if bound is None:
            if self._found:
                # The frontier is behind every output row of this rowtime once it is past it.
                return self.wants(self._found[0][0][0] + 1)
            firsts = [
                (self._last_meeting(port, side.rows[0].timed.rowtime) + 1, port)
                for port, side in enumerate(self._sides)
                if side.rows
            ]
            if not firsts:
                return []
            closed, port = min(firsts)
            first = self._sides[port].rows[0]
            keeps = self._node.kind.keeps_left if port == LEFT else self._node.kind.keeps_right
            if keeps and not first.matched:
                return self.wants(self._alone(port, first)[0] + 1)
            return [Want(1 - port, closed)]
        found = [Want(port, bound) for port in (LEFT, RIGHT)]
        for port, side in enumerate(self._sides):
            delay = self._node.left_delay_ms if port == LEFT else self._node.right_delay_ms
            keeps = self._node.kind.keeps_left if port == LEFT else self._node.kind.keeps_right
            open_before = [
                self._last_meeting(port, held.timed.rowtime) + 1
                for held in side.rows
                if held.timed.rowtime < bound or (keeps and held.timed.rowtime + delay < bound)
            ]
            if open_before:
                found.append(Want(1 - port, open_before[-1]))
        return found

    def snapshot(self) -> State:
        """See the contract."""
        left, right = self._node.left.row_type, self._node.right.row_type
        lefts = self._remembered(LEFT)
        rights = self._remembered(RIGHT)
        clock = {
            "left": [self._sides[LEFT].bound.rowtime],
            "right": [self._sides[RIGHT].bound.rowtime],
            "left_number": [self._sides[LEFT].next_number],
            "right_number": [self._sides[RIGHT].next_number],
            "given": [self._given],
        }
        found = sorted(key for key, _, _ in self._found)
        return {
            "account": self.account.to_arrow(),
            "clock": pa.table(clock),
            "left": self._table(LEFT, Tray.from_rows(left, [held.timed for held in lefts]), lefts),
            "right": self._table(RIGHT, Tray.from_rows(right, [held.timed for held in rights]), rights),
            "found": pa.table(
                {
                    name: pa.array([key[index] for key in found], type=pa.int64())
                    for index, name in enumerate(("rowtime", "left", "right"))
                }
            ),
        }

    def restore(self, state: State) -> None:
        """See the contract."""
        self.account = Account.from_arrow(state["account"])
        clock = state["clock"].to_pylist()[0]
        self._given = clock["given"]
        rows: list[dict[int, _Held]] = []
        for side, name, row_type in (
            (self._sides[LEFT], "left", self._node.left.row_type),
            (self._sides[RIGHT], "right", self._node.right.row_type),
        ):
            side.bound = Bound(clock[name])
            side.next_number = clock[f"{name}_number"]
            held = {}
            flags = state[name].select(list(_FLAGS)).to_pylist()
            for timed, flag in zip(Tray.from_arrow(row_type, state[name]).rows(), flags, strict=True):
                row = _Held(flag["$number"], timed, flag["$matched"], flag["$open"])
                held[row.number] = row
                if row.open:
                    side.add(row)
            rows.append(held)
        for key in state["found"].to_pylist():
            place = (key["rowtime"], key["left"], key["right"])
            self._hold(place, rows[LEFT].get(key["left"]), rows[RIGHT].get(key["right"]))

    @staticmethod
    def merge(states: Sequence[State]) -> State:
        """See the contract: rows of all parts are numbered anew, in order of time."""
        merged: dict[str, pa.Table] = {"account": pa.concat_tables([state["account"] for state in states])}
        numbers: dict[str, list[dict[int, int]]] = {}
        totals = {}
        for name in ("left", "right"):
            parts = [
                state[name].append_column("$part", pa.array([part] * len(state[name]), type=pa.int64()))
                for part, state in enumerate(states)
            ]
            order = [(column, "ascending") for column in (ROWTIME, RANK, COUNTER, "$part", "$number")]
            table = pa.concat_tables(parts).sort_by(order)
            again: list[dict[int, int]] = [{MISSING: MISSING} for _ in states]
            places = zip(table.column("$part").to_pylist(), table.column("$number").to_pylist(), strict=True)
            for number, (part, old) in enumerate(places):
                again[part][old] = number
            numbers[name] = again
            totals[name] = len(table)
            anew = pa.array(range(len(table)), type=pa.int64())
            at = table.schema.get_field_index("$number")
            merged[name] = table.set_column(at, "$number", anew).drop_columns(["$part"])
        clocks = [state["clock"].to_pylist()[0] for state in states]
        merged["clock"] = pa.table(
            {
                "left": [max(clock["left"] for clock in clocks)],
                "right": [max(clock["right"] for clock in clocks)],
                "left_number": [totals["left"]],
                "right_number": [totals["right"]],
                "given": [sum(clock["given"] for clock in clocks)],
            }
        )
        found = sorted(
            (key["rowtime"], numbers["left"][part][key["left"]], numbers["right"][part][key["right"]])
            for part, state in enumerate(states)
            for key in state["found"].to_pylist()
        )
        merged["found"] = pa.table(
            {
                name: pa.array([key[index] for key in found], type=pa.int64())
                for index, name in enumerate(("rowtime", "left", "right"))
            }
        )
        return merged

    def _meet(self, port: int, held: _Held, faults: list[Fault]) -> None:
        """Find the rows of the other side that a new row meets."""
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
            timed = left.timed
            row = timed.row + right.timed.row
            faults.append(
                Fault(
                    self._node.relation,
                    error.reason,
                    error.message,
                    timed.rowtime,
                    timed.origin,
                    timed.counter,
                    row,
                )
            )
            return False

    def _time(self, left: _Held, right: _Held) -> int:
        return self._time_of(left.timed.rowtime, right.timed.rowtime)

    def _time_of(self, left: int, right: int) -> int:
        match self._node.time:
            case JoinTime.LEFT:
                return left
            case JoinTime.RIGHT:
                return right
            case JoinTime.LATER:
                return max(left, right)

    def _hold(self, place: Frontier, left: _Held | None, right: _Held | None) -> None:
        """Keep an output row until it can leave; its rows are held as long."""
        heapq.heappush(self._found, (place, left, right))
        for held in (left, right):
            if held is not None:
                if not held.open and not held.waiting:
                    self._pairs_held += 1
                held.waiting += 1

    def _last_meeting(self, port: int, rowtime: int) -> int:
        """Give the last rowtime of the other side that a row of this one can meet."""
        return rowtime + (self._node.high_ms if port == LEFT else -self._node.low_ms)

    def _close(self, port: int) -> None:
        """Let go of the rows that nothing of the other side can meet any more."""
        side, other = self._sides[port], self._sides[1 - port]
        keeps = self._node.kind.keeps_left if port == LEFT else self._node.kind.keeps_right
        while side.rows and self._last_meeting(port, side.rows[0].timed.rowtime) < other.bound.rowtime:
            held = side.drop_first()
            if held.waiting:
                self._pairs_held += 1
            if keeps and not held.matched:
                self._hold(self._alone(port, held), *((held, None) if port == LEFT else (None, held)))
            elif not held.waiting:
                self.account.done += 1

    def _alone(self, port: int, held: _Held) -> Frontier:
        """Give the place of a row that nothing has met."""
        if port == LEFT:
            return (held.timed.rowtime + self._node.left_delay_ms, held.number, MISSING)
        return (held.timed.rowtime + self._node.right_delay_ms, MISSING, held.number)

    def _frontier(self) -> Frontier:
        """Give the least place that an output row may have that is not found yet."""
        places = [self._of_both_to_come(), *self._of_open(LEFT), *self._of_open(RIGHT)]
        if self._node.kind.keeps_left:
            left = self._sides[LEFT].bound.rowtime
            places.append((_moved(left, self._node.left_delay_ms), AFTER_ALL, MISSING))
        if self._node.kind.keeps_right:
            right = self._sides[RIGHT].bound.rowtime
            places.append((_moved(right, self._node.right_delay_ms), MISSING, AFTER_ALL))
        return min(places)

    def _of_both_to_come(self) -> Frontier:
        """Give the least place of a pair of rows that are both still to come."""
        left, right = (side.bound.rowtime for side in self._sides)
        if LATEST in (left, right):
            return (LATEST, AFTER_ALL, AFTER_ALL)
        first_left = max(left, right - self._node.high_ms)
        first_right = max(right, left + self._node.low_ms)
        return (self._time_of(first_left, first_right), AFTER_ALL, AFTER_ALL)

    def _of_open(self, port: int) -> Iterable[Frontier]:
        """Give the least places of outputs of rows that have come and are still open."""
        side, other = self._sides[port], self._sides[1 - port]
        if not side.rows:
            return
        first = side.rows[0]
        rowtime = first.timed.rowtime
        coming = max(other.bound.rowtime, self._first_meeting(port, rowtime))
        if port == LEFT:
            yield (self._time_of(rowtime, coming), first.number, AFTER_ALL)
        else:
            yield (self._time_of(coming, rowtime), AFTER_ALL, first.number)
        keeps = self._node.kind.keeps_left if port == LEFT else self._node.kind.keeps_right
        if keeps:
            lonely = next((held for held in side.rows if not held.matched), None)
            if lonely is not None:
                yield self._alone(port, lonely)

    def _first_meeting(self, port: int, rowtime: int) -> int:
        """Give the first rowtime of the other side that a row of this one can meet."""
        return rowtime + (self._node.low_ms if port == LEFT else -self._node.high_ms)

    def _release(self, frontier: Frontier) -> list[TimedRow]:
        """Take out the found rows before the frontier, in order."""
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
        """Give the rows of one side that are open or have a found row waiting, by number."""
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
        for name, values in zip(_FLAGS, flags, strict=True):
            table = table.append_column(name, values)
        return table


def _moved(rowtime: int, delay_ms: int) -> int:
    """Give the rowtime that is ``delay_ms`` later; both ends of time stay where they are."""
    return rowtime if rowtime in (EARLIEST, LATEST) else rowtime + delay_ms


_FLAGS = ("$number", "$matched", "$open")
