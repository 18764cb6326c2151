r"""CAST to and from text, and between lengths of text and of binary strings.

Text of a value:

| type                   | text                                                             |
|------------------------|------------------------------------------------------------------|
| BOOLEAN                | TRUE, FALSE (read in any case)                                   |
| integers, DECIMAL      | 12, 1.50: all digits of the scale                                |
| REAL, DOUBLE           | the shortest that reads back the same, as Python writes it       |
| DATE, TIME             | 2024-02-29, 12:34:56 or 12:34:56.789                             |
| TIMESTAMP              | date and time with a blank; T is read too, and Z or +hh:mm       |
| INTERVAL day to second | [-]d hh:mm:ss[.mmm]                                              |
| INTERVAL year to month | [-]y-m                                                           |
| BINARY                 | UTF-8                                                            |

Blanks around a value are no matter. Any number is written as any numeric
literal and then rounded as CAST between numbers rounds; digits finer than a
millisecond are cut off. What is no such text is CAST, a number out of range
OVERFLOW.

A string goes into a shorter type only if nothing but blanks (zero bytes) are
cut off. CHAR and BINARY are not filled up: nothing in Rowtide counts on that.
"""

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
from rowtide.expr.functions import arrow, cast_numbers, civil, exact, floats
from rowtide.expr.functions.rejections import shown
from rowtide.expr.functions.type_rules import digits
from rowtide.rows.column import Mask, scaled
from rowtide.rows.types import (
    BOOLEAN,
    DATE,
    DOUBLE,
    INTERVAL_DAY,
    INTERVAL_MONTH,
    MAX_DECIMAL_PRECISION,
    TIME,
    TIMESTAMP,
    Kind,
    Type,
)

_BLANKS = " \t\n\r\f\v"
_NUMBER = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?", re.ASCII)
_DATE = re.compile(r"(\d{4})-(\d{1,2})-(\d{1,2})", re.ASCII)
_TIME = re.compile(r"(\d{1,2}):(\d{2})(?::(\d{2})(?:\.(\d+))?)?", re.ASCII)
_ZONE = re.compile(r"(?P<time>.*?)\s*(?:[Zz]|(?P<sign>[+-])(?P<hours>\d{2}):?(?P<minutes>\d{2})?)", re.ASCII)
_DAY_TIME = re.compile(r"([+-]?)(\d{1,12}) (\d{1,2}):(\d{2}):(\d{2})(?:\.(\d+))?", re.ASCII)
_YEAR_MONTH = re.compile(r"([+-]?)(\d{1,12})-(\d{1,2})", re.ASCII)
_PLAIN_INTEGERS = "^-?[0-9]{1,18}$"
_PLAIN_DOUBLES = r"^-?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?$"


def allowed(source: Type, target: Type) -> bool:
    """Tell whether the cast exists: text with everything, binary with text and binary."""
    if source.is_binary or target.is_binary:
        return (source.is_binary or source.is_text) and (target.is_binary or target.is_text)
    return source.is_text or target.is_text


def row(source: Type, target: Type) -> RowKernel:
    """Give the row function of a cast from or to text, or between binary strings."""
    if not target.is_variable_width:
        return _reader(target)
    fit = _fit_row(target)
    write = _writer(source, target)
    if write is None:
        return fit
    return lambda value: fit(write(value))


def columns(source: Type, target: Type) -> ColumnKernel | None:
    """Give the column function of a cast from or to text, or between binary strings."""
    if target.is_integer or target.kind in (Kind.DOUBLE, Kind.REAL):
        return _read_numbers(target)
    if not target.is_variable_width:
        return None
    if source.is_integer:
        text = pa.string()
        return _fitted(target, lambda values: pc.cast(pa.array(values), text))
    if source == BOOLEAN:
        names = pa.array(["FALSE", "TRUE"])
        return _fitted(target, lambda values: names.take(pa.array(values.view(np.int8))))
    if source.is_text == target.is_text and source.is_variable_width:
        return _fitted(target, lambda values: values)
    return None


# ---------------------------------------------------------------------- text


def _fit_row(target: Type) -> RowKernel:
    """Give the function that fits a string into the length of ``target``."""
    length = target.precision
    blank: Any = " " if target.is_text else b"\0"

    def fit(value: Any) -> object:
        if length is None or len(value) <= length:
            return value
        if value[length:].strip(blank):
            raise RejectedRowError(Reason.CAST, f"{shown(value)} is longer than {target}")
        return value[:length]

    return fit


def _fitted(target: Type, write: Callable[[Any], Any]) -> ColumnKernel:
    length = target.precision
    measure = pc.utf8_length if target.is_text else pc.binary_length

    def convert(values: Any) -> tuple[Any, Mask | None]:
        texts = write(values)
        if length is None:
            return texts, None
        long = arrow.numbers(measure(texts), "int32") > length
        return texts, long if long.any() else None

    return convert


def _writer(source: Type, target: Type) -> Callable[[Any], Any] | None:
    """Give the function that writes a value as text; None for what is a string of that sort already."""
    if source.is_binary:
        return _utf8 if target.is_text else None
    if target.is_binary:
        return lambda text: text.encode()
    if source.is_text:
        return None
    return lambda value: as_text(value, source)


def _utf8(value: bytes) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError:
        raise RejectedRowError(Reason.CAST, f"{shown(value)} is no text in UTF-8") from None


def as_text(value: Any, kind: Type) -> str:
    """Give a value in row form as CAST writes it."""
    if kind == BOOLEAN:
        return "TRUE" if value else "FALSE"
    if kind.kind is Kind.DECIMAL:
        return f"{value:f}"
    if kind.is_float:
        return repr(value) if kind == DOUBLE else str(np.float32(value))
    if kind == DATE:
        return _date_text(value)
    if kind == TIME:
        return _time_text(value)
    if kind == TIMESTAMP:
        day, rest = divmod(value, civil.DAY_MS)
        return f"{_date_text(day)} {_time_text(rest)}"
    if kind == INTERVAL_DAY:
        day, rest = divmod(abs(value), civil.DAY_MS)
        return f"{'-' if value < 0 else ''}{day} {_time_text(rest)}"
    if kind == INTERVAL_MONTH:
        years, months = divmod(abs(value), 12)
        return f"{'-' if value < 0 else ''}{years}-{months}"
    return str(value)


def _date_text(day: int) -> str:
    year, month, of_month = civil.civil(day)
    return f"{year:04d}-{month:02d}-{of_month:02d}"


def _time_text(ms: int) -> str:
    seconds, rest = divmod(ms, 1_000)
    minutes, second = divmod(seconds, 60)
    fraction = f".{rest:03d}" if rest else ""
    return f"{minutes // 60:02d}:{minutes % 60:02d}:{second:02d}{fraction}"


# ------------------------------------------------------------------- reading


class _UnreadableError(Exception):
    """The text is no value of the type."""


def _reader(target: Type) -> RowKernel:
    read = _read_exact(target) if target.is_exact else _READERS.get(target) or _read_float(target)
    low, high = civil.RANGES.get(target, (None, None))

    def from_text(text: str) -> object:
        try:
            value = read(text.strip(_BLANKS))
        except _UnreadableError:
            raise RejectedRowError(Reason.CAST, f"{shown(text)} is no {target}") from None
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
            # An exponent that no Decimal has: nothing, or far too much.
            number = Decimal(0)
            if "-" not in text.lower().partition("e")[2] and any(digit in text for digit in "123456789"):
                raise OverflowError from None
        if number.adjusted() > MAX_DECIMAL_PRECISION and number:
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
    if text.upper() not in ("TRUE", "FALSE"):
        raise _UnreadableError
    return text.upper() == "TRUE"


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
    zone = _ZONE.fullmatch(rest)
    if zone is not None:
        rest = zone["time"]
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
    INTERVAL_DAY: _read_day_time,
    INTERVAL_MONTH: _read_year_month,
}


def _read_numbers(target: Type) -> ColumnKernel:
    """Read plainly written numbers by Arrow and leave all other text to the row function."""
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
