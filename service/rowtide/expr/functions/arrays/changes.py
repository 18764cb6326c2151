"""Arrays from arrays: ||, ARRAY_APPEND, ARRAY_REMOVE, ARRAY_DISTINCT, ARRAY_SORT and so on; arrays from and to text.

NULL elements are elements. Beside an array, a NULL array is as if it were not there (PostgreSQL, Array Functions).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from rowtide.expr.evaluation import RowKernel
from rowtide.expr.functions.arrays.shapes import (
    array_type,
    array_with,
    function,
    in_array,
    of_one,
    with_nulls,
)
from rowtide.expr.functions.casts import cast_text
from rowtide.expr.functions.function import CallSignature, ScalarFunction
from rowtide.rows.arrays_as_text import as_element
from rowtide.rows.types import VARCHAR, Kind, Type, array_of

Array = tuple[object, ...]


def joining(types: Sequence[Type]) -> str:
    """Return the function that ``x || y`` calls for two types."""
    first, second = (each.element is not None for each in types)
    if first and second:
        return "ARRAY_CONCAT"
    if first:
        return "ARRAY_APPEND"
    return "ARRAY_PREPEND" if second else "||"


def joined_type(name: str, args: Sequence[Type]) -> Type | None:
    """Return the type of two or more arrays after one another; None if they are not arrays."""
    if len(args) < 2 or not all(arg.element is not None for arg in args):
        return None
    return array_type(name, args, [arg.of_elements for arg in args])


def joined(*arrays: Array | None) -> object:
    """Return the elements of all arrays; NULL if each array is NULL."""
    found = [each for each in arrays if each is not None]
    return sum(found, ()) if found else None


def appended(array: Array | None, value: object) -> object:
    """Return an array with one more element at its end."""
    return (*(array or ()), as_element(value))


def prepended(value: object, array: Array | None) -> object:
    """Return an array with one more element at its beginning."""
    return (as_element(value), *(array or ()))


def _removed(array: Array | None, value: object) -> object:
    value = as_element(value)
    return None if array is None else tuple(each for each in array if each is not value and each != value)


def _replaced(array: Array | None, value: object, other: object) -> object:
    if array is None:
        return None
    value, other = as_element(value), as_element(other)
    return tuple(other if each is value or each == value else each for each in array)


def _replaced_type(args: Sequence[Type]) -> Type | None:
    if len(args) != 3 or args[0].element is None or any(arg.element is not None for arg in args[1:]):
        return None
    return array_type("ARRAY_REPLACE", args, [args[0].of_elements, *args[1:]])


def _distinct(array: Array) -> object:
    return tuple(dict.fromkeys(array))


def _sorted(*, descending: bool) -> Callable[[Sequence[Any]], object]:
    """Return the function that sorts an array; NULLs are greater than all values, and NaN than all but them."""

    def order(value: Any) -> tuple[int, Any]:
        if value is None:
            return 2, 0
        return (1, 0) if value != value else (0, value)  # noqa: PLR0124 - NaN

    return lambda array: tuple(sorted(array, key=order, reverse=descending))


def _best(better: Callable[..., Any]) -> Callable[[Sequence[Any]], object]:
    def best(array: Sequence[Any]) -> object:
        values = [each for each in array if each is not None]
        numbers = [each for each in values if each == each]  # noqa: PLR0124 - NaN
        return better(numbers) if numbers else next(iter(values), None)

    return best


def _of_elements(args: Sequence[Type]) -> Type | None:
    found = of_one(args)
    return None if found is None else found.element


def _text_type(args: Sequence[Type]) -> Type | None:
    fits = len(args) in (2, 3) and args[0].element is not None and all(arg.is_text for arg in args[1:])
    return VARCHAR if fits else None


def _to_text(signature: CallSignature) -> RowKernel:
    element = signature.args[0].of_elements
    write: Callable[[Any], Any] = str if element.is_string else cast_text.row(element, VARCHAR)

    def text(array: Array | None, separator: str | None, for_null: str | None = None) -> object:
        if array is None or separator is None:
            return None
        parts = [for_null if each is None else write(each) for each in array]
        return separator.join(part for part in parts if part is not None)

    return text


def _split_type(args: Sequence[Type]) -> Type | None:
    fits = len(args) in (2, 3) and all(arg.is_text for arg in args)
    return array_of(Type(Kind.VARCHAR, args[0].precision)) if fits else None


def _split(text: str | None, separator: str | None, null: str | None = None) -> object:
    if text is None:
        return None
    if not text:
        return ()
    parts: Sequence[str] = text if separator is None else [text] if not separator else text.split(separator)
    return tuple(None if part == null else part for part in parts)


def _constant(kernel: RowKernel) -> Callable[[CallSignature], RowKernel]:
    return lambda signature: kernel


def _one(
    name: str, kernel: RowKernel, result: Callable[[Sequence[Type]], Type | None] = of_one
) -> ScalarFunction:
    return function(name, "It takes an array.", result, _constant(kernel))


ARRAY_CHANGES: Sequence[ScalarFunction] = (
    with_nulls(
        "ARRAY_CONCAT",
        "It takes arrays whose elements have a common type.",
        lambda args: joined_type("ARRAY_CONCAT", args),
        _constant(joined),
        in_array,
    ),
    with_nulls(
        "ARRAY_APPEND",
        "Write ARRAY_APPEND(array, value).",
        lambda args: array_with("ARRAY_APPEND", args, 0, 1),
        _constant(appended),
        in_array,
    ),
    with_nulls(
        "ARRAY_PREPEND",
        "Write ARRAY_PREPEND(value, array).",
        lambda args: array_with("ARRAY_PREPEND", args, 1, 0),
        _constant(prepended),
        in_array,
    ),
    with_nulls(
        "ARRAY_REMOVE",
        "Write ARRAY_REMOVE(array, value).",
        lambda args: array_with("ARRAY_REMOVE", args, 0, 1),
        _constant(_removed),
        in_array,
    ),
    with_nulls(
        "ARRAY_REPLACE",
        "Write ARRAY_REPLACE(array, value, other).",
        _replaced_type,
        _constant(_replaced),
        in_array,
    ),
    _one("ARRAY_DISTINCT", _distinct),
    _one("ARRAY_REVERSE", lambda array: array[::-1]),
    _one("ARRAY_SORT", _sorted(descending=False)),
    # The name of ARRAY_AGG with ORDER BY x DESC in a plan.
    _one("$SORTED_DOWN", _sorted(descending=True)),
    _one("ARRAY_MIN", _best(min), _of_elements),
    _one("ARRAY_MAX", _best(max), _of_elements),
    with_nulls(
        "ARRAY_TO_STRING", "Write ARRAY_TO_STRING(array, ', ' [, 'text of NULL']).", _text_type, _to_text
    ),
    with_nulls(
        "STRING_TO_ARRAY",
        "Write STRING_TO_ARRAY(text, ',' [, 'text of NULL']).",
        _split_type,
        _constant(_split),
    ),
)
"""The functions that make arrays of arrays and of text."""
