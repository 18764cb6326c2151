"""Typed calls: functions, operators and conversions over typed operands."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Protocol

from rowtide.errors import SourceSpan, StatementError
from rowtide.expr.constant import fold
from rowtide.expr.functions import common_type, resolve
from rowtide.expr.functions.arrays.changes import joining
from rowtide.expr.functions.function import TypeMismatch
from rowtide.expr.functions.times.zones import FROM_TZ, TO_UTC
from rowtide.expr.tree import Call, Expr, Literal
from rowtide.rows.types import BOOLEAN, DATE, INSTANT, INTERVAL_DAY, TIMESTAMP, Type
from rowtide.rowtime.period import DAY_MS
from rowtide.sql.expressions.conversions import UNTYPED_NULL, cast, guarded, refuse_local, with_typed_nulls
from rowtide.sql.expressions.text_constants import OF_ONE_TYPE, as_arguments, compared
from rowtide.sql.grammar.syntax import Expression


class OperandPlanner(Protocol):
    """Plans the arguments of a function."""

    def plan(self, syntax: Expression) -> Expr:
        """Return the typed tree of ``syntax``; an untyped NULL is refused."""
        ...

    def plan_as(self, syntax: Expression, wanted: Type) -> Expr:
        """Return the typed tree of ``syntax``; an untyped NULL gets type ``wanted``."""
        ...

    def typed(self, syntax: Expression) -> Expr:
        """Return the typed tree of ``syntax``, which can be an untyped NULL."""
        ...

    def perhaps(self) -> AbstractContextManager[None]:
        """Plan what is evaluated for some rows only."""
        ...


_DAY = Literal(DAY_MS, INTERVAL_DAY)


def call(name: str, args: Sequence[Expr], span: SourceSpan) -> Call:
    """Return the call of an operator or function, typed.

    Untyped NULLs and text constants get a neighbour's type, or the first one that fits. A number beside a TIMESTAMP is
    milliseconds (SQLstream s-Server guide, Relational Operators and Rowtime Bounds: ``rowtime + 100``), beside a DATE
    days, as in PostgreSQL.

    Raises:
      StatementError: the function does not exist, or takes no such types; with its place.
    """
    operands = with_typed_nulls(name, args)
    operands = (
        compared(operands, [span] * len(operands)) if name in OF_ONE_TYPE else as_arguments(name, operands)
    )
    if name == "||" and len(operands) == 2:
        name = joining([operand.type for operand in operands])
    if name in ("+", "-"):
        first, *rest = (operand.type for operand in operands)
        if rest and first.is_timestamp and rest[0].is_integer:
            operands = (operands[0], converted(operands[1], INTERVAL_DAY, span))
        elif rest and rest[0].is_timestamp and first.is_integer and name == "+":
            operands = (converted(operands[0], INTERVAL_DAY, span), operands[1])
        elif rest and first == DATE and rest[0].is_integer:
            operands = (operands[0], call("*", [operands[1], _DAY], span))
        elif rest and rest[0] == DATE and first.is_integer and name == "+":
            operands = (call("*", [operands[0], _DAY], span), operands[1])
    if any(operand.type == INSTANT for operand in operands):
        return _of_instants(name, operands, span)
    of = guarded(lambda: resolve(name, tuple(operand.type for operand in operands)), span)
    return Call(name, operands, of)


_OF_LOCAL = (TO_UTC, FROM_TZ)
"""Functions of local times, which an instant is not."""


def _of_instants(name: str, operands: tuple[Expr, ...], span: SourceSpan) -> Call:
    """Return the call of a function with arguments of TIMESTAMP WITH TIME ZONE, of which it may know nothing.

    A function of times then gets a TIMESTAMP in UTC, and a TIMESTAMP that it returns is an instant, too.
    """
    for operand in operands:
        refuse_local(operand, span)
    try:
        return Call(name, operands, resolve(name, tuple(operand.type for operand in operands)))
    except TypeMismatch as error:
        error.place = span
        if name in _OF_LOCAL:
            raise
        given = tuple(converted(each, TIMESTAMP, span) if each.type == INSTANT else each for each in operands)
        try:
            found = Call(name, given, resolve(name, tuple(each.type for each in given)))
        except TypeMismatch:
            raise error from None
    return Call("CAST", (found,), INSTANT) if found.type == TIMESTAMP else found


def converted(operand: Expr, of: Type, span: SourceSpan) -> Expr:
    """Return CAST(operand AS of); a NULL and an operand of that type need no CAST.

    Raises:
      StatementError: the CAST does not exist.
    """
    if operand.type == of:
        return operand
    if isinstance(operand, Literal) and operand.value is None:
        return Literal(None, of)
    return cast(operand, of, span)


def try_converted(operand: Expr, of: Type, span: SourceSpan) -> Expr:
    """Return TRY_CAST(operand AS of).

    Raises:
      StatementError: the CAST does not exist.
    """
    if operand.type == of:
        return operand
    guarded(lambda: resolve("CAST", (operand.type, of)), span)
    return fold(Call("TRY_CAST", (operand,), of))


def negated_if(negated: bool, condition: Expr) -> Expr:
    """Return NOT ``condition`` if ``negated``, else ``condition``."""
    return Call("NOT", (condition,), BOOLEAN) if negated else condition


def alike(values: Sequence[Expr], places: Sequence[SourceSpan], span: SourceSpan) -> list[Expr]:
    """Return the values in their common type, which untyped NULLs get, too.

    Raises:
      StatementError: they have no common type.
    """
    typed = [(value, at) for value, at in zip(values, places, strict=True) if value != UNTYPED_NULL]
    if not typed:
        raise StatementError("NULL has no type here", span=span, hint="Write CAST(NULL AS type).")
    known = iter(compared(*zip(*typed, strict=True)))
    values = [value if value == UNTYPED_NULL else next(known) for value in values]
    types = [value.type for value in values if value != UNTYPED_NULL]
    of = guarded(lambda: common_type(types), span)
    return [
        Literal(None, of) if value == UNTYPED_NULL else converted(value, of, at)
        for value, at in zip(values, places, strict=True)
    ]
