"""Groups that emit every change: DELETE old, INSERT new, for EMIT CHANGES.

See docs/sql/semantics.md#changelogs-of-groups.

After every row, changes have the place in consistent time of the row that caused them. With EVERY
they are emitted at multiples of the interval and at the end of the group's window, in the order in
which the groups began, and have this operator's origin. A row of a later rowtime acts as a bound:
changes that are due before it are emitted first.
"""

from __future__ import annotations

import heapq
import json
from collections import OrderedDict
from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute

from rowtide.errors import RejectedRowError
from rowtide.operators.aggregates.changes.change_functions import (
    check_result,
    from_text,
    move,
    moved,
    to_text,
)
from rowtide.operators.aggregates.changes.change_states import Undo
from rowtide.operators.aggregates.row_functions import WindowFunction, from_json, overflow, to_json
from rowtide.operators.changes.group_calls import GroupCall
from rowtide.operators.contract import Account, Fault, OperatorSite, State, StepOutput, Want
from rowtide.operators.faults import rejected
from rowtide.operators.merge.ranks import RANK, Ranks
from rowtide.operators.shown_changes import ShownChanges
from rowtide.operators.splitting import (
    BEFORE,
    key_of,
    merged_given,
    parts_of_groups,
    parts_of_rows,
    split_clock,
    split_state,
)
from rowtide.operators.storage.row_keys import key_getter
from rowtide.operators.table.refused import RefusedRows, WaitingChange, WaitingChanges
from rowtide.plan.nodes import GroupChanges, Node
from rowtide.rows.column import Column
from rowtide.rows.rowop import Opcode, Row, TimedRow
from rowtide.rows.tray import COUNTER, ORIGIN, ROWTIME, Tray
from rowtide.rowtime.bound import EARLIEST, LATEST, Bound
from rowtide.rowtime.period import Hop, HopByMonths, Period, PeriodEdge, Session, period_end, period_value
from rowtide.rowtime.reach import least_reaching

START, END, ROWS, PENDING, LAST, SHOWN = "$start", "$end", "$rows", "$pending", "$last", "$shown"

GroupKey = tuple[int, Row]
"""The start of a group's window (0 without windows, or for sessions) and its key."""


class _Group:
    """One group. ``first`` is the place of its first row, ``shown`` its last emitted row.

    ``pending`` counts the rows since then.
    """

    __slots__ = ("end", "first", "functions", "key", "last", "number", "pending", "rows", "shown", "start")

    def __init__(self, start: int, end: int, key: Row, number: int, timed: TimedRow | None = None) -> None:
        self.start, self.end, self.key, self.number = start, end, key, number
        self.first = (0, 0, 0) if timed is None else (timed.rowtime, timed.origin, timed.counter)
        self.functions: list[WindowFunction] = []
        self.rows = 0
        self.pending = 0
        self.last = EARLIEST
        self.shown: Row | None = None


class GroupChangesOperator:
    """Plain Python, row by row."""

    def __init__(self, node: GroupChanges, site: OperatorSite) -> None:
        self.account = Account()
        self._node = node
        self._origin = site.origin
        self._calls = [
            GroupCall(call, node.input.row_type, of_changes=node.of_changes) for call in node.aggregates
        ]
        self._limited = [call for call in self._calls if call.never is not None]
        self._fallible = [at for at, call in enumerate(self._calls) if call.fallible]
        self._infallible = [at for at, call in enumerate(self._calls) if not call.fallible]
        self._key = key_getter(node.keys)
        self._has_float_keys = any(node.input.row_type[index].type.is_float for index in node.keys)
        self._ranks = Ranks(origin for origins in site.port_origins for origin in origins)
        self._groups: OrderedDict[GroupKey, _Group] = OrderedDict()
        self._dirty: dict[int, _Group] = {}
        self._ends: list[tuple[int, int, GroupKey]] = []
        self._refused = RefusedRows()
        self._waits = node.of_changes and node.window is None
        self._waiting = WaitingChanges()
        self._begun = 0
        self._due: int | None = None
        self._reached = EARLIEST
        self._given = self._before = 0
        self._held = 0
        self._out: list[TimedRow] = []
        self._pairs: list[int] = []
        self._shown = ShownChanges(node)

    def step(self, port: int, tray: Tray | None, bound: Bound) -> StepOutput:
        """Port 0, rows in rowtime order."""
        faults: list[Fault] = []
        if tray is not None and len(tray):
            self.account.rows_in += len(tray)
            for timed, windows in zip(tray.rows(), self._windows(tray), strict=True):
                self._reach(timed.rowtime)
                self._take(timed, windows, faults)
        self._reach(bound.rowtime)
        emitted = Tray.from_rows(self._node.row_type, self._out) if self._out else None
        paired = np.zeros(len(self._out), dtype=np.bool_)
        paired[self._pairs] = True
        out = self._shown.of(emitted, paired)
        self._out, self._pairs = [], []
        self.account.rows_out += 0 if out is None else len(out)
        bound_out = bound if self._node.every_ms is None else self._promised()
        return StepOutput(out, bound_out, faults)

    def held(self) -> int:
        """Count the rows whose changes are not emitted yet."""
        return self._held

    def wants(self, bound: int | None = None) -> Sequence[Want]:
        if bound is not None:
            if self._node.every_ms is None:
                return [Want(0, bound)]
            return [Want(0, least_reaching(lambda rowtime: max(rowtime, self._promises(rowtime)), bound))]
        if not self._held:
            return []
        window = self._node.window
        strict = isinstance(window, Period) and window.edge is not PeriodEdge.FLOOR
        # A group that ends unchanged releases nothing, unless it holds rows itself.
        ends = [
            group.end + strict
            for group in self._dirty.values()
            if group.end != LATEST and (group.pending or not _same(self._values(group), group.shown))
        ]
        return [Want(0, min([*ends, LATEST if self._due is None else self._due]))]

    # ----------------------------------------------------------------- rows

    def _windows(self, tray: Tray) -> Iterator[Sequence[tuple[int, int]]]:
        """Return start and end of the windows that each row is in, the earliest first."""
        match self._node.window:
            case Period() as period:
                starts = period_value(period, tray.rowtime)
                ends = period_end(period, starts).tolist()
                return ([each] for each in zip(starts.tolist(), ends, strict=True))
            case Hop() | HopByMonths() as hop:
                times = tray.rowtime.tolist()
                return ([(start, hop.end(start)) for start in hop.starts(each)] for each in times)
            case Session(gap_ms=gap):
                return ([(each, each + gap)] for each in tray.rowtime.tolist())
            case None:
                return ([(0, LATEST)] for _ in range(len(tray)))

    def _take(self, timed: TimedRow, windows: Sequence[tuple[int, int]], faults: list[Fault]) -> None:
        """Add a row to its groups, or remove it, and emit the changes."""
        row = timed.row
        if timed.opcode == Opcode.NOP or not windows:
            self.account.done += 1
            return
        leaves = timed.opcode == Opcode.DELETE
        if leaves and self._refused.take(row):
            # The row was never added.
            self.account.done += 1
            return
        key = self._key_of(row)
        if self._waiting.cancel(key, row, timed.opcode):
            self.account.done += 1
            return
        known = []
        for start, end in windows:
            group = self._group(start, end, key, timed)
            if group is not None and (group.rows or not leaves):
                known.append(group)
        if not leaves and self._limited and self._is_refused(row):
            self._reject(timed, known, overflow(), faults)
            return
        misfit = self._change(known, row, leaves=leaves)
        if misfit is not None:
            self._reject(timed, known, misfit, faults)
            return
        for group in known:
            group.rows += -1 if leaves else 1
            group.last = timed.rowtime
            if group.key in self._waiting:
                self._let_in(group)
            if self._node.retention_ms is not None:
                self._groups.move_to_end((self._at(group), group.key))
        self._changed(known, timed)

    def _key_of(self, row: Row) -> Row:
        key = self._key(row)
        return tuple(map(_as_key, key)) if self._has_float_keys else key

    def _let_in(self, group: _Group) -> None:
        """Apply earlier changes of a group that now fit: in their order, or all at once."""

        def applied(change: WaitingChange) -> bool:
            row, opcode = change
            if self._change([group], row, leaves=opcode == Opcode.DELETE) is not None:
                return False
            group.rows += opcode
            return True

        waiting = self._waiting.apply(group.key, applied)
        if len(waiting) < 2:
            return
        undo: list[Undo] = []
        try:
            for at in self._fallible:
                for row, opcode in waiting:
                    if self._calls[at].takes(row):
                        value = self._calls[at].value(row)
                        undo.append(moved(group.functions[at], value, leaves=opcode == Opcode.DELETE))
            for at in self._fallible:
                check_result(group.functions[at])
        except RejectedRowError:
            for each in reversed(undo):
                each()
            return
        for row, opcode in waiting:
            group.rows += opcode
            for at in self._infallible:
                if self._calls[at].takes(row):
                    move(group.functions[at], self._calls[at].value(row), leaves=opcode == Opcode.DELETE)
        self._waiting.forget(group.key)

    def _is_refused(self, row: Row) -> bool:
        """Return whether an aggregate can never take the value of a row."""
        return any(
            call.takes(row) and call.never is not None and call.never(call.value(row))
            for call in self._limited
        )

    def _at(self, group: _Group) -> int:
        """Return the first part of a group's key in ``_groups``."""
        return 0 if isinstance(self._node.window, Session) else group.start

    def _group(self, start: int, end: int, key: Row, timed: TimedRow) -> _Group | None:
        """Return the group of a window and key. Create it if needed, but not for a DELETE."""
        session = isinstance(self._node.window, Session)
        place = (0 if session else start, key)
        group = self._groups.get(place)
        if group is None:
            if timed.opcode == Opcode.DELETE:
                return None
            group = _Group(start, end, key, self._begun, timed)
            group.functions = [each.function() for each in self._calls]
            self._begun += 1
            self._groups[place] = group
            if end != LATEST:
                heapq.heappush(self._ends, (end, group.number, place))
        return group

    def _change(self, groups: Sequence[_Group], row: Row, *, leaves: bool) -> RejectedRowError | None:
        """Add or remove a row's values; return why one does not fit: then nothing has changed.

        Aggregates that may fail come first. If one fails, the earlier ones are undone, and the others are
          unchanged.
        """
        calls = self._calls
        undo: list[Undo] = []
        try:
            for at in self._fallible:
                if calls[at].takes(row):
                    value = calls[at].value(row)
                    for group in groups:
                        undo.append(moved(group.functions[at], value, leaves=leaves))
                        check_result(group.functions[at])
        except RejectedRowError as error:
            for each in reversed(undo):
                each()
            return error
        for at in self._infallible:
            if calls[at].takes(row):
                value = calls[at].value(row)
                for group in groups:
                    move(group.functions[at], value, leaves=leaves)
        return None

    def _reject(
        self, timed: TimedRow, known: Sequence[_Group], error: RejectedRowError, faults: list[Fault]
    ) -> None:
        """Reject a row that does not fit, and undo it and the groups that it created."""
        for group in known:
            if not group.rows and group.shown is None and not group.pending:
                del self._groups[self._at(group), group.key]
        if self._waits and not (self._limited and self._is_refused(timed.row)):
            self._waiting.add(self._key_of(timed.row), (timed.row, timed.opcode))
        elif self._node.of_changes and timed.opcode == Opcode.INSERT:
            self._refused.add(timed.row)
        self.account.rejected += 1
        names = self._node.input.row_type.names
        faults.append(rejected(self._node.relation, error.reason, error.message, timed, names))

    def _changed(self, groups: Sequence[_Group], timed: TimedRow) -> None:
        """Emit changes at once, or note that they are due."""
        for group in groups:
            if isinstance(self._node.window, Session):
                self._prolong(group, timed.rowtime + self._node.window.gap_ms)
            if self._node.every_ms is None:
                self._tell(group, timed.rowtime, timed)
            else:
                self._dirty[group.number] = group
        if self._node.every_ms is None or not groups:
            self.account.done += 1
            return
        groups[-1].pending += 1
        self._held += 1
        if self._due is None:
            self._due = (timed.rowtime // self._node.every_ms + 1) * self._node.every_ms

    def _prolong(self, group: _Group, end: int) -> None:
        if end != group.end:
            group.end = end
            heapq.heappush(self._ends, (end, group.number, (0, group.key)))

    # ----------------------------------------------------------------- time

    def _reach(self, rowtime: int) -> None:
        """Emit the changes that are due before ``rowtime``, in order of time; drop ended groups.

        At the end of time, rows are changes of tables that only statements fill: each is due at once.
        """
        if rowtime <= self._reached and (rowtime < LATEST or self._due is None):
            return
        window = self._node.window
        strict = isinstance(window, Period) and window.edge is not PeriodEdge.FLOOR
        while True:
            end = self._next_end()
            closes = end is not None and (end < rowtime or (end == rowtime and not strict))
            if self._due is not None and self._due <= (end if closes and end is not None else rowtime):
                self._tell_all(self._due, sorted(self._dirty))
                self._due = None
            elif closes and end is not None:
                self._close(end)
            else:
                break
        self._reached = rowtime
        if self._node.retention_ms is not None:
            self._expire(rowtime - self._node.retention_ms)

    def _next_end(self) -> int | None:
        """Return the earliest end of an open group."""
        while self._ends:
            end, number, place = self._ends[0]
            group = self._groups.get(place)
            if group is not None and group.number == number and group.end == end:
                return end
            heapq.heappop(self._ends)
        return None

    def _close(self, end: int) -> None:
        """Emit the last state of the groups that end, and drop them. Their emitted rows stay."""
        closing: list[_Group] = []
        while self._next_end() == end:
            place = heapq.heappop(self._ends)[2]
            closing.append(self._groups.pop(place))
        self._tell_all(end, sorted(group.number for group in closing if group.number in self._dirty))
        if not self._dirty:
            self._due = None

    def _tell_all(self, rowtime: int, numbers: Sequence[int]) -> None:
        for number in numbers:
            group = self._dirty.pop(number)
            self.account.done += group.pending
            self._held -= group.pending
            group.pending = 0
            self._tell(group, rowtime, None)

    def _tell(self, group: _Group, rowtime: int, cause: TimedRow | None) -> None:
        """Emit DELETE old, INSERT new, if they differ. Drop a group without rows.

        The changes have the place of the row that caused them, or one of this operator's own.
        """
        window, new = self._node.window, self._values(group)
        if not _same(new, group.shown):
            head = group.key if window is None else (group.start, *group.key)
            if group.shown is not None and new is not None:
                self._pairs.append(len(self._out))
            for opcode, values in ((Opcode.DELETE, group.shown), (Opcode.INSERT, new)):
                if values is None:
                    continue
                row = (*head, *values)
                if cause is not None:
                    # Faster than to replace two fields.
                    self._out.append(TimedRow(rowtime, cause.origin, cause.counter, opcode, row))
                else:
                    self._out.append(TimedRow(rowtime, self._origin, self._given, opcode, row))
            self._given += cause is None
            group.shown = new
        if new is None:
            self._groups.pop((self._at(group), group.key), None)

    def _values(self, group: _Group) -> Row | None:
        """Return the row of a group; None: the group has no rows."""
        if not group.rows and (self._node.window is not None or self._node.keys):
            return None
        return tuple(function.result() for function in group.functions)

    def _expire(self, before: int) -> None:
        """Drop the groups without a change since ``before``, except those with pending changes."""
        while self._groups:
            place, group = next(iter(self._groups.items()))
            if group.last >= before or group.pending:
                return
            del self._groups[place]
            self._waiting.forget(group.key)

    def _promised(self) -> Bound:
        """Return the least rowtime of a row that can still come out, if rows have this operator's origin."""
        return Bound(self._promises(self._reached))

    def _promises(self, reached: int) -> int:
        every = self._node.every_ms
        if every is None or reached in (EARLIEST, LATEST):
            return reached
        next_one = (reached // every + 1) * every
        match self._node.window:
            case Period() as period:
                at = period_value(period, np.array([reached], dtype=np.int64))
                end = int(period_end(period, at)[0])
                if end >= reached:
                    next_one = min(next_one, end)
            case Hop() | HopByMonths() as hop:
                next_one = min(next_one, hop.next_end(reached))
            case Session(gap_ms=gap):
                end_of_one = self._next_end()
                next_one = min(next_one, reached + gap, LATEST if end_of_one is None else end_of_one)
        return min(next_one, LATEST)

    # ------------------------------------------------------------- snapshots

    def snapshot(self) -> State:
        # ``groups`` has one row for each group, in the order in which they began.
        groups = sorted(self._groups.values(), key=lambda group: group.number)
        origins = np.array([group.first[1] for group in groups], dtype=np.int64)
        fields = self._node.input.row_type
        keys = {
            f"key {at}": Column.from_values(
                fields[index].type, [group.key[at] for group in groups]
            ).to_arrow()
            for at, index in enumerate(self._node.keys)
        }
        integers = {
            START: [group.start for group in groups],
            END: [group.end for group in groups],
            ROWS: [group.rows for group in groups],
            PENDING: [group.pending if group.number in self._dirty else -1 for group in groups],
            LAST: [group.last for group in groups],
            ROWTIME: [group.first[0] for group in groups],
            ORIGIN: origins.tolist(),
            COUNTER: [group.first[2] for group in groups],
        }
        shown = [
            None if group.shown is None else json.dumps([to_json(value) for value in group.shown])
            for group in groups
        ]
        kept = {
            f"aggregate {at}": pa.array([to_text(group.functions[at]) for group in groups], pa.string())
            for at in range(len(self._calls))
        }
        due = LATEST if self._due is None else self._due
        refused = [TimedRow(0, 0, 0, Opcode.INSERT, row) for row in self._refused]
        refused += [TimedRow(0, 0, 0, opcode, row) for row, opcode in self._waiting]
        return {
            "account": self.account.to_arrow(),
            "clock": pa.table(
                {"reached": [self._reached], "given": [self._given], BEFORE: [self._before], "due": [due]}
            ),
            "groups": pa.table(
                {name: pa.array(values, pa.int64()) for name, values in integers.items()}
                | {RANK: pa.array(self._ranks.of(origins)), SHOWN: pa.array(shown, pa.string())}
                | keys
                | kept
            ),
            "refused": Tray.from_rows(fields, refused).to_arrow(),
        }

    def restore(self, state: State) -> None:
        self.account = Account.from_arrow(state["account"])
        clock = state["clock"].to_pylist()[0]
        self._reached, self._given = clock["reached"], clock["given"]
        self._before = clock.get(BEFORE, 0)
        self._due = None if clock["due"] == LATEST else clock["due"]
        fields = self._node.input.row_type
        self._refused, self._waiting = RefusedRows(), WaitingChanges()
        for timed in Tray.from_arrow(fields, state["refused"]).rows():
            if self._waits and not (self._limited and self._is_refused(timed.row)):
                self._waiting.add(self._key_of(timed.row), (timed.row, timed.opcode))
            else:
                self._refused.add(timed.row)
        table = state["groups"]
        keys = [
            Column.from_arrow(fields[index].type, table.column(f"key {at}")).to_list()
            for at, index in enumerate(self._node.keys)
        ]
        found = []
        for at, part in enumerate(table.to_pylist()):
            group = _Group(part[START], part[END], tuple(key[at] for key in keys), at)
            group.first = (part[ROWTIME], part[ORIGIN], part[COUNTER])
            group.rows, group.last = part[ROWS], part[LAST]
            if part[SHOWN] is not None:
                types = [each.call.type for each in self._calls]
                saved = json.loads(part[SHOWN])
                group.shown = tuple(from_json(of, value) for of, value in zip(types, saved, strict=True))
            for number, each in enumerate(self._calls):
                group.functions.append(each.function())
                from_text(group.functions[number], part[f"aggregate {number}"])
            if part[PENDING] >= 0:
                group.pending = part[PENDING]
                self._dirty[at] = group
            found.append(group)
        self._begun = len(found)
        self._held = sum(group.pending for group in found)
        self._groups = OrderedDict(
            ((self._at(group), group.key), group) for group in sorted(found, key=lambda each: each.last)
        )
        self._ends = [
            (group.end, group.number, place) for place, group in self._groups.items() if group.end != LATEST
        ]
        heapq.heapify(self._ends)

    @staticmethod
    def merge(states: Sequence[State]) -> State:
        # Groups of all parts, in the order in which they began.
        # A compiled part that continues row by row has the columns in another order.
        names = states[0]["groups"].column_names
        groups = pa.concat_tables([state["groups"].select(names) for state in states])
        order = pa.compute.sort_indices(
            groups, sort_keys=[(name, "ascending") for name in (ROWTIME, RANK, COUNTER, START)]
        )
        clocks = [state["clock"].to_pylist()[0] for state in states]
        return {
            "account": pa.concat_tables([state["account"] for state in states]),
            "clock": pa.table(
                {
                    "reached": [max(clock["reached"] for clock in clocks)],
                    "given": [merged_given(clocks)],
                    BEFORE: [0],
                    "due": [min(clock["due"] for clock in clocks)],
                }
            ),
            "groups": groups.take(order),
            "refused": pa.concat_tables([state["refused"] for state in states]),
        }

    @staticmethod
    def split(node: Node, state: State, parts: int) -> list[State]:
        (key,) = key_of(node)
        by_part = {
            "groups": parts_of_groups(node, state["groups"], parts),
            "refused": parts_of_rows(node.inputs[0].row_type, state["refused"], key, parts),
        }
        return [*split_state({**state, "clock": split_clock(state["clock"])}, by_part, parts)]


def _as_key(value: object) -> object:
    """Zero has no sign as a key."""
    return value + 0.0 if isinstance(value, float) else value


def _same(one: Row | None, other: Row | None) -> bool:
    """Return whether two results are the same, including the signs of zeros."""
    return one == other and (one is None or repr(one) == repr(other))
