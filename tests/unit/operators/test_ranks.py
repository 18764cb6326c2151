"""Ranks of origins: those that enter go by their order, all others come after them."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from rowtide.operators.merge.ranks import Ranks

ORIGINS = st.lists(st.integers(0, 9), max_size=12)


@given(ORIGINS, ORIGINS)
def test_each_origin_has_the_place_at_which_it_enters(entering: list[int], asked: list[int]) -> None:
    ranks = Ranks(entering)
    order = list(dict.fromkeys(entering))
    expected = [order.index(each) if each in order else len(order) for each in asked] if order else asked
    assert ranks.of(np.array(asked, dtype=np.int32)).tolist() == expected
