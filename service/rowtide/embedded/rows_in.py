"""Rows from Python: sequences, mappings, tables of Arrow and DataFrames, as rows of one relation."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa

from rowtide.embedded.result import OP, ROWTIME
from rowtide.embedded.values import from_python, milliseconds, moments
from rowtide.errors import StatementError
from rowtide.rows.types import Field
from rowtide.sql.catalog.written_names import fold
from rowtide.testing.rows import OPCODES, InputRow, RelationShape


def input_rows(shape: RelationShape, rows: object) -> list[InputRow]:
    """Convert rows of a relation.

    A sequence is ROWTIME and the columns in order; a mapping, like a column of Arrow, is by name, as SQL folds it. What
    is not named is NULL, without ROWTIME a row has the time of its arrival, and without OP it is inserted.

    Raises:
      StatementError: one does not fit the relation; the message has its number.
    """
    return _Reader(shape).all(rows)


class _Reader:
    def __init__(self, shape: RelationShape) -> None:
        self._shape = shape
        self._fields = tuple(shape.row_type)
        self._converters = [from_python(field.type) for field in shape.row_type]

    def all(self, rows: object) -> list[InputRow]:
        table = _arrow_table(rows)
        given: Iterable[object] = _mappings(table) if table is not None else _several(rows, self._shape.name)
        return [self._row(number, row) for number, row in enumerate(given, start=1)]

    def _row(self, number: int, row: object) -> InputRow:
        if isinstance(row, Mapping):
            values = self._named(number, row)
        elif isinstance(row, Sequence) and not isinstance(row, str | bytes):
            values = dict(zip((ROWTIME, *self._shape.row_type.names), row, strict=False))
            if len(row) != len(self._fields) + 1:
                raise self._refusal(
                    number, f"{len(row)} values, not ROWTIME and {len(self._fields)} columns, for"
                )
        else:
            raise self._refusal(number, f"{type(row).__name__} is neither a sequence nor a mapping, for")
        sign = values.pop(OP, None) or "+"
        if not isinstance(sign, str) or sign not in OPCODES:
            raise self._refusal(number, f'OP is "+" or "-", not "{sign}", in a row of')
        moment = values.pop(ROWTIME, None)
        try:
            rowtime = None if moment is None else milliseconds(moment)
        except ValueError as error:
            raise self._refusal(number, f"{error}, in ROWTIME of") from error
        return InputRow(rowtime, tuple(self._values(number, values)), OPCODES[sign])

    def _named(self, number: int, row: Mapping[Any, object]) -> dict[str, object]:
        found: dict[str, object] = {}
        known = {ROWTIME, OP, *self._shape.row_type.names}
        for written, value in row.items():
            name = written if written in known else fold(str(written))
            if name not in known:
                raise self._refusal(number, f'column "{written}" does not exist in')
            if name in found:
                raise self._refusal(number, f'column "{name}" appears twice in a row of')
            found[name] = value
        return found

    def _values(self, number: int, values: Mapping[str, object]) -> Iterator[object]:
        for field, convert in zip(self._fields, self._converters, strict=True):
            value = values.get(field.name)
            yield None if value is None else self._value(number, field, convert, value)

    def _value(self, number: int, field: Field, convert: Any, value: object) -> object:
        try:
            return convert(value)
        except ValueError as error:
            raise self._refusal(number, f'{error}, in column "{field.name}" of') from error

    def _refusal(self, number: int, message: str) -> StatementError:
        columns = ", ".join(f"{field.name} {field.type}" for field in self._fields)
        return StatementError(
            f'row {number}: {message} "{self._shape.name}"', hint=f"Its columns are {columns}."
        )


def _several(rows: object, relation: str) -> Iterable[object]:
    if isinstance(rows, Iterable) and not isinstance(rows, Mapping | str | bytes):
        return rows
    raise StatementError(
        f'{type(rows).__name__} is not rows of "{relation}"',
        hint="Pass a list of mappings or sequences, a table of Arrow, or a DataFrame.",
    )


def _arrow_table(rows: object) -> pa.Table | None:
    """Return what has columns as a table of Arrow."""
    if type(rows).__module__.partition(".")[0] == "pandas":
        return pa.Table.from_pandas(rows, preserve_index=False)
    return pa.table(rows) if hasattr(rows, "__arrow_c_stream__") else None


def _mappings(table: pa.Table) -> Iterator[dict[str, object]]:
    """Yield the rows of a table."""
    for row in zip(*map(_values, table.columns), strict=True):
        yield dict(zip(table.column_names, row, strict=True))


def _values(column: pa.ChunkedArray) -> list[Any]:
    """Return a column's values. Times finer than a millisecond are cut, and one without a zone is in UTC."""
    kind = column.type
    if pa.types.is_timestamp(kind):
        return moments(column.cast(pa.timestamp("ms", kind.tz), safe=False).cast(pa.int64()).to_pylist())
    if pa.types.is_time64(kind):
        column = column.cast(pa.time32("ms"), safe=False)
    elif pa.types.is_duration(kind):
        column = column.cast(pa.duration("ms"), safe=False)
    values: list[Any] = column.to_pylist()
    return values
