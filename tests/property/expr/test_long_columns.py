"""Columns longer than a processor's vectors: their ends give the same bits as their middles, and as rows."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from property.expr.expression_trees import REAL, bits
from rowtide.errors import RejectedRowError
from rowtide.expr.columnar import compile_columns
from rowtide.expr.functions import resolve
from rowtide.expr.rowwise import compile_row
from rowtide.expr.tree import Call, Expr, FieldRef, Literal
from rowtide.rows.column import Column
from rowtide.rows.tray import Tray
from rowtide.rows.types import BIGINT, DOUBLE, INTEGER, TIMESTAMP, VARCHAR, Field, RowType, Type, decimal

PRICE = decimal(10, 2)
ROW_TYPE = RowType((Field("D", DOUBLE), Field("R", REAL), Field("B", BIGINT), Field("P", PRICE)))
D, R, B, P = (FieldRef(index, field.type) for index, field in enumerate(ROW_TYPE))


def call(name: str, *args: Expr) -> Call:
    return Call(name, args, resolve(name, [arg.type for arg in args]))


def cast(arg: Expr, to: Type) -> Call:
    return Call("CAST", (arg,), to)


THOUSAND = Literal(1000, INTEGER)
MOMENT = cast(call("%", B, Literal(10**13, BIGINT)), TIMESTAMP)
EXPRESSIONS = (
    call("EXP", D),
    call("LN", call("ABS", D)),
    call("LOG10", call("ABS", D)),
    call("SQRT", call("ABS", D)),
    call("POWER", call("ABS", D), call("/", D, Literal(50.0, DOUBLE))),
    call("POWER", D, Literal(2, INTEGER)),
    call("ROUND", D, Literal(2, INTEGER)),
    call("*", R, R),
    call("/", R, R),
    call("/", D, D),
    call("/", B, THOUSAND),
    call("%", B, THOUSAND),
    call("*", B, B),
    call("*", B, P),
    call("/", P, P),
    cast(D, PRICE),
    cast(P, DOUBLE),
    cast(D, BIGINT),
    cast(B, VARCHAR),
    call("FLOOR_TO", MOMENT, Literal("MONTH", VARCHAR)),
    call("EXTRACT", Literal("WEEK", VARCHAR), MOMENT),
)


@st.composite
def trays(draw: st.DrawFn) -> Tray:
    count = draw(st.integers(0, 80))
    random = np.random.default_rng(draw(st.integers(0, 2**32)))
    columns = (
        Column(DOUBLE, random.normal(scale=draw(st.sampled_from([1e-3, 1.0, 400.0])), size=count)),
        Column(REAL, random.normal(size=count).astype(np.float32)),
        Column(BIGINT, random.integers(-(2 ** draw(st.integers(1, 62))), 2**62, size=count)),
        Column(PRICE, random.integers(-(10**6), 10**6, size=count)),
    )
    return Tray.from_columns(ROW_TYPE, columns, np.arange(count), 0, np.arange(count))


@pytest.mark.parametrize("expr", EXPRESSIONS, ids=lambda expr: f"{expr.function} of {expr.args[0].type}")
@given(tray=trays(), data=st.data())
def test_every_row_of_a_long_column_is_what_it_is_alone(expr: Expr, tray: Tray, data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(tray)))
    evaluated = compile_columns(expr)(tray.slice(start, len(tray)))
    rejected = np.zeros(len(tray) - start, dtype=np.bool_)
    if evaluated.errors is not None:
        rejected = evaluated.errors.mask(len(tray) - start)
    evaluate = compile_row(expr)
    rows = list(tray.rows())[start:]
    for timed, value, is_rejected in zip(rows, evaluated.column.to_list(), rejected, strict=True):
        try:
            alone = evaluate(timed.row, timed.rowtime)
        except RejectedRowError:
            assert is_rejected
        else:
            assert not is_rejected
            assert bits(value) == bits(alone)
