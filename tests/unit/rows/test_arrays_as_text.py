"""Arrays as text: each array has one text, and two arrays have one text only if they are equal."""

from __future__ import annotations

import json
import math
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from property.expr.expression_trees import TYPES, values
from rowtide.rows.arrays_as_text import array_text, as_element
from rowtide.rows.column import Column, arrow_lists, row_lists
from rowtide.rows.types import DATE, DOUBLE, INTEGER, TIMESTAMP, VARCHAR, Kind, Type, array_of, decimal

ELEMENTS = [kind for kind in TYPES if kind.can_be_element]


@st.composite
def arrays(draw: st.DrawFn) -> tuple[Type, list[tuple[Any, ...] | None]]:
    element = draw(st.sampled_from(ELEMENTS))
    one = st.lists(st.none() | values(element).map(as_element), max_size=4).map(tuple)
    return array_of(element), draw(st.lists(st.none() | one, max_size=5))


@given(arrays())
def test_a_column_returns_the_arrays_that_it_holds(case: tuple[Type, list[Any]]) -> None:
    kind, given_arrays = case
    column = Column.from_values(kind, given_arrays)
    assert column.to_list() == given_arrays
    assert Column.from_arrow(kind, column.to_arrow()).to_list() == given_arrays
    assert row_lists(kind, arrow_lists(kind, [given_arrays])) == [given_arrays]


@given(arrays())
def test_equal_arrays_and_only_they_have_equal_texts(case: tuple[Type, list[Any]]) -> None:
    kind, given_arrays = case
    form = array_text(kind)
    there = [each for each in given_arrays if each is not None]
    for one in there:
        assert isinstance(json.loads(form.text(one)), list)
        assert form.values(form.text(one)) == one
        for other in there:
            assert (form.text(one) == form.text(other)) == (one == other)


@pytest.mark.parametrize(
    ("element", "array", "text"),
    [
        (INTEGER, (1, None, -3), "[1,null,-3]"),
        (INTEGER, (), "[]"),
        (VARCHAR, ("a", 'q"\\', "ä\n"), r'["a","q\"\\","ä\n"]'),
        (decimal(38, 2), (Decimal("123456789012345678901234567890123456.7"), Decimal("-0.00")), None),
        (DOUBLE, (-0.0, math.nan, math.inf, 1e16), '[0.0,"NaN","Infinity",1e16]'),
        (Type(Kind.REAL), (0.10000000149011612,), "[0.1]"),
        (DATE, (0, 10**9), '["1970-01-01",1000000000]'),
        (TIMESTAMP, (1, 10**17), '["1970-01-01T00:00:00.001Z",100000000000000000]'),
        (Type(Kind.VARBINARY), (b"\0\xff",), '["AP8="]'),
    ],
)
def test_the_text_of_an_array(element: Type, array: tuple[Any, ...], text: str | None) -> None:
    wanted = "[123456789012345678901234567890123456.70,0.00]" if text is None else text
    assert array_text(array_of(element)).text(array) == wanted


def test_an_array_has_elements_and_nothing_else_has() -> None:
    assert str(array_of(decimal(5, 2))) == "DECIMAL(5, 2) ARRAY"
    assert array_of(INTEGER).of_elements == INTEGER
    with pytest.raises(ValueError, match="INTEGER has no elements"):
        _ = INTEGER.of_elements
