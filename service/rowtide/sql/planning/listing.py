"""Queries that are asked once, by themselves: their rows are listed in an order, up to a limit."""

from __future__ import annotations

from dataclasses import dataclass, replace

from rowtide.plan.nodes import Node
from rowtide.sql.grammar.syntax import QuerySyntax, Select


@dataclass(frozen=True, slots=True)
class Listing:
    """A query whose rows are listed, sorted by its last fields; for each of them whether it descends.

    ``changes``: its rows are changes, some of which retract others. ``limit``: the first so many rows are listed; one
    of an ORDER BY is part of ``node``. ``is_committed``: of a pipeline it reads nothing but foreign tables.
    """

    node: Node
    changes: bool
    order: tuple[bool, ...] = ()
    limit: int | None = None
    is_committed: bool = False


def without_limit(query: QuerySyntax) -> tuple[QuerySyntax, int | None]:
    """Return a query without a LIMIT that counts the rows as they come, and this LIMIT.

    It needs no period, as the query is asked once. One of an ORDER BY, or with OFFSET, stays.
    """
    if not isinstance(query, Select) or query.limit is None or query.order_by or query.limit.offset:
        return query, None
    return replace(query, limit=None), query.limit.count
