"""An expression of which it is said that it cannot fail has a value, or is NULL, for every row."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from property.expr.expression_trees import BY_NAME, TYPES, calls, values
from rowtide.expr.failing import NEVER_FAIL, can_fail
from rowtide.expr.rowwise import compile_row

ROWS = st.tuples(*map(values, TYPES))
NAMES = sorted(BY_NAME.keys() & {*NEVER_FAIL, "CAST"})


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=3)
@given(data=st.data())
def test_what_cannot_fail_rejects_no_row(name: str, data: st.DataObject) -> None:
    expr = data.draw(calls(name))
    if not can_fail(expr):
        compile_row(expr)(data.draw(ROWS), 0)


@pytest.mark.long
@pytest.mark.parametrize("name", NAMES)
@settings(settings.get_profile("long"), max_examples=300)
@given(data=st.data())
def test_what_cannot_fail_rejects_no_row_for_long(name: str, data: st.DataObject) -> None:
    expr = data.draw(calls(name, depth=3))
    if not can_fail(expr):
        compile_row(expr)(data.draw(ROWS), 0)
