"""BSON messages: the types that JSON lacks, and what is refused (docs/sql/streams.md#bson)."""

from __future__ import annotations

import json
from decimal import Decimal
from uuid import UUID as PythonUUID

import bson
import pytest
from bson import DBRef, Decimal128, Int64, ObjectId, Regex, Timestamp
from bson.binary import Binary
from bson.code import Code

from rowtide.codec.bson.values import OPTIONS
from rowtide.codec.message import MessageEncoder
from rowtide.codec.registry import decoder_of
from rowtide.errors import Reason, RejectedRowError
from rowtide.plan.plan import ForeignStream
from rowtide.rows.types import (
    BIGINT,
    BOOLEAN,
    DATE,
    DOUBLE,
    INTEGER,
    JSON,
    TIME,
    TIMESTAMP,
    UUID,
    VARCHAR,
    Field,
    Kind,
    RowType,
    Type,
    decimal,
)

BYTES = Type(Kind.VARBINARY)
ID = ObjectId("65530d40a1b2c3d4e5f60718")
AT = bson.DatetimeMS(1_700_000_000_123)
SOME = PythonUUID("00112233-4455-6677-8899-aabbccddeeff")


def stream(kind: Type, /, **options: str) -> ForeignStream:
    own = (("A", tuple(options.items())),) if options else ()
    return ForeignStream("S", RowType((Field("A", kind),)), "K", (("format", "BSON"),), column_options=own)


def decoded(message: bytes, kind: Type, /, **options: str) -> object:
    """Return the value of a message, or the reason and the text of its fault."""
    found = decoder_of(stream(kind, **options)).decode([message])
    if found.faults:
        return found.faults[0].reason, found.faults[0].message
    (value,) = found.columns[0].to_list()
    return value


def written(value: object) -> bytes:
    return bson.encode({"a": value}, codec_options=OPTIONS)


@pytest.mark.parametrize(
    ("value", "kind", "found"),
    [
        (ID, Type(Kind.VARCHAR, 24), "65530d40a1b2c3d4e5f60718"),
        (Decimal128("1.005"), decimal(9, 2), Decimal("1.01")),
        (Decimal128("7"), INTEGER, 7),
        (Decimal128("0.5"), DOUBLE, 0.5),
        (AT, TIMESTAMP, 1_700_000_000_123),
        (AT, DATE, 19_675),
        (bson.DatetimeMS(-1), DATE, -1),
        (AT, VARCHAR, "2023-11-14T22:13:20.123Z"),
        (Timestamp(1_700_000_000, 7), TIMESTAMP, 1_700_000_000_000),
        (Int64(1_700_000_000_123), TIMESTAMP, 1_700_000_000_123),
        ("2023-11-14T22:13:20.123Z", TIMESTAMP, 1_700_000_000_123),
        (SOME, UUID, str(SOME)),
        (str(SOME), UUID, str(SOME)),
        (b"\0\xff", BYTES, b"\0\xff"),
        (Binary(b"x", 5), BYTES, b"x"),
        (Int64(1 << 40), BIGINT, 1 << 40),
        (3.0, INTEGER, 3),
        (float("inf"), DOUBLE, float("inf")),
        (True, BOOLEAN, True),
        (None, INTEGER, None),
        ({"b": [1, ID]}, VARCHAR, '{"b":[1,"65530d40a1b2c3d4e5f60718"]}'),
        ("x", JSON, '"x"'),
        (Regex("^a"), VARCHAR, "^a"),
        (Code("f()"), VARCHAR, "f()"),
    ],
)
def test_a_value_has_the_type_of_its_column(value: object, kind: Type, found: object) -> None:
    assert decoded(written(value), kind) == found


def test_a_document_is_json() -> None:
    document = {
        "id": ID,
        "at": AT,
        "d": Decimal128("1.50"),
        "u": SOME,
        "b": b"hi",
        "n": Int64(1 << 60),
        "f": 1.5,
        "none": None,
        "yes": True,
        "list": [{"x": 1}, Timestamp(0, 1)],
        "ref": DBRef("users", ID),
        "re": Regex("a"),
    }
    assert decoded(written(document), JSON) == (
        '{"id":"65530d40a1b2c3d4e5f60718","at":"2023-11-14T22:13:20.123Z","d":1.50,'
        '"u":"00112233-4455-6677-8899-aabbccddeeff","b":"aGk=","n":1152921504606846976,"f":1.5,"none":null,"yes":true,'
        '"list":[{"x":1},"1970-01-01T00:00:00.000Z"],"ref":{"$ref":"users","$id":"65530d40a1b2c3d4e5f60718"},"re":"a"}'
    )
    assert decoded(written(document), VARCHAR, path="$.a.list[0].x") == (
        Reason.TYPE,
        'field "A" ($.a.list[0].x): number 1 is not a valid VARCHAR',
    )
    assert decoded(written(document), INTEGER, path="$.a.list[0].x") == 1


@pytest.mark.parametrize(
    ("value", "kind", "said"),
    [
        (ID, INTEGER, "an object is not a valid INTEGER: it is an ObjectId"),
        (AT, TIME, "it is a date"),
        (AT, INTEGER, "it is a date"),
        (bson.DatetimeMS(1 << 60), TIMESTAMP, "it is not within the years 1 to 9999"),
        (bson.DatetimeMS(1 << 60), JSON, "a date in it is not within the years 1 to 9999"),
        (Decimal128("Infinity"), decimal(9, 2), "it is not a finite number"),
        (Decimal128("1e6000"), DOUBLE, "it is out of range"),
        ([float("nan")], JSON, "a number in it is not finite"),
        (b"x", VARCHAR, "it is bytes"),
        (Regex("a"), INTEGER, "it is a regular expression"),
        (Code("a"), INTEGER, "it is code"),
        (bson.MinKey(), VARCHAR, "it is a MinKey"),
        (1, VARCHAR, "number 1 is not a valid VARCHAR"),
        ("1", INTEGER, 'text "1" is not a valid INTEGER'),
        ({}, INTEGER, "an object is not a valid INTEGER"),
    ],
)
def test_what_does_not_fit_is_rejected(value: object, kind: Type, said: str) -> None:
    found = decoded(written(value), kind)
    assert isinstance(found, tuple)
    reason, text = found
    assert reason is Reason.TYPE
    assert text.startswith('field "A": ')
    assert said in text


def nested(levels: int) -> bytes:
    """Return the bytes of documents within each other, which no encoder makes."""
    message = b"\x05\0\0\0\0"
    for _ in range(levels):
        message = (len(message) + 8).to_bytes(4, "little") + b"\x03a\0" + message + b"\0"
    return message


def test_depth_is_limited() -> None:
    assert isinstance(decoded(nested(100), JSON), str)
    assert decoded(nested(150), JSON) == (
        Reason.TYPE,
        'field "A": an object is not a valid JSON: it is nested more than 100 deep',
    )
    assert decoded(nested(20_000), JSON)[0] is Reason.DECODE  # type: ignore[index]


def test_a_damaged_message_says_what_is_wrong() -> None:
    assert decoded(b"{}", JSON) == (
        Reason.DECODE,
        "the message is not BSON: not enough data for a BSON document",
    )


def test_units_count_numbers_and_not_dates() -> None:
    assert decoded(written(1_700_000_000), TIMESTAMP, time_unit="s") == 1_700_000_000_000
    assert decoded(written(AT), TIMESTAMP, time_unit="s") == 1_700_000_000_123
    encoder = MessageEncoder(stream(TIMESTAMP, time_unit="s"))
    assert bson.decode(encoder.encode((1_700_000_000_123,)).value or b"") == {"a": 1_700_000_000}


@pytest.mark.parametrize(
    ("kind", "value", "found"),
    [
        (INTEGER, 7, 7),
        (BIGINT, 7, Int64(7)),
        (decimal(9, 2), Decimal("1.50"), Decimal128("1.50")),
        (UUID, str(SOME), SOME),
        (TIMESTAMP, 1_700_000_000_123, AT),
        (DATE, 1, bson.DatetimeMS(86_400_000)),
        (TIME, 1, "00:00:00.001"),
        (BYTES, b"x", b"x"),
        (JSON, '{"a": [1, 2.5, 12345678901234567890, 0.10000000000000000001]}', None),
        (VARCHAR, None, None),
    ],
)
def test_a_value_is_written_with_its_own_type(kind: Type, value: object, found: object) -> None:
    document = bson.decode(MessageEncoder(stream(kind)).encode((value,)).value or b"", OPTIONS)
    if kind is JSON:
        found = {"a": [1, 2.5, Decimal128("12345678901234567890"), Decimal128("0.10000000000000000001")]}
    assert document == {"a": found}
    assert type(document["a"]) is type(found)


@pytest.mark.parametrize(
    ("kind", "value", "said"),
    [
        (decimal(38, 0), Decimal("9" * 35), 'column "A" has more than 34 digits'),
        (JSON, "9" * 40, "more than 34 digits"),
        (JSON, json.dumps({"a\0b": 1}), "BSON cannot carry the row"),
        (JSON, "[" * 900 + "]" * 900, "nested more than 100 deep"),
        (JSON, "[" * 9000 + "]" * 9000, "nested more than 100 deep"),
    ],
)
def test_what_bson_cannot_carry_is_rejected(kind: Type, value: object, said: str) -> None:
    with pytest.raises(RejectedRowError, match=said) as caught:
        MessageEncoder(stream(kind)).encode((value,))
    assert caught.value.reason is Reason.CONSTRAINT
