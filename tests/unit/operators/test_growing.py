"""Arrays that grow keep what is in them."""

from __future__ import annotations

import numpy as np
import pytest

from rowtide.operators.storage.growing import LARGE, LINE_BYTES, grown, roomy, zeros_in_lines


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("fill", [0, -1])
def test_a_grown_array_keeps_what_it_has_and_is_filled_behind(axis: int, fill: int) -> None:
    array = np.arange(12).reshape(2, 3, 2)
    larger = grown(array, 7, fill=fill, axis=axis)
    kept, new = np.split(larger, [array.shape[axis]], axis=axis)
    assert kept.tolist() == array.tolist()
    assert new.shape[axis] == 7 - array.shape[axis]
    assert (new == fill).all()


def test_an_array_that_is_a_little_too_short_becomes_twice_as_long() -> None:
    array = np.ones(8, dtype=np.bool_)
    assert grown(array, 8) is array
    assert grown(array, 9, fill=True).tolist() == [True] * 16


@pytest.mark.parametrize("length", [1, 64, 1000])
def test_zeros_begin_where_a_line_of_the_cache_does(length: int) -> None:
    zeros = zeros_in_lines(length, np.int64)
    assert zeros.ctypes.data % LINE_BYTES == 0
    assert zeros.tolist() == [0] * length


@pytest.mark.parametrize("length", [1, 100, LARGE // 8])
def test_a_roomy_array_has_room_for_as_many_values_again(length: int) -> None:
    array = roomy(length, np.dtype(np.int64))
    assert len(array) >= 2 * length
    array[-1] = 7
    assert array[-1] == 7
