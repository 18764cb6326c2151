"""The arguments of an aggregate in Python go into one value and come out of it as they were, of every type."""

from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st

from property.expr.expression_trees import TYPES, values
from rowtide.expr.functions.arguments import packed, unpacking
from rowtide.rows.types import Kind, Type


@st.composite
def arguments(draw: st.DrawFn) -> tuple[list[Type], list[object]]:
    kinds = draw(st.lists(st.sampled_from(TYPES), max_size=4))
    return kinds, [draw(st.none() | values(kind)) for kind in kinds]


def canonical(value: object) -> object:
    """Return a value without the sign of zero, and all NaN as one."""
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else value + 0.0
    return value


def test_every_kind_is_drawn() -> None:
    assert {kind.kind for kind in TYPES} == set(Kind)


@given(arguments())
def test_arguments_come_out_as_they_were(drawn: tuple[list[Type], list[object]]) -> None:
    kinds, given_values = drawn
    found = unpacking(kinds)(packed(kinds, given_values))
    assert [canonical(each) for each in found] == [canonical(each) for each in given_values]
    assert [type(each) for each in found] == [type(each) for each in given_values]


@given(arguments())
def test_equal_arguments_are_equal_values(drawn: tuple[list[Type], list[object]]) -> None:
    kinds, given_values = drawn
    same = [0.0 if each == 0 and isinstance(each, float) else each for each in given_values]
    assert packed(kinds, given_values) == packed(kinds, same)
