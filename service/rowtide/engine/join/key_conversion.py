"""How a join with ``convert_keys`` compares keys of different types.

Conversions are one to one: a number is equal to its decimal text ("12", not
"012" or "+12"), text to its bytes in UTF-8. A value that cannot be converted has
no match. So a look-up finds the same pairs from either side, unlike in the
original, where every text that is not a number is equal to 0; see
docs/decisions/0007-join-keys-are-converted-one-to-one-or-not-at-all.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from decimal import Decimal

from rowtide.engine.errors import ModelError
from rowtide.engine.row_type import Row, RowType
from rowtide.engine.values import FieldType, Value, check_of, type_name
from rowtide.rows.types import Kind, Type

Convert = Callable[[Value], Value]
"""Returns the counterpart of a value that is not NULL, or None if it has none."""

_COUNTED = (Kind.DATE, Kind.TIME, Kind.TIMESTAMP, Kind.INSTANT, Kind.INTERVAL_DAY, Kind.INTERVAL_MONTH)
"""Numbers with a unit: they are comparable with plain numbers, but not with those of another unit."""


def can_be_equal(mine: FieldType, other: FieldType) -> bool:
    """Return whether values of both types can be equal unconverted: both numbers, texts, bytes or arrays."""
    if isinstance(mine, Type) and isinstance(other, Type) and {mine.kind, other.kind} <= {*_COUNTED}:
        return mine.kind is other.kind
    return _family(mine) == _family(other)


def conversion(mine: FieldType, other: FieldType) -> Convert | None:
    """Return the function from a value of type ``mine`` to a key of type ``other``; None if none is needed.

    Raises:
      ModelError: if values cannot be converted without loss.
    """
    if can_be_equal(mine, other):
        return None
    given, wanted = _family(mine), _family(other)
    is_exact = all(_family(kind) in ("text", "bytes") or _is_integer(kind) for kind in (mine, other))
    if not is_exact:
        raise ModelError(f"{type_name(mine)} cannot be converted to {type_name(other)} without loss")
    steps = _STEPS[given, wanted]
    check = check_of(other)

    def convert(value: Value) -> Value:
        for step in steps:
            value = step(value)
            if value is None:
                return None
        try:
            return check(value)
        except ValueError:
            # Out of range, or too long, for every key of that type.
            return None

    return convert


def fitting(wanted: FieldType) -> Convert:
    """Return the function from a key to an equal value of type ``wanted``, or None if there is none."""
    check = check_of(wanted)
    kind = wanted.kind if isinstance(wanted, Type) else None
    make: Convert = int if _is_integer(wanted) else _NUMBERS.get(kind, _itself)

    def fit(value: Value) -> Value:
        try:
            made = check(make(value))
        except (TypeError, ValueError, ArithmeticError):
            return None
        return made if made == value else None

    return fit


class KeyConversion:
    """Converts the key fields of rows of one type to those of rows of another.

    Without ``converts``, keys are looked up unconverted, and only ``or_null`` changes them.
    """

    def __init__(
        self, source: RowType, target: RowType, pairs: Iterable[tuple[str, str]], *, converts: bool
    ) -> None:
        self._steps: list[tuple[int, Convert]] = []
        self._fitted: list[tuple[int, Convert]] = []
        for old, new in pairs:
            position = source.index(old)
            given, wanted = source.types[position], target.types[target.index(new)]
            step = conversion(given, wanted) if converts else None
            if step is not None:
                self._steps.append((position, step))
            if given != wanted:
                self._fitted.append((position, step or fitting(wanted)))

    def __bool__(self) -> bool:
        return bool(self._steps)

    @property
    def is_same_type(self) -> bool:
        """Whether all keys have the types of the other side, so that ``or_null`` changes nothing."""
        return not self._fitted

    def exact(self, row: Row) -> Row | None:
        """Return the values of ``row``, converted; None if a key cannot be converted."""
        values = list(row)
        for position, convert in self._steps:
            if values[position] is not None:
                values[position] = convert(values[position])
                if values[position] is None:
                    return None
        return tuple(values)

    def or_null(self, row: Row) -> Row:
        """Return the values of ``row``, converted to the types of the other side; NULL if impossible."""
        values = list(row)
        for position, convert in self._fitted:
            if values[position] is not None:
                values[position] = convert(values[position])
        return tuple(values)


def _family(kind: FieldType) -> str:
    if not isinstance(kind, Type):
        return "array"
    if kind.is_string:
        return "text"
    if kind.is_binary:
        return "bytes"
    return "number"


def _is_integer(kind: FieldType) -> bool:
    return isinstance(kind, Type) and kind.is_integer


def _number(text: Value) -> Value:
    # int() alone also reads "+1", " 1", "1_000" and the digits of other scripts.
    is_plain = text.isascii() and text.removeprefix("-").isdigit()
    return number if is_plain and str(number := int(text)) == text else None


def _itself(value: Value) -> Value:
    return value


_NUMBERS: dict[Kind | None, Convert] = {Kind.DOUBLE: float, Kind.DECIMAL: Decimal}


def _encoded(text: Value) -> Value:
    try:
        return text.encode()
    except UnicodeEncodeError:
        return None


def _decoded(value: Value) -> Value:
    try:
        return value.decode()
    except UnicodeDecodeError:
        return None


_STEPS: dict[tuple[str, str], list[Convert]] = {
    ("number", "text"): [str],
    ("number", "bytes"): [str, _encoded],
    ("text", "number"): [_number],
    ("text", "bytes"): [_encoded],
    ("bytes", "text"): [_decoded],
    ("bytes", "number"): [_decoded, _number],
}
