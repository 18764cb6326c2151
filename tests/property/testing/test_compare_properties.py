from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from rowtide.rows.types import DOUBLE, INTEGER, Field, RowType
from rowtide.testing.compare import ANY, ActualRow, ExpectedRow, RowComparison

ROW = RowType((Field("A", INTEGER), Field("B", INTEGER)))
small = st.integers(0, 2) | st.none()
rows = st.lists(st.tuples(small, small), max_size=6)
cell = small | st.just(ANY)
wanted_rows = st.lists(st.tuples(cell, cell), max_size=6)


def outcome(row: tuple[object, ...]) -> ActualRow:
    return ActualRow(0, row)


def wish(row: tuple[object, ...]) -> ExpectedRow:
    return ExpectedRow(0, row)


def fits(want: tuple[object, ...], got: tuple[object, ...]) -> bool:
    return all(value is ANY or value == actual for value, actual in zip(want, got, strict=True))


def can_be_matched(wanted: list[tuple[object, ...]], given_rows: list[tuple[object, ...]]) -> int:
    """The most pairs that can be made, by trying everything."""
    if not wanted:
        return 0
    first, rest = wanted[0], wanted[1:]
    best = can_be_matched(rest, given_rows)
    for index, row in enumerate(given_rows):
        if fits(first, row):
            best = max(best, 1 + can_be_matched(rest, given_rows[:index] + given_rows[index + 1 :]))
    return best


@given(wanted_rows, rows)
def test_in_any_order_as_many_rows_match_as_can(wanted: list[Any], given_rows: list[Any]) -> None:
    matched = RowComparison(ROW).as_multiset(
        [wish(row) for row in wanted], [outcome(row) for row in given_rows]
    )
    pairs = [(want, got) for want, got in matched.pairs if want is not None and got is not None]
    assert len(pairs) == can_be_matched(wanted, given_rows)
    assert all(fits(want.values, got.row) for want, got in pairs)
    assert matched.is_equal == (len(pairs) == len(wanted) == len(given_rows))


@given(wanted_rows, rows)
def test_in_order_rows_are_equal_only_one_by_one(wanted: list[Any], given_rows: list[Any]) -> None:
    matched = RowComparison(ROW).in_order([wish(row) for row in wanted], [outcome(row) for row in given_rows])
    equal = len(wanted) == len(given_rows) and all(map(fits, wanted, given_rows))
    assert matched.is_equal == equal


@given(wanted_rows, rows, st.booleans())
def test_every_row_of_both_sides_is_shown_once(
    wanted: list[Any], given_rows: list[Any], ordered: bool
) -> None:
    comparison = RowComparison(ROW)
    compare = comparison.in_order if ordered else comparison.as_multiset
    matched = compare([wish(row) for row in wanted], [outcome(row) for row in given_rows])
    assert [want.values for want, _ in matched.pairs if want is not None] == wanted
    shown = [got.row for _, got in matched.pairs if got is not None]
    assert shown == given_rows if ordered else sorted(map(repr, shown)) == sorted(map(repr, given_rows))


@given(st.floats(allow_nan=True), st.floats(0, 0.5))
def test_a_float_is_within_any_tolerance_of_itself(value: float, tolerance: float) -> None:
    comparison = RowComparison(RowType((Field("X", DOUBLE),)), tolerance)
    for compare in (comparison.in_order, comparison.as_multiset):
        assert compare([ExpectedRow(0, (value,))], [ActualRow(0, (value,))]).is_equal
