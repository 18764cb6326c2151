"""What an encoder writes, the decoder of the same declaration reads back: every value of every type."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rowtide.codec.encode.message import MessageEncoder
from rowtide.codec.registry import decoder_of
from rowtide.errors import Reason, RejectedRowError
from rowtide.plan.plan import ForeignStream
from rowtide.rows.column import Column
from rowtide.rows.types import (
    BIGINT,
    BOOLEAN,
    DATE,
    DOUBLE,
    INTEGER,
    MAX_TIMESTAMP_MS,
    MIN_TIMESTAMP_MS,
    TIME,
    TIMESTAMP,
    VARCHAR,
    Field,
    Kind,
    RowType,
    Type,
    decimal,
)

DAY_MS = 86_400_000
TEXTS = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=8)
REALS = st.floats(width=32, allow_nan=False, allow_infinity=False)
VALUES: list[tuple[Type, st.SearchStrategy[Any]]] = [
    (BOOLEAN, st.booleans()),
    (Type(Kind.TINYINT), st.integers(-128, 127)),
    (INTEGER, st.integers(-(2**31), 2**31 - 1)),
    (BIGINT, st.integers(-(2**63), 2**63 - 1)),
    (DOUBLE, st.floats(allow_nan=False, allow_infinity=False)),
    (Type(Kind.REAL), REALS),
    (decimal(9, 2), st.decimals(-9_999_999, 9_999_999, places=2)),
    (decimal(38, 10), st.decimals(-(10**27), 10**27, places=10)),
    (VARCHAR, TEXTS),
    (DATE, st.integers(MIN_TIMESTAMP_MS // DAY_MS, MAX_TIMESTAMP_MS // DAY_MS)),
    (TIME, st.integers(0, DAY_MS - 1)),
    (TIMESTAMP, st.integers(MIN_TIMESTAMP_MS, MAX_TIMESTAMP_MS)),
]
BYTES = (Type(Kind.VARBINARY), st.binary(max_size=8))


def stream(
    row_type: RowType, columns: dict[str, dict[str, str]] | None = None, **options: str
) -> ForeignStream:
    own = tuple((name, tuple(given.items())) for name, given in (columns or {}).items())
    return ForeignStream("S", row_type, "K", tuple(options.items()), column_options=own)


def read_back(declared: ForeignStream, rows: Sequence[Sequence[Any]]) -> list[tuple[object, ...]]:
    """Encode rows and decode their values; nothing may be rejected."""
    encoder, decoder = MessageEncoder(declared), decoder_of(declared)
    decoded = decoder.decode([encoder.encode(row).value for row in rows])
    assert decoded.faults == ()
    return list(zip(*(column.to_list() for column in decoded.columns), strict=True))


def stored(row_type: RowType, rows: Sequence[Sequence[Any]]) -> list[tuple[object, ...]]:
    """Return rows as columns of these types hold them."""
    columns = [Column.from_values(field.type, [row[at] for row in rows]) for at, field in enumerate(row_type)]
    return list(zip(*(column.to_list() for column in columns), strict=True))


def row_types(kinds: Sequence[tuple[Type, st.SearchStrategy[Any]]]) -> tuple[RowType, st.SearchStrategy[Any]]:
    row_type = RowType(tuple(Field(f"C{at}", kind) for at, (kind, _) in enumerate(kinds)))
    return row_type, st.lists(st.tuples(*(st.none() | values for _, values in kinds)), min_size=1, max_size=4)


JSON_TYPE, JSON_ROWS = row_types([*VALUES, BYTES])
CSV_TYPE, CSV_ROWS = row_types(VALUES)


@given(JSON_ROWS)
def test_json_reads_back_what_was_written(rows: list[tuple[Any, ...]]) -> None:
    assert read_back(stream(JSON_TYPE, format="JSON"), rows) == stored(JSON_TYPE, rows)


@given(CSV_ROWS)
def test_csv_reads_back_what_was_written(rows: list[tuple[Any, ...]]) -> None:
    assert read_back(stream(CSV_TYPE, format="CSV"), rows) == stored(CSV_TYPE, rows)


@given(TEXTS | st.just(""), st.binary(max_size=20))
def test_raw_reads_back_what_was_written(text: str, content: bytes) -> None:
    of_text, of_bytes = (RowType((Field("LINE", kind),)) for kind in (VARCHAR, BYTES[0]))
    assert read_back(stream(of_text, format="RAW"), [(text,)]) == [(text,)]
    assert read_back(stream(of_bytes, format="RAW"), [(content,)]) == [(content,)]


TIMES = RowType((Field("AT", TIMESTAMP), Field("DAY", DATE), Field("OF_DAY", TIME)))


@given(
    st.integers(MIN_TIMESTAMP_MS, MAX_TIMESTAMP_MS),
    st.integers(-700_000, 2_900_000),
    st.integers(0, DAY_MS - 1),
    st.sampled_from(["ms", "us", "ns"]),
)
def test_units_of_times_read_back(at: int, day: int, of_day: int, unit: str) -> None:
    columns = {"AT": {"time_unit": unit}, "DAY": {"time_unit": "d"}, "OF_DAY": {"time_unit": unit}}
    assert read_back(stream(TIMES, columns), [(at, day, of_day)]) == [(at, day, of_day)]


@given(st.integers(MIN_TIMESTAMP_MS, MAX_TIMESTAMP_MS), st.integers(-700_000, 2_900_000))
def test_patterns_of_times_read_back(at: int, day: int) -> None:
    row_type = RowType(tuple(TIMES)[:2])
    columns = {"AT": {"pattern": "dd.MM.yyyy HH:mm:ss.SSS"}, "DAY": {"pattern": "yyyyMMdd"}}
    assert read_back(stream(row_type, columns), [(at, day)]) == [(at, day)]


@given(st.none() | st.integers(0, 9), TEXTS, TEXTS)
def test_paths_read_back(number: int | None, name: str, city: str) -> None:
    row_type = RowType((Field("N", BIGINT), Field("NAME", VARCHAR), Field("CITY", VARCHAR)))
    columns = {"NAME": {"path": "$.user.name"}, "CITY": {"path": "$.user.address.city"}}
    row = (number, name, city)
    declared = stream(row_type, columns)
    assert read_back(declared, [row]) == [row]
    assert json.loads(MessageEncoder(declared).encode(row).value) == {
        "n": number,
        "user": {"name": name, "address": {"city": city}},
    }


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
@pytest.mark.parametrize("kind", [DOUBLE, Type(Kind.REAL)])
def test_numbers_that_json_lacks_are_rejected(kind: Type, value: float) -> None:
    encoder = MessageEncoder(stream(RowType((Field("A", kind),))))
    with pytest.raises(RejectedRowError, match="which JSON cannot carry") as caught:
        encoder.encode((value,))
    assert caught.value.reason is Reason.CONSTRAINT
