"""What several answers have: the place of the commit that they are of, and how times are written."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from rowtide.web.status import PipelineStatus

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


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


def rfc3339(millis: int | None) -> str | None:
    """Return a time (ms since 1970, UTC) as RFC 3339 has it; None if there is none, or none that it can write."""
    if millis is None:
        return None
    try:
        at = _EPOCH + timedelta(milliseconds=millis)
    except OverflowError:
        return None
    return f"{at.isoformat(timespec='milliseconds')[:-6]}Z"
