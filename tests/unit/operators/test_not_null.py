"""A field that a relation declares NOT NULL is never NULL in it."""

from __future__ import annotations

from rowtide.errors import Reason
from rowtide.expr.tree import Call, FieldRef
from rowtide.operators.contract import OperatorSite
from rowtide.operators.row_wise.project import ProjectOperator
from rowtide.plan.nodes import Project, Source
from rowtide.rows.rowop import Opcode, TimedRow
from rowtide.rows.tray import Tray
from rowtide.rows.types import INTEGER, VARCHAR, Field, RowType
from rowtide.rowtime.bound import NO_BOUND

GIVEN = RowType((Field("K", VARCHAR), Field("N", INTEGER)))
WANTED = RowType((Field("K", VARCHAR), Field("N", INTEGER, nullable=False)))
QUOTIENT = Call("/", (FieldRef(1, INTEGER), FieldRef(1, INTEGER)), INTEGER)


def test_a_null_is_rejected_with_its_column_unless_the_row_is_a_delete() -> None:
    node = Project("P", Source("S", GIVEN), (FieldRef(0, VARCHAR), QUOTIENT), WANTED)
    operator = ProjectOperator(node, OperatorSite(0))
    rows = [
        TimedRow(1, 0, 0, Opcode.INSERT, ("a", None)),
        TimedRow(2, 0, 1, Opcode.INSERT, ("b", 2)),
        TimedRow(3, 0, 2, Opcode.INSERT, ("c", 0)),
        TimedRow(4, 0, 3, Opcode.DELETE, ("d", None)),
    ]
    output = operator.step(0, Tray.from_rows(GIVEN, rows), NO_BOUND)
    assert output.tray is not None
    assert [row.row for row in output.tray.rows()] == [("b", 1), ("d", None)]
    assert [(fault.reason, fault.message) for fault in output.faults] == [
        (Reason.CONSTRAINT, 'column "N" is NOT NULL'),
        (Reason.DIVISION_BY_ZERO, "division by zero in 0 / 0"),
    ]
    operator.account.check("P", operator.held())
