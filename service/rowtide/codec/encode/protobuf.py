"""Rows to Protobuf messages, by declared descriptors, by a schema of a registry, or by one that is made of the columns.

See docs/sql/streams.md#messages-in-protobuf. With a registry, ``prepare`` asks for the number of the schema before the
first row, so that encoding a row never waits.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Sequence
from typing import Any

from google.protobuf.message import EncodeError
from google.protobuf.message_factory import GetMessageClass

from rowtide.codec.encode.avro_values import long_bytes
from rowtide.codec.encode.contract import refuse
from rowtide.codec.encode.protobuf_schema import file_of
from rowtide.codec.encode.protobuf_values import setter_of
from rowtide.codec.encode.record import Place, UnfitError, places_of
from rowtide.codec.encode.registered import refuse_without_registry, registered
from rowtide.codec.format_options import (
    DESCRIPTOR,
    DESCRIPTOR_BASE64,
    LATEST,
    MESSAGE,
    REGISTRY_URL,
    SCHEMA_ID,
)
from rowtide.codec.json.readings import folded
from rowtide.codec.options import Declared
from rowtide.codec.protobuf.schemas import (
    Descriptor,
    SchemaError,
    declared_message,
    indexes_of,
    message_at,
    pool_of,
    registered_file,
)
from rowtide.codec.protobuf.values import FieldType
from rowtide.codec.registries import registry_of
from rowtide.errors import FaultError
from rowtide.rows.types import RowType
from rowtide_connectors.schema_registry import RegisteredSchema

_MAGIC = b"\0"
Row = Sequence[object]
Writer = Callable[[Any, Row], None]
"""Writes the value of a column in a row into a message."""


class ProtobufEncoder:
    """Encodes rows of ``row_type``; see ``codec.encode.contract.RegisteredEncoder``.

    Raises:
      StatementError: a column's type cannot be written, the message does not fit the columns, or an option is wrong.
    """

    def __init__(self, declared: Declared, row_type: RowType) -> None:
        self._declared = declared
        self._places = places_of(declared, row_type)
        registry = registry_of(declared)
        self._registered = None if registry is None else registered(declared, registry, "PROTOBUF")
        self._header: bytes | None = b"" if registry is None else None
        self._new: Callable[[], Any] | None = None
        self._writers: Sequence[Writer] = ()
        self._indexes: tuple[int, ...] = ()
        if self._registered is None:
            refuse_without_registry(declared)
            message = declared_message(declared)
            if message is None:
                raise declared.error(
                    REGISTRY_URL,
                    "Protobuf needs descriptors or a Schema Registry",
                    hint="Write OPTIONS (descriptor '/etc/rowtide/orders.desc', message 'shop.Order'), or "
                    "registry_url 'http://host:8081'.",
                )
            self._compile(message, MESSAGE)
            return
        for option in (DESCRIPTOR, DESCRIPTOR_BASE64):
            if option in declared.options:
                raise declared.error(
                    option,
                    "registry_url is given too",
                    hint=f"Write with a schema of the registry (schema_id '{LATEST}'), or without registry_url.",
                )
        if self._registered.wanted is None:
            file = file_of(declared, self._places)
            self._compile(message_at(pool_of([file]), file, (0,)), MESSAGE)
            self._registered.text = base64.b64encode(file.SerializeToString()).decode()

    def check(self) -> None:
        """Check that the registry has or takes the schema, and that it fits; see ``RegisteredEncoder``."""
        if self._registered is not None:
            found = self._registered.look_up()
            if found is not None:
                self._compile_found(found)

    def prepare(self) -> None:
        """Fetch or register the schema; see ``RegisteredEncoder``."""
        if self._registered is not None and self._header is None:
            number, found = self._registered.number()
            if found is not None:
                self._compile_found(found)
            self._header = _MAGIC + number.to_bytes(4, "big") + _index_bytes(self._indexes)

    def encode(self, row: Row) -> bytes:
        """Return the value of a row's message; see ``codec.encode.contract.Encoder``."""
        if self._header is None or self._new is None:
            raise FaultError(f"{self._declared.what}: the number of its schema is not known yet")
        message = self._new()
        for write in self._writers:
            write(message, row)
        try:
            # The entries of a map are in the order of its keys: the message of a row is always the same.
            return self._header + bytes(message.SerializeToString(deterministic=True))
        except EncodeError as error:
            refuse(f"the message is not complete: {str(error)[:200]}")

    def _compile_found(self, found: RegisteredSchema) -> None:
        try:
            file, pool = registered_file(found)
            name = self._declared.options.get(MESSAGE)
            message = message_at(pool, file, (0,)) if name is None else pool.FindMessageTypeByName(name)
        except SchemaError as error:
            raise self._declared.error(SCHEMA_ID, f"its schema cannot be used: {error}") from error
        except KeyError as error:
            raise self._declared.error(MESSAGE, f'the schema has no message "{name}"') from error
        if message.file.name != file.name:
            raise self._declared.error(MESSAGE, f'message "{name}" is in a file that the schema references')
        self._compile(message, SCHEMA_ID)

    def _compile(self, message: Descriptor, option: str) -> None:
        self._writers = _Compiler(self._declared, option).writers(message, self._places)
        self._new = GetMessageClass(message)
        self._indexes = indexes_of(message)


class _Compiler:
    """Makes the writers of columns. ``option`` is where the message is from, for errors."""

    def __init__(self, declared: Declared, option: str) -> None:
        self._declared = declared
        self._option = option

    def writers(self, message: Descriptor, places: Sequence[Place]) -> list[Writer]:
        """Return the writers of columns into a message.

        Raises:
          FormatOptionError: a column has no field, a required field has no column, or types do not fit.
        """
        found: list[Writer] = []
        taken: dict[str, tuple[Descriptor, set[str]]] = {"": (message, set())}
        fields_taken: set[str] = set()
        for place in places:
            shown, within = "", message
            holders: list[str] = []
            for depth, step in enumerate(place.path):
                field = self._field(within, step, place, shown)
                taken[shown][1].add(field.name)
                shown += ("." if shown else "") + field.name
                is_last = depth + 1 == len(place.path)
                if shown in fields_taken or (is_last and shown in taken):
                    raise self._error(f'two columns have field "{shown}"')
                if is_last:
                    fields_taken.add(shown)
                    found.append(self._writer(place, field, holders, shown))
                    break
                if field.is_repeated or field.message_type is None:
                    raise self._error(
                        f'field "{shown}" is not a message, so it has no "{place.path[depth + 1]}"'
                    )
                holders.append(field.name)
                within = field.message_type
                taken.setdefault(shown, (within, set()))
        for shown, (descriptor, names) in taken.items():
            for field in descriptor.fields:
                if field.is_required and field.name not in names:
                    name = f"{shown}.{field.name}" if shown else field.name
                    raise self._error(
                        f'field "{name}" is required, and the stream has no column for it',
                        hint=f"Add a column {field.name}.",
                    )
        return found

    def _field(self, message: Descriptor, step: str, place: Place, shown: str) -> FieldType:
        names = [each.name for each in message.fields]
        name = step
        if step not in names and not place.exact:
            name = next((each for each in names if folded(each) == folded(step)), step)
        if name not in names:
            raise self._error(
                f'it has no field "{shown}{"." if shown else ""}{name}" for column "{place.field.name}"',
                hint=f"Its fields are {', '.join(names)}." if names else None,
            )
        return message.fields_by_name[name]

    def _writer(self, place: Place, field: FieldType, holders: Sequence[str], shown: str) -> Writer:
        try:
            write = setter_of(self._declared, place.field, field)
        except UnfitError as error:
            why = f": {error}" if error.args else ""
            raise self._error(
                f'field "{shown}" is {_type_of(field)}, and column "{place.field.name}" is {place.field.type}{why}'
            ) from error
        at, name = place.at, place.field.name
        takes_null = field.is_repeated or (field.has_presence and not field.is_required)

        def written(message: Any, row: Row) -> None:
            value = row[at]
            if value is not None:
                for holder in holders:
                    message = getattr(message, holder)
                write(message, value)
            elif not takes_null:
                refuse(
                    f'column "{name}" is NULL, and field "{shown}" cannot be left out: it is not optional in the schema'
                )

        return written

    def _error(self, problem: str, hint: str | None = None) -> Exception:
        return self._declared.error(self._option, f"the message does not fit: {problem}", hint=hint)


def _type_of(field: FieldType) -> str:
    """Return the type of a field as errors show it."""
    named = field.message_type or field.enum_type
    own = str(named.full_name) if named is not None else _NAMES[field.type]
    return f"repeated {own}" if field.is_repeated else own


_NAMES = {
    **{1: "double", 2: "float", 3: "int64", 4: "uint64", 5: "int32", 6: "fixed64", 7: "fixed32", 8: "bool"},
    **{9: "string", 12: "bytes", 13: "uint32", 15: "sfixed32", 16: "sfixed64", 17: "sint32", 18: "sint64"},
}
"""Scalar types by their number in a descriptor."""


def _index_bytes(indexes: tuple[int, ...]) -> bytes:
    """Return the place of a message in its file as a header has it."""
    if indexes == (0,):
        return b"\0"
    return b"".join(long_bytes(each) for each in (len(indexes), *indexes))
