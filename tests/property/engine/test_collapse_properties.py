"""Collapse: what it lets through amounts to what came in, with at most two changes a key."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from rowtide.engine import (
    DELETE,
    INSERT,
    Collapse,
    Hashed,
    Opcode,
    Row,
    Rowop,
    RowType,
    Table,
    TableType,
    Unit,
)

KEYED = RowType(key="int32", value="int32")
rounds = st.lists(
    st.lists(
        st.tuples(st.sampled_from([INSERT, INSERT, DELETE]), st.integers(0, 2), st.integers(0, 2)), max_size=8
    ),
    max_size=5,
)


@given(rounds)
def test_each_flush_brings_the_followers_up_to_the_table(made: list[list[tuple[Opcode, int, int]]]) -> None:
    unit = Unit("u")
    table = Table(unit, "t", TableType(KEYED, by_key=Hashed("key")))
    collapse = Collapse("collapse", table.out, "key")
    folded: Counter[Row] = Counter()
    answer: list[tuple[Opcode, int]] = []

    @collapse.out.then
    def fold(rowop: Rowop) -> None:
        answer.append((rowop.opcode, rowop.row.key))
        folded[rowop.row] += 1 if rowop.opcode is INSERT else -1
        assert folded[rowop.row] >= 0

    for changes in made:
        for opcode, key, value in changes:
            table.input.send(opcode, (key, value))
        assert not answer, "nothing leaves before the flush"
        collapse.flush()
        assert +folded == Counter(table)
        assert len(set(answer)) == len(answer), "at most one DELETE and one INSERT of each key"
        assert [opcode for opcode, _ in answer] == sorted(opcode for opcode, _ in answer), (
            "all DELETEs come first"
        )
        answer.clear()
    collapse.flush()
    assert not answer
