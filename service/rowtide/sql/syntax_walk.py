"""What stands inside of an expression, as syntax."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, is_dataclass

from rowtide.errors import Place
from rowtide.plan.pseudo import PSEUDO_COLUMNS
from rowtide.sql.syntax import (
    Between,
    Binary,
    Case,
    Cast,
    ColumnRef,
    Expression,
    Extract,
    FunctionCall,
    InList,
    InQuery,
    IsDistinct,
    IsTest,
    Like,
    Query,
    Rounded,
    Stepped,
    Unary,
)


def pseudo_in(query: Query) -> frozenset[str]:
    """Give the pseudo-columns that are named anywhere in a query."""
    found = set()
    pending: list[object] = [query]
    while pending:
        each = pending.pop()
        if isinstance(each, ColumnRef):
            found.add(each.parts[-1].text)
        elif isinstance(each, tuple):
            pending += each
        elif is_dataclass(each) and not isinstance(each, Place | type):
            pending += (getattr(each, field.name) for field in fields(each))
    return frozenset(found & PSEUDO_COLUMNS.keys())


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
        case InQuery(operand=operand):
            return [operand]
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
