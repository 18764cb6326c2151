"""Binding of calls: a call of a declared function knows its declaration before it is planned."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass, replace
from typing import TypeVar, cast

from rowtide.errors import SourceSpan
from rowtide.rows.types import Type
from rowtide.sql.grammar.syntax import DeclaredFunction, FunctionCall

Syntax = TypeVar("Syntax")


def bound(syntax: Syntax, functions: Mapping[str, DeclaredFunction]) -> Syntax:
    """Return a statement or a part of one, with the declarations of the functions that it calls.

    The syntax is unchanged, and the same object, if it calls none of ``functions``.
    """
    if not functions or all(call.name not in functions for call in _calls_below(syntax)):
        return syntax
    return _bound(syntax, functions)


def calls_in(syntax: object) -> frozenset[str]:
    """Return the names of the functions that some syntax calls, including those in queries."""
    return frozenset(call.name for call in _calls_below(syntax))


def functions_in(syntax: object) -> frozenset[str]:
    """Return the names of the declared functions that some syntax calls, including those in queries."""
    return frozenset(call.name for call in _calls_below(syntax) if call.declared is not None)


def _calls_below(syntax: object) -> Iterator[FunctionCall]:
    pending: list[object] = [syntax]
    while pending:
        each = pending.pop()
        if isinstance(each, FunctionCall):
            yield each
        if isinstance(each, tuple):
            pending += each
        elif _has_parts(each):
            pending += (getattr(each, field.name) for field in fields(each))  # type: ignore[arg-type]


def _has_parts(syntax: object) -> bool:
    return is_dataclass(syntax) and not isinstance(syntax, SourceSpan | Type | DeclaredFunction | type)


def _bound(syntax: Syntax, functions: Mapping[str, DeclaredFunction]) -> Syntax:
    if isinstance(syntax, tuple):
        parts = tuple(_bound(each, functions) for each in syntax)
        same = all(new is old for new, old in zip(parts, syntax, strict=True))
        return syntax if same else cast("Syntax", parts)
    if not _has_parts(syntax):
        return syntax
    changed: dict[str, object] = {}
    for field in fields(syntax):  # type: ignore[arg-type]
        before = getattr(syntax, field.name)
        after = _bound(before, functions)
        if after is not before:
            changed[field.name] = after
    if isinstance(syntax, FunctionCall) and syntax.name in functions:
        changed["declared"] = functions[syntax.name]
    return replace(syntax, **changed) if changed else syntax  # type: ignore[type-var]
