"""Expressions over trays: tree -> function of a tray. Agrees with ``rowwise`` row by row."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from rowtide.errors import RejectedRowError, RowtideError
from rowtide.expr.coercion import coerced
from rowtide.expr.constant import fold
from rowtide.expr.evaluation import (
    ColumnEvaluator,
    Errors,
    EvaluatedPart,
    RowError,
    expanded,
    first_errors,
    nulls_where_invalid,
)
from rowtide.expr.functions import ScalarFunction
from rowtide.expr.functions.function import CallSignature
from rowtide.expr.python.calls import function_of
from rowtide.expr.rowwise import compile_row, literal_value
from rowtide.expr.tree import BodyCall, Call, Expr, FieldRef, Literal, RowtimeRef
from rowtide.rows.arrays import Mask
from rowtide.rows.column import Column, Indices, arrow_type
from rowtide.rows.tray import Tray
from rowtide.rows.types import Field, RowType


class RowErrors:
    """The rows of a tray that an expression rejected, and why; at least one."""

    def __init__(self, errors: Errors) -> None:
        self._errors = errors

    @property
    def rows(self) -> Indices:
        """The indices of the rows, ascending."""
        return np.array(sorted(self._errors), dtype=np.int64)

    def mask(self, length: int) -> Mask:
        """Return True where a row of a tray of ``length`` rows was rejected."""
        rejected = np.zeros(length, dtype=np.bool_)
        rejected[list(self._errors)] = True
        return rejected

    def where(self, mask: Mask) -> RowErrors | None:
        """Return those of the rows where ``mask`` holds; None if there are none."""
        found = {row: error for row, error in self._errors.items() if mask[row]}
        return RowErrors(found) if found else None

    def __iter__(self) -> Iterator[RowError]:
        """Return why, in order of the rows."""
        return (self._errors[row] for row in sorted(self._errors))

    def __len__(self) -> int:
        return len(self._errors)

    @classmethod
    def first(cls, several: Sequence[RowErrors | None]) -> RowErrors | None:
        """Return, for each row that any of ``several`` rejects, the error of the first that does."""
        found: Errors | None = None
        for errors in several:
            if errors is not None:
                found = first_errors(found, errors._errors)
        return None if found is None else cls(found)


@dataclass(frozen=True, slots=True, eq=False)
class Evaluated:
    """The result of an expression over a tray. A rejected row is NULL in ``column``."""

    column: Column
    errors: RowErrors | None = None


ColumnFunction = Callable[[Tray], Evaluated]


def compile_columns(expr: Expr) -> ColumnFunction:
    """Return the function that evaluates ``expr`` over the rows of a tray.

    Raises:
      UnknownFunction: a call names no function; who builds trees asks ``functions.registry.resolve`` first.
    """
    kind = expr.type
    if isinstance(expr, FieldRef):
        index = expr.index

        def given(tray: Tray) -> Evaluated:
            column = tray.columns[index]
            return Evaluated(Column(kind, column.values, column.valid))

        return given
    folded = fold(expr)
    evaluate = _compile(folded)

    def evaluated(tray: Tray) -> Evaluated:
        try:
            # Kernels must not fail on the values of rows that are NULL or not requested.
            with np.errstate(all="ignore"):
                values, valid, errors = evaluate(tray, None)
        except (RowtideError, MemoryError):
            raise
        except Exception:  # noqa: BLE001 - some row makes a function fail: only it is rejected
            values, valid, errors = _row_by_row(folded, tray)
        if len(values) != len(tray):
            values = expanded(values, len(tray))
        if not errors:
            return Evaluated(Column(kind, values, valid))
        rejected = RowErrors(errors)
        fine = ~rejected.mask(len(tray))
        valid = fine if valid is None else valid & fine
        if kind.is_variable_width:
            values = nulls_where_invalid(values, valid)
        return Evaluated(Column(kind, values, valid), rejected)

    return evaluated


def _row_by_row(expr: Expr, tray: Tray) -> EvaluatedPart:
    """Evaluate an expression row by row."""
    evaluate = compile_row(expr)
    answers: list[object] = []
    errors: Errors = {}
    for index, timed in enumerate(tray.rows()):
        try:
            answers.append(evaluate(timed.row, timed.rowtime))
        except RejectedRowError as error:
            answers.append(None)
            errors[index] = RowError(error.reason, error.message)
    column = Column.from_values(expr.type, answers)
    return EvaluatedPart(column.values, column.valid, errors)


def without_kernel(expr: Expr) -> tuple[str, ...]:
    """Return the distinct functions in an expression that have no kernel for these types."""
    expr = fold(expr)
    if not isinstance(expr, Call):
        return ()
    if isinstance(expr, BodyCall):
        parts = (expr.body, *expr.args)
        return tuple(dict.fromkeys(name for part in parts for name in without_kernel(part)))
    function, args, signature = _signed(expr)
    found = () if function.has_kernel(signature) else (function.name,)
    return tuple(dict.fromkeys([*found, *(name for arg in args for name in without_kernel(arg))]))


def _compile(expr: Expr) -> ColumnEvaluator:
    match expr:
        case Literal():
            return _literal(expr)
        case FieldRef(index=index):

            def field(tray: Tray, active: Mask | None) -> EvaluatedPart:
                column = tray.columns[index]
                return EvaluatedPart(column.values, column.valid)

            return field
        case RowtimeRef():
            return lambda tray, active: EvaluatedPart(tray.rowtime)
        case Call():
            return _call(expr)


def _literal(literal: Literal) -> ColumnEvaluator:
    """Return a part with one value for all rows, or one NULL for each row."""
    kind = literal.type
    if literal.value is None:
        return lambda tray, active: EvaluatedPart(*_nulls(literal, len(tray)))
    one = Column.from_values(kind, [literal_value(literal)])
    part = EvaluatedPart(one.values)
    return lambda tray, active: part


def _nulls(literal: Literal, count: int) -> tuple[object, Mask]:
    valid = np.zeros(count, dtype=np.bool_)
    if literal.type.is_variable_width:
        return pa.nulls(count, arrow_type(literal.type)), valid
    return np.zeros(count, dtype=literal.type.dtype), valid


def _call(call: Call) -> ColumnEvaluator:
    if isinstance(call, BodyCall):
        return _body(call)
    function, args, signature = _signed(call)
    evaluators = [_compile(arg) for arg in args]
    if _are_constant(args):
        # Constant folding leaves only constants that fail: they fail for each row that evaluates them.
        evaluators = [_for_each_row(evaluator) for evaluator in evaluators]
    return function.columnar(signature, evaluators)


def _body(call: BodyCall) -> ColumnEvaluator:
    """Evaluate the arguments, each once, and the body over their columns."""
    args = [_compile(fold(arg)) for arg in call.args]
    body = _for_each_row(_compile(fold(call.body)))
    row_type = RowType(tuple(Field(f"${at}", arg.type) for at, arg in enumerate(call.args)))

    def evaluate(tray: Tray, active: Mask | None) -> EvaluatedPart:
        errors: Errors | None = None
        columns = []
        for field, arg in zip(row_type, args, strict=True):
            values, valid, failed = arg(tray, active)
            errors = first_errors(errors, failed)
            values = values if len(values) == len(tray) else expanded(values, len(tray))
            columns.append(Column(field.type, values, valid))
        if errors:
            active = np.ones(len(tray), dtype=np.bool_) if active is None else active.copy()
            active[list(errors)] = False
        found = body(tray.with_columns(row_type, columns), active)
        return found._replace(errors=first_errors(errors, found.errors))

    return evaluate


def _signed(call: Call) -> tuple[ScalarFunction, list[Expr], CallSignature]:
    """Return the function of a call, its arguments as the function gets them, and what it knows about them."""
    function = function_of(call)
    args = [fold(arg) for arg in coerced(function, call)]
    constants = tuple(literal_value(arg) if isinstance(arg, Literal) else None for arg in args)
    if _are_constant(args):
        constants = (None,) * len(args)
    return function, args, CallSignature(function.name, tuple(arg.type for arg in args), call.type, constants)


def _are_constant(args: Sequence[Expr]) -> bool:
    return all(isinstance(arg, Literal) for arg in args)


def _for_each_row(evaluate: ColumnEvaluator) -> ColumnEvaluator:
    def full(tray: Tray, active: Mask | None) -> EvaluatedPart:
        values, valid, errors = evaluate(tray, active)
        return EvaluatedPart(
            values if len(values) == len(tray) else expanded(values, len(tray)), valid, errors
        )

    return full
