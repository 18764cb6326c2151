"""Rows to Protobuf: messages of columns, of descriptors and of a registry, and what does not fit them."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import pytest
from google.protobuf.descriptor_pb2 import FileDescriptorProto
from google.protobuf.json_format import MessageToDict

from rowtide.codec.message import MessageEncoder
from rowtide.codec.registry import decoder_of
from rowtide.errors import FaultError, Reason, RejectedRowError, StatementError
from rowtide.plan.plan import ForeignStream
from rowtide.rows.types import (
    BIGINT,
    DATE,
    DOUBLE,
    INTEGER,
    JSON,
    TIME,
    TIMESTAMP,
    VARCHAR,
    Field,
    Kind,
    RowType,
    Type,
    decimal,
)
from rowtide_connectors.errors import GoneError, MismatchError, UnavailableError
from support.protobuf import FILE, headed, message, register
from support.registry import FakeRegistry

ORDERS = RowType(
    (
        Field("ID", BIGINT, nullable=False),
        Field("NOTE", VARCHAR),
        Field("AT", TIMESTAMP),
        Field("CITY", VARCHAR),
    )
)
CITY = {"CITY": {"path": "$.user.address.city"}}
ROW = (7, "x", 1_767_225_600_123, "Rome")


def stream(
    row_type: RowType = ORDERS, columns: dict[str, dict[str, str]] | None = None, /, **options: str
) -> ForeignStream:
    own = tuple((name, tuple(given.items())) for name, given in (columns or {}).items())
    given = {"topic": "alerts", "format": "PROTOBUF"} | options
    return ForeignStream("ALERTS", row_type, "K", tuple(given.items()), column_options=own)


def value_of(declared: ForeignStream, row: Sequence[object]) -> bytes:
    made = MessageEncoder(declared)
    made.prepare()
    value = made.encode(row).value
    assert value is not None
    return value


def one(name: str, kind: Type, value: object, of: str = "shop.Everything", **options: str) -> Any:
    """Return the message of one column as google's JSON has it."""
    declared = stream(
        RowType((Field("A", kind),)),
        {"A": {"path": f"$.{name}", **options}},
        descriptor=str(FILE),
        message=of,
    )
    found = message(of)
    found.ParseFromString(value_of(declared, (value,)))
    return MessageToDict(found, preserving_proto_field_name=True)


def file_of(registry: FakeRegistry, number: int) -> Any:
    return FileDescriptorProto.FromString(base64.b64decode(registry.schemas[number]["schema"]))


def test_the_schema_is_made_of_the_columns_and_registered_under_the_topic(registry: FakeRegistry) -> None:
    declared = stream(ORDERS, CITY, registry_url=registry.url, message="shop.Alert")
    value = value_of(declared, ROW)
    (number,) = registry.subjects["alerts-value"]
    assert value[:6] == b"\0" + number.to_bytes(4, "big") + b"\0"
    assert registry.schemas[number]["schemaType"] == "PROTOBUF"
    (root,) = file_of(registry, number).message_type
    assert (root.name, [(each.name, each.number, each.proto3_optional) for each in root.field]) == (
        "Alert",
        [("id", 1, False), ("note", 2, True), ("at", 3, False), ("user", 4, False)],
    )
    found = decoder_of(declared).decode([value, value_of(declared, (8, None, None, None))])
    rows = list(zip(*(column.to_list() for column in found.columns), strict=True))
    assert rows == [ROW, (8, None, None, None)]
    # A second process gets the same number.
    assert list(registry.schemas) == [number]


def test_a_row_has_one_message_whatever_the_order_of_the_entries_of_its_map(registry: FakeRegistry) -> None:
    made = [
        one("by_number", JSON, text)["by_number"] for text in ('{"1": "a", "2": "b"}', '{"2": "b", "1": "a"}')
    ]
    assert made[0] == made[1] == {"1": "a", "2": "b"}
    declared = stream(
        RowType((Field("A", JSON),)),
        {"A": {"path": "$.by_number"}},
        descriptor=str(FILE),
        message="shop.Everything",
    )
    keys = [str(key) for key in range(40)]
    texts = ["{" + ", ".join(f'"{key}": "x"' for key in each) + "}" for each in (keys, keys[::-1])]
    assert value_of(declared, (texts[0],)) == value_of(declared, (texts[1],))


def test_the_newest_schema_of_the_registry_is_written_with_its_number(registry: FakeRegistry) -> None:
    number = register(registry, "alerts-value")
    row_type = RowType((Field("ID", BIGINT), Field("CITY", VARCHAR)))
    options = {"registry_url": registry.url, "schema_id": "latest"}
    value = value_of(stream(row_type, CITY, **options), (1, "Rome"))
    wanted = message("shop.Order", id=1, user={"address": {"city": "Rome"}})
    assert value == headed(number, wanted.SerializeToString())
    name = RowType((Field("SKU", VARCHAR),))
    value = value_of(stream(name, message="shop.Order.Item", **options), ("a",))
    assert value == headed(number, message("shop.Order.Item", sku="a").SerializeToString(), [0, 0])
    MessageEncoder(stream(name, message="shop.Order.Item", **options)).check()
    for wrong, problem in (
        ("shop.Nothing", 'has no message "shop.Nothing"'),
        ("shop.Address", "is in a file that the schema references"),
    ):
        with pytest.raises(StatementError, match=problem):
            MessageEncoder(stream(name, message=wrong, **options)).check()


def test_a_registry_may_lack_the_schema_refuse_it_or_be_down(registry: FakeRegistry) -> None:
    made = MessageEncoder(stream(registry_url=registry.url, auto_register="false"))
    for asked in (made.check, made.prepare):
        with pytest.raises(GoneError, match="does not have the schema of the columns"):
            asked()
    with pytest.raises(FaultError, match="not known yet"):
        made.encode(ROW)
    avro = registry.register("alerts-value", "string")
    with pytest.raises(MismatchError, match=f"schema {avro} of the registry is AVRO, not PROTOBUF"):
        MessageEncoder(stream(registry_url=registry.url, schema_id="latest")).check()
    registry.compatible = False
    with pytest.raises(MismatchError, match="not compatible"):
        MessageEncoder(stream(registry_url=registry.url)).check()
    registry.failing = True
    with pytest.raises(UnavailableError):
        MessageEncoder(stream(registry_url=registry.url)).prepare()


@pytest.mark.parametrize(
    ("name", "kind", "value", "wanted"),
    [
        ("f_string", decimal(9, 2), Decimal("12.50"), "12.50"),
        ("f_string", TIMESTAMP, 0, "1970-01-01T00:00:00.000Z"),
        ("f_string", TIME, 1, "00:00:00.001"),
        ("f_string", JSON, '{"a": 1}', '{"a": 1}'),
        ("f_int64", TIMESTAMP, 5, "5"),
        ("w_int64", BIGINT, 0, "0"),
        ("w_string", VARCHAR, "", ""),
        ("at", DATE, 1, "1970-01-02T00:00:00Z"),
        ("at", TIMESTAMP, -1, "1969-12-31T23:59:59.999Z"),
        ("lapse", INTEGER, -90, "-90s"),
        ("lapse", decimal(9, 3), Decimal("-0.5"), "-0.500s"),
        ("color", INTEGER, 2, "BLUE"),
        ("numbers", JSON, "[1, 2]", [1, 2]),
        ("struct", JSON, '{"a": [null, "x"]}', {"a": [None, "x"]}),
        ("tree", JSON, '{"n": 1, "inside": [{"n": 2}]}', {"n": 1, "inside": [{"n": 2}]}),
    ],
)
def test_each_column_fills_the_fields_that_hold_it(
    name: str, kind: Type, value: object, wanted: object
) -> None:
    assert one(name, kind, value) == {name: wanted}


@pytest.mark.parametrize(
    ("name", "kind", "value", "wanted"),
    [
        ("f_int32", BIGINT, 2**31, 'column "A": 2147483648 is out of the range of field "f_int32"'),
        ("f_uint32", INTEGER, -1, "out of the range"),
        ("f_int32", INTEGER, None, 'column "A" is NULL, and field "f_int32" cannot be left out'),
        ("color", VARCHAR, "GREEN", 'text "GREEN" is not a value of the enum: COLOR_UNSPECIFIED, RED, BLUE'),
        ("color", INTEGER, 9, "9 is not a number of the enum"),
        ("lapse", BIGINT, 2**62, "seconds are more than a Duration holds"),
        ("at", TIMESTAMP, 2**60, "is not within the years 1 to 9999"),
        ("numbers", JSON, '["a"]', 'the JSON does not fit field "numbers"'),
        ("tree", JSON, '{"m": 1}', 'the JSON does not fit field "tree"'),
    ],
)
def test_a_value_that_the_field_cannot_hold_is_rejected(
    name: str, kind: Type, value: object, wanted: str
) -> None:
    with pytest.raises(RejectedRowError) as caught:
        one(name, kind, value)
    assert caught.value.reason is Reason.CONSTRAINT
    assert wanted in caught.value.message


@pytest.mark.parametrize(
    ("name", "kind", "options", "wanted"),
    [
        ("f_int32", VARCHAR, {}, 'field "f_int32" is int32, and column "A" is VARCHAR'),
        ("f_float", DOUBLE, {}, 'field "f_float" is float'),
        ("f_double", BIGINT, {}, 'field "f_double" is double'),
        ("f_int32", DATE, {}, "declare the time_unit of the column"),
        ("at", TIMESTAMP, {"pattern": "yyyy"}, 'field "at" is google.protobuf.Timestamp'),
        ("numbers", VARCHAR, {}, 'field "numbers" is repeated int32'),
        ("f_bool", INTEGER, {}, 'field "f_bool" is bool'),
        ("f_bytes", VARCHAR, {}, 'field "f_bytes" is bytes'),
        ("color", DOUBLE, {}, 'field "color" is shop.Color'),
        ("f_string.x", VARCHAR, {}, 'field "f_string" is not a message, so it has no "x"'),
        ("nothing", VARCHAR, {}, 'it has no field "nothing" for column "A"'),
        ("tree.m", VARCHAR, {}, 'it has no field "tree.m"'),
    ],
)
def test_a_field_that_cannot_hold_its_column_is_refused(
    name: str, kind: Type, options: dict[str, str], wanted: str
) -> None:
    with pytest.raises(StatementError) as caught:
        one(name, kind, None, **options)
    assert wanted in caught.value.message


def test_required_fields_need_a_column_and_a_value() -> None:
    with pytest.raises(StatementError, match='field "id" is required, and the stream has no column'):
        one("kind", VARCHAR, "x", "legacy.Event")
    assert one("id", BIGINT, 1, "legacy.Event") == {"id": "1"}
    with pytest.raises(RejectedRowError, match='column "A" is NULL, and field "id" cannot be left out'):
        one("id", BIGINT, None, "legacy.Event")
    row_type = RowType((Field("ID", BIGINT), Field("PART", JSON)))
    declared = stream(row_type, descriptor=str(FILE), message="legacy.Event")
    with pytest.raises(RejectedRowError, match="the message is not complete"):
        value_of(declared, (1, "[{}]"))


@pytest.mark.parametrize(
    ("options", "wanted"),
    [
        ({}, "Protobuf needs descriptors or a Schema Registry"),
        (
            {"descriptor": str(FILE), "message": "shop.Order", "subject": "s"},
            "the stream has no registry_url",
        ),
        ({"registry_url": "http://localhost:1", "descriptor": str(FILE)}, "registry_url is given too"),
        ({"registry_url": "http://localhost:1", "message": "1.x"}, '"1.x" is not a name of Protobuf'),
        ({"registry_url": "http://localhost:1", "schema_id": "x"}, "is not the number of a schema"),
        ({"registry_url": "http://localhost:1", "record_name": "x"}, "format PROTOBUF does not take it"),
        ({"registry_url": "http://localhost:1", "key": "id", "key_format": "PROTOBUF"}, "is not supported"),
    ],
)
def test_options_that_do_not_fit_are_refused(options: dict[str, str], wanted: str) -> None:
    with pytest.raises(StatementError) as caught:
        MessageEncoder(stream(**options))
    assert wanted in caught.value.message


def test_two_columns_of_one_field_are_refused() -> None:
    row_type = RowType((Field("Id", BIGINT), Field("ID", BIGINT)))
    with pytest.raises(StatementError, match='two columns have field "id"'):
        MessageEncoder(stream(row_type, descriptor=str(FILE), message="shop.Order"))


def test_names_of_columns_that_protobuf_lacks_are_refused() -> None:
    row_type = RowType((Field("a b", Type(Kind.BOOLEAN)),))
    with pytest.raises(StatementError, match='"a b" is not a name of Protobuf'):
        MessageEncoder(stream(row_type, registry_url="http://localhost:1"))


def test_keys_of_upserts_are_json_as_a_table_reads_them(registry: FakeRegistry) -> None:
    made = MessageEncoder(stream(key="id", changes="upsert", registry_url=registry.url))
    made.prepare()
    assert made.encode(ROW).key == b"7"
    assert made.encode(ROW, deletes=True).value is None
