"""Windows of OVER over a table: each change of its rows computes the results again that it may change.

Plain Python. Where all frames have a start and an end, these are those of the rows nearby, and otherwise those from the
change on. The rows of one place are applied together, so no state between a DELETE and its INSERT is computed
(docs/decisions/0028-an-update-is-one-change.md). Rows that are equal in the order of the window are in the order of
their fields, so results depend on the rows alone, not on how they came.
"""

from __future__ import annotations

import sys
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby
from math import copysign
from operator import attrgetter, is_, itemgetter
from typing import Any

import pyarrow as pa

from rowtide.errors import RejectedRowError
from rowtide.expr.aggregates import aggregate_of
from rowtide.expr.tree import Expr, FieldRef
from rowtide.operators.aggregates.groups.value_functions import make_window_function
from rowtide.operators.aggregates.row_functions import NOTHING, check_finite, one_nan, value_order
from rowtide.operators.at_once import AtOnce
from rowtide.operators.contract import Account, Fault, OperatorSite, State
from rowtide.operators.faults import rejected
from rowtide.operators.storage.row_keys import key_getter, sort_part
from rowtide.operators.table.refused import WaitingChange, WaitingChanges
from rowtide.plan.frames import EdgeUnit, FramedCall
from rowtide.plan.nodes.changes.window_changes import WindowChanges
from rowtide.rows.rowop import Opcode, Row, TimedRow
from rowtide.rows.tray import Tray

_PLACE_IN_TIME = itemgetter(0, 1, 2)
_PLACE = attrgetter("place")
_RANKS = ("RANK", "DENSE_RANK")


@dataclass(frozen=True, slots=True, eq=False)
class _Entry:
    """A row of a partition, and its place in the window: what it is ordered by, then its fields."""

    place: tuple[tuple[object, ...], tuple[object, ...]]
    row: Row


@dataclass(frozen=True, slots=True)
class _Partition:
    """The rows of a partition in the order of the window, and the row that is given for each."""

    entries: Sequence[_Entry] = ()
    given: Sequence[Row] = ()

    def between(self, first: int, rest: int) -> list[tuple[_Entry, Row]]:
        """Return the rows after the ``first`` and before the last ``rest``, each with what is given for it."""
        inside = slice(first, len(self.entries) - rest)
        return list(zip(self.entries[inside], self.given[inside], strict=True))


_EMPTY = _Partition()


class WindowChangesOperator(AtOnce):
    """All rows in a sorted list for each partition."""

    def __init__(self, node: WindowChanges, _site: OperatorSite) -> None:
        super().__init__()
        self._node = node
        self._key = key_getter(node.partition)
        self._calls = [_Call(each) for each in node.calls]
        self._ahead = max(each.ahead for each in self._calls)
        self._behind = max(each.behind for each in self._calls)
        self._of_peers = any(each.of_peers for each in self._calls)
        self._floats = [at for at, field in enumerate(node.row_type) if field.type.is_float]
        self._has_floats = any(field.type.is_float for field in node.input.row_type)
        self._partitions: dict[Row, _Partition] = {}
        self._waiting = WaitingChanges()

    def _take(self, tray: Tray, faults: list[Fault]) -> Tray | None:
        out: list[TimedRow] = []
        for _, rows in groupby(tray.rows(), _PLACE_IN_TIME):
            by_key: dict[Row, list[TimedRow]] = {}
            for timed in map(self._with_one_nan, rows):
                by_key.setdefault(self._key(timed.row), []).append(timed)
            for key, changes in by_key.items():
                self._change(key, changes, out, faults)
        return Tray.from_rows(self._node.row_type, out) if out else None

    def _with_one_nan(self, timed: TimedRow) -> TimedRow:
        """Return a row in which every NaN is the same object, so that equal rows are found."""
        return timed._replace(row=tuple(map(one_nan, timed.row))) if self._has_floats else timed

    def _change(
        self, key: Row, changes: Sequence[TimedRow], out: list[TimedRow], faults: list[Fault]
    ) -> None:
        """Apply the changes that one place has for a partition, and emit what changes of its results."""
        before = now = self._partitions.get(key, _EMPTY)
        changes = [
            each
            for each in changes
            if each.opcode != Opcode.NOP and not self._waiting.cancel(key, each.row, each.opcode)
        ]
        if not changes:
            return
        try:
            now = self._after(before, [(each.row, each.opcode) for each in changes])
        except RejectedRowError:
            for each in changes:
                try:
                    now = self._after(now, [(each.row, each.opcode)])
                except RejectedRowError as error:
                    self._waiting.add(key, (each.row, each.opcode))
                    names = self._node.input.row_type.names
                    faults.append(rejected(self._node.relation, error.reason, error.message, each, names))
        if key in self._waiting and now is not before:
            now = self._let_in(key, now)
        self._emit(changes, before, now, out)
        if now.entries:
            self._partitions[key] = now
        else:
            self._partitions.pop(key, None)

    def _let_in(self, key: Row, now: _Partition) -> _Partition:
        """Apply earlier changes that now fit: in their order, or all at once."""

        def applied(change: WaitingChange) -> bool:
            nonlocal now
            try:
                now = self._after(now, [change])
            except RejectedRowError:
                return False
            return True

        waiting = self._waiting.apply(key, applied)
        if len(waiting) > 1:
            try:
                now = self._after(now, waiting)
            except RejectedRowError:
                return now
            self._waiting.forget(key)
        return now

    def _after(self, partition: _Partition, changes: Iterable[WaitingChange]) -> _Partition:
        """Return a partition after changes of it.

        Raises:
          RejectedRowError: a call has no result for it.
        """
        entries = list(partition.entries)
        # So many rows at the beginning and at the end are those of before.
        first = rest = len(entries)
        for row, opcode in changes:
            entry = self._entry(row)
            if opcode == Opcode.INSERT:
                at = bisect_right(entries, entry.place, key=_PLACE)
                entries.insert(at, entry)
                first, rest = min(first, at), min(rest, len(entries) - at - 1)
                continue
            at = bisect_left(entries, entry.place, key=_PLACE)
            if at < len(entries) and entries[at].row == row:
                del entries[at]
                first, rest = min(first, at), min(rest, len(entries) - at)
        if first + rest > len(entries):
            return _Partition(entries, partition.given)
        return _Partition(entries, self._given(entries, partition.given, first, rest))

    def _entry(self, row: Row) -> _Entry:
        order = tuple(sort_part(row[index], descending=descending) for index, descending in self._node.keys)
        return _Entry((order, tuple(map(value_order, row))), row)

    def _given(
        self, entries: Sequence[_Entry], before: Sequence[Row] = (), first: int = 0, rest: int = 0
    ) -> list[Row]:
        """Return the row with its results for each row of a partition.

        ``before`` are those before a change that left so many ``first`` rows and the ``rest`` at the end alone.
        """
        low, high = max(0, first - self._ahead), min(len(entries), len(entries) - rest + self._behind)
        peers: Sequence[int] = ()
        if self._of_peers:
            peers = _last_peers(entries)
        if self._of_peers and first:
            # The row before the change may be a peer of what has changed.
            low = min(low, bisect_left(entries, entries[first - 1].place[0], key=_order))
        results = zip(*(call.results(entries, peers, low, high) for call in self._calls), strict=True)
        found = ((*entry.row, *each) for entry, each in zip(entries[low:high], results, strict=True))
        return [*before[:low], *found, *before[len(before) - len(entries) + high :]]

    def _emit(
        self, changes: Sequence[TimedRow], before: _Partition, now: _Partition, out: list[TimedRow]
    ) -> None:
        """Emit the differences between two states of a partition."""
        if now is before:
            return
        cause = changes[0]
        first = _alike(before.given, now.given)
        rest = _alike(before.given[first:][::-1], now.given[first:][::-1])
        left, come = before.between(first, rest), now.between(first, rest)
        was = {id(entry): row for entry, row in left}
        stays = {id(entry) for entry, _ in come}
        for entry, row in left:
            if id(entry) not in stays:
                out.append(cause._replace(opcode=Opcode.DELETE, row=row))
        for entry, row in come:
            old = was.get(id(entry))
            if old is not None:
                if self._are_same(old, row):
                    continue
                out.append(cause._replace(opcode=Opcode.DELETE, row=old))
            out.append(cause._replace(opcode=Opcode.INSERT, row=row))

    def _are_same(self, one: Row, other: Row) -> bool:
        """Return whether two rows are the same, including the signs of zeros."""
        return one == other and all(_sign(one[at]) == _sign(other[at]) for at in self._floats)

    def snapshot(self) -> State:
        """``rows`` are those of all partitions, ``waiting`` the changes that do not fit yet."""
        rows = (entry.row for each in self._partitions.values() for entry in each.entries)
        return {
            "account": self.account.to_arrow(),
            "rows": self._saved((row, Opcode.INSERT) for row in rows),
            "waiting": self._saved(self._waiting),
        }

    def _saved(self, changes: Iterable[WaitingChange]) -> pa.Table:
        rows = [TimedRow(0, 0, 0, opcode, row) for row, opcode in changes]
        return Tray.from_rows(self._node.input.row_type, rows).to_arrow()

    def _loaded(self, table: pa.Table) -> Iterable[TimedRow]:
        return map(self._with_one_nan, Tray.from_arrow(self._node.input.row_type, table).rows())

    def restore(self, state: State) -> None:
        self.account = Account.from_arrow(state["account"])
        self._waiting = WaitingChanges()
        for timed in self._loaded(state["waiting"]):
            self._waiting.add(self._key(timed.row), (timed.row, timed.opcode))
        found: dict[Row, list[_Entry]] = {}
        for timed in self._loaded(state["rows"]):
            found.setdefault(self._key(timed.row), []).append(self._entry(timed.row))
        self._partitions = {}
        for key, entries in found.items():
            entries.sort(key=_PLACE)
            self._partitions[key] = _Partition(entries, self._given(entries))


class _Call:
    """A call over the frames of a partition's rows."""

    def __init__(self, of: FramedCall) -> None:
        self._call, self._frame = of.call, of.frame
        self._argument = _field(of.call.argument)
        self._condition = _field(of.call.condition)
        self._default = _field(of.call.default)
        argument, aggregate = of.call.argument, aggregate_of(of.call)
        self._is_finite = argument is not None and argument.type.is_float and aggregate.finite
        start, end = of.frame.start, of.frame.end
        self._endless = start.unit is EdgeUnit.UNBOUNDED
        # The state of a class in Python, and of a sketch, may depend on values that have left.
        self._remembers = self._endless or of.call.of is not None or aggregate.sketch is not None
        self.ahead = max(0, end.offset)
        self.behind = sys.maxsize if self._remembers else max(0, -start.offset)
        self.of_peers = end.unit is EdgeUnit.RANGE or of.call.function in _RANKS

    def results(self, entries: Sequence[_Entry], peers: Sequence[int], low: int, high: int) -> list[object]:
        """Return the results for the rows from ``low`` to before ``high``.

        ``peers`` has the place of the last peer of each row, if the call is ``of_peers``.

        Raises:
          RejectedRowError: a row has no result.
        """
        start, end = self._frame.start, self._frame.end
        first = 0 if self._remembers else max(0, low - self.behind)
        stop = len(entries) if end.unit is EdgeUnit.RANGE else min(len(entries), high + self.ahead)
        values = self._values([entry.row for entry in entries[first:stop]], peers[first:stop])
        function = make_window_function(self._call, endless=self._endless)
        found: list[object] = []
        result: object = NOTHING
        dropped = added = first
        moved = True
        for at in range(low, high):
            last = at + end.offset if end.unit is EdgeUnit.ROWS else peers[at]
            while added <= min(last, stop - 1):
                function.add(values[added - first])
                added, moved = added + 1, True
            while not self._endless and dropped < min(at + start.offset, added):
                function.drop(values[dropped - first])
                dropped, moved = dropped + 1, True
            if moved:
                result, moved = one_nan(function.result()), False
            found.append(self._instead(entries[at].row) if result is NOTHING else result)
        return found

    def _values(self, rows: Sequence[Row], peers: Sequence[int]) -> Sequence[Any]:
        if self._call.function in _RANKS:
            return peers
        found: list[Any] = [True if self._argument is None else row[self._argument] for row in rows]
        if self._condition is not None:
            uses = (row[self._condition] for row in rows)
            found = [value if use else None for value, use in zip(found, uses, strict=True)]
        if self._is_finite:
            for value in found:
                check_finite(value)
        return found

    def _instead(self, row: Row) -> object:
        """Return what LAG and LEAD are where the row that they read does not exist."""
        return None if self._default is None else row[self._default]


def _order(entry: _Entry) -> tuple[object, ...]:
    return entry.place[0]


def _alike(one: Sequence[Row], other: Sequence[Row]) -> int:
    """Return how many rows two sequences begin with that are the same objects."""
    return [*map(is_, one, other), False].index(False)


def _last_peers(entries: Sequence[_Entry]) -> list[int]:
    """Return for each row the place of the last one that is equal in the order of the window."""
    found = [0] * len(entries)
    last = len(entries) - 1
    for at in range(len(entries) - 1, -1, -1):
        if entries[at].place[0] != entries[last].place[0]:
            last = at
        found[at] = last
    return found


def _field(expr: Expr | None) -> int | None:
    """Return the field that an argument is: a Project below has computed it."""
    return expr.index if isinstance(expr, FieldRef) else None


def _sign(value: object) -> float:
    return copysign(1.0, value) if isinstance(value, float) else 0.0
