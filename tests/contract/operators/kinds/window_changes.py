"""Windows over tables: every result of a partition is worked out again from the rows of its frame."""

from __future__ import annotations

from functools import cmp_to_key
from typing import Any, NamedTuple

from hypothesis import strategies as st

from contract.operators.changes_cases import changelog_items
from contract.operators.inputs import KEY_TYPES, Case, in_order, row_type_of
from contract.operators.model import Model, later
from rowtide.errors import Reason
from rowtide.expr.tree import FieldRef
from rowtide.operators.contract import OperatorSite
from rowtide.plan.frames import (
    CURRENT_ROW,
    UNBOUNDED_PRECEDING,
    Edge,
    EdgeUnit,
    Frame,
    FramedCall,
    WindowCall,
)
from rowtide.plan.nodes import Source
from rowtide.plan.nodes.changes.window_changes import SO_FAR, WindowChanges
from rowtide.rows.rowop import Opcode, Row, TimedRow
from rowtide.rows.types import BIGINT, BOOLEAN, Field, RowType
from rowtide.rowtime.bound import NO_BOUND, Bound

OWN, ORIGINS = 9 << 16, (6 << 16, 2 << 16)


class Line:
    """A row of the table. Two rows with equal values are two lines."""

    def __init__(self, row: Row) -> None:
        self.row = row


class Shown(NamedTuple):
    """A row of the table, and the row that is shown for it."""

    line: Line
    row: Row


class DoesNotFitError(Exception):
    """A sum is beyond its type."""


class WindowChangesModel(Model):
    """What is shown of a partition before and after the rows of one place."""

    def __init__(self, node: WindowChanges, _site: OperatorSite) -> None:
        super().__init__()
        self.node = node
        self.passed = NO_BOUND
        self.lines: dict[Row, list[Line]] = {}
        self.waits: dict[Row, list[tuple[Row, int]]] = {}
        self.coming: list[TimedRow] = []

    def row(self, port: int, timed: TimedRow) -> None:
        self.account.rows_in += 1
        if self.coming and self.coming[0][:3] != timed[:3]:
            self.settle()
        self.coming.append(timed)

    def bound(self, port: int, bound: Bound) -> None:
        self.settle()
        self.passed = later(self.passed, bound)

    def settle(self) -> None:
        """Apply the rows of a place, of which no more will come."""
        by_key: dict[Row, list[TimedRow]] = {}
        for timed in self.coming:
            by_key.setdefault(tuple(timed.row[at] for at in self.node.partition), []).append(timed)
        self.coming = []
        for key, changes in by_key.items():
            self.change(key, changes)

    def change(self, key: Row, changes: list[TimedRow]) -> None:
        before = self.shown(self.lines.get(key, []))
        taken = []
        for timed in changes:
            opposite = (timed.row, -timed.opcode)
            if opposite in self.waits.get(key, []):
                self.waits[key].remove(opposite)
            else:
                taken.append(timed)
        self.account.done += len(changes)
        if not taken:
            return
        fits = self.apply(key, [(each.row, each.opcode) for each in taken])
        if not fits:
            for timed in taken:
                if self.apply(key, [(timed.row, timed.opcode)]):
                    fits = True
                else:
                    self.account.done -= 1
                    self.tell(self.node.relation, Reason.OVERFLOW, timed)
                    self.waits.setdefault(key, []).append((timed.row, timed.opcode))
        if fits:
            self.let_in(key)
        self.compare(changes[0], before, self.shown(self.lines.get(key, [])))

    def let_in(self, key: Row) -> None:
        """Apply what waits: in turn as long as any fits, then all at once."""
        waits = self.waits.pop(key, [])
        while waits:
            rest = [each for each in waits if not self.apply(key, [each])]
            if len(rest) == len(waits):
                break
            waits = rest
        if waits and not (len(waits) > 1 and self.apply(key, waits)):
            self.waits[key] = waits

    def apply(self, key: Row, changes: list[tuple[Row, int]]) -> bool:
        """Apply changes of a partition, unless a result would not fit then."""
        lines = list(self.lines.get(key, []))
        for row, opcode in changes:
            if opcode == Opcode.INSERT:
                lines.append(Line(row))
            else:
                found = next((each for each in lines if each.row == row), None)
                if found is not None:
                    lines.remove(found)
        try:
            self.shown(lines)
        except DoesNotFitError:
            return False
        self.lines[key] = lines
        return True

    def compare(self, cause: TimedRow, before: list[Shown], after: list[Shown]) -> None:
        """Emit the rows that are deleted after a change, and those that are inserted."""
        was = {each.line: each.row for each in before}
        for line, row in before:
            if all(each.line is not line for each in after):
                self.give(cause._replace(opcode=Opcode.DELETE, row=row))
        for line, row in after:
            if line in was and repr(was[line]) == repr(row):
                continue
            if line in was:
                self.give(cause._replace(opcode=Opcode.DELETE, row=was[line]))
            self.give(cause._replace(opcode=Opcode.INSERT, row=row))

    def shown(self, lines: list[Line]) -> list[Shown]:
        """Return what is shown for the lines of a partition, in the order of the window."""
        lines = sorted(lines, key=cmp_to_key(self.order))
        rows = [line.row for line in lines]
        return [
            Shown(line, (*line.row, *(self.result(each, rows, at) for each in self.node.calls)))
            for at, line in enumerate(lines)
        ]

    def result(self, framed: FramedCall, rows: list[Row], at: int) -> object:
        call, frame = framed.call, framed.frame
        peers = [place for place, row in enumerate(rows) if self.by_keys(row, rows[at]) == 0]
        if call.function == "RANK":
            return peers[0] + 1
        if call.function == "DENSE_RANK":
            before = rows[: peers[0]]
            return 1 + sum(
                place == 0 or self.by_keys(row, before[place - 1]) != 0 for place, row in enumerate(before)
            )
        start = 0 if frame.start.unit is EdgeUnit.UNBOUNDED else at + frame.start.offset
        end = peers[-1] if frame.end.unit is EdgeUnit.RANGE else at + frame.end.offset
        inside = [row for place, row in enumerate(rows) if start <= place <= end]
        if call.function in ("LAG", "LEAD") and not inside:
            return None if call.default is None else rows[at][index_of(call.default)]
        if call.condition is not None:
            inside = [row for row in inside if row[index_of(call.condition)] is True]
        if call.argument is None:
            return len(inside)
        values: list[Any] = [row[index_of(call.argument)] for row in inside]
        if call.function in ("LAG", "LEAD", "FIRST_VALUE", "LAST_VALUE"):
            return values[-1 if call.function == "LAST_VALUE" else 0] if values else None
        values = [value for value in values if value is not None]
        if call.function == "COUNT":
            return len(values)
        if not values:
            return None
        if call.function == "SUM" and not -(2**63) <= sum(values) < 2**63:
            raise DoesNotFitError
        if call.function == "SUM":
            return sum(values)
        return min(values) if call.function == "MIN" else max(values)

    def order(self, one: Line, other: Line) -> int:
        """Return the order of two rows: by the keys, then by all fields."""
        by_keys = self.by_keys(one.row, other.row)
        return by_keys or next(
            (found for each in zip(one.row, other.row, strict=True) if (found := compared(*each))), 0
        )

    def by_keys(self, one: Row, other: Row) -> int:
        for index, descending in self.node.keys:
            found = compared(one[index], other[index])
            if found:
                return -found if descending else found
        return 0

    def promised(self) -> int:
        return self.passed.rowtime

    def promise(self) -> Bound:
        return self.passed


def compared(one: Any, other: Any) -> int:
    """Return -1, 0 or 1: NULL is the greatest value, also within an array."""
    if one is None or other is None:
        return (one is None) - (other is None)
    if isinstance(one, tuple):
        found = next((each for pair in zip(one, other, strict=False) if (each := compared(*pair))), 0)
        return found or compared(len(one), len(other))
    return int(one > other) - int(one < other)


def index_of(expr: object) -> int:
    assert isinstance(expr, FieldRef)
    return expr.index


def by_rows(offset: int) -> Edge:
    return Edge(EdgeUnit.ROWS, offset)


FRAMES = (
    SO_FAR,
    Frame(UNBOUNDED_PRECEDING, CURRENT_ROW),
    Frame(UNBOUNDED_PRECEDING, by_rows(-1)),
    Frame(UNBOUNDED_PRECEDING, by_rows(2)),
    Frame(by_rows(-1), by_rows(1)),
    Frame(by_rows(-2), by_rows(-1)),
    Frame(by_rows(1), by_rows(2)),
)


@st.composite
def window_changes(draw: st.DrawFn) -> Case:
    """A few calls over a few rows, of all or of each partition."""
    kinds = [draw(st.sampled_from(KEY_TYPES)) for _ in range(draw(st.integers(1, 2)))]
    fields = row_type_of([*kinds, BIGINT, BOOLEAN])
    number, truth = FieldRef(len(kinds), BIGINT), FieldRef(len(kinds) + 1, BOOLEAN)
    indices = list(draw(st.permutations(range(len(kinds) + 1))))
    partition = tuple(indices[: draw(st.integers(0, 1))])
    ordered = in_order([*kinds, BIGINT], indices[len(partition) :])[: draw(st.integers(0, 2))]
    keys = tuple((index, draw(st.booleans())) for index in ordered)

    def call() -> FramedCall:
        function = draw(st.sampled_from(("SUM", "COUNT", "MIN", "MAX", "FIRST_VALUE", "LAST_VALUE", "ANY")))
        if function != "ANY":
            of = FieldRef(0, kinds[0]) if function in ("FIRST_VALUE", "LAST_VALUE") else number
            condition = draw(st.sampled_from((None, truth))) if function in ("SUM", "COUNT") else None
            found = WindowCall(function, of, of.type, condition=condition)
            return FramedCall(found, draw(st.sampled_from(FRAMES)))
        function = draw(st.sampled_from(("LAG", "LEAD", "ROW_NUMBER", "RANK", "DENSE_RANK", "COUNT")))
        if function in ("LAG", "LEAD"):
            edge = by_rows(draw(st.integers(0, 2)) * (-1 if function == "LAG" else 1))
            default = draw(st.sampled_from((None, number)))
            return FramedCall(WindowCall(function, number, BIGINT, default=default), Frame(edge, edge))
        frame = draw(st.sampled_from(FRAMES)) if function == "COUNT" else Frame()
        return FramedCall(WindowCall(function, None, BIGINT), frame)

    calls = tuple(call() for _ in range(draw(st.integers(1, 3))))
    results = (Field(f"R{at}", each.call.type) for at, each in enumerate(calls))
    node = WindowChanges("T", Source("S", fields), partition, keys, calls, RowType((*fields, *results)))
    items = changelog_items(fields, ORIGINS, st.integers(-3, 6))
    return Case(node, OperatorSite(OWN, True, (ORIGINS,)), (draw(items),))


KIND, CASES, MODEL = WindowChanges, window_changes(), WindowChangesModel
