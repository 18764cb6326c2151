"""Each form of Debezium's placeholder of an unchanged value (docs/sql/tables.md#tables-that-a-topic-fills)."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from rowtide.codec.contract import ChangeDecoder
from rowtide.codec.registry import decoder_of
from rowtide.sql.pipeline import plan_pipeline
from support.registry import FakeRegistry, written

FIELD = {
    "text": "string",
    "bytes": "bytes",
    "texts": {"type": "array", "items": "string"},
    "many": {"type": "array", "items": "bytes"},
    "map": {"type": "map", "values": "string"},
    "ints": {"type": "array", "items": "long"},
    "numbers": {"type": "array", "items": "double"},
}


def forms(placeholder: str, uuid: str) -> list[tuple[str, Any]]:
    """Return the forms of a placeholder, each after the Avro type that carries it."""
    given = placeholder.encode()
    signed = [int.from_bytes(bytes([each]), signed=True) for each in given]
    encoded = base64.b64encode(given).decode()
    return [
        ("text", placeholder),
        ("text", encoded),
        ("text", base64.urlsafe_b64encode(given).decode()),
        ("text", given.hex()),
        ("text", f'{{"{placeholder}":"{placeholder}"}}'),
        ("bytes", given),
        ("texts", [placeholder]),
        ("texts", [encoded]),
        ("texts", [given.hex()]),
        ("texts", [uuid]),
        ("texts", [str(each) for each in signed]),
        ("many", [given]),
        ("map", {placeholder: placeholder}),
        ("ints", signed),
        ("numbers", [float(each) for each in signed]),
    ]


DEFAULT = forms("__debezium_unavailable_value", "b68a35a7-17ad-35b3-af2a-ae46edb4545a")
OTHER = forms("?~größe", "dcf8d2ce-0124-399d-9c28-bf810f01831e")
CASES = [("", *form) for form in DEFAULT] + [(", unavailable_value '?~größe'", *form) for form in OTHER]


def decoder(column: str, options: str) -> ChangeDecoder:
    found = decoder_of(
        plan_pipeline(f"""
            CREATE SERVER k FOREIGN DATA WRAPPER MEMORY OPTIONS (broker 'placeholders');
            CREATE TABLE t (id INTEGER PRIMARY KEY, {column}, n INTEGER NOT NULL)
              SERVER k OPTIONS (topic 't', {options});
        """).foreign_streams[0]
    )
    assert isinstance(found, ChangeDecoder)
    return found


def outcome(found: ChangeDecoder, value: bytes) -> list[object]:
    decoded = found.decode_changes([value], [None])
    assert decoded.faults == ()
    return [column.to_list()[0] for column in decoded.columns][:4]


KEPT = [1, None, 5, "1"]


@pytest.mark.parametrize(("option", "kind", "form"), CASES)
def test_each_form_leaves_the_column_as_it_is(
    registry: FakeRegistry, option: str, kind: str, form: Any
) -> None:
    fields = [
        {"name": "id", "type": "int"},
        {"name": "note", "type": FIELD[kind]},
        {"name": "n", "type": "int"},
    ]
    row = {"type": "record", "name": "Row", "fields": fields}
    envelope = {
        "type": "record",
        "name": "Envelope",
        "fields": [{"name": "op", "type": "string"}, {"name": "after", "type": row}],
    }
    change = {"op": "u", "after": {"id": 1, "note": form, "n": 5}}
    message = written(envelope, change, registry.register(f"forms-{kind}", envelope))
    for column in ("note JSON NOT NULL", "note VARCHAR(2)"):
        avro = decoder(column, f"format 'DEBEZIUM_AVRO', registry_url '{registry.url}'{option}")
        assert outcome(avro, message) == KEPT
        if kind in ("bytes", "many"):
            continue
        for separators in ((",", ":"), (", ", ": ")):
            text = json.dumps(change, separators=separators).encode()
            assert outcome(decoder(column, f"format 'DEBEZIUM_JSON'{option}"), text) == KEPT


NESTED = [
    ("$.note.inner", {"inner": "__debezium_unavailable_value"}),
    ("$.note.inner.deep", {"inner": "__debezium_unavailable_value"}),
    ("$.note.inner", "__debezium_unavailable_value"),
    ("$.note.a", {"__debezium_unavailable_value": "__debezium_unavailable_value"}),
    ("$.note[0]", ["__debezium_unavailable_value"]),
    ("$.note[1]", ["__debezium_unavailable_value"]),
    ("$.note[0].x", [{"x": "__debezium_unavailable_value"}, "bad \xff"]),
]


@pytest.mark.parametrize(("path", "note"), NESTED)
def test_a_column_below_a_placeholder_stays_as_it_is(path: str, note: Any) -> None:
    message = json.dumps({"op": "u", "after": {"id": 1, "note": note, "n": 5}}).encode()
    found = decoder(f"note VARCHAR(2) NOT NULL OPTIONS (path '{path}')", "format 'DEBEZIUM_JSON'")
    assert outcome(found, message) == KEPT


def test_a_value_beside_a_placeholder_is_data() -> None:
    note = {"inner": "__debezium_unavailable_value", "a": "x"}
    message = json.dumps({"op": "u", "after": {"id": 1, "note": note, "n": 5}}).encode()
    found = decoder("note VARCHAR(2) OPTIONS (path '$.note.a')", "format 'DEBEZIUM_JSON'")
    assert outcome(found, message) == [1, "x", 5, None]


@pytest.mark.parametrize("other", [rb"\ud800", rb"\udc00", b"\xff"])
def test_a_placeholder_is_known_beside_text_that_is_not_unicode(other: bytes) -> None:
    members = b'"id":1,"x%s":["%s"],"note":{"inner":"__debezium_unavailable_value","z":"%s"},"n":5'
    message = b'{"op":"u","after":{' + members % (other, other, other) + b"}}"
    found = decoder("note VARCHAR(2) NOT NULL OPTIONS (path '$.note.inner')", "format 'DEBEZIUM_JSON'")
    assert outcome(found, message) == KEPT
