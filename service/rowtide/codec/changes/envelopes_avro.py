"""Changes of a table to Debezium's envelopes in Avro, with a schema that is made of the columns and registered."""

from __future__ import annotations

import json
from typing import Any

from rowtide.codec.avro import parsed
from rowtide.codec.changes.envelopes import Image, Placeholders, envelope_schema, op_of, source_of
from rowtide.codec.encode.avro_record import Compiler, record_of
from rowtide.codec.encode.avro_values import long_bytes
from rowtide.codec.encode.record import places_of
from rowtide.codec.encode.registered import registered
from rowtide.codec.format_options import REGISTRY_URL, SCHEMA, SCHEMA_FILE, SCHEMA_ID
from rowtide.codec.options import Declared
from rowtide.codec.registries import registry_of
from rowtide.errors import FaultError
from rowtide.rows.types import RowType
from rowtide_connectors.schema_registry import RegisteredSchema

_NONE, _SOME = b"\0", b"\2"
"""The branches of a union of null and another type."""
_SUFFIX = "Value"


class DebeziumAvroEncoder:
    """Encodes changes; see ``codec.encode.contract.ChangeEncoder`` and ``RegisteredEncoder``.

    Raises:
      StatementError: a column's type cannot be written, there is no registry, or an option is wrong.
    """

    def __init__(self, declared: Declared, row_type: RowType) -> None:
        registry = registry_of(declared)
        if registry is None:
            raise declared.error(
                REGISTRY_URL,
                "the schema of changes is written to a Schema Registry",
                hint="Write OPTIONS (registry_url 'http://host:8081').",
            )
        for option in (SCHEMA, SCHEMA_FILE, SCHEMA_ID):
            if option in declared.options:
                raise declared.error(
                    option, "the schema of changes is made of the columns", hint="Remove it."
                )
        self._declared = declared
        self._placeholders = Placeholders(declared)
        places = places_of(declared, row_type)
        value: dict[str, Any] = record_of(declared, places, suffix=_SUFFIX)
        compiler = Compiler(declared, parsed(RegisteredSchema(json.dumps(value))), REGISTRY_URL)
        self._parts = compiler.parts(places)
        self._registered = registered(declared, registry)
        self._registered.text = envelope_schema(value, value["name"].removesuffix(_SUFFIX))
        self._header: bytes | None = None

    def check(self) -> None:
        """Check that the registry has or takes the schema; see ``RegisteredEncoder``."""
        self._registered.look_up()

    def prepare(self) -> None:
        """Register the schema; see ``RegisteredEncoder``."""
        if self._header is None:
            number, _ = self._registered.number()
            self._header = b"\0" + number.to_bytes(4, "big")

    def encode_change(self, before: Image, after: Image, rowtime: int) -> bytes:
        """Return the value of a change's message; see ``codec.encode.contract.ChangeEncoder``."""
        if self._header is None:
            raise FaultError(f"{self._declared.what}: the number of its schema is not known yet")
        source = source_of(self._declared, rowtime).values()
        return b"".join(
            (
                self._header,
                self._image(before),
                self._image(after),
                *(long_bytes(each) if isinstance(each, int) else _text(each) for each in source),
                _text(op_of(before, after)),
                _SOME + long_bytes(rowtime),
            )
        )

    def _image(self, image: Image) -> bytes:
        if image is None:
            return _NONE
        self._placeholders.check(image)
        return _SOME + b"".join(part if isinstance(part, bytes) else part(image) for part in self._parts)


def _text(text: str) -> bytes:
    encoded = text.encode()
    return long_bytes(len(encoded)) + encoded
