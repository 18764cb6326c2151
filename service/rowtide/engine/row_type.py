"""Row types of the engine.

A row is a tuple whose values can also be read by field name (``row.price``).
Rows are checked only where they are made: an array is a tuple, so a row is
immutable and hashable.
"""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from operator import itemgetter
from typing import Any

from rowtide.engine.errors import FieldValueError, ModelError
from rowtide.engine.values import (
    FieldType,
    Value,
    check_of,
    field_type,
    format_value,
    parse_of,
    quote,
    type_name,
)
from rowtide.rows import types

Row = Any
"""A tuple of values in the order of the row type's fields, which can also be read by name."""


def _row_class(row_type: RowType) -> Any:
    make_class: Any = namedtuple
    row_class = make_class("Row", row_type.names, rename=True)
    row_class._row_type = row_type
    return row_class


class RowType:
    """The ordered, named and typed fields of a row; immutable.

    Two row types are equal if they have the same names and types in the same
    order, and match if they have the same types in the same order. Labels and
    tables accept rows of a matching type and read them under their own field
    names; only labels of equal row types can be chained.
    """

    __slots__ = ("_checks", "_hash", "_parsers", "_positions", "make", "names", "row_class", "types")

    def __init__(self, **fields: str | FieldType) -> None:
        self._set(list(fields.items()))

    def _set(self, fields: Sequence[tuple[str, str | FieldType]]) -> None:
        self.names = tuple(name for name, _ in fields)
        described = []
        for name, kind in fields:
            try:
                described.append(field_type(kind))
            except ModelError as error:
                raise ModelError(f'field "{name}": {error.message}', hint=error.hint) from error
        self.types: tuple[FieldType, ...] = tuple(described)
        self._positions = {name: index for index, name in enumerate(self.names)}
        if len(self._positions) != len(self.names):
            twice = next(name for name in self.names if self.names.count(name) > 1)
            raise ModelError(f'field "{twice}" occurs twice')
        self._checks = tuple(map(check_of, self.types))
        self._parsers: tuple[Callable[[Value], Value], ...] | None = None
        self._hash = hash((self.names, self.types))
        # Fields whose names are not Python identifiers are read by position or through ``getter``.
        self.row_class = _row_class(self)
        self.make: Callable[[Iterable[Value]], Row] = partial(tuple.__new__, self.row_class)
        """Makes a row of values without checking them: for values that come from other rows."""

    @classmethod
    def of(cls, fields: Iterable[tuple[str, str | FieldType]]) -> RowType:
        """Make a row type of (name, type) pairs, for names that are not Python identifiers.

        Raises:
          ModelError: if a type does not exist or a name occurs twice.
        """
        made = cls.__new__(cls)
        made._set(list(fields))
        return made

    @classmethod
    def from_sql(cls, row_type: types.RowType) -> RowType:
        """Make the row type of a SQL relation's rows; ROWTIME is not a field of it."""
        return cls.of((column.name, column.type) for column in row_type)

    def to_sql(self) -> types.RowType:
        """Return the SQL row type of these rows.

        Raises:
          ModelError: if a field is an array.
        """
        fields = []
        for name, kind in self.items():
            if not isinstance(kind, types.Type):
                raise ModelError(f'field "{name}" of type {kind} has no SQL type')
            fields.append(types.Field(name, kind))
        return types.RowType(tuple(fields))

    def items(self) -> Iterator[tuple[str, FieldType]]:
        """Return the fields as (name, type) pairs, in order."""
        return zip(self.names, self.types, strict=True)

    def extended(self, **fields: str | FieldType) -> RowType:
        """Make a row type of these fields and then ``fields``."""
        return RowType.of([*self.items(), *fields.items()])

    def index(self, name: str) -> int:
        """Return the position of field ``name``.

        Raises:
          ModelError: if the field does not exist.
        """
        position = self._positions.get(name)
        if position is None:
            raise ModelError(
                f'field "{name}" does not exist', hint=f"The fields are {', '.join(self.names)}."
            )
        return position

    def getter(self, *names: str) -> Callable[[Row], Value]:
        """Return a fast function from a row to the value of a field, or to the tuple of several values."""
        return itemgetter(*map(self.index, names)) if names else lambda _row: ()

    def row(self, *values: Value, **named: Value) -> Row:
        """Make a row from values by position and by name; fields without a value are NULL.

        Raises:
          ModelError: for an unknown field or too many values.
          FieldValueError: if a value does not fit its field.
        """
        if named:
            held: list[Value] = [*values, *[None] * (len(self.names) - len(values))]
            for name, value in named.items():
                held[self.index(name)] = value
            values = tuple(held)
        if len(values) != len(self.names):
            if len(values) > len(self.names):
                raise ModelError(f"{len(values)} values for a row of {len(self.names)} fields")
            values += (None,) * (len(self.names) - len(values))
        try:
            return self.make(
                [
                    None if value is None else check(value)
                    for check, value in zip(self._checks, values, strict=True)
                ]
            )
        except (TypeError, ValueError):
            self._blame(values)
            raise

    def _blame(self, values: Sequence[Value]) -> None:
        for (name, kind), check, value in zip(self.items(), self._checks, values, strict=True):
            if value is not None:
                try:
                    check(value)
                except (TypeError, ValueError) as error:
                    raise FieldValueError(name, type_name(kind), value) from error

    def adopt(self, row: Row) -> Row:
        """Return ``row`` as a row of this type.

        A row of a matching type keeps its values and takes the field names of this type; a plain tuple or
        list is checked.

        Raises:
          ModelError: if it is not a tuple or list, or a row of another type.
          FieldValueError: if a value of a plain tuple does not fit its field.
        """
        if row.__class__ is self.row_class:
            return row
        made_for = getattr(row, "_row_type", None)
        if made_for is None:
            if not isinstance(row, tuple | list):
                raise ModelError(f"{row!r} is not a row of {self.render(None)}")
            return self.row(*row)
        if not self.matches(made_for):
            raise ModelError(f"a row of {made_for.render(None)} is not a row of {self.render(None)}")
        return self.make(row)

    def parse(self, texts: Sequence[str]) -> Row:
        """Make a row from texts in field order; an empty or missing text is NULL.

        Raises:
          ModelError: for more texts than fields, or if a field is an array.
          FieldValueError: if a text is not a valid value of its field.
        """
        if len(texts) > len(self.names):
            raise ModelError(f"{len(texts)} values for a row of {len(self.names)} fields")
        if self._parsers is None:
            self._parsers = tuple(map(parse_of, self.types))
        values: list[Value] = [None] * len(self.names)
        for index, text in enumerate(texts):
            if text != "":
                try:
                    values[index] = self._parsers[index](text)
                except (KeyError, ValueError) as error:
                    kind = type_name(self.types[index])
                    raise FieldValueError(self.names[index], kind, text) from error
        return self.make(values)

    def changed(self, row: Row, **fields: Value) -> Row:
        """Return a copy of ``row`` with some fields changed."""
        values = list(row)
        for name, value in fields.items():
            index = self.index(name)
            try:
                values[index] = None if value is None else self._checks[index](value)
            except (TypeError, ValueError) as error:
                raise FieldValueError(name, type_name(self.types[index]), value) from error
        return self.make(values)

    def as_dict(self, row: Row) -> Mapping[str, Value]:
        """Return the values of a row by field name, NULLs included."""
        return dict(zip(self.names, row, strict=True))

    def format(self, row: Row) -> str:
        """Return a row as text: ``name="value"`` for each field that is not NULL."""
        return " ".join(
            f"{name}={quote(value)}" for name, value in zip(self.names, row, strict=True) if value is not None
        )

    def format_csv(self, row: Row) -> str:
        """Return the values of a row separated by commas; NULL is empty, nothing is quoted."""
        return ",".join("" if value is None else format_value(value) for value in row)

    def dump(self, row: Sequence[Value]) -> str:
        """Return the type, name and complete value of every field, one field on each line, for debugging.

        NULLs are shown, and values that do not fit their type are marked.

        Raises:
          ModelError: if the row has more or fewer values than the type has fields.
        """
        if len(row) != len(self.names):
            raise ModelError(f"{len(row)} values in a row of {len(self.names)} fields")
        lines = []
        for (name, kind), check, value in zip(self.items(), self._checks, row, strict=True):
            amiss = ""
            if value is not None:
                try:
                    check(value)
                except (TypeError, ValueError):
                    amiss = "  (does not fit the type)"
            lines.append(f"{type_name(kind)} {name} = {'NULL' if value is None else repr(value)}{amiss}")
        return "\n".join(lines)

    def matches(self, other: RowType) -> bool:
        """Return whether the other type has the same types in the same order; names may differ."""
        return self.types == other.types

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        return isinstance(other, RowType) and self.names == other.names and self.types == other.types

    def __hash__(self) -> int:
        return self._hash

    def __len__(self) -> int:
        return len(self.names)

    def __contains__(self, name: str) -> bool:
        return name in self._positions

    def render(self, indent: str | None = "", step: str = "  ") -> str:
        """Return the type as text: on lines that start with ``indent``, or on one line if it is None."""
        fields = [f"{type_name(kind)} {name}," for name, kind in self.items()]
        if indent is None:
            return " ".join(["row {", *fields, "}"])
        return "\n".join(["row {", *(f"{indent}{step}{field}" for field in fields), f"{indent}}}"])

    def __str__(self) -> str:
        return self.render()

    def __repr__(self) -> str:
        return f"<RowType {self.render(None)}>"
