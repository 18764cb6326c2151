"""Write values as text for CAST, one value or a column; ``cast_text`` defines the forms."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rowtide.expr.evaluation import ColumnKernel
from rowtide.expr.functions.numbers import exact
from rowtide.expr.functions.times import civil
from rowtide.rows.arrays import Mask
from rowtide.rows.types import INTEGER_BYTES, TIME, TIMESTAMP, Kind, Type

_PLAIN_FROM, _PLAIN_BELOW = 1e-4, 1e15
"""Python writes doubles between these without an exponent. Arrow does so in part of this range."""
UTC_OFFSET = "+00:00"
"""What the text of a TIMESTAMP WITH TIME ZONE ends with."""


def _date_text(day: int) -> str:
    year, month, of_month = civil.civil(day)
    return f"{year:04d}-{month:02d}-{of_month:02d}"


def _time_text(ms: int) -> str:
    seconds, rest = divmod(ms, 1_000)
    minutes, second = divmod(seconds, 60)
    fraction = f".{rest:03d}" if rest else ""
    return f"{minutes // 60:02d}:{minutes % 60:02d}:{second:02d}{fraction}"


def _timestamp_text(ms: int) -> str:
    day, rest = divmod(ms, civil.DAY_MS)
    return f"{_date_text(day)} {_time_text(rest)}"


def _instant_text(ms: int) -> str:
    return f"{_timestamp_text(ms)}{UTC_OFFSET}"


def _day_time_text(ms: int) -> str:
    day, rest = divmod(abs(ms), civil.DAY_MS)
    return f"{'-' if ms < 0 else ''}{day} {_time_text(rest)}"


def _year_month_text(months: int) -> str:
    years, rest = divmod(abs(months), 12)
    return f"{'-' if months < 0 else ''}{years}-{rest}"


WRITERS: dict[Kind, Callable[[Any], str]] = {
    Kind.BOOLEAN: lambda value: "TRUE" if value else "FALSE",
    **dict.fromkeys(INTEGER_BYTES, str),
    Kind.REAL: lambda value: str(np.float32(value)),
    Kind.DOUBLE: repr,
    Kind.DECIMAL: lambda value: f"{value:f}",
    Kind.DATE: _date_text,
    Kind.TIME: _time_text,
    Kind.TIMESTAMP: _timestamp_text,
    Kind.INSTANT: _instant_text,
    Kind.INTERVAL_DAY: _day_time_text,
    Kind.INTERVAL_MONTH: _year_month_text,
}
"""Writers of one value in row form, for all types except strings."""


def _truth_texts(values: Any) -> tuple[Any, Mask | None]:
    return pa.array(["FALSE", "TRUE"]).take(pa.array(values.view(np.int8))), None


def _integer_texts(values: Any) -> tuple[Any, Mask | None]:
    return pc.cast(pa.array(values), pa.string()), None


def _double_texts(values: Any) -> tuple[Any, Mask | None]:
    """Write by Arrow the doubles that it writes as Python does, but for the .0 of whole numbers."""
    size = np.abs(values)
    texts = pc.cast(pa.array(values), pa.string())
    whole = values == np.trunc(values)
    if whole.any():
        texts = pc.if_else(pa.array(whole), pc.binary_join_element_wise(texts, ".0", ""), texts)
    plain = (size < _PLAIN_BELOW) & ((size >= _PLAIN_FROM) | (size == 0))
    return texts, ~plain | pc.match_substring(texts, "e").to_numpy(zero_copy_only=False)


def _moment_texts(kind: Type, seconds: pa.DataType, milliseconds: pa.DataType) -> ColumnKernel:
    """Write times by Arrow, which always writes the milliseconds of one type and never those of the other."""
    low, high = civil.RANGES[kind]

    def write(values: Any) -> tuple[Any, Mask | None]:
        values, outside = exact.within(values, low, high, np.dtype(np.int64))
        second = values // 1_000
        plain = second * 1_000 == values
        texts = _texts_of(second, seconds)
        if not plain.all():
            texts = pc.if_else(pa.array(plain), texts, _texts_of(values, milliseconds))
        return texts, outside

    return write


_timestamp_texts = _moment_texts(TIMESTAMP, pa.timestamp("s"), pa.timestamp("ms"))


def _instant_texts(values: Any) -> tuple[Any, Mask | None]:
    texts, outside = _timestamp_texts(values)
    return pc.binary_join_element_wise(texts, UTC_OFFSET, ""), outside


def _date_texts(days: Any) -> tuple[Any, Mask | None]:
    days, outside = exact.within(days, civil.MIN_DAY, civil.MAX_DAY, np.dtype(np.int64))
    return _texts_of(days, pa.date32()), outside


def _texts_of(values: Any, kind: pa.DataType) -> Any:
    storage = np.dtype(f"int{kind.bit_width}")
    return pc.cast(pa.array(values.astype(storage, copy=False)).view(kind), pa.string())


COLUMN_WRITERS: dict[Kind, ColumnKernel] = {
    Kind.BOOLEAN: _truth_texts,
    **dict.fromkeys(INTEGER_BYTES, _integer_texts),
    Kind.DOUBLE: _double_texts,
    Kind.DATE: _date_texts,
    Kind.TIME: _moment_texts(TIME, pa.time32("s"), pa.time32("ms")),
    Kind.TIMESTAMP: _timestamp_texts,
    Kind.INSTANT: _instant_texts,
}
"""Writers of columns, for types where that is faster than value by value."""
