"""Calls of functions in Python. Whatever a function raises or returns, only its row is rejected.

A function in Python is known by its declaration in the tree, not by its name, so that two pipelines in one
process can each have one of the same name.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from decimal import Decimal
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
from rowtide.expr.functions.function import CallSignature
from rowtide.expr.functions.rejections import shown
from rowtide.expr.python.arguments import evaluated
from rowtide.expr.python.batches import BATCH_FORMS, by_batches, one_row
from rowtide.expr.python.loading import load_function
from rowtide.expr.python.results import ResultMisfit, fit_of
from rowtide.expr.tree import Call, PythonCall, PythonFunction
from rowtide.rows.arrays import Mask
from rowtide.rows.column import Column
from rowtide.rows.rowop import Row
from rowtide.rows.tray import Tray
from rowtide.rows.types import Kind, Type

KEPT_FUNCTIONS = 256
"""Functions that are kept loaded: more than a pipeline has."""
_SHOWN_TEXT = 200
"""Longer texts of exceptions are cut: an error row is not a second copy of the row."""
_STORED = {Kind.DOUBLE: float, Kind.BOOLEAN: bool}
"""Classes of results that are stored as they are."""
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


class Called:
    """A function that is called for one row; it raises nothing but rejections of this row."""

    def __init__(self, of: PythonFunction, function: Callable[..., Any], call: Callable[..., Any]) -> None:
        """Make the call of ``function`` for one row; ``call`` is the function, or calls it with one row."""
        self._name = of.name
        self._call = call
        self._fit = fit_of(of.returns)
        code = getattr(inspect.unwrap(function), "__code__", None)
        self._file: str | None = None if code is None else code.co_filename
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
            raise self._rejected(args, f"returned {_shown(found)}, {misfit}") from misfit

    def _failed(self, args: Sequence[object], error: BaseException) -> RejectedRowError:
        """Return the rejection that names the exception and the line of the function that raised it."""
        text = _text_of(error)
        line = _line_of(error, self._own_frames, self._file)
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


def _line_of(error: BaseException, own_frames: int, file: str | None) -> str | None:
    """Return the last line of ``file`` that an exception passed through; of any file if it did not.

    The first ``own_frames`` are those of the caller.
    """
    found: tuple[str, int] | None = None
    step = error.__traceback__
    for _ in range(own_frames):
        step = step and step.tb_next
    while step is not None:
        place = (step.tb_frame.f_code.co_filename, step.tb_lineno)
        if found is None or place[0] == file or found[0] != file:
            found = place
        step = step.tb_next
    return None if found is None else f"{found[0].rpartition('/')[2]}, line {found[1]}"
