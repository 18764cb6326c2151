"""What EXPLAIN shows of an expression is SQL: read again, it computes the same."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from rowtide.errors import RejectedRowError
from rowtide.expr.functions import resolve
from rowtide.expr.rowwise import compile_row
from rowtide.expr.tree import Call, Expr, FieldRef, Literal, RowtimeRef
from rowtide.plan.nodes import Project
from rowtide.plan.show import show
from rowtide.rows.types import (
    BOOLEAN,
    INTEGER,
    INTERVAL_DAY,
    TIMESTAMP,
    VARCHAR,
    Field,
    RowType,
    Type,
)
from rowtide.sql.pipeline import SqlSession

ROW = RowType((Field("A", INTEGER), Field("B", INTEGER), Field("T", VARCHAR), Field("P", BOOLEAN)))


def call(function: str, *args: Expr) -> Expr:
    return Call(function, args, resolve(function, tuple(arg.type for arg in args)))


def calls(names: list[str], *args: st.SearchStrategy[Expr]) -> st.SearchStrategy[Expr]:
    return st.builds(lambda name, given: call(name, *given), st.sampled_from(names), st.tuples(*args))


numbers: st.SearchStrategy[Expr] = st.deferred(
    lambda: st.one_of(
        st.sampled_from([FieldRef(0, INTEGER), FieldRef(1, INTEGER)]),
        st.integers(0, 9).map(lambda value: Literal(value, INTEGER)),
        calls(["+", "-", "*", "/", "%"], numbers, numbers),
        calls(["CASE"], conditions, numbers, numbers),
        calls(["CHAR_LENGTH"], texts),
        calls(["NEGATE"], numbers),
        calls(["NULLIF"], numbers, numbers),
    )
)
texts: st.SearchStrategy[Expr] = st.deferred(
    lambda: st.one_of(
        st.just(FieldRef(2, VARCHAR)),
        st.sampled_from(["x", "it's", " "]).map(lambda value: Literal(value, Type(VARCHAR.kind, len(value)))),
        calls(["||"], texts, texts),
        calls(["UPPER"], texts),
    )
)
moments: st.SearchStrategy[Expr] = st.deferred(
    lambda: st.one_of(
        st.just(RowtimeRef()),
        st.builds(
            lambda of, length: call("+", of, Literal(length, INTERVAL_DAY)),
            moments,
            st.integers(-999, 99_999),
        ),
        st.integers(-(10**9), 10**12).map(lambda value: Literal(value, TIMESTAMP)),
        st.builds(
            lambda name, of, unit: call(name, of, Literal(unit, VARCHAR)),
            st.sampled_from(["FLOOR_TO", "CEIL_TO"]),
            moments,
            st.sampled_from(["MINUTE", "WEEK", "MONTH"]),
        ),
    )
)
conditions: st.SearchStrategy[Expr] = st.deferred(
    lambda: st.one_of(
        st.just(FieldRef(3, BOOLEAN)),
        st.sampled_from([Literal(True, BOOLEAN), Literal(False, BOOLEAN)]),
        calls(["=", "<>", "<", "<=", ">", ">="], numbers, numbers),
        calls(["=", "<"], texts, texts),
        calls(["<", ">="], moments, moments),
        calls(["AND", "OR"], conditions, conditions),
        calls(["NOT"], conditions),
        calls(["IS NULL", "IS NOT NULL"], st.one_of(numbers, texts, conditions)),
        calls(["IS TRUE", "IS NOT FALSE"], conditions),
        calls(["IS DISTINCT FROM", "IS NOT DISTINCT FROM"], numbers, numbers),
        calls(["LIKE"], texts, st.just(Literal("x%", Type(VARCHAR.kind, 2)))),
    )
)
rows = st.tuples(
    st.none() | st.integers(-5, 5),
    st.none() | st.integers(-5, 5),
    st.none() | st.sampled_from(["", "x", "xyz", "it's"]),
    st.none() | st.booleans(),
)


def computed(expr: Expr, row: tuple[object, ...]) -> object:
    try:
        return compile_row(expr)(row, 1_234_567_890)
    except RejectedRowError as error:
        return error.reason


@given(st.one_of(numbers, texts, conditions, moments), st.lists(rows, min_size=1, max_size=5))
def test_what_is_shown_reads_as_what_it_shows(expr: Expr, given_rows: list[tuple[object, ...]]) -> None:
    session = SqlSession()
    session.feed("CREATE STREAM s (a INTEGER, b INTEGER, t VARCHAR, p BOOLEAN);")
    text = show(expr, ROW)
    node = session.query(f"SELECT STREAM {text} AS x, a, b, t, p FROM s")
    assert isinstance(node, Project)
    for row in given_rows:
        assert computed(node.expressions[0], row) == computed(expr, row), text
