"""Parse text for CAST, one value or a column; ``cast_text`` defines the forms."""

from __future__ import annotations

import re
from collections.abc import Callable
from decimal import ROUND_HALF_UP, Context, Decimal, InvalidOperation
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rowtide.errors import Reason, RejectedRowError
from rowtide.expr.evaluation import ColumnKernel, RowKernel
from rowtide.expr.functions import arrow
from rowtide.expr.functions.casts import cast_numbers
from rowtide.expr.functions.numbers import exact, floats
from rowtide.expr.functions.rejections import shown
from rowtide.expr.functions.times import civil
from rowtide.expr.functions.type_rules import digits
from rowtide.rows.arrays import Mask
from rowtide.rows.column import scaled
from rowtide.rows.types import (
    BOOLEAN,
    DATE,
    DOUBLE,
    INSTANT,
    INTERVAL_DAY,
    INTERVAL_MONTH,
    MAX_DECIMAL_PRECISION,
    TIME,
    TIMESTAMP,
    Kind,
    Type,
)

_TRUTHS = {
    **dict.fromkeys(("t", "tr", "tru", "true", "y", "ye", "yes", "on", "1"), True),
    **dict.fromkeys(("f", "fa", "fal", "fals", "false", "n", "no", "of", "off", "0"), False),
}
"""The spellings of BOOLEAN that PostgreSQL reads: words, and what begins only one of them."""
_BLANKS = " \t\n\r\f\v"
_NUMBER = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?", re.ASCII)
_DATE = re.compile(r"(\d{4})-(\d{1,2})-(\d{1,2})", re.ASCII)
_TIME = re.compile(r"(\d{1,2}):(\d{2})(?::(\d{2})(?:\.(\d+))?)?", re.ASCII)
_ZONE = re.compile(r"(?:[Zz]|(?P<sign>[+-])(?P<hours>\d{2}):?(?P<minutes>\d{2})?)\Z", re.ASCII)
_DAY_TIME = re.compile(r"([+-]?)(\d{1,12}) (\d{1,2}):(\d{2}):(\d{2})(?:\.(\d+))?", re.ASCII)
_YEAR_MONTH = re.compile(r"([+-]?)(\d{1,12})-(\d{1,2})", re.ASCII)
_PLAIN_INTEGERS = "^-?[0-9]{1,18}$"
_PLAIN_DOUBLES = r"^-?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?$"


class _UnreadableError(Exception):
    """The text is not a value of the type."""


def reader(target: Type) -> RowKernel:
    """Return the function that reads a value of a type from text; it rejects what it cannot read."""
    read = _read_exact(target) if target.is_exact else _READERS.get(target) or _read_float(target)
    low, high = civil.RANGES.get(target, (None, None))

    def from_text(text: str) -> object:
        try:
            value = read(text.strip(_BLANKS))
        except _UnreadableError:
            raise RejectedRowError(Reason.CAST, f"{shown(text)} is not a valid {target}") from None
        except OverflowError:
            raise cast_numbers.out_of_range(text, target) from None
        if low is not None and not low <= value <= high:
            raise cast_numbers.out_of_range(text, target)
        return value

    return from_text


def _read_exact(target: Type) -> Callable[[str], Any]:
    low, high = exact.exact_range(target)
    scale = digits(target)[1]
    unit = Decimal(1).scaleb(-scale)
    is_decimal = target.kind is Kind.DECIMAL

    def read(text: str) -> object:
        if _NUMBER.fullmatch(text) is None:
            raise _UnreadableError
        try:
            number = Decimal(text)
        except InvalidOperation:
            # An exponent that Decimal does not support: the value is zero or out of range.
            mantissa, _, exponent = text.lower().partition("e")
            if not exponent.startswith("-") and mantissa.strip("+-.0"):
                raise OverflowError from None
            number = Decimal(0)
        if number and number.adjusted() > MAX_DECIMAL_PRECISION:
            raise OverflowError
        context = Context(prec=len(text) + MAX_DECIMAL_PRECISION + scale + 2, rounding=ROUND_HALF_UP)
        result = int(number.quantize(unit, context=context).scaleb(scale, context))
        if not low <= result <= high:
            raise OverflowError
        return scaled(result, scale) if is_decimal else result

    return read


def _read_float(target: Type) -> Callable[[str], Any]:
    def read(text: str) -> float:
        if _NUMBER.fullmatch(text) is None:
            raise _UnreadableError
        value = float(text)
        if value - value != 0.0:
            raise OverflowError
        return value if target == DOUBLE else floats.single(value)

    return read


def _read_boolean(text: str) -> bool:
    found = _TRUTHS.get(text.lower())
    if found is None:
        raise _UnreadableError
    return found


def _read_date(text: str) -> int:
    match = _DATE.fullmatch(text)
    if match is None:
        raise _UnreadableError
    year, month, day = (int(part) for part in match.groups())
    if not (year and 1 <= month <= 12 and day):
        raise _UnreadableError
    number = civil.day_of(year, month, day)
    if civil.civil(number) != (year, month, day):
        raise _UnreadableError
    return number


def _read_time(text: str) -> int:
    match = _TIME.fullmatch(text)
    if match is None:
        raise _UnreadableError
    return _ms_of_day(match.group(1), match.group(2), match.group(3) or "0", match.group(4))


def _ms_of_day(hour: str, minute: str, second: str, fraction: str | None) -> int:
    if int(hour) > 23 or int(minute) > 59 or int(second) > 59:
        raise _UnreadableError
    seconds = (int(hour) * 60 + int(minute)) * 60 + int(second)
    return seconds * 1_000 + int((fraction or "")[:3].ljust(3, "0"))


def _read_timestamp(text: str) -> int:
    day, _, rest = text.replace("T", " ", 1).replace("t", " ", 1).partition(" ")
    shift = 0
    zone = _ZONE.search(rest)
    if zone is not None:
        rest = rest[: zone.start()]
        hours, minutes = int(zone["hours"] or 0), int(zone["minutes"] or 0)
        if hours > 23 or minutes > 59:
            raise _UnreadableError
        shift = (hours * 60 + minutes) * 60_000 * (-1 if zone["sign"] == "-" else 1)
    midnight = _read_date(day) * civil.DAY_MS
    if not rest.strip() and zone is None:
        return midnight
    return midnight + _read_time(rest.strip()) - shift


def _read_day_time(text: str) -> int:
    match = _DAY_TIME.fullmatch(text)
    if match is None:
        raise _UnreadableError
    sign, day, *time = match.groups()
    size = int(day) * civil.DAY_MS + _ms_of_day(*time)
    return -size if sign == "-" else size


def _read_year_month(text: str) -> int:
    match = _YEAR_MONTH.fullmatch(text)
    if match is None or int(match.group(3)) > 11:
        raise _UnreadableError
    size = int(match.group(2)) * 12 + int(match.group(3))
    return -size if match.group(1) == "-" else size


_READERS: dict[Type, Callable[[str], Any]] = {
    BOOLEAN: _read_boolean,
    DATE: _read_date,
    TIME: _read_time,
    TIMESTAMP: _read_timestamp,
    INSTANT: _read_timestamp,
    INTERVAL_DAY: _read_day_time,
    INTERVAL_MONTH: _read_year_month,
}


def number_reader(target: Type) -> ColumnKernel:
    """Parse plain numbers by Arrow and leave all other text to the row function."""
    pattern = _PLAIN_INTEGERS if target.is_integer else _PLAIN_DOUBLES
    name = "int64" if target.is_integer else "float64"
    dtype = target.dtype

    def convert(texts: Any) -> tuple[Any, Mask | None]:
        plain = pc.match_substring_regex(texts, pattern)
        doubtful = ~arrow.flags(plain)
        try:
            parsed = pc.cast(pc.if_else(plain, texts, "0"), name)
        except pa.ArrowInvalid:
            return np.zeros(len(texts), dtype=dtype), np.ones(len(texts), dtype=np.bool_)
        numbers = arrow.numbers(parsed, name)
        if target.is_integer:
            values, outside = exact.settled(numbers, target)
            return values, exact.either(doubtful, outside)
        values = numbers.astype(dtype, copy=False)
        return values, doubtful | ~np.isfinite(values)

    return convert
