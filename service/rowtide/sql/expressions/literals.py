"""Constants of SQL text: numbers, intervals and units."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal, InvalidOperation

from rowtide.errors import StatementError
from rowtide.expr.tree import Literal
from rowtide.rows.types import (
    BIGINT,
    DOUBLE,
    INTEGER,
    INTERVAL_DAY,
    INTERVAL_MONTH,
    MAX_DECIMAL_PRECISION,
    VARCHAR,
    decimal,
)
from rowtide.sql.grammar.literals import interval_in_words
from rowtide.sql.grammar.syntax import (
    LENGTH_UNITS,
    Binary,
    Case,
    Cast,
    Expression,
    FunctionCall,
    IntervalFields,
    NullLiteral,
    NumberLiteral,
    StringLiteral,
    TypedLiteral,
    Unary,
)


def number(syntax: NumberLiteral) -> Literal:
    """Return a number: INTEGER or BIGINT if whole, DECIMAL if it has a point, DOUBLE if it has an exponent."""
    text = syntax.text
    if "E" in text.upper():
        value = float(text)
        if value in (float("inf"), float("-inf")):
            raise StatementError(f"{text} is too large for a DOUBLE", span=syntax.place)
        return Literal(value, DOUBLE)
    whole, point, fraction = text.partition(".")
    if not point:
        number = int(text) if len(text) <= 4_000 else 10**4_000
        for of in (INTEGER, BIGINT):
            if number < 2 ** (31 if of is INTEGER else 63):
                return Literal(number, of)
    digits = len(whole.lstrip("0")) + len(fraction)
    if digits > MAX_DECIMAL_PRECISION:
        raise StatementError(
            f"the number has {digits} digits, {MAX_DECIMAL_PRECISION} are possible", span=syntax.place
        )
    return Literal(Decimal(text), decimal(max(1, digits, len(fraction)), len(fraction)))


def digits_of(text: str) -> tuple[int, int] | None:
    """Return the digits of a number in text, and how many of them are after the point; None for other text."""
    try:
        parts = Decimal(text.strip()).as_tuple()
    except InvalidOperation:
        return None
    if not isinstance(parts.exponent, int):
        return None
    scale = max(0, -parts.exponent)
    return max(1, scale, len(parts.digits) + max(0, parts.exponent)), scale


def interval_of(text: StringLiteral) -> Expression:
    """Return the interval that a text has in words; return any other text unchanged."""
    try:
        value, family, unit = interval_in_words(text.text)
    except ValueError:
        return text
    return TypedLiteral(value, INTERVAL_DAY if family == "DAY" else INTERVAL_MONTH, text.place, unit)


def unit_of(syntax: Expression) -> int | None:
    """Return the only unit of an interval, in ms or months, if the text names it.

    What is computed of intervals of one unit has that unit, too.
    """
    match syntax:
        case Binary(operator="+" | "-", left=left, right=right):
            return _shared((left, right))
        case Binary(operator="*", left=left, right=right):
            return unit_of(left) or unit_of(right)
        case Binary(operator="/", left=left):
            return unit_of(left)
        case Case(branches=branches, otherwise=otherwise):
            values = [value for _, value in branches]
            return _shared(values if otherwise is None else (*values, otherwise))
        case FunctionCall(name=name, args=args) if name in _OF_ONE_TYPE and args:
            return _shared(args)
        case Unary(operator=operator, operand=operand):
            return unit_of(operand) if operator in ("-", "+") else LENGTH_UNITS.get(operator)
        case TypedLiteral(unit=unit) | Cast(interval=IntervalFields(unit=unit)):
            return unit
        case _:
            return None


_OF_ONE_TYPE = frozenset({"ABS", "COALESCE", "IFNULL", "NVL", "NULLIF", "GREATEST", "LEAST"})
"""Functions whose result and arguments have one type."""


def _shared(values: Sequence[Expression]) -> int | None:
    """Return the unit that all intervals have; a NULL has any."""
    units = {unit_of(each) for each in values if not isinstance(each, NullLiteral)}
    return units.pop() if len(units) == 1 else None


def whole(value: int) -> Literal:
    """Return a BIGINT."""
    return Literal(value, BIGINT)


def unit_literal(unit: str) -> Literal:
    """Return the name of a unit as the argument of FLOOR_TO, CEIL_TO or EXTRACT."""
    return Literal(unit, replace(VARCHAR, precision=len(unit)))
