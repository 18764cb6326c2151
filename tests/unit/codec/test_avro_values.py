"""No value of Avro changes on the way, and what no column reads rejects no message (docs/sql/streams.md#avro)."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest

from rowtide.codec.contract import Decoder
from rowtide.codec.options import Declared
from rowtide.codec.registry import FORMATS, decoder_for
from rowtide.errors import Reason, StatementError
from rowtide.rows.types import (
    BIGINT,
    DOUBLE,
    INTEGER,
    JSON,
    TIMESTAMP,
    VARCHAR,
    Field,
    Kind,
    RowType,
    Type,
    decimal,
)
from rowtide.rows.types import (
    UUID as UUID_TYPE,
)
from support.codec import outcome
from support.registry import FakeRegistry

DATE, TIME, BINARY = Type(Kind.DATE), Type(Kind.TIME), Type(Kind.VARBINARY)
INFINITY = 9_223_372_036_825_200_000
"""What Debezium writes for the timestamp ``infinity``."""


NAN = b"\0\0\0\0\0\0\xf8\x7f"


def long(number: int) -> bytes:
    number = (number << 1) ^ (number >> 63)
    found = bytearray()
    while number > 127:
        found.append(number & 127 | 128)
        number >>= 7
    return bytes([*found, number])


def sized(given: bytes) -> bytes:
    return long(len(given)) + given


def logical(kind: str, name: str, **more: Any) -> dict[str, Any]:
    return {"type": kind, "logicalType": name, **more}


def unscaled(digits: str) -> bytes:
    return sized(int(digits).to_bytes(20, "big", signed=True))


def record(kind: Any) -> str:
    fields = [{"name": "id", "type": "int"}, {"name": "x", "type": kind}]
    return json.dumps({"type": "record", "name": "R", "fields": fields})


def decoder(kind: Type, schema: Any, **options: str) -> Decoder:
    columns = RowType((Field("ID", INTEGER), Field("X", kind)))
    return decoder_for("AVRO", "S", columns, options={"schema": record(schema), **options})


MICROS = logical("long", "timestamp-micros")
FIXED_16 = {"type": "fixed", "name": "U", "size": 16, "logicalType": "uuid"}
AMOUNT = logical("bytes", "decimal", precision=4, scale=2)


@pytest.mark.parametrize(
    ("schema", "given", "kind", "wanted"),
    [
        # More digits than the precision says.
        (AMOUNT, unscaled("123456"), decimal(20, 2), Decimal("1234.56")),
        (AMOUNT, unscaled("12345678901234567890"), decimal(20, 2), Decimal("123456789012345678.90")),
        (AMOUNT, unscaled("-1234567891"), decimal(38, 2), Decimal("-12345678.91")),
        (AMOUNT, unscaled("12345678901234567890"), JSON, '"123456789012345678.90"'),
        (
            {"type": "fixed", "name": "F", "size": 8, "logicalType": "decimal", "precision": 9, "scale": 1},
            (10**17 + 1).to_bytes(8, "big"),
            decimal(20, 1),
            Decimal("10000000000000000.1"),
        ),
        # A logical type that is not valid is what it is stored as.
        (logical("bytes", "decimal", scale=2), sized(b"09"), BINARY, b"09"),
        (logical("bytes", "decimal", precision="9"), sized(b"09"), BINARY, b"09"),
        (logical("bytes", "decimal", precision=2, scale=3), sized(b"09"), BINARY, b"09"),
        (logical("string", "date"), sized(b"2026-01-01"), DATE, 20_454),
        (FIXED_16 | {"size": 3}, b"abc", BINARY, b"abc"),
        # Times of every unit.
        (logical("long", "timestamp-millis"), long(-1), TIMESTAMP, -1),
        (MICROS, long(-1), TIMESTAMP, -1),
        (logical("long", "timestamp-nanos"), long(1_767_225_600_123_456_789), TIMESTAMP, 1_767_225_600_123),
        (logical("long", "local-timestamp-nanos"), long(-1), TIMESTAMP, -1),
        (logical("long", "timestamp-nanos"), long(-1), DATE, -1),
        (
            logical("long", "timestamp-nanos"),
            long(1_000_000_001),
            JSON,
            '"1970-01-01T00:00:01.000000001+00:00"',
        ),
        (logical("int", "date"), long(-1), TIMESTAMP, -86_400_000),
        (logical("int", "time-millis"), long(86_399_999), TIME, 86_399_999),
        (logical("long", "time-micros"), long(1_999), TIME, 1),
        # UUIDs.
        (FIXED_16, bytes(range(16)), UUID_TYPE, UUID(bytes=bytes(range(16)))),
        (FIXED_16, bytes(range(16)), VARCHAR, str(UUID(bytes=bytes(range(16))))),
        (logical("string", "uuid"), sized(b"no uuid"), VARCHAR, "no uuid"),
        # The branch of the same type, though a number before it could be promoted.
        (["null", "double", "long"], long(2) + long(2**53 + 1), BIGINT, 2**53 + 1),
    ],
)
def test_a_value_is_the_one_of_the_message(schema: Any, given: bytes, kind: Type, wanted: object) -> None:
    (row,), faults = outcome(decoder(kind, schema), [long(1) + given])
    assert (row, faults) == (
        (1, str(wanted) if isinstance(wanted, UUID) and row[1] == str(wanted) else wanted),
        [],
    )


ODD = [
    (MICROS, long(INFINITY), TIMESTAMP, f"{INFINITY}000 ns since 1970 is not within the years 1 to 9999"),
    (MICROS, long(-INFINITY), DATE, f"-{INFINITY}000 ns since 1970 is not within the years 1 to 9999"),
    (
        logical("long", "timestamp-millis"),
        long(253_402_300_800_000),
        TIMESTAMP,
        "not within the years 1 to 9999",
    ),
    (
        logical("int", "date"),
        long(2_932_897),
        DATE,
        "2932897 days since 1970 is not within the years 1 to 9999",
    ),
    (
        logical("int", "time-millis"),
        long(86_400_000),
        TIME,
        "86400000000000 ns since midnight is not a time of day",
    ),
    (logical("long", "time-micros"), long(-1), TIME, "is not a time of day"),
    (logical("string", "uuid"), sized(b"no uuid"), UUID_TYPE, 'text "no uuid" is not a valid UUID'),
    ("string", sized(b"\xff"), VARCHAR, "it is not UTF-8"),
    (AMOUNT, sized(b"\x7f" * 9_999), decimal(20, 2), "it is bytes"),
    (AMOUNT, unscaled("123456"), decimal(4, 2), "it has too many digits before the point"),
    (
        {"type": "map", "values": "double"},
        long(1) + sized(b"a") + NAN + b"\0",
        VARCHAR,
        "a number in it is not finite",
    ),
    ({"type": "map", "values": "int"}, long(1) + sized(b"\xff") + b"\0\0", VARCHAR, "it is not UTF-8"),
]


@pytest.mark.parametrize(("schema", "given", "kind", "why"), ODD)
def test_an_odd_value_rejects_the_message_where_a_column_reads_it(
    schema: Any, given: bytes, kind: Type, why: str
) -> None:
    rows, ((_, reason, message),) = outcome(decoder(kind, schema), [long(1) + given])
    assert (rows, reason) == ([], Reason.TYPE)
    assert message.startswith('field "X"') and why in message


@pytest.mark.parametrize(("schema", "given"), [each[:2] for each in ODD])
@pytest.mark.parametrize("within", [False, True])
def test_an_odd_value_that_no_column_reads_rejects_no_message(
    schema: Any, given: bytes, within: bool
) -> None:
    inner = {"type": "record", "name": "Inner", "fields": [{"name": "a", "type": schema}]}
    columns = RowType((Field("ID", INTEGER),))
    found = decoder_for("AVRO", "S", columns, options={"schema": record(inner if within else schema)})
    assert outcome(found, [long(1) + given]) == ([(1,)], [])


@pytest.mark.parametrize(
    ("field", "kind", "wanted"),
    [
        ({"type": logical("int", "date"), "default": 20_000}, DATE, 20_000),
        ({"type": MICROS, "default": 86_400_000_000}, TIMESTAMP, 86_400_000),
        ({"type": logical("long", "timestamp-millis"), "default": 86_400_000}, TIMESTAMP, 86_400_000),
        ({"type": AMOUNT, "default": "\u0001\u00e2@"}, decimal(20, 2), Decimal("1234.56")),
        ({"type": [MICROS, "null"], "default": 1_000}, TIMESTAMP, 1),
        ({"type": ["null", MICROS], "default": None}, TIMESTAMP, None),
        ({"type": "bytes", "default": "\u00ff"}, BINARY, b"\xff"),
        ({"type": "double", "default": 1}, DOUBLE, 1.0),
        (
            {"type": {"type": "array", "items": logical("int", "date")}, "default": [0]},
            VARCHAR,
            '["1970-01-01"]',
        ),
        (
            {
                "type": {
                    "type": "record",
                    "name": "In",
                    "fields": [{"name": "a", "type": "int"}, {"name": "b", "type": MICROS, "default": 0}],
                },
                "default": {"a": 1},
            },
            VARCHAR,
            '{"a": 1, "b": "1970-01-01T00:00:00+00:00"}',
        ),
    ],
)
def test_a_default_of_the_readers_schema_is_a_value_of_its_type(
    field: dict[str, Any], kind: Type, wanted: object, registry: FakeRegistry
) -> None:
    fields = [{"name": "id", "type": "int"}]
    number = registry.register("t-value", {"type": "record", "name": "R", "fields": fields})
    schema = {"type": "record", "name": "R", "fields": [*fields, {"name": "x", **field}]}
    columns = RowType((Field("ID", INTEGER), Field("X", kind)))
    found = decoder_for(
        "AVRO", "S", columns, options={"schema": json.dumps(schema), "registry_url": registry.url}
    )
    message = b"\0" + number.to_bytes(4, "big") + long(1)
    assert outcome(found, [message]) == ([(1, wanted)], [])


def test_a_default_that_is_not_of_its_type_is_refused() -> None:
    schema = {"type": "record", "name": "R", "fields": [{"name": "x", "type": "bytes", "default": "\u0100"}]}
    declared = Declared("S", RowType((Field("X", BINARY),)), {"schema": json.dumps(schema)}, {})
    with pytest.raises(StatementError, match="not an Avro schema"):
        FORMATS["AVRO"].decoder(declared)


def test_a_reader_says_what_a_plain_number_of_the_writer_means(registry: FakeRegistry) -> None:
    writer = {"type": "record", "name": "R", "fields": [{"name": "x", "type": "long"}]}
    reader = {"type": "record", "name": "R", "fields": [{"name": "x", "type": MICROS}]}
    number = registry.register("t-value", writer)
    options = {"schema": json.dumps(reader), "registry_url": registry.url}
    found = decoder_for("AVRO", "S", RowType((Field("X", TIMESTAMP),)), options=options)
    message = b"\0" + number.to_bytes(4, "big") + long(5_000)
    assert outcome(found, [message]) == ([(5,)], [])


def test_a_union_of_records_that_others_define_is_read(registry: FakeRegistry) -> None:
    for name in ("A", "B"):
        registry.register(name, {"type": "record", "name": name, "fields": [{"name": name, "type": "int"}]})
    number = registry.register("t-value", ["A", "B"], [("A", "A", 1), ("B", "B", 1)])
    columns = RowType((Field("A", INTEGER), Field("B", INTEGER)))
    found = decoder_for("AVRO", "S", columns, options={"registry_url": registry.url})
    head = b"\0" + number.to_bytes(4, "big")
    assert outcome(found, [head + long(0) + long(7), head + long(1) + long(8)]) == (
        [(7, None), (None, 8)],
        [],
    )


@pytest.mark.parametrize(
    ("inside", "open_", "close"),
    [
        (["null", "R"], b"\2\2", b"\2\0"),
        ({"type": "array", "items": "R"}, b"\2\2", b"\2\0"),
        ({"type": "map", "values": "R"}, b"\2\2\2a", b"\2\0"),
    ],
)
def test_records_within_each_other_have_a_limit(inside: Any, open_: bytes, close: bytes) -> None:
    found = decoder_for("AVRO", "S", RowType((Field("ID", INTEGER),)), options={"schema": record(inside)})
    closing = b"" if isinstance(inside, list) else b"\0"

    def message(depth: int) -> bytes:
        return open_ * depth + close + closing * depth

    rows, ((at, reason, why),) = outcome(found, [message(100), message(20_000), message(2)])
    assert (rows, at, reason) == ([(1,), (1,)], 1, Reason.DECODE)
    assert why == "the message does not fit its schema: it is nested more than 1000 deep"
