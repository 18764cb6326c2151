"""Messages that are not JSON against what is declared, and declarations proposed from them."""

from __future__ import annotations

import uuid
from collections.abc import Sequence

import bson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rowtide.codec.bson.values import OPTIONS
from rowtide.codec.registry import decoder_of
from rowtide.codec.xml.parsing import written_attribute, written_text
from rowtide.runtime.inspect.inferring.of_bson import proposal_of_bson
from rowtide.runtime.inspect.inferring.of_xml import proposal_of_xml
from rowtide.runtime.inspect.sampling import Finding, Sample, findings
from rowtide.sql.pipeline import plan_pipeline

SERVER = "CREATE SERVER k FOREIGN DATA WRAPPER MEMORY OPTIONS (broker 'sampling');\n"


def answer(columns: str, messages: Sequence[bytes], form: str) -> list[Finding]:
    plan = plan_pipeline(
        f"{SERVER}CREATE FOREIGN STREAM s ({columns}) SERVER k OPTIONS (topic 't', format '{form}');"
    )
    return findings(plan.foreign_streams[0], Sample("t", {0: messages}))


def of_xml(messages: Sequence[bytes]) -> str | None:
    return proposal_of_xml(Sample("shop.orders", {0: messages}), "k", {"topic": "shop.orders"})


def test_a_column_that_no_row_has_is_named_in_any_format() -> None:
    columns = "a INTEGER, b INTEGER OPTIONS (path 'c/d')"
    assert answer(columns, [b"<o><a>1</a></o>", b"<o><a>2</a></o>", b"x"], "XML") == [
        Finding(True, "2 of 3 messages decode"),
        Finding(
            False,
            "1 message is rejected (DECODE), such as: the message is not XML: syntax error: line 1, column 0",
        ),
        Finding(True, 'column "B" is NULL in all of 2 messages'),
    ]


def test_xml_is_proposed_with_paths_and_types() -> None:
    text = of_xml(
        [
            b'<o id="7" v="1.5"><who><name>Ann</name></who><at>2026-01-31T12:00:00Z</at><zip>00123</zip>'
            b"<on>true</on><lines><line>1</line><line>2</line></lines><tag>x</tag><none/><big>1234567890123456.5</big></o>",
            b'<o id="8" v="2"><who><name>Bob</name></who><at>2026-01-31T12:00:01Z</at><zip>01234</zip>'
            b"<on>false</on><lines><line>3</line></lines><tag>x</tag><tag>y</tag><ms>1769860800000</ms></o>",
            b"not XML",
        ]
    )
    assert text is not None
    assert text.splitlines()[:19] == [
        "-- from 2 of 3 messages of topic 'shop.orders': check the types",
        "-- not read: partition 0: the message is not XML",
        "",
        "CREATE FOREIGN STREAM orders (",
        "  id BIGINT NOT NULL,",
        "  v DOUBLE NOT NULL,",
        "  who_name VARCHAR(10) NOT NULL OPTIONS (path 'who/name'),",
        "  at TIMESTAMP NOT NULL,",
        "  zip VARCHAR(10) NOT NULL,",
        '  "on" BOOLEAN NOT NULL,',
        "  big DECIMAL(38, 10),",
        "  ms TIMESTAMP OPTIONS (time_unit 'ms'),  -- numbers, read as milliseconds since 1970",
        "  lines VARCHAR  -- elements, as XML text",
        "  -- tag: in some messages more than once; the path tag[1] takes the first one",
        "  -- none: empty in all messages",
        ") SERVER k OPTIONS (topic 'shop.orders', format 'XML');",
        "",
        "-- the time of the rows, unless that of the messages is meant",
        "CREATE VIEW orders_timed AS",
    ]
    plan_pipeline(SERVER + text)


@pytest.mark.parametrize("message", [b"1,2", b"{}", b"<o/>", b"<o>text</o>"])
def test_no_columns_are_proposed_for_what_is_no_xml_with_columns(message: bytes) -> None:
    assert of_xml([message]) is None


def test_bson_is_proposed_with_its_own_types() -> None:
    documents = [
        {
            "_id": bson.ObjectId(),
            "at": bson.DatetimeMS(1_769_860_800_000),
            "total": bson.Decimal128("1.50"),
            "user": {"id": uuid.UUID(int=5), "tags": ["a"]},
            "photo": b"x",
            "odd": value,
        }
        for value in (b"x", 1)
    ]
    messages = [bson.encode(each, codec_options=OPTIONS) for each in documents]
    text = proposal_of_bson(Sample("t", {0: [*messages, b"{}"]}), "k", {"topic": "t"})
    assert text is not None
    assert text.splitlines()[3:12] == [
        "CREATE FOREIGN STREAM t (",
        '  "_id" VARCHAR(50) NOT NULL,',
        "  at TIMESTAMP NOT NULL,",
        "  total DECIMAL(38, 10) NOT NULL,",
        "  user_id UUID NOT NULL OPTIONS (path '$.user.id'),",
        "  user_tags VARCHAR(10) ARRAY NOT NULL OPTIONS (path '$.user.tags'),",
        "  photo VARBINARY NOT NULL",
        "  -- odd: bytes and values of other types",
        ") SERVER k OPTIONS (topic 't', format 'BSON');",
    ]
    decoded = decoder_of(plan_pipeline(SERVER + text).foreign_streams[0]).decode(messages)
    assert decoded.faults == ()
    assert proposal_of_bson(Sample("t", {0: [b"{}", b"\x05\0\0\0\0"]}), "k", {}) is None


NAMES = st.sampled_from(["a", "b", "A", "c.d", "ä", "select"])
TEXTS = st.sampled_from(
    ["", "7", "-1.5", "x y", "true", "2026-01-31", "1e5", "007", "1769860800", "9" * 30, "<&>"]
)
TREES = st.recursive(
    st.tuples(NAMES, st.dictionaries(NAMES, TEXTS, max_size=2), TEXTS),
    lambda inner: st.tuples(NAMES, st.dictionaries(NAMES, TEXTS, max_size=1), st.lists(inner, max_size=3)),
    max_leaves=6,
)


def written(tree: tuple[str, dict[str, str], object]) -> str:
    name, attributes, inside = tree
    head = "".join(f" {key}={written_attribute(value)}" for key, value in attributes.items())
    content = "".join(map(written, inside)) if isinstance(inside, list) else written_text(str(inside))
    return f"<{name}{head}>{content}</{name}>"


@given(st.lists(TREES, min_size=1, max_size=4))
def test_what_is_proposed_decodes_the_messages_that_it_was_made_of(
    trees: list[tuple[str, dict[str, str], object]],
) -> None:
    messages = [written(tree).encode() for tree in trees]
    text = of_xml(messages)
    if text is not None:
        stream = plan_pipeline(SERVER + text).foreign_streams[0]
        decoded = decoder_of(stream).decode(messages)
        assert [fault.message for fault in decoded.faults] == []
