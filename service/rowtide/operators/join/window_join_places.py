"""The shared parts of both forms of the windowed join: places of output rows, the frontier, and snapshots.

Output has a total order: (rowtime, left row, right row), where a missing row comes first. A found
pair waits until no output that may still come, or is not yet decided, can be before it: the frontier. It
follows from the two bounds and from the oldest row of each side with an open window.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from rowtide.operators.contract import State, Want
from rowtide.operators.merge.ranks import RANK
from rowtide.operators.splitting import BEFORE, key_of, merged_given, parts_of_rows, split_clock, split_state
from rowtide.plan.nodes import JoinTime, Node, WindowJoin
from rowtide.rows.arrays import Int64s
from rowtide.rows.tray import COUNTER, ROWTIME
from rowtide.rowtime.bound import EARLIEST, LATEST

LEFT, RIGHT = 0, 1
MISSING = -1
"""The number of a missing row: before every real one."""
AFTER_ALL = 2**62
"""The number of rows that have not come yet: after every real one."""
FLAGS = ("$number", "$matched", "$open")
"""Columns of a snapshot besides the fields of each row."""

Frontier = tuple[int, int, int]
"""Rowtime, number of the left row, number of the right row."""
Look = Callable[[int, int], "tuple[SideView, SideView]"]
"""Returns both sides as they would be after these bounds of the left and the right side, without rows.
A bound below the current one has no effect."""
LastBefore = Callable[[int, int], "int | None"]
"""Returns the rowtime of a side's last open row before a rowtime."""


class SideView(NamedTuple):
    """The input of the frontier: a side's bound, and its first open and first open unmatched row.

    A row is its rowtime and its number.
    """

    bound: int
    first: tuple[int, int] | None
    lonely: tuple[int, int] | None


class JoinPlaces:
    """The places of output rows of a windowed join.

    ``is_part``: there may be rows of other keys, so the frontier is that of the earliest rows that may be
    open.
    """

    def __init__(self, node: WindowJoin, *, is_part: bool) -> None:
        self._node = node
        self._is_part = is_part

    def time_of(self, left: int, right: int) -> int:
        """Return the rowtime of a pair of rows with these rowtimes."""
        match self._node.time:
            case JoinTime.LEFT:
                return left
            case JoinTime.RIGHT:
                return right
            case JoinTime.LATER:
                return max(left, right)

    def keeps(self, port: int) -> bool:
        """Return whether a row of this side without a match comes out alone."""
        return self._node.kind.keeps_left if port == LEFT else self._node.kind.keeps_right

    def last_meeting(self, port: int, rowtime: int) -> int:
        """Return the last rowtime of the other side that a row of this side can match."""
        return rowtime + (self._node.high_ms if port == LEFT else -self._node.low_ms)

    def first_open(self, port: int, other: int) -> int:
        """Return the first rowtime of a row that is open when the other side has promised ``other``."""
        return other + (-self._node.high_ms if port == LEFT else self._node.low_ms)

    def alone(self, port: int, rowtime: int, number: int) -> Frontier:
        """Return the place of a row without a match."""
        if port == LEFT:
            return (rowtime + self._node.left_delay_ms, number, MISSING)
        return (rowtime + self._node.right_delay_ms, MISSING, number)

    def frontier(self, left: SideView, right: SideView) -> Frontier:
        """Return the least possible place of an output row that is not found yet."""
        if self._is_part:
            left, right = self._of_any(LEFT, left, right.bound), self._of_any(RIGHT, right, left.bound)
        places = [
            self._of_both_to_come(left.bound, right.bound),
            *self._of_open(LEFT, left, right.bound),
            *self._of_open(RIGHT, right, left.bound),
        ]
        if self._node.kind.keeps_left:
            places.append((_moved(left.bound, self._node.left_delay_ms), AFTER_ALL, MISSING))
        if self._node.kind.keeps_right:
            places.append((_moved(right.bound, self._node.right_delay_ms), MISSING, AFTER_ALL))
        return min(places)

    def wants(
        self, look: Look, waiting: Frontier | None, last_before: LastBefore, bound: int | None
    ) -> Sequence[Want]:
        """No side could have a lower bound. ``waiting`` is the first waiting place.

        If a lower bound of one side can be offset by a higher bound of the other, their sum is minimal.
        """
        now = look(EARLIEST, EARLIEST)
        enough: Callable[[int, int], bool]
        if bound is not None:
            goal = bound
            enough = lambda left, right: self.frontier(*look(left, right))[0] >= goal  # noqa: E731
            if enough(EARLIEST, EARLIEST):
                return [Want(port, view.bound) for port, view in enumerate(now)]
        else:
            firsts = [
                (self.last_meeting(port, view.first[0]) + 1, port)
                for port, view in enumerate(now)
                if view.first is not None
            ]
            if waiting is not None:
                # The frontier is after every output row of this rowtime once it is past it.
                goal = waiting[0] + 1
            elif firsts:
                closed, port = min(firsts)
                first = now[port].first
                if first is None or first != now[port].lonely:
                    return [Want(1 - port, closed)]
                goal = self.alone(port, *first)[0] + 1
            else:
                return []
            enough = lambda left, right: self._lets_go(now, look(left, right), waiting)  # noqa: E731
        most = [goal, goal]
        for port in (LEFT, RIGHT):
            last = last_before(port, goal)
            if last is not None:
                most[1 - port] = max(most[1 - port], self.last_meeting(port, last) + 1)
        found = [_least(enough, now, most, order) for order in ((LEFT, RIGHT), (RIGHT, LEFT))]
        wanted = min(found, key=lambda each: sum(max(0, each[port] - now[port].bound) for port in each))
        return [Want(port, wanted[port]) for port in sorted(wanted)]

    def _lets_go(
        self, now: tuple[SideView, SideView], then: tuple[SideView, SideView], waiting: Frontier | None
    ) -> bool:
        """Return whether an output row leaves: a waiting one, or one that no row can match any more."""
        places = [] if waiting is None else [waiting]
        for port in (LEFT, RIGHT):
            before = now[port].lonely
            if before is not None and before != then[port].lonely:
                places.append(self.alone(port, *before))
        return bool(places) and min(places) < self.frontier(*then)

    def _of_any(self, port: int, side: SideView, other: int) -> SideView:
        """Return a side with an unmatched row at the first open rowtime."""
        if other == LATEST:
            return SideView(side.bound, None, None)
        first = (self.first_open(port, other), MISSING)
        return SideView(side.bound, first, first)

    def _of_both_to_come(self, left: int, right: int) -> Frontier:
        """Return the least place of a pair of rows that are both still to come."""
        if LATEST in (left, right):
            return (LATEST, AFTER_ALL, AFTER_ALL)
        first_left = max(left, right - self._node.high_ms)
        first_right = max(right, left + self._node.low_ms)
        return (self.time_of(first_left, first_right), AFTER_ALL, AFTER_ALL)

    def _of_open(self, port: int, side: SideView, other: int) -> Iterable[Frontier]:
        """Yield the least places of outputs of rows that have come and are still open."""
        if side.first is None:
            return
        rowtime, number = side.first
        coming = max(other, self._first_meeting(port, rowtime))
        if port == LEFT:
            yield (self.time_of(rowtime, coming), number, AFTER_ALL)
        else:
            yield (self.time_of(coming, rowtime), AFTER_ALL, number)
        if self.keeps(port) and side.lonely is not None:
            yield self.alone(port, *side.lonely)

    def _first_meeting(self, port: int, rowtime: int) -> int:
        """Return the first rowtime of the other side that a row of this side can match."""
        return rowtime + (self._node.low_ms if port == LEFT else -self._node.high_ms)


def _least(
    enough: Callable[[int, int], bool],
    now: tuple[SideView, SideView],
    most: Sequence[int],
    order: Sequence[int],
) -> dict[int, int]:
    """Return least bounds by side with which it is ``enough``, as ``most`` is; none where more is not needed.

    The sides are checked in ``order``, each with the earlier results.
    """
    bounds = list(most)
    for port in order:

        def does(bound: int, port: int = port) -> bool:
            return enough(*(bound if side == port else held for side, held in enumerate(bounds)))

        low, high = now[port].bound, bounds[port]
        if low >= high or does(low):
            bounds[port] = low
            continue
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if does(middle) else (middle, high)
        bounds[port] = high
    return {port: bound for port, bound in enumerate(bounds) if bound > now[port].bound}


def merge(states: Sequence[State]) -> State:
    """Merge the snapshots of parts. Rows of all parts are numbered again, in order of time."""
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
        renumbered = pa.array(range(len(table)), type=pa.int64())
        at = table.schema.get_field_index("$number")
        merged[name] = table.set_column(at, "$number", renumbered).drop_columns(["$part"])
    clocks = [state["clock"].to_pylist()[0] for state in states]
    merged["clock"] = clock_table(
        max(clock["left"] for clock in clocks),
        max(clock["right"] for clock in clocks),
        totals["left"],
        totals["right"],
        merged_given(clocks),
    )
    merged["found"] = found_table(
        sorted(
            (key["rowtime"], numbers["left"][part][key["left"]], numbers["right"][part][key["right"]])
            for part, state in enumerate(states)
            for key in state["found"].to_pylist()
        )
    )
    return merged


def split(node: Node, state: State, parts: int) -> list[State]:
    """Split the rows of both sides, and the pairs that wait. Rows keep their numbers."""
    by_part: dict[str, Int64s] = {}
    homes: list[dict[int, int]] = []
    for name, side, key in zip(("left", "right"), node.inputs, key_of(node), strict=True):
        by_part[name] = parts_of_rows(side.row_type, state[name], key, parts)
        homes.append(
            dict(zip(state[name].column("$number").to_pylist(), by_part[name].tolist(), strict=True))
        )
    found = state["found"].to_pylist()
    # A row without a match waits alone.
    own = [homes[LEFT].get(each["left"], homes[RIGHT].get(each["right"], 0)) for each in found]
    by_part["found"] = np.array(own, dtype=np.int64)
    return [*split_state({**state, "clock": split_clock(state["clock"])}, by_part, parts)]


def clock_table(
    left: int, right: int, left_number: int, right_number: int, given: int, before: int = 0
) -> pa.Table:
    """Return both sides' bounds and next numbers, and the number of output rows, for a snapshot."""
    values = {
        "left": left,
        "right": right,
        "left_number": left_number,
        "right_number": right_number,
        "given": given,
        BEFORE: before,
    }
    return pa.table({name: [value] for name, value in values.items()})


def found_table(places: Sequence[Frontier]) -> pa.Table:
    """Return the waiting places, in order, for a snapshot."""
    return pa.table(
        {
            name: pa.array([place[index] for place in places], type=pa.int64())
            for index, name in enumerate(("rowtime", "left", "right"))
        }
    )


def _moved(rowtime: int, delay_ms: int) -> int:
    """Return the rowtime that is ``delay_ms`` later. Both ends of time stay the same."""
    return rowtime if rowtime in (EARLIEST, LATEST) else rowtime + delay_ms
