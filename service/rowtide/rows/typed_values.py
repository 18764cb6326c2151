"""The state of a user's code as bytes, and back: typed values in MessagePack, never code.

Only values of the types below can be stored and read. A pickle would let any user who can write to the
checkpoint's database run code in the service. A value keeps its type, and a float its bits.

None, bool, int of 64 bits, float, str and bytes are native types of MessagePack. Every other value is an
array of a tag and its content. The rows of a table, a list of tuples of one length, are stored by column.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import IntEnum
from typing import Any

import msgspec
import numpy as np

from rowtide.rows.rowop import Opcode

STORABLE = "numbers, text, bytes, dates and times, tuples, lists, dicts, sets, NumPy arrays of numbers"
_NATIVE = frozenset((type(None), bool, float, bytes))
_MOST = 1 << 63


class StateError(ValueError):
    """A value that cannot be stored, or bytes that are not a stored state."""


class _Tag(IntEnum):
    """What an array contains; the numbers are part of the format."""

    LIST = 0
    TUPLE = 1
    NATIVE_LIST = 2
    NATIVE_TUPLE = 3
    ROWS = 4
    DICT = 5
    SET = 6
    FROZENSET = 7
    INT = 8
    TEXT = 9
    DECIMAL = 10
    DATE = 11
    DATETIME = 12
    TIME = 13
    TIMEDELTA = 14
    OPCODE = 15
    ARRAY = 17
    SCALAR = 18
    NATIVE_DICT = 19


def dump_state(value: object) -> bytes:
    """Return ``value`` as bytes.

    Raises:
      StateError: it contains a value of another type, or is nested too deeply.
    """
    try:
        return msgspec.msgpack.encode(_encoded(value))
    except RecursionError as error:
        raise StateError("it is nested too deeply, or contains itself") from error
    except ValueError as error:
        raise StateError(str(error)) from error


def load_state(content: bytes) -> Any:
    """Return the value that ``dump_state`` stored.

    Raises:
      StateError: ``content`` is not a stored state.
    """
    try:
        return _decoded(msgspec.msgpack.decode(content))
    except StateError:
        raise
    except Exception as error:
        # Bytes that are not a stored state fail in any constructor.
        raise StateError(f"it is not a stored state: {type(error).__name__}: {error}") from error


def store_also(kind: type[tuple[list[Any], ...]], tag: int) -> None:
    """Store a named tuple of lists, too. ``tag`` is part of the format.

    Raises:
      ValueError: another type has this tag.
    """
    if tag in _DECODERS:
        raise ValueError(f"tag {tag} is taken")
    _ENCODERS[kind] = lambda value: [tag, *map(_list, value)]
    _DECODERS[tag] = lambda *parts: kind(*map(_decoded, parts))


def _encoded(value: Any) -> Any:
    kind = type(value)
    if kind in _NATIVE:
        return value
    encode = _ENCODERS.get(kind)
    if encode is None:
        name = (
            kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
        )
        raise StateError(f"it contains a value of type {name}")
    return encode(value)


def _int(value: int) -> Any:
    return value if -_MOST <= value < _MOST else [_Tag.INT, hex(value)]


def _str(value: str) -> Any:
    return value if _is_unicode(value) else [_Tag.TEXT, value.encode("utf-8", "surrogatepass")]


def _is_unicode(value: str) -> bool:
    return value.isascii() or not any("\ud800" <= character <= "\udfff" for character in value)


def _are_own(items: Collection[Any]) -> bool:
    """Return whether MessagePack can store all items natively; the check runs in C loops."""
    kinds = set(map(type, items))
    if not kinds <= _OWN:
        return False
    if int in kinds:
        numbers = items if kinds == _INTS else [each for each in items if type(each) is int]
        if min(numbers) < -_MOST or max(numbers) >= _MOST:
            return False
    if str in kinds:
        texts = items if kinds == _TEXTS else [each for each in items if type(each) is str]
        return all(map(str.isascii, texts)) or all(map(_is_unicode, texts))
    return True


def _list(value: Collection[Any]) -> Any:
    if _are_own(value):
        return [_Tag.NATIVE_LIST, value]
    if set(map(type, value)) == _TUPLES and len(set(map(len, value))) == 1 and next(iter(value)):
        return [_Tag.ROWS, [_list(column) for column in zip(*value, strict=True)]]
    return [_Tag.LIST, [_encoded(each) for each in value]]


def _tuple(value: tuple[Any, ...]) -> Any:
    if _are_own(value):
        return [_Tag.NATIVE_TUPLE, value]
    return [_Tag.TUPLE, [_encoded(each) for each in value]]


def _dict(value: dict[Any, Any]) -> Any:
    if _are_own(value.keys()) and _are_own(value.values()):
        return [_Tag.NATIVE_DICT, value]
    return [_Tag.DICT, _list(list(value)), _list(list(value.values()))]


def _array(value: np.ndarray[Any, Any]) -> Any:
    if value.dtype.kind not in "biufmM":
        raise StateError(f"it contains a NumPy array of {value.dtype}")
    return [_Tag.ARRAY, value.dtype.str, list(value.shape), value.tobytes()]


def _from_array(kind: str, shape: list[int], content: bytes) -> np.ndarray[Any, Any]:
    return np.frombuffer(content, _number(kind)).reshape(shape).copy()


def _from_scalar(kind: str, content: bytes) -> Any:
    return np.frombuffer(content, _number(kind))[0]


def _number(kind: str) -> np.dtype[Any]:
    found = np.dtype(kind)
    if found.kind not in "biufmM":
        raise StateError(f"it is not a stored state: a NumPy array of {kind}")
    return found


_OWN = _NATIVE | {int, str}
_INTS, _TEXTS, _TUPLES = {int}, {str}, {tuple}
_ENCODERS: dict[type, Callable[[Any], Any]] = {
    int: _int,
    str: _str,
    list: _list,
    tuple: _tuple,
    dict: _dict,
    set: lambda value: [_Tag.SET, _list(list(value))],
    frozenset: lambda value: [_Tag.FROZENSET, _list(list(value))],
    Decimal: lambda value: [_Tag.DECIMAL, str(value)],
    date: lambda value: [_Tag.DATE, value.isoformat()],
    datetime: lambda value: [_Tag.DATETIME, value.isoformat(), value.fold],
    time: lambda value: [_Tag.TIME, value.isoformat(), value.fold],
    timedelta: lambda value: [_Tag.TIMEDELTA, value.days, value.seconds, value.microseconds],
    Opcode: lambda value: [_Tag.OPCODE, int(value)],
    np.ndarray: _array,
    **dict.fromkeys(
        (
            np.dtype(kind).type
            for kind in ["?", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8", "M8", "m8"]
        ),
        lambda value: [_Tag.SCALAR, value.dtype.str, value.tobytes()],
    ),
}


def _decoded(value: Any) -> Any:
    if type(value) is not list:
        if type(value) in _OWN:
            return value
        raise StateError(f"it is not a stored state: {type(value).__name__}")
    return _DECODERS[value[0]](*value[1:])


def _all(items: Iterable[Any]) -> list[Any]:
    return [_decoded(each) for each in items]


def _own(items: list[Any]) -> list[Any]:
    if not set(map(type, items)) <= _OWN:
        raise StateError("it is not a stored state: a list of values that are not plain")
    return items


_DECODERS: dict[int, Callable[..., Any]] = {
    _Tag.LIST: _all,
    _Tag.TUPLE: lambda items: tuple(_all(items)),
    _Tag.NATIVE_LIST: _own,
    _Tag.NATIVE_TUPLE: lambda items: tuple(_own(items)),
    _Tag.ROWS: lambda columns: list(zip(*_all(columns), strict=True)),
    _Tag.NATIVE_DICT: lambda items: dict(zip(_own(list(items)), _own(list(items.values())), strict=True)),
    _Tag.DICT: lambda keys, values: dict(zip(_decoded(keys), _decoded(values), strict=True)),
    _Tag.SET: lambda items: set(_decoded(items)),
    _Tag.FROZENSET: lambda items: frozenset(_decoded(items)),
    _Tag.INT: lambda text: int(text, 16),
    _Tag.TEXT: lambda content: content.decode("utf-8", "surrogatepass"),
    _Tag.DECIMAL: Decimal,
    _Tag.DATE: date.fromisoformat,
    _Tag.DATETIME: lambda text, fold: datetime.fromisoformat(text).replace(fold=fold),
    _Tag.TIME: lambda text, fold: time.fromisoformat(text).replace(fold=fold),
    _Tag.TIMEDELTA: timedelta,
    _Tag.OPCODE: Opcode,
    _Tag.ARRAY: _from_array,
    _Tag.SCALAR: _from_scalar,
}
