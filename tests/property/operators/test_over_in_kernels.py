"""Windows in kernels against the same windows in plain Python: the same rows, faults and snapshots."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from contract.operators.harness import fault_seen, shown
from contract.operators.inputs import Case, Step, easy_values, steps_of, tray_of
from contract.operators.over_cases import overs
from rowtide.operators.contract import Operator
from rowtide.operators.over.by_row.operator import OverOperator
from rowtide.operators.over.compiled import OverInKernels
from rowtide.plan.nodes import Form, WindowAggregate


@st.composite
def runs(draw: st.DrawFn) -> tuple[Case, list[tuple[Step, bool]]]:
    """Draw a window, and steps, some of them behind a restart."""
    with easy_values():
        case = draw(overs().filter(lambda each: each.node.form() is Form.COMPILED))
    steps = draw(steps_of(case.ports))
    return case, [(step, draw(st.integers(0, 4)) == 0) for step in steps]


@settings(max_examples=120)
@given(runs())
def test_kernels_give_what_plain_python_gives(drawn: tuple[Case, list[tuple[Step, bool]]]) -> None:
    case, steps = drawn
    assert isinstance(case.node, WindowAggregate)
    plain: Operator = OverOperator(case.node, case.place)
    compiled: Operator = OverInKernels(case.node, case.place)
    for step, restart in steps:
        if restart:
            # Either goes on from what the other one remembers.
            states = compiled.snapshot(), plain.snapshot()
            plain, compiled = OverOperator(case.node, case.place), OverInKernels(case.node, case.place)
            plain.restore(states[0])
            compiled.restore(states[1])
        tray = tray_of(case.row_types[step.port], step.rows)
        wanted, found = plain.step(0, tray, step.bound), compiled.step(0, tray, step.bound)
        rows = [[] if each.tray is None else list(each.tray.rows()) for each in (found, wanted)]
        assert shown(rows[0]) == shown(rows[1])
        assert [fault_seen(fault) for fault in found.faults] == [fault_seen(fault) for fault in wanted.faults]
        assert found.bound == wanted.bound
        assert compiled.account == plain.account
