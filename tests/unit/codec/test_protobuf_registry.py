"""Protobuf with Confluent's header and a registry (docs/sql/streams.md#protobuf)."""

from __future__ import annotations

import base64
from decimal import Decimal
from typing import Any

import pytest
from google.protobuf.descriptor_pb2 import FileDescriptorProto
from google.protobuf.message_factory import GetMessageClass

from rowtide.codec.protobuf.built_in import DATE, DECIMAL, TIME_OF_DAY
from rowtide.codec.protobuf.schemas import fetched_file, pool_of
from rowtide.errors import Reason
from rowtide_connectors.errors import UnavailableError
from rowtide_connectors.schema_registry import SchemaRegistry
from support.codec import outcome
from support.protobuf import FILE, decoder, files, headed, register, written
from support.registry import FakeRegistry


def test_messages_of_a_registry_name_their_schema_and_their_message(registry: FakeRegistry) -> None:
    number = register(registry, "t-value")
    rome = {"name": "ann", "address": {"city": "Rome"}}
    messages = [
        headed(number, written("shop.Order", id=7, user=rome)),
        headed(number, written("shop.User", **rome), [1]),
        headed(number, written("shop.Order.Item", sku="a", qty=3), [0, 0]),
        headed(number, written("shop.Order.Item.Lot", number=5), [0, 0, 0]),
    ]
    found = decoder(
        "id BIGINT, city VARCHAR(9) OPTIONS (path '$.user.address.city'), name VARCHAR(9), sku VARCHAR(9), "
        "number INTEGER",
        registry_url=registry.url,
    )
    rows = [
        (7, "Rome", None, None, None),
        (None, None, "ann", None, None),
        (None, None, None, "a", None),
        (None, None, None, None, 5),
    ]
    assert outcome(found, messages) == (rows, [])
    asked = len(registry.asked)
    assert outcome(found, messages) == (rows, [])
    assert len(registry.asked) == asked


def test_a_message_of_another_type_than_the_declared_one_is_rejected(registry: FakeRegistry) -> None:
    number = register(registry, "t-value")
    fine, other = (
        headed(number, written("shop.Order", id=1)),
        headed(number, written("shop.User", name="a"), [1]),
    )
    found = decoder("id BIGINT", registry_url=registry.url, message="shop.Order")
    rows, faults = outcome(found, [fine, other, fine])
    assert rows == [(1,), (1,)]
    assert faults == [(1, Reason.DECODE, "the message is shop.User, not shop.Order")]
    # Descriptors beside the header: the registry is not asked.
    registry.failing = True
    found = decoder("id BIGINT", registry_url=registry.url, descriptor=str(FILE), message="shop.Order")
    rows, faults = outcome(found, [fine, other, fine])
    assert rows == [(1,), (1,)]
    assert faults == [
        (1, Reason.DECODE, "the header names message [1] of its file, and shop.Order is [0]"),
    ]


def test_columns_that_a_schema_cannot_fill_reject_its_messages_alone(registry: FakeRegistry) -> None:
    number = register(registry, "t-value")
    found = decoder("name VARCHAR(9) OPTIONS (path '$.name.first')", registry_url=registry.url)
    rows, faults = outcome(
        found,
        [headed(number, written("shop.User", name="a"), [1]), headed(number, written("shop.Order", id=1))],
    )
    assert rows == [(None,)]
    assert faults == [
        (
            0,
            Reason.TYPE,
            'field "NAME" ($.name.first): $.name is not a message, so it has no field "first"',
        )
    ]


def test_what_is_not_of_the_registry_is_rejected_and_the_others_are_not(registry: FakeRegistry) -> None:
    number = register(registry, "t-value")
    avro = registry.register("other", "string")
    alone = registry.register_protobuf(
        "alone", base64.b64encode(files()["shop.proto"].SerializeToString()).decode()
    )
    value = written("shop.Order", id=1)
    fine = headed(number, value)
    bad = [
        (headed(99, value), "schema 99 does not exist in the registry"),
        (b'{"id": 1}', "does not begin with the header of a registry: byte 123"),
        (b"\0\0\0\0\1", "does not begin with the header of a registry"),
        (b"", "does not begin with the header of a registry: nothing"),
        (headed(avro, value), "is AVRO, not PROTOBUF"),
        (headed(number, value, [9]), "it has no message [9]"),
        (headed(number, value, [0, 7]), "it has no message [0, 7]"),
        (fine[:5] + b"\x03" + value, "has -2 places of message types"),
        (fine[:5] + b"\x80", "the header of the message is cut off"),
        (headed(alone, value), 'imports "address.proto", which is missing'),
        (fine[:-1], "the message is not shop.Order: $.id at byte 1: a number is cut off"),
    ]
    found = decoder("id INTEGER", registry_url=registry.url)
    rows, faults = outcome(found, [each for text, _ in bad for each in (text, fine)])
    assert rows == [(1,)] * len(bad)
    assert [reason for _, reason, _ in faults] == [Reason.DECODE] * len(bad)
    for (_, _, text), (_, wanted) in zip(faults, bad, strict=True):
        assert wanted in text


def test_a_registry_that_is_down_or_that_gives_no_descriptors_rejects_nothing(registry: FakeRegistry) -> None:
    number = register(registry, "t-value")
    fine = headed(number, written("shop.Order", id=1))
    found = decoder("id INTEGER", registry_url=registry.url)
    registry.failing = True
    with pytest.raises(UnavailableError, match="answers 500"):
        found.decode([fine])
    registry.failing, registry.serializes = False, False
    with pytest.raises(UnavailableError, match="does not answer with the descriptors") as caught:
        found.decode([fine])
    assert "descriptor '/etc/rowtide/orders.desc', message 'shop.Order'" in (caught.value.hint or "")


CONNECT = FileDescriptorProto(
    name="sale.proto",
    package="shop",
    syntax="proto3",
    dependency=[
        *("confluent/meta.proto", "confluent/type/decimal.proto"),
        *("google/type/date.proto", "google/type/timeofday.proto"),
    ],
)
SALE = CONNECT.message_type.add(name="Sale")
for _number, (_name, _type) in enumerate({"price": DECIMAL, "day": DATE, "at": TIME_OF_DAY}.items(), 1):
    SALE.field.add(name=_name, number=_number, type=11, label=1, type_name=f".{_type}")


@pytest.mark.parametrize(
    ("column", "fields", "wanted"),
    [
        (
            "price DECIMAL(9, 2)",
            {"price": {"value": (-1250).to_bytes(2, "big", signed=True), "scale": 2}},
            Decimal("-12.50"),
        ),
        (
            "price DECIMAL(38, 0)",
            {"price": {"value": (10**37).to_bytes(16, "big"), "scale": 0}},
            Decimal(10**37),
        ),
        ("price DECIMAL(9, 2)", {"price": {"value": b"", "scale": 3}}, Decimal("0.00")),
        ("price INTEGER", {"price": {"value": b"\x07", "scale": 0}}, 7),
        ("price DOUBLE", {"price": {"value": b"\x05", "scale": 1}}, 0.5),
        ("price DECIMAL(9, 2)", {"price": {"value": b"\x01", "scale": 2**31 - 1}}, Decimal("0.00")),
        (
            "price DECIMAL(9, 2)",
            {"price": {"value": b"\x01", "scale": -(2**31)}},
            "too many digits before the point",
        ),
        ("price DECIMAL(9, 2)", {"price": {"value": b"\x01" * 4000, "scale": 2}}, "it has too many digits"),
        ("day DATE", {"day": {"year": 2026, "month": 1, "day": 1}}, 20_454),
        ("day DATE", {"day": {"year": 2026, "month": 2, "day": 30}}, "it is 2026-2-30"),
        ("day DATE", {"day": {"year": 2**31 - 1, "month": 2, "day": 3}}, "it is 2147483647-2-3"),
        ("at TIME", {"at": {"hours": 1, "minutes": 2, "seconds": 3, "nanos": 4_567_890}}, 3_723_004),
        ("at TIME", {"at": {"hours": 24}}, "it is 24:0:0, 0 nanos"),
        ("at JSON", {"at": {"hours": 1}}, '{"hours": 1, "minutes": 0, "seconds": 0, "nanos": 0}'),
        ("at TIME", {}, None),
    ],
)
def test_types_that_connect_writes_come_without_references(
    registry: FakeRegistry, column: str, fields: dict[str, Any], wanted: object
) -> None:
    number = registry.register_protobuf("t-value", base64.b64encode(CONNECT.SerializeToString()).decode())
    sale = GetMessageClass(pool_of([CONNECT]).FindMessageTypeByName("shop.Sale"))(**fields)
    rows, faults = outcome(
        decoder(column, registry_url=registry.url), [headed(number, sale.SerializeToString())]
    )
    if faults:
        assert str(wanted) in faults[0][2]
        assert faults[0][1] is Reason.TYPE
    else:
        assert rows == [(wanted,)]


def test_a_registry_that_fails_at_descriptors_alone_has_a_cure(registry: FakeRegistry) -> None:
    number = register(registry, "t-value")
    client = SchemaRegistry([registry.url])
    assert client.by_id(number).kind == "PROTOBUF"
    registry.failing = True
    with pytest.raises(UnavailableError, match="answers 500") as caught:
        fetched_file(client, number)
    assert "If only this fails: declare the descriptors" in (caught.value.hint or "")
