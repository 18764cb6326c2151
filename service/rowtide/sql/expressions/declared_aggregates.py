"""Calls of aggregates in Python: the one argument of the plan's call, and the result over its state."""

from __future__ import annotations

from rowtide.errors import StatementError
from rowtide.expr.functions.arguments import PACKED, packed
from rowtide.expr.tree import Call, Expr, Literal, PythonAggregate, ResultCall
from rowtide.sql.expressions.declared_calls import arguments
from rowtide.sql.expressions.typed_calls import OperandPlanner
from rowtide.sql.grammar.syntax import DeclaredFunction, FunctionCall


def declared_argument(
    planner: OperandPlanner, function: DeclaredFunction, of: PythonAggregate, syntax: FunctionCall
) -> Expr:
    """Return all arguments of a call as one; it is NULL for a row that is left out.

    Raises:
      StatementError: the arguments do not fit the parameters.
    """
    place = syntax.place
    if syntax.ignore_nulls:
        hint = "Rows with a NULL are left out." if not of.takes_null else "The class gets NULL as None."
        raise StatementError(f"{function.name} takes no IGNORE NULLS", span=place, hint=hint)
    if syntax.star and function.parameters:
        raise StatementError(f"{function.name}(*) is not allowed", span=place, hint=f"It is {function}.")
    args = arguments(planner, function, syntax)
    if not args:
        return Literal(packed((), ()), PACKED)
    return Call("$ARGUMENTS" if of.takes_null else "$GIVEN", args, PACKED)


def declared_result(state: Expr, of: PythonAggregate) -> ResultCall:
    """Return the result of an aggregate over its state."""
    return ResultCall(f"{of.name}.result", (state,), of.returns, of)
