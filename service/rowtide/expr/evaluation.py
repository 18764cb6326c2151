"""Evaluation of expressions, over the columns of a tray or over one row.

An evaluator of columns takes a tray and the requested rows (None: all of them) and returns an
``EvaluatedPart``. For every requested row without an error, ``values`` and ``valid`` hold the result;
elsewhere they are undefined. The part of a literal has one value for all rows.

``strict_columns`` and ``strict_row`` make evaluators of functions that are NULL
where an argument is NULL. The row function defines the result. A column function computes the rows
that it is sure of and returns the others as rows in doubt, which the row function processes. So both
agree in values, reasons and messages.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import repeat
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rowtide.errors import Reason, RejectedRowError
from rowtide.rows.arrays import Mask
from rowtide.rows.column import Column, Indices, arrow_values, row_values, scaled, unscaled
from rowtide.rows.rowop import Row
from rowtide.rows.tray import Tray
from rowtide.rows.types import Kind, Type


class RowError(NamedTuple):
    """Why an expression rejected a row."""

    reason: Reason
    message: str


Errors = dict[int, RowError]
"""Why rows are rejected, by row index; immutable once it is in a part."""


class EvaluatedPart(NamedTuple):
    """The result of an evaluator of columns: as ``Column``, and the rows that failed."""

    values: Any
    valid: Mask | None = None
    errors: Errors | None = None


ColumnEvaluator = Callable[[Tray, Mask | None], EvaluatedPart]
"""Takes the tray and the requested rows."""
RowEvaluator = Callable[[Row, int], object]
"""Takes a row and its rowtime (ms); raises RejectedRowError."""
RowKernel = Callable[..., object]
"""Takes arguments in row form, none of them NULL; raises RejectedRowError."""
ColumnKernel = Callable[..., tuple[Any, Mask | None]]
"""Takes the arguments' values; returns values and the rows in doubt. Values of rows that are NULL or
not requested are undefined, and must not make it fail."""


def first_errors(first: Errors | None, second: Errors | None) -> Errors | None:
    """Return the errors of two parts; if a row fails in both, the error of the first."""
    if not first:
        return second
    if not second:
        return first
    return {**second, **first}


def both(first: Mask | None, second: Mask | None) -> Mask | None:
    """Return the rows in both masks; None is all rows."""
    if first is None:
        return second
    if second is None:
        return first
    return first & second


def stored(kind: Type, value: object) -> object:
    """Return what a column holds for a value in row form that is not NULL."""
    if kind.kind is Kind.DECIMAL:
        return unscaled(value, kind.scale)  # type: ignore[arg-type]
    return value


def row_form(kind: Type, values: Any, index: int) -> Any:
    """Return value ``index`` of a column in row form, or the one value of a literal's part."""
    at = index if len(values) > 1 else 0
    if kind.is_variable_width:
        (held,) = row_values(kind, values.slice(at, 1))
        return held
    value = values[at]
    if kind.kind is Kind.DECIMAL:
        return scaled(int(value), kind.scale)
    return value.item()


def expanded(values: Any, count: int) -> Any:
    """Return the one value of a literal's part ``count`` times."""
    if isinstance(values, np.ndarray):
        return np.full(count, values[0], dtype=values.dtype)
    return pa.repeat(values[0], count)


def nulls_where_invalid(values: Any, valid: Mask | None) -> Any:
    """Return an Arrow array with NULL wherever ``valid`` is False."""
    if valid is None or values.null_count == len(valid) - np.count_nonzero(valid):
        return values
    return pc.if_else(pa.array(valid), values, pa.scalar(None, values.type))


def strict_row(kernel: RowKernel, args: Sequence[RowEvaluator]) -> RowEvaluator:
    """Evaluate all of ``args`` in order; NULL if one of them is NULL."""
    if len(args) == 1:
        (only,) = args

        def unary(row: Row, rowtime: int) -> object:
            value = only(row, rowtime)
            return None if value is None else kernel(value)

        return unary
    if len(args) == 2:
        left, right = args

        def binary(row: Row, rowtime: int) -> object:
            first = left(row, rowtime)
            second = right(row, rowtime)
            return None if first is None or second is None else kernel(first, second)

        return binary

    def general(row: Row, rowtime: int) -> object:
        values = [arg(row, rowtime) for arg in args]
        return None if None in values else kernel(*values)

    return general


def strict_columns(
    types: Sequence[Type],
    result: Type,
    row_kernel: RowKernel,
    kernel: ColumnKernel | None,
    args: Sequence[ColumnEvaluator],
) -> ColumnEvaluator:
    """Evaluate ``args`` and apply ``kernel``, or ``row_kernel`` row by row where there is none."""
    function = _RowFunction(types, result, row_kernel)

    def evaluate(tray: Tray, active: Mask | None) -> EvaluatedPart:
        parts = [arg(tray, active) for arg in args]
        errors: Errors | None = None
        valid: Mask | None = None
        for part in parts:
            valid = both(valid, part.valid)
            if part.errors:
                errors = first_errors(errors, part.errors)
        if kernel is None:
            wanted = _wanted(both(valid, active), errors, len(tray))
            return function.loop(parts, wanted, valid, errors, len(tray))
        values, doubtful = kernel(*(part.values for part in parts))
        if doubtful is not None:
            if len(doubtful) != len(tray):
                doubtful = np.broadcast_to(doubtful, len(tray))
            wanted = _wanted(both(both(doubtful, valid), active), errors, len(tray))
            if len(wanted):
                values, errors, nulls = function.repair(parts, wanted, values, errors)
                valid = _without(valid, nulls, len(tray))
        if result.is_variable_width:
            values = nulls_where_invalid(values, valid)
        return EvaluatedPart(values, valid, errors)

    return evaluate


def _wanted(rows: Mask | None, errors: Errors | None, count: int) -> Indices:
    """Return the indices of ``rows`` without those that have failed already."""
    if errors:
        rows = np.ones(count, dtype=np.bool_) if rows is None else rows.copy()
        rows[list(errors)] = False
    return np.arange(count) if rows is None else np.flatnonzero(rows)


def _without(valid: Mask | None, nulls: Sequence[int], count: int) -> Mask | None:
    """Return a mask in which further rows are NULL: a function may return NULL for arguments that are not."""
    if not nulls:
        return valid
    valid = np.ones(count, dtype=np.bool_) if valid is None else valid.copy()
    valid[list(nulls)] = False
    return valid


@dataclass(frozen=True, slots=True)
class _RowFunction:
    """A function of rows without NULLs, and how a column is computed by it."""

    types: Sequence[Type]
    """Those of its arguments."""
    result: Type
    kernel: RowKernel

    def repair(
        self, parts: Sequence[EvaluatedPart], wanted: Indices, values: Any, errors: Errors | None
    ) -> tuple[Any, Errors | None, list[int]]:
        """Process the rows in doubt by the row function; return also those that are NULL."""
        failed: Errors = {}
        answers: list[object] = []
        answered: list[int] = []
        for index in wanted.tolist():
            given = [row_form(kind, part.values, index) for kind, part in zip(self.types, parts, strict=True)]
            try:
                answers.append(self.kernel(*given))
            except RejectedRowError as error:
                failed[index] = RowError(error.reason, error.message)
            else:
                answered.append(index)
        if answered:
            if self.result.is_variable_width:
                mask = np.zeros(len(values), dtype=np.bool_)
                mask[answered] = True
                values = pc.replace_with_mask(values, pa.array(mask), arrow_values(self.result, answers))
            else:
                values = values.copy()
                for index, answer in zip(answered, answers, strict=True):
                    if answer is not None:
                        values[index] = stored(self.result, answer)
        nulls = [index for index, answer in zip(answered, answers, strict=True) if answer is None]
        return values, first_errors(errors, failed), nulls

    def loop(
        self,
        parts: Sequence[EvaluatedPart],
        wanted: Indices,
        valid: Mask | None,
        errors: Errors | None,
        count: int,
    ) -> EvaluatedPart:
        """Process every row by the row function."""
        failed: Errors = {}
        answers: list[object] = [None] * count
        columns: list[Iterator[object]] = []
        for kind, part in zip(self.types, parts, strict=True):
            column = Column(kind, part.values)
            if len(part.values) == 1:
                columns.append(repeat(column.to_list()[0], len(wanted)))
            else:
                columns.append(iter((column if len(wanted) == count else column.take(wanted)).to_list()))
        for index, given in zip(wanted.tolist(), zip(*columns, strict=True), strict=True):
            try:
                answers[index] = self.kernel(*given)
            except RejectedRowError as error:
                failed[index] = RowError(error.reason, error.message)
        nulls = [index for index in wanted.tolist() if answers[index] is None and index not in failed]
        if self.result.is_variable_width:
            values = arrow_values(self.result, answers)
        else:
            values = np.zeros(count, dtype=self.result.dtype)
            for index in wanted.tolist():
                if answers[index] is not None:
                    values[index] = stored(self.result, answers[index])
        return EvaluatedPart(values, _without(valid, nulls, count), first_errors(errors, failed))
