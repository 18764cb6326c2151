"""CAST between DATE, TIME, TIMESTAMP with and without time zone, INTERVAL and integers.

A DATE is the midnight that it begins with. Every TIMESTAMP is in UTC. An integer converts to and from one as
milliseconds since 1970-01-01 00:00:00 UTC, as in JSON messages, and to and from an INTERVAL as
milliseconds or months. A TIME does not convert to a TIMESTAMP, because expressions have no current
date.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from rowtide.errors import Reason, RejectedRowError
from rowtide.expr.evaluation import ColumnKernel, RowKernel
from rowtide.expr.functions.numbers import exact
from rowtide.expr.functions.times import civil
from rowtide.rows.arrays import Mask
from rowtide.rows.types import DATE, INSTANT, INTERVAL_DAY, INTERVAL_MONTH, TIME, TIMESTAMP, Type


def allowed(source: Type, target: Type) -> bool:
    """Return whether the cast exists."""
    if source.is_integer or target.is_integer:
        return source in _COUNTED or target in _COUNTED
    return (source, target) in _CONVERT


def _range(target: Type) -> tuple[int, int]:
    return civil.RANGES.get(target) or exact.integer_range(target)


def row(source: Type, target: Type) -> RowKernel:
    """Return the row function."""
    low, high = _range(target)
    convert = _CONVERT.get((source, target), int)

    def checked(value: int) -> int:
        result: int = convert(value)
        if not low <= result <= high:
            raise RejectedRowError(Reason.OVERFLOW, f"{value} is out of range for {target}")
        return result

    return checked


def columns(source: Type, target: Type) -> ColumnKernel:
    """Return the column function."""
    low, high = _range(target)
    convert = _CONVERT.get((source, target), np.asarray)

    def checked(values: Any) -> tuple[Any, Mask | None]:
        return exact.within(convert(exact.whole(values)), low, high, target.dtype)

    return checked


_COUNTED = (TIMESTAMP, INSTANT, INTERVAL_DAY, INTERVAL_MONTH)
_CONVERT: dict[tuple[Type, Type], Any] = {
    (DATE, TIMESTAMP): lambda days: days * civil.DAY_MS,
    (TIMESTAMP, DATE): lambda ms: ms // civil.DAY_MS,
    (TIMESTAMP, TIME): lambda ms: ms % civil.DAY_MS,
    (DATE, INSTANT): lambda days: days * civil.DAY_MS,
    (INSTANT, DATE): lambda ms: ms // civil.DAY_MS,
    (INSTANT, TIME): lambda ms: ms % civil.DAY_MS,
}
