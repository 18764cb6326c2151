"""Windows in kernels against the same windows in plain Python: the same rows, faults and snapshots."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from decimal import Decimal

from hypothesis import given, settings
from hypothesis import strategies as st

from contract.operators import inputs
from contract.operators.harness import shown, told
from contract.operators.inputs import Case, Step, steps_of, tray_of
from contract.operators.over_cases import overs
from rowtide.operators.contract import Operator
from rowtide.operators.over import OverOperator
from rowtide.operators.over_in_kernels import OverInKernels
from rowtide.plan.paths import Path, path_of

EASY = {
    inputs.DOUBLE: (0.0, -0.0, 0.1, -0.2, 1e15, -1e15, 3.5, 2.0**-60, 2.0**100),
    inputs.REAL: (0.0, -0.0, 1.5, -2.25),
    inputs.BIGINT: (0, 1, -1, 7, 2**40, -(2**40), 2**62),
    inputs.NARROW: tuple(map(Decimal, ("0.001", "-0.005", "1.250", "999999999999999.999"))),
}
"""Values of which sums fit, mostly."""


@contextmanager
def easy_values() -> Iterator[None]:
    before = dict(inputs.POOLS)
    inputs.POOLS.update(EASY)
    try:
        yield
    finally:
        inputs.POOLS.update(before)


@st.composite
def runs(draw: st.DrawFn) -> tuple[Case, list[tuple[Step, bool]]]:
    """Draw a window, and steps, some of them behind a restart."""
    with easy_values():
        case = draw(overs().filter(lambda each: path_of(each.node) is Path.COMPILED))
    steps = draw(steps_of(case.ports))
    return case, [(step, draw(st.integers(0, 4)) == 0) for step in steps]


@settings(max_examples=120)
@given(runs())
def test_kernels_give_what_plain_python_gives(drawn: tuple[Case, list[tuple[Step, bool]]]) -> None:
    case, steps = drawn
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
        assert [told(fault) for fault in found.faults] == [told(fault) for fault in wanted.faults]
        assert found.bound == wanted.bound
        assert compiled.account == plain.account
