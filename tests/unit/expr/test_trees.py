"""Folding of constants, names of functions, and what an evaluated column looks like."""

from __future__ import annotations

import numpy as np
import pytest

from rowtide.errors import Reason
from rowtide.expr.columnar import RowErrors, compile_columns
from rowtide.expr.constant import fold
from rowtide.expr.functions import FUNCTIONS, UnknownFunction, resolve
from rowtide.expr.tree import Call, Expr, FieldRef, Literal, RowtimeRef
from rowtide.rows.rowop import TimedRow
from rowtide.rows.tray import Tray
from rowtide.rows.types import (
    BIGINT,
    BOOLEAN,
    INTEGER,
    INTERVAL_DAY,
    TIMESTAMP,
    VARCHAR,
    Field,
    RowType,
    decimal,
)

X = FieldRef(0, INTEGER)
FLAG = FieldRef(1, BOOLEAN)
ONE, ZERO = Literal(1, INTEGER), Literal(0, INTEGER)
TRUE, FALSE = Literal(True, BOOLEAN), Literal(False, BOOLEAN)
FAILING = Call("/", (ONE, ZERO), INTEGER)
ROW_TYPE = RowType((Field("X", INTEGER), Field("FLAG", BOOLEAN)))


def call(name: str, *args: Expr) -> Call:
    return Call(name, args, resolve(name, [arg.type for arg in args]))


@pytest.mark.parametrize(
    ("expr", "folded"),
    [
        (call("+", ONE, ONE), Literal(2, INTEGER)),
        (call("+", X, call("+", ONE, ONE)), call("+", X, Literal(2, INTEGER))),
        (FAILING, FAILING),
        (call("AND", FALSE, FLAG), FALSE),
        (call("AND", TRUE, FLAG), FLAG),
        (call("AND", FLAG, FALSE), call("AND", FLAG, FALSE)),
        (call("OR", TRUE, call("=", FAILING, ONE)), TRUE),
        (call("CASE", FALSE, FAILING, TRUE, X, FAILING), X),
        (call("CASE", FLAG, X, TRUE, ONE, FAILING), call("CASE", FLAG, X, ONE)),
        (call("COALESCE", Literal(None, INTEGER), X, ONE, FAILING), call("COALESCE", X, ONE)),
        (call("COALESCE", ONE, FAILING), ONE),
        (call("CASE", TRUE, ONE, Literal(None, BIGINT)), Literal(1, BIGINT)),
    ],
)
def test_constants_are_folded_and_what_fails_is_left(expr: Expr, folded: Expr) -> None:
    assert fold(expr) == folded


def test_a_name_that_is_nearly_right_is_suggested() -> None:
    with pytest.raises(UnknownFunction) as caught:
        resolve("SUBSTRNG", [VARCHAR])
    assert caught.value.message == 'function "SUBSTRNG" does not exist'
    assert caught.value.hint == 'Did you mean "SUBSTRING"?'


def test_other_names_are_the_same_function() -> None:
    assert FUNCTIONS["MOD"] is FUNCTIONS["%"]
    assert resolve("CEILING", [decimal(4, 2)]) == decimal(3)


def test_a_rejected_row_is_null_and_the_others_keep_their_values() -> None:
    tray = Tray.from_rows(ROW_TYPE, [TimedRow(0, 0, i, 1, (x, None)) for i, x in enumerate((2, 0, None, -1))])
    evaluated = compile_columns(call("/", ONE, X))(tray)
    assert evaluated.column.to_list() == [0, None, None, -1]
    assert evaluated.errors is not None
    assert evaluated.errors.rows.tolist() == [1]
    assert [error.reason for error in evaluated.errors] == [Reason.DIVISION_BY_ZERO]
    assert evaluated.errors.mask(4).tolist() == [False, True, False, False]


def test_of_several_columns_the_first_error_of_a_row_counts() -> None:
    tray = Tray.from_rows(ROW_TYPE, [TimedRow(0, 0, i, 1, (x, None)) for i, x in enumerate((0, 2**31 - 1))])
    columns = [
        compile_columns(each)(tray) for each in (call("+", X, ONE), call("/", ONE, X), call("/", X, X))
    ]
    errors = RowErrors.first([each.errors for each in columns])
    assert errors is not None
    assert [error.reason for error in errors] == [Reason.DIVISION_BY_ZERO, Reason.OVERFLOW]
    assert RowErrors.first([None, None]) is None


def test_without_nulls_there_is_no_mask() -> None:
    tray = Tray.from_rows(ROW_TYPE, [TimedRow(5, 0, i, 1, (i, True)) for i in range(3)])
    for expr in (call("+", X, ONE), call("CASE", FLAG, X, ONE), call("COALESCE", X, ONE), RowtimeRef()):
        assert compile_columns(expr)(tray).column.valid is None
    assert compile_columns(call("+", RowtimeRef(), Literal(1, INTERVAL_DAY)))(tray).column.to_list() == [
        6,
        6,
        6,
    ]


def test_a_constant_fills_its_column() -> None:
    tray = Tray.from_rows(ROW_TYPE, [TimedRow(5, 0, i, 1, (i, True)) for i in range(3)])
    column = compile_columns(Literal(7, TIMESTAMP))(tray).column
    assert column.values.dtype == np.int64
    assert column.to_list() == [7, 7, 7]
    assert compile_columns(Literal("a", VARCHAR))(tray).column.to_list() == ["a"] * 3
    assert compile_columns(Literal(None, VARCHAR))(tray.slice(0, 0)).column.to_list() == []
