"""Comparisons: values meet in their common type; NULL compares to NULL."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute

from rowtide.expr.functions.declaration import Columnar, Function, Values, as_float, mismatch
from rowtide.expr.functions.typing import comparable
from rowtide.rows.column import Column, Mask
from rowtide.rows.types import BOOLEAN, Kind, Type

DAY_MS = 86_400_000
_ARROW = {
    "=": "equal",
    "<>": "not_equal",
    "<": "less",
    "<=": "less_equal",
    ">": "greater",
    ">=": "greater_equal",
}


def _comparison(name: str, compare: Callable[[Any, Any], Any]) -> Function:
    def resolve(types: tuple[Type, ...]) -> Type:
        if len(types) == 2 and comparable(*types):
            return BOOLEAN
        raise mismatch(name, types, "Both sides must have types that can be compared: write a CAST.")

    def row(args: Sequence[Any], types: tuple[Type, ...], of: Type) -> object:
        left, right = _alike(args, types)
        return bool(compare(left, right))

    return Function(name, resolve, row, _fast(name, compare))


def _alike(args: Sequence[Any], types: tuple[Type, ...]) -> tuple[Any, Any]:
    left, right = args
    a, b = types
    if a.kind is not b.kind:
        if a.is_float or b.is_float:
            return float(left), float(right)
        if a.is_exact and b.is_exact:
            return Decimal(left), Decimal(right)
        if a.kind is Kind.DATE:
            return left * DAY_MS, right
        if b.kind is Kind.DATE:
            return left, right * DAY_MS
    return left, right


def _fast(name: str, compare: Callable[[Any, Any], Any]) -> Columnar:
    function = _ARROW[name]

    def columnar(args: Sequence[Column], of: Type) -> tuple[Values, Mask | None] | None:
        left, right = args
        a, b = left.type, right.type
        if a.is_variable_width:
            found = pa.compute.call_function(function, [left.values, right.values]).fill_null(False)
            return found.to_numpy(zero_copy_only=False), None
        if np.dtype(object) in (a.dtype, b.dtype):
            return None
        if a.is_float or b.is_float:
            return compare(as_float(left), as_float(right)), None
        if a.kind is b.kind and a.scale == b.scale:
            return compare(left.values, right.values), None
        if a.is_integer and b.is_integer:
            return compare(left.values.astype(np.int64), right.values.astype(np.int64)), None
        return None

    return columnar


FUNCTIONS = (
    _comparison("=", operator.eq),
    _comparison("<>", operator.ne),
    _comparison("<", operator.lt),
    _comparison("<=", operator.le),
    _comparison(">", operator.gt),
    _comparison(">=", operator.ge),
)
