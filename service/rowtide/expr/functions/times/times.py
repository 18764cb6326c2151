"""Parts of times, times between them and rounding of times: EXTRACT, FLOOR_TO, CEIL_TO, STEP, TSDIFF, AGE.

See docs/sql/semantics.md#alignment-of-periods.

| name                         | SQL                          | gives                              |
|------------------------------|------------------------------|------------------------------------|
| EXTRACT(unit, time)          | EXTRACT(unit FROM time)      | BIGINT                             |
| FLOOR_TO(time, unit), CEIL_TO | FLOOR(time TO unit)         | the type of time; a TIME goes round |
| STEP(time, step [, offset])  | STEP(time BY step)           | TIMESTAMP, aligned to 1970-01-01 + offset |
| TSDIFF(start, end)           | the same                     | BIGINT, ms from start to end       |
| AGE MONTHS(x, y), AGE REST(x, y) | parts of AGE(x, y)       | the whole months, and what is left of days to seconds |

Units are constants of text. Weeks begin on Monday and WEEK is the week of the
year by ISO 8601; DOW is 1 for Sunday to 7 for Saturday; EPOCH is in seconds,
MILLISECOND the part of the second. A DATE is the midnight that it begins with.
The parts of an INTERVAL have its sign.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from rowtide.expr.evaluation import ColumnKernel, RowKernel
from rowtide.expr.functions.function import CallSignature, ScalarFunction, mismatch, strict
from rowtide.expr.functions.numbers import exact
from rowtide.expr.functions.rejections import overflow, undefined
from rowtide.expr.functions.times import civil
from rowtide.rows.arrays import Mask
from rowtide.rows.types import BIGINT, DATE, INTERVAL_DAY, INTERVAL_MONTH, TIME, TIMESTAMP, Type
from rowtide.rowtime.period import CalendarUnit, Period, PeriodEdge, ceil_to, floor_to

_OF_DAY = {"HOUR": (3_600_000, 24), "MINUTE": (60_000, 60), "SECOND": (1_000, 60), "MILLISECOND": (1, 1_000)}
_OF_DATE = (
    *("YEAR", "QUARTER", "MONTH", "WEEK", "DAY", "DOW", "DOY"),
    *("ISODOW", "ISOYEAR", "DECADE", "CENTURY"),
)
_OF_TIMESTAMP = (*_OF_DATE, *_OF_DAY, "EPOCH")
UNITS: dict[Type, Sequence[str]] = {
    TIMESTAMP: _OF_TIMESTAMP,
    DATE: _OF_TIMESTAMP,
    TIME: tuple(_OF_DAY),
    INTERVAL_DAY: ("DAY", *_OF_DAY, "EPOCH"),
    INTERVAL_MONTH: ("YEAR", "MONTH"),
}
"""The units that can be extracted from values of a type."""
ROUNDED_TO: dict[Type, Sequence[str]] = {
    TIMESTAMP: tuple(CalendarUnit.__members__),
    DATE: tuple(CalendarUnit.__members__),
    TIME: ("MILLISECOND", "SECOND", "MINUTE", "HOUR"),
}
"""The units that values of a type can be rounded to."""


# ------------------------------------------------------------------- EXTRACT


def _month_of_day(day: int) -> int:
    year, month, _ = civil.civil(day)
    return (year - 1970) * 12 + month - 1


_Calendar = tuple[Callable[[Any], Any], Callable[[Any], Any]]
_ONE: _Calendar = (_month_of_day, civil.month_start)
_MANY: _Calendar = (civil.months_of, civil.month_starts)


def _date_part(unit: str, day: Any, calendar: _Calendar) -> Any:
    """Return a part of a day, or of a column of days."""
    months_of, month_start = calendar
    if unit == "DOW":
        return civil.weekday(day, from_sunday=True)
    if unit == "ISODOW":
        return civil.weekday(day)
    thursday = civil.thursday(day)
    if unit == "ISOYEAR":
        return months_of(thursday) // 12 + 1970
    if unit == "WEEK":
        return (thursday - month_start(months_of(thursday) // 12 * 12)) // 7 + 1
    month = months_of(day)
    match unit:
        case "YEAR":
            return month // 12 + 1970
        case "DECADE":
            return (month // 12 + 1970) // 10
        case "CENTURY":
            return (month // 12 + 2069) // 100
        case "QUARTER":
            return month % 12 // 3 + 1
        case "MONTH":
            return month % 12 + 1
        case "DAY":
            return day - month_start(month) + 1
        case _:
            return day - month_start(month // 12 * 12) + 1


def _part(unit: str, kind: Type, value: Any, calendar: _Calendar) -> Any:
    """Return a part of a value that is not an interval, or of a column of them."""
    if unit in _OF_DAY:
        length, count = _OF_DAY[unit]
        return value * 0 if kind == DATE else value // length % count
    if unit == "EPOCH":
        return value * 86_400 if kind == DATE else value // 1_000
    return _date_part(unit, value if kind == DATE else value // civil.DAY_MS, calendar)


def _interval_part(unit: str, kind: Type, size: Any) -> Any:
    """Return a part of the size of an interval, or of a column of them."""
    if kind == INTERVAL_MONTH:
        return size // 12 if unit == "YEAR" else size % 12
    if unit == "DAY":
        return size // civil.DAY_MS
    if unit == "EPOCH":
        return size // 1_000
    length, count = _OF_DAY[unit]
    return size // length % count


def _extract() -> ScalarFunction:
    def resolve(args: Sequence[Type]) -> Type:
        if len(args) != 2 or not args[0].is_text or args[1] not in UNITS:
            raise mismatch("EXTRACT", args)
        return BIGINT

    def row(signature: CallSignature) -> RowKernel:
        kind = signature.args[1]
        is_interval = kind in (INTERVAL_DAY, INTERVAL_MONTH)

        def extract(unit: str, value: int) -> int:
            if unit not in UNITS[kind]:
                raise undefined("EXTRACT", (unit, value), f"{kind} has no {unit}")
            if not is_interval:
                found: int = _part(unit, kind, value, _ONE)
                return found
            part: int = _interval_part(unit, kind, abs(value))
            return part if value >= 0 else -part

        return extract

    def columnar(signature: CallSignature) -> ColumnKernel | None:
        unit, kind = signature.constants[0], signature.args[1]
        if not isinstance(unit, str) or unit not in UNITS[kind]:
            return None
        if kind not in (INTERVAL_DAY, INTERVAL_MONTH):
            return lambda units, values: (_part(unit, kind, exact.whole(values), _MANY), None)

        def extract(units: Any, values: Any) -> tuple[Any, Mask | None]:
            del units
            part = _interval_part(unit, kind, np.abs(values))
            return np.where(values < 0, -part, part), values == exact.INT64_MIN

        return extract

    return strict("EXTRACT", resolve, row, columnar)


# -------------------------------------------------------------- FLOOR and CEIL


def _rounded(name: str, round_to: Callable[[Any, Period], Any]) -> ScalarFunction:
    def resolve(args: Sequence[Type]) -> Type:
        if len(args) != 2 or args[0] not in (TIMESTAMP, DATE, TIME) or not args[1].is_text:
            raise mismatch(name, args)
        return args[0]

    def moved(kind: Type, unit: str, values: Any) -> Any:
        period = Period(PeriodEdge.FLOOR, CalendarUnit(unit))
        if kind == TIMESTAMP:
            return round_to(values, period)
        if kind == TIME:
            return round_to(values, period) % civil.DAY_MS
        return round_to(values * civil.DAY_MS, period) // civil.DAY_MS

    def row(signature: CallSignature) -> RowKernel:
        kind = signature.result
        low, high = civil.RANGES[kind]

        def round_one(value: int, unit: str) -> int:
            if unit not in ROUNDED_TO[kind]:
                raise undefined(name, (value, unit), f"{kind} has no {unit}")
            result = int(moved(kind, unit, np.array([value], dtype=np.int64))[0])
            if not low <= result <= high:
                raise overflow(name, (value, unit), kind)
            return result

        return round_one

    def columnar(signature: CallSignature) -> ColumnKernel | None:
        unit, kind = signature.constants[1], signature.result
        low, high = civil.RANGES[kind]
        if not isinstance(unit, str) or unit not in ROUNDED_TO[kind]:
            return None

        def round_all(values: Any, units: Any) -> tuple[Any, Mask | None]:
            del units
            return exact.within(moved(kind, unit, exact.whole(values)), low, high, kind.dtype)

        return round_all

    return strict(name, resolve, row, columnar)


# -------------------------------------------------------------- STEP, TSDIFF


def _step() -> ScalarFunction:
    def resolve(args: Sequence[Type]) -> Type:
        if len(args) not in (2, 3) or args[0] not in (TIMESTAMP, DATE):
            raise mismatch("STEP", args)
        if any(arg != INTERVAL_DAY for arg in args[1:]):
            raise mismatch("STEP", args, hint="STEP goes by an INTERVAL of days to seconds.")
        return TIMESTAMP

    def operands(args: Sequence[Type], result: Type) -> Sequence[Type]:
        return (result, *args[1:])

    low, high = civil.RANGES[TIMESTAMP]

    def row(value: int, step: int, offset: int = 0) -> int:
        if step <= 0:
            raise undefined("STEP", (value, step, offset), "the step is not above zero")
        result = value - (value - offset) % step
        if result < low:
            raise overflow("STEP", (value, step, offset), TIMESTAMP)
        return result

    def step_all(values: Any, steps: Any, offsets: Any = None) -> tuple[Any, Mask | None]:
        wrong = steps <= 0
        if wrong.any():
            steps = np.where(wrong, 1, steps)
        rest = (values if offsets is None else exact.subtract(values, offsets)) % steps
        result, outside = exact.within(exact.subtract(values, rest), low, high, np.dtype(np.int64))
        return result, exact.either(wrong, outside)

    return strict("STEP", resolve, lambda signature: row, lambda signature: step_all, operands)


def _tsdiff() -> ScalarFunction:
    def resolve(args: Sequence[Type]) -> Type:
        if len(args) != 2 or any(arg not in (TIMESTAMP, DATE) for arg in args):
            raise mismatch("TSDIFF", args)
        return BIGINT

    def operands(args: Sequence[Type], result: Type) -> Sequence[Type]:
        del result
        return [TIMESTAMP] * len(args)

    def row(signature: CallSignature) -> RowKernel:
        kind = signature.result

        def difference(start: int, end: int) -> int:
            if not exact.INT64_MIN <= end - start <= exact.INT64_MAX:
                raise overflow("TSDIFF", (start, end), kind)
            return end - start

        return difference

    def columnar(signature: CallSignature) -> ColumnKernel:
        kind = signature.result
        return lambda start, end: exact.settled(exact.subtract(end, start), kind)

    return strict("TSDIFF", resolve, row, columnar, operands)


def _months_between() -> ScalarFunction:
    """Declare the month count of TIMESTAMPDIFF: the most whole months that do not pass the end."""
    name = "TSDIFF MONTHS"

    def resolve(args: Sequence[Type]) -> Type:
        if len(args) != 2 or any(arg not in (TIMESTAMP, DATE) for arg in args):
            raise mismatch("TIMESTAMPDIFF", args)
        return BIGINT

    def operands(args: Sequence[Type], result: Type) -> Sequence[Type]:
        del result
        return [TIMESTAMP] * len(args)

    def row(start: int, end: int) -> int:
        day, rest = divmod(start, civil.DAY_MS)
        months = _month_of_day(end // civil.DAY_MS) - _month_of_day(day)
        reached = civil.months_later(day, months) * civil.DAY_MS + rest
        return months - (months > 0 and reached > end) + (months < 0 and reached < end)

    def columns(start: Any, end: Any) -> tuple[Any, Mask | None]:
        start, end = np.broadcast_arrays(exact.whole(start), exact.whole(end))
        day = start // civil.DAY_MS
        months = civil.months_of(end // civil.DAY_MS) - civil.months_of(day)
        reached = civil.days_months_later(day, months) * civil.DAY_MS + start % civil.DAY_MS
        beyond = ((months > 0) & (reached > end)).astype(np.int64)
        return months - beyond + ((months < 0) & (reached < end)), None

    return strict(name, resolve, lambda signature: row, lambda signature: columns, operands)


def _age_parts(later: Any, earlier: Any, calendar: _Calendar) -> tuple[Any, Any]:
    """Return the whole months and the rest (ms) from one time or column to another that is not before it.

    As in PostgreSQL: days of the month and times of the day are subtracted; where that is below zero, a month
    as long as that of the earlier time is borrowed.
    """
    months_of, month_start = calendar
    first, last = months_of(earlier // civil.DAY_MS), months_of(later // civil.DAY_MS)
    start = month_start(first)
    rest = (later - month_start(last) * civil.DAY_MS) - (earlier - start * civil.DAY_MS)
    borrowed = rest < 0
    return last - first - borrowed, rest + borrowed * (month_start(first + 1) - start) * civil.DAY_MS


def _age(name: str, result: Type, part: int) -> ScalarFunction:
    """Declare a part of AGE(x, y), which no interval holds whole: 0 its months, 1 the rest."""

    def resolve(args: Sequence[Type]) -> Type:
        if len(args) != 2 or any(arg not in (TIMESTAMP, DATE) for arg in args):
            raise mismatch("AGE", args)
        return result

    def operands(args: Sequence[Type], result: Type) -> Sequence[Type]:
        del result
        return [TIMESTAMP] * len(args)

    def row(left: int, right: int) -> int:
        found: int = _age_parts(max(left, right), min(left, right), _ONE)[part]
        return found if left >= right else -found

    def columns(left: Any, right: Any) -> tuple[Any, Mask | None]:
        left, right = np.broadcast_arrays(exact.whole(left), exact.whole(right))
        found = _age_parts(np.maximum(left, right), np.minimum(left, right), _MANY)[part]
        return np.where(left >= right, found, -found), None

    return strict(name, resolve, lambda signature: row, lambda signature: columns, operands)


def _last_day() -> ScalarFunction:
    def resolve(args: Sequence[Type]) -> Type:
        if len(args) != 1 or args[0] not in (TIMESTAMP, DATE):
            raise mismatch("LAST_DAY", args)
        return DATE

    def row(signature: CallSignature) -> RowKernel:
        length = 1 if signature.args[0] == DATE else civil.DAY_MS
        return lambda value: civil.month_start(_month_of_day(value // length) + 1) - 1

    def columnar(signature: CallSignature) -> ColumnKernel:
        length = 1 if signature.args[0] == DATE else civil.DAY_MS

        def last(values: Any) -> tuple[Any, Mask | None]:
            days = civil.month_starts(civil.months_of(exact.whole(values) // length) + 1) - 1
            return days.astype(DATE.dtype, copy=False), None

        return last

    return strict("LAST_DAY", resolve, row, columnar)


TIMES: Sequence[ScalarFunction] = (
    _months_between(),
    _age("AGE MONTHS", INTERVAL_MONTH, 0),
    _age("AGE REST", INTERVAL_DAY, 1),
    _last_day(),
    _extract(),
    _rounded("FLOOR_TO", floor_to),
    _rounded("CEIL_TO", ceil_to),
    _step(),
    _tsdiff(),
)
