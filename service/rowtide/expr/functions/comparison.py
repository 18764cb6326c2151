"""Comparisons: = <> < <= > >=, IS [NOT] DISTINCT FROM, NULLIF, GREATEST and LEAST.

Exact numbers are compared exactly, at any scales. If one of them is a float, they are compared as
DOUBLE (REAL with REAL as REAL). Text is compared by code points, blanks at the end included; FALSE is
less than TRUE. Text is not converted to or from other types. NaN is neither equal to, less
nor greater than any number, itself included.

The planner lowers ``x BETWEEN a AND b`` to ``x >= a AND x <= b`` and ``x IN (a,
b)`` to ``x = a OR x = b`` (NOT around them for the negated forms): NULLs then
come out as the standard wants.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow.compute as pc

from rowtide.expr.evaluation import (
    ColumnEvaluator,
    ColumnKernel,
    EvaluatedPart,
    RowEvaluator,
    RowKernel,
    expanded,
    first_errors,
    nulls_where_invalid,
)
from rowtide.expr.functions import arrow
from rowtide.expr.functions.function import (
    CallSignature,
    ScalarFunction,
    TypeMismatch,
    mismatch,
    strict,
    to_result,
)
from rowtide.expr.functions.numbers import exact
from rowtide.expr.functions.type_rules import common_type
from rowtide.rows.arrays import Mask
from rowtide.rows.rowop import Row
from rowtide.rows.tray import Tray
from rowtide.rows.types import BOOLEAN, UUID, Kind, Type

ROW_COMPARISONS: dict[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq,
    "<>": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
"""The comparisons, by their names, of two values in row form."""
_NUMPY: dict[str, Any] = {
    "=": np.equal,
    "<>": np.not_equal,
    "<": np.less,
    "<=": np.less_equal,
    ">": np.greater,
    ">=": np.greater_equal,
}
_ARROW: dict[str, Any] = {
    "=": pc.equal,
    "<>": pc.not_equal,
    "<": pc.less,
    "<=": pc.less_equal,
    ">": pc.greater,
    ">=": pc.greater_equal,
}


NO_ORDER_OF_JSON = (
    "JSON has no comparison: compare a value in it, x ->> 'name', or its text, CAST(x AS VARCHAR)."
)


NO_ORDER_OF_ARRAYS = "Arrays have no order, but = and <>. a[1] is an element, CARDINALITY(a) counts them."
_OF_ORDER = ("<", "<=", ">", ">=")


def _comparable(name: str) -> Callable[[Sequence[Type]], Type]:
    """Resolve two arguments that have a common type."""

    def resolve(args: Sequence[Type]) -> Type:
        if len(args) != 2:
            raise mismatch(name, args)
        if any(arg.kind is Kind.JSON for arg in args):
            raise mismatch(name, args, hint=NO_ORDER_OF_JSON)
        if any(arg.kind is Kind.ARRAY for arg in args) and name in _OF_ORDER:
            raise mismatch(name, args, hint=NO_ORDER_OF_ARRAYS)
        try:
            return common_type(args)
        except TypeMismatch as error:
            raise mismatch(name, args, hint=error.hint) from error

    return resolve


def _truth(name: str) -> Callable[[Sequence[Type]], Type]:
    resolve = _comparable(name)

    def truth(args: Sequence[Type]) -> Type:
        resolve(args)
        return BOOLEAN

    return truth


def compared_as(args: Sequence[Type], result: Type) -> Sequence[Type]:
    """Return the common type as the type of each argument; exact numbers and text keep their types."""
    del result
    if any(arg.kind is Kind.UUID for arg in args):
        return [UUID] * len(args)
    if any(arg.kind is Kind.ARRAY for arg in args):
        return [common_type(args)] * len(args)
    if all(arg.is_exact for arg in args) or any(arg.is_variable_width for arg in args):
        return args
    return [common_type(args)] * len(args)


def comparing(name: str, signature: CallSignature) -> ColumnKernel:
    """Return the column function of comparison ``name``."""
    first_type, second_type = signature.args
    if first_type.is_variable_width:
        function = _ARROW[name]

        def compare_bytes(first: Any, second: Any) -> tuple[Any, Mask | None]:
            found = function(arrow.operand(signature, 0, first), arrow.operand(signature, 1, second))
            return arrow.flags(found), None

        return compare_bytes
    ufunc = _NUMPY[name]
    if first_type.is_exact and first_type != second_type:

        def compare_exact(first: Any, second: Any) -> tuple[Any, Mask | None]:
            return _booleans(ufunc(*exact.aligned(first, first_type, second, second_type))), None

        return compare_exact
    return lambda first, second: (_booleans(ufunc(first, second)), None)


def _booleans(values: Any) -> Any:
    """Return the result of a comparison as a mask, also for arrays of Python objects."""
    return values.astype(np.bool_, copy=False)


def _comparison(name: str) -> ScalarFunction:
    def row(signature: CallSignature) -> RowKernel:
        del signature
        return ROW_COMPARISONS[name]

    return strict(name, _truth(name), row, lambda signature: comparing(name, signature), operands=compared_as)


def _distinct(name: str, *, negated: bool) -> ScalarFunction:
    """Declare IS [NOT] DISTINCT FROM, which is never NULL."""

    def row(signature: CallSignature, args: Sequence[RowEvaluator]) -> RowEvaluator:
        del signature
        left, right = args

        def evaluate(row: Row, rowtime: int) -> object:
            first, second = left(row, rowtime), right(row, rowtime)
            if first is None or second is None:
                return ((first is None) != (second is None)) != negated
            return (first != second) != negated

        return evaluate

    def columnar(signature: CallSignature, args: Sequence[ColumnEvaluator]) -> ColumnEvaluator:
        differs = comparing("<>", signature)
        left, right = args

        def evaluate(tray: Tray, active: Mask | None) -> EvaluatedPart:
            first, second = left(tray, active), right(tray, active)
            values = differs(first.values, second.values)[0]
            if first.valid is not None or second.valid is not None:
                here1 = _mask(first.valid, len(tray))
                here2 = _mask(second.valid, len(tray))
                values = np.where(here1 & here2, values, here1 != here2)
            return EvaluatedPart(
                ~values if negated else values, None, first_errors(first.errors, second.errors)
            )

        return evaluate

    return ScalarFunction(name, _truth(name), columnar, row, compared_as)


def _mask(valid: Mask | None, count: int) -> Mask:
    return np.ones(count, dtype=np.bool_) if valid is None else valid


def _nullif() -> ScalarFunction:
    """Declare NULLIF(a, b): NULL where a = b, else a."""

    def resolve(args: Sequence[Type]) -> Type:
        common = _comparable("NULLIF")(args)
        return args[0] if compared_as(args, common) is args else common

    def row(signature: CallSignature, args: Sequence[RowEvaluator]) -> RowEvaluator:
        del signature
        left, right = args

        def evaluate(row: Row, rowtime: int) -> object:
            first, second = left(row, rowtime), right(row, rowtime)
            return None if first is not None and first == second else first

        return evaluate

    def columnar(signature: CallSignature, args: Sequence[ColumnEvaluator]) -> ColumnEvaluator:
        equal = comparing("=", signature)
        is_variable_width = signature.result.is_variable_width
        left, right = args

        def evaluate(tray: Tray, active: Mask | None) -> EvaluatedPart:
            first, second = left(tray, active), right(tray, active)
            differs = ~equal(first.values, second.values)[0]
            if second.valid is not None:
                differs |= ~second.valid
            valid = differs if first.valid is None else differs & first.valid
            values = first.values
            if len(values) != len(valid):
                values = expanded(values, len(valid))
            if is_variable_width:
                values = nulls_where_invalid(values, valid)
            return EvaluatedPart(values, valid, first_errors(first.errors, second.errors))

        return evaluate

    return ScalarFunction("NULLIF", resolve, columnar, row, compared_as)


def _extreme(name: str, sign: str) -> ScalarFunction:
    """Declare GREATEST or LEAST: NULL if an argument is NULL, the first of those that are equal."""

    def resolve(args: Sequence[Type]) -> Type:
        if not args:
            raise mismatch(name, args)
        if any(arg.kind is Kind.JSON for arg in args):
            raise mismatch(name, args, hint=NO_ORDER_OF_JSON)
        if any(arg.kind is Kind.ARRAY for arg in args):
            raise mismatch(name, args, hint=NO_ORDER_OF_ARRAYS)
        try:
            return common_type(args)
        except TypeMismatch as error:
            raise mismatch(name, args, hint=error.hint) from error

    def row(signature: CallSignature) -> RowKernel:
        del signature
        better = ROW_COMPARISONS[sign]

        def extreme(*args: Any) -> object:
            best = args[0]
            for arg in args[1:]:
                if better(arg, best):
                    best = arg
            return best

        return extreme

    def columnar(signature: CallSignature) -> ColumnKernel | None:
        if signature.result.is_variable_width:
            return None
        better = _NUMPY[sign]

        def extreme(*args: Any) -> tuple[Any, Mask | None]:
            best = args[0]
            for arg in args[1:]:
                best = np.where(_booleans(better(arg, best)), arg, best)
            return best, None

        return extreme

    return strict(name, resolve, row, columnar, to_result)


COMPARISONS: Sequence[ScalarFunction] = (
    *(_comparison(name) for name in ROW_COMPARISONS),
    _distinct("IS DISTINCT FROM", negated=False),
    _distinct("IS NOT DISTINCT FROM", negated=True),
    _nullif(),
    _extreme("GREATEST", ">"),
    _extreme("LEAST", "<"),
)
