"""Forms of SELECT of other systems: GROUP BY ALL and DISTINCT ON. See docs/sql/select.md and docs/sql/group-by.md."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from rowtide.errors import SourceSpan, StatementError
from rowtide.sql.grammar.syntax import (
    Binary,
    Expression,
    FunctionCall,
    NumberLiteral,
    OrderItem,
    Select,
    SelectItem,
    StarItem,
    WindowSpec,
    names_aggregate,
)
from rowtide.sql.grammar.syntax_walk import calls_in, columns_in

_HINT = "Write SELECT DISTINCT ON (k) k, x FROM t ORDER BY k, at DESC."


def first_of_each(
    select: Select, keys: tuple[Expression, ...], order: tuple[OrderItem, ...], span: SourceSpan
) -> Select:
    """Return the query of DISTINCT ON as the QUALIFY that keeps the first row of each of ``keys``.

    ORDER BY begins with them, as in PostgreSQL.

    Raises:
      StatementError: ORDER BY does not say which row is the first one, or the query has QUALIFY.
    """
    if select.qualify is not None:
        raise StatementError("a query has DISTINCT ON or QUALIFY, not both", span=span, hint=_HINT)
    leading, rest = order[: len(keys)], order[len(keys) :]
    if not rest or {item.expression for item in leading} != set(keys):
        raise StatementError(
            "DISTINCT ON needs ORDER BY its columns, and then what says which row is the first one",
            span=span,
            hint=_HINT,
        )
    (first, *more) = rest
    ascending = not more and not first.descending and first.nulls_first is None
    window = WindowSpec(
        None, keys, first.expression if ascending else None, None, span, () if ascending else rest
    )
    number = FunctionCall("ROW_NUMBER", (), span, over=window)
    return replace(select, distinct=False, qualify=Binary("=", number, NumberLiteral("1", span), span))


def keys_of(items: Sequence[SelectItem | StarItem]) -> tuple[Expression, ...]:
    """Return the terms that GROUP BY ALL means.

    Raises:
      StatementError: the list has a *, which groups do not have.
    """
    keys = []
    for item in items:
        if isinstance(item, StarItem):
            raise StatementError(
                "GROUP BY ALL needs a list of columns, not *",
                span=item.place,
                hint="Write the columns and aggregates one by one.",
            )
        aggregated = any(call.over is not None or names_aggregate(call) for call in calls_in(item.expression))
        if not aggregated and any(columns_in(item.expression)):
            keys.append(item.expression)
    return tuple(keys)
