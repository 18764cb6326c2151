"""JoinTwo against a batch join of the two tables, after every change."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from hypothesis import given
from hypothesis import strategies as st

from rowtide.engine import (
    DELETE,
    INSERT,
    Fifo,
    Hashed,
    IndexType,
    JoinTwo,
    Opcode,
    Ordered,
    Row,
    Rowop,
    RowType,
    Table,
    TableType,
    Unit,
)

LEFT = RowType(key="int32", other="int32", mark="string")
RIGHT = RowType(name="int32", extra="int32", remark="string")

KINDS = st.sampled_from(["inner", "left", "right", "outer"])
LOOKUPS: list[Callable[[str], IndexType]] = [
    Hashed,
    Ordered,
    lambda field: Hashed(field, all=Fifo()),
    lambda field: Ordered(field, all=Fifo(limit=2)),
]
lookups = st.sampled_from(LOOKUPS)
small = st.one_of(st.none(), st.integers(0, 2))
changes = st.lists(
    st.tuples(st.sampled_from(["left", "right"]), st.sampled_from([INSERT, INSERT, DELETE]), small, small),
    max_size=30,
)


class Folded:
    """What is left of the changes of a result."""

    def __init__(self) -> None:
        self.rows: Counter[Row] = Counter()

    def take(self, rowop: Rowop) -> None:
        self.rows[rowop.row] += 1 if rowop.opcode is INSERT else -1
        assert self.rows[rowop.row] >= 0, "only what was inserted is deleted"
        self.rows += Counter()


def joined(kind: str, left: list[Row], right: list[Row], left_key: int, right_key: int) -> Counter[Row]:
    """Join two lists; the key shows under the name of the left side."""
    result: Counter[Row] = Counter()
    for mine in left:
        matches = [other for other in right if other[right_key] == mine[left_key]]
        for other in matches:
            result[(*mine, other[1 - right_key], other[2])] += 1
        if not matches and kind in ("left", "outer"):
            result[(*mine, None, None)] += 1
    for other in right:
        if kind in ("right", "outer") and all(mine[left_key] != other[right_key] for mine in left):
            absent = [None, None, None]
            absent[left_key] = other[right_key]
            result[(*absent, other[1 - right_key], other[2])] += 1
    return result


@given(KINDS, lookups, lookups, changes)
def test_the_changes_fold_to_the_join_of_the_tables(
    kind: str,
    left_lookup: Callable[[str], IndexType],
    right_lookup: Callable[[str], IndexType],
    made: list[tuple[str, Opcode, int | None, int | None]],
) -> None:
    unit = Unit("u")
    left = Table(unit, "l", TableType(LEFT, primary=Hashed("other"), lookup=left_lookup("key")))
    right = Table(unit, "r", TableType(RIGHT, primary=Hashed("extra"), lookup=right_lookup("name")))
    join = JoinTwo("join", left, right, left_index="lookup", right_index="lookup", kind=kind)
    folded = Folded()
    join.out.then(folded.take)
    for number, (side, opcode, key, primary) in enumerate(made):
        table = left if side == "left" else right
        table.input.send(opcode, (key, primary, str(number)))
        assert folded.rows == joined(kind, list(left), list(right), 0, 0)


@given(KINDS, st.booleans(), st.booleans(), changes)
def test_the_changes_of_a_self_join_fold_to_the_join_of_the_table_with_itself(
    kind: str,
    left_is_grouped: bool,
    right_is_grouped: bool,
    made: list[tuple[str, Opcode, int | None, int | None]],
) -> None:
    unit = Unit("u")
    table = Table(
        unit,
        "t",
        TableType(
            LEFT,
            primary=Hashed("key", "other"),
            left=Hashed("key", all=Fifo()) if left_is_grouped else Hashed("key"),
            right=Hashed("other", all=Fifo()) if right_is_grouped else Hashed("other"),
        ),
    )
    join = JoinTwo(
        "join",
        table,
        table,
        left_index="left",
        right_index="right",
        kind=kind,
        right_fields=["!other", "key/next", "mark/next_mark"],
    )
    folded = Folded()
    join.out.then(folded.take)
    for number, (_, opcode, key, other) in enumerate(made):
        table.input.send(opcode, (key, other, str(number)))
        rows = list(table)
        assert folded.rows == joined(kind, rows, rows, 0, 1)


TEXT_RIGHT = RowType(name="string", extra="int32", remark="string")
texts = st.sampled_from([None, "0", "1", "2", "01", "+1", " 1", "", "one", "\u0661"])
text_changes = st.lists(
    st.tuples(
        st.sampled_from(["left", "right"]), st.sampled_from([INSERT, INSERT, DELETE]), small, texts, small
    ),
    max_size=30,
)


@given(KINDS, lookups, lookups, st.booleans(), text_changes)
def test_with_converted_keys_a_number_meets_the_text_printed_for_it_from_either_side(
    kind: str,
    left_lookup: Callable[[str], IndexType],
    right_lookup: Callable[[str], IndexType],
    is_swapped: bool,
    made: list[tuple[str, Opcode, int | None, str | None, int | None]],
) -> None:
    unit = Unit("u")
    numbers = Table(unit, "n", TableType(LEFT, primary=Hashed("other"), lookup=left_lookup("key")))
    named = Table(unit, "t", TableType(TEXT_RIGHT, primary=Hashed("extra"), lookup=right_lookup("name")))
    left, right = (named, numbers) if is_swapped else (numbers, named)
    join = JoinTwo(
        "join",
        left,
        right,
        left_index="lookup",
        right_index="lookup",
        kind=kind,
        convert_keys=True,
        unique_key="none",
    )
    folded = Folded()
    join.out.then(folded.take)
    for number, (side, opcode, key, text, primary) in enumerate(made):
        if side == "left":
            numbers.input.send(opcode, (key, primary, str(number)))
        else:
            named.input.send(opcode, (text, primary, str(number)))
        assert folded.rows == joined_by_text(kind, list(left), list(right))


def joined_by_text(kind: str, left: list[Row], right: list[Row]) -> Counter[Row]:
    result: Counter[Row] = Counter()
    nothing = (None,) * 3
    for mine in left:
        matches = [(*mine, *other) for other in right if same_text(mine[0], other[0])]
        result.update(matches or [(*mine, *nothing)] * (kind in ("left", "outer")))
    for other in right:
        if kind in ("right", "outer") and not any(same_text(mine[0], other[0]) for mine in left):
            result[(*nothing, *other)] += 1
    return result


def same_text(one: object, other: object) -> bool:
    return one is other if None in (one, other) else str(one) == str(other)
