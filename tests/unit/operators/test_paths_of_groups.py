"""What EXPLAIN says of aggregates over groups is what their accumulators are."""

from __future__ import annotations

from itertools import product

import pytest

from rowtide.expr.tree import AggregateCall, FieldRef
from rowtide.operators.aggregates.group_spreads import SpreadsInKernels
from rowtide.operators.aggregates.groups.accumulators import Objects, make_accumulator
from rowtide.operators.aggregates.groups.distinct import DistinctAccumulator
from rowtide.operators.aggregates.groups.group_functions import Spreads, ValueLists
from rowtide.plan.calls import has_accumulator
from rowtide.rows.types import BIGINT, DOUBLE, INTEGER, TIMESTAMP, VARCHAR, Kind, Type, decimal

FUNCTIONS = ("COUNT", "SUM", "AVG", "MIN", "MAX", "VAR_POP", "STDDEV_SAMP", "FIRST_VALUE", "MODE", "LISTAGG")
OF_NUMBERS = ("SUM", "AVG", "VAR_POP", "STDDEV_SAMP")
NUMBERS: tuple[Type, ...] = (INTEGER, BIGINT, Type(Kind.REAL), DOUBLE, decimal(10, 2), decimal(30, 2))
TYPES: tuple[Type, ...] = (*NUMBERS, TIMESTAMP, VARCHAR)


def results(function: str, of: Type) -> Type:
    return {"COUNT": BIGINT, "SUM": of, "LISTAGG": VARCHAR}.get(function, of)


@pytest.mark.parametrize(
    ("function", "of"),
    [(name, of) for name, of in product(FUNCTIONS, TYPES) if of in NUMBERS or name not in OF_NUMBERS],
)
def test_the_path_that_is_told_is_the_one_that_is_taken(function: str, of: Type) -> None:
    call = AggregateCall(function, FieldRef(0, of), results(function, of))
    made = make_accumulator(call)
    assert not isinstance(made, DistinctAccumulator)
    plain = isinstance(made, Objects | Spreads | ValueLists) and not isinstance(made, SpreadsInKernels)
    assert has_accumulator(call) is not plain
