"""Messages of ``tests/support/protos``, made by google's own classes.

protoc --include_imports --descriptor_set_out=shop.desc shop.proto legacy.proto wrote the descriptors.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

from google.protobuf import json_format
from google.protobuf.descriptor_pb2 import FileDescriptorProto, FileDescriptorSet
from google.protobuf.message_factory import GetMessageClass

from rowtide.codec.contract import Decoder
from rowtide.codec.protobuf.schemas import pool_of
from rowtide.codec.registry import decoder_of
from rowtide.runtime.option_check import check_options
from rowtide.sql.pipeline import plan_pipeline
from support.registry import FakeRegistry

SERVER = "CREATE SERVER k FOREIGN DATA WRAPPER MEMORY OPTIONS (broker 'protobuf');\n"
FILE = Path(__file__).parent / "protos" / "shop.desc"


@cache
def files() -> dict[str, Any]:
    """Return the file descriptors by name."""
    return {file.name: file for file in FileDescriptorSet.FromString(FILE.read_bytes()).file}


@cache
def _pool() -> Any:
    return pool_of(files().values())


def message(name: str, /, **fields: Any) -> Any:
    """Return a message with fields as google's JSON has them."""
    made = GetMessageClass(_pool().FindMessageTypeByName(name))()
    return json_format.ParseDict(fields, made)


def written(name: str, /, **fields: Any) -> bytes:
    """Return the bytes of a message with fields as google's JSON has them."""
    return bytes(message(name, **fields).SerializePartialToString())


def register(registry: FakeRegistry, subject: str, file: str = "shop.proto") -> int:
    """Register a file and those that it references; return its number."""
    references = []
    for name in files()[file].dependency:
        if not name.startswith("google/"):
            register(registry, name, name)
            references.append((name, name, 1))
    return registry.register_protobuf(subject, text_of(file), references)


def text_of(file: str) -> str:
    """Return a file as Confluent's clients for Python register it: its descriptor in base64."""
    return base64.b64encode(files()[file].SerializeToString()).decode()


def headed(number: int, value: bytes, indexes: Iterable[int] = (0,)) -> bytes:
    """Return a message after the header of a registry."""
    places = list(indexes)
    shown = b"\0" if places == [0] else b"".join(_zigzag(each) for each in (len(places), *places))
    return b"\0" + number.to_bytes(4, "big") + shown + value


def read(registry: FakeRegistry, value: bytes) -> dict[str, Any]:
    """Return a message of a registry, the first one of its file, as google's JSON has it."""
    assert value[:1] + value[5:6] == b"\0\0"
    number = int.from_bytes(value[1:5], "big")
    file = FileDescriptorProto.FromString(base64.b64decode(registry.schemas[number]["schema"]))
    name = ".".join(filter(None, (file.package, file.message_type[0].name)))
    found = GetMessageClass(pool_of([file]).FindMessageTypeByName(name)).FromString(value[6:])
    return dict(json_format.MessageToDict(found, preserving_proto_field_name=True))


def decoder(columns: str, **options: str) -> Decoder:
    """Return the decoder of a stream with these columns, after the check of its options."""
    given = "".join(f", {name} '{value}'" for name, value in options.items())
    text = f"{SERVER}CREATE FOREIGN STREAM s ({columns}) SERVER k OPTIONS (format 'PROTOBUF'{given});"
    plan = plan_pipeline(text)
    check_options(plan, text, file="p.sql")
    return decoder_of(plan.foreign_streams[0])


def _zigzag(number: int) -> bytes:
    rest, found = number << 1, bytearray()
    while rest >= 0x80:
        found.append(rest & 0x7F | 0x80)
        rest >>= 7
    return bytes((*found, rest))
