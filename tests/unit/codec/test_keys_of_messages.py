"""Keys of the messages of a table: what their errors say (docs/sql/tables.md#tables-that-a-topic-fills)."""

from __future__ import annotations

import struct

import bson
import pytest

from rowtide.codec.contract import Decoder
from rowtide.codec.registry import decoder_for
from rowtide.errors import Reason, StatementError
from rowtide.rows.types import BIGINT, DOUBLE, INTEGER, TIMESTAMP, VARCHAR, Field, Kind, RowType, Type
from rowtide.runtime.option_check import check_options
from rowtide.sql.pipeline import plan_pipeline
from support.registry import FakeRegistry, written

ROW = RowType((Field("ID", VARCHAR, nullable=False), Field("TOTAL", BIGINT)))


@pytest.mark.parametrize(
    ("key", "why"),
    [
        (b"a b", "JSON is malformed: invalid character (byte 0)"),
        (b'"a" b', "JSON is malformed: trailing characters (byte 5)"),
        (b'{"id":?}', "JSON is malformed: invalid character (byte 6)"),
        (b'"\xff" b', "JSON is malformed: trailing characters (byte 5)"),
        (b'"\xff"', 'field "ID": text is not UTF-8: invalid start byte'),
        (b'"\\ud800"', 'field "ID": text has a surrogate without its pair'),
        (b"", "it is empty"),
        (b"\xef\xbb\xbf1", "it begins with a byte order mark"),
        (b"\0\0\0\0\7\2", "it begins with the header of a Schema Registry: schema 7"),
    ],
)
@pytest.mark.parametrize("format_name", ["JSON", "DEBEZIUM_JSON"])
def test_the_error_of_a_key_counts_the_bytes_of_the_key(format_name: str, key: bytes, why: str) -> None:
    decoder = decoder_for(format_name, "T", ROW, key=(0,), patched=format_name != "JSON")
    decoded = decoder.decode_changes([None, None], [b'"x"', key])  # type: ignore[attr-defined]
    assert decoded.accepted.tolist() == [0]
    (fault,) = decoded.faults
    assert (fault.index, fault.reason) == (1, Reason.DECODE)
    assert fault.message == f"key of the message: {why}"


@pytest.mark.parametrize(
    ("message", "why"),
    [
        (b"", "it is empty"),
        (b"\xef\xbb\xbf{}", "it begins with a byte order mark"),
        (b"\0\0\0\0\5{}", "it begins with the header of a Schema Registry: schema 5"),
        (b'{"op":"c","after":?}', "JSON is malformed: invalid character (byte 18)"),
        (b"{", "Input data was truncated"),
    ],
)
def test_the_error_of_an_envelope_says_what_it_begins_with(message: bytes, why: str) -> None:
    decoder = decoder_for("DEBEZIUM_JSON", "T", ROW, key=(0,), patched=True)
    (fault,) = decoder.decode([message]).faults
    assert (fault.reason, fault.message) == (Reason.DECODE, f"the message is not a Debezium envelope: {why}")


AVRO_KEY = {"type": "record", "name": "Key", "fields": [{"name": "id", "type": "long"}]}
AVRO_VALUE = {"type": "record", "name": "Value", "fields": [{"name": "total", "type": "long"}]}


def table(kind: Type, format_name: str, **options: str) -> Decoder:
    row_type = RowType((Field("TOTAL", BIGINT), Field("ID", kind, nullable=False)))
    return decoder_for(format_name, "T", row_type, key=(1,), options={"primary_key_from": "key", **options})


def decoded_changes(
    decoder: Decoder, values: list[bytes | None], keys: list[bytes | None]
) -> tuple[list[tuple[object, ...]], list[tuple[int, Reason]]]:
    """Return the rows after their opcodes, and the faults."""
    decoded = decoder.decode_changes(values, keys)  # type: ignore[attr-defined]
    rows = list(zip(decoded.opcodes.tolist(), *(each.to_list() for each in decoded.columns), strict=True))
    faults = [(fault.index, fault.reason) for fault in decoded.faults]
    assert sorted([*decoded.accepted.tolist(), *(at for at, _ in faults)]) == list(range(len(values)))
    return rows, faults


@pytest.mark.parametrize(
    ("kind", "key_format", "key", "value"),
    [
        (BIGINT, "TEXT", b"7", 7),
        (BIGINT, "JSON", b"7", 7),
        (BIGINT, "JSON", b'{"id": 7, "other": 1}', 7),
        (BIGINT, "JSON", b'{"schema": {}, "payload": {"id": 7}}', 7),
        (BIGINT, "KAFKA", struct.pack(">q", -7), -7),
        (INTEGER, "KAFKA", struct.pack(">i", 7), 7),
        (Type(Kind.SMALLINT), "KAFKA", struct.pack(">h", -2), -2),
        (DOUBLE, "KAFKA", struct.pack(">d", 0.1), 0.1),
        (Type(Kind.REAL), "KAFKA", struct.pack(">f", 0.5), 0.5),
        (VARCHAR, "KAFKA", "größe".encode(), "größe"),
        (VARCHAR, "TEXT", b'{"a": 1}', '{"a": 1}'),
        (Type(Kind.VARBINARY), "KAFKA", b"\0\xff", b"\0\xff"),
        (TIMESTAMP, "TEXT", b"1970-01-01 00:00:01", 1000),
    ],
)
def test_the_primary_key_is_read_from_the_key(kind: Type, key_format: str, key: bytes, value: object) -> None:
    decoder = table(kind, "JSON", key_format=key_format)
    values = [b'{"total": 5}', None, b'{"id": "ignored"}', b"{", b'{"total": 5}', b'{"total": "x"}', None]
    rows, faults = decoded_changes(decoder, values, [key, key, key, key, None, None, None])
    assert rows == [(1, 5, value), (-1, None, value), (1, None, value)]
    assert faults == [
        (3, Reason.DECODE),
        (4, Reason.MISSING_FIELD),
        (5, Reason.MISSING_FIELD),
        (6, Reason.TOMBSTONE),
    ]


def test_the_primary_key_is_read_from_the_key_whatever_the_format_of_values(registry: FakeRegistry) -> None:
    number, of_key = registry.register("t-value", AVRO_VALUE), registry.register("t-key", AVRO_KEY)
    decoders = [
        (table(BIGINT, "AVRO", registry_url=registry.url), written(AVRO_VALUE, {"total": 5}, number)),
        (table(BIGINT, "BSON"), bson.encode({"total": 5})),
        (table(BIGINT, "XML"), b"<row><total>5</total></row>"),
        (table(BIGINT, "JSON"), b'{"total": 5}'),
    ]
    for decoder, value in decoders:
        key = written(AVRO_KEY, {"id": 7}, of_key) if value[:1] == b"\0" else b"7"
        assert decoded_changes(decoder, [value, None], [key, key]) == ([(1, 5, 7), (-1, None, 7)], [])


def test_a_table_may_have_no_columns_but_its_primary_key() -> None:
    row_type = RowType((Field("ID", BIGINT, nullable=False),))
    decoder = decoder_for("JSON", "T", row_type, key=(0,), options={"primary_key_from": "key"})
    found = decoded_changes(decoder, [b"{}", b"1", b'{"a": 1}'], [b"1", b"2", b"x"])
    assert found == ([(1, 1)], [(1, Reason.DECODE), (2, Reason.DECODE)])


@pytest.mark.parametrize("key", [b"", b"7", struct.pack(">i", 7), struct.pack(">q", 7) + b"\0"])
def test_a_number_of_kafka_has_the_size_of_its_type(key: bytes) -> None:
    decoder = table(BIGINT, "JSON", key_format="KAFKA")
    assert decoded_changes(decoder, [b"{}"], [key]) == ([], [(0, Reason.DECODE)])


@pytest.mark.parametrize(
    ("columns", "options", "wanted"),
    [
        ("id BIGINT PRIMARY KEY", "primary_key_from 'header'", '"header" is neither key nor value'),
        (
            "id BIGINT PRIMARY KEY OPTIONS (path '$.a')",
            "primary_key_from 'key'",
            'option "path" of column "ID" of table "T": the column is read from the key',
        ),
        ("id DATE PRIMARY KEY", "key_format 'KAFKA'", "KAFKA has no values of column"),
        ("a INTEGER, b INTEGER, PRIMARY KEY (a, b)", "key_format 'KAFKA'", "KAFKA is for one column"),
        (
            "id BIGINT PRIMARY KEY",
            "primary_key_from 'key', format 'DEBEZIUM_JSON'",
            "format DEBEZIUM_JSON does not take it",
        ),
    ],
)
def test_what_a_key_cannot_be_is_refused(columns: str, options: str, wanted: str) -> None:
    with pytest.raises(StatementError) as caught:
        checked(f"CREATE TABLE t ({columns}) SERVER k OPTIONS (topic 't', {options});")
    assert wanted in caught.value.message


@pytest.mark.parametrize(
    "statement",
    [
        "CREATE FOREIGN STREAM s (id BIGINT) SERVER k OPTIONS (topic 't', primary_key_from 'key');",
        """CREATE FOREIGN STREAM s (id BIGINT) SERVER k OPTIONS (topic 't', primary_key_from 'key', key 'id');
        CREATE STREAM r (id BIGINT); CREATE PUMP p AS INSERT INTO s SELECT STREAM id FROM r;""",
    ],
)
def test_the_option_is_one_of_tables(statement: str) -> None:
    with pytest.raises(StatementError, match='option "primary_key_from" of foreign stream "S"'):
        checked(statement)


def checked(statement: str) -> None:
    text = f"CREATE SERVER k FOREIGN DATA WRAPPER MEMORY OPTIONS (broker 'keys');\n{statement}"
    check_options(plan_pipeline(text), text, file="p.sql")
