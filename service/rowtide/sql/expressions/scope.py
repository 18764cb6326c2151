"""Names inside one query: the fields and the ROWTIME that an expression can read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

from rowtide.errors import SourceSpan, StatementError
from rowtide.expr.functions import common_type
from rowtide.expr.tree import Call, Expr, FieldRef, RowtimeRef
from rowtide.plan.pseudo import PSEUDO_COLUMNS
from rowtide.rows.types import TIMESTAMP, Kind, RowType
from rowtide.sql.grammar.habits import COLUMNS
from rowtide.sql.grammar.suggestions import did_you_mean, did_you_mean_or_all
from rowtide.sql.grammar.syntax import ColumnRef, Name

ROWTIME = "ROWTIME"


class UnknownColumn(StatementError):
    """No relation of FROM has a column of this name; ``name`` is as SQL folds it."""

    name = ""


@dataclass(frozen=True, slots=True)
class Binding:
    """One relation of FROM: its fields start at ``start`` in the row that expressions read.

    ``has_rowtime`` is False for a table, whose rows have no ROWTIME in the joined row. A stream that is
    joined with another has its own ROWTIME in the field ``rowtime_field``, unless it is that of the
    joined row.
    ``qualifiers`` are its names in the query: its alias, or else its schema and name.
    The last ``hidden`` fields are pseudo-columns: a query can name them, but ``*`` leaves them out.
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

    def columns(self) -> Iterator[tuple[str, FieldRef, bool]]:
        """Yield the columns of ``*``: names with their fields, and whether they can be NULL."""
        for index, column in enumerate(islice(self.row_type, len(self.row_type) - self.hidden)):
            yield column.name, FieldRef(self.start + index, column.type), column.nullable

    def field(self, name: str) -> FieldRef | None:
        """Return the field of its column ``name``, or None, without a search."""
        try:
            index = self.row_type.index(name)
        except KeyError:
            return None
        return FieldRef(self.start + index, self.row_type[index].type)

    def nullable(self, index: int) -> bool | None:
        """Return whether the field at ``index`` can be NULL; None if it is not a field of this relation."""
        own = index - self.start
        return self.row_type[own].nullable if 0 <= own < len(self.row_type) else None


@dataclass(frozen=True, slots=True)
class Merged:
    """A column that USING merges: the first value of ``sources`` that is not NULL, relations by alias.

    ``owners`` are all relations that have it.
    """

    name: str
    sources: tuple[str, ...]
    owners: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class NameScope:
    """The relations of one FROM, in their order, and the columns of USING."""

    bindings: tuple[Binding, ...]
    merged: tuple[Merged, ...] = ()

    def columns(self) -> Iterator[tuple[str, Expr, bool]]:
        """Yield the columns of ``*``: merged columns first, then those of each relation."""
        hidden = set()
        for each in self.merged:
            hidden |= {(owner, each.name) for owner in each.owners}
            found = self._fields(each)
            yield each.name, _first_of(found), all(self.nullable(field.index) for field in found)
        for binding in self.bindings:
            for name, field, nullable in binding.columns():
                if (binding.alias, name) not in hidden:
                    yield name, field, nullable

    def _fields(self, merged: Merged) -> list[FieldRef]:
        """Return the fields from which a merged column gets its value."""
        of = {binding.alias: binding.field(merged.name) for binding in reversed(self.bindings)}
        return [field for alias in merged.sources if (field := of[alias]) is not None]

    def resolve(self, column: ColumnRef) -> Expr:
        """Return the field, or ROWTIME, of a column name.

        Raises:
          StatementError: no column, or more than one, has this name.
        """
        name = column.parts[-1]
        if len(column.parts) == 1:
            return self._unqualified(name, column.place)
        binding = self.binding(column.parts[:-1], column.place)
        if name.text == ROWTIME:
            if not binding.has_rowtime:
                raise StatementError(
                    f'table "{binding.alias}" has no ROWTIME in a join',
                    span=column.place,
                    hint="ROWTIME alone is that of the stream row.",
                )
            if binding.rowtime_field is not None:
                return FieldRef(binding.rowtime_field, TIMESTAMP)
            return RowtimeRef()
        field = binding.field(name.text)
        if field is None:
            raise _no_column(name, binding.row_type.names, f' of "{binding.alias}"')
        return field

    @property
    def has_rowtime(self) -> bool:
        """Return whether ROWTIME without a qualifier is the time of a row."""
        return any(binding.has_rowtime for binding in self.bindings)

    def resolves(self, column: ColumnRef) -> bool:
        """Return whether exactly one column, or ROWTIME, has this name."""
        try:
            self.resolve(column)
        except StatementError:
            return False
        return True

    def binding(self, parts: Sequence[Name], span: SourceSpan) -> Binding:
        """Return the relation of FROM with these qualifiers.

        Raises:
          StatementError: it does not exist.
        """
        wanted = tuple(part.text for part in parts)
        for binding in self.bindings:
            if binding.qualifiers[-len(wanted) :] == wanted:
                return binding
        for binding in self.bindings:
            field = binding.field(wanted[0])
            if field is not None and field.type.kind is Kind.JSON:
                raise StatementError(
                    f'"{wanted[0]}" is a column, not a relation',
                    span=span,
                    hint=f"Write {wanted[0]} -> 'a' ->> 'b' for the text of a member b of a member a.",
                )
        shown = ".".join(wanted)
        aliases = [binding.alias for binding in self.bindings]
        raise StatementError(
            f'"{shown}" is not a relation in this FROM clause',
            span=span,
            hint=did_you_mean(wanted[-1], aliases) or (f"It has {', '.join(aliases)}." if aliases else None),
        )

    def _unqualified(self, name: Name, span: SourceSpan) -> Expr:
        if name.text == ROWTIME:
            if not self.has_rowtime:
                raise StatementError("a table has no ROWTIME to select", span=span)
            return RowtimeRef()
        for each in self.merged:
            if each.name == name.text:
                return _first_of(self._fields(each))
        found = [
            (binding, field) for binding in self.bindings if (field := binding.field(name.text)) is not None
        ]
        if not found:
            # The one row of a query without FROM has a field that no query can name.
            all_names = (column for binding in self.bindings for column in binding.row_type.names)
            names = [column for column in all_names if not column.startswith("$")]
            raise _no_column(name, names)
        if len(found) > 1:
            owners = " and ".join(f'"{binding.alias}"' for binding, _ in found)
            raise StatementError(
                f'column "{name.text}" is ambiguous: {owners} have one',
                span=span,
                hint=f"Write {found[0][0].alias}.{name.text}.",
            )
        return found[0][1]

    def nullable(self, index: int) -> bool:
        """Return whether the field at ``index`` can be NULL."""
        known = (binding.nullable(index) for binding in self.bindings)
        return next(nullable for nullable in known if nullable is not None)


def _first_of(fields: Sequence[FieldRef]) -> Expr:
    """Return the first of several fields that is not NULL."""
    if len(fields) == 1:
        return fields[0]
    of = common_type([field.type for field in fields])
    cast = [field if field.type == of else Call("CAST", (field,), of) for field in fields]
    return Call("COALESCE", tuple(cast), of)


def _no_column(name: Name, names: Sequence[str], where: str = "") -> StatementError:
    """Return the error that ``name`` is not in ``names``."""
    if name.text in PSEUDO_COLUMNS:
        return StatementError(
            f'pseudo-column "{name.text}"{where} does not exist',
            span=name.place,
            hint="A foreign stream of Kafka has it: a view on it can select it under a name.",
        )
    hint = COLUMNS.get(name.text) or did_you_mean_or_all(name.text, names)
    if not (hint or names):
        hint = f"No column can be named here. Text is in single quotes: '{name.text.lower()}'."
    if name.text != name.text.upper() and did_you_mean(name.text, names) is None:
        hint = f"Text is in single quotes: '{name.text}'. {hint or ''}".rstrip()
    error = UnknownColumn(f'column "{name.text}"{where} does not exist', span=name.place, hint=hint)
    error.name = name.text
    return error
