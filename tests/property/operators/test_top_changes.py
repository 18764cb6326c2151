"""The compiled first rows of a table against those that go row by row."""

from __future__ import annotations

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from contract.operators.harness import Run, shown
from contract.operators.inputs import Case, steps_of, through_bytes
from contract.operators.top_changes_model import top_changes as top_changes_cases
from rowtide.operators import top_changes
from rowtide.operators.top_changes import TopChangesOperator
from rowtide.operators.top_changes_by_row import TopChangesByRow
from rowtide.plan.paths import Path, path_of


@given(data=st.data(), case=top_changes_cases(), clean=st.booleans())
def test_both_forms_do_the_same(data: st.DataObject, case: Case, clean: bool) -> None:
    assume(path_of(case.node) is Path.COMPILED)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(top_changes, "CLEAN_OVER", 0 if clean else 1 << 14)
        compiled = Run(case, TopChangesOperator(case.node, case.place))
        by_row = Run(case, TopChangesByRow(case.node, case.place))
        for step in data.draw(steps_of(case.ports)):
            compiled.step(step)
            by_row.step(step)
            assert shown(compiled.out) == shown(by_row.out)
            assert compiled.operator.account == by_row.operator.account
            if data.draw(st.integers(0, 3)) == 0:
                # Each goes on with what the other remembers.
                states = [through_bytes(run.operator.snapshot()) for run in (by_row, compiled)]
                compiled.operator = TopChangesOperator(case.node, case.place)
                by_row.operator = TopChangesByRow(case.node, case.place)
                compiled.operator.restore(states[0])
                by_row.operator.restore(states[1])
