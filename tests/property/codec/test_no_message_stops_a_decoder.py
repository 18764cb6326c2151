"""No message makes a decoder raise, whatever the columns are, or is rejected for an unforeseen error."""

import json
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from rowtide.codec.contract import Decoded, Decoder
from rowtide.codec.csv import CsvDecoder
from rowtide.codec.json.decoder import JsonDecoder
from rowtide.codec.options import Declared
from rowtide.codec.raw import RawDecoder
from rowtide.errors import Reason, RejectedRowError, rejection_of
from rowtide.rows.types import (
    BIGINT,
    DOUBLE,
    JSON,
    TIMESTAMP,
    UUID,
    VARCHAR,
    Field,
    Kind,
    RowType,
    Type,
    decimal,
)

TYPES = [
    *(Type(kind) for kind in (Kind.TINYINT, Kind.SMALLINT, Kind.INTEGER, Kind.BIGINT)),
    *(
        Type(kind)
        for kind in (Kind.REAL, Kind.DOUBLE, Kind.BOOLEAN, Kind.DATE, Kind.TIME, Kind.TIMESTAMP, Kind.INSTANT)
    ),
    *(decimal(*digits) for digits in ((10, 2), (1, 0), (5, 5), (18, 18), (19, 3), (38, 0), (38, 38))),
    *(VARCHAR, Type(Kind.VARCHAR, 3), Type(Kind.CHAR, 2), Type(Kind.VARBINARY, 4), Type(Kind.BINARY, 2)),
    *(UUID, JSON),
]
EXPONENTS = st.one_of(
    st.integers(-400, 400),
    st.integers(-(10**7), 10**7),
    st.sampled_from([999_999, 1_000_000, -1_000_000, 2**31, -(2**31), 2**63, -(2**63), 10**18, 10**40]),
)
NUMBERS = st.one_of(
    st.builds(
        "{}{}{}e{}".format,
        st.sampled_from(["", "-"]),
        st.integers(0, 99),
        st.sampled_from(["", ".50"]),
        EXPONENTS,
    ),
    st.integers(-(2**130), 2**130).map(str),
    st.floats(allow_nan=False, allow_infinity=False).map(repr),
    st.sampled_from(["9" * 5000, "0." + "0" * 5000 + "1", "-0", "1e", "NaN", "Infinity", "-Infinity", "1_0"]),
)
TEXTS = st.one_of(
    st.text(max_size=8),
    NUMBERS,
    st.sampled_from(["\0", "a\0b", "2024-02-30", "0000-00-00", "99999-01-01T00:00:00Z", "24:00", "=" * 9]),
    st.datetimes().map(str),
    st.times().map(str),
)
JSON_VALUES = st.one_of(
    NUMBERS,
    TEXTS.map(json.dumps),
    st.sampled_from(["null", "true", "[]", "{}", "[" * 2000, '"\\ud800"', '"\\ud83d\\ude00"', '"\\u0000"']),
)
JSON_MESSAGES = st.one_of(
    JSON_VALUES.map(lambda value: f'{{"a": {value}}}'.encode()),
    JSON_VALUES.map(lambda value: f'{{"A": {value}}}'.encode()),
    st.binary(max_size=12),
    st.just(b'{"a": 1}'),
    st.none(),
)
TEXT_MESSAGES = st.one_of(TEXTS.map(str.encode), st.binary(max_size=12), st.none())


@contextmanager
def _foreseen_only() -> Iterator[None]:
    """Let a decoder fail where it falls back on rejecting what no one foresaw, or warns."""

    def foreseen(error: Exception, reason: Reason) -> RejectedRowError:
        assert isinstance(error, RejectedRowError), f"unforeseen: {error!r}"
        return rejection_of(error, reason)

    columns, unforeseen = JsonDecoder._columns, []

    def watched(self: JsonDecoder, *args: Any) -> Any:
        try:
            return columns(self, *args)
        except Exception as error:
            unforeseen.append(error)
            raise

    with (
        patch.object(JsonDecoder, "_columns", watched),
        patch("rowtide.codec.json.decoder.rejection_of", foreseen),
        patch("rowtide.codec.rowwise.rejection_of", foreseen),
        warnings.catch_warnings(),
    ):
        warnings.simplefilter("error")
        yield
    assert not unforeseen


def _check(decoder: Decoder, messages: list[bytes | None]) -> Decoded:
    with _foreseen_only():
        decoded = decoder.decode(messages)
    answer = sorted([*decoded.accepted.tolist(), *(fault.index for fault in decoded.faults)])
    assert answer == list(range(len(messages)))
    for column in decoded.columns:
        assert len(column.to_list()) == len(decoded.accepted)
    return decoded


@pytest.mark.parametrize("kind", TYPES, ids=str)
@given(messages=st.lists(JSON_MESSAGES, max_size=6))
@example(messages=[b'{"a": 1e308}'])
@example(messages=[b'{"a": 1}', b'{"a": 1e308}', b'{"a": -1e39}'])
def test_json(kind: Type, messages: list[bytes | None]) -> None:
    _check(JsonDecoder("S", RowType((Field("A", kind),))), messages)


@pytest.mark.parametrize("kind", TYPES, ids=str)
@given(messages=st.lists(TEXT_MESSAGES, max_size=6))
def test_csv(kind: Type, messages: list[bytes | None]) -> None:
    _check(CsvDecoder(Declared("S", RowType((Field("A", kind),)))), messages)


@pytest.mark.parametrize("kind", [kind for kind in TYPES if kind.is_text or kind.is_binary], ids=str)
@given(messages=st.lists(TEXT_MESSAGES, max_size=6))
def test_raw(kind: Type, messages: list[bytes | None]) -> None:
    decoded = _check(RawDecoder(Declared("S", RowType((Field("A", kind),)))), messages)
    if kind.is_text:
        assert not any("\0" in str(text) for text in decoded.columns[0].to_list())


@pytest.mark.parametrize("number", ["1e1000000", "-1e1000000", "1e2147483647", "1e999999999999999999"])
@pytest.mark.parametrize("quote", ["", '"'])
def test_a_number_with_a_huge_exponent_is_out_of_range_of_a_decimal(number: str, quote: str) -> None:
    decoder = JsonDecoder("S", RowType((Field("A", decimal(10, 2)),)))
    decoded = _check(decoder, [b'{"a": 1.25}', f'{{"a": {quote}{number}{quote}}}'.encode()])
    assert decoded.accepted.tolist() == [0]
    assert [fault.reason for fault in decoded.faults] == [Reason.TYPE]


def test_an_unforeseen_error_rejects_its_message_alone() -> None:
    decoder = JsonDecoder("S", RowType((Field("A", BIGINT), Field("B", DOUBLE), Field("C", TIMESTAMP))))

    def broken(value: object) -> object:
        raise ZeroDivisionError(f"of {value}")

    decoder._converters[0] = broken
    decoder._builders[0] = lambda _values, _valid: broken("a column")  # type: ignore[assignment,return-value]
    decoded = decoder.decode([b'{"a": 1}', b'{"b": 2}', b"nothing"])
    assert decoded.accepted.tolist() == [1]
    assert next((fault.index, fault.reason, fault.message) for fault in decoded.faults) == (
        0,
        Reason.DECODE,
        "ZeroDivisionError: of 1",
    )
