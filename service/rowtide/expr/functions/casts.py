"""CAST (sql-decisions 21): to fewer digits it rounds half away from zero, what does not fit rejects the row.

Out of the range of a number is OVERFLOW; text that is no value of the type, and
text that is too long by more than blanks, is CAST.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import ROUND_HALF_UP, Decimal, InvalidOperation
from typing import Any

import numpy as np

from rowtide.errors import Reason, RejectedRowError
from rowtide.expr.functions.arithmetic import checked
from rowtide.expr.functions.declaration import Function, Values, as_float, mismatch
from rowtide.expr.functions.typing import INTEGER_RANGE
from rowtide.rows.column import Column, Mask
from rowtide.rows.types import Kind, Type

DAY_MS = 86_400_000
_EPOCH = date(1970, 1, 1).toordinal()
_MOMENTS = (Kind.DATE, Kind.TIME, Kind.TIMESTAMP)
_SPANS = (Kind.INTERVAL_DAY, Kind.INTERVAL_MONTH)
_INTEGER = re.compile(r"[+-]?\d+")
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
_TIME = re.compile(r"(\d{1,2}):(\d{2})(?::(\d{2})(?:\.(\d{1,9}))?)?")
_TRUTH = {"TRUE": True, "FALSE": False}


def cast_allowed(source: Type, of: Type) -> bool:
    """Tell whether there is a CAST from ``source`` to ``of``."""
    if source.kind is of.kind or source.is_text or of.is_text:
        return not (source.is_binary or of.is_binary) or source.kind is of.kind
    if source.is_numeric:
        return of.is_numeric or (source.is_exact and of.kind in _SPANS)
    if source.kind in _SPANS:
        return of.is_exact
    if source.is_binary:
        return of.is_binary
    return {source.kind, of.kind} <= {Kind.DATE, Kind.TIMESTAMP} or (source.kind, of.kind) == (
        Kind.TIMESTAMP,
        Kind.TIME,
    )


def _cast_type(types: tuple[Type, ...]) -> Type:
    source, of = types
    if not cast_allowed(source, of):
        raise mismatch("CAST", (source,), f"There is no CAST from {source} to {of}.")
    return of


def _cast(args: Sequence[Any], types: tuple[Type, ...], of: Type) -> object:
    (value,), (source,) = args, types
    if of.is_variable_width:
        return _to_width(value if source.is_variable_width else show(value, source), of)
    if source.is_text:
        return _read(value, of)
    if of.kind is Kind.BOOLEAN or source == of:
        return value
    if of.is_float:
        return checked(float(value), of)
    if of.is_exact:
        if source.is_float and of.is_integer:
            value = int(Decimal(value).to_integral_value(ROUND_HALF_UP))
        if source.kind is Kind.DECIMAL and of.is_integer:
            value = int(value.to_integral_value(ROUND_HALF_UP))
        return checked(Decimal(value) if of.kind is Kind.DECIMAL else value, of)
    if of.kind is Kind.TIMESTAMP:
        return value * DAY_MS if source.kind is Kind.DATE else value
    if of.kind is Kind.DATE:
        return value // DAY_MS
    if of.kind is Kind.TIME:
        return value % DAY_MS
    return int(value)


def _to_width(value: Any, of: Type) -> object:
    if of.precision is None:
        return value
    blank = " " if of.is_text else b"\0"
    if len(value) > of.precision:
        if value[of.precision :].strip(blank):
            raise RejectedRowError(Reason.CAST, f"{value!r} is longer than {of}")
        return value[: of.precision]
    if of.kind in (Kind.CHAR, Kind.BINARY):
        return value.ljust(of.precision, blank)
    return value


def _read(text: str, of: Type) -> object:
    """Read a value of type ``of`` from text."""
    stripped = text.strip()
    refused = RejectedRowError(Reason.CAST, f"{text!r} is no {of}")
    try:
        if of.is_integer:
            if _INTEGER.fullmatch(stripped) is None:
                if _NUMBER.fullmatch(stripped) is None:
                    raise refused
                return checked(int(Decimal(stripped).to_integral_value(ROUND_HALF_UP)), of)
            return checked(int(stripped), of)
        if of.is_float or of.kind is Kind.DECIMAL:
            if _NUMBER.fullmatch(stripped) is None:
                raise refused
            return checked(float(stripped) if of.is_float else Decimal(stripped), of)
        match of.kind:
            case Kind.BOOLEAN:
                return _TRUTH[stripped.upper()]
            case Kind.DATE:
                return date.fromisoformat(stripped).toordinal() - _EPOCH
            case Kind.TIME:
                return _time(stripped)
            case Kind.TIMESTAMP:
                return read_timestamp(stripped)
            case _:
                return int(stripped)
    except (ValueError, KeyError, InvalidOperation, OverflowError):
        raise refused from None


def _time(text: str) -> int:
    found = _TIME.fullmatch(text)
    if found is None:
        raise ValueError(text)
    hour, minute, second = (int(part or 0) for part in found.groups()[:3])
    if hour > 23 or minute > 59 or second > 59:
        raise ValueError(text)
    return ((hour * 60 + minute) * 60 + second) * 1000 + int((found[4] or "").ljust(3, "0")[:3])


def read_timestamp(text: str) -> int:
    """Read ISO 8601 (a blank may stand for the T, no zone means UTC) as ms since the epoch.

    Raises:
      ValueError: it is none.
    """
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return (moment - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(milliseconds=1)


def show(value: Any, kind: Type) -> str:
    """Give a value as CAST to text shows it."""
    if kind.kind is Kind.BOOLEAN:
        return "TRUE" if value else "FALSE"
    if kind.is_float:
        return repr(float(np.float32(value)) if kind.kind is Kind.REAL else value)
    if kind.kind is Kind.DECIMAL:
        return format(value, "f")
    if kind.kind is Kind.DATE:
        return str(np.datetime64(value, "D"))
    if kind.kind is Kind.TIMESTAMP:
        return str(np.datetime64(value, "ms")).replace("T", " ")
    if kind.kind is Kind.TIME:
        return str(np.datetime64(value, "ms")).split("T")[1]
    return str(value)


def _fast_cast(args: Sequence[Column], of: Type) -> tuple[Values, Mask | None] | None:
    (column,) = args
    source = column.type
    if source == of or (of.is_variable_width and of.kind is source.kind and of.precision is None):
        return column.values, None
    if np.dtype(object) in (source.dtype, of.dtype):
        return None
    if of.kind is Kind.DOUBLE and source.is_numeric:
        return as_float(column), None
    if of.is_integer and source.is_integer:
        values = column.values.astype(np.int64)
        low, high = INTEGER_RANGE[of.kind]
        failed = (values < low) | (values > high)
        return values, failed if failed.any() else None
    if of.kind is Kind.TIMESTAMP and source.kind is Kind.DATE:
        return column.values.astype(np.int64) * DAY_MS, None
    if of.kind is Kind.DATE and source.kind is Kind.TIMESTAMP:
        return column.values // DAY_MS, None
    return None


FUNCTIONS = (Function("CAST", _cast_type, _cast, _fast_cast),)
