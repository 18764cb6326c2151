"""Tables that Debezium's envelopes fill, proposed from messages in JSON or from the schema of their envelopes in Avro.

See docs/sql/tables.md#tables-that-a-topic-fills. Rows are those after the changes. The PRIMARY KEY is that of the
messages: Debezium gives each the key of its row.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from rowtide.codec.format_options import UNAVAILABLE_VALUE
from rowtide.runtime.inspect.inferring.proposal import (
    Guess,
    created,
    guesses_of,
    guesses_of_record,
    head_of_sample,
    name_for,
)
from rowtide.runtime.inspect.sampling import Sample, document_of, folded, why_no_document

_MEMBERS = frozenset({"before", "after", "op", "source", "ts_ms", "ts_us", "ts_ns", "transaction"})
"""What an envelope can have."""
_WRAPPED = frozenset({"schema", "payload"})
_TIMES = {
    "io.debezium.time.Date": ("DATE", "d"),
    "org.apache.kafka.connect.data.Date": ("DATE", "d"),
    "io.debezium.time.Time": ("TIME", "ms"),
    "io.debezium.time.MicroTime": ("TIME", "us"),
    "io.debezium.time.NanoTime": ("TIME", "ns"),
    "org.apache.kafka.connect.data.Time": ("TIME", "ms"),
    "io.debezium.time.Timestamp": ("TIMESTAMP", "ms"),
    "io.debezium.time.MicroTimestamp": ("TIMESTAMP", "us"),
    "io.debezium.time.NanoTimestamp": ("TIMESTAMP", "ns"),
    "org.apache.kafka.connect.data.Timestamp": ("TIMESTAMP", "ms"),
    "io.debezium.time.ZonedTimestamp": ("TIMESTAMP WITH TIME ZONE", None),
    "io.debezium.data.Uuid": ("UUID", None),
}
"""The types of the schema that Kafka Connect writes, and the columns and units that read their values."""
_DECIMAL = "org.apache.kafka.connect.data.Decimal"
_DECIMAL_NOTE = "bytes of a decimal: set decimal.handling.mode=string in the connector"

Document = Mapping[str, Any]


def proposal_of_envelopes(sample: Sample, server: str, options: Mapping[str, str]) -> str | None:
    """Return CREATE TABLE for a topic whose JSON objects are all envelopes with rows; None: they are not.

    ``options`` are those of the table.
    """
    documents = sample.documents()
    envelopes = [_unwrapped(each) for each in documents]
    rows = list(_rows(envelopes))
    if not rows or not all(map(_is_envelope, envelopes)):
        return None
    logical = _logical_types(documents)
    guesses = [_with_type(each, logical) for each in guesses_of(rows)]
    columns = [each for each in guesses if each.type is not None]
    if not columns:
        return None
    key, remark = _key(columns, _key_fields(sample))
    head = [head_of_sample(sample, options, why_no_document), *remark]
    table = f"TABLE {name_for(sample.topic, options)}"
    given = {**options, "format": "DEBEZIUM_JSON"}
    return "\n".join([*head, "", *created(table, guesses, key, server, given), ""])


def is_envelope_schema(schema: Any) -> bool:
    """Return whether a schema of Avro is that of Debezium's envelopes."""
    names = {each["name"] for each in _fields(schema)}
    return {"before", "after", "op"} <= names <= _MEMBERS and _row_schema(schema) is not None


def proposal_of_envelope_schema(
    schema: Any, key_schema: Any, topic: str, server: str, options: Mapping[str, str]
) -> str:
    """Return CREATE TABLE for a topic of envelopes in Avro; ``key_schema`` is that of its keys, None without one.

    ``options`` are those of the table.
    """
    row = _row_schema(schema)
    assert row is not None
    logical = _connect_names(row)
    guesses = [_with_type(each, logical) for each in guesses_of_record(row)]
    names = [each["name"] for each in _fields(key_schema)]
    key, remark = _key([each for each in guesses if each.type is not None], names)
    head = [f"-- from the newest schema of topic {topic!r} in the registry", *remark]
    given = {**options, "format": "DEBEZIUM_AVRO"}
    table = f"TABLE {name_for(topic, options)}"
    return "\n".join([*head, "", *created(table, guesses, key, server, given), ""])


def _unwrapped(document: Document) -> Document:
    """Return a document without the schema that Kafka Connect may write beside it."""
    payload = document.get("payload")
    return payload if document.keys() == _WRAPPED and isinstance(payload, dict) else document


def _is_envelope(document: Document) -> bool:
    is_change = "before" in document or "after" in document or document.get("op") == "t"
    return isinstance(document.get("op"), str) and is_change and document.keys() <= _MEMBERS


def _rows(envelopes: Sequence[Document]) -> Iterator[Document]:
    """Yield the rows after the changes; if there are none, those before them."""
    for image in ("after", "before"):
        rows = [each[image] for each in envelopes if isinstance(each.get(image), dict)]
        if rows:
            # What is stored out of line and has not changed is not in the message.
            yield from (
                {name: value for name, value in row.items() if value != UNAVAILABLE_VALUE} for row in rows
            )
            return


def _logical_types(documents: Sequence[Document]) -> dict[str, str]:
    """Return the names of the types of columns that have one in the schema beside the envelopes."""
    found: dict[str, str] = {}
    for document in documents:
        for image in _members_of(document.get("schema")):
            if image.get("field") in ("before", "after"):
                found |= {
                    folded(str(each.get("field"))): str(each["name"])
                    for each in _members_of(image)
                    if "name" in each
                }
    return found


def _connect_names(row: Document) -> dict[str, str]:
    """Return the same of the record of the rows in Avro, for types that Avro has no logical type for."""
    found: dict[str, str] = {}
    for field in _fields(row):
        for kind in _branches(field):
            if isinstance(kind, dict) and "connect.name" in kind and "logicalType" not in kind:
                found[folded(str(field["name"]))] = str(kind["connect.name"])
    return found


def _members_of(schema: object) -> list[Document]:
    """Return the fields of a schema of Kafka Connect."""
    fields = schema.get("fields") if isinstance(schema, dict) else None
    return [each for each in fields if isinstance(each, dict)] if isinstance(fields, list) else []


def _with_type(guess: Guess, logical: Mapping[str, str]) -> Guess:
    name = logical.get(folded(str(guess.steps[0])), "") if len(guess.steps) == 1 else ""
    if name == _DECIMAL and guess.type is not None:
        return replace(guess, note=_DECIMAL_NOTE)
    found = _TIMES.get(name)
    if found is None:
        return guess
    kind, unit = found
    # A number is in milliseconds unless the column says otherwise.
    return replace(guess, type=kind, unit=None if (kind, unit) == ("TIMESTAMP", "ms") else unit, note=None)


def _key_fields(sample: Sample) -> list[str]:
    """Return the fields that the keys of all envelopes have; none if they differ, or some envelope has no key."""
    found: list[list[str]] = []
    for partition, keys in sample.keys.items():
        for key, value in zip(keys, sample.partitions[partition], strict=False):
            if document_of(value) is None:
                continue
            document = None if key is None else document_of(key)
            found.append([] if document is None else list(_unwrapped(document)))
    return found[0] if found and all(each == found[0] for each in found) else []


def _key(columns: Sequence[Guess], names: Sequence[str]) -> tuple[list[Guess], list[str]]:
    """Return the columns of the PRIMARY KEY; if the messages do not name them, a guess and a line that says so."""
    by_name = {folded(str(each.steps[0])): each for each in columns if len(each.steps) == 1}
    key = [by_name[folded(name)] for name in names if folded(name) in by_name]
    if key and len(key) == len(names):
        return key, []
    always = [each for each in columns if each.always]
    guessed = by_name.get("id") or next(iter(always), columns[0])
    return [guessed], ["-- the keys of the messages do not name columns: check the PRIMARY KEY"]


def _fields(schema: Any) -> list[Document]:
    """Return the fields of a record of Avro; none of any other schema."""
    return list(schema["fields"]) if isinstance(schema, dict) and schema.get("type") == "record" else []


def _branches(field: Document) -> list[Any]:
    """Return the types that a field of a record of Avro can have."""
    return field["type"] if isinstance(field["type"], list) else [field["type"]]


def _row_schema(schema: Any) -> Document | None:
    """Return the record of the rows: ``before`` has it, or ``after``; the other one refers to it by its name."""
    for field in _fields(schema):
        for kind in _branches(field):
            if field["name"] in ("before", "after") and _fields(kind):
                return dict(kind)
    return None
