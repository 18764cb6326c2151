"""Changes of a table to Debezium's envelopes, in JSON and in Avro (docs/sql/streams.md#debeziums-envelopes).

An envelope has the row before, the row after, the operation and the rowtime. What the decoder of the same format
reads, with the same columns, is the same change. Nothing in an envelope depends on the clock or on the version, so a
recovery writes the same bytes.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import msgspec

from rowtide.codec.changes.unavailable import Placeholder
from rowtide.codec.encode.contract import refuse
from rowtide.codec.encode.json import JsonEncoder, main_spelling
from rowtide.codec.options import Declared
from rowtide.rows.types import VARCHAR, Kind, RowType

Image = Sequence[object] | None
"""A row before or after a change; None: there is none."""


def op_of(before: Image, after: Image) -> str:
    """Return the operation of a change, as Debezium names it."""
    if after is None:
        return "d"
    return "c" if before is None else "u"


def source_of(declared: Declared, rowtime: int) -> dict[str, Any]:
    """Return where a change is from: the fields that Debezium has for every connector."""
    return {
        "connector": "rowtide",
        "name": "rowtide",
        "ts_ms": rowtime,
        "snapshot": "false",
        "db": "",
        "table": main_spelling(declared.relation.rpartition(".")[2]),
    }


class Placeholders:
    """Refuses rows with a value by which a decoder knows that it has not changed."""

    def __init__(self, declared: Declared) -> None:
        self._placeholder = Placeholder(declared)

    def check(self, image: Image) -> None:
        """Check a row.

        Raises:
          RejectedRowError: CONSTRAINT, one of its values is a placeholder.
        """
        for value in image or ():
            if self._placeholder.is_form(value):
                refuse(f'a value is "{value}", which says that a value has not changed')


class DebeziumJsonEncoder:
    """Encodes changes as JSON without a schema; see ``codec.encode.contract.ChangeEncoder``.

    Raises:
      StatementError: a column's type cannot be written as JSON, or one of its options is wrong.
    """

    def __init__(self, declared: Declared, row_type: RowType) -> None:
        self._declared = declared
        self._placeholders = Placeholders(declared)
        # Debezium writes JSON as text.
        fields = [
            replace(field, type=VARCHAR) if field.type.kind is Kind.JSON else field for field in row_type
        ]
        self._images = JsonEncoder(declared, RowType(tuple(fields)))

    def encode_change(self, before: Image, after: Image, rowtime: int) -> bytes:
        """Return the value of a change's message; see ``codec.encode.contract.ChangeEncoder``."""
        envelope = {
            "before": self._image(before),
            "after": self._image(after),
            "source": source_of(self._declared, rowtime),
            "op": op_of(before, after),
            "ts_ms": rowtime,
        }
        return msgspec.json.encode(envelope)

    def _image(self, image: Image) -> msgspec.Raw | None:
        self._placeholders.check(image)
        return None if image is None else msgspec.Raw(self._images.encode(image))


def envelope_schema(value: dict[str, Any], name: str) -> str:
    """Return the Avro schema of envelopes of a record, as JSON text."""
    text, long = {"type": "string"}, {"type": "long"}
    source = {
        "type": "record",
        "name": f"{name}Source",
        "fields": [
            {"name": "connector", **text},
            {"name": "name", **text},
            {"name": "ts_ms", **long},
            {"name": "snapshot", **text},
            {"name": "db", **text},
            {"name": "table", **text},
        ],
    }
    fields = [
        {"name": "before", "type": ["null", value], "default": None},
        {"name": "after", "type": ["null", value["name"]], "default": None},
        {"name": "source", "type": source},
        {"name": "op", "type": "string"},
        {"name": "ts_ms", "type": ["null", "long"], "default": None},
    ]
    return json.dumps({"type": "record", "name": f"{name}Envelope", "fields": fields})
