"""Texts have the codes that a dictionary would give them, whatever their lengths and however they are cut."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from rowtide.operators.storage.arrow_buffers import text_buffers
from rowtide.operators.storage.kernels.strings import MIX, hash_all
from rowtide.operators.storage.keys import TextTable

# Of one letter and few lengths, so that texts begin alike, end alike, and are as long as a word or longer.
TEXTS = st.text(alphabet="a\0é", max_size=18)


@given(st.lists(st.tuples(st.lists(TEXTS, max_size=12), st.integers(0, 3)), max_size=4))
def test_a_text_is_known_by_its_first_place(parts: list[tuple[list[str], int]]) -> None:
    table, codes = TextTable(), dict[str, int]()
    for texts, skipped in parts:
        # A slice: its bytes do not begin where the buffer does.
        array = pa.array(["left out"] * skipped + texts, pa.string()).slice(skipped)
        before = table.find(array).tolist()
        assert before == [codes.get(text, -1) for text in texts]
        for text in texts:
            codes.setdefault(text, len(codes))
        found = table.intern(array)
        assert found.tolist() == [codes[text] for text in texts]
        assert table.values(found, pa.string()).to_pylist() == texts
    assert table.count == len(codes)


WORDS = st.binary(min_size=8, max_size=8)


def _of_one_hash(first: bytes, other_first: bytes, second: bytes) -> tuple[bytes, bytes]:
    """Return two values of two words that have one hash: the second word makes up for the first."""

    def state(word: bytes) -> int:
        value = ((16 * int(MIX)) ^ int.from_bytes(word, "little")) * int(MIX) % 2**64
        return value ^ value >> 32

    other = int.from_bytes(second, "little") ^ state(first) ^ state(other_first)
    return first + second, other_first + other.to_bytes(8, "little")


@given(st.lists(st.tuples(WORDS, WORDS, WORDS), min_size=1, max_size=6))
def test_values_of_one_hash_are_told_apart_by_what_they_are(words: list[tuple[bytes, bytes, bytes]]) -> None:
    table = TextTable()
    values = [value for each in words for value in _of_one_hash(*each)]
    codes = dict[bytes, int]()
    for value in values:
        codes.setdefault(value, len(codes))
    array = pa.array(values, pa.binary())
    hashes = np.empty(len(values), dtype=np.uint64)
    hash_all(*text_buffers(array), hashes)
    assert (hashes[::2] == hashes[1::2]).all()
    assert table.intern(array.slice(0, 1)).tolist() == [0]
    assert table.find(array).tolist() == [0 if value == values[0] else -1 for value in values]
    assert table.intern(array).tolist() == [codes[value] for value in values]
    assert table.find(array).tolist() == [codes[value] for value in values]


@given(st.integers(0, 40), st.integers(1, 700))
def test_a_table_that_grows_within_a_tray_forgets_nothing(first: int, size: int) -> None:
    table = TextTable()
    table.intern(pa.array([f"before {at}" for at in range(first)], pa.string()))
    texts = pa.array([f"{at % (5 * size):x}" for at in range(10 * size)], pa.string())
    assert table.intern(texts).tolist() == [first + at % (5 * size) for at in range(10 * size)]
    assert table.values(table.find(texts), pa.string()).equals(texts)
