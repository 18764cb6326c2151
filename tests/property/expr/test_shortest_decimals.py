"""A float is rounded to digits, and becomes a DECIMAL, from the shortest decimal that reads back the same."""

from __future__ import annotations

import math
from decimal import ROUND_DOWN, ROUND_HALF_UP, Context, Decimal

import numpy as np
from hypothesis import example, given
from hypothesis import strategies as st

from property.expr.expression_trees import REAL
from rowtide.errors import RejectedRowError
from rowtide.expr.columnar import compile_columns
from rowtide.expr.functions import resolve
from rowtide.expr.functions.numbers.floats import single
from rowtide.expr.rowwise import compile_row
from rowtide.expr.tree import Call, Expr, FieldRef, Literal
from rowtide.rows.rowop import TimedRow
from rowtide.rows.tray import Tray
from rowtide.rows.types import DOUBLE, INTEGER, VARCHAR, Field, RowType, Type, decimal

WIDE = Context(prec=800)
prices = st.decimals(-10_000, 10_000, places=3).map(float)
doubles = prices | st.floats(allow_nan=False, allow_infinity=False) | st.floats(-1e6, 1e6)


def results(expr: Expr, kind: Type, value: float) -> object:
    """Return what an expression over one field gives, alone and in a column of several rows."""
    tray = Tray.from_rows(RowType((Field("X", kind),)), [TimedRow(0, 0, at, 1, (value,)) for at in range(5)])
    found = compile_columns(expr)(tray)
    try:
        alone = compile_row(expr)((value,), 0)
    except RejectedRowError as error:
        assert found.errors is not None
        assert [each.message for each in found.errors] == [str(error)] * 5
        return error.reason.name
    assert found.errors is None
    assert list(map(repr, found.column.to_list())) == [repr(alone)] * 5
    return alone


def shortest(value: float, kind: Type) -> Decimal:
    """Return the decimal that CAST to text writes."""
    return Decimal(str(np.float32(value)) if kind == REAL else repr(value))


def kept(value: Decimal, places: int, *, up: bool) -> Decimal:
    """Return a decimal with so many digits behind the point, negative: before it."""
    rounding = ROUND_HALF_UP if up else ROUND_DOWN
    return value.quantize(Decimal(1).scaleb(-places), rounding=rounding, context=WIDE)


@example(2.675, 2, DOUBLE)
@example(1.005, 2, DOUBLE)
@example(1.115, 2, DOUBLE)
@example(0.29, 2, DOUBLE)
@example(-0.0, 1, DOUBLE)
@example(1.7e308, -308, DOUBLE)
@given(doubles, st.integers(-25, 25).filter(bool), st.sampled_from((DOUBLE, REAL)))
def test_rounding_starts_from_the_shortest_decimal(value: float, places: int, kind: Type) -> None:
    if kind == REAL:
        try:
            value = single(value)
        except OverflowError:
            return
    for name in ("ROUND", "TRUNCATE"):
        call = Call(name, (FieldRef(0, kind), Literal(places, INTEGER)), resolve(name, [kind, INTEGER]))
        given_decimal = shortest(value, kind)
        exponent = given_decimal.as_tuple().exponent
        assert isinstance(exponent, int)
        wanted = value
        if -exponent > places:
            wanted = float(kept(given_decimal, places, up=name == "ROUND"))
            if kind == REAL and math.isfinite(wanted):
                try:
                    wanted = single(wanted)
                except OverflowError:
                    wanted = math.inf
        found = results(call, kind, value)
        assert found == (wanted if math.isfinite(wanted) else "OVERFLOW")


@example(5.55, 2, 1, DOUBLE)
@example(0.285, 4, 2, DOUBLE)
@example(1e23, 38, 0, DOUBLE)
@given(doubles, st.integers(1, 38), st.integers(0, 30), st.sampled_from((DOUBLE, REAL)))
def test_cast_to_decimal_gives_what_its_text_gives(
    value: float, precision: int, scale: int, kind: Type
) -> None:
    if kind == REAL:
        try:
            value = single(value)
        except OverflowError:
            return
    target = decimal(max(precision, scale), scale)
    field = FieldRef(0, kind)
    found = results(Call("CAST", (field,), target), kind, value)
    text = Call("CAST", (field,), VARCHAR)
    assert found == results(Call("CAST", (text,), target), kind, value)
    wanted = kept(shortest(value, kind), scale, up=True)
    fits = abs(wanted.scaleb(scale, WIDE)) < 10**target.precision if target.precision else True
    assert found == (wanted if fits else "OVERFLOW")
