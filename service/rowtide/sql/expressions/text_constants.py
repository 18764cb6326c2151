"""Text constants take the type of what they stand beside, as in PostgreSQL: ``n = '5'``, ``at + '1 day'``."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import product

from rowtide.errors import SourceSpan, StatementError
from rowtide.expr.constant import fold
from rowtide.expr.functions import common_type, resolve
from rowtide.expr.functions.function import TypeMismatch
from rowtide.expr.tree import Call, Expr, Literal
from rowtide.rows.types import (
    BOOLEAN,
    DOUBLE,
    INSTANT,
    INTEGER,
    INTERVAL_DAY,
    INTERVAL_MONTH,
    TIMESTAMP,
    Kind,
    Type,
    decimal,
)
from rowtide.sql.expressions.literals import digits_of
from rowtide.sql.grammar.literals import interval_in_words

_NUMBERS = dict.fromkeys((Kind.TINYINT, Kind.SMALLINT, Kind.INTEGER, Kind.BIGINT), "5")
_EXAMPLES = {
    **_NUMBERS,
    **dict.fromkeys((Kind.DECIMAL, Kind.REAL, Kind.DOUBLE), "1.5"),
    Kind.BOOLEAN: "TRUE",
    Kind.DATE: "'2024-02-29'",
    Kind.TIME: "'10:00:00'",
    Kind.TIMESTAMP: "'2024-02-29 10:00:00'",
    Kind.INSTANT: "'2024-02-29 10:00:00+01:00'",
    Kind.INTERVAL_DAY: "INTERVAL '2 hours 30 minutes'",
    Kind.INTERVAL_MONTH: "INTERVAL '3 months'",
    Kind.UUID: "'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11'",
}
"""The types that a text constant takes, each with a constant."""
_OF_ARGUMENTS = (INTEGER, DOUBLE, TIMESTAMP, INTERVAL_DAY, INTERVAL_MONTH, BOOLEAN)
"""Types of an argument if that of its neighbor does not fit; the first that the function takes is used."""
_MOST_TRIED = 3
_WHOLE = re.compile(r"\s*[+-]?[0-9]+\s*", re.ASCII)
OF_ONE_TYPE = frozenset(
    {
        *("=", "<>", "<", "<=", ">", ">=", "IS DISTINCT FROM", "IS NOT DISTINCT FROM"),
        *("NULLIF", "GREATEST", "LEAST"),
    }
)
"""Operators and functions whose operands have one type."""


def is_text_constant(operand: Expr) -> bool:
    """Return whether this is text that can become a constant of another type."""
    return isinstance(operand, Literal) and operand.type.is_text and operand.value is not None


def constant_as(operand: Expr, of: Type, span: SourceSpan, what: str = "") -> Expr:
    """Return a text constant as a constant of type ``of``, a number with its own digits; another operand unchanged.

    ``what`` names the column that it is for.

    Raises:
      StatementError: the text is not such a value.
    """
    if not is_text_constant(operand) or of.kind not in _EXAMPLES:
        return operand
    found = _read(operand, of)
    if found is None:
        text = operand.value if isinstance(operand, Literal) else ""
        article = "an" if str(of)[0] in "AEIOU" else "a"
        message = f"{what} is {of}, '{text}' is not" if what else f"'{text}' is not {article} {of}"
        raise StatementError(message, span=span, hint=f"Write a value such as {_EXAMPLES[of.kind]}.")
    return found


def _read(operand: Expr, of: Type) -> Literal | None:
    """Return a text constant as a constant of type ``of``; None if it is not one."""
    text = str(operand.value) if isinstance(operand, Literal) else ""
    if of.is_integer and _WHOLE.fullmatch(text) is None:
        return None
    if of.is_interval:
        try:
            value, family, _ = interval_in_words(text)
        except ValueError:
            pass
        else:
            return Literal(value, of) if (family == "DAY") is (of == INTERVAL_DAY) else None
    if of.kind is Kind.DECIMAL:
        digits = digits_of(text)
        if digits is None:
            return None
        of = decimal(*digits)
    found = fold(Call("CAST", (operand,), of))
    return found if isinstance(found, Literal) else None


def compared(operands: Sequence[Expr], places: Sequence[SourceSpan]) -> tuple[Expr, ...]:
    """Return values of one comparison or choice, in which text constants have the type of the others.

    Raises:
      StatementError: a text is not such a value.
    """
    others = [each.type for each in operands if not is_text_constant(each)]
    if not others or len(others) == len(operands) or any(each.is_text for each in others):
        return tuple(operands)
    try:
        of = common_type(others)
    except TypeMismatch:
        return tuple(operands)
    return tuple(constant_as(each, of, place) for each, place in zip(operands, places, strict=True))


def as_arguments(name: str, operands: tuple[Expr, ...]) -> tuple[Expr, ...]:
    """Return the arguments of a function that takes no text where text constants are, as it takes them.

    They are unchanged if it takes them, or takes none of the types that they can have.
    """
    places = [at for at, each in enumerate(operands) if is_text_constant(each)]
    # An operator needs a neighbor that has a type; || joins text.
    known = len(places) < len(operands) or name.isidentifier()
    if not 0 < len(places) <= _MOST_TRIED or not known or name == "||" or _takes(name, operands):
        return operands
    for chosen in product(*(list(_readings(operands, at)) for at in places)):
        given = list(operands)
        for at, constant in zip(places, chosen, strict=True):
            given[at] = constant
        if _takes(name, given):
            return tuple(given)
    return operands


def _readings(operands: Sequence[Expr], at: int) -> Iterator[Expr]:
    """Yield what a text constant can be: a value of the type of a neighbor, of other types, or text."""
    neighbors = [each.type for each in operands if not is_text_constant(each) and each.type.kind in _EXAMPLES]
    for of in dict.fromkeys((*neighbors, *_OF_ARGUMENTS)):
        found = _read(operands[at], of)
        if found is not None:
            yield found
    yield operands[at]


def _takes(name: str, operands: Sequence[Expr]) -> bool:
    types = tuple(TIMESTAMP if each.type == INSTANT else each.type for each in operands)
    try:
        resolve(name, types)
    except TypeMismatch:
        return False
    return True
