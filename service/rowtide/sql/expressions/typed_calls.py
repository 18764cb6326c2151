"""Typed calls: functions, operators and conversions over typed operands."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from rowtide.errors import SourceSpan, StatementError
from rowtide.expr.constant import fold
from rowtide.expr.functions import common_type, resolve
from rowtide.expr.tree import Call, Expr, Literal
from rowtide.rows.types import BOOLEAN, INTERVAL_DAY, TIMESTAMP, Type
from rowtide.sql.expressions.conversions import UNTYPED_NULL, cast, guarded, with_typed_nulls
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


def call(name: str, args: Sequence[Expr], place: SourceSpan) -> Call:
    """Return the call of an operator or function, typed.

    Untyped NULLs get a neighbour's type, or the first one that fits. A number beside a TIMESTAMP is
    milliseconds (SQLstream s-Server guide, Relational Operators and Rowtime Bounds: ``rowtime + 100``).

    Raises:
      StatementError: the function does not exist, or takes no such types; with its place.
    """
    operands = with_typed_nulls(name, args)
    if name in ("+", "-"):
        first, *rest = (operand.type for operand in operands)
        if rest and first == TIMESTAMP and rest[0].is_integer:
            operands = (operands[0], converted(operands[1], INTERVAL_DAY, place))
        elif rest and rest[0] == TIMESTAMP and first.is_integer and name == "+":
            operands = (converted(operands[0], INTERVAL_DAY, place), operands[1])
    of = guarded(lambda: resolve(name, tuple(operand.type for operand in operands)), place)
    return Call(name, operands, of)


def converted(operand: Expr, of: Type, place: SourceSpan) -> Expr:
    """Return CAST(operand AS of); a NULL and an operand of that type need no CAST.

    Raises:
      StatementError: the CAST does not exist.
    """
    if operand.type == of:
        return operand
    if isinstance(operand, Literal) and operand.value is None:
        return Literal(None, of)
    return cast(operand, of, place)


def try_converted(operand: Expr, of: Type, place: SourceSpan) -> Expr:
    """Return TRY_CAST(operand AS of).

    Raises:
      StatementError: the CAST does not exist.
    """
    if operand.type == of:
        return operand
    guarded(lambda: resolve("CAST", (operand.type, of)), place)
    return fold(Call("TRY_CAST", (operand,), of))


def negated_if(negated: bool, condition: Expr) -> Expr:
    """Return NOT ``condition`` if ``negated``, else ``condition``."""
    return Call("NOT", (condition,), BOOLEAN) if negated else condition


def alike(values: Sequence[Expr], places: Sequence[SourceSpan], place: SourceSpan) -> list[Expr]:
    """Return the values in their common type, which untyped NULLs get, too.

    Raises:
      StatementError: they have no common type.
    """
    types = [value.type for value in values if value != UNTYPED_NULL]
    if not types:
        raise StatementError("NULL has no type here", place=place, hint="Write CAST(NULL AS type).")
    of = guarded(lambda: common_type(types), place)
    return [
        Literal(None, of) if value == UNTYPED_NULL else converted(value, of, at)
        for value, at in zip(values, places, strict=True)
    ]
