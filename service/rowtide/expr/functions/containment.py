"""``x @> y``: whether a value of JSON, or an array, has another one in it, as in PostgreSQL.

* An object has the members of another one. A JSON array has each element of another one in one of its own, and at the
  top also a value that is neither object nor array. Numbers are compared by value: 1 is 1.0.
* An array has each element of another one. NULL is in no array.
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal, InvalidOperation
from typing import Any

import msgspec

from rowtide.expr.evaluation import RowKernel
from rowtide.expr.functions.arrays.shapes import array_type, function
from rowtide.expr.functions.function import CallSignature, ScalarFunction
from rowtide.expr.functions.rejections import undefined
from rowtide.rows.types import BOOLEAN, JSON, Type

CONTAINS = "@>"
CONTAINED = "<@"
"""SQL's word for ``CONTAINS`` with the operands in the other order; no function of its own."""
_decode = msgspec.json.Decoder(float_hook=Decimal).decode


def _are_arrays(args: Sequence[Type]) -> bool:
    return len(args) == 2 and all(arg.element is not None for arg in args)


def _truth(args: Sequence[Type]) -> Type | None:
    if _are_arrays(args):
        array_type(CONTAINS, args, [arg.of_elements for arg in args])
        return BOOLEAN
    return BOOLEAN if len(args) == 2 and all(arg == JSON or arg.is_text for arg in args) else None


def _in_common(args: Sequence[Type], result: Type) -> Sequence[Type]:
    del result
    if not _are_arrays(args):
        return args
    return [array_type(CONTAINS, args, [arg.of_elements for arg in args])] * 2


def _kernel(signature: CallSignature) -> RowKernel:
    return _array_has if _are_arrays(signature.args) else _json_has


def _array_has(whole: Sequence[object], part: Sequence[object]) -> bool:
    return all(each is not None and each in whole for each in part)


def _json_has(whole: str, part: str) -> bool:
    args = (whole, part)
    try:
        has, wanted = _decode(whole.encode()), _decode(part.encode())
        if isinstance(has, list) and _is_one_value(wanted):
            return any(_is_one_value(each) and _same(each, wanted) for each in has)
        return _has(has, wanted)
    except RecursionError:
        raise undefined(CONTAINS, args, "JSON is nested too deeply") from None
    except InvalidOperation:
        raise undefined(CONTAINS, args, "a number has too many digits") from None
    except (msgspec.DecodeError, UnicodeError):
        raise undefined(CONTAINS, args, "the text is not JSON") from None


def _has(whole: Any, part: Any) -> bool:
    match part:
        case dict():
            return isinstance(whole, dict) and all(
                name in whole and _has(whole[name], each) for name, each in part.items()
            )
        case list():
            return isinstance(whole, list) and all(any(_has(own, each) for own in whole) for each in part)
        case _:
            return _is_one_value(whole) and _same(whole, part)


def _is_one_value(value: Any) -> bool:
    return not isinstance(value, dict | list)


def _same(first: Any, second: Any) -> bool:
    # To Python, true is 1.
    return isinstance(first, bool) is isinstance(second, bool) and bool(first == second)


_USAGE = "Write doc @> '{\"a\": 1}' for JSON, or JSON as text, and tags @> ARRAY['a', 'b'] for arrays."
CONTAINMENT: Sequence[ScalarFunction] = (function(CONTAINS, _USAGE, _truth, _kernel, _in_common),)
