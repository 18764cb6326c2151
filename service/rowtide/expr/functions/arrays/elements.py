"""The elements of arrays: ARRAY[..], a[1], a[1:2], CARDINALITY, and questions about what an array holds.

An element beyond the ends is NULL, as in PostgreSQL. ``x = ANY (a)`` is the OR of the comparisons with all elements,
``x = ALL (a)`` the AND: NULL elements count as the standard counts NULLs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from rowtide.expr.evaluation import RowKernel
from rowtide.expr.functions.arrays.shapes import (
    array_type,
    array_with,
    function,
    in_array,
    in_common,
    of_one,
    with_nulls,
)
from rowtide.expr.functions.comparison import ROW_COMPARISONS
from rowtide.expr.functions.function import CallSignature, ScalarFunction
from rowtide.rows.arrays_as_text import as_element
from rowtide.rows.types import BOOLEAN, INTEGER, Type

MAKER = "ARRAY[]"
SUBSCRIPT = "[]"
SLICE = "[:]"


def quantified_name(comparison: str, *, every: bool) -> str:
    """Return the name of the function of ``x = ANY (a)`` or ``x = ALL (a)``."""
    return f"{comparison} {'ALL' if every else 'ANY'}"


def _made(args: Sequence[Type]) -> Type | None:
    return array_type(MAKER, args, args) if args else None


def _make(signature: CallSignature) -> RowKernel:
    del signature
    return lambda *values: tuple(map(as_element, values))


def _element(args: Sequence[Type]) -> Type | None:
    fits = len(args) == 2 and args[0].element is not None and args[1].is_integer
    return args[0].element if fits else None


def _at(array: Sequence[object], number: int) -> object:
    return array[number - 1] if 1 <= number <= len(array) else None


def _slice_type(args: Sequence[Type]) -> Type | None:
    fits = len(args) == 3 and args[0].element is not None and all(arg.is_integer for arg in args[1:])
    return args[0] if fits else None


def _sliced(array: Sequence[object], first: int, last: int) -> object:
    return array[max(first, 1) - 1 : max(last, 0)]


def _count_type(args: Sequence[Type]) -> Type | None:
    return None if of_one(args) is None else INTEGER


def _quantified(comparison: str, *, every: bool) -> ScalarFunction:
    name = quantified_name(comparison, every=every)
    compare = ROW_COMPARISONS[comparison]

    def truth(args: Sequence[Type]) -> Type | None:
        return None if array_with(name, args, 1, 0) is None else BOOLEAN

    def kernel(signature: CallSignature) -> RowKernel:
        del signature

        def test(value: object, array: Sequence[object] | None) -> object:
            if array is None:
                return None
            if not array:
                return every
            if value is None:
                return None
            unknown = False
            for each in array:
                if each is None:
                    unknown = True
                elif compare(value, each) != every:
                    return not every
            return None if unknown else every

        return test

    usage = f"Write x {name} (a): a is an array of values that can be compared with x."
    return with_nulls(name, usage, truth, kernel, in_common)


def _contains(signature: CallSignature) -> RowKernel:
    del signature
    return lambda array, value: None if array is None else as_element(value) in array


def _position(signature: CallSignature) -> RowKernel:
    del signature

    def find(array: Sequence[object] | None, value: object) -> object:
        value = as_element(value)
        return None if array is None or value not in array else array.index(value) + 1

    return find


def _finder(name: str, result: Type, kernel: Callable[[CallSignature], RowKernel]) -> ScalarFunction:
    def found(args: Sequence[Type]) -> Type | None:
        return None if array_with(name, args, 0, 1) is None else result

    return with_nulls(name, f"Write {name}(array, value).", found, kernel, in_common)


ELEMENTS: Sequence[ScalarFunction] = (
    with_nulls(MAKER, "Write CAST(ARRAY[] AS INTEGER ARRAY) for an empty array.", _made, _make, in_array),
    function(SUBSCRIPT, "Write a[1] for the first element of an array a.", _element, lambda signature: _at),
    function(
        SLICE,
        "Write a[1:2] for the first two elements of an array a.",
        _slice_type,
        lambda signature: _sliced,
    ),
    function("CARDINALITY", "It takes an array.", _count_type, lambda signature: len),
    *(_quantified(comparison, every=every) for comparison in ROW_COMPARISONS for every in (False, True)),
    _finder("ARRAY_CONTAINS", BOOLEAN, _contains),
    _finder("ARRAY_POSITION", INTEGER, _position),
)
"""The functions of elements."""
