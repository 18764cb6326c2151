"""The compiled engine table against the one that goes row by row."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from contract.operators.cases import tables
from contract.operators.harness import Run, shown
from contract.operators.inputs import Case, steps_of, through_bytes
from rowtide.operators.contract import HoldsTable, OperatorSite
from rowtide.operators.registry import make
from rowtide.operators.table import keyed_table, multiset_table
from rowtide.operators.table.keyed_table import KeyedTableOperator
from rowtide.operators.table.keyed_table_by_row import KeyedTableByRow
from rowtide.plan.nodes import KeyedTable, Source
from rowtide.rows.rowop import Opcode, TimedRow
from rowtide.rows.tray import Tray
from rowtide.rows.types import BIGINT, VARCHAR, Field, RowType
from rowtide.rowtime.bound import NO_BOUND


def contents(run: Run) -> list[object]:
    """Return the rows of a table, in its order."""
    assert isinstance(run.operator, HoldsTable)
    return shown(list(run.operator.contents().rows()))


@given(data=st.data(), case=tables(), clean=st.booleans())
def test_both_forms_do_the_same(data: st.DataObject, case: Case, clean: bool) -> None:
    with pytest.MonkeyPatch.context() as patch:
        for module in (keyed_table, multiset_table):
            patch.setattr(module, "CLEAN_OVER", 0 if clean else 1 << 14)
        compiled = Run(case, make(case.node, case.place))
        assert isinstance(case.node, KeyedTable)
        by_row = Run(case, KeyedTableByRow(case.node, case.place))
        for step in data.draw(steps_of(case.ports)):
            compiled.step(step)
            by_row.step(step)
            assert shown(compiled.out) == shown(by_row.out)
            assert compiled.faults == by_row.faults
            assert compiled.operator.account == by_row.operator.account
            assert contents(compiled) == contents(by_row)
            if data.draw(st.integers(0, 3)) == 0:
                state = through_bytes(by_row.operator.snapshot())
                compiled.operator = make(case.node, case.place)
                compiled.operator.restore(state)


def test_memory_follows_the_size_of_the_table() -> None:
    row_type = RowType((Field("K", BIGINT), Field("TEXT", VARCHAR)))
    table = KeyedTableOperator(KeyedTable("T", Source("S", row_type), (0,)), OperatorSite(0))
    for number in range(40):
        rows = [
            TimedRow(number, 0, at, Opcode.INSERT, (at % 10, f"text {number}")) for at in range(number, 5_000)
        ]
        table.step(0, Tray.from_rows(row_type, rows), NO_BOUND)
    assert {timed.row for timed in table.contents().rows()} == {(key, "text 39") for key in range(10)}
    assert table._store.end < 30_000
