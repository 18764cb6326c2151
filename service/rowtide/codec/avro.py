"""Decode Avro messages, with a schema that the stream names or with Confluent's header.

See docs/sql/streams.md#avro. With a registry, a message names its writer's schema there (``registries``). If the
registry does not have the schema, the message is rejected. If the registry does not answer, the stream stops, as for a
broker.
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from fastavro.schema import SchemaParseException

from rowtide.codec.contract import Decoded
from rowtide.codec.format_options import KEY_FORMAT, REGISTRY_URL, SCHEMA, SCHEMA_FILE
from rowtide.codec.options import Declared
from rowtide.codec.records import RecordRows
from rowtide.codec.registries import SchemaId, headed, ids_of, registry_of
from rowtide.codec.rowwise import decode_each
from rowtide.errors import Reason, RejectedRowError
from rowtide_connectors.avro_reading import RecordReader, check_bounded, parse
from rowtide_connectors.errors import GoneError
from rowtide_connectors.schema_registry import RegisteredSchema, SchemaRegistry

INVALID_SCHEMA = (SchemaParseException, ValueError, KeyError, TypeError, AttributeError, RecursionError)
"""What fastavro raises for JSON that is not a schema. Only some of it is documented."""


class AvroRecords:
    """Reads records of messages by a schema of the stream, or by those of a registry.

    ``of_keys``: read keys of messages. They have the registry's header; the schema of the stream is
    not theirs.

    Raises:
      FormatOptionError: there is neither a schema nor a registry, or a schema is wrong.
    """

    def __init__(self, declared: Declared, *, of_keys: bool = False) -> None:
        self._names: dict[str, Any] = {}
        self._schema = None if of_keys else schema_of(declared, self._names)
        self._registry = registry_of(declared)
        if self._registry is None and of_keys:
            raise declared.error(
                KEY_FORMAT,
                "AVRO needs a Schema Registry for the keys of messages",
                hint="Write registry_url 'http://host:8081', or key_format 'JSON' or 'TEXT'.",
            )
        if self._registry is None and self._schema is None:
            raise declared.error(
                REGISTRY_URL,
                "Avro needs a Schema Registry or a schema",
                hint="Write OPTIONS (registry_url 'http://host:8081'), or schema_file 'order.avsc'.",
            )
        self._readers: dict[SchemaId, RecordReader] = {}
        self._refused: dict[SchemaId, str] = {}
        if self._registry is None:
            self._plain = RecordReader(self._schema, self._names)

    def prepare(self, values: Iterable[bytes | None]) -> None:
        """Fetch the schemas of messages before they are read.

        Raises:
          UnavailableError: the registry does not answer.
        """
        if self._registry is None:
            return
        self._refused.clear()
        for number in ids_of(values):
            self._learn(self._registry, number)

    def _learn(self, registry: SchemaRegistry, number: SchemaId) -> None:
        """Fetch a schema that is not in the cache.

        If it cannot be used, its messages are rejected with the reason.
        """
        if number in self._readers:
            return
        try:
            found = registry.by_id(number)
            if found.kind != "AVRO":
                self._refused[number] = f"schema {number} of the registry is {found.kind}, not AVRO"
                return
            names: dict[str, Any] = {}
            writer = _parsed(found, names)
            self._readers[number] = RecordReader(writer, names, self._schema, self._names)
        except GoneError:
            self._refused[number] = f"schema {number} does not exist in the registry"
        except INVALID_SCHEMA as error:
            self._refused[number] = f"schema {number} of the registry cannot be read: {error}"

    def read(self, value: bytes) -> object:
        """Return the value of a message.

        Raises:
          RejectedRowError: DECODE, it is not such a message.
        """
        if self._registry is None:
            return _read(self._plain, value)
        number, begin = headed(value)
        if number in self._refused:
            raise RejectedRowError(Reason.DECODE, self._refused[number])
        return _read(self._readers[number], value[begin:])


class AvroDecoder:
    """Decodes the Avro messages of one foreign stream; see ``codec.contract``.

    Raises:
      StatementError: there is neither a schema nor a registry, a schema is wrong, or a column cannot be read.
    """

    def __init__(self, declared: Declared) -> None:
        self._row_type = declared.row_type
        self._rows = RecordRows(declared, declared.row_type)
        self._records = AvroRecords(declared)

    def decode(self, values: Sequence[bytes | None]) -> Decoded:
        """Decode messages; see ``codec.contract.Decoder``.

        Raises:
          UnavailableError: the registry does not answer; no message was decoded.
        """
        self._records.prepare(values)
        return decode_each(values, self._row_type, lambda value: self._rows.row(self._records.read(value)))


def parsed(schema: RegisteredSchema) -> Any:
    """Return a parsed schema for fastavro, with the schemas that it references."""
    return _parsed(schema, {})


def _parsed(schema: RegisteredSchema, names: dict[str, Any]) -> Any:
    for each in schema.references:
        _parsed(each, names)
    return parse(schema.text, names)


def bounded(schema: Any) -> Any:
    """Return a parsed schema if the size of a message limits the number of its values.

    Raises:
      ValueError: it does not.
    """
    check_bounded(schema, schema.get("__named_schemas", {}) if isinstance(schema, dict) else {})
    return schema


def _read(reader: RecordReader, value: bytes) -> object:
    given = io.BytesIO(value)
    try:
        record = reader.read(given)
    except Exception as error:  # damaged bytes may raise any exception
        text = str(error) or type(error).__name__
        raise RejectedRowError(Reason.DECODE, f"the message does not fit its schema: {text[:200]}") from error
    left = len(value) - given.tell()
    if left:
        raise RejectedRowError(Reason.DECODE, f"the message does not fit its schema: {left} bytes are left")
    return record


def schema_of(declared: Declared, names: dict[str, Any] | None = None) -> Any:
    """Return the schema that a stream declares, as text or as a file, or None; add its named types to ``names``.

    Raises:
      FormatOptionError: it is not a schema, or the file cannot be read.
    """
    text, option = schema_text(declared)
    if text is None:
        return None
    try:
        schema = parse(text, named := {} if names is None else names)
        # Its defaults are read here, and not at the first message that needs them.
        RecordReader(schema, named, schema, named)
        return schema
    except INVALID_SCHEMA as error:
        raise declared.error(
            option, f"not an Avro schema: {error}", hint="Write it as JSON, such as in an .avsc file."
        ) from error


def schema_text(declared: Declared) -> tuple[str | None, str]:
    """Return the text of the schema that a stream declares, or None, and the option that has it.

    Raises:
      FormatOptionError: two options have it, or the file cannot be read.
    """
    text, file = declared.options.get(SCHEMA), declared.options.get(SCHEMA_FILE)
    if file is None:
        return text, SCHEMA
    if text is not None:
        raise declared.error(SCHEMA_FILE, "schema is given too", hint="Give one of them.")
    try:
        return Path(file).read_text("utf-8"), SCHEMA_FILE
    except (OSError, UnicodeDecodeError) as error:
        raise declared.error(SCHEMA_FILE, f'"{file}" cannot be read: {error}') from error
