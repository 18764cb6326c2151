"""The parts of an expression that are computed only if other parts do not decide the result.

These are parts of AND, OR, CASE, COALESCE, and of expressions that are rewritten as these
(docs/sql/expressions.md).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace

from rowtide.sql.expressions.function_forms import written_out
from rowtide.sql.grammar.syntax import (
    Between,
    Binary,
    BinaryLiteral,
    BooleanLiteral,
    Case,
    ColumnRef,
    Expression,
    FunctionCall,
    InList,
    IsDistinct,
    IsTest,
    NullLiteral,
    NumberLiteral,
    StringLiteral,
    TypedLiteral,
    Unary,
)
from rowtide.sql.grammar.syntax_walk import calls_in, parts_of
from rowtide.sql.group.grouped_expressions import has_aggregate

Visit = Callable[[Expression, Iterable[Expression]], Expression]
"""Returns the replacement of a part that is computed only if some conditions are TRUE."""

_COALESCE = frozenset({"COALESCE", "IFNULL", "NVL"})
_SURE_OPERATORS = frozenset({"=", "<>", "<", "<=", ">", ">=", "AND", "OR", "NOT"})
_SURE = (ColumnRef, NumberLiteral, StringLiteral, BinaryLiteral, BooleanLiteral, NullLiteral, TypedLiteral)
_SURE_FORMS = (IsTest, IsDistinct, Between, InList, Case)


def visited(syntax: object, visit: Visit) -> Expression | None:
    """Return an expression with its parts visited, each with its conditions; None if it computes all parts."""
    match syntax:
        case Binary(operator="AND" | "OR"):
            return _junction(syntax, visit)
        case Case():
            return _case(syntax, visit)
        case FunctionCall(name=name, args=args, over=None) if name in _COALESCE:
            done: list[Expression] = []
            for each in args:
                done.append(visit(each, (IsTest(one, "NULL", False, one.place) for one in done)))
            return replace(syntax, args=tuple(done))
        case FunctionCall(over=None) if isinstance(other := written_out(syntax), Case):
            return _case(other, visit)
        case Between(operand=operand, low=low, high=high, place=place):
            operand, low = visit(operand, ()), visit(low, ())
            above = Binary(">=", operand, low, place)
            return replace(syntax, operand=operand, low=low, high=visit(high, [_unless(above, "FALSE")]))
        case InList(operand=operand, items=items, place=place):
            operand, found = visit(operand, ()), list[Expression]()
            for each in items:
                found.append(
                    visit(each, (_unless(Binary("=", operand, one, place), "TRUE") for one in found))
                )
            return replace(syntax, operand=operand, items=tuple(found))
        case _:
            return None


def after(conditions: Sequence[Expression]) -> Iterator[Expression]:
    """Return the conditions under which AND computes the part after ``conditions``."""
    return (_unless(each, "FALSE") for each in conditions)


def may_fail(syntax: Expression) -> bool:
    """Return whether an expression can reject a row, according to its syntax alone."""
    sure = isinstance(syntax, (*_SURE, *_SURE_FORMS)) or (
        isinstance(syntax, Binary | Unary) and syntax.operator in _SURE_OPERATORS
    )
    return not sure or any(map(may_fail, parts_of(syntax)))


def is_of_row(guard: Expression) -> bool:
    """Return whether a condition depends only on a row: it has no aggregate and no window."""
    return not has_aggregate(guard) and all(call.over is None for call in calls_in(guard))


def _unless(condition: Expression, test: str) -> Expression:
    return IsTest(condition, test, True, condition.place)


def _junction(syntax: Binary, visit: Visit) -> Expression:
    operands: list[Expression] = []
    pending: list[Expression] = [syntax]
    while pending:
        each = pending.pop()
        if isinstance(each, Binary) and each.operator == syntax.operator:
            pending += [each.right, each.left]
        else:
            operands.append(each)
    decisive = "FALSE" if syntax.operator == "AND" else "TRUE"
    done: list[Expression] = []
    for each in operands:
        done.append(visit(each, (_unless(one, decisive) for one in done)))
    found = done[0]
    for each in done[1:]:
        found = Binary(syntax.operator, found, each, syntax.place)
    return found


def _case(syntax: Case, visit: Visit) -> Case:
    operand = None if syntax.operand is None else visit(syntax.operand, ())
    branches: list[tuple[Expression, Expression]] = []
    missed: list[Expression] = []
    for when, value in syntax.branches:
        condition = visit(when, missed)
        holds = condition if operand is None else Binary("=", operand, condition, condition.place)
        branches.append((condition, visit(value, [*missed, holds])))
        missed.append(_unless(holds, "TRUE"))
    otherwise = None if syntax.otherwise is None else visit(syntax.otherwise, missed)
    return replace(syntax, operand=operand, branches=tuple(branches), otherwise=otherwise)
