"""JSON_VALUE and its like against Python's own json, and text that was damaged (docs/sql/expressions.md#json)."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rowtide.errors import Reason, RejectedRowError
from rowtide.expr.functions import resolve
from rowtide.expr.json_path import JsonSteps, show_path
from rowtide.expr.rowwise import compile_row
from rowtide.expr.tree import Call, FieldRef
from rowtide.rows.types import INTEGER, VARCHAR

NAMES = st.sampled_from(["a", "b", "c d", "é", "", "'"])
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text('ab é"\\\n', max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=12,
)
STEPS = st.lists(NAMES | st.integers(0, 2), max_size=3).map(tuple)
NOTHING = object()


def call(name: str, *args: object) -> object:
    types = [INTEGER if isinstance(arg, int) else VARCHAR for arg in args]
    fields = tuple(FieldRef(at, kind) for at, kind in enumerate(types))
    return compile_row(Call(name, fields, resolve(name, types)))(args, 0)


def at(value: Any, steps: JsonSteps) -> Any:
    for step in steps:
        if isinstance(step, str):
            value = value.get(step, NOTHING) if isinstance(value, dict) else NOTHING
        else:
            value = value[step] if isinstance(value, list) and step < len(value) else NOTHING
    return value


def as_text(value: Any) -> Any:
    if value is NOTHING or value is None:
        return None
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


@settings(max_examples=300, deadline=None)
@given(VALUES, STEPS, st.booleans())
def test_what_is_found_is_what_pythons_json_finds(value: Any, steps: JsonSteps, escaped: bool) -> None:
    text, path = json.dumps(value, ensure_ascii=escaped), show_path(steps)
    found = at(value, steps)
    nested = isinstance(found, dict | list)
    assert call("JSON_VALUE", text, path) == (None if nested else as_text(found))
    query = call("JSON_QUERY", text, path)
    assert query is None if not nested else isinstance(query, str) and json.loads(query) == found
    assert call("JSON_EXISTS", text, path) is (found is not NOTHING)
    if steps:
        around = at(value, steps[:-1])
        if around is NOTHING:
            return
        outer = json.dumps(around, ensure_ascii=escaped)
        member = call("->", outer, steps[-1])
        assert member is None if found is NOTHING else isinstance(member, str) and json.loads(member) == found
        text_of = call("->>", outer, steps[-1])
        assert json.loads(str(text_of)) == found if nested else text_of == as_text(found)


@pytest.mark.parametrize("seed", range(2))
def test_damaged_text_rejects_its_row_and_nothing_else(seed: int) -> None:
    chance = random.Random(seed)
    whole = json.dumps({"a": {"b": ["x", 1.5, None, "\ud83d\ude00"]}, "c": 'q"uo\\te'})
    for _ in range(3000):
        damaged = list(whole)
        for _ in range(chance.randint(1, 3)):
            place = chance.randrange(len(damaged))
            damaged[place : place + chance.randint(0, 2)] = chance.choice(
                ['"', "{", "]", "\\", "\\ud800", "\0", "é", ""]
            )
        text = "".join(damaged)
        for name, step in (
            ("JSON_VALUE", "$.a.b[3]"),
            ("JSON_QUERY", "$.a"),
            ("JSON_EXISTS", "$.c"),
            ("->>", "c"),
        ):
            try:
                call(name, text, step)
            except RejectedRowError as error:
                assert error.reason is Reason.FUNCTION


def test_a_path_that_is_not_one_rejects_its_row() -> None:
    with pytest.raises(RejectedRowError, match="may name several places"):
        call("JSON_VALUE", "[1]", "$[*]")
