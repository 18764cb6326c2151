"""What an expression is said never to be, NULL, it never is."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from property.expr.expression_trees import BY_NAME, ROW_TYPE, TYPES, calls, values
from rowtide.errors import RejectedRowError
from rowtide.expr.rowwise import compile_row
from rowtide.expr.tree import Expr
from rowtide.rows.types import RowType
from rowtide.sql.relations.relations import can_be_null

NEVER_NULL = RowType(tuple(replace(field, nullable=False) for field in ROW_TYPE))
ROWS = st.tuples(*map(values, TYPES))


def no_null_comes(expr: Expr, row: tuple[object, ...]) -> None:
    if can_be_null(expr, NEVER_NULL):
        return
    try:
        assert compile_row(expr)(row, 0) is not None
    except RejectedRowError as refused:
        assert refused.reason, "a row without a value is reported"


@pytest.mark.parametrize("name", sorted(BY_NAME))
@settings(max_examples=3)
@given(data=st.data())
def test_no_null_comes_of_a_function_that_cannot_give_one(name: str, data: st.DataObject) -> None:
    no_null_comes(data.draw(calls(name)), data.draw(ROWS))


@pytest.mark.long
@pytest.mark.parametrize("name", sorted(BY_NAME))
@settings(settings.get_profile("long"), max_examples=100)
@given(data=st.data())
def test_no_null_comes_of_an_expression_for_long(name: str, data: st.DataObject) -> None:
    no_null_comes(data.draw(calls(name, depth=3)), data.draw(ROWS))
