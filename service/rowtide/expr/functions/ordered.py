"""$ORDERED(order, text, key, ..): a text, or JSON, with the keys by which an aggregate sorts it.

``order`` has a letter for each key: ``a`` ascends and ``d`` descends; NULLs are last, or first with a capital letter.
The result is a pair as that of $BY, NULL if the text is. The planner writes this call, SQL has no name for it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from rowtide.expr.evaluation import RowKernel
from rowtide.expr.functions.arrays.shapes import with_nulls
from rowtide.expr.functions.function import CallSignature, ScalarFunction
from rowtide.expr.functions.pairs import PAIR, as_pair, ordered_bytes
from rowtide.rows.types import Kind, Type

ORDERED = "$ORDERED"
_NULL_FIRST, _VALUE, _NAN, _NULL_LAST = b"\0", b"\1", b"\2", b"\3"
_TURNED = bytes(range(255, -1, -1))


def letter(*, descending: bool, nulls_first: bool) -> str:
    """Return the letter of a key."""
    found = "d" if descending else "a"
    return found.upper() if nulls_first else found


def _part(kind: Type) -> Callable[[str, object], bytes]:
    """Return the function that makes bytes of a key, which are ordered also with other bytes behind them."""
    is_long = kind.is_variable_width

    def part(how: str, value: object) -> bytes:
        if value is None:
            return _NULL_FIRST if how.isupper() else _NULL_LAST
        plain = ordered_bytes(kind, value)
        if not plain:
            return _NAN
        if is_long:
            plain = plain.replace(b"\0", b"\0\xff") + b"\0\0"
        return _VALUE + (plain.translate(_TURNED) if how in "dD" else plain)

    return part


def _type(args: Sequence[Type]) -> Type | None:
    fits = len(args) > 2 and args[0].is_text and (args[1].is_text or args[1].kind is Kind.JSON)
    has_order = all(each.kind not in (Kind.ARRAY, Kind.JSON) for each in args[2:])
    return PAIR if fits and has_order else None


def _kernel(signature: CallSignature) -> RowKernel:
    parts = [_part(kind) for kind in signature.args[2:]]

    def make(order: str | None, text: str | None, *keys: object) -> object:
        if order is None or text is None:
            return None
        letters = order.ljust(len(parts), "a")
        key = b"".join(part(how, value) for part, how, value in zip(parts, letters, keys, strict=False))
        return as_pair(key, text.encode())

    return make


ORDERED_TEXTS: Sequence[ScalarFunction] = (
    with_nulls(ORDERED, "Keys are values that have an order.", _type, _kernel),
)
