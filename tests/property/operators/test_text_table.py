"""Texts have the codes that a dictionary would give them, whatever their lengths and however they are cut."""

from __future__ import annotations

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from rowtide.operators.keys import TextTable

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
