"""Local times of named zones: FROM_UTC_TIMESTAMP(x, zone), which is AT TIME ZONE, TO_UTC_TIMESTAMP and FROM_TZ.

A local time that a clock skips is read with the offset before the change. One that it shows twice is the first
for TO_UTC_TIMESTAMP, as in Spark, and for FROM_TZ the second, which is standard time, as in PostgreSQL.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np

from rowtide.expr.evaluation import ColumnKernel
from rowtide.expr.functions.function import CallSignature, ScalarFunction, mismatch, strict
from rowtide.expr.functions.numbers import exact
from rowtide.expr.functions.rejections import overflow, undefined
from rowtide.expr.functions.times import civil
from rowtide.rows.arrays import Mask
from rowtide.rows.types import DATE, INSTANT, TIMESTAMP, Type
from rowtide.rowtime.zones import zone_of

FROM_UTC, TO_UTC, FROM_TZ = "FROM_UTC_TIMESTAMP", "TO_UTC_TIMESTAMP", "FROM_TZ"
_EPOCH = datetime(1970, 1, 1)
_QUARTER_MS = 900_000
"""Within a quarter of an hour the offset of a zone changes at most once."""
_LOW, _HIGH = civil.RANGES[TIMESTAMP]


def _offset_from(zone: ZoneInfo, utc: int) -> int:
    """Return how much later than UTC the clocks of a zone are at a time of UTC, in ms."""
    at = (_EPOCH + timedelta(milliseconds=utc)).replace(tzinfo=UTC)
    return _milliseconds(at.astimezone(zone).utcoffset())


def _offset_to(zone: ZoneInfo, local: int) -> int:
    """Return how much later than UTC the clocks of a zone are when they show a local time, in ms."""
    return _milliseconds((_EPOCH + timedelta(milliseconds=local)).replace(tzinfo=zone).utcoffset())


def _standard_offset_to(zone: ZoneInfo, local: int) -> int:
    """Return the same, where clocks show a local time twice for the second time.

    The offset before a skipped time, and the one after a change back, is the smaller one of the two.
    """
    at = (_EPOCH + timedelta(milliseconds=local)).replace(tzinfo=zone)
    return min(_milliseconds(at.replace(fold=fold).utcoffset()) for fold in (0, 1))


def _milliseconds(offset: timedelta | None) -> int:
    return 0 if offset is None else offset // timedelta(milliseconds=1)


def _zoned(
    name: str,
    sign: int,
    offset_of: Callable[[ZoneInfo, int], int],
    takes: Sequence[Type] = (TIMESTAMP, DATE),
    gives: Type = TIMESTAMP,
) -> ScalarFunction:
    def resolve(args: Sequence[Type]) -> Type:
        if len(args) != 2 or args[0] not in takes or not args[1].is_text:
            raise mismatch(name, args, hint="It takes a TIMESTAMP and the name of a zone: 'Europe/Berlin'.")
        return gives

    def operands(args: Sequence[Type], result: Type) -> Sequence[Type]:
        del result
        return (TIMESTAMP, args[1])

    def row(value: int, zone_name: str) -> int:
        zone = zone_of(zone_name)
        if zone is None:
            raise undefined(name, (value, zone_name), "the time zone does not exist")
        try:
            found = value + sign * offset_of(zone, value)
        except OverflowError:
            raise overflow(name, (value, zone_name), gives) from None
        if not _LOW <= found <= _HIGH:
            raise overflow(name, (value, zone_name), gives)
        return found

    def kernel(signature: CallSignature) -> ColumnKernel | None:
        zone = zone_of(str(signature.constants[1])) if isinstance(signature.constants[1], str) else None
        if zone is None:
            return None

        def moved(values: Any, names: Any) -> tuple[Any, Mask | None]:
            del names
            values = exact.whole(values)
            quarters, places = np.unique(values // _QUARTER_MS, return_inverse=True)
            offsets = np.array([_offset_of_quarter(zone, each, offset_of) for each in quarters.tolist()])
            within = offsets.astype(np.int64)[places]
            found = values + sign * within
            return found, (within == _CHANGES) | (found < _LOW) | (found > _HIGH)

        return moved

    return strict(name, resolve, lambda signature: row, kernel, operands)


_CHANGES = 1 << 40
"""Instead of an offset: it changes within the quarter, or the quarter is not in the calendar."""


def _offset_of_quarter(zone: ZoneInfo, quarter: int, offset_of: Callable[[ZoneInfo, int], int]) -> int:
    try:
        first = offset_of(zone, quarter * _QUARTER_MS)
        return first if first == offset_of(zone, (quarter + 1) * _QUARTER_MS - 1) else _CHANGES
    except OverflowError:
        return _CHANGES


ZONES: Sequence[ScalarFunction] = (
    _zoned(FROM_UTC, 1, _offset_from, (TIMESTAMP, INSTANT, DATE)),
    _zoned(TO_UTC, -1, _offset_to),
    _zoned(FROM_TZ, -1, _standard_offset_to, gives=INSTANT),
)
