"""Columns and rows give the same, and how rows are cut into trays changes nothing (law 1)."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from property.expr.expression_trees import ROW_TYPE, bits, expressions, timed_rows
from rowtide.errors import RejectedRowError
from rowtide.expr.columnar import Evaluated, compile_columns
from rowtide.expr.constant import fold
from rowtide.expr.rowwise import compile_row
from rowtide.expr.tree import Expr
from rowtide.rows.rowop import TimedRow
from rowtide.rows.tray import Tray


def by_row(expr: Expr, rows: list[TimedRow]) -> list[object]:
    evaluate = compile_row(expr)
    answers: list[object] = []
    for timed in rows:
        try:
            answers.append(bits(evaluate(timed.row, timed.rowtime)))
        except RejectedRowError as error:
            answers.append((error.reason, str(error)))
    return answers


def by_column(evaluated: Evaluated) -> list[object]:
    answers = [bits(value) for value in evaluated.column.to_list()]
    if evaluated.errors is not None:
        for index, error in zip(evaluated.errors.rows.tolist(), evaluated.errors, strict=True):
            answers[index] = (error.reason, error.message)
    return answers


@given(expressions(), timed_rows())
def test_columns_give_what_rows_give(expr: Expr, rows: list[TimedRow]) -> None:
    evaluated = compile_columns(expr)(Tray.from_rows(ROW_TYPE, rows))
    assert by_column(evaluated) == by_row(expr, rows)
    assert evaluated.column.type == expr.type
    if not expr.type.is_variable_width:
        assert evaluated.column.values.dtype == expr.type.dtype


@given(expressions(), timed_rows(), st.data())
def test_any_slice_of_a_tray_gives_the_same(expr: Expr, rows: list[TimedRow], data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(rows)))
    stop = data.draw(st.integers(start, len(rows)))
    evaluate = compile_columns(expr)
    tray = Tray.from_rows(ROW_TYPE, rows)
    assert by_column(evaluate(tray.slice(start, stop))) == by_column(evaluate(tray))[start:stop]


@given(expressions(), timed_rows())
def test_folding_changes_no_answer(expr: Expr, rows: list[TimedRow]) -> None:
    folded = fold(expr)
    assert folded.type == expr.type
    assert by_row(folded, rows) == by_row(expr, rows)
