"""The two forms of an operator, side by side: compiled, and row by row in plain Python."""

from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest
from hypothesis import assume
from hypothesis import strategies as st

from contract.operators.harness import Run, shown
from contract.operators.inputs import Case, steps_of, through_bytes
from rowtide.plan import nodes

Form = Callable[..., Any]


def check_both_forms(
    data: st.DataObject, case: Case, compiled_form: Form, row_form: Form, module: ModuleType, *, clean: bool
) -> None:
    """Let both do the same steps, and go on from each other's state; ``clean``: what is gone is forgotten."""
    assume(case.node.form() is not nodes.Form.BY_ROW)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "CLEAN_OVER", 0 if clean else 1 << 14)
        compiled = Run(case, compiled_form(case.node, case.place))
        by_row = Run(case, row_form(case.node, case.place))
        for step in data.draw(steps_of(case.ports)):
            compiled.step(step)
            by_row.step(step)
            assert shown(compiled.out) == shown(by_row.out)
            assert compiled.operator.account == by_row.operator.account
            if data.draw(st.integers(0, 3)) == 0:
                # Each goes on with what the other remembers.
                states = [through_bytes(run.operator.snapshot()) for run in (by_row, compiled)]
                compiled.operator = compiled_form(case.node, case.place)
                by_row.operator = row_form(case.node, case.place)
                compiled.operator.restore(states[0])
                by_row.operator.restore(states[1])
