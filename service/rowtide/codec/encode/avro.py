"""Rows to Avro records, with a schema of the stream, of a registry, or made of the columns.

See docs/sql/streams.md#messages-in-avro. With a registry, ``prepare`` asks for the number of the schema before
the first row, so that encoding a row never waits.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from rowtide.codec.avro import INVALID_SCHEMA, bounded, parsed, schema_of, schema_text
from rowtide.codec.encode.avro_record import Compiler, Part, record_of
from rowtide.codec.encode.avro_values import ToBytes, type_of, value_writer
from rowtide.codec.encode.json import main_spelling
from rowtide.codec.encode.record import Place, places_of
from rowtide.codec.encode.registered import Registered, refuse_without_registry, registered
from rowtide.codec.format_options import (
    AUTO_REGISTER,
    KEY_FORMAT,
    KEY_SUBJECT,
    RECORD_NAME,
    REGISTRY_URL,
    SCHEMA,
    SCHEMA_ID,
)
from rowtide.codec.options import Declared
from rowtide.codec.registries import registry_of
from rowtide.errors import FaultError
from rowtide.rows.types import Field, RowType
from rowtide_connectors.schema_registry import RegisteredSchema

_MAGIC = b"\0"


class AvroEncoder:
    """Encodes rows of ``row_type``; see ``codec.encode.contract.RegisteredEncoder``.

    Raises:
      StatementError: a column's type cannot be written, the schema does not fit the columns, or an option is wrong.
    """

    def __init__(self, declared: Declared, row_type: RowType) -> None:
        self._declared = declared
        self._places = places_of(declared, row_type)
        registry = registry_of(declared)
        self._registered = None if registry is None else registered(declared, registry)
        self._header: bytes | None = b"" if registry is None else None
        self._parts: Sequence[Part] = ()
        text, option = schema_text(declared)
        _refuse_together(declared, None if text is None else option, has_registry=registry is not None)
        if text is not None:
            self._compile(schema_of(declared), option)
        elif self._registered is None:
            raise declared.error(
                REGISTRY_URL,
                "Avro needs a Schema Registry or a schema",
                hint="Write OPTIONS (registry_url 'http://host:8081'), or schema_file 'order.avsc'.",
            )
        elif self._registered.wanted is None:
            text = json.dumps(record_of(declared, self._places))
            self._compile(parsed(RegisteredSchema(text)), SCHEMA)
        if self._registered is not None:
            self._registered.text = text

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
            self._header = _MAGIC + number.to_bytes(4, "big")

    def encode(self, row: Sequence[object]) -> bytes:
        """Return the value of a row's message; see ``codec.encode.contract.Encoder``."""
        if self._header is None:
            raise FaultError(f"{self._declared.what}: the number of its schema is not known yet")
        return self._header + b"".join(
            [part if isinstance(part, bytes) else part(row) for part in self._parts]
        )

    def _compile_found(self, found: RegisteredSchema) -> None:
        try:
            schema = bounded(parsed(found))
        except INVALID_SCHEMA as error:
            raise self._declared.error(SCHEMA_ID, f"its schema cannot be read: {error}") from error
        self._compile(schema, SCHEMA_ID)

    def _compile(self, schema: Any, option: str) -> None:
        self._parts = Compiler(self._declared, schema, option).parts(self._places)


class AvroKey:
    """Encodes the columns of a key with a schema that is made of them: a record, or the value of one column.

    See ``codec.encode.contract.RegisteredEncoder``.

    Raises:
      StatementError: a column's type cannot be written, or the stream does not name a registry.
    """

    def __init__(self, declared: Declared, fields: Sequence[Field]) -> None:
        registry = registry_of(declared)
        if registry is None:
            raise declared.error(
                KEY_FORMAT,
                "AVRO needs a Schema Registry for the keys of messages",
                hint="Write registry_url 'http://host:8081', or key_format 'JSON' or 'TEXT'.",
            )
        subject = declared.options.get(KEY_SUBJECT, f"{declared.options.get('topic', declared.relation)}-key")
        self._declared = declared
        self._registered = Registered(registry, subject, None, adds=declared.is_on(AUTO_REGISTER))
        # Names of columns, not their paths in the value.
        plain = Declared(declared.relation, declared.row_type, declared.options, {})
        self._header: bytes | None = None
        self._single: ToBytes | None = None
        self._parts: Sequence[Part] = ()
        if len(fields) == 1:
            schema = type_of(plain, fields[0])
            self._single = value_writer(plain, fields[0], schema)
        else:
            places = [
                Place(at, field, (main_spelling(field.name),), False) for at, field in enumerate(fields)
            ]
            schema = record_of(plain, places, suffix="Key")
            compiler = Compiler(plain, parsed(RegisteredSchema(json.dumps(schema))), KEY_FORMAT)
            self._parts = compiler.parts(places)
        self._registered.text = json.dumps(schema)

    def check(self) -> None:
        """Check that the registry has or takes the schema; see ``RegisteredEncoder``."""
        self._registered.look_up()

    def prepare(self) -> None:
        """Register the schema; see ``RegisteredEncoder``."""
        if self._header is None:
            number, _ = self._registered.number()
            self._header = _MAGIC + number.to_bytes(4, "big")

    def encode(self, row: Sequence[object]) -> bytes | None:
        """Return the key of a row; None if its only column is NULL."""
        if self._header is None:
            raise FaultError(f"{self._declared.what}: the number of the key's schema is not known yet")
        if self._single is None:
            parts = [part if isinstance(part, bytes) else part(row) for part in self._parts]
            return self._header + b"".join(parts)
        return None if row[0] is None else self._header + self._single(row[0])


def _refuse_together(declared: Declared, schema: str | None, *, has_registry: bool) -> None:
    """Refuse options that do not fit each other; ``schema`` is the option that declares a schema."""
    if not has_registry:
        refuse_without_registry(declared)
    if schema is not None and SCHEMA_ID in declared.options:
        raise declared.error(SCHEMA_ID, f"{schema} is given too", hint="Give one of them.")
    if RECORD_NAME in declared.options and (schema is not None or SCHEMA_ID in declared.options):
        raise declared.error(
            RECORD_NAME, f"{schema or SCHEMA_ID} names the record", hint="Remove one of them."
        )
