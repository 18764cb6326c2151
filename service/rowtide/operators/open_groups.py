"""Groups that end at times of their own: what GROUP BY HOP and GROUP BY SESSION have in common.

Groups are numbered in the order of their first rows. They close by their ends, not by their numbers, so a
closing first moves what closes to the front; groups of one end keep their order (sql-decisions 2).

Rows are looked up one by one, in plain Python; the aggregates are those of ``operators.aggregates``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute
from numpy.typing import NDArray

from rowtide.errors import Reason
from rowtide.expr.tree import AggregateCall
from rowtide.operators.aggregates import make_accumulator
from rowtide.operators.contract import Account, Fault, Output, Place, State, Want
from rowtide.operators.group_by_period import aggregate_input
from rowtide.operators.keys import KeyCoder
from rowtide.operators.ranks import RANK, Ranks
from rowtide.plan.nodes import GroupByHop, GroupBySession
from rowtide.rows.column import Column, Mask
from rowtide.rows.tray import COUNTER, ORIGIN, ROWTIME, Tray
from rowtide.rows.types import TIMESTAMP
from rowtide.rowtime.bound import EARLIEST, LATEST, Bound
from rowtide.rowtime.reach import least_reaching

START, END, ROWS = "$start", "$end", "$rows"
FORGET_INTERNED_OVER = 1 << 16
"""Interned key values are forgotten at a closing once there are more of them than this."""

KeyCodes = tuple[int, ...]


class OpenGroup(NamedTuple):
    """One group: its window, its key as codes, its first row, and how many rows are done with it."""

    start: int
    end: int
    key: KeyCodes
    first: tuple[int, int, int]
    rows: int


class Assigned:
    """Which rows went into which groups, and how to take it back.

    ``changed`` are groups as they were before. ``without`` counts the rows that are in no group.
    """

    def __init__(self) -> None:
        self.rows: list[int] = []
        self.groups: list[int] = []
        self.changed: list[tuple[int, OpenGroup]] = []
        self.without = 0


class GroupsWithEnds:
    """The operator's common part: a subclass says which groups a row belongs to, and what it promises."""

    _groups: list[OpenGroup]

    def __init__(self, node: GroupByHop | GroupBySession, place: Place) -> None:
        self.account = Account()
        self._node = node
        self._origin = place.origin
        self._key_types = [node.input.row_type[index].type for index in node.keys]
        self._calls: Sequence[AggregateCall] = node.aggregates
        self._ranks = Ranks(origin for origins in place.port_origins for origin in origins)
        self._bound = EARLIEST
        self._given = 0
        self._reset()

    def step(self, port: int, tray: Tray | None, bound: Bound) -> Output:
        """See the contract; port 0, rows in rowtime order."""
        faults: list[Fault] = []
        if tray is not None and len(tray):
            self._take(tray, faults)
        self._bound = max(self._bound, bound.rowtime)
        return Output(self._close(), self._bound_out(), faults)

    def held(self) -> int:
        """Count the rows that a group which is open will still come of."""
        return sum(group.rows for group in self._groups)

    def wants(self, bound: int | None = None) -> Sequence[Want]:
        """See ``Explaining``."""
        if bound is not None:
            return [Want(0, least_reaching(self._promised, bound))]
        return [Want(0, min(group.end for group in self._groups))] if self._groups else []

    def snapshot(self) -> State:
        """See the contract; ``groups`` has a row a group, in order of the first rows."""
        groups = self._groups
        keys = self._coder.decode(self._codes(len(groups)))
        origins = np.array([group.first[1] for group in groups], dtype=np.int64)
        state = {
            "account": self.account.to_arrow(),
            "clock": pa.table({"bound": [self._bound], "given": [self._given]}),
            "groups": pa.table(
                {
                    START: pa.array([group.start for group in groups], pa.int64()),
                    END: pa.array([group.end for group in groups], pa.int64()),
                    ROWS: pa.array([group.rows for group in groups], pa.int64()),
                    **{
                        name: pa.array([group.first[place] for group in groups], pa.int64())
                        for place, name in enumerate((ROWTIME, ORIGIN, COUNTER))
                    },
                    RANK: self._ranks.of(origins),
                    **{f"key {index}": column.to_arrow() for index, column in enumerate(keys)},
                }
            ),
        }
        for index, accumulator in enumerate(self._accumulators):
            state[f"aggregate {index}"] = accumulator.state(len(groups))
        return state

    def restore(self, state: State) -> None:
        """See the contract."""
        self.account = Account.from_arrow(state["account"])
        clock = state["clock"].to_pylist()[0]
        self._bound, self._given = clock["bound"], clock["given"]
        self._reset()
        table = state["groups"]
        codes = self._encoded(
            [Column.from_arrow(kind, table.column(f"key {at}")) for at, kind in enumerate(self._key_types)],
            len(table),
        )
        parts = table.select([START, END, ROWTIME, ORIGIN, COUNTER, ROWS]).to_pylist()
        self._groups = [
            OpenGroup(part[START], part[END], key, (part[ROWTIME], part[ORIGIN], part[COUNTER]), part[ROWS])
            for part, key in zip(parts, codes, strict=True)
        ]
        for index, accumulator in enumerate(self._accumulators):
            accumulator.load(state[f"aggregate {index}"])
        self._index()

    @staticmethod
    def merge(states: Sequence[State]) -> State:
        """See the contract: groups of all parts, in the order of their first rows."""
        groups = pa.concat_tables([state["groups"] for state in states])
        order = pa.compute.sort_indices(
            groups, sort_keys=[(name, "ascending") for name in (ROWTIME, RANK, COUNTER, START)]
        )
        clocks = [state["clock"].to_pylist()[0] for state in states]
        merged: dict[str, pa.Table] = {
            "account": pa.concat_tables([state["account"] for state in states]),
            "clock": pa.table(
                {
                    "bound": [max(clock["bound"] for clock in clocks)],
                    "given": [sum(clock["given"] for clock in clocks)],
                }
            ),
            "groups": groups.take(order),
        }
        for name in states[0]:
            if name.startswith("aggregate "):
                merged[name] = pa.concat_tables([state[name] for state in states]).take(order)
        return merged

    # ------------------------------------------------- what a subclass says

    def _assign(self, tray: Tray, rows: Sequence[int], keys: Sequence[KeyCodes]) -> Assigned:
        """Put rows into groups, beginning groups where there are none."""
        raise NotImplementedError

    def _index(self) -> None:
        """Make anew what finds a row's groups, from ``_groups``."""
        raise NotImplementedError

    def _promised(self, bound: int) -> int:
        """Give the least rowtime of a row that can still come out, for a bound that is one."""
        raise NotImplementedError

    # --------------------------------------------------------------- inside

    def _reset(self) -> None:
        self._coder = KeyCoder(self._key_types)
        self._accumulators = [make_accumulator(call) for call in self._calls]
        self._groups = []
        self._index()

    def _codes(self, count: int) -> NDArray[np.int64]:
        keys = [group.key for group in self._groups[:count]]
        return np.array(keys, dtype=np.int64).reshape(count, self._coder.width)

    def _encoded(self, columns: Sequence[Column], rows: int) -> list[KeyCodes]:
        codes = np.empty((rows, self._coder.width), dtype=np.int64)
        self._coder.encode(columns, codes)
        return [tuple(each) for each in codes.tolist()]

    def _take(self, tray: Tray, faults: list[Fault]) -> None:
        """Add the rows of a tray to their groups; a row that overflows an aggregate becomes a fault."""
        self.account.rows_in += len(tray)
        keys = self._encoded([tray.columns[index] for index in self._node.keys], len(tray))
        inputs = [aggregate_input(call, tray) for call in self._calls]
        refused = np.zeros(len(tray), dtype=np.bool_)
        for accumulator, (column, use) in zip(self._accumulators, inputs, strict=True):
            never = accumulator.refused(column, use)
            if never is not None:
                refused |= never
        rows = np.flatnonzero(~refused).tolist()
        failed = sorted([*np.flatnonzero(refused).tolist(), *self._add(tray, keys, inputs, rows)])
        faults += [self._overflow(tray, row) for row in failed]
        self.account.rejected += len(failed)

    def _add(
        self,
        tray: Tray,
        keys: Sequence[KeyCodes],
        inputs: Sequence[tuple[Column | None, Mask]],
        wanted: Sequence[int],
    ) -> list[int]:
        """Add some rows, in order; give those that an aggregate cannot take.

        Such a row was never there: it begins no group and keeps no session open. What does not fit is
        halved, so a tray with few such rows costs little more than one without.
        """
        before = len(self._groups)
        assigned = self._assign(tray, wanted, keys)
        rows = np.array(assigned.rows, dtype=np.int64)
        groups = np.array(assigned.groups, dtype=np.int64)
        part = [(None if column is None else column.take(rows), use[rows]) for column, use in inputs]
        for accumulator in self._accumulators:
            accumulator.reserve(len(self._groups))
        if all(
            accumulator.fits(groups, column, use)
            for accumulator, (column, use) in zip(self._accumulators, part, strict=True)
        ):
            for accumulator, (column, use) in zip(self._accumulators, part, strict=True):
                accumulator.add(groups, column, use)
            self.account.done += assigned.without
            return []
        for group, old in reversed(assigned.changed):
            self._groups[group] = old
        del self._groups[before:]
        self._index()
        if len(wanted) == 1:
            return list(wanted)
        middle = len(wanted) // 2
        return [
            *self._add(tray, keys, inputs, wanted[:middle]),
            *self._add(tray, keys, inputs, wanted[middle:]),
        ]

    def _overflow(self, tray: Tray, row: int) -> Fault:
        (timed,) = tray.slice(row, row + 1).rows()
        return Fault(
            self._node.relation,
            Reason.OVERFLOW,
            "an aggregate leaves the range of its type",
            timed.rowtime,
            timed.origin,
            timed.counter,
            timed.row,
            names=tray.row_type.names,
        )

    def _close(self) -> Tray | None:
        """Give the rows of the groups that the bound has closed, by end and first row, and forget them."""
        groups = self._groups
        closing = [at for at, group in enumerate(groups) if group.end <= self._bound]
        if not closing:
            return None
        closing.sort(key=lambda at: groups[at].end)
        count = len(closing)
        gone = set(closing)
        self._reorder([*closing, *(at for at in range(len(groups)) if at not in gone)])
        closed = self._groups[:count]
        columns = [
            Column(TIMESTAMP, np.array([group.start for group in closed], dtype=np.int64)),
            *self._coder.decode(self._codes(count)),
            *(accumulator.results(count) for accumulator in self._accumulators),
        ]
        out = Tray.from_columns(
            self._node.row_type,
            columns,
            np.array([group.end for group in closed], dtype=np.int64),
            self._origin,
            np.arange(self._given, self._given + count, dtype=np.int64),
        )
        self._given += count
        self.account.rows_out += count
        self.account.done += sum(group.rows for group in closed)
        self._forget(count)
        return out

    def _reorder(self, order: Sequence[int]) -> None:
        """Give the groups other numbers: ``order`` lists the old ones."""
        if all(at == place for place, at in enumerate(order)):
            return
        count = len(self._groups)
        self._groups = [self._groups[at] for at in order]
        taken = pa.array(order, pa.int64())
        states = [accumulator.state(count).take(taken) for accumulator in self._accumulators]
        self._accumulators = [make_accumulator(call) for call in self._calls]
        for accumulator, state in zip(self._accumulators, states, strict=True):
            accumulator.load(state)

    def _forget(self, count: int) -> None:
        """Drop the first ``count`` groups; keys that only they had are let go in time."""
        del self._groups[:count]
        rest = len(self._groups)
        for accumulator in self._accumulators:
            accumulator.drop(count, rest)
        if self._coder.interned > max(FORGET_INTERNED_OVER, 4 * rest):
            columns = self._coder.decode(self._codes(rest))
            self._coder = KeyCoder(self._key_types)
            codes = self._encoded(columns, rest)
            self._groups = [group._replace(key=key) for group, key in zip(self._groups, codes, strict=True)]
        self._index()

    def _bound_out(self) -> Bound:
        if self._bound in (EARLIEST, LATEST):
            return Bound(self._bound)
        return Bound(min(LATEST, self._promised(self._bound)))
