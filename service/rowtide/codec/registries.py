"""The Schema Registry that a stream names, and which of its schemas a message names.

Ids are as Confluent's serializers write them: this is the one declaration for all formats.

A header is a zero byte and the number of the schema in four bytes, or a byte 1 and its GUID in sixteen. It stands
before the value, or it is a header of the message. ``with_headers`` puts the latter before the value, so that decoders
know one form. What follows the header is the value; in Protobuf it begins with the place of the message type.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from rowtide.codec.contract import ChangeDecoder, Decoded, Decoder
from rowtide.codec.format_options import REGISTRY_HEADER, REGISTRY_URL
from rowtide.codec.options import Declared
from rowtide.errors import Reason, RejectedRowError
from rowtide_connectors.errors import ConnectorError
from rowtide_connectors.schema_registry import SchemaRegistry

OF_VALUE, OF_KEY = "__value_schema_id", "__key_schema_id"
"""Headers of messages."""

SchemaId = int | str
"""A number or a GUID."""

_SIZES = {0: 5, 1: 17}
"""The size of a header by its first byte."""

Headers = Sequence[Sequence[tuple[str, bytes]] | None]


def registry_of(declared: Declared) -> SchemaRegistry | None:
    """Return the registry that a stream names, or None.

    Raises:
      FormatOptionError: its address is not one.
    """
    options = declared.options
    urls = [each.strip() for each in options.get(REGISTRY_URL, "").split(",") if each.strip()]
    if not urls:
        return None
    try:
        return SchemaRegistry(
            urls,
            options.get("registry_user"),
            options.get("registry_password"),
            options.get("registry_ca"),
            options.get("registry_certificate"),
            options.get("registry_key"),
        )
    except ConnectorError as error:
        raise declared.error(REGISTRY_URL, error.message, hint=error.hint) from error


class Headed(NamedTuple):
    """The schema that a message names, and where the rest of it begins."""

    schema: SchemaId
    begin: int


def headed(message: bytes) -> Headed:
    """Read the header of a message.

    Raises:
      RejectedRowError: DECODE: it has none.
    """
    first = message[0] if message else None
    size = _SIZES.get(-1 if first is None else first)
    if size is None or len(message) < size:
        shown = "nothing" if first is None else f"byte {first}"
        raise RejectedRowError(
            Reason.DECODE, f"the message does not begin with the header of a registry: {shown}"
        )
    given = message[1:size]
    return Headed(str(uuid.UUID(bytes=given)) if first else int.from_bytes(given, "big"), size)


def ids_of(messages: Iterable[bytes | None]) -> set[SchemaId]:
    """Return the schemas that messages name, without those that have no header."""
    found = set()
    for message in messages:
        if message and message[0] in _SIZES and len(message) >= _SIZES[message[0]]:
            found.add(headed(message).schema)
    return found


def with_headers(
    options: Mapping[str, str], values: Sequence[bytes | None], headers: Headers | None, name: str
) -> Sequence[bytes | None]:
    """Return values or keys of messages; with a registry, what a header ``name`` of a message says is before them."""
    if headers is None or REGISTRY_URL not in options:
        return values
    return [
        value
        if value is None or own is None
        else next((given for header, given in own if header == name), b"") + value
        for value, own in zip(values, headers, strict=True)
    ]


def without_headers(declared: Declared, decoder: Decoder) -> Decoder:
    """Return the decoder of a format that needs no schema; if it is declared, messages may begin with a header.

    Raises:
      FormatOptionError: the option is neither true nor false.
    """
    given = declared.options.get(REGISTRY_HEADER, "false").lower()
    if given not in ("true", "false"):
        raise declared.error(REGISTRY_HEADER, f'"{given}" is neither true nor false')
    if given == "false":
        return decoder
    return (
        _WithoutHeadersOfChanges(decoder) if isinstance(decoder, ChangeDecoder) else _WithoutHeaders(decoder)
    )


class _WithoutHeaders:
    def __init__(self, decoder: Decoder) -> None:
        self._decoder = decoder

    def decode(self, values: Sequence[bytes | None]) -> Decoded:
        """Decode messages; see ``codec.contract.Decoder``."""
        return self._decoder.decode(list(map(_rest, values)))


class _WithoutHeadersOfChanges(_WithoutHeaders):
    def __init__(self, decoder: ChangeDecoder) -> None:
        super().__init__(decoder)  # type: ignore[arg-type]
        self._changes = decoder

    def decode_changes(self, values: Sequence[bytes | None], keys: Sequence[bytes | None]) -> Decoded:
        """Decode messages; see ``codec.contract.ChangeDecoder``."""
        return self._changes.decode_changes(list(map(_rest, values)), list(map(_rest, keys)))


def _rest(message: bytes | None) -> bytes | None:
    """Return a message without its header, if it has one: no text begins with either of the two bytes."""
    if not message or message[0] not in _SIZES or len(message) < _SIZES[message[0]]:
        return message
    return message[_SIZES[message[0]] :]
