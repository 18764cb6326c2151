"""Expressions over one row: tree -> function of a row. This is what an expression means."""

from __future__ import annotations

from rowtide.errors import RejectedRowError
from rowtide.expr.coercion import coerced
from rowtide.expr.evaluation import RowEvaluator
from rowtide.expr.functions import find
from rowtide.expr.functions.floats import single
from rowtide.expr.functions.function import Signature
from rowtide.expr.tree import Call, Expr, FieldRef, Literal, RowtimeRef
from rowtide.rows.rowop import Row
from rowtide.rows.types import Kind


def compile_row(expr: Expr) -> RowEvaluator:
    """Give the function that evaluates ``expr`` for a row and its rowtime (ms).

    The function gives the value in row form, None for NULL, and raises
    RejectedRowError where the expression has no value.

    Raises:
      UnknownFunction: a call names no function; whoever builds trees asks ``functions.resolve`` first.
    """
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
    """Give the value of a literal, of a float type as a float that the type has."""
    if literal.value is None or not literal.type.is_float:
        return literal.value
    value = float(literal.value)  # type: ignore[arg-type]
    return single(value) if literal.type.kind is Kind.REAL else value


def _call(call: Call) -> RowEvaluator:
    function = find(call.function)
    args = coerced(function, call)
    evaluators = [compile_row(arg) for arg in args]
    signature = Signature(
        function.name,
        tuple(arg.type for arg in args),
        call.type,
        tuple(arg.value if isinstance(arg, Literal) else None for arg in args),
    )
    evaluate = function.row(signature, evaluators)
    if not all(isinstance(arg, Literal) for arg in args):
        return evaluate
    return _once(evaluate)


def _once(evaluate: RowEvaluator) -> RowEvaluator:
    """Evaluate what depends on no row once; what fails goes on failing for each row."""
    nothing: Row = ()
    try:
        value = evaluate(nothing, 0)
    except RejectedRowError:
        return evaluate
    return lambda row, rowtime: value
