"""Decode Protobuf messages, by descriptors that the stream declares or by the schemas of a registry.

See docs/sql/streams.md#protobuf. With a registry, a message begins with Confluent's header (``registries``) and the
place of its message type in the file. If the registry does not have the schema, the message is
rejected. If the registry does not answer, the stream stops, as for a broker.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from google.protobuf.message import DecodeError
from google.protobuf.message_factory import GetMessageClass

from rowtide.codec.contract import Decoded
from rowtide.codec.format_options import DESCRIPTOR, MESSAGE, PATH
from rowtide.codec.options import Declared
from rowtide.codec.protobuf.faults import place_of_fault
from rowtide.codec.protobuf.rows import MessageRows, NoFieldError, PathError, ToRow
from rowtide.codec.protobuf.schemas import (
    Descriptor,
    SchemaError,
    declared_message,
    fetched_file,
    indexes_of,
    message_at,
    shown_indexes,
)
from rowtide.codec.registries import SchemaId, headed, registry_of
from rowtide.codec.rowwise import decode_each
from rowtide.errors import Reason, RejectedRowError
from rowtide.expr.json_path import show_path
from rowtide.rows.rowop import Row
from rowtide_connectors.errors import GoneError
from rowtide_connectors.options import suggestion
from rowtide_connectors.schema_registry import SchemaRegistry

_MOST_INDEXES = 32
"""Message types within message types, far more than anyone writes."""

Indexes = tuple[int, ...]


class ProtobufDecoder:
    """Decodes the Protobuf messages of one foreign stream; see ``codec.contract``.

    Raises:
      StatementError: there are neither descriptors nor a registry, they do not have the message, or a column cannot
        be read.
    """

    def __init__(self, declared: Declared) -> None:
        self._declared = declared
        self._rows = MessageRows(declared)
        self._registry = registry_of(declared)
        self._wanted = declared.options.get(MESSAGE)
        self._types: dict[tuple[SchemaId, Indexes], _MessageType | str] = {}
        self._own: _MessageType | None = None
        message = declared_message(declared)
        if message is not None:
            self._check(message)
            self._own = _MessageType(message, self._rows.of(message))
        elif self._registry is None:
            raise declared.error(
                DESCRIPTOR,
                "Protobuf needs descriptors or a Schema Registry",
                hint="Write OPTIONS (descriptor '/etc/rowtide/orders.desc', message 'shop.Order'), or registry_url "
                "'http://host:8081'.",
            )

    def decode(self, values: Sequence[bytes | None]) -> Decoded:
        """Decode messages; see ``codec.contract.Decoder``.

        Raises:
          UnavailableError: the registry does not answer; no message was decoded.
        """
        if self._registry is None:
            assert self._own is not None
            return decode_each(values, self._declared.row_type, self._own.row)
        if self._own is not None:
            return decode_each(values, self._declared.row_type, self._row_of_own)
        self._learn(self._registry, values)
        return decode_each(values, self._declared.row_type, self._row)

    def _check(self, message: Descriptor) -> None:
        """Refuse columns that the declared message cannot have."""
        for field in self._declared.row_type:
            try:
                self._rows.check(message, field.name)
            except NoFieldError as error:
                raise self._declared.error(
                    PATH if PATH in self._declared.of(field.name) else MESSAGE,
                    f'message {message.full_name} has no field "{show_path(error.path)[2:]}" for column "{field.name}"',
                    column=field.name if PATH in self._declared.of(field.name) else None,
                    hint=suggestion(str(error.path[-1]), error.known)
                    or f"Its fields are {', '.join(error.known)}.",
                ) from error
            except PathError as error:
                raise self._declared.error(PATH, str(error), column=field.name) from error

    def _row_of_own(self, value: bytes) -> Row:
        """Return the row of a message with a header whose registry is not asked."""
        assert self._own is not None
        _, indexes, begin = _header(value)
        if indexes != self._own.indexes:
            raise RejectedRowError(
                Reason.DECODE,
                f"the header names message {shown_indexes(indexes)} of its file, and {self._own.name} is "
                f"{shown_indexes(self._own.indexes)}",
            )
        return self._own.row(value[begin:])

    def _row(self, value: bytes) -> Row:
        number, indexes, begin = _header(value)
        found = self._types[number, indexes]
        if isinstance(found, str):
            raise RejectedRowError(Reason.DECODE, found)
        return found.row(value[begin:])

    def _learn(self, registry: SchemaRegistry, values: Iterable[bytes | None]) -> None:
        """Fetch the schemas that are not in the cache. The messages of one that cannot be used are rejected."""
        self._types = {key: found for key, found in self._types.items() if not isinstance(found, str)}
        for value in values:
            try:
                key = _header(value or b"")[:2]
            except RejectedRowError:
                continue
            if key not in self._types:
                self._types[key] = self._fetched(registry, *key)

    def _fetched(self, registry: SchemaRegistry, number: SchemaId, indexes: Indexes) -> _MessageType | str:
        """Return the message type of a header, or why its messages are rejected."""
        try:
            kind = registry.by_id(number).kind
            if kind != "PROTOBUF":
                return f"schema {number} of the registry is {kind}, not PROTOBUF"
            file, pool = fetched_file(registry, number)
            message = message_at(pool, file, indexes)
        except GoneError:
            return f"schema {number} does not exist in the registry"
        except SchemaError as error:
            return f"schema {number} of the registry cannot be used: {error}"
        if self._wanted is not None and message.full_name != self._wanted:
            return f"the message is {message.full_name}, not {self._wanted}"
        return _MessageType(message, self._rows.of(message))


class _MessageType:
    """Parses messages of a type, and converts them to rows."""

    def __init__(self, descriptor: Descriptor, to_row: ToRow) -> None:
        self.name: str = descriptor.full_name
        self.indexes = indexes_of(descriptor)
        self._descriptor = descriptor
        self._parse: Any = GetMessageClass(descriptor).FromString
        self._to_row = to_row
        self._may_be_incomplete = _requires(descriptor, set())

    def row(self, value: bytes) -> Row:
        """Return the row of a message.

        Raises:
          RejectedRowError: DECODE, TYPE or MISSING_FIELD.
        """
        try:
            message = self._parse(value)
        except DecodeError as error:
            where = place_of_fault(self._descriptor, value) or "it cannot be parsed"
            raise RejectedRowError(Reason.DECODE, f"the message is not {self.name}: {where}") from error
        if self._may_be_incomplete and not message.IsInitialized():
            # Of messages in a map the order is that of a hash table.
            missing = ", ".join(f"$.{path}" for path in sorted(message.FindInitializationErrors()))
            raise RejectedRowError(
                Reason.DECODE, f"the message is not {self.name}: required fields are missing: {missing[:200]}"
            )
        return self._to_row(message)


def _requires(descriptor: Descriptor, seen: set[str]) -> bool:
    """Return whether a message type, or one that it contains, has a required field."""
    if descriptor.full_name in seen:
        return False
    seen.add(descriptor.full_name)
    return any(
        field.is_required or (field.message_type is not None and _requires(field.message_type, seen))
        for field in descriptor.fields
    )


def _header(value: bytes) -> tuple[SchemaId, Indexes, int]:
    """Return the id of a schema, the place of the message type in it, and where the message begins.

    Raises:
      RejectedRowError: DECODE: the message has no header.
    """
    schema, begin = headed(value)
    if len(value) == begin:
        raise RejectedRowError(
            Reason.DECODE, "the message does not begin with the header of a registry: it is cut off"
        )
    if value[begin : begin + 1] == b"\0":
        return schema, (0,), begin + 1
    count, at = _zigzag(value, begin)
    if not 0 < count <= _MOST_INDEXES:
        raise RejectedRowError(
            Reason.DECODE, f"the header of the message has {count} places of message types"
        )
    indexes = []
    for _ in range(count):
        index, at = _zigzag(value, at)
        indexes.append(index)
    return schema, tuple(indexes), at


def _zigzag(value: bytes, at: int) -> tuple[int, int]:
    number = 0
    for index, byte in enumerate(value[at : at + 5]):
        number |= (byte & 0x7F) << (7 * index)
        if byte < 0x80:
            return (number >> 1) ^ -(number & 1), at + index + 1
    raise RejectedRowError(Reason.DECODE, "the header of the message is cut off")
