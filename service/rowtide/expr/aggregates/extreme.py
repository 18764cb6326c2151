"""MIN and MAX, and the value beside them: MAX_BY and MIN_BY."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rowtide.expr.aggregates.aggregate import (
    Aggregate,
    Calling,
    Compiled,
    is_fixed,
    is_plain,
    is_plain_over,
    of_argument,
)
from rowtide.expr.functions.pairs import key_of
from rowtide.rows.types import Type


def _pair(argument: Type | None) -> Type | None:
    return argument if argument is not None and argument.is_binary else None


def _greatest(call: Calling, values: Sequence[Any]) -> object:
    del call
    return max(values, key=key_of)


def _least(call: Calling, values: Sequence[Any]) -> object:
    """Return the first pair with the least key; NaN only if there is nothing else."""
    del call
    return min(values, key=lambda pair: (not key_of(pair), key_of(pair)))


EXTREMES = (
    *(
        Aggregate(
            name,
            "the type of `x`",
            of_argument,
            distinct_matters=False,
            few_of_rows=True,
            compiled=Compiled(is_plain, is_fixed, is_fixed, is_plain_over),
        )
        for name in ("MIN", "MAX")
    ),
    *(
        Aggregate(
            name,
            "the type of `x`: `x` of the first row with the greatest or the least `y`",
            _pair,
            written=(f"{name}(x, y)", f"{spelling}(x, y)"),
            spellings=(name, spelling),
            distinct_matters=False,
            order_matters=True,
            few_of_rows=True,
            of_values=of_values,
            folds=True,
            pair_of="$BY",
        )
        for name, spelling, of_values in (("MAX_BY", "ARG_MAX", _greatest), ("MIN_BY", "ARG_MIN", _least))
    ),
)
