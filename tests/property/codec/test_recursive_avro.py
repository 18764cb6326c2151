"""Avro schemas that contain themselves: any bytes are a row or an error row, and values are those of fastavro."""

from __future__ import annotations

import contextlib
import io
import json
import random
from collections.abc import Sequence
from typing import Any

import fastavro
import pytest
from fastavro.schema import UnknownType
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from rowtide.codec.registry import decoder_for
from rowtide.errors import Reason
from rowtide.rows.types import BIGINT, JSON, TIMESTAMP, VARCHAR, Field, Kind, RowType, Type, decimal
from rowtide.testing.contracts.format import UNFORESEEN, outcomes, survives
from rowtide_connectors.avro_reading import RecordReader, parse

Schema = Any
UNSHRUNK = settings(phases=(Phase.generate,))
"""What is drawn of a smaller seed is not simpler."""
COLUMNS = RowType(
    tuple(
        Field(f"F{at}", kind)
        for at, kind in enumerate(
            (
                VARCHAR,
                JSON,
                BIGINT,
                TIMESTAMP,
                decimal(12, 2),
                Type(Kind.VARBINARY),
                Type(Kind.ARRAY, element=BIGINT),
            )
        )
    )
)
PLAIN: list[Schema] = ["null", "boolean", "int", "long", "float", "double", "bytes", "string"]
LOGICAL: list[Schema] = [
    {"type": "int", "logicalType": "date"},
    {"type": "int", "logicalType": "time-millis"},
    {"type": "long", "logicalType": "time-micros"},
    *(
        {"type": "long", "logicalType": f"{local}timestamp-{unit}"}
        for local in ("", "local-")
        for unit in ("millis", "micros", "nanos")
    ),
    {"type": "string", "logicalType": "uuid"},
    {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2},
    {"type": "bytes", "logicalType": "decimal", "precision": "9"},
]


def drawn_schema(rng: random.Random, scalars: Sequence[Schema]) -> Schema:
    """Return a record whose fields have types that may contain it, and one another."""
    made: list[str] = []
    uuid = {"logicalType": "uuid"} if any(isinstance(each, dict) for each in scalars) else {}

    def of_type(depth: int) -> Schema:
        choice = rng.randrange(9 if depth < 4 else 4)
        if choice < 3:
            return rng.choice(scalars)
        if choice == 3:
            # A reference may close a circle only within a union, an array or a map.
            return ["null", rng.choice(made)]
        if choice == 4:
            return {"type": "array", "items": not_empty(depth + 1)}
        if choice == 5:
            return {"type": "map", "values": of_type(depth + 1)}
        if choice == 6:
            others = rng.sample(["boolean", "long", "string"], 2)
            return ["null", *others, {"type": "array", "items": rng.choice(made)}]
        if choice == 7:
            return rng.choice(
                [
                    {"type": "enum", "name": f"E{rng.getrandbits(40)}", "symbols": ["A", "B"]},
                    {"type": "fixed", "name": f"U{rng.getrandbits(40)}", "size": 16, **uuid},
                ]
            )
        return record(depth + 1)

    def not_empty(depth: int) -> Schema:
        return (
            ["null", rng.choice(made)]
            if rng.random() < 0.3
            else rng.choice([*(each for each in scalars if each != "null")])
        )

    def record(depth: int) -> Schema:
        name = f"R{len(made)}"
        made.append(name)
        fields = [{"name": f"f{at}", "type": of_type(depth)} for at in range(rng.randint(1, 5))]
        # So that no record takes no bytes.
        return {"type": "record", "name": name, "fields": [*fields, {"name": "f9", "type": ["null", name]}]}

    return record(0)


def varint(number: int) -> bytes:
    number = (number << 1) ^ (number >> 63)
    out = bytearray()
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    return bytes([*out, number])


def drawn_bytes(schema: Schema, names: dict[str, Schema], rng: random.Random, depth: int = 0) -> bytes:
    """Return the bytes of a value of a schema."""
    schema = names.get(schema, schema) if isinstance(schema, str) else schema
    if isinstance(schema, list):
        at = 0 if depth > 12 else rng.randrange(len(schema))
        return varint(at) + drawn_bytes(schema[at], names, rng, depth + 1)
    kind = schema["type"] if isinstance(schema, dict) else schema
    match kind:
        case "null":
            return b""
        case "boolean":
            return rng.choice((b"\0", b"\1"))
        case "int":
            return varint(rng.choice((0, 1, -1, 20_000, rng.randint(-(2**31), 2**31 - 1))))
        case "long":
            return varint(rng.choice((0, 1, 1_700_000_000_000, 9_223_372_036_825_200_000, -(2**63))))
        case "float":
            return rng.randbytes(4)
        case "double":
            return rng.randbytes(8)
        case "bytes" | "string":
            text: bytes = rng.choice(
                (b"", b"a", "é".encode(), *((b"\xff\0", rng.randbytes(40)) if kind == "bytes" else ()))
            )
            return varint(len(text)) + text
        case "enum":
            return varint(rng.randrange(2))
        case "fixed":
            return rng.randbytes(int(schema["size"]))
        case "record":
            return b"".join(drawn_bytes(each["type"], names, rng, depth + 1) for each in schema["fields"])
    inner = schema["items"] if kind == "array" else schema["values"]
    count = 0 if depth > 8 else rng.randint(0, 2)
    keys = [b"" if kind == "array" else b"\x02" + rng.choice((b"a", b"b")) for _ in range(count)]
    items = b"".join(key + drawn_bytes(inner, names, rng, depth + 1) for key in keys)
    return (varint(count) + items if count else b"") + b"\0"


def messages_of(schema: Schema, rng: random.Random, count: int) -> list[bytes]:
    """Return messages of a schema, messages with damage, and parts of messages that are repeated."""
    names: dict[str, Schema] = {}
    parsed = parse(json.dumps(schema), names)
    found = [drawn_bytes(parsed, names, rng) for _ in range(count // 4)]
    for _ in range(count - len(found)):
        whole = bytearray(rng.choice(found))
        at, to = sorted((rng.randint(0, len(whole)), rng.randint(0, len(whole))))
        match rng.randrange(12):
            case 1 | 2 | 3:
                whole[at:at] = rng.randbytes(rng.randint(1, 6))
            case 4 | 5:
                del whole[at : at + 4]
            case 6 | 7 | 8:
                whole[at:to] = varint(rng.choice((-1, -7, 2**62, -(2**63))))
            case 0:
                whole[at:at] = (
                    rng.choice((b"\2", b"\2\0", b"\2\2", b"\0\2", bytes(whole[at : at + 6]))) * 6_000
                )
            case _:
                whole = bytearray(rng.randbytes(rng.randint(0, 30)))
        found.append(bytes(whole))
    return found


def reader_of(schema: Schema, rng: random.Random) -> Schema:
    """Return a schema to read by: fields are dropped, added, promoted, and in another order."""
    reader = json.loads(json.dumps(schema))
    for each in reader["fields"]:
        if each["type"] == "int":
            each["type"] = rng.choice(("int", "long", "double"))
    more: list[dict[str, Any]] = [
        {"name": "g0", "type": ["null", "string"], "default": None},
        {"name": "g1", "type": {"type": "array", "items": "double"}, "default": [1.5]},
    ]
    fields = [*reader["fields"], *rng.sample(more, rng.randint(0, 2))]
    fewer = rng.sample(fields, rng.randint(1, len(fields)))
    try:
        parse(json.dumps(reader | {"fields": fewer}), {})
    except UnknownType:
        # A type of a field that was dropped is named in another one.
        fewer = fields
    return reader | {"fields": fewer}


def record_reader(schema: Schema, reader: Schema = None) -> RecordReader:
    names: dict[str, Schema] = {}
    reader_names: dict[str, Schema] = {}
    writer = parse(json.dumps(schema), names)
    return RecordReader(
        writer, names, None if reader is None else parse(json.dumps(reader), reader_names), reader_names
    )


@UNSHRUNK
@given(seed=st.integers(0, 2**32))
def test_any_bytes_are_a_row_or_an_error_row(seed: int) -> None:
    rng = random.Random(seed)
    schema = drawn_schema(rng, [*PLAIN, *LOGICAL])
    decoder = decoder_for("AVRO", "S", COLUMNS, options={"schema": json.dumps(schema)})
    by_reader = record_reader(schema, reader_of(schema, rng))
    messages = messages_of(schema, rng, 40)

    def decode() -> None:
        for outcome in outcomes(decoder, messages):
            assert not (isinstance(outcome[0], Reason) and UNFORESEEN.match(str(outcome[1]))), outcome
        for message in messages:
            with contextlib.suppress(Exception):
                by_reader.read(io.BytesIO(message))

    # What a first row imports, it imports here once, and not in each child.
    outcomes(decoder, messages[:1])
    survives(decode)


@UNSHRUNK
@given(seed=st.integers(0, 2**32), resolved=st.booleans())
def test_plain_values_are_those_of_fastavro(seed: int, resolved: bool) -> None:
    rng = random.Random(seed)
    schema = drawn_schema(rng, PLAIN)
    reader = reader_of(schema, rng) if resolved else None
    names: dict[str, Schema] = {}
    parsed = fastavro.parse_schema(schema, named_schemas=names)
    ours = record_reader(schema, reader)
    for _ in range(20):
        message = drawn_bytes(parsed, names, rng)
        stream = io.BytesIO(message)
        found = ours.read(stream)
        assert stream.tell() == len(message)
        wanted = fastavro.schemaless_reader(io.BytesIO(message), schema, reader)
        assert repr(found) == repr(wanted)


def test_a_length_of_a_field_that_is_dropped_does_not_keep_the_reader_busy() -> None:
    fields = [{"name": "a", "type": "int"}, {"name": "b", "type": {"type": "array", "items": "boolean"}}]
    writer = {"type": "record", "name": "R", "fields": fields}
    reader = record_reader(writer, writer | {"fields": fields[:1]})

    def read() -> None:
        with pytest.raises(EOFError):
            reader.read(io.BytesIO(varint(1) + varint(2**60)))

    survives(read, seconds=20)
