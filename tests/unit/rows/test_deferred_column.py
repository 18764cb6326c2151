from __future__ import annotations

import numpy as np

from rowtide.rows.column import Column
from rowtide.rows.deferred import DeferredColumn, deferred_take
from rowtide.rows.types import VARCHAR


class Maker:
    """Makes a column, and counts how often."""

    def __init__(self) -> None:
        self.made = 0

    def __call__(self) -> Column:
        self.made += 1
        return Column.from_values(VARCHAR, ["a", None, "c"])


def test_a_column_that_nobody_reads_is_not_made() -> None:
    maker = Maker()
    column = DeferredColumn(VARCHAR, 3, maker)
    taken = deferred_take(column, np.array([2, 0], dtype=np.int64)).take(np.array([1], dtype=np.int64))
    assert (len(column), len(taken), maker.made) == (3, 1, 0)


def test_a_column_is_made_once() -> None:
    maker = Maker()
    column = DeferredColumn(VARCHAR, 3, maker)
    taken = column.take(np.array([2, 1], dtype=np.int64))
    assert taken.to_list() == ["c", None]
    assert column.to_list() == ["a", None, "c"]
    assert column.slice(1, 3).to_list() == [None, "c"]
    assert maker.made == 1
