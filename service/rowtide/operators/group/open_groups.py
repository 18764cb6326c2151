"""Groups by a window of the rowtime and further keys: the base of GROUP BY a period, HOP and SESSION.

Groups are numbered in the order of their first rows. They close by their ends, so a closing first moves
the groups that close to the front, unless they are there, as for periods; groups of one end keep their
order (docs/sql/semantics.md#rowtime-of-a-group).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute
from numpy.typing import NDArray

from rowtide.errors import RejectedRowError
from rowtide.expr.aggregates import aggregate_of
from rowtide.expr.tree import AggregateCall, FieldRef
from rowtide.operators.aggregates.groups.accumulators import make_accumulator, why_not
from rowtide.operators.aggregates.groups.key_groups import FORGET_INTERNED_OVER, KeyGroups
from rowtide.operators.aggregates.row_functions import overflow
from rowtide.operators.contract import Account, Fault, OperatorSite, State, StepOutput, Want
from rowtide.operators.faults import rejected
from rowtide.operators.merge.ranks import RANK, Ranks
from rowtide.operators.splitting import BEFORE, merged_given, parts_of_groups, split_clock, split_state
from rowtide.operators.storage.growing import grown
from rowtide.plan.nodes import GroupNode, Node
from rowtide.rows.arrays import Int64s, Mask
from rowtide.rows.column import Column, compact
from rowtide.rows.tray import COUNTER, ORIGIN, ROWTIME, Tray
from rowtide.rows.types import TIMESTAMP
from rowtide.rowtime.bound import EARLIEST, LATEST, Bound
from rowtide.rowtime.reach import least_reaching

AggregateInputs = Sequence[tuple[Column | None, Mask]]

START, END, ROWS = "$start", "$end", "$rows"
KEEP_KEYS = FORGET_INTERNED_OVER
"""Keys of closed groups are dropped once there are more of them than this."""
AT_START, AT_END, AT_KEY, AT_ROWS, AT_FIRST = range(5)
"""Indexes of a group's window, key, rows and first row, as in ``kernels.open_groups``."""
WIDTH = 7
NO_GROUP = 1 << 62
"""Larger than the number of any group."""


@dataclass(frozen=True, slots=True)
class Assigned:
    """The groups of rows, and how to undo the assignment.

    ``rows`` None: one group for each row. ``counts`` is True for rows that are counted in their group,
    None: all; ``ends`` are the earlier ends of the groups, None: they do not change. ``without`` counts
    the rows that are in no group.
    """

    groups: Int64s
    rows: Int64s | None = None
    counts: Int64s | None = None
    ends: Int64s | None = None
    without: int = 0


class OpenGroupsOperator:
    """Streaming aggregation with final emission. A subclass assigns rows to groups."""

    def __init__(self, node: GroupNode, site: OperatorSite) -> None:
        self.account = Account()
        self._node = node
        self._origin = site.origin
        self._key_types = [node.input.row_type[index].type for index in node.keys]
        self._calls: Sequence[AggregateCall] = node.aggregates
        self._ranks = Ranks(origin for origins in site.port_origins for origin in origins)
        self._bound = EARLIEST
        self._given = self._before = 0
        self._reset()

    def step(self, port: int, tray: Tray | None, bound: Bound) -> StepOutput:
        """Port 0, rows in rowtime order."""
        faults: list[Fault] = []
        if tray is not None and len(tray):
            self._take(tray, faults)
        self._bound = max(self._bound, bound.rowtime)
        return StepOutput(self._close(), self._bound_out(), faults)

    def held(self) -> int:
        """Count the rows in open groups."""
        return self._held

    def wants(self, bound: int | None = None) -> Sequence[Want]:
        if bound is not None:
            return [Want(0, least_reaching(self._promised, bound))]
        return [Want(0, self._closed_by(int(self._ends().min())))] if self._count else []

    def snapshot(self) -> State:
        # ``groups`` has one row for each group, in order of the first rows.
        groups = self._groups[: self._count]
        first = (groups[:, AT_FIRST + at].copy() for at in range(3))
        keys = self._keys.columns(groups[:, AT_KEY])
        state = {
            "account": self.account.to_arrow(),
            "clock": pa.table({"bound": [self._bound], "given": [self._given], BEFORE: [self._before]}),
            "groups": pa.table(
                {
                    # Copies: Arrow would share the memory, to which the operator continues to write.
                    START: groups[:, AT_START].copy(),
                    END: groups[:, AT_END].copy(),
                    ROWS: groups[:, AT_ROWS].copy(),
                    **dict(zip((ROWTIME, ORIGIN, COUNTER), first, strict=True)),
                    RANK: self._ranks.of(groups[:, AT_FIRST + 1]),
                    **{f"key {index}": column.to_arrow() for index, column in enumerate(keys)},
                }
            ),
        }
        for index, accumulator in enumerate(self._accumulators):
            state[f"aggregate {index}"] = accumulator.state(self._count)
        return state

    def restore(self, state: State) -> None:
        self.account = Account.from_arrow(state["account"])
        clock = state["clock"].to_pylist()[0]
        self._bound, self._given = clock["bound"], clock["given"]
        self._before = clock.get(BEFORE, 0)
        self._reset()
        table = state["groups"]
        self._reserve(len(table))
        self._count = len(table)
        groups = self._groups[: self._count]
        keys = [Column.from_arrow(kind, table.column(f"key {at}")) for at, kind in enumerate(self._key_types)]
        groups[:, AT_KEY] = self._keys.number(keys, len(table))
        for at, name in enumerate((ROWTIME, ORIGIN, COUNTER), start=AT_FIRST):
            groups[:, at] = table.column(name).to_numpy()
        for at, name in ((AT_START, START), (AT_END, END), (AT_ROWS, ROWS)):
            groups[:, at] = table.column(name).to_numpy()
        for index, accumulator in enumerate(self._accumulators):
            accumulator.load(state[f"aggregate {index}"])
        self._held = int(groups[:, AT_ROWS].sum())
        self._least_end = int(self._ends().min()) if self._count else LATEST
        self._index()

    @staticmethod
    def merge(states: Sequence[State]) -> State:
        # Groups of all parts, in the order of their first rows.
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
                    "given": [merged_given(clocks)],
                    BEFORE: [0],
                }
            ),
            "groups": groups.take(order),
        }
        for name in states[0]:
            if name.startswith("aggregate "):
                merged[name] = pa.concat_tables([state[name] for state in states]).take(order)
        return merged

    @staticmethod
    def split(node: Node, state: State, parts: int) -> list[State]:
        part = parts_of_groups(node, state["groups"], parts)
        by_part = {name: part for name in state if name == "groups" or name.startswith("aggregate ")}
        return [*split_state({**state, "clock": split_clock(state["clock"])}, by_part, parts)]

    # --------------------------------------------- implemented by a subclass

    def _assign(self, tray: Tray, rows: Int64s, keys: Int64s) -> Assigned:
        """Assign some rows to groups, and create missing ones; ``keys`` are those of the whole tray."""
        raise NotImplementedError

    def _is_grouped(self, tray: Tray) -> Mask | None:
        """Return which rows are in a group; None: all are."""
        return None

    def _promised(self, bound: int) -> int:
        """Return the least rowtime of a row that can still come out, for a bound that is one."""
        raise NotImplementedError

    def _closed_by(self, end: int) -> int:
        """Return the least bound at which a group with this end closes."""
        return end

    def _reached(self) -> int:
        """Return the greatest end of a group that the bound has closed."""
        # The bound at which a group closes is this much after its end.
        return self._bound - self._closed_by(0)

    def _times(self, edges: Int64s) -> Int64s:
        """Return the edges of windows as rowtimes; groups keep them in the unit of their windows."""
        return edges.copy()

    def _places(self, groups: Int64s) -> tuple[Int64s, ...]:
        """Return the indexes of groups in ``_latest``."""
        return (groups[:, AT_KEY],)

    def _latest_shape(self, keys: int) -> tuple[int, ...]:
        """Return the shape of ``_latest`` for this number of keys."""
        return (keys,)

    # --------------------------------------------------------------- inside

    def _reset(self) -> None:
        self._keys = KeyGroups(self._key_types)
        self._accumulators = [make_accumulator(call) for call in self._calls]
        self._groups: Int64s = _room(0)
        self._count = 0
        self._held = 0
        self._least_end = LATEST
        self._latest: Int64s = np.full(self._latest_shape(0), NO_GROUP)

    def _ends(self) -> Int64s:
        return self._groups[: self._count, AT_END]

    def _reserve(self, groups: int) -> None:
        """Make room for this number of new groups, and for every key."""
        needed = self._count + groups
        if needed > len(self._groups):
            larger = _room(max(needed, 2 * len(self._groups)))
            larger[: self._count] = self._groups[: self._count]
            self._groups = larger
        self._latest = grown(self._latest, self._keys.count, fill=NO_GROUP)

    def _index(self) -> None:
        """Rebuild the latest groups of each key. A later one replaces an earlier one."""
        self._reserve(0)
        self._latest[self._places(self._groups[: self._count])] = np.arange(self._count)

    def _take(self, tray: Tray, faults: list[Fault]) -> None:
        """Add the rows of a tray to their groups; a row that overflows an aggregate becomes a fault."""
        self.account.rows_in += len(tray)
        keys = self._keys.number([tray.columns[index] for index in self._node.keys], len(tray))
        inputs = aggregate_inputs(self._calls, tray)
        refused: Mask | None = None
        for accumulator, (column, use) in zip(self._accumulators, inputs, strict=True):
            never = accumulator.refused(column, use)
            if never is not None and never.any():
                refused = never if refused is None else refused | never
        if refused is not None and (grouped := self._is_grouped(tray)) is not None:
            refused &= grouped
        rows = np.arange(len(tray)) if refused is None else np.flatnonzero(~refused)
        failed = {} if refused is None else dict.fromkeys(np.flatnonzero(refused).tolist(), overflow())
        if len(rows):
            failed |= self._add(tray, keys, inputs, rows)
        faults += self._faults(tray, failed)
        self.account.rejected += len(failed)

    def _faults(self, tray: Tray, failed: Mapping[int, RejectedRowError]) -> list[Fault]:
        """Return the faults of some rows of a tray, in their order."""
        if not failed:
            return []
        rows = sorted(failed)
        given = zip(rows, tray.take(np.array(rows, dtype=np.int64)).rows(), strict=True)
        names = tray.row_type.names
        return [
            rejected(self._node.relation, failed[row].reason, failed[row].message, timed, names)
            for row, timed in given
        ]

    def _add(
        self, tray: Tray, keys: Int64s, inputs: AggregateInputs, rows: Int64s
    ) -> dict[int, RejectedRowError]:
        """Add some rows, in order; return those that an aggregate cannot take, and why.

        A row that does not fit has no effect: it begins no group and keeps no session open. Rows that
        do not fit are halved, so a tray with few such rows costs little more than one without.
        """
        before = self._count
        assigned = self._assign(tray, rows, keys)
        taken = rows if assigned.rows is None else assigned.rows
        part = inputs
        if assigned.rows is not None or len(rows) < len(tray):
            part = [(None if column is None else column.take(taken), use[taken]) for column, use in inputs]
        for accumulator in self._accumulators:
            accumulator.reserve(self._count)
        tried = zip(self._accumulators, part, strict=True)
        misfit = next(
            (each for each, (column, use) in tried if not each.fits(assigned.groups, column, use)), None
        )
        if misfit is None:
            for accumulator, (column, use) in zip(self._accumulators, part, strict=True):
                accumulator.add(assigned.groups, column, use)
            self.account.done += assigned.without
            self._held += len(rows) - assigned.without
            if self._count > before:
                self._least_end = min(self._least_end, int(self._groups[before : self._count, AT_END].min()))
            return {}
        self._take_back(assigned, before)
        if len(rows) == 1:
            return {int(rows[0]): why_not(misfit)}
        middle = len(rows) // 2
        return self._add(tray, keys, inputs, rows[:middle]) | self._add(tray, keys, inputs, rows[middle:])

    def _take_back(self, assigned: Assigned, before: int) -> None:
        """Undo an assignment."""
        groups = assigned.groups
        counts = 1 if assigned.counts is None else assigned.counts
        np.subtract.at(self._groups[:, AT_ROWS], groups, counts)
        if assigned.ends is not None:
            # The end before the first row of a group is written last.
            self._groups[groups[::-1], AT_END] = assigned.ends[::-1]
        self._latest[self._places(self._groups[before : self._count])] = NO_GROUP
        self._count = before
        self._index()

    def _close(self) -> Tray | None:
        """Return the rows of the groups that the bound has closed, by end and first row, and drop them."""
        if not self._count or self._closed_by(self._least_end) > self._bound:
            return None
        ends = self._ends()
        closing = np.flatnonzero(ends <= self._reached())
        count = len(closing)
        if count:
            closing = closing[np.argsort(ends[closing], kind="stable")]
            if (closing != np.arange(count)).any():
                stays = np.ones(self._count, dtype=np.bool_)
                stays[closing] = False
                self._reorder(np.concatenate([closing, np.flatnonzero(stays)]))
        out = self._given_out(count) if count else None
        self._least_end = int(self._ends().min()) if self._count else LATEST
        return out

    def _given_out(self, count: int) -> Tray:
        """Return the rows of the first groups, and drop them."""
        closed = self._groups[:count]
        columns = [
            Column(TIMESTAMP, self._times(closed[:, AT_START])),
            *self._keys.columns(closed[:, AT_KEY]),
            *(accumulator.results(count) for accumulator in self._accumulators),
        ]
        out = Tray.from_columns(
            self._node.row_type,
            columns,
            self._times(closed[:, AT_END]),
            self._origin,
            np.arange(self._given, self._given + count, dtype=np.int64),
        )
        done = int(closed[:, AT_ROWS].sum())
        self._given += count
        self._held -= done
        self.account.rows_out += count
        self.account.done += done
        self._forget(count)
        return out

    def _reorder(self, order: Int64s) -> None:
        """Renumber the groups: ``order`` lists the old ones."""
        self._groups[: self._count] = self._groups[order]
        taken = pa.array(order, pa.int64())
        states = [accumulator.state(self._count).take(taken) for accumulator in self._accumulators]
        self._accumulators = [make_accumulator(call) for call in self._calls]
        for accumulator, state in zip(self._accumulators, states, strict=True):
            accumulator.load(state)

    def _forget(self, count: int) -> None:
        """Drop the first ``count`` groups. Keys that only they had are dropped later."""
        rest = self._count - count
        self._latest[self._places(self._groups[:count])] = NO_GROUP
        self._groups[:rest] = self._groups[count : self._count].copy()
        self._count = rest
        for accumulator in self._accumulators:
            accumulator.drop(count, rest)
        if self._keys.count > max(KEEP_KEYS, 4 * rest):
            kept, numbers = np.unique(self._groups[:rest, AT_KEY], return_inverse=True)
            self._keys.keep(kept)
            self._groups[:rest, AT_KEY] = numbers
            self._latest = np.full(self._latest_shape(0), NO_GROUP)
        self._index()

    def _bound_out(self) -> Bound:
        if self._bound in (EARLIEST, LATEST):
            return Bound(self._bound)
        return Bound(min(LATEST, self._promised(self._bound)))


def _room(groups: int) -> Int64s:
    """Make room for groups, field by field, because most rows use only one or two fields of their group."""
    return np.zeros((groups, WIDTH), dtype=np.int64, order="F")


def aggregate_inputs(calls: Sequence[AggregateCall], tray: Tray) -> AggregateInputs:
    """Return the argument column of each aggregate and the rows that it uses."""
    every = np.ones(len(tray), dtype=np.bool_)
    return [_aggregate_input(call, tray, every) for call in calls]


def _aggregate_input(call: AggregateCall, tray: Tray, every: Mask) -> tuple[Column | None, Mask]:
    column = None
    use = every
    if isinstance(call.argument, FieldRef):
        column = tray.columns[call.argument.index]
        if column.valid is not None and not aggregate_of(call).counts_nulls(call):
            use = column.valid
    if isinstance(call.condition, FieldRef):
        flags = tray.columns[call.condition.index]
        use = use & np.asarray(flags.values, dtype=np.bool_) & flags.valid_mask()
    return column, use


def row_places(tray: Tray, rows: Int64s | None = None) -> tuple[Int64s, NDArray[np.int32], Int64s]:
    """Return rowtime, origin and counter of rows in the form for which kernels are compiled."""
    return (
        compact(of_rows(tray.rowtime, rows)),
        compact(of_rows(tray.origin, rows)),
        compact(of_rows(tray.counter, rows)),
    )


def of_rows(values: NDArray[Any], rows: Int64s | None) -> NDArray[Any]:
    """Return the values of some rows of a tray, in order; None means all rows."""
    return values if rows is None or len(rows) == len(values) else values[rows]
