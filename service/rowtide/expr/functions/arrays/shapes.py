"""The declaration of functions of arrays, and the types of their arguments.

``function`` declares one that is NULL where an argument is NULL, ``with_nulls`` one whose arguments may be NULL.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import repeat

import numpy as np

from rowtide.errors import RejectedRowError
from rowtide.expr.evaluation import (
    ColumnEvaluator,
    Errors,
    EvaluatedPart,
    RowError,
    RowEvaluator,
    RowKernel,
    first_errors,
)
from rowtide.expr.functions.function import (
    CallSignature,
    Operands,
    ScalarFunction,
    TypeMismatch,
    as_given,
    mismatch,
    strict,
)
from rowtide.expr.functions.shapes import no_columns
from rowtide.expr.functions.type_rules import common_type
from rowtide.rows.arrays import Mask
from rowtide.rows.column import Column
from rowtide.rows.rowop import Row
from rowtide.rows.tray import Tray
from rowtide.rows.types import Type, array_of

NO_NESTING = "A column of type JSON holds nested arrays."

ResultOf = Callable[[Sequence[Type]], Type | None]
"""Returns the type of the result; None: the function does not take these types."""
KernelOf = Callable[[CallSignature], RowKernel]


def function(
    name: str, usage: str, result: ResultOf, row: KernelOf, operands: Operands = as_given
) -> ScalarFunction:
    """Declare a function that is NULL where an argument is; ``usage`` is the hint for other types."""
    return strict(name, _resolved(name, usage, result), row, no_columns, operands)


def with_nulls(
    name: str, usage: str, result: ResultOf, row: KernelOf, operands: Operands = as_given
) -> ScalarFunction:
    """Declare a function whose row kernel gets None for NULL."""

    def one_row(signature: CallSignature, args: Sequence[RowEvaluator]) -> RowEvaluator:
        kernel = row(signature)

        def evaluate(row: Row, rowtime: int) -> object:
            return kernel(*[arg(row, rowtime) for arg in args])

        return evaluate

    def columnar(signature: CallSignature, args: Sequence[ColumnEvaluator]) -> ColumnEvaluator:
        kernel = row(signature)

        def evaluate(tray: Tray, active: Mask | None) -> EvaluatedPart:
            parts = [arg(tray, active) for arg in args]
            errors: Errors | None = None
            for part in parts:
                errors = first_errors(errors, part.errors)
            wanted = np.ones(len(tray), dtype=np.bool_) if active is None else active.copy()
            wanted[list(errors or ())] = False
            columns = [_values(kind, part) for kind, part in zip(signature.args, parts, strict=True)]
            answers: list[object] = []
            failed: Errors = {}
            for at, use in enumerate(wanted.tolist()):
                given = [next(column) for column in columns]
                answer = None
                if use:
                    try:
                        answer = kernel(*given)
                    except RejectedRowError as error:
                        failed[at] = RowError(error.reason, error.message)
                answers.append(answer)
            made = Column.from_values(signature.result, answers)
            return EvaluatedPart(made.values, made.valid, first_errors(errors, failed))

        return evaluate

    return ScalarFunction(
        name, _resolved(name, usage, result), columnar, one_row, operands, lambda signature: False
    )


def _resolved(name: str, usage: str, result: ResultOf) -> Callable[[Sequence[Type]], Type]:
    def resolve(args: Sequence[Type]) -> Type:
        found = result(args)
        if found is None:
            raise mismatch(name, args, hint=usage)
        return found

    return resolve


def _values(kind: Type, part: EvaluatedPart) -> Iterator[object]:
    """Return the values of a part in row form; the one value of a literal for each row."""
    listed = Column(kind, part.values, part.valid).to_list()
    return repeat(listed[0]) if len(listed) == 1 else iter(listed)


def array_type(name: str, args: Sequence[Type], elements: Sequence[Type]) -> Type:
    """Return the type of an array that holds values of all types ``elements``.

    Raises:
      TypeMismatch: they have no common type, or there are no arrays of it.
    """
    try:
        found = common_type(elements)
    except TypeMismatch as error:
        raise mismatch(name, args, hint=error.hint) from error
    if not found.can_be_element:
        raise mismatch(name, args, hint=f"Arrays of {found} do not exist. {NO_NESTING}")
    return array_of(found)


def array_with(name: str, args: Sequence[Type], array: int, value: int) -> Type | None:
    """Return the type of an array that holds the elements of argument ``array``, and argument ``value``."""
    if len(args) != 2 or args[array].element is None or args[value].element is not None:
        return None
    return array_type(name, args, [args[array].of_elements, args[value]])


def in_array(args: Sequence[Type], result: Type) -> Sequence[Type]:
    """Bring arrays to the type of the result, an array, and other values to that of its elements."""
    return [result if arg.element is not None else result.of_elements for arg in args]


def in_common(args: Sequence[Type], result: Type) -> Sequence[Type]:
    """Bring an array and a value, in any order, to the common type of value and elements."""
    del result
    of = common_type([arg if arg.element is None else arg.element for arg in args])
    return [of if arg.element is None else array_of(of) for arg in args]


def of_one(args: Sequence[Type]) -> Type | None:
    """Return the type of the one argument, an array; None if it is not."""
    return args[0] if len(args) == 1 and args[0].element is not None else None
