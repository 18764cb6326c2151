"""The net changes of places, against counting the rows of each place."""

from __future__ import annotations

from collections import Counter
from itertools import groupby

from hypothesis import given
from hypothesis import strategies as st

from contract.operators.inputs import ARRAY, WIDE, ordered_items, row_type_of, tray_of
from contract.operators.meanings import bits
from rowtide.operators.net_changes import net_changes
from rowtide.rows.rowop import Opcode, TimedRow
from rowtide.rows.types import BIGINT, BOOLEAN, DOUBLE, VARCHAR, RowType

ROW_TYPES = st.lists(st.sampled_from((BIGINT, DOUBLE, VARCHAR, BOOLEAN, WIDE, ARRAY)), max_size=3).map(
    row_type_of
)
OPCODES = st.sampled_from((Opcode.INSERT, Opcode.DELETE, Opcode.DELETE, Opcode.INSERT, Opcode.NOP))


@given(data=st.data(), row_type=ROW_TYPES)
def test_what_stays_of_a_place_is_the_count_of_each_row(data: st.DataObject, row_type: RowType) -> None:
    drawn = ordered_items(row_type, (1, 2), st.integers(0, 2), opcodes=OPCODES, copies=True, rows=12)
    rows = [each for each in data.draw(drawn) if isinstance(each, TimedRow)]
    tray = tray_of(row_type, rows)
    net = None if tray is None else net_changes(tray)
    found = [] if net is None else list(net.rows())
    assert net is None or len(net)
    for place, own in by_place(rows).items():
        left = by_place(found).pop(place, [])
        assert counted(left) == counted(own)
        assert len(left) == sum(abs(count) for count in counted(own).values()) + sum(
            not row.opcode for row in own
        )
    assert by_place(found).keys() <= by_place(rows).keys()


@given(data=st.data())
def test_of_a_key_the_row_that_goes_comes_first(data: st.DataObject) -> None:
    # What the changes of one key are: each row takes the place of the one before, or none does.
    row_type = row_type_of((VARCHAR, BIGINT))
    rows: list[TimedRow] = []
    keys: dict[str, int | None] = {"a": 0, "b": None}
    before = dict(keys)
    for key, value in data.draw(st.lists(st.tuples(st.sampled_from("ab"), st.none() | st.integers(0, 2)))):
        for opcode, each in ((Opcode.DELETE, keys[key]), (Opcode.INSERT, value)):
            if each is not None:
                rows.append(TimedRow(5, 1, 7, opcode, (key, each)))
        keys[key] = value
    net = net_changes(tray) if (tray := tray_of(row_type, rows)) else None
    found = [] if net is None else list(net.rows())
    for key, come in keys.items():
        gone = before[key]
        wanted = [] if gone == come else [(Opcode.DELETE, gone), (Opcode.INSERT, come)]
        assert [(row.opcode, row.row[1]) for row in found if row.row[0] == key] == [
            each for each in wanted if each[1] is not None
        ]


def by_place(rows: list[TimedRow]) -> dict[tuple[int, int, int], list[TimedRow]]:
    return {
        place: list(each) for place, each in groupby(rows, lambda row: (row.rowtime, row.origin, row.counter))
    }


def counted(rows: list[TimedRow]) -> Counter[object]:
    found: Counter[object] = Counter()
    for row in rows:
        found[bits(row.row)] += int(row.opcode)
    return Counter({row: count for row, count in found.items() if count})
