"""Calls of functions in Python, row by row. Whatever a function raises or returns, only its row is rejected.

A function in Python is known by its declaration in the tree, not by its name, so that two pipelines in one
process can each have one of the same name.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from decimal import Decimal
from functools import lru_cache
from typing import Any

import numpy as np

from rowtide.errors import Reason, RejectedRowError
from rowtide.expr.evaluation import (
    ColumnEvaluator,
    Errors,
    EvaluatedPart,
    RowError,
    RowEvaluator,
    both,
    first_errors,
    strict_row,
)
from rowtide.expr.functions import ScalarFunction, find
from rowtide.expr.functions.function import CallSignature
from rowtide.expr.functions.rejections import shown
from rowtide.expr.python.loading import load_function
from rowtide.expr.python.results import ResultMisfit, fit_of
from rowtide.expr.tree import Call, PythonCall, PythonFunction
from rowtide.rows.arrays import Mask
from rowtide.rows.column import Column, Indices
from rowtide.rows.rowop import Row
from rowtide.rows.tray import Tray
from rowtide.rows.types import Type

KEPT_FUNCTIONS = 256
"""Functions that are kept loaded: more than a pipeline has."""
_SHOWN_TEXT = 200
"""Longer texts of exceptions are cut: an error row is not a second copy of the row."""
_PLAIN = (bool, int, float, str, bytes, Decimal)
"""Types whose values messages show: their text is the same in every process."""


def function_of(call: Call) -> ScalarFunction:
    """Return what a call computes: a built-in function, or one in Python."""
    return _scalar(call.of) if isinstance(call, PythonCall) else find(call.function)


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

    def row(signature: CallSignature, args: Sequence[RowEvaluator]) -> RowEvaluator:
        del signature
        kernel = Called(of.name, function, of.returns)
        if not of.takes_null:
            return strict_row(kernel, args)

        def evaluate(row: Row, rowtime: int) -> object:
            return kernel(*[arg(row, rowtime) for arg in args])

        return evaluate

    def columnar(signature: CallSignature, args: Sequence[ColumnEvaluator]) -> ColumnEvaluator:
        del signature
        return by_rows(of, Called(of.name, function, of.returns), args)

    return ScalarFunction(of.name, resolve, columnar, row, operands, lambda signature: False)


class Called:
    """A function that is called for one row; it raises nothing but rejections of this row."""

    def __init__(self, name: str, function: Callable[..., Any], returns: Type) -> None:
        self._name = name
        self._function = function
        self._fit = fit_of(returns)
        code = getattr(inspect.unwrap(function), "__code__", None)
        self._file: str | None = None if code is None else code.co_filename

    def __call__(self, *args: object) -> object:
        """Return the result in row form; None for NULL.

        Raises:
          RejectedRowError: the function raises, or its result is not a value of its type.
        """
        try:
            found = self._function(*args)
        except MemoryError:
            raise
        except (Exception, SystemExit) as error:
            raise self._failed(args, error) from error
        if found is None:
            return None
        try:
            return self._fit(found)
        except ResultMisfit as misfit:
            raise self._rejected(args, f"returned {_shown(found)}, {misfit}") from misfit

    def _failed(self, args: Sequence[object], error: BaseException) -> RejectedRowError:
        """Return the rejection that names the exception and the line of the function that raised it."""
        text = _text_of(error)
        line = _line_of(error, self._file)
        said = f"{type(error).__name__}: {text}" if text else type(error).__name__
        return self._rejected(args, f"raised {said}{'' if line is None else f' ({line})'}")

    def _rejected(self, args: Sequence[object], what: str) -> RejectedRowError:
        given = ", ".join("NULL" if arg is None else shown(arg) for arg in args)
        return RejectedRowError(Reason.FUNCTION, f"{self._name}({given}) {what}")


def by_rows(
    of: PythonFunction, kernel: Callable[..., object], args: Sequence[ColumnEvaluator]
) -> ColumnEvaluator:
    """Return the evaluator that calls a function for each row."""

    def evaluate(tray: Tray, active: Mask | None) -> EvaluatedPart:
        given = evaluated(of, args, tray, active)
        answers: list[object] = [None] * len(tray)
        failed: Errors = {}
        lists = [column.to_list() for column in given.columns]
        for at, row in enumerate(given.rows.tolist()):
            try:
                answers[row] = kernel(*[values[at] for values in lists])
            except RejectedRowError as error:
                failed[row] = RowError(error.reason, error.message)
        column = Column.from_values(of.returns, answers)
        return EvaluatedPart(column.values, column.valid, first_errors(given.errors, failed))

    return evaluate


class Given:
    """The rows for which a function is called, and its arguments there: a column for each argument."""

    def __init__(self, rows: Indices, columns: Sequence[Column], errors: Errors | None) -> None:
        self.rows = rows
        self.columns = columns
        self.errors = errors


def evaluated(of: PythonFunction, args: Sequence[ColumnEvaluator], tray: Tray, active: Mask | None) -> Given:
    """Evaluate the arguments of a function for the rows for which it is called."""
    wanted, errors = active, None
    parts = [arg(tray, active) for arg in args]
    for part in parts:
        errors = first_errors(errors, part.errors)
        if not of.takes_null:
            wanted = both(wanted, part.valid)
    if errors:
        wanted = np.ones(len(tray), dtype=np.bool_) if wanted is None else wanted.copy()
        wanted[list(errors)] = False
    rows = np.arange(len(tray)) if wanted is None else np.flatnonzero(wanted)
    columns = []
    for kind, part in zip(of.takes, parts, strict=True):
        if len(part.values) == 1 and len(tray) != 1:
            columns.append(Column(kind, part.values, part.valid).take(np.zeros(len(rows), dtype=np.int64)))
        else:
            columns.append(Column(kind, part.values, part.valid).take(rows))
    return Given(rows, columns, errors)


def _text_of(error: BaseException) -> str:
    try:
        text = " ".join(str(error).split())
    except Exception:  # noqa: BLE001 - an exception of a user can fail to say what it is
        return ""
    return text if len(text) <= _SHOWN_TEXT else f"{text[:_SHOWN_TEXT]}..."


def _shown(value: object) -> str:
    """Return a plain value with its type, and only the type of any other value."""
    kind = type(value)
    try:
        return f"{shown(value)} ({kind.__name__})" if kind in _PLAIN else f"a value of type {kind.__name__}"
    except ValueError:
        # Python refuses to write out an int of thousands of digits.
        return f"a value of type {kind.__name__}"


def _line_of(error: BaseException, file: str | None) -> str | None:
    """Return the last line of ``file`` that an exception passed through; of any file if it did not."""
    found: tuple[str, int] | None = None
    step = error.__traceback__ and error.__traceback__.tb_next
    while step is not None:
        place = (step.tb_frame.f_code.co_filename, step.tb_lineno)
        if found is None or place[0] == file or found[0] != file:
            found = place
        step = step.tb_next
    return None if found is None else f"{found[0].rpartition('/')[2]}, line {found[1]}"
