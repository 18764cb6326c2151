"""Rows to Avro: schemas of columns, of a stream and of a registry, and what does not fit them."""

from __future__ import annotations

import io
import json
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import fastavro
import pytest

from rowtide.codec.message import MessageEncoder
from rowtide.errors import FaultError, Reason, RejectedRowError, StatementError
from rowtide.plan.plan import ForeignStream
from rowtide.rows.types import (
    BIGINT,
    DATE,
    DOUBLE,
    INTEGER,
    TIME,
    TIMESTAMP,
    VARCHAR,
    Field,
    Kind,
    RowType,
    Type,
    decimal,
)
from rowtide_connectors.errors import DeniedError, GoneError, MismatchError, UnavailableError
from support.registry import FakeRegistry

ORDERS = RowType(
    (
        Field("ID", BIGINT, nullable=False),
        Field("SKU", VARCHAR),
        Field("TOTAL", decimal(9, 2)),
        Field("DAY", DATE),
        Field("AT", TIMESTAMP),
    )
)
ROW = (7, "a1", Decimal("12.50"), 20_454, 1_767_225_600_123)


def stream(
    row_type: RowType = ORDERS, columns: dict[str, dict[str, str]] | None = None, **options: str
) -> ForeignStream:
    own = tuple((name, tuple(given.items())) for name, given in (columns or {}).items())
    given = {"topic": "alerts", "format": "AVRO"} | options
    return ForeignStream("ALERTS", row_type, "K", tuple(given.items()), column_options=own)


def encoder(declared: ForeignStream) -> MessageEncoder:
    made = MessageEncoder(declared)
    made.prepare()
    return made


def value_of(made: MessageEncoder, row: Sequence[object]) -> bytes:
    value = made.encode(row).value
    assert value is not None
    return value


def record(*fields: Any, **more: Any) -> str:
    return json.dumps({"type": "record", "name": "R", "fields": list(fields), **more})


def field(name: str, kind: Any, **more: Any) -> dict[str, Any]:
    return {"name": name, "type": kind, **more}


def read(value: bytes, schema: str) -> Any:
    given = io.BytesIO(value)
    found = fastavro.schemaless_reader(given, json.loads(schema), None)
    assert given.read() == b""
    return found


def one(kind: Type, schema: Any, value: object, **options: str) -> bytes:
    """Return the message of one column of a schema with one field."""
    declared = stream(RowType((Field("A", kind),)), {"A": options}, schema=record(field("a", schema)))
    return value_of(encoder(declared), (value,))


def test_the_schema_is_made_of_the_columns_and_registered_under_the_topic(registry: FakeRegistry) -> None:
    declared = stream(registry_url=registry.url, key="id")
    message = encoder(declared).encode(ROW)
    (number,) = registry.subjects["alerts-value"]
    assert (message.value or b"")[:5] == b"\0" + number.to_bytes(4, "big")
    text = registry.schemas[number]["schema"]
    assert json.loads(text) == {
        "type": "record",
        "name": "alerts",
        "fields": [
            field("id", "long"),
            field("sku", ["null", "string"], default=None),
            field(
                "total",
                ["null", {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}],
                default=None,
            ),
            field("day", ["null", {"type": "int", "logicalType": "date"}], default=None),
            field("at", ["null", {"type": "long", "logicalType": "timestamp-millis"}], default=None),
        ],
    }
    found = read((message.value or b"")[5:], text)
    assert (found["id"], found["sku"], found["total"]) == (7, "a1", Decimal("12.50"))
    assert (found["day"].isoformat(), found["at"].isoformat()) == (
        "2026-01-01",
        "2026-01-01T00:00:00.123000+00:00",
    )
    assert message.key == b"7"
    # A second process gets the same number.
    assert value_of(encoder(declared), ROW) == message.value
    assert list(registry.schemas) == [number]


def test_paths_are_records_and_units_and_patterns_choose_types(registry: FakeRegistry) -> None:
    row_type = RowType(
        tuple(
            Field(name, kind)
            for name, kind in [
                ("NAME", VARCHAR),
                ("CITY", VARCHAR),
                ("S", TIMESTAMP),
                ("US", TIMESTAMP),
                ("P", DATE),
                ("T", TIME),
            ]
        )
    )
    columns = {
        "NAME": {"path": "$.user.name"},
        "CITY": {"path": "$.user.home.city"},
        "S": {"time_unit": "s"},
        "US": {"time_unit": "us"},
        "P": {"pattern": "dd.MM.yyyy"},
    }
    declared = stream(row_type, columns, registry_url=registry.url, subject="x", record_name="shop.Alert")
    value = value_of(encoder(declared), ("ann", None, 5_000, 7, 1, 61_000))
    (number,) = registry.subjects["x"]
    made = json.loads(registry.schemas[number]["schema"])
    assert made["name"] == "shop.Alert"
    assert [each["name"] for each in made["fields"]] == ["user", "s", "us", "p", "t"]
    found = read(value[5:], registry.schemas[number]["schema"])
    assert found["user"] == {"name": "ann", "home": {"city": None}}
    assert (found["s"], found["us"].microsecond, found["p"]) == (5, 7_000, "02.01.1970")
    assert str(found["t"]) == "00:01:01"


def test_a_declared_schema_without_a_registry_makes_messages_without_a_header(tmp_path: Path) -> None:
    schema = record(
        field("Id", "long"),
        field("at", {"type": "long", "logicalType": "timestamp-micros"}),
        field("sku", ["string", "null"]),
        field("note", "string", default="none"),
        field("tags", {"type": "array", "items": "bytes"}, default=["\u00ff"]),
        field("rest", {"type": "map", "values": "int"}, default={"a": 1}),
        field("left", ["null", "double"]),
        field(
            "total",
            {"type": "fixed", "name": "F", "size": 5, "logicalType": "decimal", "precision": 10, "scale": 3},
        ),
        field("day", "string"),
        field(
            "inner", {"type": "record", "name": "I", "fields": [field("x", "float", default=1.5)]}, default={}
        ),
    )
    file = tmp_path / "r.avsc"
    file.write_text(schema)
    made = encoder(stream(schema_file=str(file)))
    assert read(value_of(made, ROW), schema) == {
        "Id": 7,
        "at": read_at(1_767_225_600_123),
        "sku": "a1",
        "note": "none",
        "tags": [b"\xff"],
        "rest": {"a": 1},
        "left": None,
        "total": Decimal("12.500"),
        "day": "2026-01-01",
        "inner": {"x": 1.5},
    }
    with pytest.raises(
        RejectedRowError, match='"TOTAL" is NULL, and field "total" of the schema does not'
    ) as caught:
        made.encode((7, None, None, 1, 1))
    assert caught.value.reason is Reason.CONSTRAINT


def read_at(ms: int) -> datetime:
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=ms)


@pytest.mark.parametrize("wanted", ["latest", "number"])
def test_an_existing_schema_of_the_registry_is_written_with(registry: FakeRegistry, wanted: str) -> None:
    older = registry.register(
        "alerts-value", json.loads(record(field("id", "int"), field("more", "int", default=3)))
    )
    schema = record(
        field("id", "long"),
        field("total", ["null", {"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 2}]),
        field("sku", "string"),
        field("day", {"type": "int", "logicalType": "date"}),
        field("at", "long"),
    )
    newer = registry.register("alerts-value", json.loads(schema))
    if wanted == "number":
        narrow = RowType(ORDERS.fields[:1])
        declared = stream(narrow, registry_url=registry.url, schema_id=str(older))
        value = value_of(encoder(declared), (7,))
        assert value == b"\0" + older.to_bytes(4, "big") + b"\x0e\x06"
        with pytest.raises(RejectedRowError, match="4294967296 is out of the range of int"):
            encoder(declared).encode((1 << 32,))
        return
    made = encoder(stream(registry_url=registry.url, schema_id="latest"))
    value = value_of(made, ROW)
    assert value[:5] == b"\0" + newer.to_bytes(4, "big")
    assert read(value[5:], schema)["total"] == Decimal("12.50")
    with pytest.raises(RejectedRowError, match=r"100\.00 has more than 4 digits"):
        made.encode((7, "x", Decimal("100.00"), 1, 1))
    assert len(registry.schemas) == 2


def test_named_types_and_references_are_followed(registry: FakeRegistry) -> None:
    registry.register("money", {"type": "record", "name": "shop.Money", "fields": [field("euros", "double")]})
    number = registry.register(
        "alerts-value",
        {
            "type": "record",
            "name": "shop.Alert",
            "fields": [field("price", "shop.Money"), field("was", ["null", "shop.Money"])],
        },
        [("shop.Money", "money", 1)],
    )
    row_type = RowType((Field("PRICE", DOUBLE), Field("WAS", DOUBLE)))
    columns = {"PRICE": {"path": "$.price.euros"}, "WAS": {"path": "$.was.euros"}}
    declared = stream(row_type, columns, registry_url=registry.url, schema_id=str(number))
    assert value_of(encoder(declared), (1.0, 2.0))[5:].hex() == "000000000000f03f" + "02" + "0000000000000040"


REFUSED: list[tuple[RowType, str, str]] = [
    (ORDERS, record(field("id", "long")), 'it has no field "sku" for column "SKU"'),
    (
        RowType(ORDERS.fields[:1]),
        record(field("id", "string")),
        'field "id" is string, and column "ID" is BIGINT',
    ),
    (
        RowType(ORDERS.fields[:1]),
        record(field("id", "long"), field("x", "int")),
        'field "x" has no default, and the stream has no column for it',
    ),
    (RowType(ORDERS.fields[:1]), '{"type": "array", "items": "int"}', "it is array, not a record"),
    (
        RowType(ORDERS.fields[2:3]),
        record(field("total", {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 1})),
        "the schema has 1 digits after the point, the column 2",
    ),
    (RowType(ORDERS.fields[3:4]), record(field("day", "int")), "declare the time_unit of the column"),
    (
        RowType(ORDERS.fields[:1]),
        record(field("id", {"type": "long", "logicalType": "timestamp-millis"})),
        "long (timestamp-millis)",
    ),
]


@pytest.mark.parametrize(("row_type", "schema", "message"), REFUSED)
def test_a_schema_that_does_not_fit_is_refused_and_the_field_named(
    registry: FakeRegistry, row_type: RowType, schema: str, message: str
) -> None:
    both: list[dict[str, Any]] = [{"schema": schema}, {"schema": schema, "registry_url": registry.url}]
    for options in both:
        with pytest.raises(StatementError, match="the schema does not fit") as caught:
            MessageEncoder(stream(row_type, **options))
        assert message in caught.value.message
    registry.register("alerts-value", json.loads(schema))
    made = MessageEncoder(stream(row_type, registry_url=registry.url, schema_id="latest"))
    for ask in (made.check, made.prepare):
        with pytest.raises(StatementError) as caught:
            ask()
        assert message in caught.value.message


VALUES: list[tuple[Type, Any, object, str]] = [
    (VARCHAR, {"type": "enum", "name": "E", "symbols": ["X", "Y"]}, "Y", "02"),
    (VARCHAR, {"type": "string", "logicalType": "uuid"}, "6f9619ff-8b86-d011-b42d-00c04fc964ff", ""),
    (INTEGER, "double", 2, "0000000000000040"),
    (decimal(5, 0), "long", Decimal(-3), "05"),
    (INTEGER, {"type": "bytes", "logicalType": "decimal", "precision": 3}, -128, "0280"),
    (
        decimal(38, 2),
        {"type": "bytes", "logicalType": "decimal", "precision": 38, "scale": 2},
        Decimal(-(10**36) + 1),
        "",
    ),
    (Type(Kind.VARBINARY), {"type": "fixed", "name": "F", "size": 2}, b"ab", "6162"),
    (TIME, {"type": "int", "logicalType": "time-millis"}, 1, "02"),
    (TIMESTAMP, {"type": "long", "logicalType": "local-timestamp-millis"}, 1, "02"),
    (TIMESTAMP, "long", -1, "01"),
    (DOUBLE, "double", float("inf"), "000000000000f07f"),
]


@pytest.mark.parametrize(("kind", "schema", "value", "wanted"), VALUES)
def test_values_of_a_type_of_a_schema(kind: Type, schema: Any, value: object, wanted: str) -> None:
    found = one(kind, schema, value)
    assert not wanted or found.hex() == wanted
    nullable = one(kind, ["null", schema], value)
    assert nullable == b"\2" + found
    assert one(kind, [schema, "null"], None) == b"\2"
    given = io.BytesIO(found)
    fastavro.schemaless_reader(given, json.loads(record(field("a", schema))), None)
    assert given.read() == b""


REJECTED: list[tuple[Type, Any, object, str]] = [
    (VARCHAR, {"type": "enum", "name": "E", "symbols": ["X"]}, "Z", "is not a symbol of the schema: X"),
    (VARCHAR, {"type": "string", "logicalType": "uuid"}, "z", "is not a UUID"),
    (
        Type(Kind.VARBINARY),
        {"type": "fixed", "name": "F", "size": 2},
        b"a",
        "has 1 bytes, and the schema has 2",
    ),
    (Type(Kind.REAL), "float", 1e300, "out of the range of float"),
    (
        TIMESTAMP,
        {"type": "long", "logicalType": "timestamp-nanos"},
        253_402_300_799_999,
        "out of the range of long",
    ),
    (DATE, {"type": "int", "logicalType": "date"}, 3_000_000, "is not within the years 1 to 9999"),
]


@pytest.mark.parametrize(("kind", "schema", "value", "message"), REJECTED)
def test_a_value_that_the_schema_cannot_carry_is_rejected(
    kind: Type, schema: Any, value: object, message: str
) -> None:
    with pytest.raises(RejectedRowError, match=message) as caught:
        one(kind, schema, value)
    assert caught.value.reason is Reason.CONSTRAINT


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "Avro needs a Schema Registry or a schema"),
        ({"schema": "{}"}, "not an Avro schema"),
        ({"schema": record(), "schema_id": "3", "registry_url": "http://x"}, "schema is given too"),
        ({"schema": record(), "record_name": "A"}, "schema names the record"),
        ({"schema_id": "x", "registry_url": "http://x"}, "is not the number of a schema"),
        ({"schema": record(), "subject": "x"}, "the stream has no registry_url"),
        ({"record_name": "1", "registry_url": "http://x"}, "is not a name of Avro"),
        ({"auto_register": "maybe", "registry_url": "http://x"}, "neither true nor false"),
        ({"format": "JSON", "subject": "x"}, "format JSON does not take it"),
        ({"format": "JSON", "key": "id", "key_format": "AVRO"}, "AVRO needs a Schema Registry for the keys"),
    ],
)
def test_options_that_do_not_go_together_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(StatementError, match=message):
        MessageEncoder(stream(RowType(ORDERS.fields[:1]), **options))


def test_a_column_whose_name_avro_does_not_have_needs_a_path(registry: FakeRegistry) -> None:
    row_type = RowType((Field("first name", VARCHAR),))
    with pytest.raises(StatementError, match='"first name" is not a name of Avro'):
        MessageEncoder(stream(row_type, registry_url=registry.url))
    MessageEncoder(stream(row_type, {"first name": {"path": "$.first_name"}}, registry_url=registry.url))


def test_keys_in_avro_are_the_value_of_one_column_or_a_record(registry: FakeRegistry) -> None:
    single = encoder(stream(registry_url=registry.url, key="sku", key_format="AVRO"))
    (number,) = registry.subjects["alerts-key"]
    assert json.loads(registry.schemas[number]["schema"]) == "string"
    assert single.encode(ROW).key == b"\0" + number.to_bytes(4, "big") + b"\x04a1"
    assert single.encode((1, None, None, None, None)).key is None
    options: dict[str, Any] = {"format": "JSON", "key": "id,sku", "key_format": "AVRO", "key_subject": "k"}
    pair = encoder(stream(registry_url=registry.url, **options))
    (number,) = registry.subjects["k"]
    key = pair.encode(ROW).key
    assert key is not None
    assert read(key[5:], registry.schemas[number]["schema"]) == {"id": 7, "sku": "a1"}


def test_a_schema_is_not_registered_by_a_check_or_if_it_may_not_be(registry: FakeRegistry) -> None:
    MessageEncoder(stream(registry_url=registry.url)).check()
    strict = MessageEncoder(stream(registry_url=registry.url, auto_register="false"))
    for ask in (strict.check, strict.prepare):
        with pytest.raises(GoneError, match='subject "alerts-value" of the schema registry does not have'):
            ask()
    assert registry.schemas == {}
    encoder(stream(registry_url=registry.url))
    strict.check()
    strict.prepare()
    assert len(registry.schemas) == 1


def test_a_schema_that_is_not_compatible_is_refused(registry: FakeRegistry) -> None:
    registry.register("alerts-value", json.loads(record(field("id", "int"))))
    registry.compatible = False
    made = MessageEncoder(stream(registry_url=registry.url))
    with pytest.raises(MismatchError, match="is not compatible with subject"):
        made.check()
    with pytest.raises(MismatchError, match="READER_FIELD_MISSING_DEFAULT_VALUE"):
        made.prepare()
    with pytest.raises(FaultError):
        made.encode(ROW)


def test_a_registry_that_is_down_or_denies_access_is_said() -> None:
    with FakeRegistry(user="u", password="right") as registry:
        options: dict[str, Any] = {"registry_url": registry.url, "registry_user": "u"}
        with pytest.raises(DeniedError):
            MessageEncoder(stream(**options, registry_password="wrong")).check()
        made = MessageEncoder(stream(**options, registry_password="right"))
        registry.failures_left = 1
        with pytest.raises(UnavailableError):
            made.prepare()
        made.prepare()
        made.prepare()
        assert len(value_of(made, ROW)) > 5
    wrong = MessageEncoder(stream(registry_url="http://localhost:1", schema_id="4"))
    with pytest.raises(UnavailableError):
        wrong.check()


def test_a_schema_that_is_missing_or_of_another_kind_is_named(registry: FakeRegistry) -> None:
    number = registry.register("alerts-value", {"x": 1}, kind="JSON")
    for wanted, error, message in [
        ("9", GoneError, "schema 9 does not exist"),
        (str(number), MismatchError, f"schema {number} of the registry is JSON"),
    ]:
        made = MessageEncoder(stream(registry_url=registry.url, schema_id=wanted))
        with pytest.raises(error, match=message):
            made.check()
    made = MessageEncoder(stream(registry_url=registry.url, schema_id="latest", subject="none"))
    with pytest.raises(GoneError, match='subject "none" does not exist'):
        made.check()
