"""Calls of functions in Python. Whatever a function raises or returns, only its row is rejected.

A function in Python is known by its declaration in the tree, not by its name, so that two pipelines in one
process can each have one of the same name.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import repeat
from typing import Any

from rowtide.errors import Reason, RejectedRowError
from rowtide.expr.evaluation import (
    ColumnEvaluator,
    Errors,
    EvaluatedPart,
    RowError,
    RowEvaluator,
    first_errors,
    strict_row,
)
from rowtide.expr.functions import ScalarFunction, find
from rowtide.expr.functions.function import CallSignature, strict
from rowtide.expr.functions.shapes import no_columns
from rowtide.expr.python.arguments import evaluated
from rowtide.expr.python.batches import BATCH_FORMS, by_batches, one_row
from rowtide.expr.python.failures import file_of, given, raised, shown_with_type
from rowtide.expr.python.loading import load_function
from rowtide.expr.python.results import ResultMisfit, fit_of
from rowtide.expr.python.states import KEPT_FUNCTIONS, aggregator_of
from rowtide.expr.tree import Call, PythonAggregate, PythonCall, PythonFunction, ResultCall
from rowtide.rows.arrays import Mask
from rowtide.rows.column import Column
from rowtide.rows.rowop import Row
from rowtide.rows.tray import Tray
from rowtide.rows.types import Kind, Type

_STORED = {Kind.DOUBLE: float, Kind.BOOLEAN: bool}
"""Classes of results that are stored as they are."""


def function_of(call: Call) -> ScalarFunction:
    """Return what a call computes: a built-in function, or one in Python."""
    match call:
        case PythonCall():
            return _scalar(call.of)
        case ResultCall():
            return _result(call.of)
        case _:
            return find(call.function)


@lru_cache(KEPT_FUNCTIONS)
def _scalar(of: PythonFunction) -> ScalarFunction:
    """Return a function in Python as a scalar function.

    Raises:
      LoadingError: its module cannot be imported here.
    """
    function = load_function(of.path, of.folder)

    def resolve(args: Sequence[Type]) -> Type:
        del args
        return of.returns

    def operands(args: Sequence[Type], result: Type) -> Sequence[Type]:
        del args, result
        return of.takes

    is_batch = of.form in BATCH_FORMS
    kernel = Called(of, function, one_row(of, function) if is_batch else function)

    def row(signature: CallSignature, args: Sequence[RowEvaluator]) -> RowEvaluator:
        del signature
        if not of.takes_null:
            return strict_row(kernel, args)

        def evaluate(row: Row, rowtime: int) -> object:
            return kernel(*[arg(row, rowtime) for arg in args])

        return evaluate

    def columnar(signature: CallSignature, args: Sequence[ColumnEvaluator]) -> ColumnEvaluator:
        del signature
        return by_batches(of, function, kernel, args) if is_batch else by_rows(of, kernel, args)

    return ScalarFunction(of.name, resolve, columnar, row, operands, lambda signature: is_batch)


@lru_cache(KEPT_FUNCTIONS)
def _result(of: PythonAggregate) -> ScalarFunction:
    """Return the result of an aggregate in Python, as a function of its state."""

    def resolve(args: Sequence[Type]) -> Type:
        del args
        return of.returns

    return strict(of.name, resolve, lambda signature: aggregator_of(of).result, no_columns)


class Called:
    """A function that is called for one row; it raises nothing but rejections of this row."""

    def __init__(self, of: PythonFunction, function: Callable[..., Any], call: Callable[..., Any]) -> None:
        """Make the call of ``function`` for one row; ``call`` is the function, or calls it with one row."""
        self._name = of.name
        self._call = call
        self._fit = fit_of(of.returns)
        self._file = file_of(function)
        self._stored = _STORED.get(of.returns.kind)
        self._own_frames = 1 if call is function else 2

    def __call__(self, *args: object) -> object:
        """Return the result in row form; None for NULL.

        Raises:
          RejectedRowError: the function raises, or its result is not a value of its type.
        """
        try:
            found = self._call(*args)
        except ResultMisfit as misfit:
            raise self._rejected(args, f"returned {misfit}") from misfit
        except (Exception, SystemExit) as error:
            raise self._failed(args, error) from error
        if found is None or found.__class__ is self._stored:
            return found
        try:
            return self._fit(found)
        except ResultMisfit as misfit:
            raise self._rejected(args, f"returned {shown_with_type(found)}, {misfit}") from misfit

    def _failed(self, args: Sequence[object], error: BaseException) -> RejectedRowError:
        """Return the rejection that names the exception and the line of the function that raised it."""
        return self._rejected(args, raised(error, self._own_frames, self._file))

    def _rejected(self, args: Sequence[object], what: str) -> RejectedRowError:
        return RejectedRowError(Reason.FUNCTION, f"{self._name}({given(args)}) {what}")


def by_rows(
    of: PythonFunction, kernel: Callable[..., object], args: Sequence[ColumnEvaluator]
) -> ColumnEvaluator:
    """Return the evaluator that calls a function for each row."""

    def evaluate(tray: Tray, active: Mask | None) -> EvaluatedPart:
        given = evaluated(of, args, tray, active)
        answers: list[object] = [None] * len(tray)
        failed: Errors = {}
        rows = given.rows.tolist()
        lists = [column.to_list() for column in given.columns]
        for row, values in zip(rows, zip(*lists, strict=True) if lists else repeat(()), strict=False):
            try:
                answers[row] = kernel(*values)
            except RejectedRowError as error:
                failed[row] = RowError(error.reason, error.message)
        column = Column.from_values(of.returns, answers)
        return EvaluatedPart(column.values, column.valid, first_errors(given.errors, failed))

    return evaluate
