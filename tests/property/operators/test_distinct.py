"""DISTINCT of groups, whose values are forgotten as soon as they can be, against the model."""

from __future__ import annotations

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from contract.operators.cases import groups, hops
from contract.operators.harness import Run, check_same, follow
from contract.operators.inputs import Case, steps_of
from contract.operators.models import model_of
from rowtide.operators.aggregates.groups import distinct
from rowtide.plan.nodes import GroupByHop, GroupByPeriod


@given(data=st.data(), case=groups() | hops())
def test_values_of_forgotten_groups_are_forgotten_and_no_others(data: st.DataObject, case: Case) -> None:
    assert isinstance(case.node, GroupByPeriod | GroupByHop)
    assume(any(call.distinct for call in case.node.aggregates))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(distinct, "CLEAN_OVER", 0)
        run, model = Run(case), model_of(case.node, case.place)
        for step in data.draw(steps_of(case.ports)):
            run.step(step)
            follow(model, step)
            check_same(run, model)
            if data.draw(st.integers(0, 3)) == 0:
                run.restart()
