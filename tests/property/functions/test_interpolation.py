"""Interpolation that comes with Rowtide, against NumPy."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rowtide.functions.interpolation import Linear

times = st.lists(st.integers(-10_000, 10_000), min_size=1, max_size=12, unique=True).map(sorted)
values = st.floats(-1e6, 1e6, allow_subnormal=False)


def lines(rows: list[tuple[int, float | None]], step: int, longest: int) -> list[tuple[int, float]]:
    """Return what comes out of all rows."""
    function = Linear()
    state, found = function.create(), []
    for time, value in rows:
        state, made = function.add(state, time, value, step, longest)
        found += made
    return found


@given(times, st.data(), st.integers(1, 700))
def test_values_at_all_multiples_are_those_of_numpy(at: list[int], data: st.DataObject, step: int) -> None:
    known = data.draw(st.lists(values, min_size=len(at), max_size=len(at)))
    found = lines(list(zip(at, known, strict=True)), step, longest=20_000)
    wanted = [time for time in range(at[0], at[-1] + 1) if time % step == 0]
    assert [time for time, _ in found] == wanted
    np.testing.assert_allclose([value for _, value in found], np.interp(wanted, at, known), 1e-9, 1e-6)


@given(times, st.data(), st.integers(1, 700), st.integers(0, 3000))
def test_no_line_goes_over_a_longer_gap(at: list[int], data: st.DataObject, step: int, longest: int) -> None:
    known = data.draw(st.lists(values, min_size=len(at), max_size=len(at)))
    found = {time for time, _ in lines(list(zip(at, known, strict=True)), step, longest)}
    bridged = set(at)
    for start, end in pairwise(at):
        if end - start <= longest:
            bridged.update(range(start, end + 1))
    assert found == {time for time in bridged if time % step == 0}


@given(times, st.data())
def test_rows_without_a_value_change_nothing(at: list[int], data: st.DataObject) -> None:
    rows = [(time, data.draw(values | st.none())) for time in at]
    some = [each for each in rows if each[1] is not None]
    assert lines(rows, 100, 5000) == lines(some, 100, 5000)


def test_of_rows_at_one_time_the_last_one_begins_the_next_line() -> None:
    assert lines([(0, 1.0), (0, 3.0), (20, 5.0)], 10, 100) == [(0, 1.0), (10, 4.0), (20, 5.0)]


def test_a_step_is_above_zero() -> None:
    with pytest.raises(ValueError, match="above zero"):
        Linear().add((), 0, 1.0, 0, 1)
