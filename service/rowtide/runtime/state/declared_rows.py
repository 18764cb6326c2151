"""Rows that a database returns, as rows of the declared types: each value exactly, or not at all.

A column of a database may be wider than its declaration, and programs other than Rowtide write into it. A value of more
digits, characters or bytes than are declared is refused: a query that cut it would answer something else than is there.
Only the blanks are cut off with which databases fill CHAR. A number is rounded to the nearest REAL, and a UUID gets its
usual spelling. Times have milliseconds already.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from decimal import Decimal
from typing import Any

from rowtide.errors import Reason, RejectedRowError
from rowtide.expr.functions.rejections import shown
from rowtide.expr.python.results import ResultMisfit, fit_of
from rowtide.expr.rowwise import compile_row
from rowtide.expr.tree import Call, FieldRef
from rowtide.plan.plan import ForeignTable
from rowtide.rows.rowop import Row
from rowtide.rows.types import VARCHAR, Kind, Type, array_of

_Fit = Callable[[Any], object]
_FORMED = (Kind.CHAR, Kind.REAL, Kind.DOUBLE, Kind.UUID)
"""Types whose values may be equal to what is read without being the same; NaN is not even equal."""


def declared_rows(table: ForeignTable, rows: Iterable[Row]) -> Iterator[Row]:
    """Return rows of connectors, which give arrays as text, in row form.

    Raises:
      RejectedRowError: a value is not one of its declared type, or is NULL where that is not allowed.
    """
    readers = [_reader(table, index) for index in range(len(table.row_type))]
    for row in rows:
        yield tuple([read(value) for read, value in zip(readers, row, strict=True)])


def _reader(table: ForeignTable, index: int) -> _Fit:
    """Return the function that brings a value of a column into row form."""
    field = table.row_type[index]
    fit = _array(field.type) if field.type.element is not None else exactly(field.type)
    takes_null = field.nullable and index not in table.key

    def read(value: Any) -> object:
        if value is None:
            if takes_null:
                return None
            raise RejectedRowError(Reason.CONSTRAINT, f'column "{field.name}" is NULL')
        try:
            return fit(value)
        except ResultMisfit as misfit:
            raise RejectedRowError(
                Reason.TYPE, f'column "{field.name}" ({field.type}) has the value {shown(value)}, {misfit}'
            ) from None
        except RejectedRowError as error:
            raise RejectedRowError(error.reason, f'column "{field.name}": {error.message}') from None

    return read


def exactly(kind: Type) -> _Fit:
    """Return the function that brings a value into row form. It raises ``ResultMisfit`` if that changes the value."""
    fit = fit_of(kind)
    if kind.kind in _FORMED:
        return fit

    def read(value: Any) -> object:
        found = fit(value)
        if found != value:
            raise ResultMisfit(f"which is not exactly one of {kind}")
        return found

    return read


def _array(kind: Type) -> _Fit:
    """Return the function that reads the text of an array."""
    cast = compile_row(Call("CAST", (FieldRef(0, VARCHAR),), kind))
    if not kind.of_elements.is_exact:
        return lambda text: cast((text,), 0)
    # A cast rounds numbers.
    written = compile_row(Call("CAST", (FieldRef(0, VARCHAR),), array_of(VARCHAR)))

    def read(text: Any) -> object:
        found: Any = cast((text,), 0)
        numbers: Any = written((text,), 0)
        if any(
            number is not None and Decimal(number) != each
            for number, each in zip(numbers, found, strict=True)
        ):
            raise ResultMisfit(f"which is not exactly one of {kind}")
        return found

    return read
