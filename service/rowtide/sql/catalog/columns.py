"""The columns of streams and tables: types, defaults, CHECK conditions, and ALTER."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from rowtide.errors import SourceSpan, StatementError
from rowtide.expr.functions import resolve
from rowtide.expr.tree import Call, Expr, Literal
from rowtide.plan.nodes import Filter, Node
from rowtide.plan.plan import ColumnOptions
from rowtide.rows.types import BOOLEAN, VARCHAR, Field, RowType
from rowtide.sql.catalog.models import refuse_port
from rowtide.sql.catalog.values import constant_of
from rowtide.sql.definitions.objects import Catalog, StreamDefinition, TableDefinition, relation_name
from rowtide.sql.expressions.expression_planner import ExpressionPlanner
from rowtide.sql.expressions.keys import check_key
from rowtide.sql.expressions.scope import ROWTIME, Binding, NameScope
from rowtide.sql.grammar.statements import (
    AddColumn,
    CheckDefinition,
    ColumnDefinition,
    DropColumn,
    ObjectKind,
    Rename,
)
from rowtide.sql.grammar.suggestions import did_you_mean_or_all
from rowtide.sql.grammar.syntax import Name
from rowtide.sql.relations.relations import column_index, distinct_names

Defaults = tuple[tuple[int, object], ...]
Columned = StreamDefinition | TableDefinition


def row_type_of(columns: Sequence[ColumnDefinition], key: Sequence[Name]) -> tuple[RowType, tuple[int, ...]]:
    """Return the row type of declared columns and the positions of the PRIMARY KEY.

    Raises:
      StatementError: a column appears twice, or a key column does not exist.
    """
    distinct_names([column.name for column in columns])
    for column in columns:
        if column.name.text == ROWTIME:
            raise StatementError("ROWTIME exists in every row and cannot be declared", span=column.name.place)
    if not columns:
        raise StatementError("column does not exist", span=key[0].place)
    names = [column.name.text for column in columns]
    distinct_names(key)
    for name in key:
        if name.text not in names:
            raise StatementError(
                f'column "{name.text}" of the PRIMARY KEY does not exist',
                span=name.place,
                hint=did_you_mean_or_all(name.text, names),
            )
    for name in key:
        check_key(
            columns[names.index(name.text)].type, f'column "{name.text}" of the PRIMARY KEY', name.place
        )
    in_key = {name.text for name in key}
    fields = tuple(
        Field(column.name.text, column.type, column.nullable and column.name.text not in in_key)
        for column in columns
    )
    return RowType(fields), tuple(names.index(name.text) for name in key)


def defaults_of(columns: Sequence[ColumnDefinition], row_type: RowType) -> Defaults:
    """Return the DEFAULT of each column that has one.

    Raises:
      StatementError: a default is not a constant, or does not fit its column.
    """
    return tuple(
        (at, constant_of(column.default, row_type[at], "the DEFAULT"))
        for at, column in enumerate(columns)
        if column.default is not None
    )


def filled_by_a_topic(table: str, span: SourceSpan) -> StatementError:
    """Return the error that only the source of a table can change it."""
    return StatementError(
        f'table "{table}" is filled by its server: nothing else writes to it',
        span=span,
        hint="Write to a table without SERVER, or join both in a view.",
    )


def column_options_of(
    columns: Sequence[ColumnDefinition], kind: ObjectKind, *, of_messages: bool
) -> ColumnOptions:
    """Return the OPTIONS of each column that has OPTIONS.

    ``of_messages``: the relation has a server; if it is not a foreign table, its rows come from messages.

    Raises:
      StatementError: the rows do not come from messages, so the options have no effect.
    """
    for column in columns:
        if column.options and (not of_messages or kind is ObjectKind.FOREIGN_TABLE):
            raise StatementError(
                f"a column of a {kind.value} cannot have OPTIONS",
                span=column.options[0].place,
                hint="They say how a column is read from messages, of a foreign stream or a table with SERVER.",
            )
    return tuple(
        (column.name.text, tuple((item.name, item.value) for item in column.options))
        for column in columns
        if column.options
    )


def checked(
    node: Node, relation: str, checks: Sequence[CheckDefinition], kind: type[Filter] = Filter
) -> Node:
    """Return the rows for which every CHECK is TRUE or UNKNOWN; the others are rejected (CONSTRAINT).

    The changes of a table need the ``kind`` FilterInserts.

    Raises:
      StatementError: a CHECK is not a condition over the columns.
    """
    scope = NameScope((Binding((relation,), node.row_type, 0, has_rowtime=False),))
    for number, check in enumerate(checks, 1):
        condition = ExpressionPlanner(scope, "CHECK").condition(check.condition)
        name = f"CHECK {number}" if check.name is None else check.name.text
        or_unknown: Expr = Call("COALESCE", (condition, Literal(True, BOOLEAN)), BOOLEAN)
        args = (or_unknown, Literal(name, replace(VARCHAR, precision=len(name))))
        node = kind(relation, node, Call("$CHECK", args, resolve("$CHECK", [each.type for each in args])))
    return node


# ---------------------------------------------------------------------- ALTER


def with_column(catalog: Catalog, statement: AddColumn) -> Catalog:
    """Add a column at the end. Existing rows have its DEFAULT, or NULL.

    Raises:
      StatementError: the name already exists, or existing rows would need a NULL that it forbids.
    """
    key, found = _columned(catalog, statement)
    column = statement.column
    if column.name.text in found.row_type.names:
        raise StatementError(f'column "{column.name.text}" already exists', span=column.name.place)
    added, _ = row_type_of([column], [])
    row_type = RowType((*found.row_type, *added))
    default = defaults_of([column], added)
    value = default[0][1] if default else None
    changed = replace(
        found,
        row_type=row_type,
        defaults=(*found.defaults, *((len(found.row_type), each) for _, each in default)),
    )
    read = found.server if isinstance(found, StreamDefinition) else found.source
    added_options = column_options_of([column], found.kind, of_messages=read is not None)
    changed = replace(changed, column_options=(*changed.column_options, *added_options))
    if isinstance(changed, TableDefinition) and changed.rows:
        if value is None and not column.nullable:
            raise StatementError(
                f'column "{column.name.text}" is NOT NULL and has no DEFAULT for the rows that are there',
                span=column.name.place,
            )
        changed = replace(changed, rows=tuple((*row, value) for row in changed.rows))
    return catalog.define(key, changed)


def without_column(catalog: Catalog, statement: DropColumn) -> Catalog:
    """Drop a column.

    Raises:
      StatementError: it does not exist, is the last one, or is in a key or index.
    """
    key, found = _columned(catalog, statement)
    name, shown = statement.column, relation_name(key)
    gone = column_index(found.row_type, name, shown)
    if len(found.row_type) == 1:
        raise StatementError(f'column "{name.text}" is the only one of "{shown}"', span=name.place)

    def moved(places: Sequence[int]) -> tuple[int, ...]:
        if gone in places:
            raise StatementError(f'a key or index of "{shown}" has column "{name.text}"', span=name.place)
        return tuple(place - (place > gone) for place in places)

    fields = tuple(field for at, field in enumerate(found.row_type) if at != gone)
    defaults = tuple((at - (at > gone), value) for at, value in found.defaults if at != gone)
    changed = replace(found, row_type=RowType(fields), defaults=defaults)
    if isinstance(changed, TableDefinition):
        changed = replace(
            changed,
            key=moved(changed.key),
            indexes=tuple(replace(each, columns=moved(each.columns)) for each in changed.indexes),
            foreign_keys=tuple(replace(each, columns=moved(each.columns)) for each in changed.foreign_keys),
            rows=tuple((*row[:gone], *row[gone + 1 :]) for row in changed.rows),
        )
    kept = tuple(each for each in changed.column_options if each[0] != name.text)
    changed = replace(changed, column_options=kept)
    return catalog.define(key, changed)


def with_renamed_column(catalog: Catalog, statement: Rename, column: Name) -> Catalog:
    """Rename a column.

    Raises:
      StatementError: it does not exist, or the new name already exists.
    """
    key, found = _columned(catalog, statement)
    at = column_index(found.row_type, column, relation_name(key))
    if statement.to.text in (*found.row_type.names, ROWTIME):
        raise StatementError(f'column "{statement.to.text}" already exists', span=statement.to.place)
    fields = list(found.row_type)
    fields[at] = replace(fields[at], name=statement.to.text)
    changed = replace(found, row_type=RowType(tuple(fields)))
    changed = replace(
        changed,
        column_options=tuple(
            (statement.to.text if name == column.text else name, options)
            for name, options in changed.column_options
        ),
    )
    return catalog.define(key, changed)


def _columned(
    catalog: Catalog, statement: AddColumn | DropColumn | Rename
) -> tuple[tuple[str, str], Columned]:
    key, found = catalog.find_of(statement.name, statement.kind)
    if not isinstance(found, StreamDefinition | TableDefinition):
        raise StatementError(
            f"a {found.kind.value} has no columns of its own to change", span=statement.name.place
        )
    refuse_port(catalog, key, statement.name.place)
    return key, found
