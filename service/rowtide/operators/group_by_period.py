"""Groups by a period of the rowtime and further keys; a row a group when its period closes.

Rows come in rowtime order, so all open groups are of one period, and groups
are numbered in the order of their first rows: what closes is always a prefix,
already in the order in which it has to come out (sql-decisions 2).
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute
from numpy.typing import NDArray

from rowtide.errors import Reason
from rowtide.expr.tree import AggregateCall, FieldRef
from rowtide.operators.aggregates import Accumulator, make_accumulator
from rowtide.operators.contract import Account, Fault, Output, Place, State, Want
from rowtide.operators.group_functions import counts_nulls
from rowtide.operators.keys import KeyCoder, power_of_two
from rowtide.operators.ranks import RANK, Ranks
from rowtide.plan.nodes import GroupByPeriod
from rowtide.rows.column import Column, Mask
from rowtide.rows.rowop import Opcode
from rowtide.rows.tray import COUNTER, ORIGIN, ROWTIME, Tray
from rowtide.rows.types import TIMESTAMP
from rowtide.rowtime.bound import EARLIEST, LATEST, NO_BOUND, Bound
from rowtide.rowtime.period import PeriodEdge, closed_by, end_after, period_end, period_value
from rowtide.rowtime.reach import least_reaching

PERIOD = "$period"
ROWS = "$rows"
FORGET_INTERNED_OVER = 1 << 16
"""Interned key values are forgotten at a closing once there are more of them than this."""


class GroupByPeriodOperator:
    """Streaming aggregation with final emission."""

    def __init__(self, node: GroupByPeriod, place: Place) -> None:
        self.account = Account()
        self._node = node
        self._origin = place.origin
        self._key_fields = [node.input.row_type[index] for index in node.keys]
        self._calls = node.aggregates
        self._strict = node.period.edge is not PeriodEdge.FLOOR
        self._ranks = Ranks(origin for origins in place.port_origins for origin in origins)
        self._bound = EARLIEST
        self._closed_before = EARLIEST
        self._bound_out = NO_BOUND
        self._given = 0
        self._reset([make_accumulator(call) for call in self._calls])

    def step(self, port: int, tray: Tray | None, bound: Bound) -> Output:
        """See the contract; port 0, rows in rowtime order."""
        faults: list[Fault] = []
        if tray is not None and len(tray):
            self._take(tray, faults)
        if bound.rowtime > self._bound:
            self._reach(bound.rowtime)
        return Output(self._close(), self._bound_out, faults)

    def held(self) -> int:
        """Count the rows in open groups."""
        return self._held

    def wants(self, bound: int | None = None) -> Sequence[Want]:
        """See ``Explaining``."""
        period = self._node.period
        if bound is not None:
            return [Want(0, least_reaching(lambda rowtime: end_after(period, rowtime), bound))]
        return [Want(0, closed_by(period, int(self._codes[0, 0])))] if self._count else []

    def snapshot(self) -> State:
        """See the contract; ``groups`` has a row a group, in order of the first rows."""
        count = self._count
        keys = self._coder.decode(self._codes[:count, 1:])
        state = {
            "account": self.account.to_arrow(),
            "clock": pa.table({"bound": [self._bound], "given": [self._given]}),
            "groups": pa.table(
                {
                    PERIOD: self._codes[:count, 0],
                    # A copy: Arrow would share the memory, and the operator goes on writing to it.
                    ROWS: self._rows[:count].copy(),
                    ROWTIME: self._first[:count, 0],
                    ORIGIN: self._first[:count, 1],
                    RANK: self._ranks.of(self._first[:count, 1]),
                    COUNTER: self._first[:count, 2],
                    **{f"key {index}": column.to_arrow() for index, column in enumerate(keys)},
                }
            ),
        }
        for index, accumulator in enumerate(self._accumulators):
            state[f"aggregate {index}"] = accumulator.state(count)
        return state

    def restore(self, state: State) -> None:
        """See the contract."""
        self.account = Account.from_arrow(state["account"])
        clock = state["clock"].to_pylist()[0]
        self._reach(clock["bound"])
        self._given = clock["given"]
        groups = state["groups"]
        count = len(groups)
        self._reset([make_accumulator(call) for call in self._calls], count)
        self._count = count
        self._codes[:count, 0] = groups.column(PERIOD).to_numpy()
        self._rows[:count] = groups.column(ROWS).to_numpy()
        self._held = int(self._rows[:count].sum())
        for index, name in enumerate((ROWTIME, ORIGIN, COUNTER)):
            self._first[:count, index] = groups.column(name).to_numpy()
        keys = [
            Column.from_arrow(field.type, groups.column(f"key {index}"))
            for index, field in enumerate(self._key_fields)
        ]
        self._coder.encode(keys, self._codes[:count, 1:])
        self._index()
        for index, accumulator in enumerate(self._accumulators):
            accumulator.load(state[f"aggregate {index}"])

    @staticmethod
    def merge(states: Sequence[State]) -> State:
        """See the contract: groups of all parts, in the order of their first rows."""
        groups = pa.concat_tables([state["groups"] for state in states])
        order = pa.compute.sort_indices(
            groups, sort_keys=[(name, "ascending") for name in (PERIOD, ROWTIME, RANK, COUNTER)]
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

    def _reset(self, accumulators: Sequence[Accumulator], groups: int = 0) -> None:
        """Begin without groups, with room for ``groups``."""
        self._coder = KeyCoder([field.type for field in self._key_fields])
        self._accumulators = list(accumulators)
        self._count = 0
        self._held = 0
        width = 1 + self._coder.width
        self._slots = np.full(power_of_two(2 * groups), -1, dtype=np.int32)
        self._codes: NDArray[np.int64] = np.zeros((groups, width), dtype=np.int64)
        self._rows: NDArray[np.int64] = np.zeros(groups, dtype=np.int64)
        self._first: NDArray[np.int64] = np.zeros((groups, 3), dtype=np.int64)

    def _reserve(self, rows: int) -> None:
        """Make room for as many new groups as there are rows."""
        needed = self._count + rows
        if needed > len(self._rows):
            room = max(needed, 2 * len(self._rows))
            for name in ("_codes", "_rows", "_first"):
                array = getattr(self, name)
                larger = np.zeros((room, *array.shape[1:]), dtype=np.int64)
                larger[: self._count] = array[: self._count]
                setattr(self, name, larger)
        if power_of_two(2 * needed) > len(self._slots):
            self._slots = np.full(power_of_two(2 * needed), -1, dtype=np.int32)
            self._index()

    def _index(self) -> None:
        from rowtide.operators.kernels.groups import enter

        enter(self._codes, self._count, self._slots)

    def _take(self, tray: Tray, faults: list[Fault]) -> None:
        """Add the rows of a tray to their groups; a row that overflows an aggregate becomes a fault."""
        self.account.rows_in += len(tray)
        kept = np.arange(len(tray))
        refused = self._refused(tray)
        if refused is not None:
            # They were never there: no group begins with one.
            kept = np.flatnonzero(~refused)
        part = tray if len(kept) == len(tray) else tray.take(kept)
        failed = [] if refused is None else np.flatnonzero(refused).tolist()
        if len(part):
            failed += kept[self._add_to_groups(part)].tolist()
        faults += [self._overflow(tray, row) for row in sorted(failed)]
        self.account.rejected += len(failed)
        self._held += len(tray) - len(failed)

    def _refused(self, tray: Tray) -> Mask | None:
        """Give the rows that an aggregate can never take; None: there are none."""
        found = None
        for call, accumulator in zip(self._calls, self._accumulators, strict=True):
            refused = accumulator.refused(*aggregate_input(call, tray))
            if refused is not None and refused.any():
                found = refused if found is None else found | refused
        return found

    def _add_to_groups(self, tray: Tray) -> list[int]:
        """Add rows, beginning groups where there are none; give the rows that did not fit."""
        from rowtide.operators.kernels.groups import assign, count_rows

        codes = np.empty((len(tray), 1 + self._coder.width), dtype=np.int64)
        codes[:, 0] = period_value(self._node.period, tray.rowtime)
        self._coder.encode([tray.columns[index] for index in self._node.keys], codes[:, 1:])
        self._reserve(len(tray))
        groups = np.empty(len(tray), dtype=np.int64)
        firsts = np.empty(len(tray), dtype=np.int64)
        before = self._count
        self._count = assign(codes, self._slots, self._codes, before, groups, firsts)
        begun = firsts[: self._count - before]
        self._first[before : self._count, 0] = tray.rowtime[begun]
        self._first[before : self._count, 1] = tray.origin[begun]
        self._first[before : self._count, 2] = tray.counter[begun]
        inputs = []
        for call, accumulator in zip(self._calls, self._accumulators, strict=True):
            accumulator.reserve(self._count)
            inputs.append(aggregate_input(call, tray))
        failed = self._add(groups, inputs, 0, len(tray))
        use = np.ones(len(tray), dtype=np.bool_)
        use[failed] = False
        count_rows(groups, use, self._rows)
        return failed

    def _add(
        self, groups: NDArray[np.int64], inputs: Sequence[tuple[Column | None, Mask]], start: int, stop: int
    ) -> list[int]:
        """Add the rows from ``start`` to ``stop``, in order, leaving out those that do not fit: gives these.

        Halves what does not fit, so a tray with few such rows costs little more than one without.
        """
        part = [
            (None if column is None else column.slice(start, stop), use[start:stop]) for column, use in inputs
        ]
        mine = groups[start:stop]
        if all(
            accumulator.fits(mine, column, use)
            for accumulator, (column, use) in zip(self._accumulators, part, strict=True)
        ):
            for accumulator, (column, use) in zip(self._accumulators, part, strict=True):
                accumulator.add(mine, column, use)
            return []
        if stop - start == 1:
            return [start]
        middle = (start + stop) // 2
        return self._add(groups, inputs, start, middle) + self._add(groups, inputs, middle, stop)

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

    def _reach(self, rowtime: int) -> None:
        """Take a bound: periods named before ``_closed_before`` are over.

        What goes out promises the end of the period that the bound is in: nothing closes later at an
        earlier rowtime.
        """
        self._bound = rowtime
        self._closed_before, end = rowtime, rowtime
        if rowtime not in (EARLIEST, LATEST):
            at = period_value(self._node.period, np.array([rowtime], dtype=np.int64))
            end = int(period_end(self._node.period, at)[0])
            if self._node.period.edge is PeriodEdge.FLOOR:
                self._closed_before = int(at[0])
            if end < rowtime:
                # There is no period behind the end of time.
                end = LATEST
        self._bound_out = Bound(end) if rowtime != EARLIEST else NO_BOUND

    def _close(self) -> Tray | None:
        """Give the rows of the closed groups, and forget them."""
        # Groups are in order of their periods, and most steps close none.
        count = bisect_left(self._codes[: self._count, 0], self._closed_before) if self._count else 0
        if not count:
            return None
        periods = self._codes[:count, 0].copy()
        columns = [
            Column(TIMESTAMP, periods),
            *self._coder.decode(self._codes[:count, 1:]),
            *(accumulator.results(count) for accumulator in self._accumulators),
        ]
        out = Tray(
            self._node.row_type,
            tuple(columns),
            period_end(self._node.period, periods),
            np.full(count, self._origin, dtype=np.int32),
            np.arange(self._given, self._given + count, dtype=np.int64),
            np.full(count, Opcode.INSERT, dtype=np.int8),
        )
        self._given += count
        self.account.rows_out += count
        done = int(self._rows[:count].sum())
        self.account.done += done
        self._held -= done
        self._forget(count)
        return out

    def _forget(self, count: int) -> None:
        """Drop the first ``count`` groups; keys that only they had are let go in time."""
        rest = self._count - count
        for array in (self._codes, self._rows, self._first):
            array[:rest] = array[count : self._count]
            array[rest : self._count] = 0
        self._count = rest
        for accumulator in self._accumulators:
            accumulator.drop(count, rest)
        if self._coder.interned > max(FORGET_INTERNED_OVER, 4 * rest):
            keys = self._coder.decode(self._codes[:rest, 1:])
            self._coder = KeyCoder(self._coder.types)
            self._coder.encode(keys, self._codes[:rest, 1:])
        room = power_of_two(2 * (count + rest))
        if len(self._slots) > 4 * room:
            # One crowded period must not make every later closing clear as many slots.
            self._slots = np.full(room, -1, dtype=np.int32)
        else:
            self._slots[:] = -1
        self._index()


def aggregate_input(call: AggregateCall, tray: Tray) -> tuple[Column | None, Mask]:
    """Give an aggregate's argument column and the rows that it uses."""
    column = None
    use = np.ones(len(tray), dtype=np.bool_)
    if isinstance(call.argument, FieldRef):
        column = tray.columns[call.argument.index]
        if column.valid is not None and not counts_nulls(call):
            use = column.valid
    if isinstance(call.condition, FieldRef):
        flags = tray.columns[call.condition.index]
        use = use & np.asarray(flags.values, dtype=np.bool_) & flags.valid_mask()
    return column, use
