"""Compares a sample of real messages of a topic with the declaration of its foreign stream.

Nothing is committed and no position moves: the last messages are read and dropped.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal

import msgspec
from msgspec import UNSET

from rowtide.clock import Clock
from rowtide.codec.contract import Decoded
from rowtide.codec.format_options import PATH, TIME_UNIT
from rowtide.codec.json.readings import value_at
from rowtide.codec.registry import decoder_of, format_of
from rowtide.errors import RejectedRowError
from rowtide.expr.json_path import JsonSteps, parse_path, show_path
from rowtide.plan.plan import ForeignStream
from rowtide.rows.types import Field
from rowtide.rowtime.text import time_text
from rowtide.sql.grammar.suggestions import did_you_mean
from rowtide_connectors.api import Messages, TopicSource
from rowtide_connectors.listed import ListedSource

PATIENCE_S = 10.0
"""Time without a message after which a sample is complete."""

SECONDS_FROM = int(datetime(2001, 1, 1, tzinfo=UTC).timestamp())
SECONDS_TO = int(datetime(2100, 1, 1, tzinfo=UTC).timestamp())
"""The range of times of this century in seconds since 1970."""

Documents = Sequence[Mapping[str, object]]


@dataclass(frozen=True, slots=True)
class Sample:
    """Messages of a topic: values by partition in log order, and the number of messages without one."""

    topic: str
    partitions: Mapping[int, Sequence[bytes]]
    without_value: int = 0

    @property
    def values(self) -> list[bytes]:
        """Return all values, partition after partition."""
        return [value for values in self.partitions.values() for value in values]

    def documents(self) -> list[Mapping[str, object]]:
        """Return the values that are JSON objects."""
        return [document for values in self.partitions.values() for document in documents_of(values)]


@dataclass(frozen=True, slots=True)
class Finding:
    """A finding about the messages of a stream. ``fits`` False: the declaration loses rows or values."""

    fits: bool
    text: str
    hint: str | None = None


def take_sample(source: TopicSource, count: int, clock: Clock) -> Sample:
    """Return the last messages of a topic, about ``count`` over all partitions; of files, the first of the last one.

    Raises:
      UnavailableError, GoneError.
    """
    ranges = source.ranges()
    share = -(-count // max(1, len(ranges)))
    positions = {
        number: max(held.earliest, held.end - share)
        for number, held in ranges.items()
        if held.end > held.earliest
    }
    if isinstance(source, ListedSource):
        positions = dict(source.newest())
    taken: dict[int, list[bytes]] = {number: [] for number in sorted(positions)}
    without_value = 0
    left = dict(positions)
    reader = source.reader(positions)
    deadline = clock.monotonic() + PATIENCE_S
    try:
        while left and clock.monotonic() < deadline:
            for messages in reader.poll(count, 0.5):
                without_value += _keep(taken[messages.partition], messages, ranges[messages.partition].end)
                left[messages.partition] = messages.next_offset
                deadline = clock.monotonic() + PATIENCE_S
            left = {
                number: position
                for number, position in left.items()
                if position < ranges[number].end and len(taken[number]) < share
            }
    finally:
        reader.close()
    return Sample(source.topic, taken, without_value)


def documents_of(values: Sequence[bytes]) -> list[Mapping[str, object]]:
    """Return the values that are JSON objects. Numbers with a point are Decimal."""
    decode = msgspec.json.Decoder(float_hook=Decimal).decode
    found: list[Mapping[str, object]] = []
    for value in values:
        try:
            document = decode(value)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, ArithmeticError):
            continue
        if isinstance(document, dict):
            found.append(document)
    return found


def folded(name: str) -> str:
    """Return a field's name as the JSON decoder compares it, with ASCII letters in lower case."""
    return name.encode().lower().decode()


def looks_like_seconds(value: object) -> bool:
    """Return whether a JSON value is a time of this century in seconds since 1970."""
    return isinstance(value, int) and not isinstance(value, bool) and SECONDS_FROM <= value <= SECONDS_TO


def findings(stream: ForeignStream, sample: Sample) -> list[Finding]:
    """Compare messages with the declaration of a foreign stream. The first finding is the number that decode.

    Raises:
      StatementError: the stream's format does not exist or cannot carry its types.
    """
    values = sample.values
    if not values:
        return [Finding(True, f'topic "{sample.topic}" has no messages to look at')]
    decoded = decoder_of(stream).decode(values)
    documents = sample.documents() if format_of(stream) == "JSON" else []
    undeclared = _undeclared(stream, documents) if documents else {}
    summary = f"{len(decoded.accepted)} of {len(values)} messages decode"
    if undeclared:
        fields = ", ".join(f"{name} ({count})" for name, count in undeclared.items())
        summary += f"; fields that are not declared: {fields}"
    return [
        Finding(True, summary),
        *_refused(decoded),
        *(_of_documents(stream, documents, undeclared) if documents else _always_null(stream, decoded)),
    ]


def _of_documents(
    stream: ForeignStream, documents: Documents, undeclared: Mapping[str, int]
) -> Iterator[Finding]:
    yield from _never_there(stream, documents, undeclared)
    yield from _seconds(stream, documents)


def _always_null(stream: ForeignStream, decoded: Decoded) -> Iterator[Finding]:
    """Yield the declared columns that are NULL in every row of a format that has no documents to look into."""
    count = len(decoded.accepted)
    for field, column in zip(stream.row_type, decoded.columns, strict=False):
        if count and column.valid is not None and not column.valid.any():
            yield Finding(True, f'column "{field.name}" is NULL in all of {count} messages')


def _keep(taken: list[bytes], messages: Messages, end: int) -> int:
    """Keep the values below offset ``end``; return the number of messages without a value."""
    before = len(taken)
    inside = [
        value
        for offset, value in zip(messages.offsets.tolist(), messages.values, strict=True)
        if offset < end
    ]
    taken += [value for value in inside if value is not None]
    return len(inside) - (len(taken) - before)


def _undeclared(stream: ForeignStream, documents: Documents) -> dict[str, int]:
    """Return the members of messages that no column is read from, with how many messages have them."""
    paths = _paths(stream)
    exact = {path[0] for path in paths.values() if path}
    if any(path == () for path in paths.values()):
        return {}
    declared = {folded(field.name) for field in stream.row_type if field.name not in paths}
    found: dict[str, int] = {}
    for document in documents:
        for name in document:
            if folded(name) not in declared and name not in exact:
                found[name] = found.get(name, 0) + 1
    return found


def _paths(stream: ForeignStream) -> dict[str, JsonSteps]:
    """Return the paths of the columns that declare one."""
    declared = ((name, dict(options).get(PATH)) for name, options in stream.column_options)
    return {name: parse_path(path) for name, path in declared if path is not None}


def _given(
    stream: ForeignStream, documents: Documents
) -> Iterator[tuple[Field, JsonSteps | None, list[object]]]:
    """Yield each column with its path and its values in the messages, without those that lack it."""
    paths = _paths(stream)
    plain: dict[str, list[object]] = {}
    for document in documents:
        for name, value in document.items():
            plain.setdefault(folded(name), []).append(value)
    for field in stream.row_type:
        path = paths.get(field.name)
        if path is None:
            yield field, None, plain.get(folded(field.name), [])
            continue
        found = []
        for document in documents:
            # A message in which the path does not apply is counted as undecodable.
            with contextlib.suppress(RejectedRowError):
                found.append(value_at(document, path))
        yield field, path, [value for value in found if value is not UNSET]


def _refused(decoded: Decoded) -> Iterator[Finding]:
    """Yield one finding for each reason and field of messages that do not decode."""
    counts: dict[tuple[str, str], int] = {}
    examples: dict[tuple[str, str], str] = {}
    for fault in decoded.faults:
        named = fault.message.split(": ", 1)[0] if fault.message.startswith('field "') else ""
        what = (fault.reason.value, named)
        counts[what] = counts.get(what, 0) + 1
        examples.setdefault(what, fault.message)
    for what, count in counts.items():
        yield Finding(False, f"{_messages(count)} rejected ({what[0]}), such as: {examples[what]}")


def _never_there(
    stream: ForeignStream, documents: Documents, undeclared: Mapping[str, int]
) -> Iterator[Finding]:
    """Yield the declared columns that no message has."""
    for field, path, values in _given(stream, documents):
        if not values:
            where = "" if path is None else f" ({show_path(path)})"
            yield Finding(
                False,
                f'column "{field.name}"{where} is in none of {len(documents)} messages: it is always NULL',
                did_you_mean(field.name, undeclared)
                or (f"The messages also have: {', '.join(undeclared)}." if undeclared else None),
            )
        elif all(value is None for value in values):
            yield Finding(True, f'column "{field.name}" is null in all of {len(documents)} messages')


def _seconds(stream: ForeignStream, documents: Documents) -> Iterator[Finding]:
    """Yield the numbers that are read as milliseconds and look like seconds."""
    counted = {name for name, options in stream.column_options if TIME_UNIT in dict(options)}
    for field, _, values in _given(stream, documents):
        if not field.type.is_timestamp or field.name in counted:
            continue
        given = [value for value in values if looks_like_seconds(value)]
        if given and isinstance(given[0], int):
            yield Finding(
                False,
                f'column "{field.name}" has numbers that look like seconds since 1970, but a {field.type} is '
                f"read from milliseconds: {given[0]} is {time_text(given[0])}, in seconds it would be "
                f"{time_text(given[0] * 1000)}",
                f"Declare it as: {field.name} {field.type} OPTIONS (time_unit 's').",
            )


def _messages(count: int) -> str:
    return "1 message is" if count == 1 else f"{count} messages are"
