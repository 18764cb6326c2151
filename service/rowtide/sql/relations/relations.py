"""Data of the planner: planned relations, and queries without their last projection."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from rowtide.errors import SourceSpan, StatementError
from rowtide.expr.functions import MAY_BE_NULL
from rowtide.expr.tree import (
    AggregateCall,
    BodyCall,
    Call,
    Expr,
    FieldRef,
    Literal,
    PythonCall,
    ResultCall,
    RowtimeRef,
)
from rowtide.plan.narrow import narrowed
from rowtide.plan.nodes import Node, Project
from rowtide.rows.types import BOOLEAN, Field, RowType
from rowtide.rowtime.period import Period
from rowtide.sql.expressions.conversions import UNTYPED_NULL
from rowtide.sql.grammar.suggestions import did_you_mean_or_all
from rowtide.sql.grammar.syntax import Name

_UNNAMED = "EXPR$"
"""The names of columns without a name begin with this, as in Calcite."""


@dataclass(frozen=True, slots=True)
class Planned:
    """A planned relation. ``changelog``: its rows are changes of a table, with opcodes.

    Its last ``hidden`` fields are pseudo-columns.
    """

    node: Node
    changelog: bool
    hidden: int = 0


@dataclass(frozen=True, slots=True)
class SelectOutput:
    """One item of a select list. ``is_rowtime``: the plain ROWTIME, which is not a field of a view.

    ``named``: the name comes from AS.
    """

    name: str
    expr: Expr
    nullable: bool
    place: SourceSpan
    is_rowtime: bool = False
    named: bool = False


@dataclass(frozen=True, slots=True)
class Closed:
    """The period of a query's rows: all rows of one period have its end as ROWTIME.

    ``column`` is the field of the period; None: the period is the plain ROWTIME.
    """

    period: Period
    column: int | None


@dataclass(frozen=True, slots=True)
class QueryShape:
    """A query without its last projection: ``outputs`` are over the rows of ``node``.

    ``closed`` is set if the query groups by a period and selects it. ``order`` is the order of a table's
    rows, with the last outputs as keys: for each key whether it descends.
    """

    node: Node
    outputs: tuple[SelectOutput, ...]
    changelog: bool
    place: SourceSpan
    closed: Closed | None = None
    order: tuple[bool, ...] = ()

    @property
    def fields(self) -> tuple[SelectOutput, ...]:
        """The outputs that are fields of a view."""
        return tuple(output for output in self.outputs if not output.is_rowtime)


def unnamed(position: int) -> str:
    """Return the name of a column whose expression gives it none."""
    return f"{_UNNAMED}{position}"


def is_unnamed(output: SelectOutput) -> bool:
    """Return whether neither AS nor the expression names a column."""
    return output.name.startswith(_UNNAMED) and not output.named


def renamed(shape: QueryShape, names: Sequence[Name], what: str = "the view") -> QueryShape:
    """Rename the columns of a view's query by the view's column list; ``what`` is the kind of the definition.

    Raises:
      StatementError: there are more or fewer names than columns.
    """
    if not names:
        return shape
    fields = shape.fields
    if len(fields) != len(names):
        raise StatementError(
            f"{what} names {len(names)} columns, its query returns {len(fields)}", span=names[0].place
        )
    given = [
        replace(field, name=name.text, place=name.place) for field, name in zip(fields, names, strict=True)
    ]
    return replace(shape, outputs=tuple(given))


def told_apart(outputs: Sequence[SelectOutput]) -> tuple[SelectOutput, ...]:
    """Return the columns with numbers after repeated names, unless the names come from AS: K, K0, K1.

    So ``SELECT STREAM *`` of a join has all columns of both sides, as in Calcite.
    """
    taken = {output.name for output in outputs if output.named}
    found = []
    for output in outputs:
        name = output.name
        if not output.named and not output.is_rowtime:
            number = 0
            while name in taken:
                name, number = f"{output.name}{number}", number + 1
            taken.add(name)
        found.append(replace(output, name=name))
    return tuple(found)


def projected(shape: QueryShape, relation: str) -> Node:
    """Return the node whose rows are exactly the fields of ``shape``.

    Raises:
      StatementError: two fields have one name, one is an untyped NULL, or there are none.
    """
    fields = shape.fields
    if not fields:
        raise StatementError("the select list has no column besides ROWTIME", span=shape.place)
    seen: set[str] = set()
    for field in fields:
        if field.expr == UNTYPED_NULL:
            raise StatementError("NULL has no type here", span=field.place, hint="Write CAST(NULL AS type).")
        if field.name in seen:
            raise StatementError(
                f'column "{field.name}" appears twice in the select list',
                span=field.place,
                hint="Rename one of them with AS.",
            )
        seen.add(field.name)
    row_type = RowType(tuple(Field(field.name, field.expr.type, field.nullable) for field in fields))
    return project(relation, shape.node, tuple(field.expr for field in fields), row_type)


def project(relation: str, node: Node, expressions: tuple[Expr, ...], row_type: RowType) -> Node:
    """Return a Project, or ``node`` if a Project changes nothing. Joins keep only the fields that it reads."""
    same = tuple(FieldRef(index, field.type) for index, field in enumerate(node.row_type))
    if expressions == same and row_type == node.row_type:
        return node
    return narrowed(Project(relation, node, expressions, row_type))


def substitute(expr: Expr, replaced: dict[Expr, Expr]) -> Expr:
    """Replace some expressions by others everywhere in ``expr``."""
    if expr in replaced:
        return replaced[expr]
    if isinstance(expr, Call):
        return replace(expr, args=tuple(substitute(arg, replaced) for arg in expr.args))
    return expr


def conjunction(conditions: Sequence[Expr]) -> Expr | None:
    """Connect conditions with AND; return None if there are none."""
    found = None
    for each in conditions:
        found = each if found is None else Call("AND", (found, each), BOOLEAN)
    return found


def shifted(expr: Expr, start: int, by: int) -> Expr:
    """Move the fields from ``start`` on by ``by`` positions."""
    match expr:
        case FieldRef(index=index) if index >= start:
            return replace(expr, index=index + by)
        case Call(args=args):
            return replace(expr, args=tuple(shifted(arg, start, by) for arg in args))
        case _:
            return expr


def unique_names(names: Sequence[str]) -> list[str]:
    """Make names distinct: a repeated name gets a number."""
    given: list[str] = []
    for name in names:
        candidate, number = name, 2
        while candidate in given:
            candidate, number = f"{name}${number}", number + 1
        given.append(candidate)
    return given


def can_be_null(expr: Expr, row_type: RowType) -> bool:
    """Return whether an expression over rows of ``row_type`` can be NULL."""
    match expr:
        case Literal(value=value):
            return value is None
        case RowtimeRef():
            return False
        case FieldRef(index=index):
            return row_type[index].nullable
        case Call(function="IS NULL" | "$ARGUMENTS"):
            return False
        case PythonCall() | BodyCall() | ResultCall():
            return True
        case Call(function="COALESCE", args=args):
            return all(can_be_null(arg, row_type) for arg in args)
        case Call(function="CASE", args=args):
            return any(can_be_null(arg, row_type) for arg in (*args[1:-1:2], args[-1]))
        case Call(function=function, args=args):
            return function in MAY_BE_NULL or any(can_be_null(arg, row_type) for arg in args)


def is_plain_rowtime(expr: Expr) -> bool:
    """Return whether an expression is ROWTIME itself."""
    return isinstance(expr, RowtimeRef)


def aggregate_label(call: AggregateCall, argument_name: str | None) -> str:
    """Return the name of an aggregate's field in the group's row, as EXPLAIN shows it."""
    inner = "*" if call.argument is None else argument_name or "expression"
    return f"{call.function}({'DISTINCT ' if call.distinct else ''}{inner})"


def column_index(row_type: RowType, name: Name, relation: str) -> int:
    """Return the position of column ``name`` of ``relation``.

    Raises:
      StatementError: it does not exist.
    """
    try:
        return row_type.index(name.text)
    except KeyError:
        raise StatementError(
            f'column "{name.text}" of "{relation}" does not exist',
            span=name.place,
            hint=did_you_mean_or_all(name.text, row_type.names),
        ) from None


def distinct_names(names: Iterable[Name]) -> None:
    """Check that no column is named twice.

    Raises:
      StatementError: a column is named twice.
    """
    seen: set[str] = set()
    for name in names:
        if name.text in seen:
            raise StatementError(f'column "{name.text}" appears twice', span=name.place)
        seen.add(name.text)
