"""Values of columns to fields of Protobuf messages: for each type of a field, the columns that it can hold."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from typing import Any

from google.protobuf import json_format

from rowtide.codec.encode.contract import refuse
from rowtide.codec.encode.json import json_writer, moment
from rowtide.codec.encode.record import UnfitError
from rowtide.codec.format_options import PATTERN, TIME_UNIT
from rowtide.codec.json.times import DAY_MS
from rowtide.codec.options import Declared
from rowtide.codec.protobuf.values import DURATION, RANGES, TIMESTAMP, FieldType, is_map, wrapped
from rowtide.rows.types import INTEGER_BYTES, Field, Kind

Setter = Callable[[Any, Any], None]
"""Sets a field of a message to a value in row form, not NULL."""
ToScalar = Callable[[Any], Any]

_MOMENTS = (Kind.TIMESTAMP, Kind.INSTANT, Kind.DATE)
_TIMES = (*_MOMENTS, Kind.TIME)
_MOST_SECONDS = 315_576_000_000
"""The longest Duration, by its definition."""


def setter_of(declared: Declared, field: Field, target: FieldType) -> Setter:
    """Return the function that sets a field to values of a column.

    Raises:
      UnfitError: the field cannot hold the column.
      StatementError: an option of the column is wrong.
    """
    inner, name = wrapped(target), target.name
    if field.type.element is not None:
        return _repeated(declared, replace(field, type=field.type.element), target)
    if target.is_repeated or (target.message_type is not None and inner is None):
        return _structured(declared, field, target)
    if inner is not None:
        to_inner = _scalar(declared, field, inner)

        def wrap(message: Any, value: Any) -> None:
            holder = getattr(message, name)
            # A default value alone would not set it.
            holder.SetInParent()
            holder.value = to_inner(value)

        return wrap
    to_scalar = _scalar(declared, field, target)
    return lambda message, value: setattr(message, name, to_scalar(value))


def _repeated(declared: Declared, element: Field, target: FieldType) -> Setter:
    """Return the setter of a repeated field, which has neither NULL elements nor a NULL: that is an empty one."""
    name, column = target.name, element.name
    if not target.is_repeated or is_map(target):
        raise UnfitError
    is_moment = target.message_type is not None and target.message_type.full_name == TIMESTAMP
    if is_moment and element.type.kind not in _MOMENTS:
        raise UnfitError
    if target.message_type is not None and not is_moment:
        raise UnfitError
    to_scalar = None if is_moment else _scalar(declared, element, target)

    def extend(message: Any, array: Any) -> None:
        held = getattr(message, name)
        for each in array:
            if each is None:
                refuse(f'column "{column}" has a NULL element, which a repeated field cannot hold')
            if to_scalar is None:
                _set_moment(held.add(), element, each)
            else:
                held.append(to_scalar(each))

    return extend


def _set_moment(holder: Any, field: Field, value: Any) -> None:
    at = moment(field.type, value, field.name)
    seconds, milliseconds = divmod(at.day * DAY_MS + at.ms, 1000)
    holder.SetInParent()
    holder.seconds, holder.nanos = seconds, milliseconds * 1_000_000


def _structured(declared: Declared, field: Field, target: FieldType) -> Setter:
    """Return the setter of a message, a repeated field or a map: JSON fills any, times and lapses their own."""
    kind, name = field.type, target.name
    if kind.kind is Kind.JSON:
        return _from_json(field, target)
    own = "" if target.is_repeated else target.message_type.full_name
    if own == TIMESTAMP and kind.kind in _MOMENTS and PATTERN not in declared.of(field.name):
        return lambda message, value: _set_moment(getattr(message, name), field, value)
    if own == DURATION and kind.is_exact:

        def set_lapse(message: Any, value: Any) -> None:
            if abs(value) > _MOST_SECONDS:
                refuse(f'column "{field.name}": {value} seconds are more than a Duration holds')
            nanos = int(Decimal(value).scaleb(9))
            sign = -1 if nanos < 0 else 1
            seconds, rest = divmod(abs(nanos), 1_000_000_000)
            holder = getattr(message, name)
            holder.SetInParent()
            holder.seconds, holder.nanos = sign * seconds, sign * rest

        return set_lapse
    raise UnfitError


def _from_json(field: Field, target: FieldType) -> Setter:
    name, column = target.name, field.name

    def parse(message: Any, value: Any) -> None:
        try:
            json_format.ParseDict({name: json.loads(value)}, message)
        except (json_format.ParseError, ValueError, RecursionError) as error:
            said = " ".join(str(error).split())[:200]
            refuse(f'column "{column}": the JSON does not fit field "{name}": {said}')

    return parse


def _scalar(declared: Declared, field: Field, target: FieldType) -> ToScalar:
    kind, options = field.type, declared.of(field.name)
    if target.type == target.TYPE_STRING:
        return _string(declared, field)
    if PATTERN in options:
        raise UnfitError("the column has a pattern, so it is text")
    if target.enum_type is not None:
        return _enum(field, target)
    if target.type == target.TYPE_BOOL and kind.kind is Kind.BOOLEAN:
        return bool
    if target.type == target.TYPE_BYTES and kind.is_binary:
        return bytes
    if target.type == target.TYPE_DOUBLE and (kind.is_float or INTEGER_BYTES.get(kind.kind, 8) < 8):
        return float
    if target.type == target.TYPE_FLOAT and kind.kind is Kind.REAL:
        return float
    if target.cpp_type in RANGES:
        return _whole(declared, field, target)
    raise UnfitError


def _string(declared: Declared, field: Field) -> ToScalar:
    kind = field.type
    if kind.is_text or kind.kind in (Kind.UUID, Kind.JSON):
        return str
    if kind.kind is Kind.DECIMAL:
        return lambda value: format(value, "f")
    if kind.kind in _TIMES and TIME_UNIT not in declared.of(field.name):
        write = json_writer(declared, field)
        assert write is not None
        return write
    raise UnfitError


def _enum(field: Field, target: FieldType) -> ToScalar:
    kind, name = field.type, field.name
    known = {each.name: each.number for each in target.enum_type.values}
    shown = ", ".join(known)[:200]
    if kind.is_integer:
        numbers = set(known.values())

        def checked(value: Any) -> Any:
            if value not in numbers:
                refuse(f'column "{name}": {value} is not a number of the enum: {shown}')
            return value

        return checked
    if not kind.is_text:
        raise UnfitError

    def number_of(value: Any) -> Any:
        found = known.get(value)
        if found is None:
            refuse(f'column "{name}": text "{value[:40]}" is not a value of the enum: {shown}')
        return found

    return number_of


def _whole(declared: Declared, field: Field, target: FieldType) -> ToScalar:
    """Return the function that makes an integer, by the column's unit of time if it is a time."""
    kind, name = field.type, field.name
    low, high = RANGES[target.cpp_type]

    def ranged(value: Any) -> int:
        if not low <= value <= high:
            refuse(f'column "{name}": {value} is out of the range of field "{target.name}"')
        return int(value)

    if kind.is_integer or (kind.kind is Kind.DECIMAL and kind.scale == 0):
        return ranged
    if TIME_UNIT in declared.of(name):
        count: Any = json_writer(declared, field)
        return lambda value: ranged(count(value))
    if kind.is_timestamp:
        return ranged
    if kind.kind in _TIMES:
        raise UnfitError("declare the time_unit of the column")
    raise UnfitError
