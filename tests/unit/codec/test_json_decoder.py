"""What each kind of JSON message becomes.

See docs/sql/semantics.md#error-rows, #servers-formats-and-pseudo-columns.
"""

from typing import Any

import pytest

from rowtide.codec.json.decoder import JsonDecoder
from rowtide.codec.registry import decoder_for
from rowtide.errors import Reason, StatementError
from rowtide.rows.types import (
    BIGINT,
    INTEGER,
    INTERVAL_DAY,
    TIMESTAMP,
    VARCHAR,
    Field,
    Kind,
    RowType,
    Type,
    decimal,
)

ORDERS = RowType(
    (
        Field("ORDER_ID", INTEGER, nullable=False),
        Field("TICKER", Type(Kind.VARCHAR, 4)),
        Field("AMOUNT", decimal(8, 2)),
        Field("PLACED", TIMESTAMP),
        Field("unitPrice", BIGINT),
    )
)


def decode(*values: bytes | None) -> tuple[list[tuple[Any, ...]], list[tuple[int, Reason, str]]]:
    decoded = JsonDecoder("ORDERS", ORDERS).decode(values)
    rows = list(zip(*(column.to_list() for column in decoded.columns), strict=True))
    return rows, [(fault.index, fault.reason, fault.message) for fault in decoded.faults]


def row(value: bytes) -> tuple[object, ...]:
    rows, faults = decode(value)
    assert not faults
    return rows[0]


def fault(value: bytes | None) -> tuple[Reason, str]:
    rows, faults = decode(value)
    assert not rows
    return faults[0][1:]


def test_bad_messages_do_not_shift_their_neighbours() -> None:
    rows, faults = decode(b'{"order_id":1}', b'{"order_id":2},{"order_id":3}', b"]", b'{"order_id":4}', None)
    assert [each[0] for each in rows] == [1, 4]
    assert [(index, reason) for index, reason, _ in faults] == [
        (1, Reason.DECODE),
        (2, Reason.DECODE),
        (4, Reason.TOMBSTONE),
    ]


def test_names_match_without_regard_to_case_and_the_main_spelling_counts() -> None:
    assert row(b'{"Order_Id":1,"TICKER":"A","unitprice":5}')[::4] == (1, 5)
    assert row(b'{"ORDER_ID":1,"order_id":2,"Order_id":3,"unitPrice":7,"unitprice":8}')[::4] == (2, 7)
    assert row(b'{"ORDER_ID":1,"Order_id":3}')[0] == 3
    assert row(b'{"order_id":1,"tic\\u004bER":"A"}')[1] == "A"


def test_a_letter_outside_ascii_does_not_fold_into_ascii() -> None:
    assert row('{"order_id":1,"tic\u212aer":"A"}'.encode())[1] is None


def test_unknown_fields_are_ignored_and_absent_ones_are_null() -> None:
    assert row(b'{"order_id":1,"other":{"deep":[1,2]}}') == (1, None, None, None, None)


@pytest.mark.parametrize(
    ("value", "reason", "words"),
    [
        (b"", Reason.DECODE, "the message is empty"),
        (b" \n", Reason.DECODE, "the message is empty"),
        (b"\xef\xbb\xbf{}", Reason.DECODE, "the message begins with a byte order mark"),
        (b"\xff\xfe{\0", Reason.DECODE, "the message begins with a byte order mark"),
        (b"\0\0\0\0\5{}", Reason.DECODE, "begins with the header of a Schema Registry: schema 5"),
        (b'{"x":"\xff\\ud800","y":?}', Reason.DECODE, "invalid character (byte 19)"),
        (b'{"x":"\\ud800"', Reason.DECODE, "truncated"),
        (b"\xff\x00", Reason.DECODE, "malformed"),
        (b"[1]", Reason.DECODE, "not a JSON object"),
        (b"[" * 100_000, Reason.DECODE, "nested too deeply"),
        (b'{"order_id":1,"ticker":"\xff"}', Reason.DECODE, "not UTF-8"),
        (b"{}", Reason.MISSING_FIELD, 'field "ORDER_ID" is absent'),
        (b'{"order_id":null}', Reason.MISSING_FIELD, 'field "ORDER_ID" is null'),
        (b'{"order_id":"1"}', Reason.TYPE, 'field "ORDER_ID": text "1" is not a valid INTEGER'),
        (b'{"order_id":1.5}', Reason.TYPE, "fractional part"),
        (b'{"order_id":true}', Reason.TYPE, "true is not a valid INTEGER"),
        (b'{"order_id":2147483648}', Reason.TYPE, "it holds -2147483648 to 2147483647"),
        (b'{"order_id":1,"ticker":7}', Reason.TYPE, "number 7 is not a valid VARCHAR(4)"),
        (b'{"order_id":1,"ticker":"ABCDE"}', Reason.TYPE, "5 characters"),
        (b'{"order_id":1,"ticker":"A\\u0000"}', Reason.TYPE, "NUL character"),
        (b'{"order_id":1,"amount":"12,5"}', Reason.TYPE, 'text "12,5" is not a valid DECIMAL(8, 2)'),
        (b'{"order_id":1,"amount":1000000}', Reason.TYPE, "too many digits"),
        (b'{"order_id":1,"amount":999999.995}', Reason.TYPE, "too many digits"),
        (b'{"order_id":1,"placed":"yesterday"}', Reason.TYPE, "is not a valid TIMESTAMP"),
        (b'{"order_id":1,"placed":1.5}', Reason.TYPE, "number 1.5 is not a valid TIMESTAMP"),
        (b'{"order_id":1,"placed":999999999999999999}', Reason.TYPE, "years 1 to 9999"),
    ],
)
def test_what_does_not_fit_is_rejected_with_its_reason(value: bytes, reason: Reason, words: str) -> None:
    given, message = fault(value)
    assert given is reason
    assert words in message


def test_numbers_fit_however_they_are_spelled() -> None:
    assert row(b'{"order_id":1.0,"unitPrice":1e3}')[::4] == (1, 1000)


def test_decimals_round_half_away_from_zero_as_cast_does() -> None:
    for text, cents in (("1.005", 101), ("-1.005", -101), ("1.00499999999999999", 100), ('"2.675"', 268)):
        assert row(f'{{"order_id":1,"amount":{text}}}'.encode())[2] * 100 == cents  # type: ignore[operator]


def test_text_loses_blanks_that_do_not_fit() -> None:
    assert row(b'{"order_id":1,"ticker":"ORCL   "}')[1] == "ORCL"


@pytest.mark.parametrize(
    ("text", "millis"),
    [
        ('"1970-01-01T00:00:01.5Z"', 1500),
        ('"1970-01-01 00:00:01.0009"', 1000),
        ('"1969-12-31T23:59:59.9999Z"', -1),
        ('"1970-01-01T02:00:00+02:00"', 0),
        ('"1970-01-02"', 86_400_000),
        ('"19700101T000001Z"', 1000),
        ("-5", -5),
    ],
)
def test_timestamps_come_as_iso_8601_or_as_milliseconds(text: str, millis: int) -> None:
    assert row(f'{{"order_id":1,"placed":{text}}}'.encode())[3] == millis


def test_formats_and_types_that_json_lacks_are_refused_by_name() -> None:
    with pytest.raises(StatementError, match='format "YAML" of foreign stream "S" does not exist'):
        decoder_for("YAML", "S", RowType((Field("A", VARCHAR),)))
    with pytest.raises(StatementError, match=r'column "A" .* cannot carry the type INTERVAL DAY TO SECOND'):
        decoder_for("json", "S", RowType((Field("A", INTERVAL_DAY),)))
