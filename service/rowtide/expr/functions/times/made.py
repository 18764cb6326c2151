"""Times made of their parts: MAKE_DATE(year, month, day), MAKE_TIME and MAKE_TIMESTAMP, as in PostgreSQL."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal

from rowtide.expr.functions.function import ScalarFunction, mismatch, strict
from rowtide.expr.functions.rejections import undefined
from rowtide.expr.functions.shapes import no_columns
from rowtide.expr.functions.times import civil
from rowtide.rows.types import DATE, INTEGER, TIME, TIMESTAMP, Type, decimal

_SECONDS = decimal(5, 3)
"""Seconds with milliseconds: more digits are rounded half away from zero."""


def _day(year: int, month: int, day: int) -> int | None:
    """Return a day of the years 1 to 9999; None if the calendar does not have it."""
    if not (1 <= year <= 9999 and 1 <= month <= 12 and day >= 1):
        return None
    found = civil.day_of(year, month, 1) + day - 1
    return found if civil.civil(found) == (year, month, day) else None


def _milliseconds(hour: int, minute: int, second: Decimal) -> int | None:
    """Return a time of day in ms; None if there is none."""
    if not (0 <= hour <= 23 and 0 <= minute <= 59 and 0 <= second < 60):
        return None
    return hour * 3_600_000 + minute * 60_000 + int(second * 1_000)


def _made(name: str, of: Type) -> ScalarFunction:
    has_day, has_time = of != TIME, of != DATE
    whole = (INTEGER,) * (3 * has_day + 2 * has_time)
    wanted = (*whole, _SECONDS) if has_time else whole

    def resolve(args: Sequence[Type]) -> Type:
        fits = len(args) == len(wanted) and all(arg.is_integer for arg in args[: len(whole)])
        if not fits or (has_time and not args[-1].is_numeric):
            raise mismatch(name, args)
        return of

    def operands(args: Sequence[Type], result: Type) -> Sequence[Type]:
        del args, result
        return wanted

    def row(*parts: int | Decimal) -> int:
        numbers = [part for part in parts[: len(whole)] if isinstance(part, int)]
        day = _day(*numbers[:3]) if has_day else 0
        if day is None:
            raise undefined(name, parts, "the calendar does not have this day")
        if not has_time:
            return day
        hour, minute = numbers[-2:]
        time = _milliseconds(hour, minute, Decimal(parts[-1]))
        if time is None:
            raise undefined(name, parts, "the day does not have this time")
        return day * civil.DAY_MS + time

    return strict(name, resolve, lambda signature: row, no_columns, operands)


MADE: Sequence[ScalarFunction] = (
    _made("MAKE_DATE", DATE),
    _made("MAKE_TIME", TIME),
    _made("MAKE_TIMESTAMP", TIMESTAMP),
)
