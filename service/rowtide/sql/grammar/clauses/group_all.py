"""GROUP BY ALL: by each item of the select list that is computed of columns without an aggregate."""

from __future__ import annotations

from collections.abc import Sequence

from rowtide.errors import StatementError
from rowtide.sql.grammar.syntax import Expression, SelectItem, StarItem, names_aggregate
from rowtide.sql.grammar.syntax_walk import calls_in, columns_in


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
                place=item.place,
                hint="Write the columns and aggregates one by one.",
            )
        aggregated = any(call.over is not None or names_aggregate(call) for call in calls_in(item.expression))
        if not aggregated and any(columns_in(item.expression)):
            keys.append(item.expression)
    return tuple(keys)
