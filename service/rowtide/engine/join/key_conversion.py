"""How values of one type meet keys of another in a join that is told to convert its keys.

A conversion is one to one, or none: a number meets the text that is printed
for it ("12", not "012" or "+12"), text meets its bytes in UTF-8. What has no
counterpart meets nothing. So a look-up finds the same pairs from either side,
unlike the conversions of the original (seed 000, lines 9182-9188), where every
text that is no number meets 0.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from decimal import Decimal

from rowtide.engine.errors import ModelError
from rowtide.engine.row_type import Row, RowType
from rowtide.engine.values import FieldType, Value, check_of, type_name
from rowtide.rows.types import Kind, Type

Convert = Callable[[Value], Value]
"""Gives the counterpart of a value that is not NULL, or None if it has none."""

_COUNTED = (Kind.DATE, Kind.TIME, Kind.TIMESTAMP, Kind.INTERVAL_DAY, Kind.INTERVAL_MONTH)
"""Numbers of a unit of their own: they meet plain numbers, but no days meet milliseconds."""


def can_be_equal(mine: FieldType, other: FieldType) -> bool:
    """Tell whether values of both types can be equal as they are: both numbers, texts, bytes or arrays."""
    if isinstance(mine, Type) and isinstance(other, Type) and {mine.kind, other.kind} <= {*_COUNTED}:
        return mine.kind is other.kind
    return _family(mine) == _family(other)


def conversion(mine: FieldType, other: FieldType) -> Convert | None:
    """Give how a value of type ``mine`` becomes a key of type ``other``; None: as it is.

    Raises:
      ModelError: if there is no such conversion without loss.
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
            # Out of the range, or too long, for any key of that type.
            return None

    return convert


def fitting(wanted: FieldType) -> Convert:
    """Give how a key that meets those of type ``wanted`` becomes an equal value of that type, or none."""
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
    """Turns the key fields of rows of one type into what the rows of another hold in theirs.

    Unless ``converts``, keys are looked up as they are, and only ``or_null`` makes them fit.
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
        """Tell whether all keys fit the other type as they are, so that ``or_null`` changes nothing."""
        return not self._fitted

    def exact(self, row: Row) -> Row | None:
        """Give the values of ``row``, converted; None if one has no counterpart."""
        values = list(row)
        for position, convert in self._steps:
            if values[position] is not None:
                values[position] = convert(values[position])
                if values[position] is None:
                    return None
        return tuple(values)

    def or_null(self, row: Row) -> Row:
        """Give the values of ``row``, as values of the other type; NULL for what has no counterpart there."""
        values = list(row)
        for position, convert in self._fitted:
            if values[position] is not None:
                values[position] = convert(values[position])
        return tuple(values)


def _family(kind: FieldType) -> str:
    if not isinstance(kind, Type):
        return "array"
    if kind.is_text:
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
