"""PRODUCT keeps a bounded number of bits: a value that makes it longer does not fit, in any form of the aggregate."""

from __future__ import annotations

import numpy as np
import pytest

from rowtide.errors import Reason, RejectedRowError
from rowtide.expr.aggregates import sum as sums
from rowtide.expr.tree import AggregateCall, FieldRef
from rowtide.operators.aggregates.changes import change_functions
from rowtide.operators.aggregates.groups.accumulators import Accumulator, make_accumulator, why_not
from rowtide.rows.column import Column
from rowtide.rows.types import BIGINT, DOUBLE, Field, RowType

FITS, LARGE = 3**20, 3**39
"""Numbers of 32 and 62 bits: the product of both has 94, that of two large ones 124."""


def call_of(*, distinct: bool) -> AggregateCall:
    return AggregateCall("PRODUCT", FieldRef(0, BIGINT), DOUBLE, distinct, None, False, None)


def fits(accumulator: Accumulator, values: list[int], *, adds: bool = False) -> bool:
    """Return whether values fit the only group; if so, add them if ``adds``."""
    column = Column.from_values(BIGINT, values)
    groups, use = np.zeros(len(values), dtype=np.int64), np.ones(len(values), dtype=np.bool_)
    found = accumulator.fits(groups, column, use)
    if found and adds:
        accumulator.add(groups, column, use)
    return found


@pytest.mark.parametrize("distinct", [False, True])
def test_a_group_takes_no_value_that_makes_the_product_too_long(
    monkeypatch: pytest.MonkeyPatch, *, distinct: bool
) -> None:
    monkeypatch.setattr(sums, "MOST_PRODUCT_BITS", 100)
    accumulator = make_accumulator(call_of(distinct=distinct))
    accumulator.reserve(1)
    assert not fits(accumulator, [LARGE, 3**38])
    assert fits(accumulator, [LARGE, FITS], adds=True)
    assert not fits(accumulator, [4, 3**19])
    assert why_not(accumulator).reason is Reason.OVERFLOW
    assert not fits(accumulator, [0, 3**19])
    assert fits(accumulator, [4, -1], adds=True)
    assert accumulator.results(1).to_list() == [float(-4 * LARGE * FITS)]


@pytest.mark.parametrize("of_changes", [False, True])
def test_a_value_that_makes_a_product_too_long_is_taken_back(
    monkeypatch: pytest.MonkeyPatch, *, of_changes: bool
) -> None:
    monkeypatch.setattr(sums, "MOST_PRODUCT_BITS", 100)
    row_type = RowType((Field("N", BIGINT),))
    function = change_functions.make(call_of(distinct=False), row_type, of_changes=of_changes)
    function.add(LARGE)
    function.add(LARGE)
    with pytest.raises(RejectedRowError, match="an aggregate is out of range for its type"):
        function.result()
    function.drop(LARGE)
    function.add(FITS)
    assert function.result() == float(LARGE * FITS)
