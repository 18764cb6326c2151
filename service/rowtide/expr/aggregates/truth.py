"""EVERY, BOOL_AND and BOOL_OR."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from rowtide.expr.aggregates.aggregate import Aggregate, Calling, Compiled, is_plain_over
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
