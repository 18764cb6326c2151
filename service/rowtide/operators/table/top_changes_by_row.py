"""The first rows of a table, and how they change, row by row, in plain Python.

It is the reference of the compiled form, and runs if rows are ordered by text or have wide decimals
(``Node.form``).
"""

from __future__ import annotations

from bisect import bisect_left, insort_right
from itertools import zip_longest
from operator import itemgetter

from rowtide.operators.at_once import AtOnce
from rowtide.operators.contract import Account, Fault, OperatorSite, State
from rowtide.operators.storage.row_keys import key_getter, sort_part
from rowtide.plan.nodes import NumberedChanges, TopChanges
from rowtide.rows.rowop import Opcode, Row, TimedRow
from rowtide.rows.tray import Tray

_Entry = tuple[tuple[object, ...], int, Row]
"""The sort key of a row, its number in order of arrival (below 0 if the newest is first), and the row."""


class TopChangesByRow(AtOnce):
    """All rows in a sorted list for each partition; plain Python, row by row."""

    def __init__(self, node: TopChanges, _site: OperatorSite) -> None:
        super().__init__()
        self._node = node
        self._partition = key_getter(node.partition)
        self._end = None if node.limit is None else node.offset + node.limit
        self._is_numbered = isinstance(node, NumberedChanges)
        # A row that is pushed out can come back only if rows are deleted.
        self._stays = node.input.only_inserts()
        self._lists: dict[Row, list[_Entry]] = {}
        self._came = 0
        self._newest_first = node.newest_first

    def _take(self, tray: Tray, faults: list[Fault]) -> Tray | None:
        out: list[TimedRow] = []
        for timed in tray.rows():
            if timed.opcode == Opcode.INSERT:
                self._enter(timed, out)
            elif timed.opcode == Opcode.DELETE:
                self._leave(timed, out)
        return Tray.from_rows(self._node.row_type, out) if out else None

    def snapshot(self) -> State:
        """``rows`` are all rows, in the order in which they came."""
        entries = sorted(
            (entry for each in self._lists.values() for entry in each), key=lambda each: abs(each[1])
        )
        rows = [TimedRow(0, 0, 0, Opcode.INSERT, row) for _, _, row in entries]
        return {
            "account": self.account.to_arrow(),
            "rows": Tray.from_rows(self._node.input.row_type, rows).to_arrow(),
        }

    def restore(self, state: State) -> None:
        self.account = Account.from_arrow(state["account"])
        for timed in Tray.from_arrow(self._node.input.row_type, state["rows"]).rows():
            self._enter(timed, [])

    def _sort_key(self, row: Row) -> tuple[object, ...]:
        return tuple(sort_part(row[index], descending=descending) for index, descending in self._node.keys)

    def _enter(self, timed: TimedRow, out: list[TimedRow]) -> None:
        held = self._lists.setdefault(self._partition(timed.row), [])
        self._came += 1
        entry = (self._sort_key(timed.row), -self._came if self._newest_first else self._came, timed.row)
        before = self._numbered(held)
        at = bisect_left(held, entry[:2], key=_place)
        insort_right(held, entry, key=_place)
        last = None if self._end is None or len(held) <= self._end else held[self._end][2]
        first = max(at, self._node.offset)
        if self._is_numbered:
            self._tell_each(timed, before, self._numbered(held), out)
        elif (self._end is None or at < self._end) and first < len(held):
            self._tell(timed, last, held[first][2], out)
        if self._stays and self._end is not None:
            del held[self._end :]

    def _leave(self, timed: TimedRow, out: list[TimedRow]) -> None:
        partition = self._partition(timed.row)
        held = self._lists.get(partition, [])
        at = bisect_left(held, self._sort_key(timed.row), key=itemgetter(0))
        while at < len(held) and held[at][2] != timed.row:
            at += 1
        if at == len(held):
            return
        first = max(at, self._node.offset)
        gone = held[first][2] if first < len(held) else None
        comes = None if self._end is None or len(held) <= self._end else held[self._end][2]
        before = self._numbered(held)
        del held[at]
        if not held:
            del self._lists[partition]
        if self._is_numbered:
            self._tell_each(timed, before, self._numbered(held), out)
        elif gone is not None and (self._end is None or at < self._end):
            self._tell(timed, gone, comes, out)

    def _numbered(self, held: list[_Entry]) -> list[Row]:
        """Return the first rows, with their numbers if these are selected."""
        first = self._node.offset
        if not self._is_numbered:
            return []
        return [(*row, number) for number, (_, _, row) in enumerate(held[first : self._end], first + 1)]

    def _tell_each(self, cause: TimedRow, before: list[Row], after: list[Row], out: list[TimedRow]) -> None:
        for gone, comes in zip_longest(before, after):
            self._tell(cause, gone, comes, out)

    def _tell(self, cause: TimedRow, gone: Row | None, comes: Row | None, out: list[TimedRow]) -> None:
        """Emit DELETE of the row that leaves and INSERT of the one that enters, unless they are equal."""
        if gone == comes:
            return
        if gone is not None:
            out.append(cause._replace(opcode=Opcode.DELETE, row=gone))
        if comes is not None:
            out.append(cause._replace(opcode=Opcode.INSERT, row=comes))


def _place(entry: _Entry) -> tuple[tuple[object, ...], int]:
    return entry[:2]
