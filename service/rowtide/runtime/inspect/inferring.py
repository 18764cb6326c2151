"""Statements that declare a topic, proposed from JSON messages that are in it.

A sample proves nothing about later messages. The types hold every value seen,
with room. A field that cannot be a column is left out, with a comment that says
why.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal

from rowtide.codec.json_values import converter
from rowtide.errors import RejectedRowError, StatementError
from rowtide.plan.show import show_interval
from rowtide.rows.types import DATE, DOUBLE, TIMESTAMP, VARCHAR, Type
from rowtide.runtime.inspect.sampling import (
    SECONDS_FROM,
    SECONDS_TO,
    Sample,
    documents_of,
    folded,
    looks_like_seconds,
)
from rowtide.sql.grammar.dialect import RESERVED

_LENGTHS = (10, 20, 50, 100, 200, 500, 1000, 4000)
_WITHIN_MS = (1_000, 5_000, 10_000, 30_000, 60_000, 300_000, 600_000, 3_600_000, 86_400_000)
_TIME_NAME = re.compile(
    r"(^|_)(ts|time|timestamp|at|date|epoch|when|created|updated|occurred)($|_)|(At|Time|Ts)$"
)
_PLAIN = re.compile(r"[A-Za-z][A-Za-z0-9_]*", re.ASCII)
_DATE_TEXT = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)


@dataclass(frozen=True, slots=True)
class Guess:
    """The inferred type of a field. ``type`` None: no column can hold it, for the reason ``note``."""

    name: str
    type: str | None
    always: bool = False
    note: str | None = None
    seconds: bool = False

    @property
    def column(self) -> str:
        """The column's name in SQL."""
        return quoted(self.name)


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
            f'topic "{sample.topic}" has no JSON objects among its last {len(sample.values)} messages',
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
    stream = stream_name(sample.topic)
    given = ", ".join(f"{name} '{_text(value)}'" for name, value in {**options, "format": "JSON"}.items())
    lines = [f"-- from {len(documents)} messages of topic {sample.topic!r}: check the types", ""]
    lines += [f"CREATE FOREIGN STREAM {stream} ("]
    for at, each in enumerate(columns):
        null = " NOT NULL" if each.always else ""
        comma = "," if at + 1 < len(columns) else ""
        lines.append(f"  {each.column} {each.type}{null}{comma}{_comment(each.note)}")
    lines += [f"  -- {_line(each.name)}: {each.note}" for each in guesses if each.type is None]
    lines += [f") SERVER {server} OPTIONS ({given});"]
    lines += _view(stream, columns, sample)
    return "\n".join(lines) + "\n"


def guesses_of(documents: Sequence[Mapping[str, object]]) -> list[Guess]:
    """Return the inferred type of each field, in the order in which the fields first occur."""
    names: dict[str, str] = {}
    values: dict[str, list[object]] = {}
    for document in documents:
        own = {folded(name): (name, value) for name, value in document.items()}
        for key, (name, value) in own.items():
            names.setdefault(key, name)
            values.setdefault(key, []).append(value)
    return [_guess(names[key], given, len(documents)) for key, given in values.items()]


def stream_name(topic: str) -> str:
    """Return a name for the stream of a topic: its last word."""
    word = re.sub(r"\W+", "_", topic.rsplit(".", 1)[-1], flags=re.ASCII).strip("_").lower()
    return word if _PLAIN.fullmatch(word) and word.upper() not in RESERVED else f"topic_{word}"


def _guess(name: str, given: Sequence[object], messages: int) -> Guess:
    if not name.strip() or not name.isprintable() or "\\" in name or '"' in name:
        return Guess(name, None, note="not a name that a column can have")
    there = [value for value in given if value is not None]
    always = len(there) == messages
    if not there:
        return Guess(name, None, note="null in all messages")
    if any(isinstance(value, dict | list) for value in there):
        kind = "an object" if any(isinstance(value, dict) for value in there) else "an array"
        return Guess(name, None, note=f"{kind}, which is not a column here")
    kinds = {type(value) for value in there}
    if kinds == {bool}:
        return Guess(name, "BOOLEAN", always)
    if kinds == {str}:
        if not _all_are(VARCHAR, there):
            return Guess(name, None, note="text with NUL characters")
        return Guess(name, _type_of_texts([str(value) for value in there]), always)
    if kinds <= {int, Decimal} and not _all_are(DOUBLE, there):
        return Guess(name, None, note="numbers that are out of range")
    if kinds == {int}:
        return _guess_of_integers(name, [int(str(value)) for value in there], always)
    if kinds <= {int, Decimal}:
        return Guess(name, "DOUBLE", always)
    return Guess(name, None, note="values of several types: text, numbers, or TRUE and FALSE")


def _guess_of_integers(name: str, given: Sequence[int], always: bool) -> Guess:
    if all(SECONDS_FROM * 1000 <= value <= SECONDS_TO * 1000 for value in given):
        return Guess(name, "TIMESTAMP", always, "numbers, read as milliseconds since 1970")
    if all(map(looks_like_seconds, given)) and _TIME_NAME.search(name):
        return Guess(name, "BIGINT", always, "seconds since 1970, by its name", seconds=True)
    if all(-(1 << 63) <= value < 1 << 63 for value in given):
        return Guess(name, "BIGINT", always)
    return Guess(name, "DOUBLE", always)


def _type_of_texts(given: Sequence[str]) -> str:
    if all(_DATE_TEXT.fullmatch(value) for value in given) and _all_are(DATE, given):
        return "DATE"
    if all(":" in value for value in given) and _all_are(TIMESTAMP, given):
        return "TIMESTAMP"
    longest = 2 * max(map(len, given))
    return next((f"VARCHAR({length})" for length in _LENGTHS if length >= longest), "VARCHAR")


def _all_are(kind: Type, given: Sequence[object]) -> bool:
    convert = converter(kind)
    try:
        return convert is not None and all(convert(value) is not None for value in given)
    except RejectedRowError:
        return False


def _view(stream: str, columns: Sequence[Guess], sample: Sample) -> Iterator[str]:
    """Propose a promotion of the likeliest time; nothing if no column is a time in every message."""
    times = [each for each in columns if each.always and (each.type == "TIMESTAMP" or each.seconds)]
    times.sort(key=lambda each: _TIME_NAME.search(each.name) is None)
    if not times:
        return
    time = times[0]
    promoted = f"CAST({time.column} * 1000 AS TIMESTAMP)" if time.seconds else time.column
    late_ms = max((_disorder(time, values) for values in sample.partitions.values()), default=0)
    order = ""
    if late_ms:
        within = next((each for each in _WITHIN_MS if each >= 2 * late_ms), 2 * late_ms)
        order = f"\n  ORDER BY {promoted} WITHIN {show_interval(within)}"
    yield ""
    yield "-- the time of the rows, unless that of the messages is meant"
    yield f"CREATE VIEW {stream}_timed AS"
    yield f"  SELECT STREAM {promoted} AS ROWTIME, * FROM {stream}{order};"


def _disorder(time: Guess, values: Sequence[bytes]) -> int:
    """Return the greatest disorder (ms) of the messages of a partition."""
    convert = converter(TIMESTAMP)
    assert convert is not None
    highest, late = None, 0
    for document in documents_of(values):
        given = {folded(name): value for name, value in document.items()}[folded(time.name)]
        at = int(str(given)) * 1000 if time.seconds else int(str(convert(given)))
        highest = at if highest is None else max(highest, at)
        late = max(late, highest - at)
    return late


def _comment(note: str | None) -> str:
    return "" if note is None else f"  -- {note}"


def _line(name: str) -> str:
    return name if name.isprintable() else repr(name)


def _text(value: str) -> str:
    return value.replace("'", "''")
