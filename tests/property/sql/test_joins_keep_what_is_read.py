"""A join gives the same rows and faults, whatever of its sides is read."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from rowtide.flow.flow import Flow
from rowtide.plan.nodes import Node, WindowJoin, nodes_below
from rowtide.rows.rowop import Opcode, TimedRow
from rowtide.rows.tray import Tray
from rowtide.rowtime.bound import LATEST, Bound
from rowtide.sql.pipeline import plan_pipeline

STREAMS = """
CREATE STREAM a (k INTEGER, n INTEGER, unread VARCHAR);
CREATE STREAM b (k INTEGER, n INTEGER, unread VARCHAR);
CREATE VIEW quotients AS SELECT STREAM k, n, unread, 12 / n AS share FROM b;
"""
COLUMNS = ("l.k", "l.n", "l.unread", "r.k", "r.n", "r.unread", "r.share", "l.ROWTIME", "r.ROWTIME")
WINDOW = "OVER (RANGE INTERVAL '2' SECOND PRECEDING)"

rows = st.lists(
    st.tuples(
        st.integers(0, 5_000), st.none() | st.integers(0, 2), st.integers(0, 3), st.text("xy", max_size=2)
    ),
    max_size=12,
)


def planned(columns: list[str], join: str, where: str) -> tuple[Node, Node]:
    """Return a query that reads some columns of a join, and one that takes them from all of its columns."""
    every = ", ".join(f"{column} AS c{at}" for at, column in enumerate(COLUMNS))
    some = ", ".join(f"{column} AS c{COLUMNS.index(column)}" for column in columns)
    of_wide = ", ".join(f"c{COLUMNS.index(column)}" for column in columns)
    text = (
        f"CREATE VIEW narrow AS SELECT STREAM {some} {join} {where};"
        f"CREATE VIEW wide AS SELECT STREAM {every} {join} {where};"
        f"CREATE VIEW of_wide AS SELECT STREAM {of_wide} FROM wide;"
    )
    relations = dict(plan_pipeline(STREAMS + text).relations)
    return relations["NARROW"], relations["OF_WIDE"]


def join_in(node: Node) -> WindowJoin:
    """Return the one join of a plan."""
    (found,) = [each for each in nodes_below(node) if isinstance(each, WindowJoin)]
    return found


def run(node: Node, given_rows: dict[str, list[tuple[Any, ...]]]) -> tuple[list[object], list[object]]:
    """Return the rows of a plan with their times, and what was rejected."""
    flow = Flow({"OUT": node}, {})
    for name, values in given_rows.items():
        in_time = enumerate(sorted(values, key=lambda each: each[0]))
        origin = flow.origin(name, 0)
        timed = [TimedRow(time, origin, at, Opcode.INSERT, tuple(row)) for at, (time, *row) in in_time]
        flow.insert(name, 0, Tray.from_rows(flow.row_type(name), timed))
        flow.bound(name, 0, Bound(LATEST))
    emitted = flow.drain()
    rows_out: list[object] = [
        (row.rowtime, row.row) for tray in emitted.outputs["OUT"] for row in tray.rows()
    ]
    return rows_out, [(fault.relation, fault.row) for fault in emitted.faults]


@settings(deadline=None, max_examples=30)
@given(
    st.lists(st.sampled_from(COLUMNS), min_size=1, unique=True),
    st.sampled_from(["INNER", "LEFT", "RIGHT", "FULL"]),
    st.sampled_from(["", " AND l.n <= r.n"]),
    st.sampled_from(["", "WHERE l.n + r.n <> 3"]),
    rows,
    rows,
)
def test_a_join_gives_the_same_whatever_is_read_of_it(
    columns: list[str],
    kind: str,
    condition: str,
    where: str,
    left: list[tuple[object, ...]],
    right: list[tuple[object, ...]],
) -> None:
    join = f"FROM a AS l {kind} JOIN quotients {WINDOW} AS r ON l.k = r.k{condition}"
    narrow, wide = planned(columns, join, where)
    found, expected = (run(each, {"A": left, "B": right}) for each in (narrow, wide))
    assert found == expected
    assert len(join_in(narrow).row_type) <= len(join_in(wide).row_type)


def test_a_join_keeps_its_keys_and_what_is_read() -> None:
    join = f"FROM a AS l JOIN b {WINDOW} AS r ON l.k = r.k"
    narrow, _ = planned(["l.n"], join.replace("JOIN b", "JOIN quotients"), "")
    assert join_in(narrow).left.row_type.names == ("K", "N", "$ROWTIME")
    assert join_in(narrow).right.row_type.names == ("K", "$ROWTIME")


def test_a_join_in_a_view_is_one_for_all_who_read_the_view() -> None:
    view = f"CREATE VIEW v AS SELECT STREAM * FROM a JOIN b {WINDOW} AS r ON a.k = r.k;"
    sides = f"v AS x (k, n, o, j, p, q) JOIN v {WINDOW} AS y (k, n, unread, j, p, q) ON x.k = y.k"
    pairs = f"CREATE VIEW p AS SELECT STREAM x.n AS m, y.unread AS u FROM {sides};"
    node = dict(plan_pipeline(STREAMS + view + pairs).relations)["P"]
    assert [each.relation for each in nodes_below(node) if isinstance(each, WindowJoin)] == ["P", "V"]
