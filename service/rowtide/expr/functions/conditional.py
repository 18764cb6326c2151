"""CASE and COALESCE: the first value that applies; the others are not evaluated.

``CASE x WHEN a THEN ..`` is ``CASE WHEN x = a THEN ..``; a missing ELSE is NULL.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from rowtide.errors import Reason, RejectedRowError
from rowtide.expr.evaluation import (
    ColumnEvaluator,
    ColumnKernel,
    Errors,
    EvaluatedPart,
    RowEvaluator,
    RowKernel,
    both,
    expanded,
    first_errors,
)
from rowtide.expr.functions import arrow
from rowtide.expr.functions.function import CallSignature, ScalarFunction, TypeMismatch, mismatch, strict
from rowtide.expr.functions.type_rules import common_type
from rowtide.rows.arrays import Mask
from rowtide.rows.rowop import Row
from rowtide.rows.tray import Tray
from rowtide.rows.types import BIGINT, BOOLEAN, Type


def _common(name: str, types: Sequence[Type], args: Sequence[Type]) -> Type:
    try:
        return common_type(types)
    except TypeMismatch as error:
        raise mismatch(name, args, hint=error.hint) from error


def choose(
    choices: Sequence[Mask], parts: Sequence[EvaluatedPart], result: Type, count: int
) -> tuple[Any, Any]:
    """Return values and validity of the first part whose choice holds, else of the last part.

    ``choices`` has one mask less than there are ``parts``.
    """
    if result.is_variable_width:
        return _choose_bytes(choices, parts, count)
    values = parts[-1].values
    valid = parts[-1].valid
    for choice, part in zip(reversed(choices), reversed(parts[:-1]), strict=True):
        values = np.where(choice, part.values, values)
        if valid is not None or part.valid is not None:
            valid = np.where(choice, _valid(part.valid), _valid(valid))
    return values, valid


def _valid(valid: Mask | None) -> Any:
    return True if valid is None else valid


def _choose_bytes(choices: Sequence[Mask], parts: Sequence[EvaluatedPart], count: int) -> tuple[Any, Any]:
    """Choose by one gather out of all parts after one another."""
    if len(parts) == 2 and len(parts[0].values) == len(parts[1].values) == 1:
        either = arrow.chosen_byte(choices[0], parts[0].values, parts[1].values)
        if either is not None:
            return either, None
    together = pa.concat_arrays([part.values for part in parts])
    starts = np.cumsum([0, *(len(part.values) for part in parts)])
    rows = np.arange(count, dtype=np.int32)

    def places(index: int) -> Any:
        start = np.int32(starts[index])
        return start if len(parts[index].values) == 1 else rows + start

    indices = places(len(parts) - 1)
    for index in range(len(choices) - 1, -1, -1):
        indices = np.where(choices[index], places(index), indices)
    if len(together) == len(parts):
        length = arrow.common_length(together)
        if length:
            return arrow.gather_fixed(together, length, indices), None
    values = together.take(pa.array(indices))
    valid = None if not values.null_count else np.asarray(values.is_valid())
    return values, valid


def _case() -> ScalarFunction:
    def resolve(args: Sequence[Type]) -> Type:
        conditions, values = args[:-1:2], [*args[1::2], args[-1]] if args else []
        if len(args) < 3 or len(args) % 2 == 0 or any(kind != BOOLEAN for kind in conditions):
            raise mismatch("CASE", args)
        return _common("CASE", values, args)

    def operands(args: Sequence[Type], result: Type) -> Sequence[Type]:
        last = len(args) - 1
        return [kind if index % 2 == 0 and index != last else result for index, kind in enumerate(args)]

    def row(signature: CallSignature, args: Sequence[RowEvaluator]) -> RowEvaluator:
        del signature
        branches = list(zip(args[:-1:2], args[1::2], strict=True))
        otherwise = args[-1]

        def evaluate(row: Row, rowtime: int) -> object:
            for condition, value in branches:
                if condition(row, rowtime):
                    return value(row, rowtime)
            return otherwise(row, rowtime)

        return evaluate

    def columnar(signature: CallSignature, args: Sequence[ColumnEvaluator]) -> ColumnEvaluator:
        branches = list(zip(args[:-1:2], args[1::2], strict=True))
        otherwise = args[-1]
        result = signature.result

        def evaluate(tray: Tray, active: Mask | None) -> EvaluatedPart:
            errors: Errors | None = None
            choices, parts = [], []
            pending = active
            for condition, value in branches:
                flags, valid, failed = condition(tray, pending)
                errors = first_errors(errors, failed)
                holds = flags if valid is None else flags & valid
                if len(holds) != len(tray):
                    holds = expanded(holds, len(tray))
                part = value(tray, both(pending, holds))
                errors = first_errors(errors, part.errors)
                choices.append(holds)
                parts.append(part)
                pending = both(pending, ~holds)
            part = otherwise(tray, pending)
            parts.append(part)
            values, valid = choose(choices, parts, result, len(tray))
            return EvaluatedPart(values, valid, first_errors(errors, part.errors))

        return evaluate

    return ScalarFunction("CASE", resolve, columnar, row, operands)


def _coalesce() -> ScalarFunction:
    def resolve(args: Sequence[Type]) -> Type:
        if not args:
            raise mismatch("COALESCE", args)
        return _common("COALESCE", args, args)

    def operands(args: Sequence[Type], result: Type) -> Sequence[Type]:
        return [result] * len(args)

    def row(signature: CallSignature, args: Sequence[RowEvaluator]) -> RowEvaluator:
        del signature

        def evaluate(row: Row, rowtime: int) -> object:
            for arg in args:
                value = arg(row, rowtime)
                if value is not None:
                    return value
            return None

        return evaluate

    def columnar(signature: CallSignature, args: Sequence[ColumnEvaluator]) -> ColumnEvaluator:
        result = signature.result

        def evaluate(tray: Tray, active: Mask | None) -> EvaluatedPart:
            part = args[0](tray, active)
            choices, parts = [], [part]
            errors, pending = part.errors, active
            for arg in args[1:]:
                if part.valid is None:
                    break
                choices.append(part.valid)
                pending = both(pending, ~part.valid)
                part = arg(tray, pending)
                parts.append(part)
                errors = first_errors(errors, part.errors)
            if not choices:
                return part
            values, valid = choose(choices, parts, result, len(tray))
            return EvaluatedPart(values, valid, errors)

        return evaluate

    return ScalarFunction("COALESCE", resolve, columnar, row, operands)


def _single() -> ScalarFunction:
    """Declare $SINGLE(n): TRUE; rejects the row where a scalar subquery returned n > 1 rows."""

    def resolve(args: Sequence[Type]) -> Type:
        if tuple(args) != (BIGINT,):
            raise mismatch("$SINGLE", args)
        return BOOLEAN

    def row(signature: CallSignature) -> RowKernel:
        del signature

        def one(count: int) -> bool:
            if count > 1:
                message = f"a scalar sub-query returned {count} rows"
                raise RejectedRowError(Reason.FUNCTION, message)
            return True

        return one

    def columnar(signature: CallSignature) -> ColumnKernel:
        del signature
        return lambda counts: (counts <= 1, counts > 1)

    return strict("$SINGLE", resolve, row, columnar)


def _check() -> ScalarFunction:
    """Declare $CHECK(condition, name): TRUE; rejects the row where the CHECK of that name fails."""

    def resolve(args: Sequence[Type]) -> Type:
        if len(args) != 2 or args[0] != BOOLEAN or not args[1].is_text:
            raise mismatch("$CHECK", args)
        return BOOLEAN

    def row(signature: CallSignature) -> RowKernel:
        del signature

        def one(condition: bool, name: str) -> bool:
            if not condition:
                raise RejectedRowError(Reason.CONSTRAINT, f'"{name}" is not met')
            return True

        return one

    def columnar(signature: CallSignature) -> ColumnKernel:
        del signature
        return lambda condition, name: (condition, ~condition)

    return strict("$CHECK", resolve, row, columnar)


CONDITIONALS: Sequence[ScalarFunction] = (_case(), _coalesce(), _single(), _check())
