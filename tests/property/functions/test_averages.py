"""Averages that come with Rowtide, against pandas and against the equations that define them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rowtide.functions.averages import ByCount, ByHalfLife, Kalman

values = st.floats(-1e6, 1e6, allow_subnormal=False)


def folded(aggregate: Any, rows: list[tuple[Any, ...]]) -> list[float]:
    """Return the result after each row."""
    state = aggregate.create()
    found = []
    for row in rows:
        state = aggregate.add(state, *row)
        found.append(aggregate.result(state))
    return found


@given(st.lists(values, min_size=1, max_size=30), st.integers(1, 20))
def test_an_average_by_count_is_that_of_pandas(numbers: list[float], rows: int) -> None:
    expected = pd.Series(numbers).ewm(span=rows, adjust=False).mean()
    assert folded(ByCount(), [(x, rows) for x in numbers]) == pytest.approx(
        expected.tolist(), rel=1e-9, abs=1e-6
    )


@given(
    st.lists(st.tuples(values, st.integers(0, 100_000)), min_size=1, max_size=30), st.integers(1_000, 100_000)
)
def test_an_average_by_half_life_is_that_of_pandas(timed: list[tuple[float, int]], half_life: int) -> None:
    times = np.cumsum([after for _, after in timed]).tolist()
    numbers = [x for x, _ in timed]
    expected = (
        pd.Series(numbers)
        .ewm(halflife=pd.Timedelta(half_life, "ms"), times=pd.to_datetime(times, unit="ms"))
        .mean()
    )
    rows = [(x, time, half_life) for x, time in zip(numbers, times, strict=True)]
    assert folded(ByHalfLife(), rows) == pytest.approx(expected.tolist(), rel=1e-9, abs=1e-6)


@given(st.lists(st.tuples(values, st.integers(0, 50_000)), min_size=1, max_size=8), st.randoms())
def test_an_average_by_half_life_does_not_depend_on_the_order_of_times(
    timed: list[tuple[float, int]], random: Any
) -> None:
    rows = [(x, time, 10_000) for x, time in timed]
    shuffled = list(rows)
    random.shuffle(shuffled)
    assert folded(ByHalfLife(), shuffled)[-1] == pytest.approx(
        folded(ByHalfLife(), rows)[-1], rel=1e-9, abs=1e-6
    )


variances = st.floats(0.01, 100)


@given(st.lists(st.tuples(st.floats(-1e3, 1e3), variances, variances), min_size=1, max_size=12))
def test_a_kalman_filter_is_the_least_squares_estimate_of_the_last_state(
    rows: list[tuple[float, float, float]],
) -> None:
    # The most likely walk minimizes the squared errors of the measurements and of its steps, each by its variance.
    count = len(rows)
    matrix, right = np.zeros((count, count)), np.zeros(count)
    for at, (x, noise, drift) in enumerate(rows):
        matrix[at, at] += 1 / noise
        right[at] += x / noise
        if at:
            step = 1 / drift
            matrix[at, at] += step
            matrix[at - 1, at - 1] += step
            matrix[at, at - 1] -= step
            matrix[at - 1, at] -= step
    expected = np.linalg.solve(matrix, right)[-1]
    assert folded(Kalman(), rows)[-1] == pytest.approx(expected, rel=1e-6, abs=1e-6)


@given(st.lists(st.tuples(st.floats(-1e3, 1e3), variances), min_size=1, max_size=12))
def test_a_quantity_that_does_not_change_is_estimated_by_the_weighted_mean(
    rows: list[tuple[float, float]],
) -> None:
    expected = np.average([x for x, _ in rows], weights=[1 / noise for _, noise in rows])
    assert folded(Kalman(), [(x, noise, 0.0) for x, noise in rows])[-1] == pytest.approx(
        expected, rel=1e-6, abs=1e-6
    )


@pytest.mark.parametrize(
    ("aggregate", "row"),
    [
        (ByCount(), (1.0, 0)),
        (ByHalfLife(), (1.0, 0, 0)),
        (Kalman(), (1.0, 0.0, 1.0)),
        (Kalman(), (1.0, 1.0, -1.0)),
        (Kalman(), (1.0, float("nan"), 1.0)),
        (Kalman(), (1.0, 1.0, float("inf"))),
    ],
)
def test_a_parameter_out_of_range_is_refused(aggregate: Any, row: tuple[Any, ...]) -> None:
    with pytest.raises(ValueError, match="above zero"):
        aggregate.add(aggregate.create(), *row)
