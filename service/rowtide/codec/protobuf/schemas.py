"""Descriptors of Protobuf messages: of a file that protoc wrote, or of a Schema Registry.

A registry has schemas as text, and compiles them itself if it is asked for the serialized form, which is a file
descriptor in base64. So no compiler is needed here.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from google.protobuf import (
    any_pb2,
    api_pb2,
    descriptor_pb2,
    descriptor_pool,
    duration_pb2,
    empty_pb2,
    field_mask_pb2,
    source_context_pb2,
    struct_pb2,
    timestamp_pb2,
    type_pb2,
    wrappers_pb2,
)
from google.protobuf.message import DecodeError

from rowtide.codec.format_options import DESCRIPTOR, DESCRIPTOR_BASE64, MESSAGE
from rowtide.codec.options import Declared
from rowtide.codec.protobuf.built_in import BUILT_IN
from rowtide_connectors.errors import UnavailableError
from rowtide_connectors.options import suggestion
from rowtide_connectors.schema_registry import RegisteredSchema, SchemaRegistry

Descriptor = Any
"""A descriptor of a message type, as google.protobuf has it."""
FileProto = Any
"""A FileDescriptorProto."""

WELL_KNOWN = {
    module.DESCRIPTOR.name: module.DESCRIPTOR
    for module in (
        *(any_pb2, api_pb2, descriptor_pb2, duration_pb2, empty_pb2, field_mask_pb2, source_context_pb2),
        *(struct_pb2, timestamp_pb2, type_pb2, wrappers_pb2),
    )
}
"""The files that every compiler has."""
_WRITE_FILE = "Write the file with: protoc --include_imports --descriptor_set_out=orders.desc orders.proto."
_BESIDE = (
    "declare the descriptors beside registry_url, such as descriptor '/etc/rowtide/orders.desc', message 'shop.Order'. "
    + _WRITE_FILE
)
_MOST_NAMES = 20
_UNNAMED = "schema.proto"


class SchemaError(Exception):
    """Files are not those of a schema; the argument says why."""


def declared_message(declared: Declared) -> Descriptor | None:
    """Return the message of the descriptors that a stream declares, or None.

    Raises:
      FormatOptionError: they cannot be read, or do not have the message.
    """
    content, option = _content(declared)
    if content is None:
        return None
    try:
        files = _files_of_set(content)
        pool = pool_of(files)
    except SchemaError as error:
        raise declared.error(option, f"not a descriptor set: {error}", hint=_WRITE_FILE) from error
    name = declared.options.get(MESSAGE)
    names = sorted(each for file in files for each in _names(file))
    shown = f"The messages are {', '.join(names[:_MOST_NAMES])}{', ...' if len(names) > _MOST_NAMES else ''}."
    if name is None:
        raise declared.error(
            option, "the name of the message is missing", hint=f"Add message 'NAME'. {shown}"
        )
    try:
        return pool.FindMessageTypeByName(name)
    except KeyError as error:
        hint = suggestion(name, names) or shown
        raise declared.error(
            MESSAGE, f'message "{name}" does not exist in the descriptors', hint=hint
        ) from error


def _content(declared: Declared) -> tuple[bytes | None, str]:
    """Return the descriptor set that a stream declares, or None, and the option that has it."""
    file, text = declared.options.get(DESCRIPTOR), declared.options.get(DESCRIPTOR_BASE64)
    if file is not None and text is not None:
        raise declared.error(DESCRIPTOR_BASE64, f"{DESCRIPTOR} is given too", hint="Give one of them.")
    if text is not None:
        try:
            return base64.b64decode("".join(text.split()), validate=True), DESCRIPTOR_BASE64
        except (binascii.Error, ValueError) as error:
            raise declared.error(DESCRIPTOR_BASE64, "it is not base64", hint=_WRITE_FILE) from error
    if file is None:
        return None, DESCRIPTOR
    try:
        return Path(file).read_bytes(), DESCRIPTOR
    except OSError as error:
        raise declared.error(
            DESCRIPTOR, f'"{file}" cannot be read: {error.strerror}', hint=_WRITE_FILE
        ) from error


def fetched_file(registry: SchemaRegistry, number: int | str) -> tuple[FileProto, Any]:
    """Return the file of a schema in a registry and the pool that has it.

    Raises:
      SchemaError: it imports what neither it nor this program has, or it contradicts itself.
      GoneError: the registry does not have it.
      UnavailableError: the registry does not answer, or not with a file descriptor.
    """
    try:
        return registered_file(registry.serialized(number))
    except UnavailableError as error:
        # Some registries fail at this request alone.
        error.hint = error.hint or f"If only this fails: {_BESIDE}"
        raise


def registered_file(found: RegisteredSchema) -> tuple[FileProto, Any]:
    """Return the file of a serialized schema and the pool that has it; raises as ``fetched_file``."""
    file = _file_of(found)
    if not file.name:
        file.name = _UNNAMED
    return file, pool_of([file, *_referenced(found.references)])


def _referenced(references: Sequence[RegisteredSchema]) -> Iterator[FileProto]:
    for each in references:
        file = _file_of(each)
        # Its own name need not be that of the import.
        file.name = each.name
        yield file
        yield from _referenced(each.references)


def _file_of(found: RegisteredSchema) -> FileProto:
    try:
        return descriptor_pb2.FileDescriptorProto.FromString(base64.b64decode(found.text, validate=True))
    except (binascii.Error, ValueError, DecodeError) as error:
        raise UnavailableError(
            "the schema registry does not answer with the descriptors of a Protobuf schema",
            hint=f"It does not support format=serialized: {_BESIDE}",
        ) from error


def pool_of(files: Iterable[FileProto]) -> Any:
    """Return a pool with files, in whatever order they are, and the files that they import.

    Raises:
      SchemaError: an import is missing, or a file is not valid.
    """
    given = {file.name: file for file in files}
    pool = descriptor_pool.DescriptorPool()
    added: set[str] = set()

    def add(name: str, importer: str) -> None:
        if name in added:
            return
        added.add(name)
        if name in given:
            file = given[name]
        elif name in BUILT_IN:
            file = BUILT_IN[name]
        elif name in WELL_KNOWN:
            file = descriptor_pb2.FileDescriptorProto()
            WELL_KNOWN[name].CopyToProto(file)
        else:
            raise SchemaError(f'file "{importer}" imports "{name}", which is missing')
        for each in file.dependency:
            add(each, name)
        try:
            pool.AddSerializedFile(file.SerializeToString())
        except TypeError as error:
            raise SchemaError(f'file "{name}": {error}') from error

    for name in given:
        add(name, name)
    return pool


def _files_of_set(content: bytes) -> list[FileProto]:
    try:
        files = list(descriptor_pb2.FileDescriptorSet.FromString(content).file)
    except DecodeError as error:
        raise SchemaError("its bytes are not those of protoc") from error
    if not files or not all(file.name for file in files):
        raise SchemaError("it has no file")
    return files


def _names(file: FileProto) -> Iterator[str]:
    """Yield the names of the messages of a file that a stream may name, nested ones too."""
    if file.name in WELL_KNOWN:
        return
    waiting = [(file.package, each) for each in file.message_type]
    while waiting:
        within, each = waiting.pop()
        name = f"{within}.{each.name}" if within else each.name
        yield name
        waiting += [(name, inner) for inner in each.nested_type if not inner.options.map_entry]


# ------------------------------------------------------------------ the number of a message in its file


def message_at(pool: Any, file: FileProto, indexes: Sequence[int]) -> Descriptor:
    """Return the message that a registry's header names: its place in the file, then in the messages around it.

    Raises:
      SchemaError: there is none.
    """
    name, inside = file.package, list(file.message_type)
    for index in indexes:
        if not 0 <= index < len(inside):
            raise SchemaError(f"it has no message {shown_indexes(indexes)}")
        name = f"{name}.{inside[index].name}" if name else inside[index].name
        # The entries of maps are no messages of the text that others count.
        inside = [each for each in inside[index].nested_type if not each.options.map_entry]
    return pool.FindMessageTypeByName(name)


def indexes_of(message: Descriptor) -> tuple[int, ...]:
    """Return the numbers by which a registry's header names a message."""
    around = message.containing_type
    if around is None:
        return (list(message.file.message_types_by_name).index(message.name),)
    siblings = [each.name for each in around.nested_types if not each.GetOptions().map_entry]
    return (*indexes_of(around), siblings.index(message.name))


def shown_indexes(indexes: Sequence[int]) -> str:
    """Return the numbers of a header as errors show them."""
    return "[" + ", ".join(map(str, indexes)) + "]"
