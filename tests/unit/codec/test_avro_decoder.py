"""Avro with a schema of the stream, and with Confluent's header and a registry (docs/sql/streams.md#avro)."""

from __future__ import annotations

import json
import random
import ssl
import subprocess
from datetime import UTC, date, datetime, time
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

import numpy as np
import pytest

from rowtide.clock import SystemClock
from rowtide.codec.contract import Decoder
from rowtide.codec.registry import decoder_of
from rowtide.errors import Reason, StatementError
from rowtide.rows.tray import Tray
from rowtide.runtime.crashpoints import NoCrash
from rowtide.runtime.ingest.intake import Channel, StreamReader
from rowtide.runtime.option_check import check_options
from rowtide.sql.pipeline import plan_pipeline
from rowtide_connectors.errors import DeniedError, UnavailableError
from rowtide_connectors.memory import memory_broker
from rowtide_connectors.registry import find_source
from support.codec import outcome
from support.registry import FakeRegistry, written

SERVER = "CREATE SERVER k FOREIGN DATA WRAPPER MEMORY OPTIONS (broker '{}');\n"
ORDER = {
    "type": "record",
    "name": "Order",
    "fields": [{"name": "id", "type": "int"}, {"name": "note", "type": ["null", "string"], "default": None}],
}


def decoder(columns: str, **options: str) -> Decoder:
    given = "".join(f", {name} '{value}'" for name, value in options.items())
    text = (
        f"{SERVER.format('avro')}CREATE FOREIGN STREAM s ({columns}) SERVER k OPTIONS (format 'AVRO'{given});"
    )
    plan = plan_pipeline(text)
    check_options(plan, text, file="p.sql")
    return decoder_of(plan.foreign_streams[0])


def test_a_message_has_the_schema_that_the_stream_names(tmp_path: Path) -> None:
    messages = [
        written(ORDER, {"id": 1, "note": "x"}),
        written(ORDER, {"id": 2, "note": None}),
        b"\x02",
        None,
    ]
    file = tmp_path / "order.avsc"
    file.write_text(json.dumps(ORDER))
    for options in ({"schema": json.dumps(ORDER)}, {"schema_file": str(file)}):
        rows, faults = outcome(decoder("id INTEGER, note VARCHAR(5)", **options), messages)
        assert rows == [(1, "x"), (2, None)]
        assert [each[:2] for each in faults] == [(2, Reason.DECODE), (3, Reason.TOMBSTONE)]


LOGICAL = {
    "type": "record",
    "name": "Everything",
    "fields": [
        {"name": "day", "type": {"type": "int", "logicalType": "date"}},
        {"name": "ms", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "us", "type": {"type": "long", "logicalType": "timestamp-micros"}},
        {"name": "clock", "type": {"type": "long", "logicalType": "time-micros"}},
        {
            "name": "price",
            "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 3},
        },
        {"name": "number", "type": {"type": "string", "logicalType": "uuid"}},
        {"name": "raw", "type": "bytes"},
        {"name": "ratio", "type": "double"},
        {"name": "small", "type": "float"},
        {"name": "color", "type": {"type": "enum", "name": "Color", "symbols": ["RED", "BLUE"]}},
        {"name": "tags", "type": {"type": "array", "items": "string"}},
        {
            "name": "user",
            "type": [
                "null",
                {"type": "record", "name": "User", "fields": [{"name": "name", "type": "string"}]},
            ],
        },
        {"name": "props", "type": {"type": "map", "values": "long"}},
        {"name": "seconds", "type": "long"},
        {"name": "choice", "type": ["null", "int", "string"]},
    ],
}
EVERYTHING = {
    "day": date(2026, 1, 1),
    "ms": datetime(2026, 1, 1, 0, 0, 0, 5000, tzinfo=UTC),
    "us": datetime(1969, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC),
    "clock": time(1, 2, 3, 4567),
    "price": Decimal("12.345"),
    "number": UUID(int=7),
    "raw": b"\x00\xff",
    "ratio": 0.25,
    "small": 0.5,
    "color": "BLUE",
    "tags": ["a", "é"],
    "user": {"name": "ann"},
    "props": {"a b": 7},
    "seconds": 1_767_225_600,
    "choice": 3,
}


def test_logical_types_unions_and_nested_values_are_what_columns_hold(registry: FakeRegistry) -> None:
    number = registry.register("t-value", LOGICAL)
    columns = (
        "day DATE, ms TIMESTAMP, us TIMESTAMP, clock TIME, price DECIMAL(9, 2), number VARCHAR(36), raw VARBINARY(2), "
        "ratio DOUBLE, small REAL, color VARCHAR(5), tags VARCHAR(20), name VARCHAR(5) OPTIONS (path '$.user.name'), "
        "second_tag VARCHAR(5) OPTIONS (path '$.tags[1]'), prop BIGINT OPTIONS (path '$.props[''a b'']'), "
        "seconds TIMESTAMP OPTIONS (time_unit 's'), choice BIGINT, \"user\" VARCHAR(30)"
    )
    whole = written(LOGICAL, EVERYTHING, number)
    rows, faults = outcome(decoder(columns, registry_url=registry.url), [whole])
    assert faults == []
    assert rows == [
        (
            *(20_454, 1_767_225_600_005, -1, 3_723_004, Decimal("12.35"), str(UUID(int=7)), b"\x00\xff"),
            *(0.25, 0.5, "BLUE", '["a", "é"]', "ann", "é", 7, 1_767_225_600_000, 3, '{"name": "ann"}'),
        )
    ]
    text = written(LOGICAL, {**EVERYTHING, "choice": "x", "user": None}, number)
    _, ((_, reason, message),) = outcome(decoder(columns, registry_url=registry.url), [text])
    assert (reason, message) == (Reason.TYPE, 'field "CHOICE": text "x" is not a valid BIGINT')


def test_messages_of_several_schemas_are_read_together(registry: FakeRegistry) -> None:
    newer = {
        "type": "record",
        "name": "Order",
        "fields": [{"name": "ID", "type": "long"}, {"name": "city", "type": "string"}],
    }
    first, second = registry.register("t-value", ORDER), registry.register("t-value", newer)
    messages = [
        written(ORDER, {"id": 1, "note": "x"}, first),
        written(newer, {"ID": 2**40, "city": "Rome"}, second),
        written(ORDER, {"id": 3}, first),
    ]
    found = decoder("id BIGINT NOT NULL, note VARCHAR(5), city VARCHAR(5)", registry_url=registry.url)
    assert outcome(found, messages)[0] == [(1, "x", None), (2**40, None, "Rome"), (3, None, None)]
    outcome(found, messages)
    assert sorted(registry.asked) == [f"/schemas/ids/{first}", f"/schemas/ids/{second}"]


def test_a_schema_to_read_by_gives_defaults_drops_and_promotes(registry: FakeRegistry) -> None:
    reader = {
        "type": "record",
        "name": "Order",
        "fields": [{"name": "id", "type": "double"}, {"name": "city", "type": "string", "default": "none"}],
    }
    number = registry.register("t-value", ORDER)
    found = decoder(
        "id DOUBLE, city VARCHAR(5), note VARCHAR(5)", registry_url=registry.url, schema=json.dumps(reader)
    )
    assert outcome(found, [written(ORDER, {"id": 1, "note": "x"}, number)])[0] == [(1.0, "none", None)]


def test_schemas_that_others_name_are_found(registry: FakeRegistry) -> None:
    address = {
        "type": "record",
        "name": "Address",
        "namespace": "shop",
        "fields": [{"name": "city", "type": "string"}],
    }
    user = {
        "type": "record",
        "name": "User",
        "namespace": "shop",
        "fields": [{"name": "home", "type": "Address"}, {"name": "work", "type": ["null", "shop.Address"]}],
    }
    registry.register("address", address)
    number = registry.register("t-value", user, [("shop.Address", "address", 1)])
    inline = json.loads(json.dumps(user).replace('"Address"', json.dumps(address), 1))
    message = written(inline, {"home": {"city": "Rome"}, "work": {"city": "Pisa"}}, number)
    columns = "home VARCHAR(9) OPTIONS (path '$.home.city'), work VARCHAR(9) OPTIONS (path '$.work.city')"
    assert outcome(decoder(columns, registry_url=registry.url), [message]) == ([("Rome", "Pisa")], [])


def test_what_is_not_of_the_registry_is_rejected_and_the_others_are_not(registry: FakeRegistry) -> None:
    number = registry.register("t-value", ORDER)
    proto = registry.register("other", "syntax", kind="PROTOBUF")
    fine = written(ORDER, {"id": 1}, number)
    bad = [
        (written(ORDER, {"id": 1}, 99), "schema 99 does not exist in the registry"),
        (b'{"id": 1}', "does not begin with the header of a registry: byte 123"),
        (b"\0\0", "does not begin with the header of a registry"),
        (b"", "does not begin with the header of a registry: nothing"),
        (written(ORDER, {"id": 1}, proto), "is PROTOBUF, not AVRO"),
        (fine[:-1], "does not fit its schema"),
        (fine + b"x", "1 bytes are left"),
    ]
    found = decoder("id INTEGER", registry_url=registry.url)
    rows, faults = outcome(found, [each for message, _ in bad for each in (message, fine)])
    assert rows == [(1,)] * len(bad)
    assert [reason for _, reason, _ in faults] == [Reason.DECODE] * len(bad)
    for (_, _, message), (_, wanted) in zip(faults, bad, strict=True):
        assert wanted in message


@pytest.mark.parametrize("seed", range(2))
def test_damaged_messages_stop_nothing(registry: FakeRegistry, seed: int) -> None:
    number = registry.register("t-value", LOGICAL)
    columns = (
        "day DATE, ms TIMESTAMP, price DECIMAL(9, 2), raw VARBINARY(9), tags VARCHAR(99), props VARCHAR(99)"
    )
    found = decoder(columns, registry_url=registry.url)
    chance, whole = random.Random(seed), written(LOGICAL, EVERYTHING, number)
    messages = []
    for _ in range(5000):
        damaged = bytearray(whole)
        for _ in range(chance.randint(1, 3)):
            at = chance.randrange(5, len(damaged))
            if chance.random() < 0.7:
                damaged[at] = chance.randrange(256)
            else:
                del damaged[at : at + chance.randint(1, 5)]
        messages.append(bytes(damaged))
    decoded = found.decode(messages)
    places = sorted([*decoded.accepted.tolist(), *(fault.index for fault in decoded.faults)])
    assert places == list(range(len(messages)))
    assert decoded.faults


def test_a_registry_that_is_down_stops_the_stream_and_loses_nothing(registry: FakeRegistry) -> None:
    number = registry.register("t-value", ORDER)
    text = (
        f"{SERVER.format('avro-down')}CREATE FOREIGN STREAM s (id INTEGER) SERVER k "
        f"OPTIONS (topic 't', partitions '2', format 'AVRO', registry_url '{registry.url}');"
    )
    (stream,) = plan_pipeline(text).foreign_streams
    broker = memory_broker("avro-down")
    broker.ensure_topic("t", 2)
    for partition in (0, 1):
        values = [written(ORDER, {"id": 10 * partition + at}, number) for at in range(3)]
        broker.produce("t", values, timestamps=[0] * 3, partition=partition)
    source = find_source("memory").open({"broker": "avro-down"}, {"topic": "t", "partitions": "2"})
    channel = Channel(stream, source, decoder_of(stream), {0: 0, 1: 1})
    reader = StreamReader(channel, {0: 0, 1: 0}, NoCrash(), SystemClock(), lambda *_: None)
    registry.failing = True
    for _ in range(2):
        with pytest.raises(UnavailableError, match="answers 500"):
            reader.poll(1.0)
    registry.failing = False
    found: list[int] = []
    while len(found) < 6:
        for delivery in reader.poll(1.0):
            assert not delivery.faults
            for part in delivery.parts:
                assert isinstance(part, Tray)
                found += np.asarray(part.columns[0].values).tolist()
    assert sorted(found) == [0, 1, 2, 10, 11, 12]
    reader.close()


def test_a_registry_may_ask_for_a_password_and_have_an_address_more() -> None:
    with FakeRegistry(user="reader", password="s3cret") as fake:
        number = fake.register("t-value", ORDER)
        message = written(ORDER, {"id": 1}, number)
        with pytest.raises(DeniedError, match="refuses access") as caught:
            decoder("id INTEGER", registry_url=fake.url).decode([message])
        assert "registry_user" in (caught.value.hint or "")
        found = decoder(
            "id INTEGER",
            registry_url=f"http://localhost:1, {fake.url}",
            registry_user="reader",
            registry_password="s3cret",
        )
        assert outcome(found, [message])[0] == [(1,)]


def test_a_registry_is_reached_by_tls(tmp_path: Path) -> None:
    key, certificate = tmp_path / "key.pem", tmp_path / "cert.pem"
    subprocess.run(
        [
            *(
                "openssl",
                "req",
                "-x509",
                "-newkey",
                "rsa:2048",
                "-nodes",
                "-days",
                "2",
                "-subj",
                "/CN=localhost",
            ),
            *("-addext", "subjectAltName=DNS:localhost", "-keyout", str(key), "-out", str(certificate)),
        ],
        check=True,
        capture_output=True,
    )
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(certificate, key)
    with FakeRegistry(tls=tls) as fake:
        message = written(ORDER, {"id": 1}, fake.register("t-value", ORDER))
        with pytest.raises(UnavailableError, match="certificate"):
            decoder("id INTEGER", registry_url=fake.url).decode([message])
        found = decoder("id INTEGER", registry_url=fake.url, registry_ca=str(certificate))
        assert outcome(found, [message])[0] == [(1,)]


@pytest.mark.parametrize(
    "schema",
    [5, [], {"type": "record", "name": "R", "fields": 5}, {"type": "record"}, {"type": "nothing"}],
)
def test_a_schema_of_the_registry_that_is_none_rejects_its_messages_alone(
    registry: FakeRegistry, schema: Any
) -> None:
    fine = written(ORDER, {"id": 1}, registry.register("t-value", ORDER))
    number = registry.register("u-value", schema)
    rows, faults = outcome(
        decoder("id INTEGER", registry_url=registry.url),
        [fine, b"\0" + number.to_bytes(4, "big") + b"x", fine],
    )
    assert rows == [(1,), (1,)]
    assert [(index, reason) for index, reason, _ in faults] == [(1, Reason.DECODE)]
    assert f"schema {number} of the registry" in faults[0][2] or "does not fit" in faults[0][2]


EMPTY = {"type": "record", "name": "Empty", "fields": [{"name": "n", "type": "null"}]}


@pytest.mark.parametrize(
    "items", ["null", {"type": "null"}, EMPTY, {"type": "fixed", "name": "F", "size": 0}], ids=str
)
@pytest.mark.parametrize("within", ["field", "union", "reference"])
def test_an_array_that_a_message_does_not_limit_is_refused(
    registry: FakeRegistry, items: Any, within: str
) -> None:
    array = {"type": "array", "items": items}
    references: list[tuple[str, str, int]] = []
    if within == "reference":
        registry.register(
            "item", {"type": "record", "name": "Item", "fields": [{"name": "a", "type": array}]}
        )
        references, array = [("Item", "item", 1)], {"type": "map", "values": "Item"}
    value = ["null", array] if within == "union" else array
    schema = {
        "type": "record",
        "name": "R",
        "fields": [{"name": "id", "type": "int"}, {"name": "a", "type": value}],
    }
    number = registry.register("t-value", schema, references)
    # An id, and an array of 2^40 items.
    message = b"\0" + number.to_bytes(4, "big") + b"\2" + b"\2" * (within == "union") + b"\x80" * 5 + b"\x20"
    _, ((_, reason, said),) = outcome(decoder("id INTEGER", registry_url=registry.url), [message])
    assert reason is Reason.DECODE
    assert "an array has items that take no bytes" in said


@pytest.mark.parametrize(
    ("options", "wanted"),
    [
        ({"schema": '{"type": "array", "items": "null"}'}, "an array has items that take no bytes"),
        ({}, "needs a Schema Registry or a schema"),
        ({"schema": "{"}, "not an Avro schema"),
        ({"schema": '{"type": "nothing"}'}, "not an Avro schema"),
        ({"schema": "5"}, "not an Avro schema"),
        ({"schema_file": "/nowhere.avsc"}, "cannot be read"),
        ({"schema": '"int"', "schema_file": "x"}, "schema is given too"),
        ({"registry_url": "localhost:8081"}, "is not the address of a schema registry"),
        (
            {"registry_url": "https://h", "registry_ca": "/nowhere.pem"},
            "the certificates for the schema registry",
        ),
    ],
)
def test_options_that_cannot_be_are_refused(options: dict[str, str], wanted: str) -> None:
    with pytest.raises(StatementError) as caught:
        decoder("id INTEGER", **options)
    assert wanted in caught.value.message
