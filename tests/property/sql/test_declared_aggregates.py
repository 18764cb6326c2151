"""An aggregate in Python gives what the built-in one of the same meaning gives, wherever an aggregate may stand.

Rows come in any trays, the flow is restored in the middle, and rows of tables come and go.
"""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from property.sql.declared_aggregates import LIMIT
from rowtide.flow.flow import Flow
from rowtide.rows.rowop import Opcode, Row, TimedRow
from rowtide.rows.tray import Tray
from rowtide.rowtime.bound import LATEST, Bound
from rowtide.sql.pipeline import plan_pipeline

MODULE = "property.sql.declared_aggregates"
COLUMNS = "id INTEGER NOT NULL, k INTEGER, n INTEGER, x VARCHAR(4)"
RELATIONS = f"""
CREATE STREAM s ({COLUMNS});
CREATE TABLE t ({COLUMNS}, PRIMARY KEY (id));
CREATE AGGREGATE FUNCTION total(x INTEGER) RETURNS BIGINT LANGUAGE PYTHON AS '{MODULE}.Total';
CREATE AGGREGATE FUNCTION moving(x INTEGER) RETURNS BIGINT LANGUAGE PYTHON AS '{MODULE}.Moving';
CREATE AGGREGATE FUNCTION texts(x VARCHAR(4)) RETURNS VARCHAR LANGUAGE PYTHON AS '{MODULE}.Texts';
CREATE AGGREGATE FUNCTION refusing(x INTEGER) RETURNS BIGINT LANGUAGE PYTHON AS '{MODULE}.Refusing';
CREATE AGGREGATE FUNCTION refusing_moving(x INTEGER) RETURNS BIGINT LANGUAGE PYTHON
  AS '{MODULE}.RefusingMoving';
CREATE AGGREGATE FUNCTION drifting(x INTEGER) RETURNS DOUBLE LANGUAGE PYTHON AS '{MODULE}.Drifting';
"""
SUMS = ("TOTAL(n)", "MOVING(n)")
SECOND = "FLOOR(ROWTIME TO SECOND)"
GROUPS = (
    SECOND,
    f"{SECOND}, k",
    "HOP(ROWTIME, INTERVAL '1' SECOND, INTERVAL '3' SECOND), k",
    "SESSION(ROWTIME, INTERVAL '2' SECOND), k",
    "CUMULATE(ROWTIME, INTERVAL '1' SECOND, INTERVAL '3' SECOND), k",
)
FRAMES = (
    "ROWS 2 PRECEDING",
    "PARTITION BY k ROWS 1 PRECEDING",
    "PARTITION BY k RANGE INTERVAL '2' SECOND PRECEDING",
    "ORDER BY ROWTIME",
    "PARTITION BY k ORDER BY ROWTIME ROWS BETWEEN 2 PRECEDING AND 1 FOLLOWING",
    "PARTITION BY k ORDER BY ROWTIME RANGE BETWEEN INTERVAL '1' SECOND PRECEDING AND INTERVAL '1' SECOND FOLLOWING",
    "ORDER BY ROWTIME ROWS BETWEEN UNBOUNDED PRECEDING AND 1 FOLLOWING",
    "ORDER BY ROWTIME ROWS BETWEEN 3 PRECEDING AND 1 PRECEDING",
)
OF_STREAMS = (
    *(f"SELECT STREAM MAX(id) AS m, {{a}} AS v FROM s GROUP BY {each}" for each in GROUPS),
    f"SELECT STREAM k, {{a}} FILTER (WHERE id <> 3) AS v FROM s GROUP BY {SECOND}, k HAVING {{a}} > 1",
    *(f"SELECT STREAM id, {{a}} OVER ({each}) AS v FROM s" for each in FRAMES),
    "SELECT STREAM id, {a} FILTER (WHERE id <> 3) OVER (ROWS 2 PRECEDING) AS v FROM s",
    "SELECT STREAM id, {a} OVER (ROWS 1 PRECEDING) + {a} OVER (ROWS 3 PRECEDING) AS v FROM s",
    "SELECT STREAM id, {a} OVER (ORDER BY ROWTIME ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING) AS v, "
    "{a} OVER (PARTITION BY k ORDER BY ROWTIME RANGE BETWEEN INTERVAL '1' SECOND PRECEDING "
    "AND INTERVAL '1' SECOND FOLLOWING) AS w FROM s",
    f"SELECT STREAM id, {{a}} OVER (PARTITION BY {SECOND}, k ORDER BY ROWTIME) AS v FROM s",
    f"SELECT STREAM k, {{a}} AS v FROM s GROUP BY {SECOND}, k HAVING {{a}} > (SELECT MIN(id) FROM t)",
    f"SELECT STREAM k, {{a}} AS v FROM s GROUP BY {SECOND}, k ORDER BY {SECOND}, {{a}} DESC, k",
    f"SELECT STREAM k, {{a}} AS v, MAX({{a}}) OVER (ROWS 2 PRECEDING) AS w FROM s GROUP BY {SECOND}, k",
    "SELECT STREAM id, (SELECT {a} FROM s OVER (RANGE INTERVAL '1' SECOND PRECEDING) AS u WHERE u.k = s.k) "
    "AS v FROM s",
)
OF_CHANGES = (
    "SELECT k, {a} AS v FROM t GROUP BY k",
    "SELECT {a} AS v, COUNT(*) AS c FROM t",
    "SELECT k, {a} FILTER (WHERE id <> 3) AS v FROM t GROUP BY k HAVING {a} > 1",
    "SELECT id, (SELECT {a} FROM t AS u WHERE u.k = t.k) AS v FROM t",
    "SELECT STREAM k, {a} AS v FROM s GROUP BY k EMIT CHANGES",
    f"SELECT STREAM k, {{a}} AS v FROM s GROUP BY {SECOND}, k EMIT CHANGES",
    "SELECT STREAM k, {a} AS v FROM s GROUP BY SESSION(ROWTIME, INTERVAL '2' SECOND), k EMIT CHANGES",
    f"SELECT STREAM k, {{a}} AS v FROM s GROUP BY {SECOND}, k EMIT CHANGES EVERY INTERVAL '1' SECOND",
    "SELECT STREAM id, (SELECT {a} FROM t WHERE t.k = s.k) AS v FROM s",
    "SELECT {a} AS v FROM t GROUP BY ()",
    "SELECT k, COALESCE({a}, 0) + {a} * 2 AS v, CASE WHEN {a} > 3 THEN 'x' END AS y FROM t GROUP BY k",
    "SELECT COUNT(*) AS c, MAX(v) AS m FROM (SELECT k, {a} AS v FROM t GROUP BY k) AS g",
    "SELECT t.id, g.v FROM t JOIN (SELECT k, {a} AS v FROM t GROUP BY k) AS g ON g.k = t.k",
    "SELECT k, {a} AS v FROM t GROUP BY k ORDER BY {a} DESC, k LIMIT 1",
)
PAIRS = (
    *((query, each, "SUM(n)") for query in (*OF_STREAMS, *OF_CHANGES) for each in SUMS),
    *((query, "TOTAL(DISTINCT n)", "SUM(DISTINCT n)") for query in (*OF_STREAMS, *OF_CHANGES)),
    *((query, "MOVING(DISTINCT n)", "SUM(DISTINCT n)") for query in (*OF_STREAMS, *OF_CHANGES)),
    *(
        (query, "CHAR_LENGTH(TEXTS(x))", "CHAR_LENGTH(LISTAGG(x))")
        for query in (*OF_STREAMS[:5], *OF_CHANGES[:2], *OF_CHANGES[3:7])
    ),
    *((query, "TEXTS(x)", "LISTAGG(x)") for query in (*OF_STREAMS[:5], *OF_CHANGES[:2], *OF_CHANGES[3:7])),
    *((query, "TEXTS(x)", "LISTAGG(x ORDER BY id)") for query in (*OF_STREAMS[:5], *OF_CHANGES[4:7])),
    *(
        (query, "LISTAGG(x ORDER BY x, n DESC)", "LISTAGG(x ORDER BY x)")
        for query in (*OF_STREAMS[:5], *OF_CHANGES[:2])
    ),
)
"""A query, the aggregate in Python, and the built-in one that must give the same."""
REFUSED = tuple(
    (query, name) for query in (*OF_STREAMS[:10], *OF_CHANGES[:9]) for name in ("REFUSING", "REFUSING_MOVING")
)
"""Queries that miss a row for which ``add`` raises."""

Change = tuple[int, Opcode, Row]
Drawn = tuple[int, int | None, int | None, str | None]
drawn_rows = st.lists(
    st.tuples(
        st.integers(0, 700),
        st.none() | st.integers(0, 1),
        st.none() | st.integers(0, 9),
        st.none() | st.sampled_from(["a", "b", "cd"]),
    ),
    max_size=10,
)
cuts = st.lists(st.booleans(), min_size=24, max_size=24)


def changes_of(query: str, drawn: list[Drawn]) -> list[Change]:
    """Return the rows of S, or changes of T: every third row is deleted later, and some come again."""
    changes: list[Change] = []
    time = 0
    for number, (after, *values) in enumerate(drawn):
        time += after
        row = (number, *values)
        changes.append((time, Opcode.INSERT, row))
        if "STREAM" not in query and number % 3 == 2:
            gone = (number - 1, *drawn[number - 1][1:])
            changes.append((time, Opcode.DELETE, gone))
            if number % 2:
                changes.append((time + 1, Opcode.INSERT, gone))
                time += 1
    return changes


def results(
    query: str, changes: list[Change], cut: list[bool], *, restored: bool = True
) -> tuple[list[str], int]:
    """Return what a query tells of rows in trays that end where ``cut`` says, with a restore at every other one."""
    node = dict(
        plan_pipeline(f"{RELATIONS}CREATE VIEW v OPTIONS (RETENTION 'UNBOUNDED') AS {query};").relations
    )["V"]
    flow = Flow({"OUT": node}, {})
    rows: list[TimedRow] = []
    faults = 0

    def drained() -> None:
        nonlocal faults
        emitted = flow.drain()
        faults += len(emitted.faults)
        rows.extend(row for tray in emitted.outputs["OUT"] for row in tray.rows())

    reads = [name for name in ("T", "S") if flow.reads(name)]
    ahead = {
        name: [
            TimedRow(time, flow.origin(name, 0), at, opcode, row)
            for at, (time, opcode, row) in enumerate(changes)
        ]
        for name in reads
    }
    begun = 0
    for at in range(len(changes)):
        if not cut[at % len(cut)] and at + 1 < len(changes):
            continue
        for name in reads:
            part = ahead[name][begun : at + 1]
            flow.insert(name, 0, Tray.from_rows(flow.row_type(name), part))
            flow.bound(name, 0, Bound(part[-1].rowtime))
        begun = at + 1
        drained()
        if restored and at % 2:
            saved = flow.snapshot()
            flow = Flow({"OUT": node}, {})
            flow.restore(saved)
    for name in reads:
        flow.bound(name, 0, Bound(LATEST))
    drained()
    if query.startswith("SELECT STREAM") and "EMIT" not in query:
        return [repr((row.rowtime, row.row)) for row in rows], faults
    # Within a millisecond a change may be reported in several steps.
    net: Counter[tuple[int, Row]] = Counter()
    for row in rows:
        net[row.rowtime, row.row] += int(row.opcode)
    return sorted(repr(row) for row in net.items() if row[1]), faults


SOME = [
    (0, 1, 3, "a"),
    (300, 1, 4, "b"),
    (300, None, 3, None),
    (500, 0, None, "cd"),
    (0, 1, 3, "a"),
    (900, 1, 9, "b"),
    (100, 0, 2, "a"),
    (2500, 1, 8, "a"),
    (100, 1, 1, "cd"),
]


def is_the_same(
    pair: tuple[str, str, str],
    drawn: list[Drawn],
    cut: list[bool],
) -> None:
    query, own, built_in = pair
    changes = changes_of(query, drawn)
    found = results(query.format(a=own), changes, cut)
    assert found == results(query.format(a=built_in), changes, [True])
    assert found[1] == 0


def is_refused(query: str, change: Change) -> bool:
    """Return whether the class cannot take a row that passes FILTER; HAVING has an aggregate without one."""
    number, _, value, _ = change[2]
    is_left_out = "FILTER" in query and "HAVING" not in query and number == 3
    return isinstance(value, int) and value >= LIMIT and not is_left_out


def misses_what_fails(pair: tuple[str, str], drawn: list[Drawn], cut: list[bool]) -> None:
    query, name = pair
    changes = changes_of(query, drawn)
    found, faults = results(query.format(a=f"{name}(n)"), changes, cut)
    if "(SELECT" in query:
        left, expected = changes, "SUM(n) FILTER (WHERE n < 7)"
    else:
        left, expected = [each for each in changes if not is_refused(query, each)], "SUM(n)"
    assert found == results(query.format(a=expected), left, [True])[0]
    assert bool(faults) == any(is_refused(query, each) for each in changes)


@pytest.mark.parametrize("pair", PAIRS, ids=str)
def test_an_aggregate_in_python_is_the_built_in_one(pair: tuple[str, str, str]) -> None:
    is_the_same(pair, SOME, [True])


@settings(deadline=None, max_examples=60)
@given(st.sampled_from(PAIRS), drawn_rows, cuts)
def test_an_aggregate_in_python_is_the_built_in_one_for_any_rows(
    pair: tuple[str, str, str],
    drawn: list[Drawn],
    cut: list[bool],
) -> None:
    is_the_same(pair, drawn, cut)


@settings(deadline=None, max_examples=40)
@given(st.sampled_from([*OF_STREAMS[:18], *OF_CHANGES[:9]]), drawn_rows, cuts)
def test_a_state_that_drifts_does_so_equally_after_a_restart(
    query: str, drawn: list[Drawn], cut: list[bool]
) -> None:
    query = query.format(a="DRIFTING(n)")
    changes = changes_of(query, drawn)
    assert results(query, changes, cut) == results(query, changes, [True], restored=False)


@pytest.mark.parametrize("pair", REFUSED, ids=str)
def test_a_row_that_cannot_be_added_is_an_error_row_and_does_not_count(pair: tuple[str, str]) -> None:
    misses_what_fails(pair, SOME, [True])


@settings(deadline=None, max_examples=40)
@given(st.sampled_from(REFUSED), drawn_rows, cuts)
def test_any_row_that_cannot_be_added_is_an_error_row(
    pair: tuple[str, str], drawn: list[Drawn], cut: list[bool]
) -> None:
    misses_what_fails(pair, drawn, cut)


@pytest.mark.long
@settings(settings.get_profile("long"), deadline=None)
@given(st.sampled_from(PAIRS), st.sampled_from(REFUSED), drawn_rows, cuts)
def test_aggregates_in_python_for_long(
    pair: tuple[str, str, str], refused: tuple[str, str], drawn: list[Drawn], cut: list[bool]
) -> None:
    is_the_same(pair, drawn, cut)
    misses_what_fails(refused, drawn, cut)
