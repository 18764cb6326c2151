"""Keys of the messages of a table: what their errors say (docs/sql/tables.md#tables-that-a-topic-fills)."""

from __future__ import annotations

import pytest

from rowtide.codec.registry import decoder_for
from rowtide.errors import Reason
from rowtide.rows.types import BIGINT, VARCHAR, Field, RowType

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
