"""The declaration of a scalar function.

It is declared once and says four things: which type it has for given argument
types, which types its arguments are brought to first, how it computes columns
and how it computes one row. Most are ``strict``: NULL where an argument is NULL.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from rowtide.errors import StatementError
from rowtide.expr.evaluation import (
    ColumnEvaluator,
    ColumnKernel,
    RowEvaluator,
    RowKernel,
    strict_columns,
    strict_row,
)
from rowtide.rows.types import Kind, Type


class TypeMismatch(StatementError):
    """A function does not take these types; the code that catches it adds ``place``."""


@dataclass(frozen=True, slots=True)
class CallSignature:
    """One use of a function: types of the arguments as its kernels get them, and of the result.

    ``constants`` has the value, in row form, of each argument whose part is one literal that is not
    NULL; None for the others. At least one argument is not constant.
    """

    name: str
    args: tuple[Type, ...]
    result: Type
    constants: tuple[object, ...]


Resolve = Callable[[Sequence[Type]], Type]
"""Returns the type of the result; raises TypeMismatch."""
Operands = Callable[[Sequence[Type], Type], Sequence[Type]]
"""Returns the types that arguments of these types are cast to before the function gets them."""


@dataclass(frozen=True, slots=True)
class ScalarFunction:
    """A scalar function or operator.

    ``has_kernel`` returns whether it works on whole columns of these types, or row by row.
    """

    name: str
    resolve: Resolve
    columnar: Callable[[CallSignature, Sequence[ColumnEvaluator]], ColumnEvaluator]
    row: Callable[[CallSignature, Sequence[RowEvaluator]], RowEvaluator]
    operands: Operands
    has_kernel: Callable[[CallSignature], bool] = lambda signature: True


def as_given(args: Sequence[Type], result: Type) -> Sequence[Type]:
    """Return the types of the arguments unchanged."""
    del result
    return args


def to_result(args: Sequence[Type], result: Type) -> Sequence[Type]:
    """Bring all arguments to the type of the result."""
    return [result] * len(args)


def strict(
    name: str,
    resolve: Resolve,
    row: Callable[[CallSignature], RowKernel],
    columnar: Callable[[CallSignature], ColumnKernel | None],
    operands: Operands = as_given,
) -> ScalarFunction:
    """Declare a function that is NULL where an argument is NULL; ``columnar`` may return no kernel."""

    def columns(signature: CallSignature, args: Sequence[ColumnEvaluator]) -> ColumnEvaluator:
        return strict_columns(signature.args, signature.result, row(signature), columnar(signature), args)

    def one_row(signature: CallSignature, args: Sequence[RowEvaluator]) -> RowEvaluator:
        return strict_row(row(signature), args)

    def has_kernel(signature: CallSignature) -> bool:
        return columnar(signature) is not None

    return ScalarFunction(name, resolve, columns, one_row, operands, has_kernel)


_WORDED_OPERATORS = frozenset({"NOT", "AND", "OR", "LIKE", "ILIKE"})


def mismatch(name: str, args: Sequence[Type], *, hint: str | None = None) -> TypeMismatch:
    """Make the error that ``name`` does not take ``args``."""
    shown = "-" if name == "NEGATE" else name
    sort = "function" if shown.isidentifier() and shown not in _WORDED_OPERATORS else "operator"
    given = ", ".join(str(arg) for arg in args)
    if hint is None and shown in "+-*/%" and any(arg.is_text for arg in args):
        has_time = any(arg.kind in (Kind.DATE, Kind.TIME, Kind.TIMESTAMP, Kind.INSTANT) for arg in args)
        hint = "INTERVAL '1 day' is a length of time." if has_time else "CAST(x AS INTEGER) converts text."
        if shown == "+" and all(arg.is_text for arg in args):
            hint = "x || y joins texts."
    return TypeMismatch(f'{sort} "{shown}" does not take ({given})', hint=hint)
