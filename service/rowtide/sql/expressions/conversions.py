"""Conversions: CAST, assignment to a column, and the NULL without a type."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import chain, product

from rowtide.errors import SourceSpan, StatementError
from rowtide.expr.constant import fold
from rowtide.expr.functions import cast_allowed, resolve
from rowtide.expr.functions.times.zones import FROM_UTC
from rowtide.expr.functions.type_rules import digits
from rowtide.expr.tree import Call, Expr, FieldRef, Literal
from rowtide.rows.types import (
    BOOLEAN,
    INSTANT,
    INTEGER,
    INTERVAL_DAY,
    MAX_DECIMAL_PRECISION,
    TIMESTAMP,
    VARCHAR,
    Kind,
    Type,
    decimal,
)
from rowtide.sql.expressions.literals import digits_of
from rowtide.sql.expressions.text_constants import constant_as
from rowtide.sql.grammar.syntax import NUMERIC, digits_hint

UNTYPED_NULL = Literal(None, Type(Kind.VARCHAR, -1))
"""NULL without a type; never in a finished tree."""
_OF_NULL = (INTEGER, VARCHAR, TIMESTAMP, INTERVAL_DAY, BOOLEAN)
"""Types of an untyped NULL if its neighbor's type does not fit; the first one that fits is used."""


def cast(operand: Expr, of: Type, span: SourceSpan) -> Expr:
    """Return CAST(operand AS of), or the constant if a constant can be cast.

    A text field whose values all fit becomes the same field of the wider type, without a CAST.

    Raises:
      StatementError: the CAST does not exist.
    """
    if of == INSTANT:
        refuse_local(operand, span)
    guarded(lambda: resolve("CAST", (operand.type, of)), span)
    if isinstance(operand, FieldRef) and _holds_all(of, operand.type):
        return replace(operand, type=of)
    return fold(Call("CAST", (operand,), of))


def with_digits(of: Type, operand: Expr, span: SourceSpan) -> Type:
    """Return the type of CAST(operand AS of): NUMERIC without digits has those that keep the whole value.

    Raises:
      StatementError: they are not known.
    """
    if of != NUMERIC:
        return of
    found = (MAX_DECIMAL_PRECISION, 0)
    if operand.type.is_exact:
        found = digits(operand.type)
    elif isinstance(operand, Literal) and operand.value is not None:
        # Text that is no number has no digits, and the CAST refuses it.
        found = digits_of(str(operand.value)) or found
    elif operand != UNTYPED_NULL and (operand.type.is_float or operand.type.is_text):
        raise StatementError(
            f"NUMERIC needs its digits: a {operand.type} has any number of them after the point",
            span=span,
            hint=digits_hint(),
        )
    if found[0] > MAX_DECIMAL_PRECISION:
        raise StatementError(
            f"the number has {found[0]} digits, {MAX_DECIMAL_PRECISION} are possible", span=span
        )
    return decimal(*found)


def assign(operand: Expr, of: Type, what: str, span: SourceSpan) -> Expr:
    """Return ``operand`` as it is stored in a column of type ``of``; ``what`` names the column.

    Numbers go into numbers and text into text (a CAST at run time rejects what does not fit),
    DATE and the other TIMESTAMP into TIMESTAMP, a text constant into what it can be read as; everything
    else needs an explicit CAST.

    Raises:
      StatementError: the types do not match.
    """
    if operand == UNTYPED_NULL:
        return Literal(None, of)
    if operand.type == of:
        return operand
    operand = constant_as(operand, of, span, what)
    source = operand.type
    assignable = (
        (source.is_numeric and of.is_numeric)
        or (source.is_string and of.is_string and (source.is_text or of.is_text))
        or (source.is_binary and of.is_binary)
        or (of.is_timestamp and (source.is_timestamp or source.kind is Kind.DATE))
        or source.kind is of.kind
    )
    if not assignable:
        raise StatementError(
            f"{what} is {of}, the value is {source}",
            span=span,
            hint=f"CAST(.. AS {of}) converts it." if cast_allowed(source, of) else None,
        )
    return cast(operand, of, span)


def with_typed_nulls(name: str, args: Sequence[Expr]) -> tuple[Expr, ...]:
    """Return the arguments of a function with a type for each untyped NULL.

    It is a neighbor's, or else the first that the function accepts; if it accepts none, a neighbor's.
    """
    if UNTYPED_NULL not in args:
        return tuple(args)
    known = next((arg.type for arg in args if arg != UNTYPED_NULL), BOOLEAN)
    nulls = sum(arg == UNTYPED_NULL for arg in args)
    others = product(_OF_NULL, repeat=nulls) if nulls <= 3 else ((of,) * nulls for of in _OF_NULL)
    for types in chain([(known,) * nulls], others):
        given = iter(types)
        whole = tuple(Literal(None, next(given)) if arg == UNTYPED_NULL else arg for arg in args)
        try:
            resolve(name, tuple(arg.type for arg in whole))
        except StatementError:
            continue
        return whole
    return tuple(Literal(None, known) if arg == UNTYPED_NULL else arg for arg in args)


def refuse_local(operand: Expr, span: SourceSpan) -> None:
    """Refuse the result of AT TIME ZONE as an instant: it is what clocks of a zone show, not a time of UTC.

    Raises:
      StatementError: it is such a result.
    """
    if isinstance(operand, Call) and operand.function == FROM_UTC:
        raise StatementError(
            f"the result of AT TIME ZONE is a local time, which is not a {INSTANT}",
            span=span,
            hint=f"CAST(x AS {INSTANT}) is the instant of a time x in UTC, FROM_TZ(x, zone) that of a local time.",
        )


def _holds_all(wide: Type, narrow: Type) -> bool:
    """Return whether text of type ``narrow`` is valid text of type ``wide`` without a change."""
    if wide.kind is not narrow.kind or wide.kind not in (Kind.VARCHAR, Kind.VARBINARY):
        return False
    if wide.precision is None or narrow.precision is None:
        return wide.precision is None
    return narrow.precision <= wide.precision


def guarded(work: Callable[[], Type], span: SourceSpan) -> Type:
    """Run a type rule, and add a place to its error."""
    try:
        return work()
    except StatementError as error:
        if error.place is None:
            error.place = span
        raise
