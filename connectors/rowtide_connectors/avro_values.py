"""Values of Avro's logical types of time as a message has them, whether or not a calendar has such a time."""

from __future__ import annotations

from datetime import datetime, timedelta

_EPOCH = datetime(1970, 1, 1)
DAY_NS = 86_400_000_000_000


class AvroTimestamp:
    """A point in time: nanoseconds since 1970. A ``local`` one has no zone."""

    __slots__ = ("local", "nanoseconds")

    def __init__(self, nanoseconds: int, local: bool = False) -> None:
        self.nanoseconds = nanoseconds
        self.local = local

    def __str__(self) -> str:
        """Return it in ISO 8601; as its number, if the years 1 to 9999 do not have it."""
        micros, rest = divmod(self.nanoseconds, 1_000)
        try:
            moment = _EPOCH + timedelta(microseconds=micros)
        except OverflowError:
            return f"{self.nanoseconds} ns since 1970"
        text = moment.isoformat(timespec="microseconds") + f"{rest:03}" if rest else moment.isoformat()
        return text if self.local else text + "+00:00"


class AvroDate:
    """A day: the number of days since 1970-01-01."""

    __slots__ = ("days",)

    def __init__(self, days: int) -> None:
        self.days = days

    def __str__(self) -> str:
        """Return it in ISO 8601; as its number, if the years 1 to 9999 do not have it."""
        try:
            return (_EPOCH + timedelta(days=self.days)).date().isoformat()
        except OverflowError:
            return f"{self.days} days since 1970"


class AvroTime:
    """A time of day: nanoseconds since midnight."""

    __slots__ = ("nanoseconds",)

    def __init__(self, nanoseconds: int) -> None:
        self.nanoseconds = nanoseconds

    def __str__(self) -> str:
        """Return it in ISO 8601; as its number, if a day does not have it."""
        if not 0 <= self.nanoseconds < DAY_NS:
            return f"{self.nanoseconds} ns since midnight"
        return (_EPOCH + timedelta(microseconds=self.nanoseconds // 1_000)).time().isoformat()
