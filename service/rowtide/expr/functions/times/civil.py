"""The proleptic Gregorian calendar, for one day and for columns of days.

Days count from 1970-01-01, months from January 1970. The arithmetic on single days works for any
year, also beyond the range of ``datetime.date``.
"""

from __future__ import annotations

from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from rowtide.rows.types import DATE, INSTANT, INTERVAL_DAY, INTERVAL_MONTH, TIME, TIMESTAMP, Type

Days = TypeVar("Days", int, NDArray[np.int64])
"""A day, or a column of days."""
DAY_MS = 86_400_000
MIN_DAY, MAX_DAY = -719_162, 2_932_896
"""0001-01-01 and 9999-12-31: the range that SQL, databases and ``datetime`` share."""

RANGES: dict[Type, tuple[int, int]] = {
    TIMESTAMP: (MIN_DAY * DAY_MS, MAX_DAY * DAY_MS + DAY_MS - 1),
    INSTANT: (MIN_DAY * DAY_MS, MAX_DAY * DAY_MS + DAY_MS - 1),
    DATE: (MIN_DAY, MAX_DAY),
    TIME: (0, DAY_MS - 1),
    INTERVAL_DAY: (-(2**63), 2**63 - 1),
    INTERVAL_MONTH: (-(2**63), 2**63 - 1),
}
"""The range of results of each type; a result out of it rejects the row with OVERFLOW."""

MAX_MONTHS = 12 * 20_000
"""Adding more months than this to any day leaves the calendar."""


def civil(day: int) -> tuple[int, int, int]:
    """Return year, month and day of the month of a day."""
    shifted = day + 719_468
    era, of_era = divmod(shifted, 146_097)
    year_of_era = (of_era - of_era // 1_460 + of_era // 36_524 - of_era // 146_096) // 365
    of_year = of_era - (365 * year_of_era + year_of_era // 4 - year_of_era // 100)
    shifted_month = (5 * of_year + 2) // 153
    month = shifted_month + 3 if shifted_month < 10 else shifted_month - 9
    return year_of_era + era * 400 + (month <= 2), month, of_year - (153 * shifted_month + 2) // 5 + 1


def day_of(year: int, month: int, day: int) -> int:
    """Return the day of a date that is known to exist."""
    year -= month <= 2
    era, year_of_era = divmod(year, 400)
    of_year = (153 * (month - 3 if month > 2 else month + 9) + 2) // 5 + day - 1
    return era * 146_097 + year_of_era * 365 + year_of_era // 4 - year_of_era // 100 + of_year - 719_468


def weekday(day: Days, *, from_sunday: bool = False) -> Days:
    """Return the day of the week, 1 to 7 from Monday (ISO 8601) or Sunday, of a day or of days."""
    return (day + (4 if from_sunday else 3)) % 7 + 1


def thursday(day: Days) -> Days:
    """Return the Thursday of the ISO week of a day or of days: that week is of the year that it is in."""
    return day - weekday(day) + 4


def month_start(month: int) -> int:
    """Return the first day of a month counted from January 1970."""
    return day_of(1970 + month // 12, month % 12 + 1, 1)


def months_later(day: int, months: int) -> int:
    """Return the same day of the month so many months later, or the last one if that month is shorter."""
    year, month, of_month = civil(day)
    target = (year - 1970) * 12 + month - 1 + months
    start = month_start(target)
    return min(start + of_month - 1, month_start(target + 1) - 1)


def months_of(days: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the months, from January 1970, that days are in."""
    return days.astype("datetime64[D]").astype("datetime64[M]").astype(np.int64)


def month_starts(months: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the first days of months."""
    return months.astype("datetime64[M]").astype("datetime64[D]").astype(np.int64)


def days_months_later(days: Any, months: Any) -> Any:
    """Return ``months_later`` for columns; at most ``MAX_MONTHS`` either way."""
    month = months_of(days)
    start = month_starts(month + months)
    return np.minimum(start + (days - month_starts(month)), month_starts(month + months + 1) - 1)
