"""JSON_TABLE: its cases, and what it means as docs/sql/json-table.md says it."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import strategies as st

from contract.operators.inputs import MOSTLY_INSERTS, Case, ordered_items, row_type_of
from contract.operators.meanings import Rejected
from contract.operators.model import Model
from contract.operators.stream_models import RowWiseModel
from rowtide.errors import Reason
from rowtide.expr.tree import Call, FieldRef, Literal
from rowtide.operators.contract import OperatorSite
from rowtide.plan.json_columns import JsonColumn, JsonColumnKind
from rowtide.plan.nodes import Source
from rowtide.plan.nodes.json_table import JsonTable
from rowtide.rows.rowop import TimedRow
from rowtide.rows.types import BIGINT, BOOLEAN, INTEGER, VARCHAR, Field, RowType

ORIGINS = (6 << 16, 2 << 16)
DOCUMENTS = (
    *("[]", "{}", "7", "null", "[1, 2]", '["x"]', "[[1], [2, 3]]", "no JSON", "", "[1,", '{"a": 1} x'),
    *('{"a": 5}', '{"a": [{"b": 1}, {"b": 2}]}', '[{"a": 1, "b": "x"}, {"A": 2, "b": [1]}]'),
    *('[{"a": "many"}]', '[{"a": 99999999999}, {"a": 1}]', '[{"a": null, "b": 1.50}, {"b": {}}]'),
    *('[{"a": 1}, {"a": 1}]', '[{"a": true, "b": "\\u0000"}]', '[[{"a": 3}]]'),
)
PATHS: tuple[tuple[str | int | None, ...], ...] = (
    (None,),
    (),
    ("a",),
    ("a", None),
    (None, None),
    (0,),
    (1, "a"),
)
NULL_VALUE = Literal(None, INTEGER)


@st.composite
def json_tables(draw: st.DrawFn) -> Case:
    """Documents and paths of all shapes; columns of each kind, with and without values of their own."""
    row_type = row_type_of((BIGINT, VARCHAR))
    number = Call("CAST", (FieldRef(0, VARCHAR),), INTEGER)
    own = Literal(-1, INTEGER)
    some = {
        "N": (JsonColumn(JsonColumnKind.ORDINALITY), BIGINT),
        "A": (
            JsonColumn(
                JsonColumnKind.VALUE,
                ("A",) if (folded := draw(st.booleans())) else ("a",),
                number,
                draw(st.sampled_from((NULL_VALUE, own, None))),
                draw(st.sampled_from((NULL_VALUE, own, None))),
                folded,
            ),
            INTEGER,
        ),
        "B": (JsonColumn(JsonColumnKind.JSON, ("b",), FieldRef(0, VARCHAR), Literal(None, VARCHAR)), VARCHAR),
        "T": (JsonColumn(JsonColumnKind.TEXT, (), FieldRef(0, VARCHAR), Literal(None, VARCHAR)), VARCHAR),
        "E": (JsonColumn(JsonColumnKind.EXISTS, ("b", 0), FieldRef(0, BOOLEAN)), BOOLEAN),
    }
    names = draw(st.lists(st.sampled_from(sorted(some)), min_size=1, unique=True))
    fields = [*row_type, *(Field(name, some[name][1]) for name in names)]
    node = JsonTable(
        "V",
        Source("S", row_type),
        FieldRef(1, VARCHAR),
        draw(st.sampled_from(PATHS)),
        tuple(some[name][0] for name in names),
        draw(st.booleans()),
        draw(st.booleans()),
        RowType(tuple(fields)),
    )
    items = draw(ordered_items(row_type, ORIGINS, st.integers(-3, 6), opcodes=MOSTLY_INSERTS, copies=True))
    documents = st.sampled_from(DOCUMENTS) | st.none()
    given = tuple(
        each._replace(row=(each.row[0], draw(documents))) if isinstance(each, TimedRow) else each
        for each in items
    )
    return Case(node, OperatorSite(9 << 16, True, (ORIGINS,)), (given,))


class Text(str):
    """A number as it is written."""


def loaded(text: str) -> Any:
    """Return JSON as Python values, numbers as they are written."""
    return json.loads(text, parse_float=Text, parse_int=Text)


def named(value: Any, path: tuple[str | int | None, ...]) -> list[Any]:
    """Return the values that a path names, as in the lax mode of SQL/JSON."""
    if not path:
        return [value]
    first, rest = path[0], path[1:]
    if isinstance(value, list):
        if isinstance(first, int):
            return named(value[first], rest) if first < len(value) else []
        if first is None:
            return [found for each in value for found in named(each, rest)]
        return [found for each in value if isinstance(each, dict) for found in named(each, path)]
    if first in (None, 0):
        return named(value, rest)
    return named(value[first], rest) if isinstance(value, dict) and first in value else []


def as_json(value: Any) -> str:
    """Return JSON text as ``DOCUMENTS`` spells it."""
    match value:
        case Text():
            return str(value)
        case dict():
            return (
                "{" + ", ".join(f"{json.dumps(name)}: {as_json(each)}" for name, each in value.items()) + "}"
            )
        case list():
            return "[" + ", ".join(map(as_json, value)) + "]"
        case str() if "\0" in value:
            return '"\\u0000"'
        case _:
            return json.dumps(value)


class JsonTableModel(RowWiseModel):
    """A row for each value; the first that fails rejects its row."""

    def row(self, port: int, timed: TimedRow) -> None:
        self.account.rows_in += 1
        try:
            found = self.elements(timed)
        except Rejected as error:
            self.fail(error.reason, timed)
            return
        if not found:
            self.account.filtered += 1
            return
        self.account.done += 1
        for each in found:
            self.give(each)

    def elements(self, timed: TimedRow) -> list[TimedRow]:
        """Return the rows of a row."""
        text = timed.row[1]
        values: list[Any] = []
        if text is not None:
            try:
                values = named(loaded(str(text)), self.node.path)
            except ValueError:
                if not self.node.empty_on_error:
                    raise Rejected(Reason.FUNCTION) from None
        rows = [
            tuple(self.value(column, number, value) for column in self.node.columns)
            for number, value in enumerate(values, 1)
        ]
        if not rows and self.node.keeps_all:
            rows = [(None,) * len(self.node.columns)]
        return [timed._replace(row=(*timed.row, *each)) for each in rows]

    def value(self, column: JsonColumn, number: int, value: Any) -> Any:
        """Return what a column has of an element."""
        if column.kind is JsonColumnKind.ORDINALITY:
            return number
        if column.any_case and isinstance(value, dict):
            value = {name.upper(): each for name, each in value.items()}
        found = [value]
        for step in column.steps:
            found = [
                each[step]  # type: ignore[index]
                for each in found
                if (isinstance(each, dict) and step in each)
                or (isinstance(each, list) and isinstance(step, int) and step < len(each))
            ]
        if column.kind is JsonColumnKind.EXISTS:
            return bool(found)
        if not found:
            if column.on_empty is None:
                raise Rejected(Reason.MISSING_FIELD)
            return column.on_empty.value
        try:
            return self.fitting(column, found[0])
        except Rejected:
            if column.on_error is None:
                raise
            return column.on_error.value

    def fitting(self, column: JsonColumn, value: Any) -> Any:
        """Return a value that exists in the type of its column."""
        if column.kind is JsonColumnKind.JSON:
            return as_json(value)
        if column.kind is JsonColumnKind.TEXT and isinstance(value, list | dict):
            return as_json(value)
        if isinstance(value, list | dict):
            raise Rejected(Reason.TYPE)
        if value is None:
            return None
        if value is True or value is False:
            value = json.dumps(value)
        if "\0" in value:
            raise Rejected(Reason.TYPE)
        if column.kind is JsonColumnKind.TEXT:
            return str(value)
        try:
            number = int(value)
        except ValueError:
            raise Rejected(Reason.CAST) from None
        if not -(2**31) <= number < 2**31:
            raise Rejected(Reason.OVERFLOW)
        return number


KIND, CASES = JsonTable, json_tables()
MODEL: type[Model] = JsonTableModel
