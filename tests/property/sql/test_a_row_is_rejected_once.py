"""A row that fails is one error row when it comes in, and none when it is repaired or deleted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from property.sql.test_drawn_table_queries import row_by_row
from rowtide.flow.flow import Flow
from rowtide.operators.contract import Fault
from rowtide.plan.nodes import Node
from rowtide.rows.rowop import Opcode, Row, TimedRow
from rowtide.rows.tray import Tray
from rowtide.rowtime.bound import LATEST, Bound
from rowtide.sql.pipeline import SqlSession

PRELUDE = """
CREATE TABLE t (id INTEGER PRIMARY KEY, k VARCHAR(4), n INTEGER, j VARCHAR(8));
CREATE TABLE u (id INTEGER PRIMARY KEY, x INTEGER);
INSERT INTO u VALUES (2, 2), (5, 5), (7, 10);
CREATE TABLE o (k VARCHAR(4), id INTEGER, n INTEGER NOT NULL, CHECK (MOD(60, n) = 0), PRIMARY KEY (k, id));
CREATE PUMP p AS INSERT INTO o SELECT k, id, n FROM t;
"""
Change = tuple[int, Opcode, Row]
"""Milliseconds since the change before, and a row that comes in, replacing that of its key, or goes out."""
CHANGES = st.lists(
    st.tuples(
        st.integers(0, 2),
        st.sampled_from((Opcode.INSERT, Opcode.INSERT, Opcode.INSERT, Opcode.DELETE)),
        st.tuples(
            st.integers(1, 3),
            st.sampled_from(("5", "2", "x", None)),
            st.sampled_from((0, 0, 1, 2, 5, 7, None)),
            st.sampled_from(("[1]", "[1, 2]", "[", '["x"]', None)),
        ),
    ),
    max_size=14,
)


def no_quotient(row: Row) -> bool:
    return row[2] == 0


def no_number(row: Row) -> bool:
    return row[1] == "x"


FAILING: dict[str, Callable[[Row], bool]] = {
    "10 / n": no_quotient,
    "CAST(k AS INTEGER)": no_number,
    "CASE WHEN k = 'x' THEN 3 ELSE 6 / n END": lambda row: no_quotient(row) and not no_number(row),
    "COALESCE(CAST(k AS INTEGER), 10 / n)": lambda row: (
        no_number(row) or (row[1] is None and no_quotient(row))
    ),
}
"""Expressions, and whether they fail for a row."""

QUERIES = (
    "SELECT id, {0} AS r FROM t",
    "SELECT id FROM t WHERE {0} > 2",
    "SELECT {0} AS r, COUNT(*) AS c FROM t GROUP BY {0}",
    "SELECT k, SUM({0}) AS s, MIN(n) AS m FROM t GROUP BY k",
    "SELECT COUNT(*) FILTER (WHERE {0} > 2) AS c FROM t",
    "SELECT DISTINCT {0} AS r FROM t",
    "SELECT t.id, u.id AS v FROM t JOIN u ON {0} = u.x",
    "SELECT id FROM t WHERE {0} IN (SELECT x FROM u)",
    "SELECT id FROM t WHERE {0} NOT IN (SELECT x FROM u)",
    "SELECT id, {0} AS r FROM t QUALIFY ROW_NUMBER() OVER (PARTITION BY k ORDER BY {0}, id) = 1",
    "SELECT id FROM t ORDER BY {0}, id LIMIT 2",
    "SELECT {0} AS r FROM t UNION SELECT x FROM u",
    "SELECT {0} AS r FROM t UNION ALL SELECT x FROM u",
    "SELECT x FROM u EXCEPT SELECT {0} AS r FROM t",
    "SELECT MAX(r) AS m FROM (SELECT id, {0} AS r FROM t) AS s WHERE r < 9",
    "SELECT id, (SELECT MAX(x) FROM u) + {0} AS r FROM t",
)
KEEPING = (
    "SELECT t.id, u.x FROM t LEFT JOIN u ON {0} = u.x",
    "SELECT t.id, u.x FROM t FULL JOIN u ON {0} = u.x",
)
"""Joins whose result has a row of T with a key that fails, without a match."""
OTHERS: dict[str, Callable[[Row], bool]] = {
    "SELECT t.id, l.q FROM t, JSON_TABLE (t.j, '$[*]' COLUMNS (q INTEGER PATH '$' ERROR ON ERROR)) AS l": (
        lambda row: row[3] in ("[", '["x"]')
    ),
    "SELECT * FROM o": lambda row: None in row[1:3] or row[2] in (0, 7),
    "SELECT id FROM t WHERE 10 / n > 2 AND CAST(k AS INTEGER) > 2": lambda row: (
        no_quotient(row) or (no_number(row) and row[2] in (None, 1, 2))
    ),
    "SELECT CAST(k AS INTEGER) AS r FROM (SELECT k FROM t WHERE 10 / n > 2) AS s": lambda row: (
        no_quotient(row) or (no_number(row) and row[2] in (1, 2))
    ),
}


@dataclass
class Run:
    """What came out of a flow: places of changes, places of error rows, and the result."""

    changes: list[tuple[int, int, int, Row]]
    faults: list[tuple[int, str, str]]
    result: Counter[Row]


def run(start: Callable[[], Flow], fed: list[Change], cuts: list[int]) -> Run:
    """Feed changes. After each, ``cuts`` may say to drain (1), or to drain and to start again (2)."""
    flow, found = start(), Run([], [], Counter())

    def drain() -> None:
        emitted = flow.drain()
        for timed in (each for tray in emitted.outputs["Q"] for each in tray.rows()):
            found.changes.append((timed.rowtime, timed.counter, timed.opcode, timed.row))
            found.result[timed.row] += timed.opcode
        # Those of two relations are in no order.
        found.faults = sorted([*found.faults, *(_place(each) for each in emitted.faults)])

    now = 0
    for counter, ((step, opcode, row), cut) in enumerate(zip(fed, cuts, strict=True)):
        now += step
        timed = TimedRow(now, flow.origin("T", 0), counter, opcode, row)
        flow.insert("T", 0, Tray.from_rows(flow.row_type("T"), [timed]))
        if cut:
            drain()
        if cut == 2:
            state = flow.snapshot()
            flow = start()
            flow.restore(state)
    flow.bound("T", 0, Bound(LATEST))
    drain()
    return found


@pytest.mark.parametrize("query", [*QUERIES, *KEEPING, *OTHERS])
@settings(max_examples=4)
@given(expression=st.sampled_from(sorted(FAILING)), fed=CHANGES, data=st.data())
def test_each_row_that_fails_is_one_error_row_when_it_comes_in(
    query: str, expression: str, fed: list[Change], data: st.DataObject
) -> None:
    fails = OTHERS.get(query, FAILING[expression])
    node = planned(query.format(expression))

    def start() -> Flow:
        return Flow({"Q": node}, {})

    at_once = run(start, fed, [0] * len(fed))
    wrong = [at for at, (_, opcode, row) in enumerate(fed) if opcode is Opcode.INSERT and fails(row)]
    assert [counter for counter, _, _ in at_once.faults] == wrong
    cuts = data.draw(st.lists(st.integers(0, 2), min_size=len(fed), max_size=len(fed)))
    assert run(start, fed, cuts) == at_once
    assert run(lambda: row_by_row(node), fed, cuts) == at_once
    if query not in KEEPING:
        without = run(
            start,
            [
                (step, Opcode.DELETE if at in wrong else opcode, row)
                for at, (step, opcode, row) in enumerate(fed)
            ],
            cuts,
        )
        assert without.faults == []
        assert +without.result == +at_once.result


@cache
def planned(query: str) -> Node:
    session = SqlSession()
    session.feed(PRELUDE)
    return session.query(query)


def _place(fault: Fault) -> tuple[int, str, str]:
    return (fault.counter, fault.relation, repr((fault.reason, fault.message, fault.rowtime, fault.row)))
