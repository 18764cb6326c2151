"""Values in scenarios: text to a value of a column's type, and back.

This is the syntax of scenarios, not SQL's CAST: times of day are on the
scenario's day, nothing is rounded or cut, and values that do not fit are rejected.
"""

from __future__ import annotations

import json
import math
import re
import struct
from datetime import timedelta
from decimal import Decimal, InvalidOperation
from typing import TypeVar

from rowtide.codec.written.times import (
    DAY_MS,
    EPOCH,
    ScenarioDay,
    format_time_of_day,
    parse_date,
    parse_time_of_day,
)
from rowtide.errors import RejectedRowError
from rowtide.expr.constant import fold
from rowtide.expr.rowwise import compile_row
from rowtide.expr.tree import Call, Literal
from rowtide.rows.column import EXACT
from rowtide.rows.strings import FORMS
from rowtide.rows.types import INTEGER_BYTES, VARCHAR, Kind, Type

_Sized = TypeVar("_Sized", str, bytes)

_HEX = re.compile(r"[xX]'((?:[0-9a-fA-F]{2})*)'")
_UNIT_MS = {"MILLISECOND": 1, "SECOND": 1000, "MINUTE": 60_000, "HOUR": 3_600_000, "DAY": DAY_MS}
_UNIT_MONTHS = {"MONTH": 1, "YEAR": 12}
_UNITS = {Kind.INTERVAL_DAY: _UNIT_MS, Kind.INTERVAL_MONTH: _UNIT_MONTHS}
_INTERVAL = re.compile(r"(?:INTERVAL\s+)?'?([+-]?\d+(?:\.\d+)?)'?\s*([A-Z]+?)S?", re.IGNORECASE)


def value_of(text: str, kind: Type, day: ScenarioDay) -> object:
    """Parse ``text`` as a value, in row form, of a column of type ``kind``.

    Raises:
      ValueError: it is not a value of that type, or does not fit it.
    """
    match kind.kind:
        case Kind.BOOLEAN:
            return _boolean(text)
        case Kind.TINYINT | Kind.SMALLINT | Kind.INTEGER | Kind.BIGINT:
            return _integer(text, kind)
        case Kind.REAL | Kind.DOUBLE:
            return _float(text, kind)
        case Kind.DECIMAL:
            return _decimal(text, kind)
        case Kind.CHAR | Kind.VARCHAR:
            return _fitting(text, text, kind)
        case Kind.UUID | Kind.JSON:
            return FORMS[kind.kind](text)
        case Kind.ARRAY:
            return _array(text, kind)
        case Kind.BINARY | Kind.VARBINARY:
            return _fitting(_binary(text), text, kind)
        case Kind.DATE:
            return parse_date(text)
        case Kind.TIME:
            return parse_time_of_day(text)
        case Kind.TIMESTAMP | Kind.INSTANT:
            return day.parse(text)
        case Kind.INTERVAL_DAY | Kind.INTERVAL_MONTH:
            return _interval(text, kind, _UNITS[kind.kind])


def _array(text: str, kind: Type) -> object:
    """Return an array that is written as a JSON array, as CAST reads it."""
    try:
        return compile_row(Call("CAST", (Literal(text, VARCHAR),), kind))((), 0)
    except RejectedRowError as error:
        raise ValueError(error.message) from error


def _boolean(text: str) -> bool:
    folded = text.strip().lower()
    if folded not in ("true", "false"):
        raise ValueError(f'"{text}" is neither true nor false')
    return folded == "true"


def number_of(text: str) -> Decimal:
    """Parse ``text`` as a finite number, exactly.

    Raises:
      ValueError: it is not a finite number.
    """
    try:
        number = Decimal(text.strip())
    except InvalidOperation as error:
        raise ValueError(f'"{text}" is not a number') from error
    if not number.is_finite():
        raise ValueError(f'"{text}" is not a finite number')
    return number


def _integer(text: str, kind: Type) -> int:
    number = number_of(text)
    if number != number.to_integral_value():
        raise ValueError(f'"{text}" is not a whole number')
    limit = 1 << (8 * INTEGER_BYTES[kind.kind] - 1)
    if not -limit <= number < limit:
        raise ValueError(f'"{text}" does not fit {kind}')
    return int(number)


def _float(text: str, kind: Type) -> float:
    try:
        number = float(text.strip().replace(".inf", "inf").replace(".nan", "nan"))
    except ValueError as error:
        raise ValueError(f'"{text}" is not a number') from error
    if kind.kind is Kind.REAL and math.isfinite(number):
        single: float = struct.unpack("f", struct.pack("f", number))[0]
        return single
    return number


def _decimal(text: str, kind: Type) -> Decimal:
    number = number_of(text)
    exponent = number.normalize(EXACT).as_tuple().exponent
    whole = max(number.adjusted() + 1, 0) if number else 0
    if -int(exponent) > kind.scale or whole > (kind.precision or 38) - kind.scale:
        raise ValueError(f'"{text}" does not fit {kind}')
    return number.quantize(Decimal(1).scaleb(-kind.scale), context=EXACT)


def _binary(text: str) -> bytes:
    match = _HEX.fullmatch(text.strip())
    return bytes.fromhex(match.group(1)) if match else text.encode()


def _fitting(value: _Sized, text: str, kind: Type) -> _Sized:
    if kind.precision is not None and len(value) > kind.precision:
        raise ValueError(f'"{text}" does not fit {kind}')
    return value


def _interval(text: str, kind: Type, units: dict[str, int]) -> int:
    stripped = text.strip()
    if re.fullmatch(r"[+-]?\d+", stripped):
        return int(stripped)
    as_sql_writes_it = fold(Call("CAST", (Literal(stripped, VARCHAR),), kind))
    if isinstance(as_sql_writes_it, Literal) and isinstance(as_sql_writes_it.value, int):
        return as_sql_writes_it.value
    match = _INTERVAL.fullmatch(stripped)
    if match is None or match.group(2).upper() not in units:
        raise ValueError(f'"{text}" is not an interval such as 10 MINUTE (units here: {", ".join(units)})')
    length = Decimal(match.group(1)) * units[match.group(2).upper()]
    if length != length.to_integral_value():
        raise ValueError(f'"{text}" is finer than the least unit')
    return int(length)


def text_of(value: object, kind: Type, day: ScenarioDay) -> str:
    """Return the text that ``value_of`` reads as ``value``; the word null for NULL."""
    if value is None:
        return "null"
    if kind.element is not None and isinstance(value, tuple):
        element = kind.element
        return f"[{', '.join(cell_text(each, element, day) for each in value)}]"
    match kind.kind, value:
        case Kind.BOOLEAN, bool():
            return "true" if value else "false"
        case (Kind.REAL, float()):
            return _shortest_single(value)
        case Kind.DECIMAL, Decimal():
            return format(value, "f")
        case ((Kind.BINARY | Kind.VARBINARY), bytes()):
            return _binary_text(value)
        case Kind.DATE, int():
            return _date_text(value)
        case Kind.TIME, int():
            return format_time_of_day(value)
        case ((Kind.TIMESTAMP | Kind.INSTANT), int()):
            return day.format(value)
        case _:
            return str(value)


def _shortest_single(value: float) -> str:
    for digits in range(6, 10):
        text = f"{value:.{digits}g}"
        if struct.pack("f", float(text)) == struct.pack("f", value):
            return text
    return repr(value)


def _binary_text(value: bytes) -> str:
    try:
        text = value.decode()
    except UnicodeDecodeError:
        return f"x'{value.hex()}'"
    return text if text.isprintable() and not _HEX.fullmatch(text) else f"x'{value.hex()}'"


def _date_text(days: int) -> str:
    return (EPOCH + timedelta(days=days)).isoformat()


def cell_text(value: object, kind: Type, day: ScenarioDay) -> str:
    """Return a value as a cell of a scenario file: text and times in quotes, numbers and null plain."""
    text = text_of(value, kind, day)
    if value is None or kind.is_numeric or kind.kind in (Kind.BOOLEAN, Kind.ARRAY):
        return text
    return json.dumps(text, ensure_ascii=False)
