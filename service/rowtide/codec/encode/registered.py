"""Schemas of written messages in a Schema Registry: those of the columns, and those that it has."""

from __future__ import annotations

from dataclasses import dataclass

from rowtide.codec.format_options import AUTO_REGISTER, LATEST, SCHEMA_ID, SUBJECT
from rowtide.codec.options import Declared
from rowtide_connectors.errors import GoneError, MismatchError
from rowtide_connectors.schema_registry import RegisteredSchema, SchemaRegistry


@dataclass(slots=True)
class Registered:
    """A schema in a registry: ``text`` under a subject, or the one that ``wanted`` names.

    ``adds``: the schema is registered if the subject does not have it. ``kind``: AVRO or PROTOBUF, whose schemas are
    file descriptors in base64.
    """

    registry: SchemaRegistry
    subject: str
    wanted: str | None
    adds: bool
    text: str | None = None
    kind: str = "AVRO"

    def number(self) -> tuple[int, RegisteredSchema | None]:
        """Return the number of the schema, and the schema if it comes from the registry.

        Raises:
          GoneError, MismatchError, UnavailableError.
        """
        if self.wanted is not None:
            return self._existing()
        assert self.text is not None
        if self.adds:
            return self.registry.register(self.subject, self.text, self.kind), None
        return self._known(), None

    def look_up(self) -> RegisteredSchema | None:
        """Return the schema if it comes from the registry; else check that the registry has or takes it.

        Raises:
          GoneError, MismatchError, UnavailableError.
        """
        if self.wanted is not None:
            return self._existing()[1]
        assert self.text is not None
        try:
            self._known()
        except GoneError:
            if not self.adds:
                raise
            if not self.registry.takes(self.subject, self.text, self.kind):
                raise MismatchError(
                    f'the schema of the columns is not compatible with subject "{self.subject}" of the '
                    "schema registry",
                    hint=f"Write with its schema (schema_id '{LATEST}'), or under another subject.",
                ) from None
        return None

    def _known(self) -> int:
        assert self.text is not None
        try:
            return self.registry.number_of(self.subject, self.text, self.kind)
        except GoneError as error:
            raise GoneError(
                f'subject "{self.subject}" of the schema registry does not have the schema of the columns',
                hint=f"Register it, or write with another one (schema_id '{LATEST}').",
            ) from error

    def _existing(self) -> tuple[int, RegisteredSchema]:
        assert self.wanted is not None
        try:
            if self.wanted != LATEST:
                number, found = int(self.wanted), self.registry.by_id(int(self.wanted))
            else:
                number, found = self.registry.newest_of(self.subject)
        except GoneError as error:
            named = f'subject "{self.subject}"' if self.wanted == LATEST else f"schema {self.wanted}"
            raise GoneError(f"{named} does not exist in the schema registry") from error
        if found.kind != self.kind:
            raise MismatchError(f"schema {number} of the registry is {found.kind}, not {self.kind}")
        return number, self.registry.serialized(number) if self.kind == "PROTOBUF" else found


def registered(declared: Declared, registry: SchemaRegistry, kind: str = "AVRO") -> Registered:
    """Return the schema that the options of a written stream name.

    Raises:
      FormatOptionError: ``schema_id`` is not a number, or ``auto_register`` is not a boolean.
    """
    wanted = declared.options.get(SCHEMA_ID)
    if wanted is not None:
        wanted = wanted.strip().lower()
        if wanted != LATEST and not (wanted.isascii() and wanted.isdigit()):
            raise declared.error(
                SCHEMA_ID, f'"{wanted}" is not the number of a schema', hint=f"Write a number, or '{LATEST}'."
            )
    topic = declared.options.get("topic", declared.relation)
    return Registered(
        registry,
        declared.options.get(SUBJECT, f"{topic}-value"),
        wanted,
        adds=declared.is_on(AUTO_REGISTER),
        kind=kind,
    )


def refuse_without_registry(declared: Declared) -> None:
    """Refuse the options of a registry if the stream names none.

    Raises:
      FormatOptionError: names the option.
    """
    for name in (SUBJECT, SCHEMA_ID, AUTO_REGISTER):
        if name in declared.options:
            raise declared.error(
                name, "the stream has no registry_url", hint="Write registry_url 'http://host:8081'."
            )
