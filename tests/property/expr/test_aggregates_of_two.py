"""Aggregates of two arguments against DuckDB and Python; pairs are ordered as their values are."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial

import duckdb
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from property.expr.expression_trees import TYPES, bits, values
from rowtide.expr.aggregates import AGGREGATES
from rowtide.expr.columnar import compile_columns
from rowtide.expr.functions.pairs import PAIR, by, key_of, numbers
from rowtide.expr.rowwise import compile_row
from rowtide.expr.tree import AggregateCall, Call, FieldRef
from rowtide.rows.rowop import Opcode, TimedRow
from rowtide.rows.tray import Tray
from rowtide.rows.types import DOUBLE, VARCHAR, Field, RowType, Type

REGRESSIONS = [name for name, each in AGGREGATES.items() if each.pair_of == "$NUMBERS"]
points = st.tuples(st.integers(-50, 50).map(lambda n: n / 4), st.integers(-50, 50).map(lambda n: n / 4))


def result_of(name: str, pairs: Sequence[bytes], kind: Type) -> object:
    return AGGREGATES[name].value_of(AggregateCall(name, FieldRef(0, PAIR), kind), pairs)


@pytest.fixture(scope="module")
def connection() -> duckdb.DuckDBPyConnection:
    return duckdb.connect()


@settings(max_examples=40, deadline=None)
@given(st.lists(points, min_size=1, max_size=12))
def test_duckdb_gives_the_same(
    connection: duckdb.DuckDBPyConnection, points: list[tuple[float, float]]
) -> None:
    rows = ", ".join(f"({y}::DOUBLE, {x}::DOUBLE)" for y, x in points)
    calls = ", ".join(f"{name.lower()}(y, x)" for name in REGRESSIONS)
    (theirs,) = connection.execute(f"SELECT {calls} FROM (VALUES {rows}) AS v (y, x)").fetchall()
    pairs = [numbers(y, x) for y, x in points]
    for name, wanted in zip(REGRESSIONS, theirs, strict=True):
        found = result_of(name, pairs, DOUBLE)
        if wanted is None or math.isnan(wanted):
            assert found is None, name
        else:
            assert found == pytest.approx(wanted, rel=1e-9, abs=1e-9), name


@given(st.lists(points, min_size=2, max_size=8))
def test_the_order_of_pairs_changes_no_bit(points: list[tuple[float, float]]) -> None:
    pairs = [numbers(y, x) for y, x in points]
    for name in REGRESSIONS:
        assert bits(result_of(name, pairs, DOUBLE)) == bits(result_of(name, pairs[::-1], DOUBLE))


def test_a_result_that_no_double_holds_is_null() -> None:
    assert result_of("REGR_SXX", [numbers(0.0, 1e300), numbers(0.0, -1e300)], DOUBLE) is None


@pytest.mark.parametrize("kind", [kind for kind in TYPES if kind.element is None], ids=str)
@settings(max_examples=30, deadline=None)
@given(data=st.data())
def test_keys_are_ordered_as_their_values(kind: Type, data: st.DataObject) -> None:
    first, second = data.draw(values(kind)), data.draw(values(kind))
    assume(first == first and second == second)
    low, high = (key_of(by(VARCHAR, "x", kind, value)) for value in (first, second))
    assert (low < high, low == high) == (first < second, first == second)  # type: ignore[operator]


@pytest.mark.parametrize("kind", TYPES, ids=str)
@settings(max_examples=20, deadline=None)
@given(data=st.data())
def test_a_value_comes_out_of_a_pair_as_it_went_in(kind: Type, data: st.DataObject) -> None:
    row_type = RowType((Field("X", kind), Field("Y", DOUBLE)))
    pair = Call("$BY", (FieldRef(0, kind), FieldRef(1, DOUBLE)), PAIR)
    value = Call("$VALUE", (pair,), kind)
    some = st.tuples(st.none() | values(kind), st.none() | values(DOUBLE))
    rows = [
        TimedRow(at, 0, at, Opcode.INSERT, row)
        for at, row in enumerate(data.draw(st.lists(some, max_size=5)))
    ]
    found = compile_columns(value)(Tray.from_rows(row_type, rows)).column.to_list()
    wanted = [None if timed.row[1] is None else timed.row[0] for timed in rows]
    assert [bits(each) for each in found] == [bits(each) for each in wanted]
    assert [bits(compile_row(value)(timed.row, 0)) for timed in rows] == [bits(each) for each in wanted]


distinct_keys = st.lists(
    st.tuples(st.none() | st.text("ab", max_size=2), st.integers(-99, 99)),
    min_size=1,
    unique_by=lambda each: each[1],
)


@given(distinct_keys, st.sampled_from(("MAX_BY", "MIN_BY")))
def test_the_value_beside_the_extreme_is_python_s(rows: list[tuple[str | None, int]], name: str) -> None:
    extreme = partial(max if name == "MAX_BY" else min, key=lambda each: each[1])
    pairs = [by(VARCHAR, text, DOUBLE, float(key)) for text, key in rows]
    assert result_of(name, pairs, PAIR) == by(VARCHAR, extreme(rows)[0], DOUBLE, float(extreme(rows)[1]))


def test_nan_is_taken_only_where_there_is_nothing_else() -> None:
    nan, one = by(VARCHAR, "nan", DOUBLE, math.nan), by(VARCHAR, "one", DOUBLE, 1.0)
    assert result_of("MAX_BY", [nan, one], PAIR) == result_of("MIN_BY", [nan, one], PAIR) == one
    assert result_of("MAX_BY", [nan], PAIR) == result_of("MIN_BY", [nan], PAIR) == nan
