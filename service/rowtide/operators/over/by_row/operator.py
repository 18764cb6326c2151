"""Windowed aggregation: one output row for each input row, with results over a frame.

See docs/sql/semantics.md#offset-and-hopping-frames, #frames-of-window-functions.

Each partition holds the rows of its frame and those that are not in it yet. Both
edges only move forward, so each row enters and leaves once. If the frame may end
after the current row, rows wait in order of arrival until the bound, or the rows
of their partition, have completed the frame of the first.

A frame in time drops rows as the bound passes them, a frame of n rows keeps n rows
for each partition, one without a start keeps only running results. A partition of
a period of ROWTIME is dropped when the bound has left the period.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np
import pyarrow as pa

from rowtide.errors import RejectedRowError
from rowtide.expr.aggregates import aggregate_of
from rowtide.expr.tree import Expr, FieldRef
from rowtide.operators.aggregates.groups.value_functions import make_window_function
from rowtide.operators.aggregates.python_states import is_saved, take_back
from rowtide.operators.aggregates.row_functions import NOTHING, WindowFunction, check_finite
from rowtide.operators.aggregates.windows.sums import stored_type
from rowtide.operators.contract import Account, Fault, OperatorSite, State, StepOutput, Want
from rowtide.operators.faults import rejected
from rowtide.operators.merge.ranks import RANK, Ranks
from rowtide.operators.splitting import parts_of_groups, split_state
from rowtide.operators.storage.row_keys import key_getter
from rowtide.plan.frames import CURRENT_ROW, EdgeUnit, WindowCall
from rowtide.plan.nodes import Node, WindowAggregate
from rowtide.rows.column import Column
from rowtide.rows.rowop import Row, TimedRow
from rowtide.rows.tray import COUNTER, ROWTIME, Tray
from rowtide.rows.types import MAX_TIMESTAMP_MS, MIN_TIMESTAMP_MS, Type
from rowtide.rowtime.bound import NO_BOUND, UNMARKED, Bound
from rowtide.rowtime.period import Period, period_value, value_of
from rowtide.rowtime.reach import least_reaching

GROUP, ORDER = "$group", "$order"
NUMBER = "$number"
_RANKS = ("RANK", "DENSE_RANK")
_SHIFTS = ("LAG", "LEAD")

Values = tuple[Any, ...]
"""One value for each call."""
FrameEntry = tuple[int, Values]
"""The order of the window (ms), and the values of a row."""


@dataclass(slots=True, eq=False)
class _Group:
    """One partition. ``low`` is the number of the first row of the frame, ``high`` of the first after it."""

    key: Row
    functions: list[WindowFunction]
    inside: deque[FrameEntry] = field(default_factory=deque)
    ahead: deque[FrameEntry] = field(default_factory=deque)
    low: int = 0
    high: int = 0
    waiting: int = 0

    def enter(self, *, keep: bool) -> None:
        """Take the next row into the frame; ``keep``: it will leave again."""
        entry = self.ahead.popleft()
        for function, value in zip(self.functions, entry[1], strict=True):
            function.add(value)
        if keep:
            self.inside.append(entry)
        self.high += 1

    def leave(self) -> None:
        """Remove the first row of the frame."""
        entry = self.inside.popleft()
        for function, value in zip(self.functions, entry[1], strict=True):
            function.drop(value)
        self.low += 1


@dataclass(slots=True, eq=False)
class _Waiting:
    """A row with an incomplete frame: its place in time, its partition and its number there."""

    timed: TimedRow
    order: int
    group: _Group
    number: int


class OverOperator:
    """Plain Python, row by row; ``operators.over.compiled`` does the same, compiled."""

    def __init__(self, node: WindowAggregate, site: OperatorSite) -> None:
        self.account = Account()
        self._node = node
        self._frame = node.frame
        self._calls = node.calls
        self._endless = node.frame.start.unit is EdgeUnit.UNBOUNDED
        self._saves = self._endless or any(map(is_saved, self._functions()))
        self._to_current = node.frame.end == CURRENT_ROW
        self._ends_by_row = node.frame.end.unit is EdgeUnit.ROWS
        self._expires = node.frame.start.unit is EdgeUnit.RANGE
        # A frame that begins at the current row or after it needs no rows once no row waits.
        self._starts_behind = node.frame.start.unit is EdgeUnit.ROWS and node.frame.start.offset >= 0
        self._key = key_getter(node.partition)
        can_fail = [aggregate_of(call).can_fail for call in node.calls]
        self._fallible = [index for index, fails in enumerate(can_fail) if fails]
        self._infallible = [index for index, fails in enumerate(can_fail) if not fails]
        self._floats = [
            index
            for index, call in enumerate(node.calls)
            if aggregate_of(call).finite and (of := _argument_type(call)) and of.is_float
        ]
        self._defaults = [_field(call.default) for call in node.calls]
        self._groups: dict[Row, _Group] = {}
        self._arrived: deque[tuple[int, _Group]] = deque()
        self._pending: deque[_Waiting] = deque()
        self._snapped = MIN_TIMESTAMP_MS
        self._bound = NO_BOUND
        self._ranks = Ranks(origin for origins in site.port_origins for origin in origins)

    def step(self, port: int, tray: Tray | None, bound: Bound) -> StepOutput:
        """Port 0, rows in rowtime order."""
        faults: list[Fault] = []
        out: Tray | None = None
        if tray is not None and len(tray):
            self.account.rows_in += len(tray)
            # A row is also a bound: no earlier row follows.
            last = Bound(int(tray.rowtime[-1]), int(tray.origin[-1]), int(tray.counter[-1]) - 1)
            self._bound = self._bound.raised(last)
            if self._frame.waits:
                self._wait(tray, faults)
            else:
                out = self._at_once(tray, faults)
        self._bound = self._bound.raised(bound)
        if self._frame.waits:
            out = self._release(faults)
        if out is not None:
            self.account.done += len(out)
            self.account.rows_out += len(out)
        self._forget()
        return StepOutput(out, self._bound_out(), faults)

    def held(self) -> int:
        """Count the rows that wait for later rows."""
        return len(self._pending)

    def _bound_out(self) -> Bound:
        """Return the bound just before the first waiting row, or the bound of the input."""
        if not self._pending:
            return self._bound
        first = self._pending[0].timed
        return Bound(first.rowtime, first.origin, first.counter - 1)

    def wants(self, bound: int | None = None) -> Sequence[Want]:
        # A frame that ends a number of rows after its row waits for rows of its partition.
        waiting = self._waiting(bound)
        if bound is None:
            return [self._wanted(*waiting[0])] if waiting else []
        return [Want(0, bound), *({self._wanted(*each) for each in waiting})]

    def _waiting(self, bound: int | None) -> Sequence[tuple[int, int | None]]:
        """Return the order of the rows that wait before a bound, and the period of their partition.

        None: of the first waiting row.
        """
        snap = self._node.snap
        first = [self._pending[0]] if bound is None and self._pending else self._pending
        return [
            (each.order, None if snap is None else cast("int", each.group.key[snap[0]]))
            for each in first
            if bound is None or each.timed.rowtime < bound
        ]

    def _wanted(self, order: int, period: int | None) -> Want:
        """Return the need that completes the frame of a row."""
        snap, end = self._node.snap, self._frame.end
        over = None if snap is None or period is None else _passing(snap[1], period)
        if self._ends_by_row:
            return Want(0, over)
        complete = _passing(self._node.order, order + end.offset)
        return Want(0, complete if over is None else min(over, complete))

    # ----------------------------------------------------------------- rows

    def _at_once(self, tray: Tray, faults: list[Fault]) -> Tray | None:
        """Return the rows of a tray, if no frame ends after its row."""
        results: list[list[object]] = []
        refused: list[int] = []
        keys, entries = self._entries(tray)
        defaults = self._default_columns(tray)
        for row, (key, entry) in enumerate(zip(keys, entries, strict=True)):
            group = self._groups.get(key)
            if group is None:
                group = self._begin(key)
            try:
                self._check_finite(entry[1])
                found = self._next(group, entry)
            except RejectedRowError as error:
                self._drop_if_empty(group)
                refused.append(row)
                faults.append(self._fault(error, next(tray.slice(row, row + 1).rows())))
                continue
            if self._expires:
                self._arrived.append((entry[0], group))
            for index, column in defaults:
                if found[index] is NOTHING:
                    found[index] = None if column is None else column[row]
            results.append(found)
        self.account.rejected += len(refused)
        if refused:
            tray = tray.take(np.delete(np.arange(len(tray), dtype=np.int64), refused))
        if not results:
            return None
        columns = [
            Column.from_values(call.type, values)
            for call, values in zip(self._calls, zip(*results, strict=True), strict=True)
        ]
        return tray.with_columns(self._node.row_type, (*tray.columns, *columns))

    def _next(self, group: _Group, entry: FrameEntry) -> list[object]:
        """Return the results for a new row, and keep it for later ones unless it is refused."""
        number = group.high + len(group.ahead)
        if not self._to_current:
            found = self._results(group, entry[0], number)
            group.ahead.append(entry)
            return found
        self._let_go(group, entry[0], number)
        functions, values = group.functions, entry[1]
        found = [None] * len(functions)
        for index in self._fallible:
            functions[index].add(values[index])
            try:
                found[index] = functions[index].result()
            except RejectedRowError:
                for taken in self._fallible[: self._fallible.index(index) + 1]:
                    take_back(functions[taken], values[taken])
                raise
        for index in self._infallible:
            functions[index].add(values[index])
            found[index] = functions[index].result()
        if not self._endless:
            group.inside.append(entry)
        group.high += 1
        return found

    def _results(self, group: _Group, order: int, number: int) -> list[object]:
        """Move the frame to row ``number`` of its partition and return the results there."""
        end = self._frame.end
        keep = not self._endless
        if self._ends_by_row:
            while group.ahead and group.high <= number + end.offset:
                group.enter(keep=keep)
        else:
            while group.ahead and group.ahead[0][0] <= order + end.offset:
                group.enter(keep=keep)
        self._let_go(group, order, number)
        return [function.result() for function in group.functions]

    def _let_go(self, group: _Group, order: int, number: int) -> None:
        """Drop the rows before the frame of row ``number``."""
        start = self._frame.start
        if start.unit is EdgeUnit.ROWS:
            while group.inside and group.low < number + start.offset:
                group.leave()
        elif start.unit is EdgeUnit.RANGE:
            least = order + start.offset
            while group.inside and group.inside[0][0] < least:
                group.leave()

    def _wait(self, tray: Tray, faults: list[Fault]) -> None:
        """Add the rows of a tray to the waiting rows."""
        keys, entries = self._entries(tray)
        for key, entry, timed in zip(keys, entries, tray.rows(), strict=True):
            try:
                self._check_finite(entry[1])
            except RejectedRowError as error:
                self.account.rejected += 1
                faults.append(self._fault(error, timed))
                continue
            group = self._groups.get(key)
            if group is None:
                group = self._begin(key)
            number = group.high + len(group.ahead)
            group.ahead.append(entry)
            group.waiting += 1
            self._pending.append(_Waiting(timed, entry[0], group, number))
            if self._expires:
                self._arrived.append((entry[0], group))

    def _release(self, faults: list[Fault]) -> Tray | None:
        """Remove and return the rows with complete frames, in order of arrival."""
        out: list[TimedRow] = []
        over = self._bound.rowtime > MAX_TIMESTAMP_MS
        reached = self._of_bound(self._node.order)
        end = self._frame.end
        while self._pending:
            first = self._pending[0]
            group = first.group
            if self._ends_by_row:
                complete = group.high + len(group.ahead) > first.number + end.offset
            else:
                complete = reached > first.order + end.offset
            if not complete and not over and not self._has_ended(group):
                break
            self._pending.popleft()
            group.waiting -= 1
            try:
                found = self._results(group, first.order, first.number)
            except RejectedRowError as error:
                self.account.rejected += 1
                faults.append(self._fault(error, first.timed))
            else:
                row = first.timed.row
                for index, default in enumerate(self._defaults):
                    if found[index] is NOTHING:
                        found[index] = None if default is None else row[default]
                out.append(first.timed._replace(row=(*row, *found)))
            self._drop_if_empty(group)
        return Tray.from_rows(self._node.row_type, out) if out else None

    def _has_ended(self, group: _Group) -> bool:
        """Return whether no row can come to a partition any more: it is one of a period that is over."""
        snap = self._node.snap
        return snap is not None and group.key[snap[0]] < self._of_bound(snap[1])  # type: ignore[operator]

    def _forget(self) -> None:
        """Drop the rows that are in no frame of a later row, and partitions without other rows."""
        snap = self._node.snap
        if snap is not None and self._of_bound(snap[1]) > self._snapped:
            self._snapped = self._of_bound(snap[1])
            kept = (group for group in self._groups.values() if group.waiting or not self._has_ended(group))
            self._groups = {group.key: group for group in kept}
        if not self._arrived:
            return
        first = self._pending[0].order if self._pending else self._of_bound(self._node.order)
        least = first + self._frame.start.offset
        while self._arrived and self._arrived[0][0] < least:
            group = self._arrived.popleft()[1]
            while group.inside and group.inside[0][0] < least:
                group.leave()
            while not group.inside and group.ahead and group.ahead[0][0] < least:
                group.ahead.popleft()
                group.low += 1
                group.high += 1
            self._drop_if_empty(group)

    def _drop_if_empty(self, group: _Group) -> None:
        """Drop a partition that equals a new one."""
        if self._endless or group.waiting or self._groups.get(group.key) is not group:
            return
        if self._starts_behind or not (group.inside or group.ahead):
            del self._groups[group.key]

    # -------------------------------------------------------------- entries

    def _entries(self, tray: Tray) -> tuple[list[Row], list[FrameEntry]]:
        """Return for each row of a tray its partition and its entry."""
        count = len(tray)
        keys = list(zip(*(tray.columns[index].to_list() for index in self._node.partition), strict=True))
        if not self._node.partition:
            keys = [()] * count
        order = period_value(self._node.order, tray.rowtime).tolist()
        values = [self._values(call, tray, order) for call in self._calls]
        return keys, list(zip(order, zip(*values, strict=True), strict=True))

    def _values(self, call: WindowCall, tray: Tray, order: list[int]) -> list[Any]:
        argument, condition = _field(call.argument), _field(call.condition)
        if call.function in _RANKS:
            return order
        found = [True] * len(tray) if argument is None else tray.columns[argument].to_list()
        if condition is not None:
            wanted = tray.columns[condition].to_list()
            found = [value if use else None for value, use in zip(found, wanted, strict=True)]
        return found

    def _default_columns(self, tray: Tray) -> list[tuple[int, list[object] | None]]:
        """Return the defaults of the calls that may find no row."""
        return [
            (index, None if default is None else tray.columns[default].to_list())
            for index, default in enumerate(self._defaults)
            if self._calls[index].function in _SHIFTS
        ]

    def _check_finite(self, values: Values) -> None:
        for index in self._floats:
            check_finite(values[index])

    def _begin(self, key: Row) -> _Group:
        group = _Group(key, self._functions())
        self._groups[key] = group
        return group

    def _functions(self) -> list[WindowFunction]:
        return [make_window_function(call, endless=self._endless) for call in self._calls]

    def _of_bound(self, period: Period) -> int:
        """Return the least period that a row to come can be in."""
        at = min(max(self._bound.rowtime, MIN_TIMESTAMP_MS), MAX_TIMESTAMP_MS)
        return value_of(period, at)

    def _fault(self, error: RejectedRowError, timed: TimedRow) -> Fault:
        names = self._node.input.row_type.names
        return rejected(self._node.relation, error.reason, error.message, timed, names)

    # ------------------------------------------------------------- snapshot

    def snapshot(self) -> State:
        # One row for each partition, and one for each row that a partition keeps.
        groups = list(self._groups.values())
        numbers = {id(group): number for number, group in enumerate(groups)}
        entries = [
            (number, *entry) for number, group in enumerate(groups) for entry in (*group.inside, *group.ahead)
        ]
        saved = [self._saved(group) for group in groups]
        keys = {
            f"key {index}": Column.from_values(
                self._node.input.row_type[position].type, (group.key[index] for group in groups)
            ).to_arrow()
            for index, position in enumerate(self._node.partition)
        }
        values = {
            f"value {index}": Column.from_values(of, (entry[2][index] for entry in entries)).to_arrow()
            for index, of in enumerate(map(stored_type, self._calls))
        }
        pending = Tray.from_rows(self._node.input.row_type, (waiting.timed for waiting in self._pending))
        return {
            "account": self.account.to_arrow(),
            "bounds": self._bounds(),
            "groups": pa.table(
                {
                    **keys,
                    "low": _whole(group.low for group in groups),
                    "high": _whole(group.high for group in groups),
                    "inside": _whole(len(group.inside) for group in groups),
                    "saved": pa.array(saved, type=pa.string()),
                }
            ),
            "entries": pa.table(
                {
                    GROUP: _whole(entry[0] for entry in entries),
                    ORDER: _whole(entry[1] for entry in entries),
                    **values,
                }
            ),
            "pending": pending.to_arrow()
            .append_column(RANK, pa.array(self._ranks.of(pending.origin)))
            .append_column(NUMBER, _whole(waiting.number for waiting in self._pending))
            .append_column(GROUP, _whole(numbers[id(waiting.group)] for waiting in self._pending)),
        }

    def _saved(self, group: _Group) -> str:
        """Return the states of a partition's functions; those that its rows determine are left out."""
        if not self._saves:
            return ""
        functions = group.functions
        return json.dumps([each.save() if self._endless or is_saved(each) else None for each in functions])

    def _bounds(self) -> pa.Table:
        bound = self._bound
        rank = self._ranks.of_origin.get(bound.origin, UNMARKED)
        columns = {"rowtime": bound.rowtime, "origin": bound.origin, "counter": bound.counter, RANK: rank}
        return pa.table({name: _whole([value]) for name, value in columns.items()})

    def restore(self, state: State) -> None:
        self.account = Account.from_arrow(state["account"])
        (clock,) = state["bounds"].to_pylist()
        self._bound = Bound(clock["rowtime"], clock["origin"], clock["counter"])
        groups = [self._group_of(row) for row in self._saved_groups(state["groups"])]
        self._groups = {group.key: group for group in groups}
        table = state["entries"]
        values = [
            Column.from_arrow(of, table.column(f"value {index}")).to_list()
            for index, of in enumerate(map(stored_type, self._calls))
        ]
        entries = zip(table.column(ORDER).to_pylist(), zip(*values, strict=True), strict=True)
        places = table.column(GROUP).to_pylist()
        if self._expires:
            self._arrived.extend(
                sorted(
                    (
                        (order, groups[at])
                        for order, at in zip(table.column(ORDER).to_pylist(), places, strict=True)
                    ),
                    key=lambda each: each[0],
                )
            )
        for at, entry in zip(places, entries, strict=True):
            groups[at].ahead.append(entry)
        inside, saved = (state["groups"].column(name).to_pylist() for name in ("inside", "saved"))
        for group, entered, text in zip(groups, inside, saved, strict=True):
            high = group.high
            for _ in range(entered):
                group.enter(keep=True)
            group.high = high
            for function, held in zip(group.functions, json.loads(text) if text else [], strict=False):
                if held is not None:
                    function.load(held)
        pending = state["pending"]
        rows = Tray.from_arrow(self._node.input.row_type, pending)
        order = period_value(self._node.order, rows.rowtime).tolist()
        numbers, at_groups = pending.column(NUMBER).to_pylist(), pending.column(GROUP).to_pylist()
        for timed, at, number, place in zip(rows.rows(), order, numbers, at_groups, strict=True):
            groups[place].waiting += 1
            self._pending.append(_Waiting(timed, at, groups[place], number))

    def _saved_groups(self, table: pa.Table) -> Iterable[tuple[Row, int, int]]:
        """Return key, low and high of each partition."""
        keys = [
            Column.from_arrow(
                self._node.input.row_type[position].type, table.column(f"key {index}")
            ).to_list()
            for index, position in enumerate(self._node.partition)
        ]
        low, high = (table.column(name).to_pylist() for name in ("low", "high"))
        listed = zip(*keys, strict=True) if keys else [()] * len(table)
        return zip(listed, low, high, strict=True)

    def _group_of(self, row: tuple[Row, int, int]) -> _Group:
        key, low, high = row
        return _Group(key, self._functions(), low=low, high=high)

    @staticmethod
    def merge(states: Sequence[State]) -> State:
        """Partitions of all parts; rows that wait, in order of time."""
        merged: dict[str, pa.Table] = {}
        starts = np.cumsum([0, *(len(state["groups"]) for state in states)]).tolist()
        for name in ("entries", "pending"):
            parts = []
            for state, start in zip(states, starts, strict=False):
                table = state[name]
                moved = _whole(at + start for at in table.column(GROUP).to_pylist())
                parts.append(table.set_column(table.schema.get_field_index(GROUP), GROUP, moved))
            merged[name] = pa.concat_tables(parts)
        order = [(column, "ascending") for column in (ROWTIME, RANK, COUNTER)]
        merged["pending"] = merged["pending"].sort_by(order)
        for name in ("account", "groups"):
            merged[name] = pa.concat_tables([state[name] for state in states])
        # All parts have rows of one stream, so the highest bound is valid.
        bounds = pa.concat_tables([state["bounds"] for state in states])
        merged["bounds"] = bounds.sort_by([(name, "ascending") for name in ("rowtime", RANK, "counter")])[-1:]
        return merged

    @staticmethod
    def split(node: Node, state: State, parts: int) -> list[State]:
        """Split the partitions; rows that wait keep their order, and partitions are numbered again."""
        home = parts_of_groups(node, state["groups"], parts)
        number = np.empty(len(home), dtype=np.int64)
        for part in range(parts):
            mine = home == part
            number[mine] = np.arange(np.count_nonzero(mine))
        moved = {**state}
        by_part = {"groups": home}
        for name in ("entries", "pending"):
            table = state[name]
            of = np.asarray(table.column(GROUP))
            by_part[name] = home[of]
            moved[name] = table.set_column(table.schema.get_field_index(GROUP), GROUP, pa.array(number[of]))
        return [*split_state(moved, by_part, parts)]


def _passing(period: Period, value: int) -> int:
    """Return the least bound (ms) after which no row is in a period named ``value`` or before it."""
    return least_reaching(lambda rowtime: value_of(period, rowtime), value + 1)


def _field(expr: Expr | None) -> int | None:
    """Return the field that an argument is: a Project below has computed it."""
    return expr.index if isinstance(expr, FieldRef) else None


def _argument_type(call: WindowCall) -> Type | None:
    return None if call.argument is None else call.argument.type


def _whole(values: Iterable[int]) -> pa.Array:
    return pa.array(list(values), type=pa.int64())
