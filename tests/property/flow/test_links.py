"""The watch on links finds what no link may do."""

from __future__ import annotations

import pytest

from property.flow.links import Link
from rowtide.rows.rowop import Opcode, TimedRow
from rowtide.rows.tray import Tray
from rowtide.rows.types import BIGINT, Field, RowType
from rowtide.rowtime.bound import Bound

FIRST, SECOND = 7, 3
"""Two origins, in their order at one rowtime."""


def one(rowtime: int, origin: int, counter: int) -> Tray:
    row = TimedRow(rowtime, origin, counter, Opcode.INSERT, (1,))
    return Tray.from_rows(RowType((Field("N", BIGINT),)), [row])


@pytest.mark.parametrize(
    ("second", "bound", "answer"),
    [
        (one(5, SECOND, 0), Bound(5, FIRST, 4), "have passed"),
        (one(5, FIRST, 3), Bound(5), "breaks"),
        (one(4, SECOND, 0), Bound(5), "out of order"),
        (None, Bound(5), "goes back"),
        (None, Bound(5, FIRST, 2), "goes back"),
    ],
)
def test_a_link_that_breaks_its_word_is_found(second: Tray | None, bound: Bound, answer: str) -> None:
    link = Link("link", (FIRST, SECOND))
    link.take(one(5, FIRST, 3), Bound(5, FIRST, 3))
    with pytest.raises(AssertionError, match=answer):
        link.take(second, bound)


def test_a_place_that_is_divided_is_found() -> None:
    link = Link("link", (FIRST, SECOND))
    link.take(one(5, FIRST, 3), Bound(5))
    with pytest.raises(AssertionError, match="has the place of a row of the tray before"):
        link.take(one(5, FIRST, 3), Bound(5))


def test_a_link_that_keeps_its_word_is_not_found_wrong() -> None:
    link = Link("link", (FIRST, SECOND))
    link.take(one(5, FIRST, 3), Bound(5, FIRST, 3))
    link.take(one(5, FIRST, 4), Bound(5, FIRST, 3))
    link.take(one(5, SECOND, 0), Bound(5, SECOND, 0))
    link.take(one(6, FIRST, 5), Bound(5, SECOND, 0))
