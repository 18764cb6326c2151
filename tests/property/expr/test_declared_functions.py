"""Calls of functions in Python and in SQL: columns give what rows give, in and under other expressions."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from property.expr.expression_trees import ROW_TYPE, expressions, of_type, timed_rows
from property.expr.test_expressions_agree import by_column, by_row
from rowtide.errors import Reason
from rowtide.expr.columnar import compile_columns
from rowtide.expr.constant import fold
from rowtide.expr.failing import can_fail
from rowtide.expr.tree import (
    BodyCall,
    Call,
    Expr,
    FieldRef,
    PythonCall,
    PythonFunction,
    fields_used,
    renumbered,
)
from rowtide.rows.rowop import TimedRow
from rowtide.rows.tray import Tray
from rowtide.rows.types import BOOLEAN

PATHS = {"rows": "last", "numpy": "last_of_arrays", "arrow": "last_of_arrow"}


@st.composite
def python_calls(draw: st.DrawFn) -> PythonCall:
    args = tuple(draw(st.lists(expressions(depth=2), min_size=1, max_size=3)))
    returns = args[-1].type
    takes = tuple(arg.type for arg in args)
    form = draw(st.sampled_from(sorted(PATHS)))
    path = f"property.expr.called_functions:{PATHS[form]}"
    of = PythonFunction("LAST", path, takes, returns, draw(st.booleans()), form, "")
    return PythonCall("LAST", args, returns, of)


@st.composite
def body_calls(draw: st.DrawFn) -> BodyCall:
    body = draw(expressions(depth=2) | python_calls())
    used = sorted(fields_used(body))
    args = tuple(draw(of_type(ROW_TYPE[field].type, 2)) for field in used)
    return BodyCall("F", args, body.type, renumbered(body, {field: at for at, field in enumerate(used)}))


@st.composite
def around(draw: st.DrawFn, call: Expr) -> Expr:
    """Return a call by itself, or under a guard."""
    other = draw(of_type(call.type, 1))
    condition = draw(of_type(BOOLEAN, 2))
    guarded = (
        Call("CASE", (condition, call, other), call.type),
        Call("COALESCE", (other, call), call.type),
        Call("AND", (condition, Call("IS NULL", (call,), BOOLEAN)), BOOLEAN),
    )
    return draw(st.sampled_from([call, *guarded]))


DECLARED = (python_calls() | body_calls()).flatmap(around)


@given(DECLARED, timed_rows())
def test_columns_give_what_rows_give(expr: Expr, rows: list[TimedRow]) -> None:
    evaluated = compile_columns(expr)(Tray.from_rows(ROW_TYPE, rows))
    assert by_column(evaluated) == by_row(expr, rows)
    if not expr.type.is_variable_width:
        assert evaluated.column.values.dtype == expr.type.dtype


@given(DECLARED, timed_rows())
def test_folding_changes_no_answer(expr: Expr, rows: list[TimedRow]) -> None:
    assert by_row(fold(expr), rows) == by_row(expr, rows)


@given(DECLARED, timed_rows())
def test_what_cannot_fail_does_not(expr: Expr, rows: list[TimedRow]) -> None:
    assert can_fail(expr) or not any(map(failed, by_row(expr, rows)))


@given(body_calls(), timed_rows())
def test_a_body_over_arguments_is_the_body_with_the_arguments_in_it(
    call: BodyCall, rows: list[TimedRow]
) -> None:
    written_out = _with(call.body, call.args)
    failing = [by_row(arg, rows) for arg in call.args]
    for at, answers in enumerate(zip(by_row(call, rows), by_row(written_out, rows), strict=True)):
        if not any(failed(column[at]) for column in failing):
            assert answers[0] == answers[1]


@given(python_calls(), timed_rows())
def test_a_function_of_arrays_gives_what_the_function_of_a_row_gives(
    call: PythonCall, rows: list[TimedRow]
) -> None:
    path = "property.expr.called_functions:last"
    by_rows = replace(call, of=replace(call.of, path=path, form="rows"))
    found, wanted = (
        by_column(compile_columns(each)(Tray.from_rows(ROW_TYPE, rows))) for each in (call, by_rows)
    )
    assert [failed(each) or each for each in found] == [failed(each) or each for each in wanted]


def failed(answer: object) -> bool:
    return isinstance(answer, tuple) and isinstance(answer[0], Reason)


def _with(body: Expr, args: tuple[Expr, ...]) -> Expr:
    if isinstance(body, FieldRef):
        return args[body.index]
    if isinstance(body, PythonCall):
        inner = tuple(_with(arg, args) for arg in body.args)
        return PythonCall(body.function, inner, body.type, body.of)
    if isinstance(body, Call):
        return Call(body.function, tuple(_with(arg, args) for arg in body.args), body.type)
    return body
