"""Variances of groups in kernels against plain Python: the same results, and states of each other."""

from __future__ import annotations

from decimal import Decimal

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from contract.operators.inputs import NARROW, TINYINT
from contract.operators.meanings import bits
from rowtide.expr.tree import AggregateCall, FieldRef
from rowtide.operators.aggregates.group_spreads import SpreadsInKernels
from rowtide.operators.aggregates.groups.group_functions import Spreads
from rowtide.rows.column import Column
from rowtide.rows.types import BIGINT, DOUBLE, Type

VALUES: dict[Type, st.SearchStrategy[object]] = {
    TINYINT: st.integers(-128, 127),
    BIGINT: st.integers(-(2**63), 2**63 - 1) | st.integers(-9, 9),
    DOUBLE: st.floats(-1e15, 1e15, allow_subnormal=False)
    | st.sampled_from((0.1, -0.0, 2.0**100, 1e-60, 1e149)),
    NARROW: st.decimals(-(10**15), 10**15, places=3) | st.just(Decimal("0.001")),
}
FUNCTIONS = ("VAR_POP", "VAR_SAMP", "STDDEV_POP", "STDDEV_SAMP")


@given(st.data(), st.sampled_from(sorted(VALUES, key=str)), st.sampled_from(FUNCTIONS))
def test_both_forms_give_the_same(data: st.DataObject, of: Type, function: str) -> None:
    call = AggregateCall(function, FieldRef(0, of), DOUBLE)
    forms: list[Spreads] = [SpreadsInKernels(call, of), Spreads(call, of)]
    count = 0
    for _ in range(data.draw(st.integers(1, 4))):
        rows = data.draw(st.lists(st.tuples(st.integers(0, 2), st.none() | VALUES[of]), max_size=6))
        count = max([count, *(group + 1 for group, _ in rows)])
        column = Column.from_values(of, [value for _, value in rows])
        groups = np.array([group for group, _ in rows], dtype=np.int64)
        for form in forms:
            form.reserve(count)
            assert form.fits(groups, column, column.valid_mask())
            form.add(groups, column, column.valid_mask())
        kernels, plain = (form.results(count).to_list() for form in forms)
        assert bits(tuple(kernels)) == bits(tuple(plain))
        states = [form.state(count) for form in forms]
        assert states[0].column("held") == states[1].column("held")
        if data.draw(st.booleans()):
            forms = [SpreadsInKernels(call, of), Spreads(call, of)]
            for form, state in zip(forms, reversed(states), strict=True):
                form.load(state)
        gone = data.draw(st.integers(0, count))
        count -= gone
        for form in forms:
            form.drop(gone, count)
