"""Sub-queries in ON: looked up for the rows of one side before they are joined, or for the joined rows.

A condition that names only one side applies to that side's rows, for any kind of join: if the join does not
keep rows without a match, it filters the rows; otherwise a field has the result of the sub-query. A condition
that names both sides applies to the pairs, so only an inner join supports it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Generic, TypeVar

from rowtide.errors import StatementError
from rowtide.sql.expressions.scope import NameScope
from rowtide.sql.grammar.syntax import BooleanLiteral, Expression, Join
from rowtide.sql.grammar.syntax_walk import columns_in, conjuncts, connected, holds_query

Read = TypeVar("Read")
"""A planned side of a join."""


@dataclass(frozen=True, slots=True)
class Parted(Generic[Read]):
    """A join whose ON has no sub-queries, its sides, and the remaining conditions on joined rows."""

    join: Join
    left: Read
    right: Read
    of_pairs: tuple[Expression, ...]


def parted(
    join: Join,
    sides: tuple[Read, Read],
    scope_of: Callable[[Read], NameScope],
    resolved: Callable[[Expression, Read, bool, Sequence[Expression]], tuple[Expression | None, Read]],
) -> Parted[Read]:
    """Remove the conditions with sub-queries from ON, and join each result with the side that it names.

    ``resolved`` returns a condition without sub-queries and its input rows. If its third argument is True,
    it can drop rows for which the condition is not TRUE. Its last argument has the earlier conditions on
    the same side.

    Raises:
      StatementError: a column of such a condition is ambiguous.
    """
    left, right = sides
    rest: list[Expression] = []
    of_pairs: list[Expression] = []
    scopes = scope_of(left), scope_of(right)
    merged = tuple(each for scope in scopes for each in scope.merged)
    both = NameScope(tuple(each for scope in scopes for each in scope.bindings), merged)
    for each in conjuncts(join.condition):
        if not holds_query(each):
            rest.append(each)
            continue
        for column in columns_in(each):
            both.resolve(column)
        # The side whose rows the join keeps comes last, because those of the other side need not be kept.
        for is_left in (True, False) if join.kind == "RIGHT" else (False, True):
            filters = join.kind in ("INNER", "RIGHT" if is_left else "LEFT")
            side = left if is_left else right
            if not all(scope_of(side).resolves(column) for column in columns_in(each)):
                continue
            try:
                guards = [one for one in rest if all(map(scope_of(side).resolves, columns_in(one)))]
                condition, side = resolved(each, side, filters, guards)
            except StatementError:
                # The sub-query names the other side. Other errors are reported for the joined rows.
                continue
            rest += [] if condition is None else [condition]
            left, right = (side, right) if is_left else (left, side)
            break
        else:
            of_pairs.append(each)
    condition = connected(rest) or BooleanLiteral(True, join.condition.place)
    return Parted(replace(join, condition=condition), left, right, tuple(of_pairs))


def refused_pairs(join: Join, condition: Expression) -> StatementError:
    """Return the error for an outer join with a sub-query that names both sides."""
    return StatementError(
        f"a sub-query in the ON of a {join.kind} JOIN can refer to columns of one of its sides only",
        span=condition.place,
        hint="Write an inner JOIN, or move the sub-query to WHERE of a query around the join.",
    )
