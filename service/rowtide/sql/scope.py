"""Names inside of one query: which fields and which ROWTIME an expression can read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

from rowtide.errors import Place, StatementError
from rowtide.expr.tree import Expr, FieldRef, RowtimeRef
from rowtide.plan.pseudo import PSEUDO_COLUMNS
from rowtide.rows.types import TIMESTAMP, RowType
from rowtide.sql.suggestions import did_you_mean
from rowtide.sql.syntax import ColumnRef, Name

ROWTIME = "ROWTIME"


@dataclass(frozen=True, slots=True)
class Binding:
    """One relation of FROM: its fields stand from ``start`` on in the row that expressions read.

    ``has_rowtime`` is False for a table: its rows have none of their own in the joined row. A stream
    that was joined with another has its own ROWTIME in the field ``rowtime_field``.
    ``qualifiers`` are the names by which it can be called: its alias, or else its schema and name.
    The last ``hidden`` fields are pseudo-columns: they can be named, and are in no ``*``.
    """

    qualifiers: tuple[str, ...]
    row_type: RowType
    start: int
    has_rowtime: bool
    rowtime_field: int | None = None
    hidden: int = 0

    @property
    def alias(self) -> str:
        """The name that qualifies its columns."""
        return self.qualifiers[-1]

    def fields(self) -> Iterator[tuple[str, FieldRef, bool]]:
        """Give its columns with the fields that they are, and whether they can be NULL."""
        for index, column in enumerate(self.row_type):
            yield column.name, FieldRef(self.start + index, column.type), column.nullable

    def columns(self) -> Iterator[tuple[str, FieldRef, bool]]:
        """Give what ``*`` means of it."""
        yield from islice(self.fields(), len(self.row_type) - self.hidden)


@dataclass(frozen=True, slots=True)
class Scope:
    """The relations of one FROM, in the order in which they stand there."""

    bindings: tuple[Binding, ...]

    def resolve(self, column: ColumnRef) -> Expr:
        """Give the field, or ROWTIME, that ``column`` means.

        Raises:
          StatementError: none, or more than one, has this name.
        """
        name = column.parts[-1]
        if len(column.parts) == 1:
            return self._unqualified(name, column.place)
        binding = self.binding(column.parts[:-1], column.place)
        if name.text == ROWTIME:
            if not binding.has_rowtime:
                raise StatementError(
                    f'table "{binding.alias}" has no ROWTIME in a join',
                    place=column.place,
                    hint="ROWTIME alone is that of the stream row.",
                )
            if binding.rowtime_field is not None:
                return FieldRef(binding.rowtime_field, TIMESTAMP)
            return RowtimeRef()
        for found, field, _ in binding.fields():
            if found == name.text:
                return field
        raise _no_column(name, binding.row_type.names, f' of "{binding.alias}"')

    def binding(self, parts: Sequence[Name], place: Place) -> Binding:
        """Give the relation of FROM that these names mean.

        Raises:
          StatementError: there is none.
        """
        wanted = tuple(part.text for part in parts)
        for binding in self.bindings:
            if binding.qualifiers[-len(wanted) :] == wanted:
                return binding
        shown = ".".join(wanted)
        raise StatementError(
            f'"{shown}" is no relation of this FROM',
            place=place,
            hint=did_you_mean(wanted[-1], [binding.alias for binding in self.bindings]),
        )

    def _unqualified(self, name: Name, place: Place) -> Expr:
        if name.text == ROWTIME:
            if not any(binding.has_rowtime for binding in self.bindings):
                raise StatementError("a table has no ROWTIME to select", place=place)
            return RowtimeRef()
        found = [
            (binding, field)
            for binding in self.bindings
            for column, field, _ in binding.fields()
            if column == name.text
        ]
        if not found:
            names = [column for binding in self.bindings for column in binding.row_type.names]
            raise _no_column(name, names)
        if len(found) > 1:
            owners = " and ".join(f'"{binding.alias}"' for binding, _ in found)
            raise StatementError(
                f'column "{name.text}" is ambiguous: {owners} have one',
                place=place,
                hint=f"Write {found[0][0].alias}.{name.text}.",
            )
        return found[0][1]

    def nullable(self, index: int) -> bool:
        """Tell whether the field at ``index`` can be NULL."""
        return next(
            nullable
            for binding in self.bindings
            for _, field, nullable in binding.fields()
            if field.index == index
        )


def _no_column(name: Name, names: Sequence[str], where: str = "") -> StatementError:
    """Give the error that nothing in ``names`` is called ``name``."""
    if name.text in PSEUDO_COLUMNS:
        return StatementError(
            f'pseudo-column "{name.text}"{where} does not exist',
            place=name.place,
            hint="A foreign stream of Kafka has it: a view on it can select it under a name.",
        )
    return StatementError(
        f'column "{name.text}"{where} does not exist', place=name.place, hint=did_you_mean(name.text, names)
    )
