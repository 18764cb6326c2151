"""Debezium's envelopes and keys of messages in Avro (docs/sql/tables.md#tables-that-a-topic-fills)."""

from __future__ import annotations

import pytest

from rowtide.codec.contract import ChangeDecoder
from rowtide.codec.registry import decoder_of
from rowtide.errors import Reason, StatementError
from rowtide.runtime.option_check import check_options
from rowtide.sql.pipeline import plan_pipeline
from support.registry import FakeRegistry, written

SERVER = "CREATE SERVER k FOREIGN DATA WRAPPER MEMORY OPTIONS (broker 'avro');\n"
COLUMNS = (
    "id INTEGER PRIMARY KEY, name VARCHAR(9) NOT NULL, notes VARCHAR(40), since DATE OPTIONS (time_unit 'd')"
)
VALUE = {
    "type": "record",
    "name": "Value",
    "fields": [
        {"name": "id", "type": "int"},
        {"name": "name", "type": ["null", "string"], "default": None},
        {"name": "notes", "type": ["null", "string"], "default": None},
        {"name": "since", "type": ["null", "int"], "default": None},
    ],
}
ENVELOPE = {
    "type": "record",
    "name": "Envelope",
    "fields": [
        {"name": "before", "type": ["null", VALUE], "default": None},
        {"name": "after", "type": ["null", "Value"], "default": None},
        {"name": "op", "type": "string"},
    ],
}
UNMOVED = (None,) * 4
"""The row before a change that leaves its key as it is."""
KEY = {"type": "record", "name": "Key", "fields": [{"name": "id", "type": "int"}]}


def decoder(options: str) -> ChangeDecoder:
    text = f"{SERVER}CREATE TABLE users ({COLUMNS}) SERVER k OPTIONS (topic 't', {options});"
    plan = plan_pipeline(text)
    check_options(plan, text, file="p.sql")
    found = decoder_of(plan.foreign_streams[0])
    assert isinstance(found, ChangeDecoder)
    return found


def outcome(
    found: ChangeDecoder, values: list[bytes | None], keys: list[bytes | None]
) -> tuple[list[tuple[object, ...]], list[tuple[int, Reason]]]:
    decoded = found.decode_changes(values, keys)
    assert decoded.opcodes is not None
    columns = [decoded.opcodes.tolist(), *(column.to_list() for column in decoded.columns)]
    faults = [(fault.index, fault.reason) for fault in decoded.faults]
    places = [*decoded.accepted.tolist(), *(index for index, _ in faults)]
    assert sorted(places) == list(range(len(values)))
    return list(zip(*columns, strict=True)), faults


def test_envelopes_and_tombstones_are_changes(registry: FakeRegistry) -> None:
    value, key = registry.register("t-value", ENVELOPE), registry.register("t-key", KEY)

    def change(op: str, before: object = None, after: object = None) -> bytes:
        return written(ENVELOPE, {"op": op, "before": before, "after": after}, value)

    ann = {"id": 1, "name": "ann", "notes": "long", "since": 7}
    kept = {**ann, "name": "eve", "notes": "__debezium_unavailable_value"}
    values: list[bytes | None] = [
        change("r", None, ann),
        change("u", None, kept),
        change("d", {"id": 1}),
        None,
        change("d"),
        change("c", None, {"id": 2}),
        change("t"),
        b"\0\0",
        change("c"),
    ]
    keys: list[bytes | None] = [written(KEY, {"id": 3}, key)] * len(values)
    rows, faults = outcome(decoder(f"format 'DEBEZIUM_AVRO', registry_url '{registry.url}'"), values, keys)
    assert rows == [
        (1, 1, "ann", "long", 7, None, *UNMOVED),
        (1, 1, "eve", None, 7, "2", *UNMOVED),
        (-1, 1, None, None, None, None, *UNMOVED),
        (-1, 3, None, None, None, None, *UNMOVED),
        (-1, 3, None, None, None, None, *UNMOVED),
    ]
    assert faults == [
        (5, Reason.MISSING_FIELD),
        (6, Reason.DECODE),
        (7, Reason.DECODE),
        (8, Reason.MISSING_FIELD),
    ]


def test_upserts_have_keys_in_avro_json_or_text(registry: FakeRegistry) -> None:
    value, key = registry.register("t-value", VALUE), registry.register("t-key", KEY)
    plain = registry.register("plain-key", "int")
    row = written(VALUE, {"id": 1, "name": "ann"}, value)
    options = f"format 'AVRO', registry_url '{registry.url}'"
    for form, given in (
        ("", written(KEY, {"id": 3}, key)),
        ("", written("int", 3, plain)),
        (", key_format 'JSON'", b'{"id": 3}'),
        (", key_format 'TEXT'", b"3"),
    ):
        rows, faults = outcome(decoder(options + form), [row, None, None], [None, given, b"\0\0"])
        assert rows == [(1, 1, "ann", None, None), (-1, 3, None, None, None)]
        assert [index for index, _ in faults] == [2]


def test_keys_in_avro_need_a_registry() -> None:
    with pytest.raises(StatementError, match="AVRO needs a Schema Registry for the keys") as caught:
        decoder("""format 'AVRO', schema '{"type": "record", "name": "R", "fields": []}'""")
    assert "key_format 'JSON'" in (caught.value.hint or "")
