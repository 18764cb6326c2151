"""Calls of declared functions: syntax -> the typed tree.

A function in SQL is replaced by its expression. An argument that may fail, or that the expression reads
more than once, is computed once, before the expression, unless it is a column or a constant.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from rowtide.errors import SourceSpan, StatementError
from rowtide.expr.constant import fold
from rowtide.expr.failing import can_fail
from rowtide.expr.tree import (
    BodyCall,
    Call,
    Expr,
    FieldRef,
    Literal,
    PythonAggregate,
    PythonCall,
    PythonFunction,
    PythonTable,
    RowtimeRef,
)
from rowtide.sql.expressions.conversions import assign, cast
from rowtide.sql.expressions.typed_calls import OperandPlanner
from rowtide.sql.grammar.syntax import DeclaredFunction, FunctionCall


def declared_call(planner: OperandPlanner, function: DeclaredFunction, syntax: FunctionCall) -> Expr:
    """Return the typed call of a declared function.

    Raises:
      StatementError: the arguments do not fit its parameters; with its place.
    """
    place = syntax.place
    if isinstance(function.body, PythonTable):
        raise StatementError(
            f'function "{function.name}" returns rows',
            span=place,
            hint=f"Write SELECT STREAM .. FROM TABLE({function.name}(CURSOR(SELECT STREAM ..), ..)) AS t.",
        )
    if syntax.over is not None or syntax.star or syntax.distinct or syntax.condition is not None:
        raise _no_aggregate(function, place)
    if syntax.ignore_nulls:
        raise StatementError(f"{function.name} takes no IGNORE NULLS", span=place)
    return fold(_called(function, arguments(planner, function, syntax), place))


def arguments(planner: OperandPlanner, function: DeclaredFunction, syntax: FunctionCall) -> tuple[Expr, ...]:
    """Return the arguments of a call, of the types of the parameters.

    Raises:
      StatementError: they do not fit.
    """
    place = syntax.place
    if len(syntax.args) != len(function.parameters):
        count = len(function.parameters)
        raise StatementError(
            f'function "{function.name}" takes {count} argument{"" if count == 1 else "s"}, '
            f"{len(syntax.args)} given",
            span=place,
            hint=f"It is {function}.",
        )
    return tuple(
        assign(planner.typed(arg), of, f'parameter "{name}" of "{function.name}"', arg.place)
        for (name, of), arg in zip(function.parameters, syntax.args, strict=True)
    )


def _no_aggregate(function: DeclaredFunction, span: SourceSpan) -> StatementError:
    return StatementError(f'function "{function.name}" is not an aggregate', span=span)


def _called(function: DeclaredFunction, args: tuple[Expr, ...], span: SourceSpan) -> Expr:
    body = function.body
    if isinstance(body, PythonAggregate | PythonTable):
        raise TypeError(f"{function.name} is not a scalar function")
    if isinstance(body, PythonFunction):
        return PythonCall(function.name, args, body.returns, body)
    if all(_substitutes(arg, body, index) for index, arg in enumerate(args)):
        return _over(body, args, span)
    return BodyCall(function.name, args, body.type, body)


def _over(body: Expr, args: Sequence[Expr], span: SourceSpan) -> Expr:
    """Return the expression of a function with its arguments in the place of its parameters."""
    match body:
        case FieldRef(index=index, type=of):
            # An expression may read a text parameter as a longer text.
            return args[index] if args[index].type == of else cast(args[index], of, span)
        case Call(args=inner):
            return replace(body, args=tuple(_over(each, args, span) for each in inner))
        case _:
            return body


def _substitutes(arg: Expr, body: Expr, index: int) -> bool:
    """Return whether an argument can take the place of its parameter."""
    if isinstance(arg, FieldRef | Literal | RowtimeRef):
        return True
    return not can_fail(arg) and _uses(body, index) <= 1


def _uses(expr: Expr, index: int) -> int:
    match expr:
        case FieldRef(index=read):
            return int(read == index)
        case Call(args=args):
            return sum(_uses(arg, index) for arg in args)
        case _:
            return 0
