"""Statements that declare a topic of Protobuf messages, proposed from their descriptors."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from rowtide.codec.format_options import DESCRIPTOR, MESSAGE, REGISTRY_URL
from rowtide.codec.options import Declared
from rowtide.codec.protobuf.built_in import DATE, DECIMAL, TIME_OF_DAY
from rowtide.codec.protobuf.schemas import (
    Descriptor,
    SchemaError,
    declared_message,
    fetched_file,
    message_at,
)
from rowtide.codec.protobuf.values import DOCUMENTS, DURATION, TIMESTAMP, FieldType, is_map, wrapped
from rowtide.errors import StatementError
from rowtide.rows.types import RowType
from rowtide.runtime.inspect.inferring.proposal import DEEPEST, Guess, proposal_of_guesses
from rowtide_connectors.schema_registry import SchemaRegistry

_KNOWN = {
    TIMESTAMP: "TIMESTAMP",
    # The longest one has 12 digits before the point.
    DURATION: "DECIMAL(21, 9)",
    DATE: "DATE",
    TIME_OF_DAY: "TIME",
    DECIMAL: "DECIMAL(38, 9)",
    **dict.fromkeys((*DOCUMENTS, "google.protobuf.Any"), "JSON"),
}
_LONGEST_NUMBER = len("-2147483648")
"""A value of an enum that the schema does not have is text, too: its number."""


def proposal_of_descriptors(file: str, message: str | None, topic: str, server: str) -> str:
    """Return CREATE FOREIGN STREAM for a topic of messages whose descriptors are in a file.

    Raises:
      FormatOptionError: the file cannot be read, or does not have the message.
    """
    options = {DESCRIPTOR: file} if message is None else {DESCRIPTOR: file, MESSAGE: message}
    found = declared_message(Declared(topic, RowType(()), options))
    return _proposal(f"-- from {file}", found, server, {"topic": topic, **options})


def proposal_of_registered(
    registry: SchemaRegistry, number: int, message: str | None, topic: str, server: str
) -> str:
    """Return CREATE FOREIGN STREAM for a topic of messages of a schema in a registry.

    ``message``: the name of the message type; None: the first one of the schema.

    Raises:
      StatementError: the schema cannot be used, or does not have the message.
      UnavailableError: the registry does not give its descriptors.
    """
    try:
        file, pool = fetched_file(registry, number)
        found = message_at(pool, file, (0,)) if message is None else pool.FindMessageTypeByName(message)
    except SchemaError as error:
        raise StatementError(f"schema {number} of the registry cannot be used: {error}") from error
    except KeyError as error:
        raise StatementError(f'schema {number} of the registry has no message "{message}"') from error
    options = {"topic": topic, REGISTRY_URL: ",".join(registry.urls), MESSAGE: found.full_name}
    return _proposal(f"-- from the newest schema of topic {topic!r} in the registry", found, server, options)


def _proposal(head: str, message: Descriptor, server: str, options: Mapping[str, str]) -> str:
    guesses = list(_of_message(message, (), (message.full_name,), always=True))
    return proposal_of_guesses(head, guesses, options["topic"], server, {**options, "format": "PROTOBUF"})


def _of_message(
    message: Descriptor, steps: tuple[str, ...], around: Sequence[str], *, always: bool
) -> Iterator[Guess]:
    """Yield the columns of a message at a place; ``around`` are the types that it is in, and its own."""
    for field in message.fields:
        own, inner = (*steps, field.name), field.message_type
        is_set = always and (not field.has_presence or field.is_required)
        name = "" if inner is None or field.is_repeated or wrapped(field) else inner.full_name
        if name and name not in _KNOWN and name not in around and len(own) < DEEPEST:
            yield from _of_message(inner, own, (*around, name), always=is_set)
            continue
        kind, note = _column(field)
        yield Guess("_".join(own), own, kind, is_set, note)


def _column(field: FieldType) -> tuple[str, str | None]:
    """Return the type of a column for a field, and what is to be said of it."""
    inner = wrapped(field)
    if field.is_repeated and field.message_type is None:
        return f"{_scalar(field)} ARRAY", None
    if field.is_repeated:
        return "JSON", "a map" if is_map(field) else "repeated"
    if inner is not None:
        return _scalar(inner), None
    if field.message_type is not None:
        name = field.message_type.full_name
        return _KNOWN.get(name, "JSON"), None if name in _KNOWN else f"message {name}"
    return _scalar(field), None


def _scalar(field: FieldType) -> str:
    if field.enum_type is not None:
        return f"VARCHAR({max(_LONGEST_NUMBER, *(len(each.name) for each in field.enum_type.values))})"
    match field.cpp_type:
        case field.CPPTYPE_INT32:
            return "INTEGER"
        case field.CPPTYPE_INT64 | field.CPPTYPE_UINT32:
            return "BIGINT"
        case field.CPPTYPE_UINT64:
            return "DECIMAL(20, 0)"
        case field.CPPTYPE_DOUBLE:
            return "DOUBLE"
        case field.CPPTYPE_FLOAT:
            return "REAL"
        case field.CPPTYPE_BOOL:
            return "BOOLEAN"
        case _:
            return "VARBINARY" if field.type == field.TYPE_BYTES else "VARCHAR"
