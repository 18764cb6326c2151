"""Type rules that several functions share (sql-decisions 21)."""

from __future__ import annotations

from collections.abc import Sequence

from rowtide.errors import StatementError
from rowtide.rows.types import (
    DOUBLE,
    INTEGER_BYTES,
    MAX_DECIMAL_PRECISION,
    TIMESTAMP,
    Kind,
    Type,
    decimal,
)

INTEGER_DIGITS = {Kind.TINYINT: 3, Kind.SMALLINT: 5, Kind.INTEGER: 10, Kind.BIGINT: 19}
INTEGER_RANGE = {
    kind: (-(2 ** (8 * size - 1)), 2 ** (8 * size - 1) - 1) for kind, size in INTEGER_BYTES.items()
}


def as_decimal(kind: Type) -> Type:
    """Give the DECIMAL that holds every value of an exact type."""
    if kind.is_integer:
        return decimal(INTEGER_DIGITS[kind.kind])
    return decimal(kind.precision or MAX_DECIMAL_PRECISION, kind.scale)


def numeric_type(left: Type, right: Type) -> Type | None:
    """Give the type in which two numbers meet; None if one is none.

    Integers meet in the larger one, floats and anything in DOUBLE (two REAL in REAL), exact
    numbers in the DECIMAL that holds both, as far as 38 digits go.
    """
    if not (left.is_numeric and right.is_numeric):
        return None
    if left.is_float or right.is_float:
        return left if left == right else DOUBLE
    if left.is_integer and right.is_integer:
        return max(left, right, key=lambda kind: INTEGER_BYTES[kind.kind])
    a, b = as_decimal(left), as_decimal(right)
    scale = max(a.scale, b.scale)
    whole = max((a.precision or 0) - a.scale, (b.precision or 0) - b.scale)
    return decimal(min(MAX_DECIMAL_PRECISION, whole + scale), scale)


def common_type(types: Sequence[Type]) -> Type:
    """Give the type in which values of ``types`` (at least one) meet: CASE, COALESCE, UNION.

    Raises:
      StatementError: there is none.
    """
    found = types[0]
    for kind in types[1:]:
        met = _meet(found, kind)
        if met is None:
            raise StatementError(f"{found} and {kind} have no common type", hint="Write a CAST.")
        found = met
    return found


def comparable(left: Type, right: Type) -> bool:
    """Tell whether = and < apply."""
    return _meet(left, right) is not None


def _meet(left: Type, right: Type) -> Type | None:
    if left == right:
        return left
    number = numeric_type(left, right)
    if number is not None:
        return number
    for wide in ("is_text", "is_binary"):
        if getattr(left, wide) and getattr(right, wide):
            kind = Kind.VARCHAR if wide == "is_text" else Kind.VARBINARY
            lengths = (left.precision, right.precision)
            return Type(kind, None if None in lengths else max(each or 0 for each in lengths))
    if {left.kind, right.kind} == {Kind.DATE, Kind.TIMESTAMP}:
        return TIMESTAMP
    return left if left.kind is right.kind else None
