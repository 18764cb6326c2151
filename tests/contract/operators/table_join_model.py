"""What a join of two tables means: all rows are kept, and each change looks through them again."""

from __future__ import annotations

from hypothesis import strategies as st

from contract.operators.changes_cases import changelog_items
from contract.operators.inputs import Case, row_type_of
from contract.operators.meanings import Rejected, evaluate
from contract.operators.model import Model, later
from rowtide.expr.tree import Call, FieldRef, Literal
from rowtide.operators.contract import OperatorSite
from rowtide.plan.nodes import JoinKind, Source, TableJoin
from rowtide.plan.nodes.join.table_join import tagged_type
from rowtide.rows.rowop import Opcode, Row, TimedRow
from rowtide.rows.types import BIGINT, BOOLEAN, VARCHAR, RowType
from rowtide.rowtime.bound import NO_BOUND, Bound

OWN = 9 << 16
ORIGINS = (6 << 16, 2 << 16)


class TableJoinModel(Model):
    """Pairs of rows with equal keys; a row without a match stands alone, if its side is kept."""

    def __init__(self, node: TableJoin, _site: OperatorSite) -> None:
        super().__init__()
        self.node = node
        self.passed = NO_BOUND
        self.rows: list[Row] = []
        self.refused: list[Row] = []

    def row(self, port: int, timed: TimedRow) -> None:
        self.account.rows_in += 1
        if timed.opcode == Opcode.DELETE and timed.row in self.refused:
            self.refused.remove(timed.row)
        elif timed.opcode != Opcode.NOP:
            self.change(timed)
        self.account.done = self.account.rows_in - self.account.rejected

    def change(self, timed: TimedRow) -> None:
        leaves = timed.opcode == Opcode.DELETE
        try:
            found = distinct([other for other in self.rows if self.match(timed.row, other)])
        except Rejected as error:
            _, _, row = self.parts(timed.row)
            self.tell(self.node.relation, error.reason, timed._replace(row=row))
            if not leaves:
                self.refused.append(timed.row)
            return
        if leaves:
            self.rows.remove(timed.row)
            for other in found:
                self.pair(timed, Opcode.DELETE, other)
        if not found and self.is_kept(timed.row):
            self.give(timed._replace(row=self.alone(timed.row)))
        for other in found:
            # Those that have no match besides this row stand alone without it.
            mine = [row for row in self.rows if self.match(other, row)]
            if not mine and self.is_kept(other):
                for _ in range(self.rows.count(other)):
                    self.give(
                        timed._replace(
                            opcode=Opcode.INSERT if leaves else Opcode.DELETE, row=self.alone(other)
                        )
                    )
        if not leaves:
            for other in found:
                self.pair(timed, Opcode.INSERT, other)
            # Equal rows stand together, where the first of them came.
            at = self.rows.index(timed.row) if timed.row in self.rows else len(self.rows)
            self.rows.insert(at, timed.row)

    def bound(self, port: int, bound: Bound) -> None:
        self.passed = later(self.passed, bound)

    def parts(self, row: Row) -> tuple[int, Row, Row]:
        """Return side, key and fields of a tagged row."""
        split = 1 + self.node.keys + self.node.left
        fields = row[1 + self.node.keys : split] if row[0] == 0 else row[split:]
        return (0 if row[0] == 0 else 1), row[1 : 1 + self.node.keys], fields

    def match(self, one: Row, other: Row) -> bool:
        (side, key, row), (other_side, other_key, other_row) = self.parts(one), self.parts(other)
        if side == other_side or key != other_key or None in key:
            return False
        both = row + other_row if side == 0 else other_row + row
        return self.node.condition is None or evaluate(self.node.condition, both, 0) is True

    def pair(self, timed: TimedRow, opcode: Opcode, other: Row) -> None:
        side, _, row = self.parts(timed.row)
        _, _, other_row = self.parts(other)
        for _ in range(self.rows.count(other)):
            both = row + other_row if side == 0 else other_row + row
            self.give(timed._replace(opcode=opcode, row=both))

    def alone(self, tagged: Row) -> Row:
        side, _, row = self.parts(tagged)
        nulls = (None,) * (len(self.node.row_type) - len(row))
        return row + nulls if side == 0 else nulls + row

    def is_kept(self, tagged: Row) -> bool:
        kind = self.node.kind
        return kind.keeps_left if self.parts(tagged)[0] == 0 else kind.keeps_right

    def promised(self) -> int:
        return self.passed.rowtime

    def promise(self) -> Bound:
        return self.passed


def distinct(rows: list[Row]) -> list[Row]:
    """Return each row once, where it stands first."""
    return [row for at, row in enumerate(rows) if row not in rows[:at]]


@st.composite
def table_joins(draw: st.DrawFn) -> Case:
    """Changes of two tables whose rows have the same few keys, some twice; any kind, a condition or none."""
    count = draw(st.integers(0, 1))
    left, right = row_type_of((BIGINT,), "L"), row_type_of((BIGINT, VARCHAR), "R")
    keys = row_type_of((VARCHAR,) * count, "K").fields
    rows = tagged_type(left, right, keys)
    numbers = FieldRef(0, BIGINT), FieldRef(1, BIGINT)
    conditions = (
        None,
        None,
        Call("<", numbers, BOOLEAN),
        Call("=", (Call("/", numbers, BIGINT), Literal(1, BIGINT)), BOOLEAN),
    )
    node = TableJoin(
        "J",
        Source("S", rows),
        count,
        len(left),
        draw(st.sampled_from(JoinKind)),
        RowType((*left.fields, *right.fields)),
        draw(st.sampled_from(conditions)),
    )
    texts, some = st.sampled_from(("a", None)), st.sampled_from((0, 1, 2))
    key = st.tuples(*(texts for _ in range(count)))
    of_left = st.tuples(st.just((0,)), key, some.map(lambda value: (value, None, None)))
    of_right = st.tuples(st.just((1,)), key, st.tuples(st.none(), some, texts))
    tagged = (of_left | of_right).map(lambda parts: parts[0] + parts[1] + parts[2])
    items = draw(changelog_items(rows, ORIGINS, st.integers(-3, 6), row=tagged))
    return Case(node, OperatorSite(OWN, True, (ORIGINS,)), (items,))
