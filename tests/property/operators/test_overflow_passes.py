"""Aggregates of changes are exact again once the rows that are there fit, whatever did not fit before."""

from __future__ import annotations

from decimal import Decimal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rowtide.flow.flow import Flow
from rowtide.rows.rowop import Opcode, Row, TimedRow
from rowtide.rows.tray import Tray
from rowtide.rowtime.bound import Bound
from rowtide.sql.pipeline import SqlSession

TABLE = "CREATE TABLE t (id INTEGER PRIMARY KEY, k INTEGER, b BIGINT, d DECIMAL(38, 0), x DOUBLE);"
LARGEST = 10**38 - 1
bigints = st.none() | st.sampled_from((2**63 - 1, -(2**63), 2**62, -(2**62), 100, -7))
decimals = st.none() | st.sampled_from((LARGEST, -LARGEST, 10**37, -5)).map(Decimal)
doubles = st.none() | st.sampled_from((1.7e308, -1.7e308, 1e200, 2.5))
values = st.tuples(st.integers(0, 5), st.integers(0, 1), bigints, decimals, doubles)
changes = st.lists(st.tuples(st.booleans(), values), max_size=16)


def exact(rows: list[Row]) -> Row | None:
    """Return what the aggregates of all rows are; None: one does not fit its type."""
    sums: list[object] = [len(rows)]
    for at, limit in ((2, 2**63), (3, LARGEST + 1)):
        held = [int(str(row[at])) for row in rows if row[at] is not None]
        total = sum(held)
        if not -limit <= total < limit or (at == 3 and total == -limit):
            return None
        sums.append(total if held else None)
    return tuple(sums)


@pytest.mark.parametrize("keyed", [False, True])
@settings(max_examples=80)
@given(fed=changes, restart=st.integers(0, 15))
def test_sums_are_exact_whenever_they_fit(keyed: bool, fed: list[tuple[bool, Row]], restart: int) -> None:
    session = SqlSession()
    session.feed(TABLE)
    key = "k, " if keyed else ""
    query = f"SELECT {key}COUNT(*) AS c, SUM(b) AS sb, SUM(d) AS sd, VAR_POP(b) AS v FROM t"
    node = session.query(query + (" GROUP BY k" if keyed else ""))
    flow = Flow({"Q": node}, {})
    table: dict[object, Row] = {}
    shown: dict[object, Row] = {}
    for at, (gone, row) in enumerate(fed):
        timed = TimedRow(at, flow.origin("T", 0), at, Opcode.DELETE if gone else Opcode.INSERT, row)
        flow.insert("T", 0, Tray.from_rows(flow.row_type("T"), [timed]))
        flow.bound("T", 0, Bound(at + 1))
        if gone:
            table.pop(row[0], None)
        else:
            table[row[0]] = row
        for tray in flow.drain().outputs["Q"]:
            for change in tray.rows():
                place = change.row[0] if keyed else None
                if change.opcode == Opcode.INSERT:
                    shown[place] = change.row
                else:
                    assert shown.pop(place) == change.row
        if at == restart:
            state = flow.snapshot()
            flow = Flow({"Q": node}, {})
            flow.restore(state)
        keys = dict.fromkeys(each[1] if keyed else None for each in table.values())
        assert not keyed or shown.keys() == keys.keys()
        for each in keys:
            wanted = exact([held for held in table.values() if not keyed or held[1] == each])
            if wanted is not None:
                assert shown[each][int(keyed) :][:3] == wanted
