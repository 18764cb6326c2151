"""Arrays in messages: faults by place, schemas of others, and changes of Debezium."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

import pytest

from rowtide.codec.message import MessageEncoder
from rowtide.codec.registry import decoder_of
from rowtide.errors import Reason, RejectedRowError, StatementError
from rowtide.plan.plan import ForeignStream
from rowtide.rows.types import (
    DATE,
    INTEGER,
    TIMESTAMP,
    VARCHAR,
    Field,
    Kind,
    RowType,
    Type,
    array_of,
    decimal,
)
from support.codec import outcome
from support.registry import written


def stream(*fields: Field, columns: Any = (), **options: str) -> ForeignStream:
    return ForeignStream("S", RowType(fields), "K", tuple(options.items()), column_options=columns)


def schema(items: Any) -> dict[str, Any]:
    return {
        "type": "record",
        "name": "R",
        "fields": [{"name": "a", "type": ["null", {"type": "array", "items": items}], "default": None}],
    }


def test_a_fault_of_avro_names_the_place() -> None:
    text = json.dumps(schema(["null", "string"]))
    declared = stream(Field("A", array_of(Type(Kind.VARCHAR, 2))), format="AVRO", schema=text)
    messages = [
        written(schema(["null", "string"]), {"a": given}, None)
        for given in (["ab", None], ["ab", "abc"], None)
    ]
    found, faults = outcome(decoder_of(declared), messages)
    assert found == [(("ab", None),), (None,)]
    assert faults == [
        (1, Reason.TYPE, 'field "A" ($.a[1]): text "abc" is not a valid VARCHAR(2): it has 3 characters')
    ]


def test_decimals_of_avro_are_elements() -> None:
    items = {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}
    declared = stream(Field("A", array_of(decimal(9, 2))), format="AVRO", schema=json.dumps(schema(items)))
    message = written(schema(items), {"a": [Decimal("1.50"), Decimal("-2.00")]}, None)
    assert outcome(decoder_of(declared), [message]) == ([((Decimal("1.50"), Decimal("-2.00")),)], [])


def test_items_that_do_not_take_null_refuse_a_null_element() -> None:
    declared = stream(Field("A", array_of(INTEGER)), format="AVRO", schema=json.dumps(schema("int")))
    encoder = MessageEncoder(declared)
    encoder.prepare()
    assert encoder.encode([(1, 2)]).value == written(schema("int"), {"a": [1, 2]}, None)
    assert encoder.encode([()]).value == written(schema("int"), {"a": []}, None)
    with pytest.raises(RejectedRowError, match='column "A" has a NULL element'):
        encoder.encode([(1, None)])


def test_items_of_another_type_are_refused() -> None:
    declared = stream(Field("A", array_of(VARCHAR)), format="AVRO", schema=json.dumps(schema("int")))
    with pytest.raises(StatementError, match='column "A" is VARCHAR ARRAY'):
        MessageEncoder(declared).prepare()


def test_bson_carries_arrays_of_times_and_decimals() -> None:
    row_type = (
        Field("A", array_of(TIMESTAMP)),
        Field("B", array_of(decimal(9, 2))),
        Field("C", array_of(DATE)),
    )
    declared = stream(*row_type, format="BSON")
    rows = [((1, None), (Decimal("1.50"),), (5,)), ((), None, (None,))]
    messages = [MessageEncoder(declared).encode(row).value for row in rows]
    assert outcome(decoder_of(declared), messages) == (rows, [])


def test_xml_has_no_arrays() -> None:
    with pytest.raises(StatementError, match="XML cannot carry the type INTEGER ARRAY"):
        decoder_of(stream(Field("A", array_of(INTEGER)), format="XML"))
