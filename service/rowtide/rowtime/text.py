"""Rowtimes as readable text."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def time_text(millis: int) -> str:
    """Return a rowtime (ms, UTC) as date and time, or as milliseconds outside the years of the calendar."""
    try:
        return (_EPOCH + timedelta(milliseconds=millis)).isoformat(" ", "milliseconds")[:23]
    except OverflowError:
        return f"{millis} ms"


def length_text(millis: int) -> str:
    """Return a length of time (ms, not negative) in common units, for example 13 min 25.296 s."""
    if millis < 1_000:
        return f"{millis} ms"
    seconds, rest = divmod(millis, 1_000)
    minutes, seconds = divmod(seconds, 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    parts = [f"{number} {unit}" for number, unit in ((days, "d"), (hours, "h"), (minutes, "min")) if number]
    if seconds or rest:
        parts.append(f"{seconds}{f'.{rest:03}' if rest else ''} s")
    return " ".join(parts)
