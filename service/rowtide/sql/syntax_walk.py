"""What stands inside of an expression, as syntax."""

from __future__ import annotations

from collections.abc import Iterator

from rowtide.sql.syntax import (
    Between,
    Binary,
    Case,
    Cast,
    Expression,
    Extract,
    FunctionCall,
    InList,
    IsDistinct,
    IsTest,
    Like,
    Rounded,
    Stepped,
    Unary,
)


def parts_of(syntax: Expression) -> list[Expression]:
    """Give the expressions directly inside of ``syntax``."""
    match syntax:
        case Unary(operand=operand) | Cast(operand=operand) | IsTest(operand=operand):
            return [operand]
        case Rounded(operand=operand) | Extract(operand=operand):
            return [operand]
        case Stepped(operand=operand, interval=interval):
            return [operand, interval]
        case Binary(left=left, right=right) | IsDistinct(left=left, right=right):
            return [left, right]
        case Between(operand=operand, low=low, high=high):
            return [operand, low, high]
        case InList(operand=operand, items=items):
            return [operand, *items]
        case Like(operand=operand, pattern=pattern, escape=escape):
            return [operand, pattern, *([] if escape is None else [escape])]
        case Case(operand=operand, branches=branches, otherwise=otherwise):
            inner = [each for branch in branches for each in branch]
            return [each for each in (operand, *inner, otherwise) if each is not None]
        case FunctionCall(args=args, condition=condition):
            return [*args, *([] if condition is None else [condition])]
        case _:
            return []


def calls_in(syntax: Expression) -> Iterator[FunctionCall]:
    """Give the function calls that stand anywhere in ``syntax``."""
    pending = [syntax]
    while pending:
        each = pending.pop()
        if isinstance(each, FunctionCall):
            yield each
        pending += parts_of(each)
