"""What the first rows of a table are: all rows are sorted again for each change."""

from __future__ import annotations

from itertools import zip_longest

from hypothesis import strategies as st

from contract.operators.changes_cases import changelog_items
from contract.operators.inputs import KEY_TYPES, Case, in_order, ordered_items, row_type_of, with_rowtime
from contract.operators.model import Model, later
from rowtide.operators.contract import OperatorSite
from rowtide.plan.nodes import Node, NumberedChanges, Sort, Source, TopChanges
from rowtide.rows.rowop import Opcode, Row, TimedRow
from rowtide.rows.types import TIMESTAMP
from rowtide.rowtime.bound import NO_BOUND, Bound

OWN = 9 << 16
ORIGINS = (6 << 16, 2 << 16)


class TopChangesModel(Model):
    """What goes out of the first rows, and what comes in."""

    def __init__(self, node: TopChanges, _site: OperatorSite) -> None:
        super().__init__()
        self.node = node
        self.passed = NO_BOUND
        self.rows: list[Row] = []

    def row(self, port: int, timed: TimedRow) -> None:
        self.account.rows_in += 1
        self.account.done += 1
        before = self.first(timed.row)
        if timed.opcode == Opcode.INSERT:
            self.rows.append(timed.row)
        elif timed.opcode == Opcode.DELETE:
            self.rows.remove(timed.row)
        after = self.first(timed.row)
        if isinstance(self.node, NumberedChanges):
            self.each(timed, before, after)
            return
        gone, come = without(before, after), without(after, before)
        if gone != come:
            for opcode, rows in ((Opcode.DELETE, gone), (Opcode.INSERT, come)):
                for row in rows:
                    self.give(timed._replace(opcode=opcode, row=row))

    def each(self, timed: TimedRow, before: list[Row], after: list[Row]) -> None:
        """Report of every number whose row is another one."""
        for number, (gone, comes) in enumerate(zip_longest(before, after), self.node.offset + 1):
            if gone != comes:
                for opcode, row in ((Opcode.DELETE, gone), (Opcode.INSERT, comes)):
                    if row is not None:
                        self.give(timed._replace(opcode=opcode, row=(*row, number)))

    def bound(self, port: int, bound: Bound) -> None:
        self.passed = later(self.passed, bound)

    def first(self, like: Row) -> list[Row]:
        """Return the first rows of those with the partition of ``like``."""
        found: list[Row] = []
        for row in self.rows:
            if all(row[at] == like[at] for at in self.node.partition):
                place = len(found)
                while place and self.is_before(row, found[place - 1]):
                    place -= 1
                found.insert(place, row)
        end = None if self.node.limit is None else self.node.offset + self.node.limit
        return found[self.node.offset : end]

    def is_before(self, one: Row, other: Row) -> bool:
        for index, descending in self.node.keys:
            left, right = one[index], other[index]
            if left == right:
                continue
            if left is None or right is None:
                return (right is None) is not descending
            return (left < right) is not descending  # type: ignore[operator]
        return self.node.newest_first

    def promised(self) -> int:
        return self.passed.rowtime

    def promise(self) -> Bound:
        return self.passed


def without(rows: list[Row], others: list[Row]) -> list[Row]:
    """Return the rows that are not among others: these very rows, as zeros of both signs are equal."""
    return [row for row in rows if not any(row is other for other in others)]


@st.composite
def top_changes(draw: st.DrawFn, *, numbered: bool = False) -> Case:
    """The first few of a few rows, of all or of each partition: of a table, or of a stream."""
    fields = [draw(st.sampled_from((*KEY_TYPES, TIMESTAMP))) for _ in range(draw(st.integers(1, 3)))]
    indices = list(draw(st.permutations(range(len(fields)))))
    partition = tuple(indices[: draw(st.integers(0, 1))])
    keys = tuple((index, draw(st.booleans())) for index in in_order(fields, indices[len(partition) :]))
    limit = draw(st.integers(0, 3) if numbered else st.none() | st.integers(0, 3))
    row_type = row_type_of(fields)
    stream = draw(st.booleans())
    below: Node = Sort("S", Source("S", row_type), 0) if stream else Source("S", row_type)
    if stream:
        below = with_rowtime(below)
    kind = NumberedChanges if numbered else TopChanges
    node = kind("T", below, partition, keys, limit, draw(st.integers(0, 2)))
    times = st.integers(-3, 6)
    items = ordered_items(row_type, ORIGINS, times, copies=True, rows=14)
    return Case(
        node,
        OperatorSite(OWN, True, (ORIGINS,)),
        (draw(items if stream else changelog_items(row_type, ORIGINS, times)),),
    )
