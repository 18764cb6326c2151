"""Statements that declare a topic, proposed from JSON messages that are in it, or from its schema in a registry.

A sample proves nothing about later messages. The types hold every value seen,
with room. A field that cannot be a column is left out, with a comment that says
why.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any

from rowtide.codec.json.readings import value_at
from rowtide.codec.json.times import counted
from rowtide.codec.json.values import converter
from rowtide.errors import RejectedRowError, StatementError
from rowtide.expr.json_path import JsonSteps, show_path
from rowtide.plan.show import show_interval
from rowtide.rows.types import DATE, DOUBLE, TIMESTAMP, VARCHAR, Type
from rowtide.runtime.inspect.sampling import (
    SECONDS_FROM,
    SECONDS_TO,
    Sample,
    documents_of,
    folded,
    looks_like_seconds,
    why_no_document,
)
from rowtide.sql.grammar.dialect import RESERVED
from rowtide_connectors.matching import TOPIC_PATTERN

_LENGTHS = (10, 20, 50, 100, 200, 500, 1000, 4000)
_WITHIN_MS = (1_000, 5_000, 10_000, 30_000, 60_000, 300_000, 600_000, 3_600_000, 86_400_000)
_TIME_NAME = re.compile(
    r"(^|_)(ts|time|timestamp|at|date|epoch|when|created|updated|occurred)($|_)|(At|Time|Ts)$"
)
_FINER_UNITS = {"ms": 10**3, "us": 10**6, "ns": 10**9}
"""Units whose numbers for this century are in distinct ranges, with the number of units in a second."""
_LOGICAL = {
    "date": "DATE",
    "uuid": "UUID",
    **dict.fromkeys(("time-millis", "time-micros"), "TIME"),
    **dict.fromkeys(("timestamp-millis", "timestamp-micros", "timestamp-nanos"), "TIMESTAMP"),
    **dict.fromkeys(
        ("local-timestamp-millis", "local-timestamp-micros", "local-timestamp-nanos"), "TIMESTAMP"
    ),
}
_AVRO = {
    "boolean": "BOOLEAN",
    "int": "INTEGER",
    "long": "BIGINT",
    "float": "REAL",
    "double": "DOUBLE",
    "string": "VARCHAR",
    "bytes": "VARBINARY",
}
_MOST_MEMBERS = 50
"""An object with more members than this, over all messages, is inferred to be a map: a column of JSON."""
_MOST_UNREAD = 5
"""Messages that are not read and named one by one."""
DEEPEST = 5
"""Objects further down than this are columns of JSON."""
_PLAIN = re.compile(r"[A-Za-z][A-Za-z0-9_]*", re.ASCII)
_UUID_TEXT = re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_DATE_TEXT = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)


@dataclass(frozen=True, slots=True)
class Guess:
    """The inferred type of a value of the messages. ``type`` None: no column can hold it, for the reason ``note``.

    ``name`` is that of the column, ``steps`` are the path of the value, ``unit`` is the unit of its numbers.
    """

    name: str
    steps: JsonSteps
    type: str | None
    always: bool = False
    note: str | None = None
    unit: str | None = None
    path: str | None = None
    """The path as the format writes it, if that is not how JSON does."""

    @property
    def column(self) -> str:
        """The column's name in SQL."""
        return quoted(self.name)

    @property
    def options(self) -> str:
        """The column's OPTIONS as SQL writes them, with a blank before them; empty if it needs none."""
        given = []
        if self.path is not None:
            given.append(f"path '{_text(self.path)}'")
        elif len(self.steps) > 1:
            given.append(f"path '{_text(show_path(self.steps))}'")
        if self.unit is not None:
            given.append(f"time_unit '{self.unit}'")
        return f" OPTIONS ({', '.join(given)})" if given else ""


def quoted(name: str) -> str:
    """Return a name in SQL: in double quotes if it is not a plain word."""
    if _PLAIN.fullmatch(name) and name.upper() not in RESERVED and name.upper() != "ROWTIME":
        return name.lower()
    return '"' + name.replace('"', '""') + '"'


def proposal(sample: Sample, server: str, options: Mapping[str, str]) -> str:
    """Return CREATE FOREIGN STREAM for a topic, and a view that promotes a time if one is found.

    ``options`` are those of the stream.

    Raises:
      StatementError: no message of the sample is a JSON object.
    """
    documents = sample.documents()
    if not documents:
        raise StatementError(
            f'topic "{sample.topic}" has no JSON objects, XML or BSON among its last {len(sample.values)} messages',
            hint="Declare the stream by hand, with format 'CSV' or 'RAW'."
            if sample.values
            else "Write some messages to the topic.",
        )
    guesses = guesses_of(documents)
    columns = [each for each in guesses if each.type is not None]
    if not columns:
        raise StatementError(
            f'no field of the messages of topic "{sample.topic}" can be a column',
            hint="Declare the stream by hand, with format 'RAW' and one column of text.",
        )
    head = head_of_sample(sample, options, why_no_document)
    return _proposed(head, guesses, sample, server, {**options, "format": "JSON"})


def head_of_sample(sample: Sample, options: Mapping[str, str], why: Callable[[bytes], str | None]) -> str:
    """Return the comment before a proposal that is made of a sample, which names messages that are not read.

    ``why`` returns why a message is not read; None: it is.
    """
    topic, every, unread = sample.topic, len(sample.values), sample.unread(why)
    of = f"topics that match {topic!r}" if TOPIC_PATTERN.name in options else f"topic {topic!r}"
    count = f"{every - len(unread)} of {every}" if unread else str(every)
    lines = [f"-- from {count} messages of {of}: check the types"]
    lines += [f"-- not read: {_line(each)}" for each in unread[:_MOST_UNREAD]]
    if len(unread) > _MOST_UNREAD:
        lines.append(f"-- not read: {len(unread) - _MOST_UNREAD} more")
    return "\n".join(lines)


def proposal_of_schema(schema: Any, topic: str, server: str, options: Mapping[str, str]) -> str:
    """Return CREATE FOREIGN STREAM for a topic whose newest schema in a registry is ``schema``, as Avro has it.

    ``options`` are those of the stream.

    Raises:
      StatementError: it is not the schema of a record.
    """
    if not isinstance(schema, dict) or schema.get("type") != "record":
        raise StatementError(
            f'the schema of topic "{topic}" is not that of a record',
            hint="Declare the stream by hand, with format 'RAW' and one column of bytes.",
        )
    head = f"-- from the newest schema of topic {topic!r} in the registry"
    return _proposed(
        head, guesses_of_record(schema), Sample(topic, {}), server, {**options, "format": "AVRO"}
    )


def proposal_of_guesses(
    head: str, guesses: Sequence[Guess], topic: str, server: str, options: Mapping[str, str]
) -> str:
    """Return CREATE FOREIGN STREAM for a topic whose columns a schema has, after the comment ``head``."""
    return _proposed(head, _with_names_of_their_own(guesses), Sample(topic, {}), server, options)


def _proposed(
    head: str, guesses: Sequence[Guess], sample: Sample, server: str, options: Mapping[str, str]
) -> str:
    stream = name_for(sample.topic, options)
    lines = [head, "", *created(f"FOREIGN STREAM {stream}", guesses, (), server, options)]
    lines += _view(stream, [each for each in guesses if each.type is not None], sample)
    return "\n".join(lines) + "\n"


def name_for(topic: str, options: Mapping[str, str]) -> str:
    """Return a name for the relation of a topic, or of all that match a pattern."""
    return stream_name(topic if TOPIC_PATTERN.name not in options else _beginning(topic))


def created(
    what: str, guesses: Sequence[Guess], key: Sequence[Guess], server: str, options: Mapping[str, str]
) -> Iterator[str]:
    """Yield the lines of CREATE for ``what``, with a PRIMARY KEY if there is a ``key``."""
    columns = [each for each in guesses if each.type is not None]
    yield f"CREATE {what} ("
    for at, each in enumerate(columns):
        null = " NOT NULL" if each.always and each not in key else ""
        comma = "," if key or at + 1 < len(columns) else ""
        yield f"  {each.column} {each.type}{null}{each.options}{comma}{_comment(each.note)}"
    for each in guesses:
        if each.type is None:
            yield f"  -- {_line(each.name)}: {each.note}"
    if key:
        yield f"  PRIMARY KEY ({', '.join(each.column for each in key)})"
    given = ", ".join(f"{name} '{_text(value)}'" for name, value in options.items())
    yield f") SERVER {server} OPTIONS ({given});"


def _of_record(
    record: Mapping[str, Any], steps: tuple[str, ...], named: dict[str, Any], *, always: bool
) -> Iterator[Guess]:
    """Yield the columns of an Avro record at a place; ``named`` are the types that have a name, by it."""
    if "name" in record:
        named[record["name"]] = record
    for field in record["fields"]:
        yield from _of_type(field["type"], (*steps, field["name"]), named, always=always)


def _of_type(kind: Any, steps: tuple[str, ...], named: dict[str, Any], *, always: bool) -> Iterator[Guess]:
    if isinstance(kind, list):
        others = [each for each in kind if each != "null"]
        if len(others) == 1:
            yield from _of_type(others[0], steps, named, always=always and len(others) == len(kind))
        else:
            yield Guess("_".join(steps), steps, None, note="a union of several types")
        return
    found = named.get(kind, kind) if isinstance(kind, str) else kind
    name = found.get("type") if isinstance(found, dict) else found
    if name == "record" and len(steps) < DEEPEST:
        yield from _of_record(found, steps, named, always=always)
        return
    if isinstance(found, dict) and isinstance(found.get("name"), str):
        named[found["name"]] = found
    column, note = _avro_column(found if isinstance(found, dict) else {}, str(name))
    yield Guess("_".join(steps), steps, column, always and column is not None, note)


def _avro_column(kind: Mapping[str, Any], name: str) -> tuple[str | None, str | None]:
    """Return the type of a column for an Avro type, and what is to be said of it."""
    logical = str(kind.get("logicalType", ""))
    if logical == "decimal":
        return f"DECIMAL({kind['precision']}, {kind.get('scale', 0)})", None
    if logical in _LOGICAL:
        return _LOGICAL[logical], None
    match name:
        case "enum":
            return f"VARCHAR({max(map(len, kind['symbols']), default=1)})", None
        case "fixed":
            return f"VARBINARY({kind['size']})", None
        case "array" if (of := _avro_element(kind["items"])) is not None:
            return f"{of} ARRAY", None
        case "array" | "map" | "record":
            return "JSON", name
    column = _AVRO.get(name)
    return column, None if column is not None else f"{name}, which is not a column here"


def _avro_element(items: Any) -> str | None:
    """Return the type of the elements of an Avro array; None if they are not of one scalar type."""
    branches = [each for each in items if each != "null"] if isinstance(items, list) else [items]
    if len(branches) != 1:
        return None
    (item,) = branches
    name = item.get("type") if isinstance(item, dict) else item
    if name in ("array", "map", "record"):
        return None
    return _avro_column(item if isinstance(item, dict) else {}, str(name))[0]


def guesses_of_record(record: Mapping[str, Any]) -> list[Guess]:
    """Return the columns of an Avro record."""
    return _with_names_of_their_own(list(_of_record(record, (), {}, always=True)))


def guesses_of(documents: Sequence[Mapping[str, object]]) -> list[Guess]:
    """Return the inferred type of each value, in the order in which the values first occur.

    The members of an object are separate columns, those of objects in arrays are not.
    """
    names: dict[str, str] = {}
    values: dict[str, list[object]] = {}
    for document in documents:
        own = {folded(name): (name, value) for name, value in document.items()}
        for key, (name, value) in own.items():
            names.setdefault(key, name)
            values.setdefault(key, []).append(value)
    found: list[Guess] = []
    for key, given in values.items():
        found += _guessed((names[key],), given, len(documents))
    return _with_names_of_their_own(found)


def _guessed(steps: tuple[str, ...], given: Sequence[object], messages: int) -> Iterator[Guess]:
    """Yield the inferred columns of the values at a place: several columns if the values are objects."""
    objects = [value for value in given if isinstance(value, dict)]
    members: dict[str, list[object]] = {}
    for each in objects:
        for name, value in each.items():
            members.setdefault(name, []).append(value)
    nested = objects and all(value is None or isinstance(value, dict) for value in given)
    if nested and 0 < len(members) <= _MOST_MEMBERS and len(steps) < DEEPEST:
        for name, values in members.items():
            yield from _guessed((*steps, name), values, messages)
        return
    yield _guess("_".join(steps), steps, given, messages)


def _with_names_of_their_own(guesses: Sequence[Guess]) -> list[Guess]:
    """Return the guesses with a number after each name that another one has, in whatever case."""
    taken = {folded(each.name) for each in guesses if len(each.steps) == 1}
    found = []
    for each in guesses:
        name, number = each.name, 2
        while len(each.steps) > 1 and folded(name) in taken:
            name, number = f"{each.name}_{number}", number + 1
        taken.add(folded(name))
        found.append(replace(each, name=name))
    return found


def _beginning(pattern: str) -> str:
    """Return the letters that names of topics which match a pattern begin with."""
    found = re.match(r"[\w-]+(?![*?+{|])", pattern, flags=re.ASCII)
    return found[0] if found else "topics"


def stream_name(topic: str) -> str:
    """Return a name for the stream of a topic: its last word."""
    word = re.sub(r"\W+", "_", topic.rsplit(".", 1)[-1], flags=re.ASCII).strip("_").lower()
    return word if _PLAIN.fullmatch(word) and word.upper() not in RESERVED else f"topic_{word}"


def _guess(name: str, steps: JsonSteps, given: Sequence[object], messages: int) -> Guess:
    if not name.strip() or not name.isprintable():
        return Guess(name, steps, None, note="not a name that a column can have")
    there = [value for value in given if value is not None]
    always = len(there) == messages
    if not there:
        return Guess(name, steps, None, note="null in all messages")
    kinds = {type(value) for value in there}
    if kinds == {list} and (of := _type_of_elements(name, steps, there)) is not None:
        return Guess(name, steps, f"{of} ARRAY", always)
    if kinds <= {dict, list}:
        what = "objects" if kinds == {dict} else "arrays" if kinds == {list} else "objects and arrays"
        return Guess(name, steps, "JSON", always, what)
    if kinds == {bool}:
        return Guess(name, steps, "BOOLEAN", always)
    if kinds == {str}:
        if not _all_are(VARCHAR, there):
            return Guess(name, steps, None, note="text with NUL characters")
        return Guess(name, steps, type_of_texts([str(value) for value in there]), always)
    if kinds <= {int, Decimal} and not _all_are(DOUBLE, there):
        return Guess(name, steps, None, note="numbers that are out of range")
    if kinds == {int}:
        return guess_of_integers(name, steps, [int(str(value)) for value in there], always)
    if kinds <= {int, Decimal}:
        return Guess(name, steps, "DOUBLE", always)
    return Guess(name, steps, None, note="values of several types, such as text and numbers")


def _type_of_elements(name: str, steps: JsonSteps, given: Sequence[Any]) -> str | None:
    """Return the type of the elements of arrays; None if they are nested, of several types or all null."""
    elements = [each for array in given for each in array if each is not None]
    if not elements or any(isinstance(each, dict | list) for each in elements):
        return None
    found = _guess(name, steps, elements, len(elements))
    # The elements of a column have no unit.
    return found.type if found.unit is None else "BIGINT"


def guess_of_integers(name: str, steps: JsonSteps, given: Sequence[int], always: bool) -> Guess:
    """Return the inferred column of integers at a place: a time by their size or by the name, or a number."""
    for unit, factor in _FINER_UNITS.items():
        if all(SECONDS_FROM * factor <= value <= SECONDS_TO * factor for value in given):
            if unit == "ms":
                return Guess(name, steps, "TIMESTAMP", always, "numbers, read as milliseconds since 1970")
            return Guess(name, steps, "TIMESTAMP", always, "by the size of its numbers", unit)
    if all(map(looks_like_seconds, given)) and _TIME_NAME.search(str(steps[-1])):
        return Guess(name, steps, "TIMESTAMP", always, "seconds since 1970, by its name", "s")
    if all(-(1 << 63) <= value < 1 << 63 for value in given):
        return Guess(name, steps, "BIGINT", always)
    return Guess(name, steps, "DOUBLE", always)


def type_of_texts(given: Sequence[str]) -> str:
    """Return the inferred type of a column of texts."""
    if all(_DATE_TEXT.fullmatch(value) for value in given) and _all_are(DATE, given):
        return "DATE"
    if all(":" in value for value in given) and _all_are(TIMESTAMP, given):
        return "TIMESTAMP"
    if all(_UUID_TEXT.fullmatch(value) for value in given):
        return "UUID"
    longest = 2 * max(map(len, given))
    return next((f"VARCHAR({length})" for length in _LENGTHS if length >= longest), "VARCHAR")


def _all_are(kind: Type, given: Sequence[object]) -> bool:
    convert = converter(kind)
    try:
        return convert is not None and all(convert(value) is not None for value in given)
    except RejectedRowError:
        return False


def _view(stream: str, columns: Sequence[Guess], sample: Sample) -> Iterator[str]:
    """Propose a promotion of the likeliest time; empty if no column is a time in every message."""
    times = [each for each in columns if each.always and each.type == "TIMESTAMP"]
    times.sort(key=lambda each: _TIME_NAME.search(str(each.steps[-1])) is None)
    if not times:
        return
    time = times[0]
    late_ms = max((_disorder(time, values) for values in sample.partitions.values()), default=0)
    order = ""
    if late_ms:
        within = next((each for each in _WITHIN_MS if each >= 2 * late_ms), 2 * late_ms)
        order = f"\n  ORDER BY {time.column} WITHIN {show_interval(within)}"
    yield ""
    yield "-- the time of the rows, unless that of the messages is meant"
    yield f"CREATE VIEW {stream}_timed AS"
    yield f"  SELECT STREAM {time.column} AS ROWTIME, * FROM {stream}{order};"


def _disorder(time: Guess, values: Sequence[bytes]) -> int:
    """Return the greatest disorder (ms) of the messages of a partition."""
    convert = converter(TIMESTAMP) if time.unit is None else counted(TIMESTAMP, time.unit)
    assert convert is not None
    highest, late = None, 0
    for document in documents_of(values):
        first = {folded(name): value for name, value in document.items()}[folded(str(time.steps[0]))]
        at = int(str(convert(value_at(first, time.steps[1:]))))
        highest = at if highest is None else max(highest, at)
        late = max(late, highest - at)
    return late


def _comment(note: str | None) -> str:
    return "" if note is None else f"  -- {note}"


def _line(name: str) -> str:
    return name if name.isprintable() else repr(name)


def _text(value: str) -> str:
    return value.replace("'", "''")
