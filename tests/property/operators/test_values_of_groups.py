"""Aggregates of all values, and picks, of groups: in columns and in plain Python they are the same, states too."""

from __future__ import annotations

import math
from collections.abc import Mapping
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from contract.operators.inputs import ARRAY, NARROW, TINYINT, WIDE
from contract.operators.meanings import bits
from rowtide.expr.aggregates import AGGREGATES
from rowtide.expr.tree import AggregateCall, FieldRef
from rowtide.operators.aggregates.groups.gathered_values import GatheredValues, PickedValues
from rowtide.operators.aggregates.groups.group_functions import ValueLists
from rowtide.plan.calls import has_accumulator
from rowtide.rows.column import Column
from rowtide.rows.types import (
    BIGINT,
    BOOLEAN,
    DOUBLE,
    INTERVAL_DAY,
    UUID,
    VARCHAR,
    Kind,
    Type,
)

VALUES: Mapping[Type, st.SearchStrategy[Any]] = {
    BOOLEAN: st.booleans(),
    TINYINT: st.integers(-2, 2) | st.integers(-128, 127),
    BIGINT: st.integers(-2, 2) | st.integers(-(2**63), 2**63 - 1),
    INTERVAL_DAY: st.integers(-2, 2) | st.integers(-(2**63), 2**63 - 1),
    DOUBLE: st.sampled_from((0.0, -0.0, 1.5, math.nan, math.inf, -math.inf)) | st.floats(),
    Type(Kind.REAL): st.sampled_from((0.0, -0.0, 1.5, math.nan)) | st.floats(width=32),
    NARROW: st.sampled_from((Decimal("0.001"), Decimal("-1.250"), Decimal("999999999999999.999"))),
    WIDE: st.sampled_from((Decimal("0.01"), Decimal("9" * 36 + ".99"))),
    VARCHAR: st.sampled_from(("", "a", "ab", "ä", "\0", "日本")),
    Type(Kind.VARBINARY): st.binary(max_size=2),
    UUID: st.sampled_from((f"{'0' * 8}-0000-0000-0000-{'0' * 12}", "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11")),
    ARRAY: st.sampled_from(((), (1,), (None, 2))),
}
FRACTIONS = (
    *(Fraction(each) for each in ("0", "1/4", "1/2", "0.9", "1")),
    Fraction(0.1),
    Fraction("0.7") + Fraction(1, 2**40),
)
FUNCTIONS = (
    *("MEDIAN", "PERCENTILE_CONT", "PERCENTILE_DISC", "MODE", "LISTAGG", "SORTED_LISTAGG"),
    *("FIRST_VALUE", "LAST_VALUE", "ANY_VALUE"),
)


def calls_of(function: str) -> list[AggregateCall]:
    """Return the calls that have a form in columns."""
    aggregate = AGGREGATES[function]
    kinds = [(of, aggregate.result(of)) for of in VALUES]
    fractions = FRACTIONS if "PERCENTILE" in function else (Fraction(1, 2),)
    calls = [
        AggregateCall(function, FieldRef(0, of), kind, ignore_nulls=ignore_nulls, fraction=fraction)
        for of, kind in kinds
        for fraction in fractions
        for ignore_nulls in (False, True)
        if kind is not None
    ]
    return [call for call in calls if has_accumulator(call)]


def shown(value: object) -> object:
    """Return a value so that only the same ones are equal, but all NaN."""
    return bits(math.nan if isinstance(value, float) and math.isnan(value) else value)


@pytest.mark.parametrize("function", FUNCTIONS)
@settings(max_examples=30)
@given(data=st.data())
def test_both_forms_give_the_same(function: str, data: st.DataObject) -> None:
    call = data.draw(st.sampled_from(calls_of(function)))
    assert call.argument is not None
    of, counts_nulls = call.argument.type, AGGREGATES[function].counts_nulls(call)
    compiled = PickedValues if function.endswith("_VALUE") else GatheredValues
    forms: list[Any] = [compiled(call, of), ValueLists(call, of)]
    count = 0
    for _ in range(data.draw(st.integers(1, 4))):
        rows = data.draw(st.lists(st.tuples(st.integers(0, 2), st.none() | VALUES[of]), max_size=8))
        count = max([count, *(group + 1 for group, _ in rows)])
        column = Column.from_values(of, [value for _, value in rows])
        groups = np.array([group for group, _ in rows], dtype=np.int64)
        use = np.array([data.draw(st.booleans()) for _ in rows], dtype=np.bool_)
        if not counts_nulls:
            use &= column.valid_mask()
        refusals = [form.refused(column, use) for form in forms]
        assert (refusals[0] is None) == (refusals[1] is None)
        if refusals[0] is not None:
            assert (refusals[0] == refusals[1]).all()
            use &= ~refusals[0]
        for form in forms:
            form.reserve(count)
            assert form.fits(groups, column, use)
            form.add(groups, column, use)
        assert len({bits(tuple(form.results(count).to_list())) for form in forms}) == 1
        states = [form.state(count) for form in forms]
        held = [[list(map(shown, each)) for each in state.column("held").to_pylist()] for state in states]
        assert states[0].schema == states[1].schema
        assert held[0] == held[1]
        if data.draw(st.booleans()):
            forms = [compiled(call, of), ValueLists(call, of)]
            for form, state in zip(forms, reversed(states), strict=True):
                form.load(state)
        gone = data.draw(st.integers(0, count))
        count -= gone
        for form in forms:
            form.drop(gone, count)
