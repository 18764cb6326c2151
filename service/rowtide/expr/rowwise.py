"""Expressions over one row: tree -> function of a row. It defines the meaning of an expression."""

from __future__ import annotations

from rowtide.errors import Reason, RejectedRowError, rejection_of
from rowtide.expr.coercion import coerced
from rowtide.expr.evaluation import RowEvaluator
from rowtide.expr.functions.function import CallSignature
from rowtide.expr.functions.numbers.floats import single
from rowtide.expr.python.calls import function_of
from rowtide.expr.tree import BodyCall, Call, Expr, FieldRef, Literal, RowtimeRef
from rowtide.rows.rowop import Row
from rowtide.rows.types import Kind


def compile_row(expr: Expr) -> RowEvaluator:
    """Return the function that evaluates ``expr`` for a row and its rowtime (ms).

    The function returns the value in row form, None for NULL, and raises RejectedRowError where the
    expression has no value. Any other exception of a function is a rejection too (FUNCTION), so that
    no row can stop a pipeline.

    Raises:
      UnknownFunction: a call names no function; who builds trees asks ``functions.registry.resolve`` first.
    """
    evaluate = _compile(expr)
    if not isinstance(expr, Call):
        return evaluate

    def evaluated(row: Row, rowtime: int) -> object:
        try:
            return evaluate(row, rowtime)
        except RejectedRowError:
            raise
        except Exception as error:
            raise rejection_of(error, Reason.FUNCTION) from error

    return evaluated


def _compile(expr: Expr) -> RowEvaluator:
    match expr:
        case Literal():
            value = literal_value(expr)
            return lambda row, rowtime: value
        case FieldRef(index=index):
            return lambda row, rowtime: row[index]
        case RowtimeRef():
            return lambda row, rowtime: rowtime
        case Call():
            return _call(expr)


def literal_value(literal: Literal) -> object:
    """Return the value of a literal, rounded to its type if that is a float type."""
    if literal.value is None or not literal.type.is_float:
        return literal.value
    value = float(literal.value)  # type: ignore[arg-type]
    return single(value) if literal.type.kind is Kind.REAL else value


def _call(call: Call) -> RowEvaluator:
    if isinstance(call, BodyCall):
        return _body(call)
    function = function_of(call)
    args = coerced(function, call)
    evaluators = [_compile(arg) for arg in args]
    signature = CallSignature(
        function.name,
        tuple(arg.type for arg in args),
        call.type,
        tuple(arg.value if isinstance(arg, Literal) else None for arg in args),
    )
    evaluate = function.row(signature, evaluators)
    if not all(isinstance(arg, Literal) for arg in args):
        return evaluate
    return _once(evaluate)


def _body(call: BodyCall) -> RowEvaluator:
    """Evaluate the arguments, each once, and the body over the row of their values."""
    body = _compile(call.body)
    args = [_compile(arg) for arg in call.args]
    return lambda row, rowtime: body(tuple(arg(row, rowtime) for arg in args), rowtime)


def _once(evaluate: RowEvaluator) -> RowEvaluator:
    """Evaluate a constant expression once. If it fails, it fails for each row."""
    nothing: Row = ()
    try:
        value = evaluate(nothing, 0)
    except Exception:  # noqa: BLE001 - ``compile_row`` makes a rejection of it
        return evaluate
    return lambda row, rowtime: value
