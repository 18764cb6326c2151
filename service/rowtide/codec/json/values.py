"""One JSON value to one SQL value: the rules, row by row.

See docs/sql/semantics.md#servers-formats-and-pseudo-columns.

This is the reference. ``json.columns`` does the same for whole columns if it is
sure of the result, and leaves the rest to these functions.

* No conversion between text and number, except text to DECIMAL.
* A number without a fractional part fits an integer column in any spelling
  (``1``, ``1.0``, ``1e0``). A number out of the column's range is TYPE:
  OVERFLOW is only for arithmetic.
* A number with more digits after the point than the DECIMAL column is rounded
  half away from zero, as by CAST. Too many digits before the point are TYPE.
* Text longer than the column is TYPE, unless only blanks are cut. Text with a
  NUL character is TYPE: no database keeps it.
* TIMESTAMP is text as ISO 8601 (without zone: UTC; finer than a millisecond:
  cut) or an integer of milliseconds; DATE and TIME are text as ISO 8601. Options of a column
  declare other units and patterns (``json.times``).
* BINARY is text in base64.
* UUID is text, in one of the spellings that PostgreSQL reads.
* ARRAY is an array, whose elements follow these rules; null in it is NULL.
* JSON is any value but null, as the message has it. Where a source has JSON as text (``texts_are_json`` of the
  decoder), it is that text.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable
from datetime import UTC, date, datetime, time
from decimal import ROUND_HALF_UP, Context, Decimal, InvalidOperation
from typing import Any

from rowtide.errors import Reason, RejectedRowError
from rowtide.rows.strings import FORMS
from rowtide.rows.types import (
    INTEGER_BYTES,
    MAX_DECIMAL_PRECISION,
    MAX_TIMESTAMP_MS,
    MIN_TIMESTAMP_MS,
    Kind,
    Type,
)

MAX_FLOAT32 = float.fromhex("0x1.fffffep+127")
_INFINITE_FLOAT32 = float.fromhex("0x1.ffffffp+127")
"""The least number that is infinity as a REAL. Texts of the greatest one, such as 3.4028235E+38, may lie between."""

_EPOCH_ORDINAL = date(1970, 1, 1).toordinal()
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_DECIMAL_TEXT = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?", re.ASCII)
_TIMESTAMP_TEXT = re.compile(r"[0-9W-]+([Tt ][0-9:.,]+([Zz]|[+-][0-9:]+)?)?", re.ASCII)
_ROUNDING = Context(prec=2 * MAX_DECIMAL_PRECISION + 4, rounding=ROUND_HALF_UP)

FromJson = Callable[[object], object]
"""Takes a JSON value (numbers with a point or exponent as Decimal), returns it in row form."""


class NotOfTypeError(Exception):
    """The value is not of the column's type; the argument says why, if the type alone does not."""


class ElementError(RejectedRowError):
    """An element of an array is not of its type; ``at`` is its index, from 0, and ``why`` the message about it."""

    def __init__(self, at: int, error: RejectedRowError) -> None:
        super().__init__(error.reason, f"element [{at}]: {error.message}")
        self.at = at
        self.why = error.message


def converter(kind: Type) -> FromJson | None:
    """Return the function that converts JSON values to ``kind``; None if JSON cannot carry it.

    The function raises RejectedRowError (TYPE). It is not called for null.
    """
    if kind.element is not None:
        of_element = converter(kind.element)
        return None if of_element is None else checked(kind, array_of_values(of_element))
    convert = _converter(kind)
    return None if convert is None else checked(kind, convert)


def checked(kind: Type, convert: FromJson) -> FromJson:
    """Return a function that says of which value and type it is where ``convert`` says NotOfTypeError."""

    def converted(value: object) -> object:
        try:
            return convert(value)
        except NotOfTypeError as error:
            detail = f": {error}" if error.args else ""
            raise RejectedRowError(Reason.TYPE, f"{shown(value)} is not a valid {kind}{detail}") from None

    return converted


def _converter(kind: Type) -> FromJson | None:
    if kind.is_integer:
        return _integer(INTEGER_BYTES[kind.kind])
    if kind.is_text:
        return _text(kind.precision)
    if kind.is_binary:
        return _binary(kind.precision)
    match kind.kind:
        case Kind.UUID | Kind.JSON:
            return _form(kind)
        case Kind.BOOLEAN:
            return _boolean
        case Kind.DOUBLE:
            return _floating(None)
        case Kind.REAL:
            return _floating(_INFINITE_FLOAT32)
        case Kind.DECIMAL:
            return _decimal(kind.precision or MAX_DECIMAL_PRECISION, kind.scale)
        case Kind.DATE:
            return _date
        case Kind.TIME:
            return _time
        case Kind.TIMESTAMP | Kind.INSTANT:
            return _timestamp
        case _:
            return None


def shown(value: object) -> str:
    """Return a JSON value as a message shows it: shortened, and only the kind of a nested value."""
    match value:
        case str():
            return f'text "{value[:40]}{"..." if len(value) > 40 else ""}"'
        case bool():
            return "true" if value else "false"
        case int() | Decimal():
            digits = str(value)
            return f"number {digits[:40]}{'...' if len(digits) > 40 else ''}"
        case list():
            return "an array"
        case _:
            return "an object"


def array_of_values(of_element: FromJson, listed: Callable[[Any], list[Any]] | None = None) -> FromJson:
    """Return the function that converts a list by the converter of its elements; null is NULL.

    ``listed`` makes a list of values that are sequences of another kind. The function raises NotOfTypeError, and
    ElementError where an element is not of its type.
    """

    def convert(value: object) -> object:
        if listed is not None:
            value = listed(value)
        if not isinstance(value, list):
            raise NotOfTypeError
        found = []
        for at, each in enumerate(value):
            try:
                found.append(None if each is None else of_element(each))
            except RejectedRowError as error:
                raise ElementError(at, error) from error
        return tuple(found)

    return convert


def _boolean(value: object) -> object:
    if not isinstance(value, bool):
        raise NotOfTypeError
    return value


def _integer(width: int) -> FromJson:
    low, high = -(1 << (8 * width - 1)), (1 << (8 * width - 1)) - 1

    def convert(value: object) -> object:
        if isinstance(value, bool) or not isinstance(value, int | Decimal):
            raise NotOfTypeError
        if not low <= value <= high:
            raise NotOfTypeError(f"it holds {low} to {high}")
        if isinstance(value, Decimal) and value != value.to_integral_value():
            raise NotOfTypeError("it has a fractional part")
        return int(value)

    return convert


def _floating(limit: float | None) -> FromJson:
    def convert(value: object) -> object:
        if isinstance(value, bool) or not isinstance(value, int | Decimal):
            raise NotOfTypeError
        try:
            number = float(value)
        except OverflowError:
            raise NotOfTypeError("it is out of range") from None
        # Decimals out of range come as infinity, integers as OverflowError.
        if number - number != 0.0 or (limit is not None and abs(number) >= limit):
            raise NotOfTypeError("it is out of range")
        return number

    return convert


def _decimal(precision: int, scale: int) -> FromJson:
    unit = Decimal(1).scaleb(-scale)
    limit = Decimal(10) ** (precision - scale)

    def convert(value: object) -> object:
        if isinstance(value, str):
            if _DECIMAL_TEXT.fullmatch(value) is None:
                raise NotOfTypeError
            try:
                number = Decimal(value)
            except InvalidOperation:
                raise NotOfTypeError("it is out of range") from None
        elif isinstance(value, bool) or not isinstance(value, int | Decimal):
            raise NotOfTypeError
        else:
            number = Decimal(value)
        # copy_abs() and not abs(): arithmetic overflows where the exponent is beyond the context's.
        if number.copy_abs() >= limit:
            raise NotOfTypeError("it has too many digits before the point")
        rounded = number.quantize(unit, context=_ROUNDING)
        if rounded.copy_abs() >= limit:
            raise NotOfTypeError("it has too many digits before the point")
        return rounded if rounded else unit * 0

    return convert


def _text(length: int | None) -> FromJson:
    def convert(value: object) -> object:
        if not isinstance(value, str):
            raise NotOfTypeError
        if "\0" in value:
            raise NotOfTypeError("it has a NUL character")
        if length is not None and len(value) > length:
            if value[length:].strip(" "):
                raise NotOfTypeError(f"it has {len(value)} characters")
            return value[:length]
        return value

    return convert


def _form(kind: Type) -> FromJson:
    """Return the function that takes the text of a UUID, or JSON text."""
    form = FORMS[kind.kind]

    def convert(value: object) -> object:
        if not isinstance(value, str):
            raise NotOfTypeError
        try:
            return form(value)
        except ValueError:
            raise NotOfTypeError from None

    return convert


def _binary(length: int | None) -> FromJson:
    def convert(value: object) -> object:
        if not isinstance(value, str):
            raise NotOfTypeError
        try:
            raw = base64.b64decode(value, validate=True)
        except (binascii.Error, ValueError):
            raise NotOfTypeError("it is not base64") from None
        if length is not None and len(raw) > length:
            raise NotOfTypeError(f"it has {len(raw)} bytes")
        return raw

    return convert


def _date(value: object) -> object:
    if not isinstance(value, str):
        raise NotOfTypeError
    try:
        return date.fromisoformat(value).toordinal() - _EPOCH_ORDINAL
    except ValueError:
        raise NotOfTypeError from None


def _time(value: object) -> object:
    if not isinstance(value, str):
        raise NotOfTypeError
    try:
        parsed = time.fromisoformat(value)
    except ValueError:
        raise NotOfTypeError from None
    if parsed.tzinfo is not None:
        raise NotOfTypeError("a time of day has no zone")
    seconds = (parsed.hour * 60 + parsed.minute) * 60 + parsed.second
    return seconds * 1000 + parsed.microsecond // 1000


def _timestamp(value: object) -> object:
    if isinstance(value, str):
        if _TIMESTAMP_TEXT.fullmatch(value) is None:
            raise NotOfTypeError
        try:
            parsed = datetime.fromisoformat(value)
        except ValueError:
            raise NotOfTypeError from None
        if parsed.tzinfo is None:
            parsed = parsed.replace(tzinfo=UTC)
        lapse = parsed - _EPOCH
        number = (lapse.days * 86_400 + lapse.seconds) * 1000 + lapse.microseconds // 1000
    elif isinstance(value, int) and not isinstance(value, bool):
        number = value
    else:
        raise NotOfTypeError
    if not MIN_TIMESTAMP_MS <= number <= MAX_TIMESTAMP_MS:
        raise NotOfTypeError("it is not within the years 1 to 9999")
    return number
