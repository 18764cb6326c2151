"""Result types of operators.

Integers keep their size and mixed sizes take the larger; an integer with a
DECIMAL counts as DECIMAL(3, 5, 10 or 19, 0); anything with a float is DOUBLE,
except REAL with REAL (docs/sql/semantics.md#numbers).

DECIMAL(p1, s1) op DECIMAL(p2, s2), i = p - s being the digits before the point:

| op    | scale                | precision            |
|-------|----------------------|----------------------|
| + -   | max(s1, s2)          | max(i1, i2) + s + 1  |
| *     | s1 + s2              | p1 + p2              |
| /     | max(6, s1 + p2 + 1)  | i1 + s2 + s          |
| %     | max(s1, s2)          | min(i1, i2) + s      |

A precision above 38 becomes 38. Sums, products and remainders then keep their scale, so that they
stay exact: a result that does not fit rejects the row with OVERFLOW, and a product with a scale above
38 is an error. A quotient reduces its scale, down to 6, and is rounded half away from zero.
"""

from __future__ import annotations

from collections.abc import Sequence

from rowtide.expr.functions.function import TypeMismatch, mismatch
from rowtide.rows.types import (
    DOUBLE,
    INSTANT,
    INTEGER_BYTES,
    MAX_DECIMAL_PRECISION,
    TIMESTAMP,
    Kind,
    Type,
    array_of,
    decimal,
)

INTEGER_DIGITS = {Kind.TINYINT: 3, Kind.SMALLINT: 5, Kind.INTEGER: 10, Kind.BIGINT: 19}
QUOTIENT_SCALE = 6
"""The least scale of a quotient."""


def digits(kind: Type) -> tuple[int, int]:
    """Return precision and scale of an exact type; an integer's are those that hold all of its values."""
    if kind.kind is Kind.DECIMAL:
        return kind.precision or MAX_DECIMAL_PRECISION, kind.scale
    return INTEGER_DIGITS[kind.kind], 0


def common_type(types: Sequence[Type]) -> Type:
    """Return the type that holds values of all ``types``: of CASE, COALESCE, IN, UNION.

    The types of bare NULLs are for the caller to leave out; at least one type.

    Raises:
      TypeMismatch: they have no common type.
    """
    result = types[0]
    for kind in types[1:]:
        joined = _common(result, kind)
        if joined is None:
            times = {result.kind, kind.kind} & {Kind.DATE, Kind.TIME, Kind.TIMESTAMP, Kind.INSTANT}
            hint = "CAST one to the type of the other."
            if times and (result.is_text or kind.is_text):
                hint = f"CAST the text AS {times.pop().value}, or write TIMESTAMP '2024-02-29 10:00:00'."
            raise TypeMismatch(f"{result} and {kind} have no common type", hint=hint)
        result = joined
    return result


def _common(first: Type, second: Type) -> Type | None:
    if first == second:
        return first
    if first.is_numeric and second.is_numeric:
        return _common_number(first, second)
    for varying, is_family in ((Kind.VARCHAR, "is_text"), (Kind.VARBINARY, "is_binary")):
        if getattr(first, is_family) and getattr(second, is_family):
            known = first.precision is not None and second.precision is not None
            return Type(varying, max(first.precision or 0, second.precision or 0) if known else None)
    if first.element is not None and second.element is not None:
        element = _common(first.element, second.element)
        return None if element is None else array_of(element)
    for form, other in ((first, second), (second, first)):
        if form.kind in (Kind.UUID, Kind.JSON) and other.is_text:
            return form
    days = {first.kind, second.kind}
    if days <= {Kind.DATE, Kind.TIMESTAMP, Kind.INSTANT}:
        return INSTANT if Kind.INSTANT in days else TIMESTAMP
    return None


def _common_number(first: Type, second: Type) -> Type:
    if first.is_float or second.is_float:
        return DOUBLE
    if first.is_integer and second.is_integer:
        return max(first, second, key=lambda kind: INTEGER_BYTES[kind.kind])
    (precision1, scale1), (precision2, scale2) = digits(first), digits(second)
    scale = max(scale1, scale2)
    return _capped(max(precision1 - scale1, precision2 - scale2) + scale, scale)


def arithmetic_type(operator: str, first: Type, second: Type) -> Type:
    """Return the type of ``first operator second`` for two numbers; the operator is one of + - * / %.

    Raises:
      TypeMismatch: the scale of a product is too large.
    """
    if not (first.is_exact and second.is_exact):
        return first if first == second else DOUBLE
    if first.is_integer and second.is_integer:
        return _common_number(first, second)
    (precision1, scale1), (precision2, scale2) = digits(first), digits(second)
    whole1, whole2 = precision1 - scale1, precision2 - scale2
    scale = max(scale1, scale2)
    match operator:
        case "*":
            scale = scale1 + scale2
            if scale > MAX_DECIMAL_PRECISION:
                raise mismatch(
                    operator,
                    (first, second),
                    hint=f"The product has {scale} digits after the decimal point: CAST to fewer digits.",
                )
            return _capped(precision1 + precision2, scale)
        case "/":
            whole = whole1 + scale2
            scale = max(QUOTIENT_SCALE, scale1 + precision2 + 1)
            return _capped(whole + scale, max(QUOTIENT_SCALE, min(scale, MAX_DECIMAL_PRECISION - whole)))
        case "%":
            return _capped(min(whole1, whole2) + scale, scale)
        case _:
            return _capped(max(whole1, whole2) + scale + 1, scale)


def _capped(precision: int, scale: int) -> Type:
    return decimal(max(1, min(precision, MAX_DECIMAL_PRECISION)), scale)
