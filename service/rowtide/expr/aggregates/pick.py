"""Values by their place: FIRST_VALUE and its like, ANY_VALUE, LAG and LEAD."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from rowtide.expr.aggregates.aggregate import (
    Aggregate,
    Calling,
    CallingOver,
    Compiled,
    Family,
    FrameShape,
    always,
    of_argument,
)

MOST_RUNNING_PLACES = 64
"""The most values that a compiled frame without a start keeps per partition for NTH_VALUE and LAG."""


def _over(call: CallingOver, frame: FrameShape) -> bool:
    return not frame.endless or call.number <= MOST_RUNNING_PLACES


def _first(call: Calling, values: Sequence[Any]) -> object:
    del call
    return values[0]


def _last(call: Calling, values: Sequence[Any]) -> object:
    del call
    return values[-1]


_FIRST = Aggregate(
    "FIRST_VALUE",
    "the type of `x`: NULLs count, except with `IGNORE NULLS`",
    of_argument,
    Family.PLACE,
    distinct_matters=False,
    order_matters=True,
    few_of_rows=True,
    compiled=Compiled(group=always, window=_over),
    of_values=_first,
    folds=True,
)
_SHIFTED = replace(_FIRST, in_groups=False, of_values=None, folds=False, compiled=Compiled(window=_over))

PICKS = (
    _FIRST,
    replace(_FIRST, name="LAST_VALUE", of_values=_last),
    replace(
        _FIRST,
        name="ANY_VALUE",
        summary="the type of `x`: the first value that is not NULL",
        family=Family.VALUES,
    ),
    replace(_SHIFTED, name="NTH_VALUE", summary="the n-th value of the frame", written=("NTH_VALUE(x, n)",)),
    replace(_SHIFTED, name="LAG", summary="the value n rows before", written=("LAG(x [, n [, default]])",)),
    replace(_SHIFTED, name="LEAD", summary="the value n rows after", written=("LEAD(x [, n [, default]])",)),
)
