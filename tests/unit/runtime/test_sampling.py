"""Messages against what is declared, and declarations proposed from messages."""

from __future__ import annotations

import json
import string
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rowtide.clock import SystemClock
from rowtide.codec.registry import decoder_of
from rowtide.errors import StatementError
from rowtide.runtime.inspect.inferring.proposal import proposal, proposal_of_schema, stream_name
from rowtide.runtime.inspect.sampling import Finding, Sample, findings, take_sample
from rowtide.sql.pipeline import plan_pipeline
from rowtide_connectors.memory import memory_broker
from rowtide_connectors.registry import find_source

SERVER = "CREATE SERVER k FOREIGN DATA WRAPPER MEMORY OPTIONS (broker 'sampling');\n"


def answer(columns: str, messages: Sequence[object], form: str = "JSON") -> list[Finding]:
    plan = plan_pipeline(
        f"{SERVER}CREATE FOREIGN STREAM s ({columns}) SERVER k OPTIONS (topic 't', format '{form}');"
    )
    values = [each if isinstance(each, bytes) else json.dumps(each).encode() for each in messages]
    return findings(plan.foreign_streams[0], Sample("t", {0: values}))


def proposed(messages: Sequence[object]) -> str:
    values = [json.dumps(each).encode() for each in messages]
    return proposal(Sample("shop.orders", {0: values}), "k", {"topic": "shop.orders"})


def test_a_misspelt_column_is_named_with_the_field_that_is_meant() -> None:
    first, *others = answer("id INTEGER, totl DOUBLE", [{"ID": 1, "total": 2.5}] * 3)
    assert first == Finding(True, "3 of 3 messages decode; fields that are not declared: total (3)")
    (missing,) = others
    assert not missing.fits
    assert missing.text == 'column "TOTL" is in none of 3 messages: it is always NULL'
    assert missing.hint == 'Did you mean "total"?'


def test_a_column_that_nothing_resembles_is_told_what_there_is() -> None:
    (_, missing) = answer("id INTEGER, total DOUBLE", [{"id": 1, "amount": 2.5}, {"id": 2, "tax": 1}])
    assert missing.hint == "The messages also have: amount, tax."


def test_a_column_that_is_always_null_loses_nothing() -> None:
    (_, null) = answer("id INTEGER, note VARCHAR(9)", [{"id": 1, "note": None}])
    assert null.fits
    assert null.text == 'column "NOTE" is null in all of 1 messages'


def test_epoch_seconds_are_told_from_milliseconds() -> None:
    (_, seconds) = answer("ts TIMESTAMP", [{"ts": 1_767_225_600}])
    assert not seconds.fits
    assert "1767225600 is 1970-01-21 10:53:45.600, in seconds it would be 2026-01-01 00:00:00" in seconds.text
    assert seconds.hint is not None
    assert "TS TIMESTAMP OPTIONS (time_unit 's')" in seconds.hint
    assert len(answer("ts TIMESTAMP", [{"ts": 1_767_225_600_000}, {"ts": "2026-01-01T00:00:00Z"}])) == 1


def test_messages_that_do_not_fit_are_counted_by_reason_and_field() -> None:
    messages = [{"id": "x"}, {"id": "y"}, {"id": 1}, b"{broken", {}]
    first, *others = answer("id INTEGER NOT NULL", messages)
    assert first.text == "1 of 5 messages decode"
    assert [each.text.split(",")[0] for each in others] == [
        "2 messages are rejected (TYPE)",
        "1 message is rejected (DECODE)",
        "1 message is rejected (MISSING_FIELD)",
    ]
    assert not any(each.fits for each in others)


def test_other_formats_are_decoded_alone() -> None:
    assert answer("a INTEGER, b VARCHAR(3)", [b"1,x", b"2"], "CSV")[0].text == "1 of 2 messages decode"


def test_an_empty_topic_says_so() -> None:
    assert answer("id INTEGER", []) == [Finding(True, 'topic "t" has no messages to look at')]


def test_a_sample_is_of_the_last_messages_of_each_partition_and_leaves_out_what_has_no_value() -> None:
    broker = memory_broker("sampling")
    broker.ensure_topic("sampled", 3)
    for number in range(10):
        broker.produce("sampled", [b"%d" % number], timestamps=[0], partition=number % 2)
    broker.hole("sampled", 2)
    broker.produce("sampled", [None], timestamps=[0])
    source = find_source("memory").open({"broker": "sampling"}, {"topic": "sampled"})
    sample = take_sample(source, 12, SystemClock())
    assert sample.partitions == {0: [b"8"], 1: [b"3", b"5", b"7", b"9"]}
    assert sample.places[1] == [f"partition 1, offset {offset}" for offset in (1, 2, 3, 4)]
    assert sample.without_value == 1


def test_a_topic_is_declared_from_its_messages() -> None:
    messages = [
        {"id": 1, "order": "a", "ts": 1_767_225_600_000, "price": 2, "user": {"id": 1}, "paid": True},
        {
            "id": 2,
            "order": "bc",
            "ts": 1_767_225_597_000,
            "price": 2.5,
            "user": {},
            "paid": None,
            "day": "2026-01-01",
        },
        {
            "id": 3,
            "order": "bcd",
            "ts": 1_767_225_601_000,
            "price": 1,
            "tags": [1],
            "odd name": "x",
            "mixed": 1,
        },
        {"id": 3, "order": "bcd", "ts": 1_767_225_601_000, "price": 1, "mixed": "one"},
    ]
    assert proposed(messages).splitlines() == [
        "-- from 4 messages of topic 'shop.orders': check the types",
        "",
        "CREATE FOREIGN STREAM orders (",
        "  id BIGINT NOT NULL,",
        '  "order" VARCHAR(10) NOT NULL,',
        "  ts TIMESTAMP NOT NULL,  -- numbers, read as milliseconds since 1970",
        "  price DOUBLE NOT NULL,",
        "  user_id BIGINT OPTIONS (path '$.user.id'),",
        "  paid BOOLEAN,",
        "  day DATE,",
        "  tags BIGINT ARRAY,",
        '  "odd name" VARCHAR(10)',
        "  -- mixed: values of several types, such as text and numbers",
        ") SERVER k OPTIONS (topic 'shop.orders', format 'JSON');",
        "",
        "-- the time of the rows, unless that of the messages is meant",
        "CREATE VIEW orders_timed AS",
        "  SELECT STREAM ts AS ROWTIME, * FROM orders",
        "  ORDER BY ts WITHIN INTERVAL '10' SECOND;",
    ]


def test_numbers_are_times_by_their_size_and_seconds_also_by_their_name() -> None:
    times = {"us": 1_767_225_600_000_000, "ns": 1_767_225_600_000_000_000}
    text = proposed([{"created_at": 1_767_225_600, "size": 1_767_225_600, **times}])
    seconds = "created_at TIMESTAMP NOT NULL OPTIONS (time_unit 's'),  -- seconds since 1970, by its name"
    assert seconds in text
    assert "size BIGINT NOT NULL,\n" in text
    for unit in times:
        assert f"{unit} TIMESTAMP NOT NULL OPTIONS (time_unit '{unit}')" in text
    assert "SELECT STREAM created_at AS ROWTIME, * FROM orders;" in text
    plan_pipeline(SERVER + text)


def test_paths_count_as_declared_and_are_looked_for_where_they_lead() -> None:
    columns = (
        "city VARCHAR(9) OPTIONS (path '$.user.city'), zip VARCHAR(9) OPTIONS (path '$.user.zip'), "
        "ts TIMESTAMP OPTIONS (time_unit 's')"
    )
    first, missing = answer(columns, [{"user": {"city": "Rome"}, "ts": 1_767_225_600, "tags": []}] * 2)
    assert first.text == "2 of 2 messages decode; fields that are not declared: tags (2)"
    assert missing.text == 'column "ZIP" ($.user.zip) is in none of 2 messages: it is always NULL'
    columns = "at TIMESTAMP OPTIONS (path '$.meta.at')"
    (_, seconds) = answer(columns, [{"meta": {"at": 1_767_225_600}}])
    assert "look like seconds" in seconds.text
    assert seconds.hint == "Declare it as: AT TIMESTAMP OPTIONS (time_unit 's')."


def test_members_of_objects_have_names_of_their_own_and_maps_are_text() -> None:
    many = {f"k{number}": number for number in range(60)}
    text = proposed([{"a": {"b": 1, "B": "x", "c d": {"e": True}}, "a_b": 2, "map": many, "none": {}}])
    assert "  a_b_2 BIGINT NOT NULL OPTIONS (path '$.a.b')," in text
    assert "  a_b_3 VARCHAR(10) NOT NULL OPTIONS (path '$.a.B')," in text
    assert "  \"a_c d_e\" BOOLEAN NOT NULL OPTIONS (path '$.a[''c d''].e')," in text
    assert "  map JSON NOT NULL,  -- objects" in text
    plan_pipeline(SERVER + text)


def test_what_is_no_json_is_refused_with_what_to_do() -> None:
    with pytest.raises(StatementError, match="no JSON objects") as caught:
        proposal(Sample("t", {0: [b"1,2"]}), "k", {})
    assert caught.value.hint is not None
    assert "'CSV'" in caught.value.hint
    with pytest.raises(StatementError, match="can be a column"):
        proposed([{"user": None}])


@pytest.mark.parametrize(
    ("topic", "name"),
    [
        ("orders", "orders"),
        ("shop.v1.Order-Lines", "order_lines"),
        ("table", "topic_table"),
        ("2026", "topic_2026"),
    ],
)
def test_a_stream_is_called_by_the_last_word_of_its_topic(topic: str, name: str) -> None:
    assert stream_name(topic) == name


NAMES = st.text(string.ascii_letters + string.digits + "_ \"-.é'\\", min_size=1, max_size=6)
TIMES = st.one_of(
    st.integers(978_307_200, 4_102_444_800),
    st.integers(978_307_200_000, 4_102_444_800_000),
    st.datetimes().map(lambda each: each.isoformat() + "Z"),
    st.dates().map(str),
)
SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(),
    TIMES,
)


@settings(max_examples=300, deadline=None)
@given(
    names=st.lists(NAMES, min_size=1, max_size=4, unique_by=lambda each: each.lower()),
    data=st.data(),
)
def test_a_proposal_is_accepted_and_decodes_every_message_that_it_was_made_from(
    names: list[str], data: st.DataObject
) -> None:
    nested = st.recursive(
        st.dictionaries(NAMES, SCALARS, max_size=3),
        lambda inner: st.dictionaries(NAMES, inner | TIMES, max_size=3) | st.lists(inner, max_size=2),
        max_leaves=6,
    )
    strategies = [SCALARS, TIMES, st.integers(), st.text(), nested]
    kinds = {name: data.draw(st.sampled_from(strategies)) for name in names}
    messages = data.draw(
        st.lists(st.fixed_dictionaries({}, optional=kinds), min_size=1, max_size=6), label="messages"
    )
    values = [json.dumps(each).encode() for each in messages]
    sample = Sample("t.made", {0: values})
    try:
        text = proposal(sample, "k", {"topic": "t.made"})
    except StatementError as error:
        assert "can be a column" in error.message
        return
    (stream,) = plan_pipeline(SERVER + text).foreign_streams
    decoded = decoder_of(stream).decode(values)
    assert not decoded.faults
    assert all(each.fits for each in findings(stream, sample) if "seconds" not in each.text)


def test_a_topic_is_declared_from_its_schema() -> None:
    schema = {
        "type": "record",
        "name": "Order",
        "fields": [
            {"name": "id", "type": "long"},
            {
                "name": "total",
                "type": ["null", {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}],
            },
            {"name": "placed", "type": {"type": "long", "logicalType": "timestamp-millis"}},
            {"name": "color", "type": {"type": "enum", "name": "Color", "symbols": ["RED", "GREEN"]}},
            {
                "name": "user",
                "type": [
                    "null",
                    {"type": "record", "name": "User", "fields": [{"name": "name", "type": "string"}]},
                ],
            },
            {"name": "tags", "type": {"type": "array", "items": "string"}},
            {"name": "either", "type": ["int", "string"]},
            {"name": "second", "type": "Color"},
        ],
    }
    text = proposal_of_schema(
        schema, "shop.orders", "k", {"topic": "shop.orders", "registry_url": "http://r"}
    )
    assert text.splitlines() == [
        "-- from the newest schema of topic 'shop.orders' in the registry",
        "",
        "CREATE FOREIGN STREAM orders (",
        "  id BIGINT NOT NULL,",
        "  total DECIMAL(9, 2),",
        "  placed TIMESTAMP NOT NULL,",
        "  color VARCHAR(5) NOT NULL,",
        "  user_name VARCHAR OPTIONS (path '$.user.name'),",
        "  tags VARCHAR ARRAY NOT NULL,",
        "  second VARCHAR(5) NOT NULL",
        "  -- either: a union of several types",
        ") SERVER k OPTIONS (topic 'shop.orders', registry_url 'http://r', format 'AVRO');",
        "",
        "-- the time of the rows, unless that of the messages is meant",
        "CREATE VIEW orders_timed AS",
        "  SELECT STREAM placed AS ROWTIME, * FROM orders;",
    ]
    plan_pipeline(SERVER + text)


@pytest.mark.parametrize(
    ("arrays", "declared"),
    [
        (["[1, 2]", "[null]", "[]", "null"], "a BIGINT ARRAY"),
        (["[1, 2.5]"], "a DOUBLE ARRAY"),
        (['["abc", null]', '["defgh"]'], "a VARCHAR(10) ARRAY"),
        (['["2026-01-31"]'], "a DATE ARRAY"),
        (["[true]"], "a BOOLEAN ARRAY"),
        (["[1700000000123]"], "a TIMESTAMP ARRAY"),
        (["[1700000000123456]"], "a BIGINT ARRAY"),
        (["[1]", '["x"]'], "a JSON"),
        (["[[1]]"], "a JSON"),
        (['[{"b": 1}]'], "a JSON"),
        (["[]", "[null]"], "a JSON"),
    ],
)
def test_arrays_of_one_scalar_type_are_declared_as_arrays(arrays: list[str], declared: str) -> None:
    values = [f'{{"id": 1, "a": {array}}}'.encode() for array in arrays]
    text = proposal(Sample("t", {0: values}), "k", {"topic": "t"})
    line = next(line for line in text.splitlines() if line.strip().startswith("a "))
    assert line.split("--")[0].replace(" NOT NULL", "").strip().rstrip(",") == declared
