"""What several answers have: the place of the commit that they are of, and how times are written."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from math import isfinite

from rowtide.runtime.query.contents import plain
from rowtide.web.status import PipelineStatus

_WIDE = "BIGINT"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class AnswerColumn:
    """A column of rows, and its SQL type."""

    name: str
    type: str


@dataclass(frozen=True, slots=True)
class At:
    """The commit that an answer is of; each field is null before the first."""

    epoch: int | None
    commit: int | None
    rowtime: str | None
    """The least rowtime bound of the partitions."""
    time: str | None


def at_of(now: PipelineStatus) -> At:
    """Return the last commit."""
    bounds = [each.bound for each in now.positions]
    known = [bound for bound in bounds if bound is not None]
    least = min(known) if known and len(known) == len(bounds) else None
    return At(now.epoch, now.commits, rfc3339(least), rfc3339(now.last_commit_ms))


def columns_of(names: Sequence[str], types: Sequence[str]) -> list[AnswerColumn]:
    """Return columns by their names and types."""
    return [AnswerColumn(name, of) for name, of in zip(names, types, strict=True)]


def values_of(rows: Sequence[Sequence[object]], columns: Sequence[AnswerColumn]) -> list[list[object]]:
    """Return rows as they are written.

    A BIGINT and a DECIMAL are text, which no reader of JSON rounds, and so are NaN and infinity, which it lacks.
    """
    wide = [column.type.startswith(_WIDE) for column in columns]
    return [
        [_written(plain(value), is_wide) for value, is_wide in zip(row, wide, strict=True)] for row in rows
    ]


def _written(value: object, is_wide: bool) -> object:
    if isinstance(value, list):
        return [_written(each, is_wide) for each in value]
    if isinstance(value, float) and not isfinite(value):
        return json.dumps(value)
    return str(value) if is_wide and value is not None else value


def rfc3339(millis: int | None) -> str | None:
    """Return a time (ms since 1970, UTC) as RFC 3339 has it; None if there is none, or none that it can write."""
    if millis is None:
        return None
    try:
        at = _EPOCH + timedelta(milliseconds=millis)
    except OverflowError:
        return None
    return f"{at.isoformat(timespec='milliseconds')[:-6]}Z"
