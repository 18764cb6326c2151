"""How ROW is written in the question why a row is there."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from rowtide.codec.written.times import ScenarioDay
from rowtide.codec.written.values import value_of
from rowtide.errors import StatementError, UnknownRelationError
from rowtide.runtime.inspect.why_answer import RowQuestion
from rowtide.runtime.recovery.begin import parse_time

if TYPE_CHECKING:
    from rowtide.plan.plan import Plan
    from rowtide.rows.types import RowType

HOW = (
    'It is a JSON object of columns, such as {"sensor": "a", "period": "2026-01-31 10:00:00"}, '
    "or name=value, name=value; ROWTIME may be among them."
)
ROWTIME = "ROWTIME"


def asked_row(plan: Plan, relation: str, text: str) -> RowQuestion:
    """Read ROW of a relation (its catalog name).

    Raises:
      StatementError: the relation or a column does not exist, or a value does not fit its column's type.
    """
    row_type = _row_type(plan, relation)
    values: dict[int, object] = {}
    rowtime: int | None = None
    for name, given in _named(text, row_type).items():
        folded = name.strip().strip('"') if name.strip().startswith('"') else name.strip().upper()
        if folded in row_type.names:
            at = row_type.names.index(folded)
            values[at] = _value(given, row_type, at)
        elif folded == ROWTIME and given is not None:
            rowtime = _time(given)
        else:
            known = ", ".join(row_type.names)
            raise StatementError(f'"{relation}" has no column "{folded}"', hint=f"It has {known}.")
    return RowQuestion(values, rowtime)


def _row_type(plan: Plan, relation: str) -> RowType:

    for table in plan.foreign_tables:
        if table.name == relation:
            return table.row_type
    for name, node in plan.relations:
        if name == relation:
            return node.row_type
    raise UnknownRelationError(f'relation "{relation}" does not exist', hint="Write the name as in SQL.")


def _named(text: str, row_type: RowType) -> dict[str, str | None]:
    """Return the values of ROW as text, by column name; a JSON array has all columns in order."""
    stripped = text.strip()
    if not stripped.startswith(("{", "[")):
        pairs = [each.partition("=") for each in stripped.split(",") if each.strip()]
        if not pairs or not all(sign for _, sign, _ in pairs):
            raise StatementError(f"invalid row: {text}", hint=HOW)
        return {name: value.strip().strip("'") for name, _, value in pairs}
    try:
        # Numbers keep their text: 0.1 is exact for a DECIMAL.
        found = json.loads(stripped, parse_float=str, parse_int=str)
    except ValueError as error:
        raise StatementError(f"invalid row: {error}", hint=HOW) from error
    if isinstance(found, list):
        if len(found) != len(row_type):
            raise StatementError(f"the row has {len(found)} values and not {len(row_type)}", hint=HOW)
        found = dict(zip((f'"{name}"' for name in row_type.names), found, strict=True))
    return {name: _text(value) for name, value in found.items()}


def _text(value: object) -> str | None:
    if isinstance(value, bool):
        return str(value).lower()
    return None if value is None else str(value)


def _value(given: str | None, row_type: RowType, at: int) -> object:

    field = row_type[at]
    if given is None:
        return None
    if field.type.is_timestamp:
        return _time(given)
    try:
        return value_of(given, field.type, ScenarioDay(0))
    except ValueError as error:
        raise StatementError(f'column "{field.name}" is {field.type}: {error}', hint=HOW) from error


def _time(text: str) -> int:
    """Read a time in the form that all commands accept, or milliseconds since the epoch."""
    # parse_time reads a short number as a year; here it is milliseconds.
    return int(text) if text.lstrip("-").isdigit() else parse_time(text)
