"""A change of a group of which nothing that is read has changed is not reported, however rows are cut."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import replace
from itertools import pairwise
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rowtide.flow.flow import Flow
from rowtide.operators import registry
from rowtide.plan.nodes import Form, GroupChanges, Node, rewrite
from rowtide.rows.rowop import Opcode, TimedRow
from rowtide.rows.tray import Tray
from rowtide.rowtime.bound import LATEST, Bound
from rowtide.sql.pipeline import SqlSession

STATEMENTS = (
    "CREATE STREAM s (id INTEGER, k VARCHAR(4), n INTEGER, x DOUBLE);"
    "CREATE TABLE t (id INTEGER PRIMARY KEY, k VARCHAR(4), n INTEGER, x DOUBLE);"
)
QUERIES = (
    "SELECT k, MAX(n) AS m FROM {0} GROUP BY k HAVING COUNT(*) > 1",
    "SELECT k, SUM(n) / 4 AS m, MIN(x) AS x FROM {0} GROUP BY k",
    "SELECT k, COUNT(*) > 2 AS many FROM {0} GROUP BY k HAVING MAX(n) > 0 OR MAX(n) IS NULL",
    "SELECT SUM(n) > 1 AS m FROM {0}",
    "SELECT k, 6 / (MAX(n) - 1) AS q FROM {0} GROUP BY k",
    "SELECT k FROM {0} GROUP BY k",
)
WINDOWS = (
    "GROUP BY k",
    "GROUP BY FLOOR(ROWTIME TO SECOND), k",
    "GROUP BY HOP(ROWTIME, INTERVAL '1' SECOND, INTERVAL '3' SECOND), k",
)
Change = tuple[bool, int, tuple[object, ...]]
rows = st.lists(
    st.tuples(
        st.booleans(),
        st.integers(0, 600),
        st.tuples(
            st.integers(0, 4),
            st.sampled_from(("a", "b", None)),
            st.none() | st.integers(-2, 3),
            st.none() | st.sampled_from((0.0, -0.0, 1.5)),
        ),
    ),
    max_size=16,
)


def rows_shown(node: Node, relation: str, fed: list[Change], form: Form, *, at_once: bool) -> list[TimedRow]:
    """Return what a query tells, in one form of its operators, drained after each row or at the end."""

    with ExitStack() as stack:
        for kind in registry.BY_ROW if form is Form.BY_ROW else ():
            stack.enter_context(patch.object(kind, "form", lambda _node: Form.BY_ROW))
        flow = Flow({"Q": node}, {"S": (0,)} if relation == "S" else {})
    found: list[TimedRow] = []

    def drain() -> None:
        for tray in flow.drain().outputs["Q"]:
            found.extend(tray.rows())

    now = 0
    for at, (gone, step, row) in enumerate(fed):
        now += step
        opcode = Opcode.DELETE if gone and relation == "T" else Opcode.INSERT
        timed = TimedRow(now, flow.origin(relation, 0), at, opcode, row)
        flow.insert(relation, 0, Tray.from_rows(flow.row_type(relation), [timed]))
        if not at_once:
            drain()
    flow.bound(relation, 0, Bound(LATEST))
    drain()
    return found


def without_pairs(changes: list[TimedRow]) -> list[tuple[object, ...]]:
    """Return changes without DELETE x, INSERT x of one cause or moment."""
    left: list[TimedRow] = []
    for each in changes:
        if (
            left
            and (left[-1].opcode, each.opcode) == (Opcode.DELETE, Opcode.INSERT)
            and alike(left[-1], each)
        ):
            left.pop()
        else:
            left.append(each)
    return [(each.rowtime, each.opcode, each.row) for each in left]


def alike(one: TimedRow, other: TimedRow) -> bool:
    return repr(one.row) == repr(other.row) and one.rowtime == other.rowtime


@pytest.mark.parametrize("form", Form)
@pytest.mark.parametrize("query", QUERIES)
@pytest.mark.parametrize("every", ["", " EMIT CHANGES", " EMIT CHANGES EVERY INTERVAL '1' SECOND"])
@settings(max_examples=12)
@given(fed=rows, window=st.sampled_from(WINDOWS), at_once=st.booleans())
def test_what_is_read_and_the_same_is_not_told(
    form: Form, query: str, every: str, fed: list[Change], window: str, at_once: bool
) -> None:
    relation = "S" if every else "T"
    text = query.format(relation) + every
    if every:
        text = text.replace("SELECT", "SELECT STREAM", 1).replace("GROUP BY k", window)
    session = SqlSession()
    session.feed(STATEMENTS)
    session.feed(f"CREATE VIEW v OPTIONS (RETENTION 'UNBOUNDED') AS {text};")
    node = session.query("SELECT * FROM v")

    def all_shown(each: Node) -> Node:
        return replace(each, shown=None) if isinstance(each, GroupChanges) else each

    found = rows_shown(node, relation, fed, form, at_once=at_once)
    if every:
        pairs = [(one, other) for one, other in pairwise(found) if one.opcode < other.opcode]
        assert not any(alike(one, other) and one.counter == other.counter for one, other in pairs)
    plain = rows_shown(rewrite(node, all_shown), relation, fed, form, at_once=not at_once)
    assert without_pairs(found) == without_pairs(plain)
