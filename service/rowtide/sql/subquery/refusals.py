"""What sub-queries are refused for, and what to write instead."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

from rowtide.errors import SourceSpan, StatementError
from rowtide.sql.expressions.scope import NameScope
from rowtide.sql.grammar.syntax import Expression, Join, QuerySyntax, Select
from rowtide.sql.grammar.syntax_walk import columns_in


def of_outer_column(query: QuerySyntax, outer: NameScope, error: StatementError) -> StatementError:
    """Return why a FROM is refused, if not for ``error``: a column of the outer query in ON is not unknown."""
    conditions = _conditions_of(query.source) if isinstance(query, Select) else ()
    for each in chain.from_iterable(map(columns_in, conditions)):
        if each.place == error.place and outer.resolves(each):
            return StatementError(
                "ON of a sub-query cannot name a column of the outer query",
                span=each.place,
                hint="Of an inner JOIN, write the equality in WHERE: WHERE own_column = outer.column.",
            )
    return error


def _conditions_of(source: object) -> Iterator[Expression]:
    """Yield the conditions of ON in a FROM clause."""
    if isinstance(source, Join):
        yield from _conditions_of(source.left)
        yield from _conditions_of(source.right)
        yield source.condition


def exists_of_aggregate(select: Select, span: SourceSpan) -> StatementError:
    """Return the refusal of EXISTS over an aggregate without GROUP BY."""
    message = "an aggregate without GROUP BY returns one row, so EXISTS is always TRUE"
    if select.having is not None:
        message = "EXISTS over an aggregate with HAVING is not supported"
    return StatementError(message, span=span, hint="Compare the value: (SELECT COUNT(*) FROM ..) > 1.")


def value_with_having(span: SourceSpan) -> StatementError:
    """Return the refusal of a scalar sub-query with HAVING."""
    return StatementError(
        "a scalar sub-query cannot have HAVING",
        span=span,
        hint="Write CASE WHEN (SELECT COUNT(*) FROM ..) > 1 THEN (SELECT MAX(x) FROM ..) END.",
    )


def of_first_rows(span: SourceSpan) -> StatementError:
    """Return the refusal of DISTINCT or LIMIT in a correlated sub-query."""
    return StatementError(
        "a sub-query with DISTINCT or LIMIT cannot refer to the outer query",
        span=span,
        hint="MAX(x), or MAX_BY(x, y) for the x of the greatest y, is one value of the rows that match.",
    )


def of_a_stream(span: SourceSpan) -> StatementError:
    """Return the refusal of a stream without a window."""
    return StatementError(
        "a sub-query must read tables, this one reads a stream",
        span=span,
        hint="Add a window to the stream: FROM s OVER (RANGE INTERVAL '1' MINUTE PRECEDING) AS s.",
    )
