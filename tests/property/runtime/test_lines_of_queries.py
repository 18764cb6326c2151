"""The lines of a query's answer say what Python's own encoder of JSON says, and contents are the net of changes."""

import json
from collections import Counter
from decimal import Decimal

from hypothesis import given
from hypothesis import strategies as st

from rowtide.rows.rowop import Opcode, TimedRow
from rowtide.runtime.query.contents import plain
from rowtide.runtime.query.listing import Contents
from rowtide.runtime.query.query_work import row_line

scalars = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats()
    | st.decimals(allow_nan=False, allow_infinity=False)
    | st.text()
    | st.binary()
)
rows = st.lists(scalars | st.lists(scalars).map(tuple), max_size=4).map(tuple)


@given(rows, st.sampled_from("+-"), st.none() | st.integers(-(2**63), 2**63 - 1))
def test_a_line_is_that_of_the_reference(row: tuple[object, ...], op: str, rowtime: int | None) -> None:
    line = row_line(op, rowtime, row, has_floats=True)
    wanted = json.dumps({"op": op, "rowtime": rowtime, "row": plain(row)})
    assert line.endswith(b"\n")
    # As text, because NaN is not equal to itself.
    assert json.dumps(json.loads(line)) == json.dumps(json.loads(wanted))


def test_a_decimal_keeps_its_digits() -> None:
    assert json.loads(row_line("+", None, (Decimal("1.500"),), has_floats=False))["row"] == ["1.500"]


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 3)), max_size=30))
def test_contents_are_the_net_of_changes(changes: list[tuple[bool, int]]) -> None:
    net: Counter[int] = Counter()
    timed = []
    for is_added, value in changes:
        if is_added or net[value]:
            net[value] += 1 if is_added else -1
            timed.append(TimedRow(0, 0, 0, Opcode.INSERT if is_added else Opcode.DELETE, (value,)))
    contents = Contents(())
    contents.take(timed)
    assert sorted(contents.rows()) == sorted((value,) for value in net.elements())
    assert contents.size == net.total()
