"""Parsed Protobuf messages to rows: each column is compiled once for a message type.

A column of another type, or one whose path does not apply to the message, rejects every message of this type.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

from msgspec import UNSET

from rowtide.codec.json.readings import Reading, folded, reading_of, value_at
from rowtide.codec.json.values import FromJson
from rowtide.codec.options import Declared
from rowtide.codec.protobuf.schemas import Descriptor
from rowtide.codec.protobuf.values import (
    DOCUMENTS,
    RANGES,
    FieldType,
    from_document,
    from_field,
    from_message,
    is_map,
    json_of,
)
from rowtide.errors import Reason, RejectedRowError
from rowtide.expr.json_path import JsonSteps, show_path
from rowtide.rows.rowop import Row
from rowtide.rows.types import Field, Type

Step = Callable[[Any], Any]
"""Takes a message, a repeated field or a map; returns a value in it, or UNSET."""
ToRow = Callable[[Any], Row]


class NoFieldError(Exception):
    """A message type has no field at a path; ``known`` are the names that it has there."""

    def __init__(self, path: JsonSteps, known: Sequence[str]) -> None:
        super().__init__(path)
        self.path = path
        self.known = known


class PathError(Exception):
    """A step of a path does not apply to the type before it; the argument says why."""


class MessageRows:
    """Makes the functions that convert messages of a type to rows.

    Raises:
      StatementError: a column cannot be read.
    """

    def __init__(self, declared: Declared) -> None:
        self._columns = {field.name: (field, reading_of(declared, field)) for field in declared.row_type}

    def check(self, descriptor: Descriptor, column: str) -> None:
        """Check that a message type has a column.

        Raises:
          NoFieldError: it has no field at the column's path.
          PathError: the path does not apply to it.
        """
        _located(descriptor, *self._columns[column])

    def of(self, descriptor: Descriptor) -> ToRow:
        """Return the function of a message type. It raises RejectedRowError: TYPE or MISSING_FIELD."""
        columns = [_column(descriptor, field, reading) for field, reading in self._columns.values()]
        return lambda message: tuple([column(message) for column in columns])


def _column(descriptor: Descriptor, field: Field, reading: Reading) -> Step:
    """Return the function that takes the value of a column out of a message."""
    try:
        steps, convert = _located(descriptor, field, reading)
    except NoFieldError:
        steps, convert = [lambda _: UNSET], lambda value: value
    except PathError as error:
        problem = f"{reading.shown}: {error}"

        def refuse(message: object) -> object:
            raise RejectedRowError(Reason.TYPE, problem)

        return refuse

    def read(message: Any) -> object:
        value = message
        try:
            for step in steps:
                value = step(value)
                if value is UNSET or value is None:
                    break
            else:
                return convert(value)
        except RejectedRowError as error:
            raise RejectedRowError(error.reason, f"{reading.shown}: {error.message}") from error
        if field.nullable:
            return None
        raise RejectedRowError(
            Reason.MISSING_FIELD, f"{reading.shown} is {'absent' if value is UNSET else 'null'}"
        )

    return read


def _located(descriptor: Descriptor, field: Field, reading: Reading) -> tuple[list[Step], FromJson]:
    """Return the steps to a column's value, and its converter.

    Raises:
      NoFieldError: the message type has no field at this path.
      PathError: a step does not apply to the type before it.
    """
    path = (_own_name(descriptor, field.name),) if reading.path is None else reading.path
    return _Walk(field.type, reading, path).from_message(descriptor, 0)


def _own_name(descriptor: Descriptor, column: str) -> str:
    """Return the name of a column's field: its main spelling, or one with other cases of letters."""
    main = column.lower() if column == column.upper() else column
    if main in descriptor.fields_by_name:
        return main
    return next((each.name for each in descriptor.fields if folded(each.name) == folded(column)), main)


class _Walk:
    """Follows one path through types, from the step at ``at`` on."""

    def __init__(self, kind: Type, reading: Reading, path: JsonSteps) -> None:
        self._kind = kind
        self._reading = reading
        self._path = path

    def from_message(self, descriptor: Descriptor, at: int) -> tuple[list[Step], FromJson]:
        name = descriptor.full_name
        if name in DOCUMENTS:
            rest = self._path[at:]
            return [lambda value: value_at(json_of(value), rest)], from_document(self._kind, self._reading)
        if at == len(self._path):
            return [], from_message(name, self._kind, self._reading)
        step = self._path[at]
        if isinstance(step, int):
            raise self._problem(at, f"{name}, not repeated")
        field = descriptor.fields_by_name.get(step)
        if field is None:
            raise NoFieldError(self._path[: at + 1], [each.name for each in descriptor.fields])
        steps, convert = self._from_field(field, at + 1)
        return [_getter(field), *steps], convert

    def _from_field(self, field: FieldType, at: int) -> tuple[list[Step], FromJson]:
        if at < len(self._path) and field.is_repeated:
            inner, step = (
                (field, _element(self._path[at])) if not is_map(field) else _entry(field, self._path[at])
            )
            if step is None:
                raise self._problem(at, "a map" if is_map(field) else "repeated")
            steps, convert = self._from_single(inner, at + 1)
            return [step, *steps], convert
        if field.is_repeated:
            return [], from_field(field, self._kind, self._reading, single=False)
        return self._from_single(field, at)

    def _from_single(self, field: FieldType, at: int) -> tuple[list[Step], FromJson]:
        inner = field.message_type
        if inner is not None and (at < len(self._path) or inner.full_name in DOCUMENTS):
            return self.from_message(inner, at)
        if at == len(self._path):
            return [], from_field(field, self._kind, self._reading, single=True)
        raise self._problem(at, "not a message")

    def _problem(self, at: int, what: str) -> PathError:
        return PathError(f"{show_path(self._path[:at])} is {what}, so it has no {_shown(self._path[at])}")


def _shown(step: str | int) -> str:
    return f'field "{step}"' if isinstance(step, str) else f"element [{step}]"


def _getter(field: FieldType) -> Step:
    """Return the function that takes a field out of its message; UNSET if the field has presence and is not set."""
    name = field.name
    if not field.has_presence:
        return lambda message: getattr(message, name)
    return lambda message: getattr(message, name) if message.HasField(name) else UNSET


def _element(step: str | int) -> Step | None:
    """Return a function that gives an element of a repeated field; None if the step is not an index."""
    if isinstance(step, str):
        return None
    return lambda values: values[step] if step < len(values) else UNSET


_INTEGER = re.compile(r"-?\d{1,20}", re.ASCII)
_MAP_KEYS = {"true": True, "false": False}


def _entry(field: FieldType, step: str | int) -> tuple[FieldType, Step | None]:
    """Return the type of a map's values, and the function that takes the value of a key."""
    keys, inner = (field.message_type.fields_by_name[name] for name in ("key", "value"))
    key: object = None
    if keys.cpp_type == keys.CPPTYPE_BOOL:
        key = _MAP_KEYS.get(str(step))
    elif keys.cpp_type == keys.CPPTYPE_STRING:
        key = step if isinstance(step, str) else None
    elif _INTEGER.fullmatch(str(step)):
        low, high = RANGES[keys.cpp_type]
        key = int(step) if low <= int(step) <= high else None
    if key is None:
        return inner, None
    return inner, lambda values: values.get(key, UNSET)
