"""Clocks of named zones: how far they are from UTC, when that changes, and when they first show a local time.

The rules of the zones are those of package tzdata, which is locked, and not those of the machine: a pipeline and
Spark give the same times.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from importlib.resources import files
from zoneinfo import ZoneInfo

import numpy as np
from numpy.typing import NDArray

from rowtide.rows.types import MAX_TIMESTAMP_MS, MIN_TIMESTAMP_MS

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_DAY_MS = 86_400_000
_STEP_MS = _DAY_MS
"""Clocks change at most once in so long a time."""
_BLOCK_MS = 400 * _STEP_MS
"""Changes are searched for blocks of 400 days."""
_LOW, _HIGH = MIN_TIMESTAMP_MS + 2 * _DAY_MS, MAX_TIMESTAMP_MS - 2 * _DAY_MS
"""Beyond these, a local time may be outside the calendar: the offset there is that of the nearest time within."""
FARTHEST_MS = 2 * _DAY_MS
"""Local times are nearer to UTC than this, also where a zone has changed sides of the date line."""


@dataclass(frozen=True, slots=True)
class ClockChange:
    """At ``at`` (ms, UTC) the clocks of a zone go from ``before`` to ``after`` ms ahead of UTC."""

    at: int
    before: int
    after: int


@lru_cache(maxsize=64)
def zone_of(name: str) -> ZoneInfo | None:
    """Return the zone of a name such as Europe/Berlin; None if tzdata does not have it."""
    if not name or name.startswith((".", "/")) or ".." in name:
        return None
    path = files("tzdata").joinpath("zoneinfo", *name.split("/"))
    if not path.is_file() or name not in zone_names():
        return None
    with path.open("rb") as file:
        return ZoneInfo.from_file(file, key=name)


@lru_cache(maxsize=1)
def zone_names() -> frozenset[str]:
    """Return the names of all zones."""
    return frozenset(files("tzdata").joinpath("zones").read_text(encoding="utf-8").split())


def clock_changes(zone: str, low: int, high: int) -> list[ClockChange]:
    """Return the changes of a zone's clocks from ``low`` to ``high`` (ms, UTC, both included)."""
    blocks = range(_block(low - 1), _block(high) + 1)
    return [each for block in blocks for each in _changes_of(zone, block) if low <= each.at <= high]


def local_times(zone: str, utc: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return what the clocks of a zone show at times of UTC (ms)."""
    local = utc.copy()
    blocks = np.clip(utc, _LOW, _HIGH) // _BLOCK_MS
    for block in np.unique(blocks).tolist():
        changes = _changes_of(zone, block)
        offsets = np.array(
            [_offset(zone, block * _BLOCK_MS), *(each.after for each in changes)], dtype=np.int64
        )
        within = blocks == block
        local[within] += offsets[np.searchsorted([each.at for each in changes], utc[within], side="right")]
    return local


@lru_cache(maxsize=4_096)
def first_showing(zone: str, local: int) -> int:
    """Return the first time of UTC (ms) at which the clocks of a zone show a local time or a later one.

    Later ones than this may come before it again: clocks go back.
    """
    begin = local - FARTHEST_MS
    changes = clock_changes(zone, begin + 1, local + FARTHEST_MS)
    offset = _offset(zone, begin)
    for change in changes:
        if local - offset < change.at:
            break
        begin, offset = change.at, change.after
    return max(begin, local - offset)


def _block(utc: int) -> int:
    return min(max(utc, _LOW), _HIGH) // _BLOCK_MS


@lru_cache(maxsize=8_192)
def _changes_of(zone: str, block: int) -> tuple[ClockChange, ...]:
    """Return the changes in a block: later than its first millisecond, up to the first one of the next."""
    found = []
    begin = block * _BLOCK_MS
    before = _offset(zone, begin)
    for at in range(begin, begin + _BLOCK_MS, _STEP_MS):
        after = _offset(zone, at + _STEP_MS)
        if after != before:
            found.append(ClockChange(_moment(zone, at, at + _STEP_MS, before), before, after))
            before = after
    return tuple(found)


def _moment(zone: str, low: int, high: int, before: int) -> int:
    """Return the first millisecond after ``low``, up to ``high``, whose offset is not ``before``."""
    while high - low > 1:
        middle = (low + high) // 2
        if _offset(zone, middle) == before:
            low = middle
        else:
            high = middle
    return high


def _offset(zone: str, utc: int) -> int:
    """Return how much later than UTC the clocks of a zone are at a time of UTC, in ms."""
    found = zone_of(zone)
    if found is None:
        raise ValueError(f"time zone {zone!r} does not exist")
    at = _EPOCH + timedelta(milliseconds=min(max(utc, _LOW), _HIGH))
    offset = at.astimezone(found).utcoffset()
    return 0 if offset is None else offset // timedelta(milliseconds=1)
