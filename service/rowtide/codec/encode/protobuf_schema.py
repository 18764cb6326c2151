"""The Protobuf message that is made of the columns of a stream (docs/sql/streams.md#messages-in-protobuf)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from google.protobuf.descriptor_pb2 import DescriptorProto, FieldDescriptorProto, FileDescriptorProto

from rowtide.codec.encode.record import NAME, Place, name_of_columns
from rowtide.codec.format_options import MESSAGE, PATH, PATTERN, TIME_UNIT
from rowtide.codec.options import Declared
from rowtide.codec.protobuf.values import TIMESTAMP
from rowtide.rows.types import Field, Kind

_TYPES = {
    Kind.BOOLEAN: FieldDescriptorProto.TYPE_BOOL,
    Kind.TINYINT: FieldDescriptorProto.TYPE_INT32,
    Kind.SMALLINT: FieldDescriptorProto.TYPE_INT32,
    Kind.INTEGER: FieldDescriptorProto.TYPE_INT32,
    Kind.BIGINT: FieldDescriptorProto.TYPE_INT64,
    Kind.REAL: FieldDescriptorProto.TYPE_FLOAT,
    Kind.DOUBLE: FieldDescriptorProto.TYPE_DOUBLE,
    Kind.BINARY: FieldDescriptorProto.TYPE_BYTES,
    Kind.VARBINARY: FieldDescriptorProto.TYPE_BYTES,
}
"""The types of fields; those of other columns are strings, except times."""
_TIMES = (Kind.TIMESTAMP, Kind.INSTANT, Kind.DATE, Kind.TIME)


def file_of(declared: Declared, places: Sequence[Place]) -> Any:
    """Return the file descriptor of a message with a field for each column, numbered in their order.

    A field is ``optional`` unless its column is NOT NULL. A path makes messages within the message.

    Raises:
      FormatOptionError: a name is not one of Protobuf.
    """
    given = declared.options.get(MESSAGE, name_of_columns(declared))
    if not all(NAME.fullmatch(each) for each in given.split(".")):
        raise declared.error(MESSAGE, f'"{given}" is not a name of Protobuf', hint="Such as shop.Alert.")
    package, _, name = given.rpartition(".")
    file = FileDescriptorProto(name=f"{given}.proto", package=package, syntax="proto3")
    root = file.message_type.add(name=name)
    inner: dict[tuple[str, ...], Any] = {(): root}
    for place in places:
        for depth, step in enumerate(place.path):
            if not NAME.fullmatch(step):
                raise declared.error(
                    PATH,
                    f'"{step}" is not a name of Protobuf',
                    column=place.field.name,
                    hint="Add OPTIONS (path '$.first_name') to the column.",
                )
            holder, path = inner[place.path[:depth]], place.path[: depth + 1]
            if depth + 1 == len(place.path):
                _add(holder, step, declared, place.field)
            elif path not in inner:
                # All are within the outermost one, so that no name hides another.
                inner[path] = root.nested_type.add(name="_".join((*path, "message")))
                type_name = ".".join(("", *filter(None, (package, name, inner[path].name))))
                _field(holder, step, type=FieldDescriptorProto.TYPE_MESSAGE, type_name=type_name)
    for each in inner.values():
        _declare_optional(each)
    if any(field.type_name == f".{TIMESTAMP}" for each in inner.values() for field in each.field):
        file.dependency.append("google/protobuf/timestamp.proto")
    return file


def _add(holder: DescriptorProto, name: str, declared: Declared, field: Field) -> None:
    options, kind = declared.of(field.name), (field.type.element or field.type).kind
    label = (
        FieldDescriptorProto.LABEL_OPTIONAL
        if field.type.element is None
        else FieldDescriptorProto.LABEL_REPEATED
    )
    if kind in (Kind.TIMESTAMP, Kind.INSTANT) and TIME_UNIT not in options and PATTERN not in options:
        _field(holder, name, type=FieldDescriptorProto.TYPE_MESSAGE, label=label, type_name=f".{TIMESTAMP}")
        return
    own = _TYPES.get(kind, FieldDescriptorProto.TYPE_STRING)
    if kind in _TIMES and TIME_UNIT in options and PATTERN not in options:
        own = FieldDescriptorProto.TYPE_INT64
    is_optional = field.nullable and field.type.element is None
    _field(holder, name, type=own, label=label, proto3_optional=is_optional or None)


def _field(holder: DescriptorProto, name: str, **more: Any) -> None:
    more.setdefault("label", FieldDescriptorProto.LABEL_OPTIONAL)
    holder.field.add(name=name, number=len(holder.field) + 1, **more)


def _declare_optional(message: DescriptorProto) -> None:
    """Add the oneof that each optional field of proto3 has of its own."""
    names = {field.name for field in message.field}
    for field in message.field:
        if field.proto3_optional:
            name = f"_{field.name}"
            while name in names:
                name = f"X{name}"
            names.add(name)
            field.oneof_index = len(message.oneof_decl)
            message.oneof_decl.add(name=name)
