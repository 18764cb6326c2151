"""TABLE(f(CURSOR(..))): its cases, and what it means as docs/sql/functions.md says it."""

from __future__ import annotations

from typing import Any, cast

from hypothesis import strategies as st

from contract.operators.inputs import KEY_TYPES, MOSTLY_INSERTS, Case, ordered_items, row_type_of
from contract.operators.model import Model, later
from property.sql.declared_tables import Pairs
from rowtide.errors import Reason
from rowtide.expr.tree import Literal, PythonTable
from rowtide.operators.contract import OperatorSite
from rowtide.plan.nodes import Source
from rowtide.plan.nodes.table_function import TableFunction
from rowtide.rows.rowop import Opcode, Row, TimedRow
from rowtide.rows.types import BIGINT, INTEGER, VARCHAR, Field, RowType
from rowtide.rowtime.bound import NO_BOUND, Bound

ORIGINS = (6 << 16, 2 << 16)
MADE = RowType((Field("AT", BIGINT), Field("BEFORE", VARCHAR), Field("NOW", VARCHAR)))


class TableFunctionModel(Model):
    """One object for each key, which is never stored; a new one after a gap."""

    def __init__(self, node: TableFunction, _site: OperatorSite) -> None:
        super().__init__()
        self.node = node
        self.passed = NO_BOUND
        self.states: dict[Row, tuple[int, dict[str, str]]] = {}

    def row(self, port: int, timed: TimedRow) -> None:
        self.account.rows_in += 1
        key, *given = cast("Any", [*timed.row, *(each.value for each in self.node.constants)])
        if timed.opcode != Opcode.INSERT or (None in given and not self.node.of.takes_null):
            self.account.done += 1
            return
        last, state = self.states.get((key,), (timed.rowtime, {}))
        limit = self.node.retention_ms
        if limit is not None and timed.rowtime > last + limit:
            state = {}
        try:
            after, rows = Pairs().add(dict(state), timed.rowtime, *given)
        except ValueError:
            self.tell(self.node.relation, Reason.FUNCTION, timed)
            return
        self.account.done += 1
        self.states[key,] = timed.rowtime, after
        for row in rows:
            self.give(timed._replace(row=(key, *row)))

    def bound(self, port: int, bound: Bound) -> None:
        self.passed = later(self.passed, bound)

    def promised(self) -> int:
        return self.passed.rowtime

    def promise(self) -> Bound:
        return self.passed


@st.composite
def table_functions(draw: st.DrawFn) -> Case:
    """Few keys of every type, texts of which one is refused, and gaps that end a state."""
    row_type = row_type_of([draw(st.sampled_from(KEY_TYPES)), VARCHAR])
    takes_null = draw(st.booleans())
    path = "property.sql.declared_tables:Pairs"
    of = PythonTable("PAIRS", path, (VARCHAR, INTEGER), MADE, takes_null=takes_null, code="")
    made = RowType((row_type[0], *MADE))
    retention = draw(st.none() | st.integers(0, 4))
    constants = (Literal(draw(st.integers(0, 2)), INTEGER),)
    node = TableFunction("V", Source("S", row_type), 1, constants, of, made, retention, is_endless=False)
    items = ordered_items(row_type, ORIGINS, st.integers(-3, 9), opcodes=MOSTLY_INSERTS, copies=True, rows=12)
    return Case(node, OperatorSite(9 << 16, True, (ORIGINS,)), (draw(items),))


KIND, CASES, MODEL = TableFunction, table_functions(), TableFunctionModel
