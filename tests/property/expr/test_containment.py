"""``@>`` against its definition, each part is somewhere in the whole, and with values as large as messages."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rowtide.errors import RejectedRowError
from rowtide.expr.columnar import compile_columns
from rowtide.expr.functions import resolve
from rowtide.expr.rowwise import compile_row
from rowtide.expr.tree import Call, FieldRef
from rowtide.rows.rowop import Opcode, TimedRow
from rowtide.rows.tray import Tray
from rowtide.rows.types import DOUBLE, INTEGER, JSON, Field, RowType, Type, array_of

MANY = 100_000


def contains(kind: Type, whole: object, part: object) -> object:
    """Return ``whole @> part``; see that row and columns agree."""
    row_type = RowType((Field("A", kind), Field("B", kind)))
    call = Call("@>", (FieldRef(0, kind), FieldRef(1, kind)), resolve("@>", (kind, kind)))
    row = TimedRow(0, 0, 0, Opcode.INSERT, (whole, part))
    columns = compile_columns(call)(Tray.from_rows(row_type, [row]))
    try:
        value = compile_row(call)((whole, part), 0)
    except RejectedRowError as error:
        assert columns.errors is not None
        assert [each.message for each in columns.errors] == [error.message]
        raise
    assert columns.column.to_list() == [value]
    return value


def is_in(whole: Any, part: Any) -> bool:
    if isinstance(part, dict):
        return isinstance(whole, dict) and all(
            name in whole and is_in(whole[name], each) for name, each in part.items()
        )
    if isinstance(part, list):
        return isinstance(whole, list) and all(any(is_in(own, each) for own in whole) for each in part)
    return isinstance(whole, bool) is isinstance(part, bool) and bool(whole == part)


VALUES = st.recursive(
    st.sampled_from([None, True, False, 0, 1, 1.0, -0.0, 1.5, 10**20, "a", "1", ""]),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from("ab"), inner, max_size=2),
    max_leaves=8,
)


@given(VALUES, VALUES)
def test_json_has_what_is_somewhere_in_it(whole: Any, part: Any) -> None:
    of_one = isinstance(whole, list) and not isinstance(part, dict | list)
    assert contains(JSON, json.dumps(whole), json.dumps(part)) == is_in(whole, [part] if of_one else part)
    assert contains(JSON, json.dumps(whole), json.dumps(whole)) is True


# Each NaN is another object.
NANS = st.builds(float, st.just("nan"))
NUMBERS = st.lists(st.none() | st.sampled_from([0.0, -0.0, 1.5, math.inf]) | NANS, max_size=5)


def as_key(value: float | None) -> object:
    return "NaN" if value is not None and math.isnan(value) else value


@given(NUMBERS, NUMBERS)
def test_an_array_has_equal_elements_and_nan_is_equal_to_nan(
    whole: list[float | None], part: list[float | None]
) -> None:
    wanted = None not in part and set(map(as_key, part)) <= set(map(as_key, whole))
    assert contains(array_of(DOUBLE), tuple(whole), tuple(part)) is wanted


@pytest.mark.timeout(100)
def test_many_scalars_are_found_at_once() -> None:
    whole, part = tuple(range(MANY)), tuple(reversed(range(MANY)))
    assert contains(array_of(INTEGER), whole, part) is True
    assert contains(array_of(INTEGER), whole, (*part, MANY)) is False
    for words in (lambda number: number, lambda number: f"a{number}", lambda number: number + 0.5):
        texts = [json.dumps([words(each) for each in values]) for values in (whole, part, (*part, MANY))]
        assert contains(JSON, texts[0], texts[1]) is True
        assert contains(JSON, texts[0], texts[2]) is False


@pytest.mark.timeout(100)
@pytest.mark.parametrize(
    ("whole", "part"),
    [
        ([{"a": each} for each in range(20_000)], [{"a": each} for each in reversed(range(20_000))]),
        ([[each] for each in range(20_000)], [[each] for each in reversed(range(20_000))]),
        ([[1]] * 20_000, [[1] * 20_000 + [2]]),
        ([list(range(2_000))] * 100, [[1_999]] * 20_000),
        ([{}] * 20_000 + [[]], [[]] * 20_000),
    ],
)
def test_objects_that_take_too_many_comparisons_reject_the_row(whole: object, part: object) -> None:
    with pytest.raises(RejectedRowError, match="is not defined: it takes more than 250,000 comparisons"):
        contains(JSON, json.dumps(whole), json.dumps(part))


def test_some_hundreds_of_objects_are_compared() -> None:
    orders = [{"sku": f"s{each}", "count": each, "tags": ["x", each]} for each in range(300)]
    wanted = [{"sku": each["sku"]} for each in reversed(orders)]
    assert contains(JSON, json.dumps(orders), json.dumps(wanted)) is True
