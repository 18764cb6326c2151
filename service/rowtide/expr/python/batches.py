"""Functions in Python that are called with the values of many rows: as NumPy arrays or as Arrow arrays.

A row's result is what the function returns for that row alone. So a batch for which the function raises, or
returns something else than a value of its type for each row, is halved until only the failing rows are left.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rowtide.errors import RejectedRowError
from rowtide.expr.evaluation import ColumnEvaluator, Errors, EvaluatedPart, RowError, first_errors
from rowtide.expr.python.arguments import evaluated
from rowtide.expr.python.results import ResultMisfit, fit_of
from rowtide.expr.tree import PythonFunction
from rowtide.rows.arrays import Mask
from rowtide.rows.column import Column, Indices, arrow_lists, arrow_type
from rowtide.rows.tray import Tray
from rowtide.rows.types import INTEGER_BYTES, Kind, Type

Function = Callable[..., Any]


class BatchForm(Protocol):
    """What the arguments and the result of a function are."""

    def array(self, column: Column) -> Any:
        """Return an argument. Whatever the function does to it, the column stays as it is."""

    def column(self, found: Any, count: int) -> Column:
        """Return a result as a column, which shares no memory with it.

        Raises:
          ResultMisfit: it is not ``count`` values of the type.
        """

    def values(self, found: Any, count: int) -> list[Any]:
        """Return the values of a result, None for NULL.

        Raises:
          ResultMisfit: it is not ``count`` values.
        """


class _NumpyForm:
    """NumPy arrays; masked ones if the function is called with NULL. Texts, decimals and arrays are objects."""

    def __init__(self, of: PythonFunction) -> None:
        self._takes_null = of.takes_null
        self._returns = of.returns
        self._fit = fit_of(of.returns)

    def array(self, column: Column) -> Any:
        if column.type.is_variable_width or column.type.kind is Kind.DECIMAL:
            array = np.empty(len(column), dtype=object)
            for at, value in enumerate(column.to_list()):
                array[at] = value
        else:
            array = column.values.copy()
        if not self._takes_null:
            return array
        return np.ma.MaskedArray(array, mask=~column.valid_mask())

    def column(self, found: Any, count: int) -> Column:
        mask, array = self._checked(found, count)
        if _is_stored_as(array, self._returns) and not _has_misfit(array, mask, self._returns):
            return Column(self._returns, array.astype(self._returns.dtype), None if mask is None else ~mask)
        return _fitted(self._returns, self._fit, self.values(found, count))

    def values(self, found: Any, count: int) -> list[Any]:
        mask, array = self._checked(found, count)
        values: list[Any] = array.tolist()
        return (
            values
            if mask is None
            else [None if out else each for out, each in zip(mask, values, strict=True)]
        )

    def _checked(self, found: Any, count: int) -> tuple[Mask | None, Any]:
        if not isinstance(found, np.ndarray):
            raise ResultMisfit(f"a value of type {type(found).__name__}, which is not a NumPy array")
        if found.shape != (count,):
            raise ResultMisfit(f"an array of shape {found.shape}, which is not one value for each row")
        if not isinstance(found, np.ma.MaskedArray):
            return None, found
        mask = np.ma.getmaskarray(found).copy()
        return (mask if mask.any() else None), found.data


class _ArrowForm:
    """Arrow arrays, with NULLs only if the function is called with NULL. Arrays are lists."""

    def __init__(self, of: PythonFunction) -> None:
        self._returns = of.returns
        self._fit = fit_of(of.returns)

    def array(self, column: Column) -> Any:
        if column.type.kind is Kind.ARRAY:
            lists: list[Any] = column.to_list()
            return arrow_lists(column.type.of_elements, lists)
        return column.to_arrow()

    def column(self, found: Any, count: int) -> Column:
        array = self._checked(found, count)
        kind = self._returns
        if array.type == arrow_type(kind) and not kind.is_variable_width and _is_plain(kind):
            column = Column.from_arrow(kind, array)
            return Column(kind, column.values.copy(), column.valid)
        if array.type == pa.string() and kind.is_text and _is_short(array, kind):
            return Column.from_arrow(kind, array)
        return _fitted(kind, self._fit, array.to_pylist())

    def values(self, found: Any, count: int) -> list[Any]:
        values: list[Any] = self._checked(found, count).to_pylist()
        return values

    def _checked(self, found: Any, count: int) -> Any:
        array = found.combine_chunks() if isinstance(found, pa.ChunkedArray) else found
        if not isinstance(array, pa.Array):
            raise ResultMisfit(f"a value of type {type(found).__name__}, which is not an Arrow array")
        if len(array) != count:
            raise ResultMisfit(f"an array of {len(array)} values, which is not one value for each row")
        return array


BATCH_FORMS: Mapping[str, Callable[[PythonFunction], BatchForm]] = {"numpy": _NumpyForm, "arrow": _ArrowForm}
"""The forms of functions that are called with many rows, by the names of the option."""


def by_batches(
    of: PythonFunction, function: Function, kernel: Callable[..., object], args: Sequence[ColumnEvaluator]
) -> ColumnEvaluator:
    """Return the evaluator that calls a function for all rows together; ``kernel`` calls it for one row."""
    form = BATCH_FORMS[of.form](of)

    def called(columns: Sequence[Column], count: int) -> Column | None:
        """Return the results; None if the function fails for a row."""
        try:
            return form.column(function(*map(form.array, columns)), count)
        except (Exception, SystemExit):  # noqa: BLE001 - a single row says why it failed
            return None

    def evaluate(tray: Tray, active: Mask | None) -> EvaluatedPart:
        given = evaluated(of, args, tray, active)
        failed: Errors = {}
        done: list[tuple[int, Column]] = []
        pending = [(0, len(given.rows))] if len(given.rows) else []
        while pending:
            start, stop = pending.pop()
            columns = [column.slice(start, stop) for column in given.columns]
            if stop - start == 1:
                answer: object = None
                try:
                    answer = kernel(*[column.to_list()[0] for column in columns])
                except RejectedRowError as error:
                    failed[int(given.rows[start])] = RowError(error.reason, error.message)
                done.append((start, Column.from_values(of.returns, [answer])))
            elif (found := called(columns, stop - start)) is not None:
                done.append((start, found))
            else:
                middle = (start + stop) // 2
                pending += [(middle, stop), (start, middle)]
        column = _scattered(of.returns, [each for _, each in sorted(done, key=_start)], given.rows, len(tray))
        return EvaluatedPart(column.values, column.valid, first_errors(given.errors, failed))

    return evaluate


def one_row(of: PythonFunction, function: Function) -> Function:
    """Return the function of one row that calls ``function`` with arrays of one value."""
    form = BATCH_FORMS[of.form](of)

    def call(*args: object) -> object:
        columns = [Column.from_values(kind, [arg]) for kind, arg in zip(of.takes, args, strict=True)]
        with np.errstate(all="ignore"):
            return form.values(function(*map(form.array, columns)), 1)[0]

    return call


def _start(done: tuple[int, Column]) -> int:
    return done[0]


def _scattered(kind: Type, parts: Sequence[Column], rows: Indices, count: int) -> Column:
    """Return a column of ``count`` rows with the values of ``parts`` at ``rows``, NULL elsewhere."""
    if not parts:
        return Column.nulls(kind, count)
    column = Column.concat(parts)
    if len(column) == count:
        return column
    valid = np.zeros(count, dtype=np.bool_)
    valid[rows] = column.valid_mask()
    if kind.is_variable_width:
        places = np.zeros(count, dtype=np.int64)
        places[rows] = np.arange(len(rows))
        return Column(kind, column.values.take(pa.array(places, mask=~valid)), valid)
    values = np.zeros(count, dtype=kind.dtype)
    values[rows] = column.values
    return Column(kind, values, valid)


def _fitted(kind: Type, fit: Callable[[Any], object], values: Sequence[Any]) -> Column:
    return Column.from_values(kind, [None if each is None else fit(each) for each in values])


def _is_stored_as(array: Any, kind: Type) -> bool:
    """Return whether an array can be stored without a look at each value, but for the range of integers."""
    if kind.kind is Kind.DOUBLE:
        return array.dtype.kind in "iuf" and array.dtype.itemsize <= 8
    if kind.kind is Kind.BOOLEAN:
        return bool(array.dtype == np.bool_)
    if kind.kind is Kind.REAL:
        return bool(array.dtype == np.float32)
    return kind.kind in INTEGER_BYTES and array.dtype.kind in "iu"


def _has_misfit(array: Any, mask: Mask | None, kind: Type) -> bool:
    if not kind.is_integer or array.dtype == kind.dtype:
        return False
    held = array if mask is None else array[~mask]
    limit = 1 << (8 * INTEGER_BYTES[kind.kind] - 1)
    return bool(len(held)) and (int(held.min()) < -limit or int(held.max()) >= limit)


def _is_plain(kind: Type) -> bool:
    """Return whether every value of the Arrow type is one of the SQL type."""
    return kind.is_integer or kind.is_float or kind.kind is Kind.BOOLEAN


def _is_short(array: Any, kind: Type) -> bool:
    if kind.precision is None:
        return True
    longest = pc.max(pc.utf8_length(array)).as_py()
    return longest is None or longest <= kind.precision
