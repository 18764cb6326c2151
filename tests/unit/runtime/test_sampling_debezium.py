"""Tables proposed from Debezium's envelopes, and messages that a proposal could not read."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rowtide.clock import SystemClock
from rowtide.codec.avro import parsed
from rowtide.codec.registry import decoder_of
from rowtide.runtime.inspect.inferring.of_debezium import (
    is_envelope_schema,
    proposal_of_envelope_schema,
    proposal_of_envelopes,
)
from rowtide.runtime.inspect.inferring.proposal import proposal
from rowtide.runtime.inspect.sampling import Sample, take_sample
from rowtide.sql.pipeline import plan_pipeline
from rowtide_connectors.memory import memory_broker
from rowtide_connectors.registry import find_source
from rowtide_connectors.schema_registry import SchemaRegistry
from support.registry import FakeRegistry, written

SERVER = "CREATE SERVER k FOREIGN DATA WRAPPER MEMORY OPTIONS (broker 'sampling');\n"
TOPIC = "shop.public.users"


def encoded(documents: Sequence[object]) -> list[bytes]:
    return [json.dumps(each).encode() for each in documents]


def of_envelopes(documents: Sequence[object], keys: Sequence[object] = ()) -> str | None:
    sample = Sample(TOPIC, {0: encoded(documents)}, keys={0: encoded(keys)})
    return proposal_of_envelopes(sample, "k", {"topic": TOPIC})


def change(op: str, before: object, after: object) -> dict[str, object]:
    return {"op": op, "before": before, "after": after, "source": {"table": "users"}, "ts_ms": 1}


def test_envelopes_are_a_table_with_the_key_of_the_messages() -> None:
    changes = [
        change("r", None, {"tenant": 1, "id": 7, "name": "ann", "tags": [{"a": 1}], "note": None}),
        change("c", None, {"tenant": 1, "id": 8, "name": "bob", "tags": [], "note": "x"}),
        change("u", {"tenant": 1, "id": 8}, {"tenant": 1, "id": 8, "name": "__debezium_unavailable_value"}),
        change("d", {"tenant": 1, "id": 7, "name": None}, None),
    ]
    text = of_envelopes(changes, [{"tenant": 1, "id": 7}] * 4)
    assert text is not None
    assert text.splitlines() == [
        "-- from 4 messages of topic 'shop.public.users': check the types",
        "",
        "CREATE TABLE users (",
        "  tenant BIGINT,",
        "  id BIGINT,",
        "  name VARCHAR(10),",
        "  tags JSON,  -- arrays",
        "  note VARCHAR(10),",
        "  PRIMARY KEY (tenant, id)",
        ") SERVER k OPTIONS (topic 'shop.public.users', format 'DEBEZIUM_JSON');",
    ]
    plan_pipeline(SERVER + text)


def test_the_schema_beside_an_envelope_says_what_its_numbers_are() -> None:
    kinds = {
        "day": "Date",
        "at": "MicroTimestamp",
        "made": "Timestamp",
        "zone": "ZonedTimestamp",
        "tm": "MicroTime",
    }
    fields = [{"field": "id", "type": "int32"}]
    fields += [
        {"field": name, "type": "int64", "name": f"io.debezium.time.{kind}"} for name, kind in kinds.items()
    ]
    row = {
        "id": 1,
        "day": 20454,
        "at": 1_767_225_600_000_000,
        "made": 5,
        "zone": "2026-01-01T00:00:00+01:00",
        "tm": 36_000_000_000,
    }
    schema = {"type": "struct", "fields": [{"field": "after", "type": "struct", "fields": fields}]}
    documents = [{"schema": schema, "payload": change("c", None, row)}]
    text = of_envelopes(documents, [{"schema": {}, "payload": {"id": 1}}])
    assert text is not None
    assert text.splitlines()[3:9] == [
        "  id BIGINT,",
        "  day DATE NOT NULL OPTIONS (time_unit 'd'),",
        "  at TIMESTAMP NOT NULL OPTIONS (time_unit 'us'),",
        "  made TIMESTAMP NOT NULL,",
        "  zone TIMESTAMP WITH TIME ZONE NOT NULL,",
        "  tm TIME NOT NULL OPTIONS (time_unit 'us'),",
    ]
    assert decoded_without_faults(text, encoded(documents), [b'{"id":1}']) == 1


DECIMAL = "org.apache.kafka.connect.data.Decimal"
DECIMAL_NOTE = "  -- bytes of a decimal: set decimal.handling.mode=string in the connector"


def test_decimals_in_bytes_are_named() -> None:
    fields = [{"field": "id", "type": "int32"}, {"field": "price", "type": "bytes", "name": DECIMAL}]
    schema = {"type": "struct", "fields": [{"field": "after", "type": "struct", "fields": fields}]}
    text = of_envelopes([{"schema": schema, "payload": change("c", None, {"id": 1, "price": "AfQ="})}])
    assert text is not None
    assert f"  price VARCHAR(10) NOT NULL,{DECIMAL_NOTE}" in text.splitlines()
    plan_pipeline(SERVER + text)


@pytest.mark.parametrize(
    ("row", "keys", "key"),
    [
        ({"name": "x", "ID": 3}, (), "id"),
        ({"code": "x", "name": None}, (), "code"),
        ({"code": "x", "id": 3}, ["x"], "id"),
        ({"code": "x", "id": 3}, [{"other": 1}], "id"),
    ],
)
def test_a_key_that_the_messages_do_not_name_is_a_guess(
    row: Mapping[str, object], keys: Sequence[object], key: str
) -> None:
    text = of_envelopes([change("c", None, row)], keys)
    assert text is not None
    assert f"PRIMARY KEY ({key})" in text
    assert "-- the keys of the messages do not name columns: check the PRIMARY KEY" in text
    plan_pipeline(SERVER + text)


@pytest.mark.parametrize(
    "documents",
    [
        [{"op": "c", "id": 1}],
        [{"after": {"id": 1}}],
        [change("c", None, {"id": 1}), {"id": 1}],
        [change("t", None, None)],
        [{"schema": 1, "payload": 2}],
    ],
)
def test_other_documents_are_no_table(documents: list[object]) -> None:
    assert of_envelopes(documents) is None


NAMES = st.text("ab_ \"'é.", min_size=1, max_size=4).filter(lambda name: name.strip())
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.text("ab", max_size=5),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(NAMES, inner, max_size=2),
    max_leaves=4,
)
ROWS = st.fixed_dictionaries(
    {"id": st.integers(0, 99)}, optional={name: VALUES for name in ("a", "b c", "d")}
)
CHANGES = st.one_of(
    st.builds(change, st.sampled_from("cru"), st.none() | ROWS, ROWS),
    st.builds(change, st.just("d"), ROWS, st.none()),
)


@settings(max_examples=150, deadline=None)
@given(st.lists(CHANGES, min_size=1, max_size=6), st.booleans())
def test_a_table_is_accepted_and_decodes_every_change_that_it_was_made_from(
    changes: list[dict[str, Any]], wraps: bool
) -> None:
    documents = [{"schema": None, "payload": each} if wraps else each for each in changes]
    keys = [{"id": (each["after"] or each["before"])["id"]} for each in changes]
    text = of_envelopes(documents, keys)
    assert text is not None
    assert "PRIMARY KEY (id)" in text
    assert decoded_without_faults(text, encoded(documents), encoded(keys)) >= len(changes)


def decoded_without_faults(text: str, values: list[bytes], keys: list[bytes]) -> int:
    """Return how many changes of rows the messages are."""
    (stream,) = plan_pipeline(SERVER + text).foreign_streams
    decoder: Any = decoder_of(stream)
    decoded = decoder.decode_changes(values, keys)
    assert not decoded.faults
    return len(decoded.accepted)


def test_envelopes_in_avro_are_a_table_with_the_key_of_the_registry() -> None:
    value = {
        "type": "record",
        "name": "Value",
        "fields": [
            {"name": "id", "type": "long"},
            {"name": "name", "type": ["null", "string"]},
            {"name": "tags", "type": {"type": "map", "values": "string"}},
        ],
    }
    envelope = {
        "type": "record",
        "name": "Envelope",
        "fields": [
            {"name": "before", "type": ["null", value]},
            {"name": "after", "type": ["null", "Value"]},
            {"name": "op", "type": "string"},
            {"name": "ts_ms", "type": ["null", "long"]},
        ],
    }
    key = {"type": "record", "name": "Key", "fields": [{"name": "id", "type": "long"}]}
    assert is_envelope_schema(envelope)
    assert not is_envelope_schema(value)
    text = proposal_of_envelope_schema(
        envelope, key, TOPIC, "k", {"topic": TOPIC, "registry_url": "http://r"}
    )
    assert text.splitlines()[2:] == [
        "CREATE TABLE users (",
        "  id BIGINT,",
        "  name VARCHAR,",
        "  tags JSON NOT NULL,  -- map",
        "  PRIMARY KEY (id)",
        ") SERVER k OPTIONS (topic 'shop.public.users', registry_url 'http://r', format 'DEBEZIUM_AVRO');",
    ]
    plan_pipeline(SERVER + text)
    alone = proposal_of_envelope_schema(
        envelope, None, TOPIC, "k", {"topic": TOPIC, "registry_url": "http://r"}
    )
    assert "check the PRIMARY KEY" in alone


AVRO_TYPES: Mapping[str, tuple[Any, str, object, object]] = {
    "day": (
        {"type": "int", "connect.name": "io.debezium.time.Date"},
        "DATE OPTIONS (time_unit 'd')",
        20454,
        20454,
    ),
    "kday": (
        {"type": "int", "connect.name": "org.apache.kafka.connect.data.Date", "logicalType": "date"},
        "DATE",
        20454,
        20454,
    ),
    "at": (
        {"type": "long", "connect.version": 1, "connect.name": "io.debezium.time.MicroTimestamp"},
        "TIMESTAMP OPTIONS (time_unit 'us')",
        1_767_225_600_000_000,
        1_767_225_600_000,
    ),
    "made": ({"type": "long", "connect.name": "io.debezium.time.Timestamp"}, "TIMESTAMP", 5, 5),
    "tm": (
        {"type": "long", "connect.name": "io.debezium.time.MicroTime"},
        "TIME OPTIONS (time_unit 'us')",
        36_000_000_000,
        36_000_000,
    ),
    "zone": (
        {"type": "string", "connect.name": "io.debezium.time.ZonedTimestamp"},
        "TIMESTAMP WITH TIME ZONE",
        "2026-01-01T00:00:00+01:00",
        1_767_222_000_000,
    ),
    "number": (
        {"type": "string", "connect.name": "io.debezium.data.Uuid"},
        "UUID",
        "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11",
        "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11",
    ),
    "price": (
        {"type": "bytes", "scale": 2, "precision": 10, "connect.name": DECIMAL, "logicalType": "decimal"},
        "DECIMAL(10, 2)",
        Decimal("5.00"),
        Decimal("5.00"),
    ),
}


def test_the_schema_of_kafka_connect_in_avro_says_what_its_numbers_are(registry: FakeRegistry) -> None:
    fields: list[dict[str, Any]] = [{"name": "id", "type": "long"}]
    fields += [{"name": name, "type": ["null", kind]} for name, (kind, *_) in AVRO_TYPES.items()]
    value = {"type": "record", "name": "Value", "fields": fields}
    envelope = {
        "type": "record",
        "name": "Envelope",
        "fields": [
            {"name": "before", "type": ["null", value]},
            {"name": "after", "type": ["null", "Value"]},
            {"name": "op", "type": "string"},
        ],
    }
    key = {"type": "record", "name": "Key", "fields": [{"name": "id", "type": "long"}]}
    number = registry.register(f"{TOPIC}-value", envelope)
    schema = parsed(SchemaRegistry([registry.url]).newest_of(f"{TOPIC}-value")[1])
    options = {"topic": TOPIC, "registry_url": registry.url}
    text = proposal_of_envelope_schema(schema, key, TOPIC, "k", options)
    assert text.splitlines()[3:-1] == [
        "  id BIGINT,",
        *(f"  {name} {declared}," for name, (_, declared, *_) in AVRO_TYPES.items()),
        "  PRIMARY KEY (id)",
    ]
    (stream,) = plan_pipeline(SERVER + text).foreign_streams
    row = {"id": 1, **{name: given for name, (_, _, given, _) in AVRO_TYPES.items()}}
    decoder: Any = decoder_of(stream)
    change_of_row = {"op": "c", "before": None, "after": row}
    decoded = decoder.decode_changes([written(envelope, change_of_row, number)], [None])
    assert not decoded.faults
    wanted = [1, *(each for *_, each in AVRO_TYPES.values())]
    assert [column.to_list() for column in decoded.columns[: len(wanted)]] == [[each] for each in wanted]


def test_messages_that_are_not_read_are_named_with_their_place() -> None:
    broker = memory_broker("sampling unread")
    broker.ensure_topic("mixed", 2)
    broker.produce("mixed", [b'{"id": 1}', b'{"id": ', None, b"[1]"], timestamps=[0] * 4, partition=0)
    broker.produce("mixed", [b'{"id": 2}', b"-- x\n;"], timestamps=[0] * 2, partition=1)
    source = find_source("memory").open({"broker": "sampling unread"}, {"topic": "mixed"})
    text = proposal(take_sample(source, 20, SystemClock()), "k", {"topic": "mixed"})
    head = text.splitlines()[:5]
    assert head[0] == "-- from 2 of 5 messages of topic 'mixed': check the types"
    assert head[1].startswith("-- not read: partition 0, offset 1: Input data was truncated")
    assert head[2] == "-- not read: partition 0, offset 3: the message is JSON, and not an object"
    assert head[3].startswith("-- not read: partition 1, offset 1: ")
    assert head[4] == ""
    plan_pipeline(SERVER + text)


def test_only_the_first_of_many_unread_messages_are_named() -> None:
    text = proposal(Sample("t", {0: [b'{"id": 1}', *[b"x"] * 9]}), "k", {"topic": "t"})
    lines = text.splitlines()
    assert lines[0] == "-- from 1 of 10 messages of topic 't': check the types"
    assert sum(line.startswith("-- not read: partition 0: ") for line in lines) == 5
    assert lines[6] == "-- not read: 4 more"
