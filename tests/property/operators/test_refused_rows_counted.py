"""Rows that were refused, against a counter."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from rowtide.operators.table.refused import RefusedRows
from rowtide.rows.rowop import Row

rows = st.tuples(st.sampled_from([None, 1, 2]), st.sampled_from("ab"))


@given(st.lists(st.tuples(st.booleans(), rows)))
def test_as_many_copies_are_taken_as_were_added_and_the_order_is_that_of_the_first(
    steps: list[tuple[bool, Row]],
) -> None:
    refused, counted = RefusedRows(), Counter[Row]()
    for leaves, row in steps:
        if leaves:
            assert refused.take(row) == (counted[row] > 0)
            counted -= Counter([row])
        else:
            refused.add(row)
            counted[row] += 1
        assert list(refused) == list(counted.elements())
        assert list(RefusedRows(refused)) == list(refused)
