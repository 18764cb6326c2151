"""Arrow arrays seen as NumPy arrays, also where they are slices of others."""

from __future__ import annotations

import pyarrow as pa

from rowtide.expr.functions import arrow


def test_a_slice_shows_its_own_values() -> None:
    flags = pa.array([True, False, False, True, True] * 3)
    assert arrow.flags(flags.slice(3, 9)).tolist() == flags.slice(3, 9).to_pylist()
    numbers = pa.array([1, 2, 3, 4], pa.int32())
    assert arrow.numbers(numbers.slice(1, 2), "int32").tolist() == [2, 3]
    texts = pa.array(["é", "ab", "cd"])
    assert bytes(arrow.value_bytes(texts.slice(1, 2))) == b"abcd"
    assert not arrow.is_ascii(texts)
    assert arrow.is_ascii(texts.slice(1, 2))


def test_nothing_is_seen_of_an_empty_array() -> None:
    assert arrow.flags(pa.array([], pa.bool_())).tolist() == []
    assert arrow.numbers(pa.array([], pa.int64()), "int64").tolist() == []
    assert arrow.is_ascii(pa.array([], pa.string()))


def test_values_of_one_length_are_gathered_by_their_bytes() -> None:
    texts = pa.array(["xxx", "abc", "def", "ghi"]).slice(1, 3)
    assert arrow.common_length(texts) == 3
    assert arrow.gather_fixed(texts, 3, [2, 0, 2]).to_pylist() == ["ghi", "abc", "ghi"]
    assert arrow.common_length(pa.array(["a", "bc"])) is None
    assert arrow.common_length(pa.array(["a", None])) is None
