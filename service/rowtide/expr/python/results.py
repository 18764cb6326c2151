"""Results of functions in Python: the values that each SQL type accepts, and how they are stored.

| type                           | accepted                                                            |
|--------------------------------|---------------------------------------------------------------------|
| BOOLEAN                        | bool                                                                |
| TINYINT .. BIGINT              | int in the range of the type                                        |
| REAL, DOUBLE                   | float, int                                                          |
| DECIMAL(p, s)                  | Decimal, int; rounded half away from zero to s digits               |
| CHAR, VARCHAR                  | str; only blanks are cut off                                        |
| BINARY, VARBINARY              | bytes, bytearray; only zero bytes are cut off                       |
| DATE                           | int, days since 1970-01-01                                          |
| TIME, TIMESTAMP, INTERVAL      | int: ms of the day, ms since 1970-01-01 (UTC), ms or months         |
| ARRAY                          | list, tuple or NumPy array of values of its elements                |

A scalar of NumPy counts as the Python value of its kind. None is NULL in every type.
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import ROUND_HALF_UP, Context, Decimal
from typing import Any

import numpy as np

from rowtide.errors import RejectedRowError
from rowtide.expr.functions.casts import cast_text
from rowtide.expr.functions.numbers.floats import single
from rowtide.rows.column import scaled, unscaled
from rowtide.rows.types import (
    INTEGER_BYTES,
    MAX_DECIMAL_PRECISION,
    MAX_TIMESTAMP_MS,
    MIN_TIMESTAMP_MS,
    Kind,
    Type,
)

Fit = Callable[[Any], object]
"""Returns a value, which is not None, in row form; raises ``ResultMisfit``."""

_DAY_MS = 86_400_000
_RANGES = {
    Kind.DATE: (MIN_TIMESTAMP_MS // _DAY_MS, MAX_TIMESTAMP_MS // _DAY_MS),
    Kind.TIME: (0, _DAY_MS - 1),
    Kind.INSTANT: (MIN_TIMESTAMP_MS, MAX_TIMESTAMP_MS),
    Kind.TIMESTAMP: (MIN_TIMESTAMP_MS, MAX_TIMESTAMP_MS),
    Kind.INTERVAL_DAY: (-(2**63), 2**63 - 1),
    Kind.INTERVAL_MONTH: (-(2**63), 2**63 - 1),
}
_WANTED = {
    Kind.BOOLEAN: "a bool",
    Kind.DATE: "an int, the days since 1970-01-01",
    Kind.TIME: "an int, the milliseconds of the day",
    Kind.INSTANT: "an int, the milliseconds since 1970-01-01 UTC",
    Kind.TIMESTAMP: "an int, the milliseconds since 1970-01-01 UTC",
    Kind.INTERVAL_DAY: "an int of milliseconds",
    Kind.INTERVAL_MONTH: "an int of months",
    Kind.DECIMAL: "a Decimal or an int",
}
_ROUNDED = Context(prec=2 * MAX_DECIMAL_PRECISION, rounding=ROUND_HALF_UP)


class ResultMisfit(Exception):
    """A value is not one of a type; the text says why, after the value."""


def fit_of(kind: Type) -> Fit:
    """Return the function that brings a result into row form."""
    fit = _fit_of(kind)

    def fitted(value: Any) -> object:
        return fit(value.item() if isinstance(value, np.generic) else value)

    return fitted


def _fit_of(kind: Type) -> Fit:
    if kind.is_integer:
        half = 1 << (8 * INTEGER_BYTES[kind.kind] - 1)
        return _whole(kind, "an int", -half, half - 1)
    if kind.kind in _RANGES:
        return _whole(kind, _WANTED[kind.kind], *_RANGES[kind.kind])
    if kind.is_float:
        return _float(kind)
    if kind.kind is Kind.DECIMAL:
        return _decimal(kind)
    if kind.kind is Kind.BOOLEAN:
        return _boolean
    if kind.element is not None:
        return _array(fit_of(kind.element))
    return _string(kind)


def _array(element: Fit) -> Fit:
    def fit(value: Any) -> object:
        if isinstance(value, np.ndarray):
            value = value.tolist()
        if not isinstance(value, list | tuple):
            raise ResultMisfit("which is not a list")
        found = []
        for at, each in enumerate(value, start=1):
            try:
                found.append(None if each is None else element(each))
            except ResultMisfit as misfit:
                raise ResultMisfit(f"whose element {at} is a value {misfit}") from None
        return tuple(found)

    return fit


def _boolean(value: Any) -> object:
    if not isinstance(value, bool):
        raise ResultMisfit(f"which is not {_WANTED[Kind.BOOLEAN]}")
    return value


def _whole(kind: Type, wanted: str, least: int, most: int) -> Fit:
    def fit(value: Any) -> object:
        if not isinstance(value, int) or isinstance(value, bool):
            raise ResultMisfit(f"which is not {wanted}")
        if not least <= value <= most:
            raise ResultMisfit(f"which is out of range for {kind}")
        return int(value)

    return fit


def _float(kind: Type) -> Fit:
    is_single = kind.kind is Kind.REAL

    def fit(value: Any) -> object:
        if not isinstance(value, float | int) or isinstance(value, bool):
            raise ResultMisfit("which is not a float")
        try:
            return single(float(value)) if is_single else float(value)
        except OverflowError:
            raise ResultMisfit(f"which is out of range for {kind}") from None

    return fit


def _decimal(kind: Type) -> Fit:
    precision, scale = kind.precision or MAX_DECIMAL_PRECISION, kind.scale
    unit = Decimal(1).scaleb(-scale)
    limit = 10**precision

    def fit(value: Any) -> object:
        if isinstance(value, int) and not isinstance(value, bool):
            units = value * 10**scale
        elif not isinstance(value, Decimal):
            raise ResultMisfit(f"which is not {_WANTED[Kind.DECIMAL]}")
        elif not value.is_finite() or (value and value.adjusted() >= precision - scale):
            raise ResultMisfit(f"which is out of range for {kind}")
        else:
            units = unscaled(value.quantize(unit, context=_ROUNDED), scale)
        if not -limit < units < limit:
            raise ResultMisfit(f"which is out of range for {kind}")
        return scaled(units, scale)

    return fit


def _string(kind: Type) -> Fit:
    shorten = cast_text.row(Type(Kind.VARCHAR if kind.is_string else Kind.VARBINARY), kind)

    def fit(value: Any) -> object:
        found: Any
        if kind.is_string:
            if not isinstance(value, str):
                raise ResultMisfit("which is not a str")
            found = str.__str__(value)
            if not found.isascii():
                _check_unicode(found)
        else:
            if not isinstance(value, bytes | bytearray):
                raise ResultMisfit("which is not bytes")
            found = bytes(value)
        try:
            return shorten(found)
        except RejectedRowError:
            why = (
                f"which is longer than {kind}" if kind.is_text or kind.is_binary else f"which is not a {kind}"
            )
            raise ResultMisfit(why) from None

    return fit


def _check_unicode(text: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ResultMisfit("which is not valid Unicode text") from None
