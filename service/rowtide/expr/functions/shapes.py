"""Functions of texts and integers, declared by the shape of their arguments.

A shape has a letter for each argument: ``t`` a text, ``i`` an integer, ``b`` a text or a binary string;
those after ``?`` are optional. ``j`` is JSON, or a text that is JSON.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from rowtide.expr.evaluation import ColumnKernel, RowKernel
from rowtide.expr.functions.function import CallSignature, Resolve, ScalarFunction, mismatch, strict
from rowtide.rows.types import Kind, Type

_SORTS: dict[str, Callable[[Type], bool]] = {
    "t": lambda given: given.is_text,
    "j": lambda given: given.is_text or given.kind is Kind.JSON,
    "i": lambda given: given.is_integer,
    "b": lambda given: given.is_text or given.is_binary,
}
_WORDS = {"t": "text", "j": "JSON or text", "i": "integer", "b": "text or binary"}


def no_columns(signature: CallSignature) -> ColumnKernel | None:
    """Return that a function is computed row by row."""
    del signature
    return None


def declared(
    name: str,
    shape: str,
    result: Resolve,
    row: RowKernel,
    columns: Callable[[CallSignature], ColumnKernel | None] = no_columns,
    shown: str | None = None,
) -> ScalarFunction:
    """Declare a function that is NULL where an argument is NULL; its errors call it ``shown``."""
    wanted, _, optional = shape.partition("?")
    whole = wanted + optional
    usage = ", ".join(_WORDS[sort] for sort in wanted) + "".join(f" [, {_WORDS[sort]}]" for sort in optional)

    def resolve(args: Sequence[Type]) -> Type:
        fits = len(wanted) <= len(args) <= len(whole)
        if not fits or not all(_SORTS[sort](arg) for sort, arg in zip(whole, args, strict=False)):
            raise mismatch(shown or name, args, hint=f"It takes ({usage}).")
        return result(args)

    return strict(name, resolve, lambda signature: row, columns)


def always(given: Type) -> Resolve:
    """Return this type whatever the arguments are."""
    return lambda args: given


any_length = always(Type(Kind.VARCHAR))


def as_long_as_first(args: Sequence[Type]) -> Type:
    """Return a text that is at most as long as the first argument may be."""
    return Type(Kind.VARCHAR, args[0].precision)
