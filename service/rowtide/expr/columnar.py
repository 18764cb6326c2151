"""Expressions over the columns of a tray.

The row functions say what an expression means (``expr.rowwise``). A function
with a columnar form computes all rows at once and names the rows that failed;
what is wrong with those the row function says. Without one it is computed row
by row. So both ways agree in values, NULLs, reasons and messages.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute

from rowtide.errors import Reason, RejectedRowError
from rowtide.expr.functions import FUNCTIONS
from rowtide.expr.tree import Call, Expr, FieldRef, Literal, RowtimeRef
from rowtide.rows.column import Column, Indices, Mask
from rowtide.rows.tray import Tray
from rowtide.rows.types import BOOLEAN, TIMESTAMP


@dataclass(frozen=True, slots=True)
class RowError:
    """Why an expression failed for one row."""

    reason: Reason
    message: str


class RowErrors:
    """The rows of a tray for which an expression failed, and why; at least one."""

    def __init__(self, errors: dict[int, RowError]) -> None:
        self._errors = dict(sorted(errors.items()))

    @property
    def rows(self) -> Indices:
        """The indices of the rows, ascending."""
        return np.fromiter(self._errors, dtype=np.int64, count=len(self._errors))

    def mask(self, length: int) -> Mask:
        """Give True where a row of a tray of ``length`` rows failed."""
        found = np.zeros(length, dtype=np.bool_)
        found[self.rows] = True
        return found

    def __iter__(self) -> Iterator[RowError]:
        return iter(self._errors.values())

    def within(self, mask: Mask) -> RowErrors | None:
        """Give those of the rows in ``mask``."""
        return _errors({row: error for row, error in self._errors.items() if mask[row]})

    @classmethod
    def first(cls, several: Sequence[RowErrors | None]) -> RowErrors | None:
        """Give, for each row that failed, the error of the first that has one."""
        found: dict[int, RowError] = {}
        for errors in reversed(several):
            if errors is not None:
                found |= errors._errors
        return _errors(found)


@dataclass(frozen=True, slots=True, eq=False)
class Evaluated:
    """A computed column; what it holds where a row failed means nothing."""

    column: Column
    errors: RowErrors | None = None


ColumnFunction = Callable[[Tray], Evaluated]


def compile_columns(expr: Expr) -> ColumnFunction:
    """Make the function that computes an expression for all rows of a tray."""
    match expr:
        case Literal():
            return lambda tray: Evaluated(_constant(expr, len(tray)))
        case FieldRef(index=index):
            return lambda tray: Evaluated(tray.columns[index])
        case RowtimeRef():
            return lambda tray: Evaluated(Column(TIMESTAMP, tray.rowtime))
        case Call():
            return _compile_call(expr)


def _constant(literal: Literal, length: int) -> Column:
    if literal.value is None:
        return Column.nulls(literal.type, length)
    one = Column.from_values(literal.type, [literal.value])
    if literal.type.is_variable_width:
        return Column(literal.type, pa.array(one.values.to_pylist() * length, type=one.values.type))
    return Column(literal.type, np.broadcast_to(one.values, (length,)))


def _compile_call(call: Call) -> ColumnFunction:
    args = [compile_columns(arg) for arg in call.args]
    match call.function:
        case "AND":
            return _junction(args, absorbing=False)
        case "OR":
            return _junction(args, absorbing=True)
        case "IS NULL":
            return _is_null(args[0])
        case "COALESCE":
            return _coalesce(call, args)
        case "CASE":
            return _case(call, args)
    return _strict(call, args)


def _strict(call: Call, args: Sequence[ColumnFunction]) -> ColumnFunction:
    function, types = FUNCTIONS[call.function], tuple(arg.type for arg in call.args)

    def compute(tray: Tray) -> Evaluated:
        found = [arg(tray) for arg in args]
        columns = [each.column for each in found]
        errors = RowErrors.first([each.errors for each in found])
        valid: Mask | None = None
        for column in columns:
            if column.valid is not None:
                valid = column.valid if valid is None else valid & column.valid
        wanted = np.ones(len(tray), dtype=np.bool_) if valid is None else valid
        if errors is not None:
            wanted = wanted & ~errors.mask(len(tray))
        fast = None if function.columnar is None else function.columnar(columns, call.type)
        if fast is None:
            column, own = _row_by_row(call, function.row, types, columns, wanted)
            return Evaluated(column, RowErrors.first([errors, own]))
        values, failed = fast
        own = None
        if failed is not None:
            _, own = _row_by_row(call, function.row, types, columns, wanted & failed)
        if not call.type.is_variable_width:
            values = np.asarray(values).astype(call.type.dtype, copy=False)
        return Evaluated(Column(call.type, values, valid), RowErrors.first([errors, own]))

    return compute


def _row_by_row(
    call: Call, function: Callable[..., Any], types: Sequence[Any], columns: Sequence[Column], wanted: Mask
) -> tuple[Column, RowErrors | None]:
    """Compute the wanted rows one by one; the others are NULL."""
    where = np.flatnonzero(wanted)
    results: list[object] = [None] * len(wanted)
    errors: dict[int, RowError] = {}
    rows = zip(where.tolist(), *(column.take(where).to_list() for column in columns), strict=True)
    for row, *values in rows:
        try:
            results[row] = function(values, tuple(types), call.type)
        except RejectedRowError as error:
            errors[row] = RowError(error.reason, error.message)
    return Column.from_values(call.type, results), _errors(errors)


def _errors(errors: dict[int, RowError]) -> RowErrors | None:
    return RowErrors(errors) if errors else None


def _truth(column: Column) -> tuple[Mask, Mask]:
    """Give where a condition is TRUE, and where it is FALSE."""
    values = np.asarray(column.values, dtype=np.bool_)
    if column.valid is None:
        return values, ~values
    return values & column.valid, ~values & column.valid


def _junction(args: Sequence[ColumnFunction], *, absorbing: bool) -> ColumnFunction:
    """AND (absorbed by FALSE) and OR (by TRUE); what is absorbed does not look further."""

    def compute(tray: Tray) -> Evaluated:
        open_ = np.ones(len(tray), dtype=np.bool_)
        absorbed = np.zeros(len(tray), dtype=np.bool_)
        known = np.ones(len(tray), dtype=np.bool_)
        errors: list[RowErrors | None] = []
        for arg in args:
            found = arg(tray)
            if found.errors is not None:
                own = found.errors.within(open_)
                errors.append(own)
                if own is not None:
                    open_ = open_ & ~own.mask(len(tray))
            true, false = _truth(found.column)
            here = (true if absorbing else false) & open_
            absorbed |= here
            known &= true | false
            open_ = open_ & ~here
        values = absorbed if absorbing else ~absorbed
        valid = known | absorbed
        return Evaluated(Column(BOOLEAN, values, None if valid.all() else valid), RowErrors.first(errors))

    return compute


def _is_null(arg: ColumnFunction) -> ColumnFunction:
    def compute(tray: Tray) -> Evaluated:
        found = arg(tray)
        values = np.zeros(len(tray), dtype=np.bool_) if found.column.valid is None else ~found.column.valid
        return Evaluated(Column(BOOLEAN, values), found.errors)

    return compute


def _coalesce(call: Call, args: Sequence[ColumnFunction]) -> ColumnFunction:
    def compute(tray: Tray) -> Evaluated:
        choice = np.zeros(len(tray), dtype=np.int64)
        open_ = np.ones(len(tray), dtype=np.bool_)
        found: list[Evaluated] = []
        for number, arg in enumerate(args):
            each = arg(tray)
            looked = None if each.errors is None else each.errors.within(open_)
            found.append(Evaluated(each.column, looked))
            choice[open_] = number
            open_ = open_ & ~each.column.valid_mask()
            if looked is not None:
                open_ = open_ & ~looked.mask(len(tray))
        return Evaluated(
            _choose(call, [each.column for each in found], choice),
            RowErrors.first([each.errors for each in found]),
        )

    return compute


def _case(call: Call, args: Sequence[ColumnFunction]) -> ColumnFunction:
    conditions, values, otherwise = args[:-1:2], args[1:-1:2], args[-1]

    def compute(tray: Tray) -> Evaluated:
        choice = np.full(len(tray), len(values), dtype=np.int64)
        open_ = np.ones(len(tray), dtype=np.bool_)
        errors: list[RowErrors | None] = []
        for number, condition in enumerate(conditions):
            found = condition(tray)
            if found.errors is not None:
                own = found.errors.within(open_)
                errors.append(own)
                if own is not None:
                    open_ = open_ & ~own.mask(len(tray))
            here = _truth(found.column)[0] & open_
            choice[here] = number
            open_ = open_ & ~here
        failed = RowErrors.first(errors)
        chosen = []
        for number, value in enumerate((*values, otherwise)):
            found = value(tray)
            chosen.append(found.column)
            if found.errors is not None:
                mine = choice == number
                if failed is not None:
                    mine = mine & ~failed.mask(len(tray))
                errors.append(found.errors.within(mine))
        return Evaluated(_choose(call, chosen, choice), RowErrors.first(errors))

    return compute


def _choose(call: Call, columns: Sequence[Column], choice: Indices) -> Column:
    """Give, for each row, the value of the column that ``choice`` names."""
    cast = [Column(call.type, column.values, column.valid) for column in columns]
    if call.type.is_variable_width:
        together = Column.concat(cast)
        return together.take(choice * len(choice) + np.arange(len(choice), dtype=np.int64))
    values = _pick(cast, choice)
    valid = None
    if any(column.valid is not None for column in cast):
        valid = np.zeros(len(choice), dtype=np.bool_)
        for number, column in enumerate(cast):
            mine = choice == number
            valid[mine] = column.valid_mask()[mine]
    return Column(call.type, values.astype(call.type.dtype, copy=False), valid)


def _pick(columns: Sequence[Column], choice: Indices) -> Any:
    values = np.empty(len(choice), dtype=columns[0].type.dtype)
    for number, column in enumerate(columns):
        mine = choice == number
        values[mine] = column.values[mine]
    return values
