"""Walks over the syntax inside an expression."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import fields, is_dataclass, replace
from typing import TypeVar, cast

from rowtide.errors import SourceSpan
from rowtide.plan.pseudo import PSEUDO_COLUMNS
from rowtide.sql.grammar.syntax import (
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
    Quantified,
    QuerySyntax,
    Rounded,
    RowsOfFunction,
    Select,
    SetOperation,
    Stepped,
    SubQuery,
    Unary,
    UnionAll,
    With,
)

Part = TypeVar("Part")


def pseudo_in(query: QuerySyntax) -> frozenset[str]:
    """Return the pseudo-columns that a query names."""
    found = {each.parts[-1].text for each in _below(query) if isinstance(each, ColumnRef)}
    return frozenset(found & PSEUDO_COLUMNS.keys())


def holds_query(syntax: object) -> bool:
    """Return whether some syntax contains a query."""
    return any(isinstance(each, SubQuery) for each in _below(syntax))


def _below(syntax: object) -> Iterator[object]:
    """Yield all parts of the syntax, including queries."""
    pending: list[object] = [syntax]
    while pending:
        each = pending.pop()
        yield each
        if isinstance(each, tuple):
            pending += each
        elif is_dataclass(each) and not isinstance(each, SourceSpan | type):
            pending += (getattr(each, field.name) for field in fields(each))


def parts_of(syntax: Expression) -> list[Expression]:
    """Return the direct sub-expressions of ``syntax``."""
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
        case InQuery(operand=operand) | Quantified(operand=operand):
            return [operand]
        case InList(operand=operand, items=items):
            return [operand, *items]
        case Like(operand=operand, pattern=pattern, escape=escape):
            return [operand, pattern, *([] if escape is None else [escape])]
        case Case(operand=operand, branches=branches, otherwise=otherwise):
            inner = [each for branch in branches for each in branch]
            return [each for each in (operand, *inner, otherwise) if each is not None]
        case FunctionCall(args=args, order=order, condition=condition):
            keys = (each.expression for each in order)
            return [*args, *keys, *([] if condition is None else [condition])]
        case _:
            return []


def calls_in(syntax: Expression) -> Iterator[FunctionCall]:
    """Yield all function calls in ``syntax``."""
    pending = [syntax]
    while pending:
        each = pending.pop()
        if isinstance(each, FunctionCall):
            yield each
        pending += parts_of(each)


def conjuncts(condition: Expression | None) -> Iterator[Expression]:
    """Yield the conditions that AND connects, from left to right."""
    pending = [] if condition is None else [condition]
    while pending:
        each = pending.pop()
        if isinstance(each, Binary) and each.operator == "AND":
            pending += [each.right, each.left]
        else:
            yield each


def connected(conditions: Iterable[Expression]) -> Expression | None:
    """Return conditions connected by AND; None if there are none."""
    found: Expression | None = None
    for each in conditions:
        found = each if found is None else Binary("AND", found, each, each.place)
    return found


def columns_in(syntax: Expression) -> Iterator[ColumnRef]:
    """Yield all columns in ``syntax``, except those in queries."""
    pending = [syntax]
    while pending:
        each = pending.pop()
        if isinstance(each, ColumnRef):
            yield each
        pending += parts_of(each)


def all_columns_in(syntax: object) -> Iterator[ColumnRef]:
    """Return all columns in the syntax, including those in queries."""
    return (each for each in _below(syntax) if isinstance(each, ColumnRef))


def replaced(syntax: Part, rule: Callable[[object], object | None]) -> Part:
    """Replace the parts for which ``rule`` returns syntax. Queries are unchanged."""
    found = rule(syntax)
    if found is not None:
        return cast("Part", found)
    if isinstance(syntax, tuple):
        parts = tuple(replaced(each, rule) for each in syntax)
        same = all(new is old for new, old in zip(parts, syntax, strict=True))
        return syntax if same else cast("Part", parts)
    if not is_dataclass(syntax) or isinstance(
        syntax, SourceSpan | type | Select | UnionAll | SetOperation | RowsOfFunction | With
    ):
        return syntax
    changed = {}
    for field in fields(syntax):
        before = getattr(syntax, field.name)
        after = replaced(before, rule)
        if after is not before:
            changed[field.name] = after
    return cast("Part", replace(syntax, **changed)) if changed else syntax
