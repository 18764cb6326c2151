"""Types that CAST and TRY_CAST convert.

TRY_CAST is NULL where CAST rejects the row. The module of each family defines the conversions.

| from, to  | number   | BOOLEAN  | text | binary | DATE | TIME | TIMESTAMP | INTERVAL   |
|-----------|----------|----------|------|--------|------|------|-----------|------------|
| number    | yes      | integers | yes  |        |      |      | integers  | integers   |
| BOOLEAN   | integers | yes      | yes  |        |      |      |           |            |
| text      | yes      | yes      | yes  | yes    | yes  | yes  | yes       | yes        |
| binary    |          |          | yes  | yes    |      |      |           |            |
| DATE      |          |          | yes  |        | yes  |      | yes       |            |
| TIME      |          |          | yes  |        |      | yes  |           |            |
| TIMESTAMP | integers |          | yes  |        | yes  | yes  | yes       |            |
| INTERVAL  | integers |          | yes  |        |      |      |           | same kind  |

TIMESTAMP WITH TIME ZONE is cast like TIMESTAMP, and to and from it.
UUID and JSON are cast to and from text, arrays to and from text, JSON and arrays whose elements can be cast.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from rowtide.errors import Reason, rejection_of
from rowtide.expr.evaluation import ColumnKernel, RowKernel
from rowtide.expr.functions.casts import cast_arrays, cast_numbers, cast_text, cast_times
from rowtide.expr.functions.function import CallSignature, ScalarFunction, TypeMismatch, mismatch, strict
from rowtide.rows.types import BOOLEAN, Type


def cast_allowed(source: Type, target: Type) -> bool:
    """Return whether ``CAST(x AS target)`` exists for an ``x`` of type ``source``."""
    return source == target or _family(source, target) is not None


_Makers = tuple[Callable[[Type, Type], RowKernel], Callable[[Type, Type], ColumnKernel | None]]


def _family(source: Type, target: Type) -> _Makers | None:
    """Return the makers of the row and column functions; None if the cast does not exist."""
    if cast_arrays.is_of_arrays(source, target):
        return _of_arrays(source, target)
    if source.is_numeric and target.is_numeric:
        return cast_numbers.row, cast_numbers.columns
    if (source == BOOLEAN and target.is_integer) or (target == BOOLEAN and source.is_integer):
        return cast_numbers.row, cast_numbers.columns
    if source.is_timestamp and target.is_timestamp:
        return _same_row, _same_columns
    if cast_text.allowed(source, target):
        return cast_text.row, cast_text.columns
    if cast_times.allowed(source, target):
        return cast_times.row, cast_times.columns
    return None


def _of_arrays(source: Type, target: Type) -> _Makers | None:
    if source.element is not None and target.element is not None:
        allowed = cast_allowed(source.element, target.element)
    else:
        allowed = cast_arrays.is_text(source) or cast_arrays.is_text(target)
    return (_arrays_by_row, cast_arrays.columns) if allowed else None


def _arrays_by_row(source: Type, target: Type) -> RowKernel:
    def of_elements(element: Type, other: Type) -> RowKernel:
        makers = _family(element, other)
        if makers is None:
            raise TypeMismatch(f"{source} cannot be cast to {target}")
        return makers[0](element, other)

    return cast_arrays.row(source, target, of_elements)


def _resolve(args: Sequence[Type]) -> Type:
    """Take source and target."""
    if len(args) != 2:
        raise mismatch("CAST", args)
    source, target = args
    if not cast_allowed(source, target):
        raise TypeMismatch(f"{source} cannot be cast to {target}")
    return target


def _makers(signature: CallSignature) -> _Makers:
    source, target = signature.args[0], signature.result
    makers = (_same_row, _same_columns) if source == target else _family(source, target)
    if makers is None:
        raise TypeMismatch(f"{source} cannot be cast to {target}")
    return makers


def _same_row(source: Type, target: Type) -> RowKernel:
    del source, target
    return lambda value: value


def _same_columns(source: Type, target: Type) -> ColumnKernel:
    del source, target
    return lambda values: (values, None)


def _row(signature: CallSignature) -> RowKernel:
    return _makers(signature)[0](signature.args[0], signature.result)


def _columns(signature: CallSignature) -> ColumnKernel | None:
    return _makers(signature)[1](signature.args[0], signature.result)


def _try_row(signature: CallSignature) -> RowKernel:
    kernel = _row(signature)

    def cast_or_null(value: Any) -> object:
        try:
            return kernel(value)
        except Exception as error:  # noqa: BLE001 - as ``compile_row``: it is a rejection, whatever it is
            rejection_of(error, Reason.CAST)
            return None

    return cast_or_null


CASTS: Sequence[ScalarFunction] = (
    strict("CAST", _resolve, _row, _columns),
    strict("TRY_CAST", _resolve, _try_row, _columns),
)
