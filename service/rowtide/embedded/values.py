"""Values of columns as Arrow and Python have them, and Python's values as values of columns.

| SQL                        | Arrow                 | Python                          |
|----------------------------|-----------------------|---------------------------------|
| BOOLEAN                    | bool                  | bool                            |
| TINYINT .. BIGINT          | int8 .. int64         | int                             |
| REAL, DOUBLE               | float, double         | float                           |
| DECIMAL(p, s)              | decimal128(p, s)      | decimal.Decimal                 |
| CHAR, VARCHAR, UUID, JSON  | string                | str                             |
| BINARY, VARBINARY          | binary                | bytes                           |
| DATE                       | date32                | datetime.date                   |
| TIME                       | time32[ms]            | datetime.time                   |
| TIMESTAMP, with and without time zone | timestamp[ms, UTC] | datetime.datetime in UTC |
| INTERVAL day to second     | duration[ms]          | datetime.timedelta              |
| INTERVAL year to month     | int64: months         | int                             |
| ARRAY                      | list                  | list                            |
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, date, datetime, time, timedelta
from itertools import chain, islice
from typing import Any

import numpy as np
import pyarrow as pa

from rowtide.codec.json.readings import Reading
from rowtide.codec.json.values import converter
from rowtide.codec.typed_values import from_typed
from rowtide.errors import RejectedRowError
from rowtide.rows.column import Column, arrow_type
from rowtide.rows.types import MAX_TIMESTAMP_MS, MIN_TIMESTAMP_MS, Kind, Type

_TIMES = {
    Kind.DATE: pa.date32(),
    Kind.TIME: pa.time32("ms"),
    Kind.TIMESTAMP: pa.timestamp("ms", "UTC"),
    Kind.INSTANT: pa.timestamp("ms", "UTC"),
    Kind.INTERVAL_DAY: pa.duration("ms"),
}
_STORED = {Kind.DATE: pa.int32(), Kind.TIME: pa.int32()}
"""The number that Arrow stores for a time, if it is not an int64."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MS = timedelta(milliseconds=1)

FromPython = Callable[[Any], object]


def arrow_of(kind: Type) -> pa.DataType:
    """Return the Arrow type of a result's column."""
    if kind.element is not None:
        return pa.list_(arrow_of(kind.element))
    return _TIMES.get(kind.kind) or arrow_type(kind)


def to_arrow(column: Column) -> pa.Array:
    """Return a column as a result has it."""
    kind = column.type
    if kind.element is not None:
        lists: list[Any] = column.to_list()
        offsets = np.cumsum([0, *(len(each) for each in _present(lists))])
        nulls = pa.array([each is None for each in lists], pa.bool_())
        return pa.ListArray.from_arrays(
            pa.array(offsets, pa.int32()),
            to_arrow(_elements(kind.element, lists)),
            arrow_of(kind),
            mask=nulls,
        )
    array, wanted = column.to_arrow(), _TIMES.get(kind.kind)
    return array if wanted is None else array.cast(_STORED.get(kind.kind, pa.int64())).view(wanted)


def to_python(column: Column) -> list[Any]:
    """Return the values of a column as Python has them."""
    kind = column.type
    if kind.element is not None:
        lists: list[Any] = column.to_list()
        elements = iter(to_python(_elements(kind.element, lists)))
        return [None if each is None else [*islice(elements, len(each))] for each in lists]
    if kind.is_timestamp:
        return moments(column.to_list())
    values: list[Any] = to_arrow(column).to_pylist()
    return values


def moments(rowtimes: Iterable[Any]) -> list[datetime | None]:
    """Return times (ms, UTC) as datetimes. Arrow's own conversion fails in the years 1 and 9999."""
    return [None if each is None else _EPOCH + each * _MS for each in rowtimes]


def _present(lists: Iterable[Any]) -> Iterator[Any]:
    return (() if each is None else each for each in lists)


def _elements(kind: Type, lists: Iterable[Any]) -> Column:
    """Return the elements of all arrays as one column: in a column of arrays they are text."""
    return Column.from_values(kind, chain.from_iterable(_present(lists)))


def from_python(kind: Type) -> FromPython:
    """Return the function that makes a value in row form of a value of Python, which is not None.

    It raises ValueError, with a fragment that names the value and the type.
    """
    if kind.element is not None:
        of_element = from_python(kind.element)
        return lambda value: _array(value, kind, of_element)
    if kind.kind is Kind.INTERVAL_DAY:
        return lambda value: value // _MS if isinstance(value, timedelta) else _whole(value, kind)
    if kind.kind is Kind.INTERVAL_MONTH:
        return lambda value: _whole(value, kind)
    plain = converter(kind)
    assert plain is not None, kind
    typed = from_typed(kind, Reading(None, plain, plain=True, shown=""))

    def convert(value: Any) -> object:
        if isinstance(value, np.generic):
            value = value.item()
        if isinstance(value, datetime | date | time):
            value = _of_time(value, kind)
        elif kind.kind is Kind.JSON and not isinstance(value, str):
            value = _json_text(value)
        try:
            return typed(value)
        except RejectedRowError as error:
            raise ValueError(error.message) from error

    return convert


def milliseconds(moment: object) -> int:
    """Return a time as a rowtime: a datetime with a zone, or text in ISO 8601, which is in UTC if it has no zone.

    Raises:
      ValueError: it is neither.
    """
    value = from_python(Type(Kind.TIMESTAMP))(moment)
    assert isinstance(value, int)
    return value


def moment_of(rowtime: int) -> datetime | None:
    """Return a rowtime (ms) as a datetime in UTC; None for the beginning and the end of time."""
    return _EPOCH + rowtime * _MS if MIN_TIMESTAMP_MS <= rowtime <= MAX_TIMESTAMP_MS else None


def _of_time(value: datetime | date | time, kind: Type) -> object:
    """Return a value of the standard library as the text or number that a message would have."""
    if isinstance(value, datetime):
        if not kind.is_timestamp:
            raise ValueError(f"{value} is not a valid {kind}")
        if value.tzinfo is None:
            raise ValueError(f"{value} has no time zone: pass tzinfo=datetime.UTC, or text in UTC")
        return (value - _EPOCH) // _MS
    if kind.kind is not (Kind.DATE if isinstance(value, date) else Kind.TIME):
        raise ValueError(f"{value} is not a valid {kind}")
    return value.isoformat()


def _array(value: Any, kind: Type, of_element: FromPython) -> tuple[object, ...]:
    if isinstance(value, np.ndarray):
        value = value.tolist()
    if isinstance(value, list | tuple):
        return tuple(None if each is None else of_element(each) for each in value)
    raise ValueError(f"{value!r:.40} is not a valid {kind}: pass a list")


def _whole(value: Any, kind: Type) -> int:
    if isinstance(value, np.generic):
        value = value.item()
    # Numbers of pandas are floats in a column with missing ones.
    if (isinstance(value, int) and not isinstance(value, bool)) or (
        isinstance(value, float) and value.is_integer()
    ):
        return int(value)
    raise ValueError(f"{value!r:.40} is not a valid {kind}")


def _json_text(value: object) -> str:
    try:
        return json.dumps(value, ensure_ascii=False, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise ValueError(f"{value!r:.40} is not JSON: {error}") from error
