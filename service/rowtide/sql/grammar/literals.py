"""Constants of the text in row form: DATE, TIME, TIMESTAMP with and without time zone, and INTERVAL.

Digits below a millisecond are refused, not cut. The functions raise
ValueError with a message fragment; the caller adds the place.
"""

from __future__ import annotations

import re
from datetime import date
from decimal import Decimal

from rowtide.rows.types import MAX_TIMESTAMP_MS, MIN_TIMESTAMP_MS

MS = {"SECOND": 1_000, "MINUTE": 60_000, "HOUR": 3_600_000, "DAY": 86_400_000}
"""Milliseconds of the units of a day-time interval."""
MONTHS = {"MONTH": 1, "YEAR": 12}
"""Months of the units of a year-month interval."""

_DAY_TIME = ("DAY", "HOUR", "MINUTE", "SECOND")
_YEAR_MONTH = ("YEAR", "MONTH")
_LIMIT = {"HOUR": 24, "MINUTE": 60, "SECOND": 60, "MONTH": 12}
_EPOCH = date(1970, 1, 1).toordinal()
_MAX_INT64 = 2**63 - 1

_IN_WORDS = {
    **dict.fromkeys(("ms", "msec", "msecs", "millisecond", "milliseconds"), ("DAY", 1)),
    **dict.fromkeys(("s", "sec", "secs", "second", "seconds"), ("DAY", MS["SECOND"])),
    **dict.fromkeys(("m", "min", "mins", "minute", "minutes"), ("DAY", MS["MINUTE"])),
    **dict.fromkeys(("h", "hr", "hrs", "hour", "hours"), ("DAY", MS["HOUR"])),
    **dict.fromkeys(("d", "day", "days"), ("DAY", MS["DAY"])),
    **dict.fromkeys(("w", "week", "weeks"), ("DAY", 7 * MS["DAY"])),
    **dict.fromkeys(("mon", "mons", "month", "months"), ("MONTH", MONTHS["MONTH"])),
    **dict.fromkeys(("quarter", "quarters"), ("MONTH", 3)),
    **dict.fromkeys(("y", "yr", "yrs", "year", "years"), ("MONTH", MONTHS["YEAR"])),
}
"""Names of units inside an interval in PostgreSQL: the family and the length in ms or months."""
_PART_IN_WORDS = re.compile(
    r"\s*(?:([+-]?)\s*(\d+):(\d\d)(?::(\d\d)(?:\.(\d+))?)?|([+-]?\d+(?:\.\d+)?)\s*([a-z]+))(?=[\s+-]|\d|$)"
)
_DATE = re.compile(r"(\d{4})-(\d{1,2})-(\d{1,2})")
_TIME = re.compile(r"(\d{1,2}):(\d{2}):(\d{2})(?:\.(\d+))?")
_OFFSET = re.compile(r"(.*:\d\d(?:\.\d+)?)\s*(?:[Zz]|([+-])(\d{2})(?::?(\d{2}))?)")
_SEPARATORS = {("DAY", "HOUR"): " ", ("YEAR", "MONTH"): "-"}


def date_days(text: str) -> int:
    """Read ``YYYY-MM-DD`` as days since the epoch.

    Raises:
      ValueError: the date is invalid.
    """
    match = _DATE.fullmatch(text.strip())
    if match is None:
        raise ValueError(f"'{text}' is not a date of the form YYYY-MM-DD")
    year, month, day = (int(part) for part in match.groups())
    try:
        return date(year, month, day).toordinal() - _EPOCH
    except ValueError as error:
        raise ValueError(f"'{text}' is not a day of the calendar") from error


def time_ms(text: str) -> int:
    """Read ``HH:MM:SS[.mmm]`` as milliseconds of the day.

    Raises:
      ValueError: the time is invalid.
    """
    match = _TIME.fullmatch(text.strip())
    if match is None:
        raise ValueError(f"'{text}' is not a time of the form HH:MM:SS[.mmm]")
    hour, minute, second = (int(part) for part in match.groups()[:3])
    if hour > 23 or minute > 59 or second > 59:
        raise ValueError(f"'{text}' is not a time of day")
    return hour * MS["HOUR"] + minute * MS["MINUTE"] + second * MS["SECOND"] + _millis(match.group(4))


def timestamp_ms(text: str) -> int:
    """Read ``YYYY-MM-DD HH:MM:SS[.mmm]`` (UTC) as milliseconds since the epoch.

    Raises:
      ValueError: the timestamp is invalid.
    """
    day, blank, time = text.strip().partition(" ")
    if not blank or not _DATE.fullmatch(day) or not _TIME.fullmatch(time.strip()):
        raise ValueError(f"'{text}' is not a timestamp of the form YYYY-MM-DD HH:MM:SS[.mmm]")
    return date_days(day) * MS["DAY"] + time_ms(time)


def instant_ms(text: str) -> int:
    """Read ``YYYY-MM-DD HH:MM:SS[.mmm][+HH:MM]``, in UTC without an offset, as milliseconds since the epoch.

    Raises:
      ValueError: the timestamp is invalid.
    """
    body, offset = _without_offset(text.strip().replace("T", " ", 1))
    day, _, time = body.partition(" ")
    if not _DATE.fullmatch(day) or not _TIME.fullmatch(time.strip()):
        raise ValueError(f"'{text}' is not a timestamp of the form YYYY-MM-DD HH:MM:SS[.mmm][+HH:MM]")
    found_ms = timestamp_ms(body) - offset
    if not MIN_TIMESTAMP_MS <= found_ms <= MAX_TIMESTAMP_MS:
        raise ValueError(f"'{text}' is not within the years 1 to 9999")
    return found_ms


def has_offset(text: str) -> bool:
    """Return whether the text of a timestamp ends with an offset or Z."""
    return _OFFSET.fullmatch(text.strip()) is not None


def _without_offset(text: str) -> tuple[str, int]:
    """Return a timestamp without its offset, and the offset in milliseconds, 0 without one.

    Raises:
      ValueError: no zone has such an offset.
    """
    found = _OFFSET.fullmatch(text)
    if found is None:
        return text, 0
    hours, minutes = int(found[3] or 0), int(found[4] or 0)
    if hours > 23 or minutes > 59:
        raise ValueError(f"'{text}' has an offset that no zone has")
    return found[1], (hours * MS["HOUR"] + minutes * MS["MINUTE"]) * (-1 if found[2] == "-" else 1)


def interval(text: str, unit: str, to: str | None = None) -> int:
    """Read the quoted part of an interval: milliseconds for day to second, months for year to month.

    Raises:
      ValueError: the units cannot be combined, or the text does not fit them.
    """
    units = _units(unit, to)
    body = text.strip()
    sign = -1 if body.startswith("-") else 1
    body = body.removeprefix("-" if sign < 0 else "+").strip()
    pattern = ""
    for index, each in enumerate(units):
        if index:
            pattern += re.escape(_SEPARATORS.get((units[index - 1], each), ":"))
        pattern += r"(\d+)"
    if units[-1] == "SECOND":
        pattern += r"(?:\.(\d+))?"
    match = re.fullmatch(pattern, body)
    shown = unit if to is None else f"{unit} TO {to}"
    if match is None:
        raise ValueError(f"'{text}' is not an interval of {shown}")
    scale = MS if unit in MS else MONTHS
    total = 0
    for index, each in enumerate(units):
        count = int(match.group(index + 1))
        if index and count >= _LIMIT[each]:
            raise ValueError(f"'{text}' is not an interval of {shown}: {count} {each.lower()}s are too many")
        total += count * scale[each]
    if units[-1] == "SECOND":
        total += _millis(match.group(len(units) + 1))
    if total > _MAX_INT64:
        raise ValueError(f"'{text}' is too long an interval")
    return sign * total


def interval_in_words(text: str) -> tuple[int, str, int | None]:
    """Read an interval that names its units, such as ``2 hours 30 minutes`` or ``1 day 02:30:00``.

    Return its length, DAY for milliseconds or MONTH for months, and its unit if it has only one.

    Raises:
      ValueError: the text is not an interval, or has both months and days.
    """
    body = text.strip().lower()
    back = body.endswith(" ago")
    body = body.removesuffix(" ago").rstrip()
    totals: dict[str, Decimal] = {}
    units: set[int | None] = set()
    at = 0
    while at < len(body):
        part = _PART_IN_WORDS.match(body, at)
        if part is None:
            raise ValueError(f"'{text}' is not an interval")
        sign, hours, minutes, seconds, fraction, count, word = part.groups()
        if word is None:
            if int(minutes) > 59 or int(seconds or 0) > 59:
                raise ValueError(f"'{text}' is not an interval")
            family, unit = "DAY", None
            length = int(hours) * MS["HOUR"] + int(minutes) * MS["MINUTE"] + int(seconds or 0) * MS["SECOND"]
            amount = Decimal(length + _millis(fraction)) * (-1 if sign == "-" else 1)
        elif word not in _IN_WORDS:
            raise ValueError(f"'{text}' is not an interval: unit \"{word}\" does not exist")
        else:
            family, size = _IN_WORDS[word]
            amount, unit = Decimal(count) * size, size
        totals[family] = totals.get(family, Decimal(0)) + amount
        units.add(unit)
        at = part.end()
    if len(totals) > 1:
        raise ValueError(f"'{text}' has months and days: add two intervals, months + days")
    if not totals:
        raise ValueError(f"'{text}' is not an interval")
    ((family, total),) = totals.items()
    if total != total.to_integral_value():
        raise ValueError(f"'{text}' is finer than a {'millisecond' if family == 'DAY' else 'month'}")
    if abs(total) > _MAX_INT64:
        raise ValueError(f"'{text}' is too long an interval")
    only = units.pop() if len(units) == 1 else None
    return -int(total) if back else int(total), family, only


def is_range(unit: str, to: str) -> bool:
    """Return whether intervals from ``unit`` to ``to`` exist, for example DAY TO SECOND."""
    return any(
        unit in family and to in family and family.index(unit) < family.index(to)
        for family in (_DAY_TIME, _YEAR_MONTH)
    )


def interval_text_ms(text: str) -> int:
    """Parse an interval of an option, for example ``1 DAY`` or ``30 SECOND``, to milliseconds.

    Raises:
      ValueError: it is not an interval of days, hours, minutes or seconds, or is not positive.
    """
    count, blank, unit = text.strip().partition(" ")
    word = unit.strip().upper().removesuffix("S")
    if not blank or word not in MS:
        raise ValueError(f"'{text}' is not an interval such as '1 DAY' or '30 SECOND'")
    length = interval(count, word)
    if length <= 0:
        raise ValueError(f"'{text}' is not above zero")
    return length


def _units(unit: str, to: str | None) -> tuple[str, ...]:
    """Return the fields of an interval from ``unit`` to ``to``."""
    family = _DAY_TIME if unit in _DAY_TIME else _YEAR_MONTH
    if to is None:
        return (unit,)
    if not is_range(unit, to):
        raise ValueError(f"invalid interval unit: {unit} TO {to}")
    return family[family.index(unit) : family.index(to) + 1]


def _millis(fraction: str | None) -> int:
    """Read the digits after the point of a second."""
    digits = fraction or ""
    if digits[3:].strip("0"):
        raise ValueError(f"'.{digits}' is finer than a millisecond")
    return int(digits[:3].ljust(3, "0"))
