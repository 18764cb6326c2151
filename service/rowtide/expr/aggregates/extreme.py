"""MIN and MAX, the value beside them (MAX_BY and MIN_BY), and the greatest values (TOPK)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import islice
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
from rowtide.expr.ascending import is_nan
from rowtide.expr.functions.pairs import key_of
from rowtide.rows.types import Type, array_of


def _pair(argument: Type | None) -> Type | None:
    return argument if argument is not None and argument.is_binary else None


def _greatest(call: Calling, values: Sequence[Any]) -> object:
    del call
    return max(values, key=key_of)


def _least(call: Calling, values: Sequence[Any]) -> object:
    """Return the first pair with the least key; NaN only if there is nothing else."""
    del call
    return min(values, key=lambda pair: (not key_of(pair), key_of(pair)))


MOST_VALUES = 1_000
"""The most values that TOPK returns. Each row out has an array of them, and an open group keeps as many."""


def _array(argument: Type | None) -> Type | None:
    return array_of(argument) if argument is not None and argument.can_be_element else None


def _top(call: Calling, values: Sequence[Any]) -> object:
    """Return the greatest values, the greatest first.

    A zero has no sign, so the order of rows changes no bit. All NaN are one object, so arrays of them are equal.
    """
    found = islice(reversed(values), call.number)
    if isinstance(values[0], float):
        return tuple(math.nan if is_nan(value) else value + 0.0 for value in found)
    return tuple(found)


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
    Aggregate(
        "TOPK",
        "ARRAY: the `k` greatest values, the greatest first; equal ones are one value of TOPK_DISTINCT",
        _array,
        written=("TOPK(x, k)", "TOPK_DISTINCT(x, k)"),
        few_of_rows=True,
        takes_number=MOST_VALUES,
        of_values=_top,
        ascending=True,
    ),
)
