"""Short ways to write and evaluate an expression, over columns and over a row at once."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, datetime, timedelta
from decimal import Decimal

from rowtide.errors import Reason, RejectedRowError
from rowtide.expr.columnar import compile_columns
from rowtide.expr.functions import resolve
from rowtide.expr.functions.numbers.floats import single
from rowtide.expr.rowwise import compile_row
from rowtide.expr.tree import Call, Expr, FieldRef, Literal
from rowtide.rows.rowop import TimedRow
from rowtide.rows.tray import Tray
from rowtide.rows.types import BOOLEAN, DOUBLE, INTEGER, VARCHAR, Field, Kind, RowType, Type, decimal

Given = tuple[object, Type]


def typed(value: object) -> Given:
    """Return a value with the type that its literal has in SQL."""
    match value:
        case bool():
            return value, BOOLEAN
        case int():
            return value, INTEGER
        case float():
            return value, DOUBLE
        case str():
            return value, VARCHAR
        case Decimal():
            exponent = value.as_tuple().exponent
            assert isinstance(exponent, int)
            return value, decimal(max(len(value.as_tuple().digits), -exponent), -exponent)
        case tuple():
            return value
        case _:
            raise TypeError(f"{value!r} needs a type")


def evaluated(expr: Expr, fields: Sequence[Given] = ()) -> object:
    """Evaluate over a column of two equal rows and over one row, see that they agree, give the value."""
    row_type = RowType(tuple(Field(f"F{index}", kind) for index, (_, kind) in enumerate(fields)))
    row = tuple(value for value, _ in fields)
    tray = Tray.from_rows(row_type, [TimedRow(0, 0, counter, 1, row) for counter in range(2)])
    columns = compile_columns(expr)(tray)
    try:
        value = compile_row(expr)(row, 0)
    except RejectedRowError as error:
        assert columns.errors is not None
        assert [(each.reason, each.message) for each in columns.errors] == [(error.reason, error.message)] * 2
        raise
    assert columns.errors is None
    assert columns.column.to_list() == [value, value]
    return value


def in_range(value: object, kind: Type) -> Given:
    """Round a value of REAL to what a REAL holds."""
    return (single(value) if kind.kind is Kind.REAL and isinstance(value, float) else value), kind


def given_fields(args: Sequence[object]) -> tuple[list[Given], list[Expr]]:
    fields = [in_range(*typed(arg)) for arg in args]
    return fields, [FieldRef(index, kind) for index, (_, kind) in enumerate(fields)]


def value_of(name: str, *args: object) -> object:
    """Return the value of a function: of fields, and the same of literals."""
    fields, refs = given_fields(args)
    kind = resolve(name, [kind for _, kind in fields])
    value = evaluated(Call(name, tuple(refs), kind), fields)
    literals = tuple(Literal(given, of) for given, of in fields)
    assert evaluated(Call(name, literals, kind)) == value
    return value


def days(text: str) -> int:
    """Return a day of ISO 8601 as days since the epoch."""
    return date.fromisoformat(text).toordinal() - date(1970, 1, 1).toordinal()


def ms(text: str) -> int:
    """Return a moment of ISO 8601 in UTC as milliseconds since the epoch."""
    return (datetime.fromisoformat(text) - datetime(1970, 1, 1)) // timedelta(milliseconds=1)


def type_of(name: str, *args: object) -> Type:
    """Return the type of a function."""
    return resolve(name, [typed(arg)[1] for arg in args])


def cast(value: object, target: Type) -> object:
    """Return CAST(value AS target)."""
    fields, refs = given_fields([value])
    resolve("CAST", [fields[0][1], target])
    return evaluated(Call("CAST", tuple(refs), target), fields)


def rejection(name: str, *args: object) -> tuple[Reason, str]:
    """Return why a function rejects the row."""
    try:
        value = value_of(name, *args)
    except RejectedRowError as error:
        return error.reason, error.message
    raise AssertionError(f"{name} gave {value!r}")


def cast_rejection(value: object, target: Type) -> tuple[Reason, str]:
    """Return why a cast rejects the row."""
    try:
        result = cast(value, target)
    except RejectedRowError as error:
        return error.reason, error.message
    raise AssertionError(f"the cast gave {result!r}")
