"""Times in scenarios: text to milliseconds since the epoch, UTC, and back."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import date, timedelta

EPOCH = date(1970, 1, 1)
DAY_MS = 86_400_000

_TIME = re.compile(r"(\d{1,2}):(\d{2}):(\d{2})(?:\.(\d{1,3}))?")
_DATE = re.compile(r"(\d{4})-(\d{2})-(\d{2})")
_TIMESTAMP = re.compile(r"(\d{4}-\d{2}-\d{2})[ T](\S+?)(?:Z|([+-])([01]\d|2[0-3]):([0-5]\d))?")
_MILLIS = re.compile(r"[+-]?\d+")
_DURATION_PART = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|s|min|m|h|d)")
_UNIT_MS = {"ms": 1, "s": 1000, "min": 60_000, "m": 60_000, "h": 3_600_000, "d": DAY_MS}


def parse_date(text: str) -> int:
    """Return the days since the epoch of ``YYYY-MM-DD``.

    Raises:
      ValueError: it is not such a date.
    """
    match = _DATE.fullmatch(text.strip())
    if match is None:
        raise ValueError(f'"{text}" is not a date of the form YYYY-MM-DD')
    year, month, day = (int(part) for part in match.groups())
    try:
        return (date(year, month, day) - EPOCH).days
    except ValueError as error:
        raise ValueError(f'"{text}" is not a date: {error}') from error


def parse_time_of_day(text: str) -> int:
    """Return the milliseconds of the day of ``HH:MM:SS[.mmm]``.

    Raises:
      ValueError: it is not such a time.
    """
    match = _TIME.fullmatch(text.strip())
    if match is None:
        raise ValueError(f'"{text}" is not a time of the form HH:MM:SS[.mmm]')
    hours, minutes, seconds = (int(part) for part in match.groups()[:3])
    if hours > 23 or minutes > 59 or seconds > 59:
        raise ValueError(f'"{text}" is not a time of day')
    millis = int((match.group(4) or "0").ljust(3, "0"))
    return ((hours * 60 + minutes) * 60 + seconds) * 1000 + millis


def parse_duration(text: str) -> int:
    """Return the milliseconds of a duration, for example ``5s``, ``1m 30s``, ``250ms``, ``2h``, ``1d``.

    Raises:
      ValueError: it is not such a duration.
    """
    rest = text.strip()
    total = 0.0
    position = 0
    for match in _DURATION_PART.finditer(rest):
        if rest[position : match.start()].strip():
            break
        total += float(match.group(1)) * _UNIT_MS[match.group(2)]
        position = match.end()
    if position == 0 or rest[position:].strip():
        raise ValueError(f'"{text}" is not a duration such as 5s, 1m 30s, 250ms, 2h')
    return round(total)


def format_time_of_day(millis: int) -> str:
    """Return ``HH:MM:SS``, with ``.mmm`` if the milliseconds are not zero."""
    seconds, rest = divmod(millis, 1000)
    text = f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"
    return f"{text}.{rest:03}" if rest else text


def format_timestamp(millis: int) -> str:
    """Return ``YYYY-MM-DD HH:MM:SS[.mmm]``, or the number itself outside the years of the calendar."""
    days, rest = divmod(millis, DAY_MS)
    try:
        day = EPOCH + timedelta(days=days)
    except OverflowError:
        return str(millis)
    return f"{day.isoformat()} {format_time_of_day(rest)}"


@dataclass(frozen=True, slots=True)
class ScenarioDay:
    """The day of the times of day in one scenario. ``start`` is its 00:00, in ms since the epoch."""

    start: int = 0

    def parse(self, text: str) -> int:
        """Return the milliseconds since the epoch of a time of day, a date with time, or a whole number.

        A date with time is in UTC, unless it ends with an offset such as +02:00.

        Raises:
          ValueError: the text is none of these.
        """
        stripped = text.strip()
        if _MILLIS.fullmatch(stripped):
            return int(stripped)
        match = _TIMESTAMP.fullmatch(stripped)
        if match is not None:
            day, time, sign, hours, minutes = match.groups()
            offset = (int(hours) * 60 + int(minutes)) * 60_000 if sign else 0
            return parse_date(day) * DAY_MS + parse_time_of_day(time) + (offset if sign == "-" else -offset)
        if _DATE.fullmatch(stripped):
            return parse_date(stripped) * DAY_MS
        if _TIME.fullmatch(stripped):
            return self.start + parse_time_of_day(stripped)
        raise ValueError(
            f'"{text}" is not a time: HH:MM:SS[.mmm], YYYY-MM-DD HH:MM:SS[.mmm] or milliseconds since the epoch'
        )

    def format(self, millis: int) -> str:
        """Return a time of this day as time of day, any other with its date."""
        if 0 <= millis - self.start < DAY_MS:
            return format_time_of_day(millis - self.start)
        return format_timestamp(millis)
