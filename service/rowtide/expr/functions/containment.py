"""``x @> y`` and ``y <@ x``: whether a value of JSON, or an array, has another one in it, as in PostgreSQL.

* An object has the members of another one. A JSON array has each element of another one in one of its own, and at the
  top also a value that is neither object nor array. Numbers are compared by value: 1 is 1.0.
* An array has each element of another one. NULL is in no array, and NaN is equal to NaN.

Scalars are looked up in a set. Objects and arrays within an array are compared with one another, at most
``MOST_STEPS`` times: both operands may come from one message.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from decimal import Decimal, InvalidOperation
from typing import Any

import msgspec

from rowtide.expr.evaluation import RowKernel
from rowtide.expr.functions.arrays.shapes import array_type, function
from rowtide.expr.functions.function import CallSignature, ScalarFunction
from rowtide.expr.functions.rejections import undefined
from rowtide.rows.arrays_as_text import as_element
from rowtide.rows.types import BOOLEAN, JSON, Type

CONTAINED = "<@"
"""The operator that has its operands in the other order."""
MOST_STEPS = 250_000
"""The most comparisons for one row beyond the length of both texts: they take some tenths of a second."""
_decode = msgspec.json.Decoder(float_hook=Decimal).decode


class _UndefinedError(Exception):
    """The values cannot be compared; the message says why."""


def _containment(name: str, usage: str) -> ScalarFunction:
    def truth(args: Sequence[Type]) -> Type | None:
        if _are_arrays(args):
            array_type(name, args, [arg.of_elements for arg in args])
            return BOOLEAN
        return BOOLEAN if len(args) == 2 and all(arg == JSON or arg.is_text for arg in args) else None

    def in_common(args: Sequence[Type], result: Type) -> Sequence[Type]:
        del result
        if not _are_arrays(args):
            return args
        return [array_type(name, args, [arg.of_elements for arg in args])] * 2

    def kernel(signature: CallSignature) -> RowKernel:
        has: Callable[[Any, Any], bool] = _array_has if _are_arrays(signature.args) else _json_has

        def contains(*args: Any) -> bool:
            whole, part = args[::-1] if name == CONTAINED else args
            try:
                return has(whole, part)
            except _UndefinedError as error:
                raise undefined(name, args, str(error)) from None

        return contains

    return function(name, usage, truth, kernel, in_common)


def _are_arrays(args: Sequence[Type]) -> bool:
    return len(args) == 2 and all(arg.element is not None for arg in args)


def _array_has(whole: Sequence[object], part: Sequence[object]) -> bool:
    present = set(map(as_element, whole))
    return all(each is not None and as_element(each) in present for each in part)


def _json_has(whole: str, part: str) -> bool:
    try:
        has, wanted = _decode(whole.encode()), _decode(part.encode())
        if isinstance(has, list) and _is_one_value(wanted):
            return any(_is_one_value(each) and _key(each) == _key(wanted) for each in has)
        return _Comparison(MOST_STEPS + len(whole) + len(part)).has(has, wanted)
    except RecursionError:
        raise _UndefinedError("JSON is nested too deeply") from None
    except InvalidOperation:
        raise _UndefinedError("a number has too many digits") from None
    except (msgspec.DecodeError, UnicodeError):
        raise _UndefinedError("the text is not JSON") from None


class _Comparison:
    """The comparison of two values, in a number of steps."""

    def __init__(self, steps: int) -> None:
        self._left = steps

    def has(self, whole: Any, part: Any) -> bool:
        self._spend(1)
        match part:
            case dict():
                return isinstance(whole, dict) and all(
                    name in whole and self.has(whole[name], each) for name, each in part.items()
                )
            case list():
                return isinstance(whole, list) and self._has_each(whole, part)
            case _:
                return _is_one_value(whole) and _key(whole) == _key(part)

    def _has_each(self, whole: Sequence[Any], part: Sequence[Any]) -> bool:
        self._spend(len(whole) + len(part))
        single = {_key(own) for own in whole if _is_one_value(own)}
        nested = [own for own in whole if not _is_one_value(own)]
        return all(
            _key(each) in single if _is_one_value(each) else any(self.has(own, each) for own in nested)
            for each in part
        )

    def _spend(self, steps: int) -> None:
        self._left -= steps
        if self._left < 0:
            raise _UndefinedError(f"it takes more than {MOST_STEPS:,} comparisons")


def _is_one_value(value: Any) -> bool:
    return not isinstance(value, dict | list)


def _key(value: Any) -> tuple[bool, Any]:
    """Return what is equal for equal scalars. To Python, true is 1."""
    return isinstance(value, bool), value


_USAGE = "Write doc @> '{\"a\": 1}' for JSON, or JSON as text, and tags @> ARRAY['a', 'b'] for arrays."
_USAGE_CONTAINED = "Write '{\"a\": 1}' <@ doc for JSON, or JSON as text, and ARRAY['a'] <@ tags for arrays."
CONTAINMENT: Sequence[ScalarFunction] = (
    _containment("@>", _USAGE),
    _containment(CONTAINED, _USAGE_CONTAINED),
)
