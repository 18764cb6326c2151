"""Dates and times: parts of them, and rounding to a calendar unit or a step (sql-decisions 3)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from rowtide.errors import Reason, RejectedRowError
from rowtide.expr.functions.declaration import Function, Values, mismatch
from rowtide.rows.column import Column, Mask
from rowtide.rows.types import BIGINT, TIMESTAMP, Kind, Type
from rowtide.rowtime.period import CalendarUnit, Period, PeriodEdge, ceil_to, floor_to

DAY_MS = 86_400_000
_OF_DAY = {"HOUR": (3_600_000, 24), "MINUTE": (60_000, 60), "SECOND": (1_000, 60), "MILLISECOND": (1, 1_000)}
_OF_DATE = ("YEAR", "QUARTER", "MONTH", "WEEK", "DAY", "DOW", "DOY")
UNITS = (*_OF_DATE, *_OF_DAY, "EPOCH")


def _moment_and_unit(name: str) -> Callable[[tuple[Type, ...]], Type]:
    def resolve(types: tuple[Type, ...]) -> Type:
        if len(types) == 2 and types[0].kind in (Kind.TIMESTAMP, Kind.DATE) and types[1].is_text:
            return types[0]
        raise mismatch(f"{name[:-3]} .. TO", types)

    return resolve


def _step_type(types: tuple[Type, ...]) -> Type:
    spans = all(kind.kind is Kind.INTERVAL_DAY for kind in types[1:])
    if len(types) in (2, 3) and types[0].kind is Kind.TIMESTAMP and spans:
        return TIMESTAMP
    raise mismatch("STEP", types)


def _extract_type(types: tuple[Type, ...]) -> Type:
    moments = (Kind.TIMESTAMP, Kind.DATE, Kind.TIME, Kind.INTERVAL_DAY, Kind.INTERVAL_MONTH)
    if len(types) == 2 and types[0].is_text and types[1].kind in moments:
        return BIGINT
    raise mismatch("EXTRACT", types)


def _rounded(round_to: Callable[[Any, Period], Any]) -> Function:
    name = "FLOOR_TO" if round_to is floor_to else "CEIL_TO"

    def compute(values: Any, kind: Type, unit: str) -> Any:
        moments = values * DAY_MS if kind.kind is Kind.DATE else values
        found = round_to(moments, Period(PeriodEdge.FLOOR, CalendarUnit(unit)))
        return found // DAY_MS if kind.kind is Kind.DATE else found

    def row(args: Sequence[Any], types: tuple[Type, ...], of: Type) -> object:
        return int(compute(np.array([args[0]], dtype=np.int64), types[0], args[1])[0])

    def columnar(args: Sequence[Column], of: Type) -> tuple[Values, Mask | None] | None:
        if not len(args[0]):
            return args[0].values, None
        unit = args[1].values[0].as_py()
        return compute(args[0].values.astype(np.int64), args[0].type, unit), None

    return Function(name, _moment_and_unit(name), row, columnar)


def _step(args: Sequence[Any], types: tuple[Type, ...], of: Type) -> object:
    return int(floor_to(np.array([args[0]], dtype=np.int64), _grid(*args[1:]))[0])


def _fast_step(args: Sequence[Column], of: Type) -> tuple[Values, Mask | None] | None:
    if not len(args[0]):
        return args[0].values, None
    return floor_to(args[0].values, _grid(*(int(arg.values[0]) for arg in args[1:]))), None


def _grid(step_ms: int, offset_ms: int = 0) -> Period:
    if step_ms <= 0:
        raise RejectedRowError(Reason.FUNCTION, "STEP takes an interval above zero")
    return Period(PeriodEdge.FLOOR, step_ms=step_ms, offset_ms=offset_ms)


def _extract(args: Sequence[Any], types: tuple[Type, ...], of: Type) -> object:
    unit, value = args
    kind = types[1].kind
    if kind is Kind.INTERVAL_MONTH:
        months = {"YEAR": abs(value) // 12, "MONTH": abs(value) % 12}.get(unit)
        if months is not None:
            return months if value >= 0 else -months
        raise RejectedRowError(Reason.FUNCTION, f"an INTERVAL YEAR TO MONTH has no {unit}")
    if kind is Kind.INTERVAL_DAY:
        size = abs(value)
        if unit == "DAY":
            found = size // DAY_MS
        elif unit in _OF_DAY:
            length, count = _OF_DAY[unit]
            found = size // length % count
        else:
            raise RejectedRowError(Reason.FUNCTION, f"an INTERVAL DAY TO SECOND has no {unit}")
        return found if value >= 0 else -found
    moment = value * DAY_MS if kind is Kind.DATE else value
    if unit in _OF_DAY:
        length, count = _OF_DAY[unit]
        return moment // length % count
    if kind is Kind.TIME:
        raise RejectedRowError(Reason.FUNCTION, f"a TIME has no {unit}")
    return moment // 1_000 if unit == "EPOCH" else _of_date(unit, moment // DAY_MS)


def _of_date(unit: str, day: int) -> int:
    date = np.datetime64(day, "D")
    months = int(date.astype("datetime64[M]").astype(np.int64))
    year_start = int(date.astype("datetime64[Y]").astype("datetime64[D]").astype(np.int64))
    match unit:
        case "YEAR":
            return 1970 + months // 12
        case "QUARTER":
            return months % 12 // 3 + 1
        case "MONTH":
            return months % 12 + 1
        case "DAY":
            return day - int(date.astype("datetime64[M]").astype("datetime64[D]").astype(np.int64)) + 1
        case "DOW":
            return (day + 4) % 7 + 1
        case "DOY":
            return day - year_start + 1
        case "WEEK":
            thursday = np.datetime64(day - (day + 3) % 7 + 3, "D")
            first = int(thursday.astype("datetime64[Y]").astype("datetime64[D]").astype(np.int64))
            return (int(thursday.astype(np.int64)) - first) // 7 + 1
        case _:
            raise RejectedRowError(Reason.FUNCTION, f"EXTRACT does not know {unit}")


def _tsdiff_type(types: tuple[Type, ...]) -> Type:
    if len(types) == 2 and all(kind.kind is Kind.TIMESTAMP for kind in types):
        return BIGINT
    raise mismatch("TSDIFF", types)


FUNCTIONS = (
    _rounded(floor_to),
    _rounded(ceil_to),
    Function("STEP", _step_type, _step, _fast_step),
    Function("EXTRACT", _extract_type, _extract),
    Function(
        "TSDIFF",
        _tsdiff_type,
        lambda args, types, of: args[0] - args[1],
        lambda args, of: (args[0].values - args[1].values, None),
    ),
)
