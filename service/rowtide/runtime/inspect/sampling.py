"""Compares a sample of real messages of a topic with the declaration of its foreign stream.

Nothing is committed and no position moves: the last messages are read and dropped.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal

import msgspec
from msgspec import UNSET

from rowtide.clock import Clock
from rowtide.codec.contract import Decoded
from rowtide.codec.format_options import PATH, TIME_UNIT
from rowtide.codec.json.faults import why_not_json
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
from rowtide_connectors.several import place_of

PATIENCE_S = 10.0
"""Time without a message after which a sample is complete."""

SECONDS_FROM = int(datetime(2001, 1, 1, tzinfo=UTC).timestamp())
SECONDS_TO = int(datetime(2100, 1, 1, tzinfo=UTC).timestamp())
"""The range of times of this century in seconds since 1970."""

Documents = Sequence[Mapping[str, object]]
_decode = msgspec.json.Decoder(float_hook=Decimal).decode


@dataclass(frozen=True, slots=True)
class Sample:
    """Messages of a topic: values by partition in log order, and the number of messages without one.

    ``keys`` and ``places`` are those of the same messages: their keys, and where they are, in words.
    """

    topic: str
    partitions: Mapping[int, Sequence[bytes]]
    without_value: int = 0
    keys: Mapping[int, Sequence[bytes | None]] = dataclasses.field(default_factory=dict)
    places: Mapping[int, Sequence[str]] = dataclasses.field(default_factory=dict)

    @property
    def values(self) -> list[bytes]:
        """Return all values, partition after partition."""
        return [value for values in self.partitions.values() for value in values]

    def unread(self, why: Callable[[bytes], str | None]) -> list[str]:
        """Return the place of each message that cannot be read, and ``why`` not; None: it can."""
        found = []
        for partition, values in self.partitions.items():
            places = self.places.get(partition) or [f"partition {partition}"] * len(values)
            for place, value in zip(places, values, strict=True):
                if (reason := why(value)) is not None:
                    found.append(f"{place}: {reason}")
        return found

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
    keys: dict[int, list[bytes | None]] = {number: [] for number in taken}
    places: dict[int, list[str]] = {number: [] for number in taken}
    without_value = 0
    left = dict(positions)
    reader = source.reader(positions)
    deadline = clock.monotonic() + PATIENCE_S
    try:
        while left and clock.monotonic() < deadline:
            for messages in reader.poll(count, 0.5):
                at = messages.partition
                for offset, key, value in _below(messages, ranges[at].end):
                    if value is None:
                        without_value += 1
                        continue
                    taken[at].append(value)
                    keys[at].append(key)
                    places[at].append(_place(source.topic, at, offset))
                left[at] = messages.next_offset
                deadline = clock.monotonic() + PATIENCE_S
            left = {
                number: position
                for number, position in left.items()
                if position < ranges[number].end and len(taken[number]) < share
            }
    finally:
        reader.close()
    return Sample(source.topic, taken, without_value, keys, places)


def documents_of(values: Sequence[bytes]) -> list[Mapping[str, object]]:
    """Return the values that are JSON objects. Numbers with a point are Decimal."""
    return [found for found in map(document_of, values) if found is not None]


def document_of(value: bytes) -> Mapping[str, object] | None:
    """Return the JSON object that a value is; None: it is something else."""
    try:
        document = _decode(value)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, ArithmeticError):
        return None
    return document if isinstance(document, dict) else None


def why_no_document(value: bytes) -> str | None:
    """Return why a value is no JSON object; None: it is one."""
    if document_of(value) is not None:
        return None
    return why_not_json(value) or "the message is JSON, and not an object"


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


def _below(messages: Messages, end: int) -> Iterator[tuple[int, bytes | None, bytes | None]]:
    """Yield offset, key and value of the messages below offset ``end``."""
    for offset, key, value in zip(messages.offsets.tolist(), messages.keys, messages.values, strict=True):
        if offset < end:
            yield offset, key, value


def _place(topics: str, partition: int, offset: int) -> str:
    """Return where a message is, in words; ``topics`` is that of its source."""
    topic, own = place_of(topics, partition)
    of_topic = f'topic "{topic}", ' if topic != topics else ""
    return f"{of_topic}partition {own}, offset {offset}"


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
