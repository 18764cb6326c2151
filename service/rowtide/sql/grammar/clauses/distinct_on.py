"""DISTINCT ON (k) .. ORDER BY k, x: the first row of each k by x, read as the QUALIFY that keeps it."""

from __future__ import annotations

from dataclasses import replace

from rowtide.errors import SourceSpan, StatementError
from rowtide.sql.grammar.syntax import (
    Binary,
    Expression,
    FunctionCall,
    NumberLiteral,
    OrderItem,
    Select,
    WindowSpec,
)

_HINT = "Write SELECT DISTINCT ON (k) k, x FROM t ORDER BY k, at DESC."


def first_of_each(
    select: Select, keys: tuple[Expression, ...], order: tuple[OrderItem, ...], place: SourceSpan
) -> Select:
    """Return the query of the first row of each of ``keys``, whose ORDER BY begins with them, as in PostgreSQL.

    Raises:
      StatementError: ORDER BY does not say which row is the first one, or the query has QUALIFY.
    """
    if select.qualify is not None:
        raise StatementError("a query has DISTINCT ON or QUALIFY, not both", place=place, hint=_HINT)
    leading, rest = order[: len(keys)], order[len(keys) :]
    if not rest or {item.expression for item in leading} != set(keys):
        raise StatementError(
            "DISTINCT ON needs ORDER BY its columns, and then what says which row is the first one",
            place=place,
            hint=_HINT,
        )
    (first, *more) = rest
    ascending = not more and not first.descending and first.nulls_first is None
    window = WindowSpec(
        None, keys, first.expression if ascending else None, None, place, () if ascending else rest
    )
    number = FunctionCall("ROW_NUMBER", (), place, over=window)
    return replace(select, distinct=False, qualify=Binary("=", number, NumberLiteral("1", place), place))
