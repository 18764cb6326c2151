"""Functions of arrays do what Python does with lists, and what DuckDB and PostgreSQL do where they agree."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import duckdb
import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rowtide.errors import RejectedRowError
from rowtide.expr.functions import resolve
from rowtide.expr.functions.arrays.elements import MAKER, SLICE, SUBSCRIPT
from rowtide.expr.functions.casts.cast_arrays import postgres_elements
from rowtide.expr.rowwise import compile_row
from rowtide.expr.tree import Call, Expr, FieldRef, Literal
from rowtide.rows.types import INTEGER, JSON, VARCHAR, Type, array_of

ARRAY = array_of(INTEGER)
A, B, X, Y = FieldRef(0, ARRAY), FieldRef(1, ARRAY), FieldRef(2, INTEGER), FieldRef(3, INTEGER)
INTEGERS = st.integers(-3, 3)
ARRAYS = st.none() | st.lists(st.none() | INTEGERS, max_size=4).map(tuple)
ROWS = st.tuples(ARRAYS, ARRAYS, st.none() | INTEGERS, st.none() | INTEGERS)
Row = tuple[Any, Any, Any, Any]


def call(name: str, *args: Expr) -> Call:
    return Call(name, args, resolve(name, [arg.type for arg in args]))


def text(value: str | None) -> Literal:
    return Literal(value, VARCHAR)


def answer(expr: Expr, row: Row) -> object:
    return compile_row(expr)(row, 0)


def at(array: Sequence[Any], number: int) -> object:
    return dict(enumerate(array, start=1)).get(number)


def any_of(compare: Callable[[Any, Any], bool], every: bool) -> Callable[[Any, Any], object]:
    """Return the OR or AND of comparisons, by the truth values of the standard."""

    def truth(value: Any, array: Any) -> object:
        if array is None:
            return None
        found = [None if value is None or each is None else compare(value, each) for each in array]
        if (not every) in found:
            return not every
        return None if None in found else every

    return truth


BY_LISTS: dict[str, tuple[Expr, Callable[[Any, Any, Any, Any], object]]] = {
    "a[x]": (call(SUBSCRIPT, A, X), lambda a, b, x, y: None if None in (a, x) else at(a, x)),
    "a[x:y]": (
        call(SLICE, A, X, Y),
        lambda a, b, x, y: (
            None if None in (a, x, y) else tuple(v for n, v in enumerate(a, start=1) if x <= n <= y)
        ),
    ),
    "ARRAY[x, y]": (call(MAKER, X, Y), lambda a, b, x, y: (x, y)),
    "CARDINALITY": (call("CARDINALITY", A), lambda a, b, x, y: None if a is None else len(a)),
    "x = ANY": (call("= ANY", X, A), lambda a, b, x, y: any_of(lambda p, q: p == q, False)(x, a)),
    "x < ALL": (call("< ALL", X, A), lambda a, b, x, y: any_of(lambda p, q: p < q, True)(x, a)),
    "x <> ALL": (call("<> ALL", X, A), lambda a, b, x, y: any_of(lambda p, q: p != q, True)(x, a)),
    "CONTAINS": (call("ARRAY_CONTAINS", A, X), lambda a, b, x, y: None if a is None else x in a),
    "APPEND": (call("ARRAY_APPEND", A, X), lambda a, b, x, y: (*(a or ()), x)),
    "PREPEND": (call("ARRAY_PREPEND", X, A), lambda a, b, x, y: (x, *(a or ()))),
    "DISTINCT": (
        call("ARRAY_DISTINCT", A),
        lambda a, b, x, y: None if a is None else tuple(dict.fromkeys(a)),
    ),
    "REVERSE": (call("ARRAY_REVERSE", A), lambda a, b, x, y: None if a is None else tuple(reversed(a))),
    "SORT": (
        call("ARRAY_SORT", A),
        lambda a, b, x, y: None if a is None else tuple(sorted(a, key=lambda v: (v is None, v or 0))),
    ),
    "MIN": (
        call("ARRAY_MIN", A),
        lambda a, b, x, y: None if a is None else min((v for v in a if v is not None), default=None),
    ),
    "a = b": (call("=", A, B), lambda a, b, x, y: None if None in (a, b) else list(a) == list(b)),
    "text": (
        Call("CAST", (Call("CAST", (A,), VARCHAR),), ARRAY),
        lambda a, b, x, y: a,
    ),
    "json": (Call("CAST", (Call("CAST", (A,), JSON),), ARRAY), lambda a, b, x, y: a),
}


@pytest.mark.parametrize("name", BY_LISTS)
@given(row=ROWS)
def test_a_function_does_what_python_does_with_lists(name: str, row: Row) -> None:
    expr, wanted = BY_LISTS[name]
    assert answer(expr, row) == wanted(*row)


DUCKDB: dict[str, Expr] = {
    "len($1)": call("CARDINALITY", A),
    "$1[$3]": call(SUBSCRIPT, A, X),
    "list_contains($1, $3)": call("ARRAY_CONTAINS", A, X),
    "list_reverse($1)": call("ARRAY_REVERSE", A),
    "list_sort($1, 'ASC', 'NULLS LAST')": call("ARRAY_SORT", A),
    "list_min($1)": call("ARRAY_MIN", A),
    "list_max($1)": call("ARRAY_MAX", A),
    "$1 = $2": call("=", A, B),
    "$1 is distinct from $2": call("IS DISTINCT FROM", A, B),
}


@pytest.mark.parametrize("sql", DUCKDB)
@settings(max_examples=60, deadline=None)
@given(row=ROWS.filter(lambda row: row[2] is not None and row[2] > 0))
def test_duckdb_agrees(sql: str, row: Row) -> None:
    fields = "$1::integer[] as a, $2::integer[] as b, $3::integer as x, $4::integer as y"
    given_row = [None if each is None else list(each) for each in row[:2]]
    inner = sql.replace("$1", "a").replace("$2", "b").replace("$3", "x").replace("$4", "y")
    found = duckdb.execute(f"select {inner} from (select {fields})", [*given_row, *row[2:]]).fetchone()
    assert found is not None
    wanted = answer(DUCKDB[sql], row)
    assert found[0] == (list(wanted) if isinstance(wanted, tuple) else wanted)


POSTGRES: dict[str, Expr] = {
    "a[x]": call(SUBSCRIPT, A, X),
    "a[x:y]": call(SLICE, A, X, Y),
    "cardinality(a)": call("CARDINALITY", A),
    "x = any (a)": call("= ANY", X, A),
    "x <> all (a)": call("<> ALL", X, A),
    "x >= any (a)": call(">= ANY", X, A),
    "array_position(a, x)": call("ARRAY_POSITION", A, X),
    "a || b": call("ARRAY_CONCAT", A, B),
    "array_append(a, x)": call("ARRAY_APPEND", A, X),
    "array_prepend(x, a)": call("ARRAY_PREPEND", X, A),
    "array_remove(a, x)": call("ARRAY_REMOVE", A, X),
    "array_replace(a, x, y)": call("ARRAY_REPLACE", A, X, Y),
    "a = b": call("=", A, B),
    "a is distinct from b": call("IS DISTINCT FROM", A, B),
    "array_to_string(a, ', ')": call("ARRAY_TO_STRING", A, text(", ")),
    "array_to_string(a, ',', '-')": call("ARRAY_TO_STRING", A, text(","), text("-")),
    "string_to_array(array_to_string(a, ','), ',', '1')": call(
        "STRING_TO_ARRAY", call("ARRAY_TO_STRING", A, text(",")), text(","), text("1")
    ),
    "array_to_json(a)::text": Call("CAST", (A,), VARCHAR),
    "array(select e from unnest(a) with ordinality as t(e, n) order by n)": call(
        "COALESCE", A, Literal((), ARRAY)
    ),
}


@pytest.mark.postgres
def test_postgresql_agrees(postgres_url: str) -> None:
    url = postgres_url.replace("postgresql+psycopg://", "postgresql://")
    with psycopg.connect(url) as connection:

        @settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
        @given(row=ROWS)
        def agrees(row: Row) -> None:
            given_row = [None if each is None else list(each) for each in row[:2]]
            inner = "select %s::integer[] as a, %s::integer[] as b, %s::integer as x, %s::integer as y"
            found = connection.execute(
                f"select {', '.join(POSTGRES)} from ({inner}) as s", (*given_row, *row[2:])
            ).fetchone()
            assert found is not None
            wanted = [answer(expr, row) for expr in POSTGRES.values()]
            shown = [list(each) if isinstance(each, tuple) else each for each in wanted]
            assert dict(zip(POSTGRES, found, strict=True)) == dict(zip(POSTGRES, shown, strict=True))

        agrees()


TEXTS = st.none() | st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=4)


@pytest.mark.postgres
def test_the_text_of_an_array_of_postgresql_is_read(postgres_url: str) -> None:
    url = postgres_url.replace("postgresql+psycopg://", "postgresql://")
    with psycopg.connect(url) as connection:

        @settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])
        @given(
            array=st.lists(TEXTS | st.sampled_from(["NULL", "null", "", " a ", "{", "\\", '"']), max_size=4)
        )
        def is_read(array: list[str | None]) -> None:
            found = connection.execute("select (%s::text[])::text", (array,)).fetchone()
            assert found is not None
            assert postgres_elements(found[0]) == array

        is_read()


@pytest.mark.parametrize(
    "written", ["{1,2", "1,2}", "{{1},{2}}", "{1,,2}", "{1,}", '{"a}', "[1,2", "7", '{"a":1}']
)
def test_text_that_is_not_an_array_is_rejected(written: str) -> None:
    with pytest.raises(RejectedRowError, match="is not a valid INTEGER ARRAY"):
        answer(Call("CAST", (text(written),), ARRAY), (None, None, None, None))


def of(kind: Type, value: object, target: Type) -> object:
    return answer(Call("CAST", (Literal(value, kind),), target), (None, None, None, None))


def test_elements_are_cast_one_by_one() -> None:
    assert of(ARRAY, (1, None), array_of(VARCHAR)) == ("1", None)
    assert of(VARCHAR, '["1", 2, null]', ARRAY) == (1, 2, None)
    with pytest.raises(RejectedRowError, match=r'element \$\[1\]: "x" is not a valid INTEGER'):
        of(array_of(VARCHAR), ("1", "x"), ARRAY)
    with pytest.raises(RejectedRowError, match=r"element \$\[0\]: it is an object"):
        of(JSON, '[{"a": 1}]', ARRAY)
