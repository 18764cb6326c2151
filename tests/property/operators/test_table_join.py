"""The compiled join of two tables against the one that goes row by row."""

from __future__ import annotations

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from contract.operators.harness import Run, shown
from contract.operators.inputs import Case, steps_of, through_bytes
from contract.operators.table_join_model import table_joins
from rowtide.operators import table_join
from rowtide.operators.table_join import TableJoinOperator
from rowtide.operators.table_join_by_row import TableJoinByRow
from rowtide.plan.paths import Path, path_of


@given(data=st.data(), case=table_joins(), clean=st.booleans())
def test_both_forms_do_the_same(data: st.DataObject, case: Case, clean: bool) -> None:
    assume(path_of(case.node) is Path.COMPILED)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(table_join, "CLEAN_OVER", 0 if clean else 1 << 14)
        compiled = Run(case, TableJoinOperator(case.node, case.place))
        by_row = Run(case, TableJoinByRow(case.node, case.place))
        for step in data.draw(steps_of(case.ports)):
            compiled.step(step)
            by_row.step(step)
            assert shown(compiled.out) == shown(by_row.out)
            assert compiled.operator.account == by_row.operator.account
            if data.draw(st.integers(0, 3)) == 0:
                # Each goes on with what the other remembers.
                states = [through_bytes(run.operator.snapshot()) for run in (by_row, compiled)]
                compiled.operator = TableJoinOperator(case.node, case.place)
                by_row.operator = TableJoinByRow(case.node, case.place)
                compiled.operator.restore(states[0])
                by_row.operator.restore(states[1])
