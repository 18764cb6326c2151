"""And and or: EVERY, BOOL_AND and BOOL_OR of truth values, BIT_AND, BIT_OR and BIT_XOR of integers."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import reduce
from typing import Any

from rowtide.expr.aggregates.aggregate import Aggregate, Calling, Compiled, OfValues, is_plain_over
from rowtide.rows.types import Kind, Type


def _boolean(argument: Type | None) -> Type | None:
    return argument if argument is not None and argument.kind is Kind.BOOLEAN else None


def _all(call: Calling, values: Sequence[Any]) -> object:
    del call
    return all(values)


def _any(call: Calling, values: Sequence[Any]) -> object:
    del call
    return any(values)


_EVERY = Aggregate(
    "EVERY",
    "BOOLEAN",
    _boolean,
    distinct_matters=False,
    compiled=Compiled(window=is_plain_over),
    of_values=_all,
    folds=True,
)

TRUTHS = (_EVERY, replace(_EVERY, name="BOOL_AND"), replace(_EVERY, name="BOOL_OR", of_values=_any))


def _integer(argument: Type | None) -> Type | None:
    return argument if argument is not None and argument.is_integer else None


def _all_of(join: Callable[[int, int], int]) -> OfValues:
    def joined(call: Calling, values: Sequence[Any]) -> object:
        del call
        return reduce(join, values)

    return joined


BITS = tuple(
    Aggregate(
        name,
        "the type of `x`, an integer: and, or, exclusive or of its bits",
        _integer,
        distinct_matters=name == "BIT_XOR",
        few_of_rows=True,
        of_values=_all_of(join),
        folds=True,
    )
    for name, join in (("BIT_AND", operator.and_), ("BIT_OR", operator.or_), ("BIT_XOR", operator.xor))
)
