"""MIN and MAX."""

from __future__ import annotations

from rowtide.expr.aggregates.aggregate import (
    Aggregate,
    Compiled,
    is_fixed,
    is_plain,
    is_plain_over,
    of_argument,
)

EXTREMES = tuple(
    Aggregate(
        name,
        "the type of `x`",
        of_argument,
        distinct_matters=False,
        few_of_rows=True,
        compiled=Compiled(is_plain, is_fixed, is_fixed, is_plain_over),
    )
    for name in ("MIN", "MAX")
)
