"""Two streams joined within a window of rowtime, compiled.

See docs/sql/semantics.md#merge-order, #joins-of-two-streams.

The rows of each side are in columns, chained by key, oldest first. A new row matches a section of the
other side's chain. Rows before that section can match no later row and leave the chain. A pair leaves or
waits in a heap (``operators.join.window_join_places`` decides).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from rowtide.operators.contract import Account, Fault, OperatorSite, State, StepOutput, Want
from rowtide.operators.join.pair_condition import PairCondition
from rowtide.operators.join.window_join_chains import Chains
from rowtide.operators.join.window_join_keys import JoinKeys
from rowtide.operators.join.window_join_places import (
    AFTER_ALL,
    FLAGS,
    LEFT,
    MISSING,
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
from rowtide.operators.storage.growing import Growing
from rowtide.operators.storage.row_store import RowStore
from rowtide.plan.nodes import JoinTime, Node, WindowJoin
from rowtide.rows.tray import Tray
from rowtide.rowtime.bound import EARLIEST, LATEST, Bound

PAIRS = 1 << 16
"""Pairs found at a time, because a row without a key may match all rows of the other side."""
FORGET_KEYS_OVER = 1 << 16
"""Keys and chains are rebuilt if they have memory for more rows than this, and for more than four times the
rows that are or were just open."""
MOVES_PER_PAIR = 8
"""If found rows need more moves than this, they are sorted instead of moved one by one."""

_WHOSE_TIME = {JoinTime.LEFT: LEFT, JoinTime.RIGHT: RIGHT, JoinTime.LATER: 2}
"""The form in kernels."""

Places = NDArray[np.int64]
"""Rowtime, number of the left row and of the right row: (n, 3)."""


class _Side:
    """One side's rows: those that are open, from ``opened`` on, and those that still wait to leave.

    Rows before ``chained`` are in no chain.
    """

    def __init__(self, node: Node, key: tuple[int, ...], ranks: Ranks, chains: Chains) -> None:
        self.key = key
        self.ranks = ranks
        self.bound = EARLIEST
        self.opened = 0
        self.chained = 0
        self.lonely = 0
        self.settled = 0
        self.store = RowStore(node.row_type)
        self.chains = chains
        self.matched = Growing(np.bool_, False)
        self.waiting = Growing(np.int64)

    @property
    def open_rows(self) -> int:
        return self.store.end - self.opened

    def rows_after(self, bound: int) -> int:
        """Count the rows with a rowtime after ``bound`` (ms)."""
        rowtime = self.store.rowtime.view()
        return len(rowtime) - int(np.searchsorted(rowtime, bound, side="right"))

    def add(self, tray: Tray) -> None:
        """Store rows, which are in no chain yet."""
        self.store.append(tray)
        for part in (self.matched, self.waiting):
            part.extend(len(tray))

    def forget(self, *, waits: bool) -> None:
        """Drop the rows at the front that nothing needs any more; ``waits``: a waiting place needs them."""
        from rowtide.operators.join.kernels.window_places import settled

        if waits:
            self.settled = settled(self.settled, self.opened, self.store.base, self.waiting.array)
        else:
            self.settled = self.opened
        gone = self.store.forget(self.settled)
        if gone:
            for part in (self.matched, self.waiting):
                part.drop(gone)

    def row(self, number: int) -> tuple[int, int] | None:
        """Return rowtime and number of a row; None for one that has not arrived."""
        if number >= self.store.end:
            return None
        return int(self.store.rowtime.array[number - self.store.base]), number


class WindowJoinOperator:
    """The compiled join. The operator signs its output."""

    merge = staticmethod(merge)
    split = staticmethod(split)

    def __init__(self, node: WindowJoin, site: OperatorSite) -> None:
        self.account = Account()
        self._node = node
        self._places = JoinPlaces(node, is_part=site.is_part)
        self._origin = site.origin
        left_ranks, right_ranks = (Ranks(origins) for origins in site.port_origins)
        self._keys = JoinKeys([node.left.row_type[index].type for index in node.left_key])
        self._sides = (
            _Side(node.left, node.left_key, left_ranks, Chains(self._keys.are_codes)),
            _Side(node.right, node.right_key, right_ranks, Chains(self._keys.are_codes)),
        )
        self._condition = None if node.condition is None else PairCondition(node)
        self._low = _within(node.low_ms)
        self._high = _within(node.high_ms)
        self._heap = np.empty((64, 3), dtype=np.int64)
        self._pairs = np.empty((PAIRS, 3), dtype=np.int64)
        self._waiting = 0
        self._closed_waiting = 0
        self._given = self._before = 0
        self._keeps_any = self._places.keeps(LEFT) or self._places.keeps(RIGHT)

    def step(self, port: int, tray: Tray | None, bound: Bound) -> StepOutput:
        """Port 0 is the left side, port 1 the right one."""
        faults: list[Fault] = []
        side = self._sides[port]
        found: list[Places] = []
        if tray is not None and len(tray):
            self.account.rows_in += len(tray)
            # A row is also a bound: it cannot match rows that it closes.
            side.bound = max(side.bound, int(tray.rowtime[-1]))
            found += self._meet(port, tray, faults)
        side.bound = max(side.bound, bound.rowtime)
        found += [self._close(LEFT), self._close(RIGHT)]
        frontier = self._places.frontier(self._view(LEFT), self._view(RIGHT))
        given = self._release(found, frontier)
        for each in self._sides:
            each.forget(waits=bool(self._waiting))
        self._forget_keys(0 if tray is None else len(tray))
        self.account.done = self.account.rows_in - self.held()
        return StepOutput(given, Bound(max(EARLIEST, min(frontier[0], LATEST))), faults)

    def held(self) -> int:
        """Count the rows with an open window, and those with a waiting pair."""
        return self._sides[LEFT].open_rows + self._sides[RIGHT].open_rows + self._closed_waiting

    def ahead(self) -> int:
        """Rows that the other side has not reached. Others are held for their window."""
        left, right = self._sides
        return left.rows_after(right.bound) + right.rows_after(left.bound)

    def wants(self, bound: int | None = None) -> Sequence[Want]:
        waiting: Frontier | None = None
        if self._waiting:
            rowtime, left, right = self._heap[0].tolist()
            waiting = (rowtime, left, right)
        return self._places.wants(self._look, waiting, self._last_before, bound)

    def snapshot(self) -> State:
        left, right = self._sides
        waiting = sorted(tuple(place) for place in self._heap[: self._waiting].tolist())
        return {
            "account": self.account.to_arrow(),
            "clock": clock_table(
                left.bound, right.bound, left.store.end, right.store.end, self._given, self._before
            ),
            "left": _remembered(left),
            "right": _remembered(right),
            "found": found_table(waiting),
        }

    def restore(self, state: State) -> None:
        """Held rows are numbered again, in their order."""
        self.account = Account.from_arrow(state["account"])
        clock = state["clock"].to_pylist()[0]
        self._given, self._before = clock["given"], clock.get(BEFORE, 0)
        again = []
        for side, name in zip(self._sides, ("left", "right"), strict=True):
            side.bound = clock[name]
            numbers, matched, opened = (np.asarray(state[name].column(flag)) for flag in FLAGS)
            tray = Tray.from_arrow(side.store.row_type, state[name])
            # Closed waiting rows came before every open one.
            side.opened = side.lonely = int(np.count_nonzero(~opened))
            side.add(tray)
            side.matched.view()[:] = matched
            again.append(numbers)
        self._number_keys()
        found = state["found"]
        places = np.empty((len(found), 3), dtype=np.int64)
        places[:, 0] = np.asarray(found.column("rowtime"))
        for port, name in enumerate(("left", "right")):
            numbers = np.asarray(found.column(name))
            places[:, 1 + port] = np.where(
                numbers == MISSING, MISSING, np.searchsorted(again[port], np.maximum(numbers, 0))
            )
        self._release([places], (EARLIEST, MISSING, MISSING))

    def _meet(self, port: int, tray: Tray, faults: list[Fault]) -> list[Places]:
        """Take rows and find their pairs with the other side's."""
        from rowtide.operators.join.kernels.window_joining import AHEAD, FRESH, probe

        side, other = self._sides[port], self._sides[1 - port]
        first = side.store.end
        codes, missing = self._keys.codes([tray.columns[index] for index in side.key], len(tray))
        over = 0
        if side.opened == first:
            over = int(np.searchsorted(tray.rowtime, self._last_closed(port), side="right"))
        if over:
            side.chained = first + over
        side.add(tray)
        chains = side.chains.with_room(
            max(side.opened, side.chained), first + over, len(tray) - over, self._keys.numbered
        )
        other_chains = other.chains.with_room(
            max(other.opened, other.chained), other.store.end, 0, self._keys.numbered
        )
        progress = np.array([0, FRESH], dtype=np.int64)
        guesses = np.empty(AHEAD, dtype=np.int64)
        times = side.store.rowtime.view()[-len(tray) :]
        found: list[Places] = []
        while progress[0] < len(tray):
            # Each step has emitted its pairs, so there is one place for the first of them.
            places = np.empty_like(self._pairs) if found else self._pairs
            count = probe(
                port,
                times,
                codes,
                missing,
                first,
                over,
                self._keys.are_codes,
                *chains,
                *other_chains,
                other.store.end,
                self._low,
                self._high,
                _WHOSE_TIME[self._node.time],
                progress,
                guesses,
                places,
            )
            if count:
                found.append(self._agreed(places[:count], faults))
        return found

    def _agreed(self, places: Places, faults: list[Fault]) -> Places:
        """Return the pairs for which the condition holds, and mark their rows as matched."""
        from rowtide.operators.join.kernels.window_places import mark

        left, right = self._sides
        if self._condition is not None:
            times, lefts, rights = (np.ascontiguousarray(places[:, index]) for index in range(3))
            agree, failed = self._condition.judge(left.store, right.store, lefts, rights, times)
            faults += failed
            places = places[agree]
        if self._keeps_any:
            mark(places, left.store.base, right.store.base, left.matched.array, right.matched.array)
        return places

    def _last_closed(self, port: int) -> int:
        """Return the last rowtime at which a row of this side can match no later row of the other side.

        Its last match, its rowtime + a length, is before the other side's bound. No row has the earliest
        rowtime of all.
        """
        return max(
            EARLIEST, min(self._sides[1 - port].bound - self._places.last_meeting(port, 0) - 1, LATEST)
        )

    def _close(self, port: int) -> Places:
        """Drop the rows that no row of the other side can match any more; return those without a match."""
        from rowtide.operators.join.kernels.window_joining import unchain

        side = self._sides[port]
        store = side.store
        before = side.opened
        open_times = store.rowtime.view()[before - store.base :]
        side.opened += int(np.searchsorted(open_times, self._last_closed(port), side="right"))
        nothing = np.empty((0, 3), dtype=np.int64)
        if side.opened == before:
            return nothing
        if side.chains.used:
            unchain(max(before, side.chained), side.opened, self._keys.are_codes, *side.chains.memory())
        closed = slice(before - store.base, side.opened - store.base)
        if self._waiting:
            self._closed_waiting += int(np.count_nonzero(side.waiting.array[closed]))
        if not self._places.keeps(port):
            return nothing
        lonely = np.flatnonzero(~side.matched.array[closed]) + before
        places = np.full((len(lonely), 3), MISSING, dtype=np.int64)
        places[:, 0] = store.rowtime.array[lonely - store.base] + self._places.alone(port, 0, 0)[0]
        places[:, 1 + port] = lonely
        return places

    def _view(self, port: int) -> SideView:
        """Return the values that the frontier depends on."""
        from rowtide.operators.join.kernels.window_places import first_unmatched

        side = self._sides[port]
        lonely = None
        if self._places.keeps(port):
            side.lonely = first_unmatched(
                max(side.lonely, side.opened), side.store.end, side.store.base, side.matched.array
            )
            lonely = side.row(side.lonely)
        return SideView(side.bound, side.row(side.opened), lonely)

    def _look(self, left: int, right: int) -> tuple[SideView, SideView]:
        """Return the input of the frontier after these bounds; see ``window_join_places.Look``."""
        from rowtide.operators.join.kernels.window_places import first_unmatched

        bounds = (max(left, self._sides[LEFT].bound), max(right, self._sides[RIGHT].bound))
        views = []
        for port, side in enumerate(self._sides):
            times = side.store.rowtime.view()
            opening = self._places.first_open(port, bounds[1 - port])
            at = int(np.searchsorted(times, max(EARLIEST, min(opening, LATEST))))
            opened, lonely = max(side.opened, side.store.base + at), None
            if self._places.keeps(port):
                matched = side.matched.array
                lonely = side.row(first_unmatched(opened, side.store.end, side.store.base, matched))
            views.append(SideView(bounds[port], side.row(opened), lonely))
        return views[LEFT], views[RIGHT]

    def _last_before(self, port: int, rowtime: int) -> int | None:
        """Return the rowtime of the last open row before a rowtime."""
        side = self._sides[port]
        times = side.store.rowtime.view()[side.opened - side.store.base :]
        before = int(np.searchsorted(times, max(EARLIEST, min(rowtime, LATEST))))
        return int(times[before - 1]) if before else None

    def _release(self, found: Sequence[Places], frontier: Frontier) -> Tray | None:
        """Return the found and waiting pairs before the frontier, in order; keep the rest."""
        from rowtide.operators.join.kernels.window_places import apart, are_before, in_order

        some = [each for each in found if len(each)]
        places = some[0] if len(some) == 1 else np.concatenate(found)
        if self._waiting or not are_before(places, _as_place(frontier)):
            places = self._sifted(places, frontier)
        count = len(places)
        if not count:
            return None
        if not in_order(places, count, MOVES_PER_PAIR * count):
            places = places[np.lexsort((places[:, 2], places[:, 1], places[:, 0]))]
        first = self._given
        self._given += count
        self.account.rows_out += count
        times, lefts, rights = np.empty((3, count), dtype=np.int64)
        apart(places, times, lefts, rights)
        left, right = self._sides
        return Tray.from_columns(
            self._node.row_type,
            [*left.store.joined(lefts), *right.store.joined(rights)],
            times,
            self._origin,
            np.arange(first, self._given, dtype=np.int64),
        )

    def _sifted(self, found: Places, frontier: Frontier) -> Places:
        """Remove the pairs before the frontier from the found and waiting ones. The rest waits."""
        from rowtide.operators.join.kernels.window_places import sift

        if len(self._heap) < self._waiting + len(found):
            larger = np.empty((2 * (self._waiting + len(found)), 3), dtype=np.int64)
            larger[: self._waiting] = self._heap[: self._waiting]
            self._heap = larger
        left, right = self._sides
        out = np.empty((len(found) + self._waiting, 3), dtype=np.int64)
        counts = np.array([self._closed_waiting, self._waiting], dtype=np.int64)
        count = sift(
            found,
            _as_place(frontier),
            self._heap,
            self._waiting,
            np.array([left.opened, right.opened], dtype=np.int64),
            np.array([left.store.base, right.store.base], dtype=np.int64),
            left.waiting.array,
            right.waiting.array,
            counts,
            out,
        )
        self._closed_waiting, self._waiting = counts.tolist()
        return out[:count]

    # ------------------------------------------------------------------ keys

    def _number_keys(self) -> None:
        """Drop the keys, and chain the open rows again."""
        from rowtide.operators.join.kernels.window_joining import enchain

        self._keys.forget()
        for side in self._sides:
            side.chains.forget()
            side.chained = side.opened
            numbers = np.arange(side.opened, side.store.end, dtype=np.int64)
            keys = [side.store.column(index, numbers) for index in side.key]
            codes, missing = self._keys.codes(keys, len(numbers))
            enchain(
                side.store.rowtime.view()[side.opened - side.store.base :],
                codes,
                missing,
                side.opened,
                self._keys.are_codes,
                *side.chains.with_room(side.opened, side.opened, len(numbers), self._keys.numbered),
            )

    def _forget_keys(self, came: int) -> None:
        """Rebuild the keys if most of them have no rows, so that memory follows the windows."""
        left, right = self._sides
        room = max(self._keys.numbered, left.chains.room, right.chains.room)
        if room > max(FORGET_KEYS_OVER, 4 * (left.open_rows + right.open_rows + came)):
            self._number_keys()


def _remembered(side: _Side) -> pa.Table:
    """Return the rows of one side that are open or have a waiting pair, by number."""
    base = side.store.base
    kept = side.waiting.view() > 0
    kept[side.opened - base :] = True
    numbers = np.flatnonzero(kept) + base
    tray = side.store.take(numbers)
    table = tray.to_arrow().append_column(RANK, pa.array(side.ranks.of(tray.origin)))
    flags = (numbers, side.matched.array[numbers - base], numbers >= side.opened)
    for name, values in zip(FLAGS, flags, strict=True):
        table = table.append_column(name, pa.array(values))
    return table


def _within(length_ms: int) -> int:
    """Limit a length to int64."""
    return max(EARLIEST, min(length_ms, LATEST))


def _as_place(frontier: Frontier) -> Places:
    """Return a frontier for kernels. Beyond an end of time, it is before or after every row."""
    rowtime, left, right = frontier
    if rowtime > LATEST:
        return np.array([[LATEST, AFTER_ALL, AFTER_ALL]], dtype=np.int64)
    if rowtime < EARLIEST:
        return np.array([[EARLIEST, MISSING, MISSING]], dtype=np.int64)
    return np.array([[rowtime, left, right]], dtype=np.int64)
