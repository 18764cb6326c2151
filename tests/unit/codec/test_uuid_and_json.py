"""UUIDs and JSON in messages of every format, and in rows of tables that are polled."""

from __future__ import annotations

import json
from typing import Any
from uuid import UUID as Uuid

import pytest

from rowtide.codec.csv import CsvDecoder
from rowtide.codec.json.decoder import JsonDecoder
from rowtide.codec.json.readings import reading_of
from rowtide.codec.message import MessageEncoder
from rowtide.codec.options import Declared
from rowtide.codec.typed_values import from_typed
from rowtide.errors import Reason, RejectedRowError
from rowtide.plan.plan import ForeignStream
from rowtide.rows.types import JSON, UUID, Field, RowType
from rowtide.runtime.polling.poller import TableShape

ID = "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"
ROW_TYPE = RowType((Field("ID", UUID), Field("DOC", JSON)))


def avro(value: Any, kind: Any) -> object:
    row_type = RowType((Field("A", kind),))
    return from_typed(kind, reading_of(Declared("S", row_type, {}, {}), row_type[0]))(value)


@pytest.mark.parametrize(
    ("kind", "given", "found"),
    [
        (UUID, Uuid(ID), ID),
        (UUID, ID.upper(), ID),
        (JSON, {"a": [1, None, b"\0", Uuid(ID)]}, f'{{"a": [1, null, "AA==", "{ID}"]}}'),
        (JSON, [True], "[true]"),
        (JSON, 1.5, "1.5"),
        (JSON, ' {"a": 1.50} ', '{"a": 1.50}'),
    ],
)
def test_avro_values(kind: Any, given: Any, found: object) -> None:
    assert avro(given, kind) == found


@pytest.mark.parametrize(
    ("kind", "given"), [(UUID, "none"), (UUID, 7), (JSON, "no JSON"), (JSON, {"a": float("nan")})]
)
def test_avro_values_that_do_not_fit_are_rejected(kind: Any, given: Any) -> None:
    with pytest.raises(RejectedRowError) as caught:
        avro(given, kind)
    assert caught.value.reason is Reason.TYPE


def rows(decoder: Any, *messages: str) -> list[tuple[object, ...]]:
    decoded = decoder.decode([message.encode() for message in messages])
    assert decoded.faults == ()
    return list(zip(*(column.to_list() for column in decoded.columns), strict=True))


def test_csv_has_json_as_text() -> None:
    assert rows(CsvDecoder(Declared("S", ROW_TYPE)), f'{ID.upper()},"{{""a"": 1}}"', ",") == [
        (ID, '{"a": 1}'),
        (None, None),
    ]


@pytest.mark.parametrize("spelled", ["doc", "Doc"])
def test_json_inside_of_text_is_read_where_the_source_has_no_other_json(spelled: str) -> None:
    messages = [f'{{"id": "{ID}", "{spelled}": {json.dumps(text)}}}' for text in ('{"a": 1.50}', " [1] ")]
    nested = f'{{"id": "{ID}", "{spelled}": {{"a": 1.50}}}}'
    as_text = JsonDecoder("S", ROW_TYPE, texts_are_json=True)
    assert rows(as_text, *messages, nested) == [(ID, '{"a": 1.50}'), (ID, "[1]"), (ID, '{"a": 1.50}')]
    assert rows(JsonDecoder("S", ROW_TYPE), messages[0]) == [(ID, '"{\\"a\\": 1.50}"')]
    (fault,) = as_text.decode([b'{"doc": "no JSON"}']).faults
    assert fault.reason is Reason.TYPE


def test_json_is_written_nested() -> None:
    encoder = MessageEncoder(ForeignStream("S", ROW_TYPE, "K", (("format", "JSON"),)))
    assert encoder.encode((ID, '{"a": 1.50}')).value == f'{{"id":"{ID}","doc":{{"a": 1.50}}}}'.encode()
    assert encoder.encode((None, None)).value == b'{"id":null,"doc":null}'


def test_a_polled_row_has_json_nested() -> None:
    shape = TableShape("T", ("ID", "DOC"), (0,), "", jsons=(1,))
    assert shape.row((ID, '{"a": 1.50}')).content == f'{{"ID":"{ID}","DOC":{{"a": 1.50}}}}'.encode()
    assert shape.row((ID, None)).content == f'{{"ID":"{ID}","DOC":null}}'.encode()
