"""Ids of schemas before values and in headers of messages, alike for each format (docs/sql/streams.md)."""

from __future__ import annotations

import json
from collections.abc import Sequence
from uuid import UUID

import numpy as np
import pytest

from rowtide.codec.registries import OF_KEY, OF_VALUE
from rowtide.codec.registry import decoder_of
from rowtide.rows.tray import Tray
from rowtide.runtime.ingest.intake import Delivery, deliver
from rowtide.runtime.option_check import check_options
from rowtide.sql.pipeline import plan_pipeline
from rowtide_connectors.api import Messages
from support.protobuf import register
from support.protobuf import written as written_protobuf
from support.registry import FakeRegistry, written

RECORD = {"type": "record", "name": "Order", "fields": [{"name": "id", "type": "int"}]}
FORMATS = ("JSON", "AVRO", "PROTOBUF")


def delivered(
    declared: str,
    values: Sequence[bytes | None],
    headers: Sequence[Sequence[tuple[str, bytes]] | None] | None = None,
    keys: Sequence[bytes | None] | None = None,
) -> Delivery:
    text = (
        "CREATE SERVER k FOREIGN DATA WRAPPER MEMORY OPTIONS (broker 'ids');\n"
        f"CREATE {declared.replace('SERVER', 'SERVER k')};"
    )
    plan = plan_pipeline(text)
    check_options(plan, text, file="p.sql")
    stream = plan.foreign_streams[0]
    count = len(values)
    times = np.full(count, 1_000, dtype=np.int64)
    offsets = np.arange(count, dtype=np.int64)
    messages = Messages("t", 0, offsets, times, keys or [None] * count, values, count, headers)
    return deliver(stream, decoder_of(stream), 0, messages)


def rows_of(delivery: Delivery) -> list[tuple[object, ...]]:
    return [timed.row for part in delivery.parts if isinstance(part, Tray) for timed in part.rows()]


def framed(number: int, *, as_guid: bool) -> bytes:
    return b"\1" + UUID(int=number).bytes if as_guid else b"\0" + number.to_bytes(4, "big")


@pytest.mark.parametrize("format_", FORMATS)
def test_a_schema_is_named_before_the_value_or_in_a_header_by_number_or_guid(
    format_: str, registry: FakeRegistry
) -> None:
    options, number, values = "registry_header 'true'", 5, [b'{"id":%d}' % n for n in range(5)]
    index = b""
    if format_ != "JSON":
        options = f"registry_url '{registry.url}'"
    if format_ == "AVRO":
        number, values = registry.register("t-value", RECORD), [written(RECORD, {"id": n}) for n in range(5)]
    if format_ == "PROTOBUF":
        number, values = (
            register(registry, "t-value"),
            [written_protobuf("shop.Order", id=n) for n in range(5)],
        )
        index = b"\0"
    ids = [framed(number, as_guid=as_guid) + index for as_guid in (False, True)]
    found = delivered(
        f"FOREIGN STREAM s (id INTEGER) SERVER OPTIONS (format '{format_}', {options})",
        [ids[0] + values[0], ids[1] + values[1], values[2], values[3], ids[0] + values[4], None],
        [
            None,
            [],
            [("a", b"b"), (OF_VALUE, ids[0])],
            [(OF_VALUE, ids[1])],
            [(OF_KEY, b"x")],
            [(OF_VALUE, ids[0])],
        ],
    )
    assert rows_of(found) == [(n,) for n in range(5)]
    assert [(fault.counter, fault.reason.name) for fault in found.faults] == [(5, "TOMBSTONE")]


@pytest.mark.parametrize("format_", FORMATS[1:])
@pytest.mark.parametrize(
    ("header", "why"),
    [
        (b"", "does not begin with the header of a registry"),
        (b"\2\0\0\0\1\0", "the header of a registry: byte 2"),
        (b"\1\0\0\0\1", "the header of a registry: byte 1"),
        (b"\1" + UUID(int=77).bytes + b"\0", "schema 00000000-0000-0000-0000-00000000004d does not exist"),
    ],
)
def test_a_header_that_names_no_schema_is_an_error_row(
    format_: str, header: bytes, why: str, registry: FakeRegistry
) -> None:
    declared = (
        f"FOREIGN STREAM s (id INTEGER) SERVER OPTIONS (format '{format_}', registry_url '{registry.url}')"
    )
    found = delivered(declared, [b"\4"], [[(OF_VALUE, header)]])
    assert rows_of(found) == []
    (fault,) = found.faults
    assert why in fault.message


def test_keys_name_their_schema_in_a_header_of_their_own(registry: FakeRegistry) -> None:
    value, key = registry.register("t-value", RECORD), registry.register("t-key", "int")
    ids = [(OF_VALUE, framed(value, as_guid=True)), (OF_KEY, framed(key, as_guid=True))]
    found = delivered(
        f"TABLE t (id INTEGER, PRIMARY KEY (id)) SERVER OPTIONS (format 'AVRO', registry_url '{registry.url}')",
        [written(RECORD, {"id": 7}), None],
        [ids, ids],
        [b"\x0e", b"\x0e"],
    )
    assert rows_of(found) == [(7,), (7,)]
    assert found.faults == ()


@pytest.mark.parametrize("format_", ["JSON", "DEBEZIUM_JSON"])
def test_json_has_the_header_before_values_and_keys_if_that_is_declared(format_: str) -> None:
    head = framed(9, as_guid=False)
    row = {"op": "c", "after": {"id": 1}} if format_ == "DEBEZIUM_JSON" else {"id": 1}
    for option, faults in (("", 2), (", registry_header 'true'", 0)):
        found = delivered(
            f"TABLE t (id INTEGER, PRIMARY KEY (id)) SERVER OPTIONS (format '{format_}'{option})",
            [head + json.dumps(row).encode(), None],
            keys=[head + b'{"id":1}', head + b'{"id":1}'],
        )
        assert len(found.faults) == faults
        # A change of Debezium says itself what it deletes.
        assert len(rows_of(found)) == (0 if faults else 2)
