"""Rowtimes as text for people."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def time_text(millis: int) -> str:
    """Give a rowtime (ms, UTC) as date and time; as milliseconds where the calendar has no such year."""
    try:
        return (_EPOCH + timedelta(milliseconds=millis)).isoformat(" ", "milliseconds")[:23]
    except OverflowError:
        return f"{millis} ms"
