"""UPDATE, DELETE, TRUNCATE and MERGE of engine tables: the rows of INSERT statements, changed.

See docs/sql/tables.md#update-delete-truncate-and-merge.

These rows are constants of the plan, so the statements are executed when the plan is made, in their order. A
statement either applies as a whole or is refused: it cannot leave rows that the table would reject.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import isnan

from rowtide.errors import RejectedRowError, SourceSpan, StatementError
from rowtide.expr.rowwise import compile_row
from rowtide.expr.tree import Expr, Literal
from rowtide.rows.rowop import Row
from rowtide.rows.types import BOOLEAN, Field, RowType
from rowtide.sql.catalog.columns import filled_by_a_topic
from rowtide.sql.catalog.finite import table_of
from rowtide.sql.definitions.objects import Catalog, Key, TableDefinition, relation_name
from rowtide.sql.expressions.conversions import UNTYPED_NULL, assign
from rowtide.sql.expressions.expression_planner import ExpressionPlanner
from rowtide.sql.expressions.scope import Binding, NameScope
from rowtide.sql.grammar.statements import (
    Assignment,
    Delete,
    MergeBranch,
    MergeInto,
    ObjectKind,
    RowChange,
    Truncate,
    Update,
)
from rowtide.sql.grammar.syntax import Expression, FunctionCall, Name, QualifiedName, ValuesSyntax
from rowtide.sql.relations.relations import column_index, distinct_names

MAX_PAIRS = 10_000_000
"""Maximum pairs of rows that a MERGE compares: statements of a file change few rows."""

_Value = Callable[[Row], object]
_HINTS = {
    ObjectKind.STREAM: "Rows of a stream do not change: write a view over it.",
    ObjectKind.FOREIGN_STREAM: "Rows of a stream do not change: write a view over it.",
    ObjectKind.FOREIGN_TABLE: "A pump from a query over a table updates and deletes rows of a foreign table.",
    ObjectKind.VIEW: "Change the tables that the view reads.",
}


def with_row_change(
    catalog: Catalog, statement: RowChange, max_pairs: int = MAX_PAIRS
) -> tuple[Catalog, int]:
    """Return the catalog after a statement, and the number of rows that it changed.

    Raises:
      StatementError: its target is not an engine table, an expression does not fit or fails, or the table
        would reject a row; with its place. Nothing has changed.
    """
    key, table = _target(catalog, statement.target, type(statement).__name__.upper().removesuffix("INTO"))
    held = _Held(key, table, statement.place)
    before = held.rows
    match statement:
        case Truncate():
            rows, count = [], len(before)
        case Delete(alias=alias, where=where):
            is_chosen = held.condition(held.scope(alias), where, "DELETE")
            rows = [row for row in before if not is_chosen(row)]
            count = len(before) - len(rows)
        case Update(alias=alias, changes=changes, where=where):
            scope = held.scope(alias)
            is_chosen, changed = held.condition(scope, where, "UPDATE"), held.changed(scope, changes)
            rows = [changed(row, row) if is_chosen(row) else row for row in before]
            count = sum(map(is_chosen, before))
        case MergeInto():
            rows, count = _merged(catalog, held, before, statement, max_pairs)
    held.check(rows, statement.place)
    return catalog.define(key, replace(table, rows=tuple(rows))), count


def refuse_pumped(catalog: Catalog, statement: RowChange) -> None:
    """Refuse to change or read a table that a pump fills: its rows are known only while the pipeline runs.

    Raises:
      StatementError: naming the table and the pump.
    """
    pumped = {
        catalog.key(pump.target, schema=pump.schema): relation_name(key)
        for key, pump in catalog.pumps()
        if pump.started
    }
    named = [statement.target]
    if isinstance(statement, MergeInto) and isinstance(statement.source, QualifiedName):
        named.append(statement.source)
    for name in named:
        key, _ = catalog.find(name, "table")
        if key in pumped:
            raise StatementError(
                f'pump "{pumped[key]}" writes rows of table "{relation_name(key)}": the statement would miss them',
                span=name.place,
                hint="Write the statement before CREATE PUMP, if it is for the rows of INSERT statements. The query "
                "of a pump decides about its rows.",
            )


def with_last_rows(catalog: Catalog, key: Key, span: SourceSpan) -> Catalog:
    """Return the catalog with a table in which the last row of each PRIMARY KEY remains, after an INSERT.

    Raises:
      StatementError: the table would reject a row.
    """
    table = catalog.objects[key]
    assert isinstance(table, TableDefinition)
    held = _Held(key, table, span)
    rows = held.last_rows()
    held.check(rows, span)
    return catalog.define(key, replace(table, rows=tuple(rows)))


def _target(catalog: Catalog, name: QualifiedName, verb: str) -> tuple[Key, TableDefinition]:
    key, found = catalog.find(name, "table")
    shown = relation_name(key)
    if isinstance(found, TableDefinition) and found.source is not None:
        raise filled_by_a_topic(shown, name.place)
    if not isinstance(found, TableDefinition) or found.server is not None:
        raise StatementError(
            f'{verb} of {found.kind.value} "{shown}" is not supported',
            span=name.place,
            hint=_HINTS.get(found.kind),
        )
    return key, found


@dataclass(slots=True)
class _Held:
    """The rows that a table has from the statements so far."""

    key: Key
    table: TableDefinition
    place: SourceSpan

    @property
    def shown(self) -> str:
        """The name of the table."""
        return relation_name(self.key)

    @property
    def rows(self) -> list[Row]:
        """The rows, of which the last one of each PRIMARY KEY remains.

        Raises:
          StatementError: the table rejects a row of an earlier INSERT.
        """
        rows = self.last_rows()
        try:
            self.check(rows, self.place)
        except StatementError as error:
            raise StatementError(
                f"an earlier row of an INSERT statement is rejected: {error.message}", span=self.place
            ) from error
        return rows

    def last_rows(self) -> list[Row]:
        """Return the rows, of which the last one of each PRIMARY KEY remains; they are not checked."""
        if not self.table.key:
            return list(self.table.rows)
        return list({tuple(row[at] for at in self.table.key): row for row in self.table.rows}.values())

    def scope(self, alias: Name | None, *others: Binding) -> NameScope:
        """Return the scope of the table's columns, and of ``others`` after them."""
        qualifiers = self.key if alias is None else (alias.text,)
        return NameScope((Binding(qualifiers, self.table.row_type, 0, has_rowtime=False), *others))

    def condition(self, scope: NameScope, syntax: Expression | None, clause: str) -> Callable[[Row], bool]:
        """Return the function that says whether a row meets a condition; without one every row does."""
        if syntax is None:
            return lambda row: True
        return _truth(ExpressionPlanner(scope, clause).condition(syntax), syntax.place)

    def value(self, scope: NameScope, position: int, syntax: Expression, clause: str) -> _Value:
        """Return the function that computes the value of a column, or its DEFAULT."""
        column = self.table.row_type[position]
        if isinstance(syntax, FunctionCall) and syntax.name == "DEFAULT" and not syntax.args:
            default = dict(self.table.defaults).get(position)
            return lambda row: default
        typed = ExpressionPlanner(scope, clause).plan_as(syntax, UNTYPED_NULL.type)
        what = f'column "{column.name}" of "{self.shown}"'
        return _evaluated(assign(typed, column.type, what, syntax.place), syntax.place)

    def changed(self, scope: NameScope, changes: Sequence[Assignment]) -> Callable[[Row, Row], Row]:
        """Return the function that changes a row; its second argument is the row that expressions read."""
        distinct_names([each.column for each in changes])
        values = {}
        for each in changes:
            at = column_index(self.table.row_type, each.column, self.shown)
            values[at] = self.value(scope, at, each.value, "SET")

        def change(row: Row, read: Row) -> Row:
            return tuple(values[at](read) if at in values else value for at, value in enumerate(row))

        return change

    def check(self, rows: Sequence[Row], span: SourceSpan) -> None:
        """Check that the table accepts all rows.

        Raises:
          StatementError: a row violates NOT NULL, CHECK, UNIQUE or the PRIMARY KEY.
        """
        row_type, key = self.table.row_type, self.table.key
        for at, column in enumerate(row_type):
            if (not column.nullable or at in key) and any(row[at] is None for row in rows):
                raise StatementError(f'column "{column.name}" of "{self.shown}" cannot be NULL', span=span)
        unique = [("the PRIMARY KEY", key)] if key else []
        unique += [(f'UNIQUE "{index.name}"', index.columns) for index in self.table.indexes if index.unique]
        for what, columns in unique:
            seen: set[Row] = set()
            for row in rows:
                values = tuple(row[at] for at in columns)
                if any(each is None or (isinstance(each, float) and isnan(each)) for each in values):
                    continue
                if values in seen:
                    raise StatementError(f'two rows of "{self.shown}" have equal values of {what}', span=span)
                seen.add(values)
        for number, check in enumerate(self.table.checks, 1):
            holds = ExpressionPlanner(self.scope(None), "CHECK").condition(check.condition)
            computed = _evaluated(holds, span)
            if any(computed(row) is False for row in rows):
                name = f"CHECK {number}" if check.name is None else check.name.text
                raise StatementError(f'a row of "{self.shown}" violates {name}', span=span)


def _evaluated(expr: Expr, span: SourceSpan) -> _Value:
    """Return the function of a row that an expression is.

    Raises:
      StatementError: when it is called, if the expression fails.
    """
    if isinstance(expr, Literal):
        return lambda row: expr.value
    compute = compile_row(expr)

    def evaluate(row: Row) -> object:
        try:
            return compute(row, 0)
        except RejectedRowError as error:
            raise StatementError(error.message, span=span) from error

    return evaluate


def _truth(expr: Expr, span: SourceSpan) -> Callable[[Row], bool]:
    assert expr.type == BOOLEAN
    evaluate = _evaluated(expr, span)
    return lambda row: evaluate(row) is True


# ---------------------------------------------------------------------- MERGE


def _merged(
    catalog: Catalog, held: _Held, rows: list[Row], statement: MergeInto, max_pairs: int
) -> tuple[list[Row], int]:
    """Return the rows of the table after a MERGE, and how many were changed, deleted or inserted."""
    row_type, source = _source(catalog, statement)
    width = len(held.table.row_type)
    if len(rows) * len(source) > max_pairs:
        raise StatementError(
            f"MERGE would compare more than {max_pairs} pairs of rows",
            span=statement.place,
            hint="A pump merges many rows: it replaces the row of each PRIMARY KEY.",
        )
    qualifiers: tuple[str, ...] = () if statement.source_alias is None else (statement.source_alias.text,)
    if not qualifiers and isinstance(statement.source, QualifiedName):
        qualifiers = catalog.find(statement.source, "table")[0]
    scope = held.scope(
        statement.alias, Binding(qualifiers or ("$SOURCE",), row_type, width, has_rowtime=False)
    )
    matches = held.condition(scope, statement.condition, "ON")
    pairs = [[row + other for other in source if matches(row + other)] for row in rows]
    planned = [_Branch(held, scope, each) for each in statement.branches]
    done: list[Row] = []
    count = 0
    for row, found in zip(rows, pairs, strict=True):
        acting = [
            (pair, branch) for pair in found if (branch := _first(planned, pair, matched=True)) is not None
        ]
        if len(acting) > 1:
            raise StatementError(
                f'a row of "{held.shown}" matches more than one row of the source', span=statement.place
            )
        after = acting[0][1].applied(row, acting[0][0]) if acting else row
        count += bool(acting)
        if after is not None:
            done.append(after)
    taken = {pair[width:] for found in pairs for pair in found}
    nothing: Row = (None,) * width
    for other in source:
        if other in taken:
            continue
        branch = _first(planned, nothing + other, matched=False)
        if branch is not None:
            done.append(branch.inserted(nothing + other))
            count += 1
    return done, count


def _source(catalog: Catalog, statement: MergeInto) -> tuple[RowType, list[Row]]:
    """Return the columns and rows of USING: VALUES, or an engine table with its rows so far."""
    if isinstance(statement.source, QualifiedName):
        key, table = _target(catalog, statement.source, "USING")
        row_type, rows = table.row_type, _Held(key, table, statement.source.place).rows
    elif isinstance(statement.source, ValuesSyntax):
        node = table_of(statement.source).node
        row_type, rows = node.row_type, list(getattr(node, "rows", ()))
    else:
        raise StatementError(
            "MERGE takes an engine table or VALUES as its source",
            span=statement.place,
            hint="USING (VALUES (1, 'a'), (2, 'b')) AS s (id, name). A pump merges the rows of a query.",
        )
    if statement.columns:
        distinct_names(statement.columns)
        if len(statement.columns) != len(row_type):
            raise StatementError(
                f"{len(statement.columns)} names are given for {len(row_type)} columns",
                span=statement.columns[0].place,
            )
        named = zip(row_type, statement.columns, strict=True)
        row_type = RowType(tuple(Field(name.text, field.type, field.nullable) for field, name in named))
    return row_type, rows


class _Branch:
    """One WHEN of a MERGE, over rows of the target with the columns of the source after them."""

    def __init__(self, held: _Held, scope: NameScope, syntax: MergeBranch) -> None:
        self.matched = syntax.matched
        of_source = NameScope(scope.bindings[1:])
        read = scope if syntax.matched else of_source
        self.holds = held.condition(read, syntax.condition, "WHEN")
        self._action = syntax.action
        self._change = held.changed(scope, syntax.changes)
        self._values = dict(_inserted_values(held, of_source, syntax)) if syntax.action == "INSERT" else {}
        self._width = len(held.table.row_type)
        self._defaults = dict(held.table.defaults)

    def applied(self, row: Row, pair: Row) -> Row | None:
        """Return the row of the target after this branch; None if it is deleted."""
        if self._action == "DELETE":
            return None
        return self._change(row, pair) if self._action == "UPDATE" else row

    def inserted(self, pair: Row) -> Row:
        """Return the new row of the target."""
        defaults = self._defaults
        return tuple(
            self._values[at](pair) if at in self._values else defaults.get(at) for at in range(self._width)
        )

    @property
    def acts(self) -> bool:
        """Whether it does something."""
        return self._action != "NOTHING"


def _inserted_values(held: _Held, scope: NameScope, syntax: MergeBranch) -> Iterator[tuple[int, _Value]]:
    row_type = held.table.row_type
    distinct_names(syntax.columns)
    positions: Sequence[int] = range(len(row_type))
    if syntax.columns:
        positions = [column_index(row_type, name, held.shown) for name in syntax.columns]
    if len(positions) != len(syntax.values):
        raise StatementError(
            f'{len(syntax.values)} values are given, "{held.shown}" takes {len(positions)}',
            span=syntax.values[0].place,
        )
    for at, each in zip(positions, syntax.values, strict=True):
        yield at, held.value(scope, at, each, "VALUES")


def _first(branches: Sequence[_Branch], pair: Row, *, matched: bool) -> _Branch | None:
    """Return the first branch that holds for a pair; None if none does, or it does nothing."""
    for each in branches:
        if each.matched is matched and each.holds(pair):
            return each if each.acts else None
    return None


CHANGED: Mapping[type, str] = {
    Update: "updated",
    Delete: "deleted",
    Truncate: "deleted",
    MergeInto: "merged",
}
"""How a prompt names what each statement does to rows."""
