"""The column that orders changes: how far a read got, as text, and where the next one begins.

A transaction that commits late may write a smaller value than one that was already read. So a read begins
``lookback`` before the greatest value: seconds if it is a time, else a number of the column's own unit.
"""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from decimal import Decimal

import sqlalchemy as sa

from rowtide_connectors.errors import MismatchError

_NUMBER = re.compile(r"-?\d+(\.\d+)?")
_DAY_DIGITS = 10

ORDERED = (sa.DateTime, sa.Date, sa.Integer, sa.Numeric, sa.Float)
"""Types of columns that may order changes."""
ORDERED_IN_SQLITE = (*ORDERED, sa.String, sa.types.NullType)
"""SQLite has times as text, and columns without a type."""


def reached_of(value: object) -> str | None:
    """Return the stored form of the greatest value of the column."""
    return None if value is None else str(value)


def begin_after(column: str, reached: str, lookback: int, *, text: bool) -> object:
    """Return the least value that the next read must include.

    Args:
      column: the name of the column, for errors.
      reached: the greatest value of an earlier read.
      lookback: how far before it to begin.
      text: the database compares times as text.

    Raises:
      MismatchError: the value is neither a time nor a number.
    """
    if _NUMBER.fullmatch(reached):
        number = Decimal(reached) - lookback
        return int(number) if number == number.to_integral_value() else float(number)
    try:
        moment = datetime.fromisoformat(reached) - timedelta(seconds=lookback)
    except (ValueError, OverflowError):
        raise MismatchError(
            f'column "{column}" has the value "{reached}", which is neither a time nor a number',
            hint="Name a column with the time of the last change in changes_by, or remove changes_by: each "
            "poll then compares all rows.",
        ) from None
    if not text:
        return moment
    # Text of fewer digits sorts before all times of its second: rows that are read again do not matter.
    if len(reached) <= _DAY_DIGITS:
        return moment.date().isoformat()
    return moment.replace(tzinfo=None).isoformat(reached[_DAY_DIGITS], "seconds")
