"""With RETENTION, the matches of an outer join come when those of the inner join come."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rowtide.flow.flow import Flow
from rowtide.plan.nodes import Node
from rowtide.rows.rowop import Opcode, TimedRow
from rowtide.rows.tray import Tray
from rowtide.rowtime.bound import LATEST, Bound
from rowtide.sql.pipeline import SqlSession

STREAMS = "CREATE STREAM a (x INTEGER, n INTEGER); CREATE STREAM b (y INTEGER, m INTEGER);"
KINDS = ("JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN")
Given = tuple[str, int, int]
"""The stream of a row, the milliseconds since the row before, and its key."""


def rows_after_each(node: Node, fed: list[Given]) -> list[list[TimedRow]]:
    """Return the rows that come out after each row that goes in, and at the end."""
    flow, now, found = Flow({"Q": node}, {"A": (0,), "B": (0,)}), 0, []
    for counter, (stream, step, key) in enumerate(fed):
        now += step
        timed = TimedRow(now, flow.origin(stream, 0), counter, Opcode.INSERT, (key, counter))
        flow.insert(stream, 0, Tray.from_rows(flow.row_type(stream), [timed]))
        for each in "AB":
            flow.bound(each, 0, Bound(now))
        found.append([row for tray in flow.drain().outputs["Q"] for row in tray.rows()])
    for each in "AB":
        flow.bound(each, 0, Bound(LATEST))
    return [*found, [row for tray in flow.drain().outputs["Q"] for row in tray.rows()]]


@pytest.mark.parametrize("kind", KINDS[1:])
@settings(max_examples=15)
@given(
    fed=st.lists(
        st.tuples(st.sampled_from("AB"), st.sampled_from((0, 1, 400, 1500)), st.integers(1, 3)), max_size=12
    )
)
def test_a_match_comes_when_that_of_the_inner_join_comes(kind: str, fed: list[Given]) -> None:
    inner, outer = (rows_after_each(planned(each), fed) for each in (KINDS[0], kind))
    matches = [[row for row in rows if None not in row.row] for rows in outer]
    assert [[(row.rowtime, row.row) for row in rows] for rows in matches] == [
        [(row.rowtime, row.row) for row in rows] for rows in inner
    ]
    times = [row.rowtime for rows in outer for row in rows]
    assert times == sorted(times)


def planned(kind: str) -> Node:
    session = SqlSession()
    session.feed(STREAMS)
    session.feed(
        "CREATE VIEW v OPTIONS (RETENTION '1 SECOND') AS "
        f"SELECT STREAM a.x, a.n, b.y, b.m FROM a {kind} b ON a.x = b.y;"
    )
    return session.query("SELECT STREAM * FROM v")
