"""EXCEPT ALL and INTERSECT ALL of tables: both tables as lists, whose result is made again for each change."""

from __future__ import annotations

from hypothesis import strategies as st

from contract.operators.changes_cases import changelog_items
from contract.operators.inputs import KEY_TYPES, Case, row_type_of, rows_of
from contract.operators.model import Model, later
from rowtide.operators.contract import OperatorSite
from rowtide.plan.nodes import Source
from rowtide.plan.nodes.changes.combined_copies import CombinedCopies
from rowtide.rows.rowop import Opcode, Row, TimedRow
from rowtide.rows.types import INTEGER, Field, RowType
from rowtide.rowtime.bound import NO_BOUND, Bound

OWN, ORIGINS = 9 << 16, (6 << 16, 2 << 16)


class CombinedCopiesModel(Model):
    """What the result has more or less of a row than before."""

    def __init__(self, node: CombinedCopies, _site: OperatorSite) -> None:
        super().__init__()
        self.operation = node.operation
        self.passed = NO_BOUND
        self.tables: tuple[list[Row], list[Row]] = ([], [])

    def row(self, port: int, timed: TimedRow) -> None:
        self.account.rows_in += 1
        self.account.done += 1
        *fields, side = timed.row
        row, before = tuple(fields), len(self.result())
        table = self.tables[0 if side == 0 else 1]
        if timed.opcode == Opcode.INSERT:
            table.append(row)
        elif timed.opcode == Opcode.DELETE:
            table.remove(row)
        after = len(self.result())
        if after != before:
            opcode = Opcode.INSERT if after > before else Opcode.DELETE
            self.give(timed._replace(opcode=opcode, row=row))

    def result(self) -> list[Row]:
        """Return the rows of the result: each row of the second table is paired with one of the first."""
        alone, paired = list(self.tables[0]), []
        for row in self.tables[1]:
            if row in alone:
                alone.remove(row)
                paired.append(row)
        return alone if self.operation == "EXCEPT" else paired

    def bound(self, port: int, bound: Bound) -> None:
        self.passed = later(self.passed, bound)

    def promised(self) -> int:
        return self.passed.rowtime

    def promise(self) -> Bound:
        return self.passed


@st.composite
def combined_copies(draw: st.DrawFn) -> Case:
    """A few rows that are often equal, in both tables."""
    fields = row_type_of([draw(st.sampled_from(KEY_TYPES)) for _ in range(draw(st.integers(1, 2)))])
    row_type = RowType((*fields, Field("$SIDE", INTEGER, nullable=False)))
    some = draw(st.lists(rows_of(fields), min_size=1, max_size=2))
    rows = st.tuples(st.sampled_from(some), st.integers(0, 1)).map(lambda each: (*each[0], each[1]))
    node = CombinedCopies("T", Source("S", row_type), draw(st.sampled_from(("EXCEPT", "INTERSECT"))))
    items = changelog_items(row_type, ORIGINS, st.integers(-3, 6), row=rows)
    return Case(node, OperatorSite(OWN, True, (ORIGINS,)), (draw(items),))


KIND, CASES, MODEL = CombinedCopies, combined_copies(), CombinedCopiesModel
