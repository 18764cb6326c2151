"""WHERE x IN (SELECT y FROM table): the rows of a stream that have their match in a table at their ROWTIME.

Each such condition becomes a join with the values of the query, each once, which adds no column.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from rowtide.errors import StatementError
from rowtide.plan.nodes import JoinKind
from rowtide.rows.types import RowType
from rowtide.sql.changes import distinct_changes
from rowtide.sql.objects import Retention
from rowtide.sql.relations import Planned, Shape, projected
from rowtide.sql.scope import Binding
from rowtide.sql.syntax import Binary, ColumnRef, Expression, InQuery, Join, Name, Select


@dataclass(frozen=True, slots=True)
class Members:
    """The conditions of a WHERE that are IN with a query, and what is left of it."""

    conditions: tuple[InQuery, ...]
    where: Expression | None


def members_of(where: Expression | None) -> Members:
    """Take the INs with a query out of what AND connects."""
    found: list[InQuery] = []
    kept: Expression | None = None
    pending = [] if where is None else [where]
    while pending:
        each = pending.pop()
        if isinstance(each, Binary) and each.operator == "AND":
            pending += [each.right, each.left]
        elif isinstance(each, InQuery) and not each.negated:
            found.append(each)
        else:
            kept = each if kept is None else Binary("AND", kept, each, each.place)
    return Members(tuple(found), kept)


def values_of(condition: InQuery, shape: Shape, relation: str, retention: Retention | None) -> Planned:
    """Give the values that a condition asks for, each once.

    Raises:
      StatementError: the query reads no table, or gives more than one column.
    """
    if not shape.changelog:
        raise StatementError(
            "IN takes a query over a table", place=condition.place, hint="Join with the stream instead."
        )
    if len(shape.fields) != 1:
        raise StatementError(
            f"IN takes a query of one column, this one gives {len(shape.fields)}", place=condition.place
        )
    return Planned(projected(distinct_changes(shape, relation, retention), relation), changelog=True)


def condition_join(condition: InQuery, select: Select, number: int, values: Planned) -> tuple[Join, Binding]:
    """Give a join for a condition, and the relation that its values are: nothing of it can be named."""
    name = f"$IN{number}"
    (field,) = values.node.row_type
    binding = Binding((name,), RowType((replace(field, name=name),)), 0, has_rowtime=False, hidden=1)
    column = ColumnRef((Name(name), Name(name)), condition.place)
    equal = Binary("=", condition.operand, column, condition.place)
    return Join(select.source, select.source, JoinKind.INNER.value, equal, condition.place), binding
