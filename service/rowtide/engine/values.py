"""Field types of the engine: how a value is checked, read from text and printed.

A field type is a SQL type of ``rows.types`` or an array of a fixed-width one.
The type names of the Triceps guide stand for the SQL types with the same
values: uint8 is BINARY(1), int32 INTEGER, int64 BIGINT, float64 DOUBLE, string
VARCHAR and uint8[] VARBINARY; boolean, date, time, timestamp and timestamp with time zone are SQL's own.
NULL is None in every type. Every NaN is the object ``math.nan``, so that NaN keys
are equal.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Context, Decimal, InvalidOperation
from typing import Any

from rowtide.engine.errors import ModelError
from rowtide.rows.strings import FORMS
from rowtide.rows.types import (
    INTEGER_BYTES,
    MAX_DECIMAL_PRECISION,
    MAX_TIMESTAMP_MS,
    MIN_TIMESTAMP_MS,
    Kind,
    Type,
)

Value = Any
Check = Callable[[Value], Value]
"""Returns the value as the row stores it; raises TypeError or ValueError where the type cannot hold it."""


@dataclass(frozen=True, slots=True)
class Array:
    """An array of fixed-width elements; a row holds it as a tuple, and an empty one as NULL."""

    element: Type

    def __str__(self) -> str:
        return f"{type_name(self.element)}[]"


FieldType = Type | Array
_DIGITS = Context(prec=2 * MAX_DECIMAL_PRECISION)

_NAMED: dict[str, Type] = {
    "uint8": Type(Kind.BINARY, 1),
    "uint8[]": Type(Kind.VARBINARY),
    "int32": Type(Kind.INTEGER),
    "int64": Type(Kind.BIGINT),
    "float64": Type(Kind.DOUBLE),
    "string": Type(Kind.VARCHAR),
}
_PLAIN: dict[str, Type] = {
    kind.value.lower(): Type(kind)
    for kind in (Kind.BOOLEAN, Kind.DATE, Kind.TIME, Kind.TIMESTAMP, Kind.INSTANT)
}
"""SQL types that have a name here but not in the guide; all others are types of ``rows.types``."""
_NAMES = {kind: name for name, kind in _NAMED.items()}


def field_type(described: str | FieldType) -> FieldType:
    """Return the field type that a name such as ``int32`` or ``float64[]`` describes.

    Raises:
      ModelError: if the type does not exist, or its elements do not have a fixed width.
    """
    if not isinstance(described, str):
        return described
    if described in _NAMED:
        return _NAMED[described]
    if described in _PLAIN:
        return _PLAIN[described]
    element = _NAMED.get(described.removesuffix("[]"))
    if element is None:
        raise ModelError(
            f'type "{described}" does not exist', hint=f"The types are {', '.join(_NAMED)} and their arrays."
        )
    if element.is_variable_width and element.precision is None:
        raise ModelError(f'type "{described}" does not exist: only fixed-width types have arrays')
    return Array(element)


def type_name(kind: FieldType) -> str:
    """Return the name of a field type as the engine prints it."""
    return str(kind) if isinstance(kind, Array) else _NAMES.get(kind, str(kind))


def is_text(kind: FieldType) -> bool:
    """Return whether values compare as text or bytes: string, uint8 and uint8[]."""
    return not isinstance(kind, Array) and (kind.is_string or kind.is_binary)


def is_array(kind: FieldType) -> bool:
    """Return whether a row holds a tuple of values; uint8[] is one value, of bytes."""
    return isinstance(kind, Array) or kind.element is not None


def _integer_check(kind: Type) -> Check:
    limit = 1 << (8 * INTEGER_BYTES[kind.kind] - 1)

    def check(value: Value) -> Value:
        if value.__class__ is not int:
            raise TypeError
        if not -limit <= value < limit:
            raise ValueError
        return value

    return check


def _float(value: Value) -> Value:
    if value.__class__ is float:
        return math.nan if math.isnan(value) else value
    if value.__class__ is int:
        return float(value)
    raise TypeError


def _instance_check(wanted: type, length: int | None) -> Check:
    def check(value: Value) -> Value:
        if not isinstance(value, wanted):
            raise TypeError
        if length is not None and len(value) > length:  # type: ignore[arg-type]
            raise ValueError
        return value

    return check


def _list_check(element: Check) -> Check:
    """Return the check of an ARRAY of SQL, which may be empty and have NULLs, unlike an array of the guide."""

    def check(value: Value) -> Value:
        if not isinstance(value, (list, tuple)):
            raise TypeError
        return tuple(None if one is None else element(one) for one in value)

    return check


def _form_check(kind: Type) -> Check:
    form = FORMS[kind.kind]

    def check(value: Value) -> Value:
        if not isinstance(value, str):
            raise TypeError
        return form(value)

    return check


def _plain_integer(value: Value) -> Value:
    if value.__class__ is not int:
        raise TypeError
    return value


def check_of(kind: FieldType) -> Check:
    """Return the function that checks a non-NULL value of a field type and brings it into stored form."""
    if isinstance(kind, Array):
        element = check_of(kind.element)
        zero: Value = b"\0" if kind.element.is_binary else 0.0 if kind.element.is_float else 0

        def check(value: Value) -> Value:
            if not isinstance(value, (list, tuple)):
                raise TypeError
            # In the guide, an element is never NULL and an empty array always is.
            return tuple(zero if one is None else element(one) for one in value) or None

        return check
    if kind.element is not None:
        return _list_check(check_of(kind.element))
    if kind.is_integer:
        return _integer_check(kind)
    if kind.is_float:
        return _float
    if kind.kind in FORMS:
        return _form_check(kind)
    if kind.is_text:
        return _instance_check(str, kind.precision)
    if kind.is_binary:
        return _instance_check(bytes, kind.precision)
    if kind.kind is Kind.BOOLEAN:
        return _instance_check(bool, None)
    if kind.kind is Kind.DECIMAL:
        return _instance_check(Decimal, None)
    return _plain_integer


_RANGES = {
    Kind.DATE: (-(2**31), 2**31 - 1),
    Kind.TIME: (0, 86_399_999),
    Kind.INSTANT: (MIN_TIMESTAMP_MS, MAX_TIMESTAMP_MS),
    Kind.TIMESTAMP: (MIN_TIMESTAMP_MS, MAX_TIMESTAMP_MS),
    Kind.INTERVAL_DAY: (-(2**63), 2**63 - 1),
    Kind.INTERVAL_MONTH: (-(2**63), 2**63 - 1),
}
_GREATEST_REAL = 3.4028234663852886e38


def column_check(kind: Type) -> Check:
    """Return the function that checks that a column of SQL rows can hold a non-NULL value.

    It is stricter than ``check_of`` where the engine has no limit: for the digits of a DECIMAL, and times.
    """
    if kind.element is not None:
        return _list_check(column_check(kind.element))
    check = check_of(kind)
    if kind.kind is Kind.DECIMAL:
        limit, scale = 10 ** (kind.precision or MAX_DECIMAL_PRECISION), kind.scale

        def check_decimal(value: Value) -> Value:
            if not check(value).is_finite():
                raise ValueError
            number = value.scaleb(scale, _DIGITS)
            if number != number.to_integral_value() or abs(number) >= limit:
                raise ValueError
            return value

        return check_decimal
    if kind.kind is Kind.REAL:

        def check_real(value: Value) -> Value:
            if _GREATEST_REAL < abs(check(value)) < math.inf:
                raise ValueError
            return value

        return check_real
    if kind.kind in _RANGES:
        least, greatest = _RANGES[kind.kind]

        def check_range(value: Value) -> Value:
            if not least <= check(value) <= greatest:
                raise ValueError
            return value

        return check_range
    return check


def parse_of(kind: FieldType) -> Check:
    """Return the function that reads a non-empty text as a value of a field type; raises ValueError."""
    if isinstance(kind, Array):
        raise ModelError(f"type {kind} cannot be read from text")
    if kind.element is not None:
        raise ModelError(f"type {kind} cannot be read from text")
    check = check_of(kind)
    if kind.is_string:
        return check
    if kind.is_binary:
        return lambda text: check(text.encode())
    if kind.is_float:
        return lambda text: check(float(text))
    if kind.kind is Kind.DECIMAL:

        def parse_decimal(text: Value) -> Value:
            try:
                return Decimal(text)
            except InvalidOperation as error:
                raise ValueError(text) from error

        return parse_decimal
    if kind.kind is Kind.BOOLEAN:

        def parse_boolean(text: Value) -> Value:
            return {"true": True, "false": False}[text.lower()]

        return parse_boolean
    return lambda text: check(int(text))


def format_value(value: Value) -> str:
    """Return a value as the engine prints it: numbers with up to 15 significant digits, text unchanged."""
    if isinstance(value, float):
        return f"{value:.15g}"
    if isinstance(value, bytes):
        return value.decode("latin-1")
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def quote(value: Value) -> str:
    """Return a value in double quotes, backslashes and quotes escaped; arrays in brackets."""
    if isinstance(value, tuple):
        return f"[{', '.join(map(quote, value))}]"
    escaped = format_value(value).replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
