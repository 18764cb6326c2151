"""Three-valued logic: AND, OR, NOT and the tests IS [NOT] NULL, TRUE, FALSE.

AND evaluates an argument only while none before it is FALSE, OR while none is TRUE; so ``x <> 0 AND y
/ x > 1`` never divides by zero. UNKNOWN is NULL, so IS UNKNOWN is IS NULL.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from rowtide.expr.evaluation import (
    ColumnEvaluator,
    ColumnKernel,
    EvaluatedPart,
    RowEvaluator,
    RowKernel,
    both,
    expanded,
    first_errors,
)
from rowtide.expr.functions.function import CallSignature, ScalarFunction, as_given, mismatch, strict
from rowtide.rows.arrays import Mask
from rowtide.rows.rowop import Row
from rowtide.rows.tray import Tray
from rowtide.rows.types import BOOLEAN, Type


def _junction(name: str, *, decisive: bool) -> ScalarFunction:
    """Declare AND or OR: ``decisive`` is the value that settles the answer."""

    def resolve(args: Sequence[Type]) -> Type:
        if len(args) < 2 or any(arg != BOOLEAN for arg in args):
            raise mismatch(name, args)
        return BOOLEAN

    def row(signature: CallSignature, args: Sequence[RowEvaluator]) -> RowEvaluator:
        del signature

        def evaluate(row: Row, rowtime: int) -> object:
            answer: object = not decisive
            for arg in args:
                value = arg(row, rowtime)
                if value is None:
                    answer = None
                elif value == decisive:
                    return decisive
            return answer

        return evaluate

    def columnar(signature: CallSignature, args: Sequence[ColumnEvaluator]) -> ColumnEvaluator:
        del signature

        def evaluate(tray: Tray, active: Mask | None) -> EvaluatedPart:
            values, valid, errors = args[0](tray, active)
            for arg in args[1:]:
                # A NULL does not decide the result either.
                still_open = values if not decisive else ~values
                if valid is not None:
                    still_open = still_open | ~valid
                if len(still_open) != len(tray):
                    still_open = expanded(still_open, len(tray))
                part = arg(tray, both(active, still_open))
                errors = first_errors(errors, part.errors)
                values, valid = joined(values, valid, part.values, part.valid)
            return EvaluatedPart(values, valid, errors)

        def joined(first: Any, valid1: Mask | None, second: Any, valid2: Mask | None) -> tuple[Any, Any]:
            valid = both(valid1, valid2)
            if valid is None:
                return (first | second if decisive else first & second), None
            settled1 = first if decisive else ~first
            settled2 = second if decisive else ~second
            settled = _known(settled1, valid1) | _known(settled2, valid2)
            return (settled if decisive else ~settled), settled | valid

        return evaluate

    return ScalarFunction(name, resolve, columnar, row, as_given)


def _known(flags: Mask, valid: Mask | None) -> Mask:
    return flags if valid is None else flags & valid


def _not() -> ScalarFunction:
    def resolve(args: Sequence[Type]) -> Type:
        if tuple(args) != (BOOLEAN,):
            raise mismatch("NOT", args)
        return BOOLEAN

    def row(signature: CallSignature) -> RowKernel:
        del signature
        return lambda value: not value

    def columnar(signature: CallSignature) -> ColumnKernel:
        del signature
        return lambda values: (~values, None)

    return strict("NOT", resolve, row, columnar)


def _test(name: str, of_value: bool | None, *, negated: bool) -> ScalarFunction:
    """Declare IS [NOT] TRUE, FALSE or (``of_value`` None) NULL, which is never NULL."""

    def resolve(args: Sequence[Type]) -> Type:
        if len(args) != 1 or (of_value is not None and args[0] != BOOLEAN):
            raise mismatch(name, args)
        return BOOLEAN

    def row(signature: CallSignature, args: Sequence[RowEvaluator]) -> RowEvaluator:
        del signature
        (arg,) = args

        def evaluate(row: Row, rowtime: int) -> object:
            value = arg(row, rowtime)
            return (value is None if of_value is None else value is of_value) != negated

        return evaluate

    def columnar(signature: CallSignature, args: Sequence[ColumnEvaluator]) -> ColumnEvaluator:
        del signature
        (arg,) = args

        def evaluate(tray: Tray, active: Mask | None) -> EvaluatedPart:
            values, valid, errors = arg(tray, active)
            if of_value is None:
                found = np.zeros(len(tray), dtype=np.bool_) if valid is None else ~valid
            else:
                found = values if of_value else ~values
                if valid is not None:
                    found = found & valid
            return EvaluatedPart(~found if negated else found, None, errors)

        return evaluate

    return ScalarFunction(name, resolve, columnar, row, as_given)


def _tests() -> Sequence[ScalarFunction]:
    return [
        _test(f"IS {'NOT ' if negated else ''}{word}", of_value, negated=negated)
        for word, of_value in (("NULL", None), ("TRUE", True), ("FALSE", False))
        for negated in (False, True)
    ]


LOGIC: Sequence[ScalarFunction] = (
    _junction("AND", decisive=False),
    _junction("OR", decisive=True),
    _not(),
    *_tests(),
)
