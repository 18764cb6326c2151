"""What comes after a guard cannot fail, wherever an expression may stand.

A query whose guarded expression fails for some rows is compared with the same query over one that is NULL
there. Where the guard leaves rows over that fail, these are error rows: they are missing from the result, or,
as keys of a join, they match nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rowtide.flow.flow import Flow
from rowtide.rows.rowop import Opcode, Row, TimedRow
from rowtide.rows.tray import Tray
from rowtide.rowtime.bound import LATEST, Bound
from rowtide.sql.pipeline import plan_pipeline

COLUMNS = "id INTEGER NOT NULL, k INTEGER NOT NULL, n INTEGER NOT NULL, m INTEGER, x VARCHAR(4) NOT NULL"
RELATIONS = f"""
CREATE STREAM s ({COLUMNS});
CREATE STREAM r (id INTEGER NOT NULL, name VARCHAR(4));
CREATE TABLE c ({COLUMNS}, PRIMARY KEY (id));
CREATE TABLE t (id INTEGER NOT NULL PRIMARY KEY, name VARCHAR(4));
CREATE FUNCTION share(n INTEGER, m INTEGER) RETURNS INTEGER LANGUAGE PYTHON
  AS 'property.sql.guarded_functions.share';
CREATE FUNCTION twice(n INTEGER) RETURNS INTEGER RETURN (n + n) / 2;
"""
Timed = list[tuple[int, Row]]
NAMED: Timed = [(0, (1, "a")), (1_000, (2, "b")), (2_000, (3, "c")), (2_000, (6, None))]
"""The rows of R and T, each behind its time."""
Numbered = tuple[int, int, int, int | None, str]
Shown = list[str]


@dataclass(frozen=True)
class Failing:
    """An expression over rows of S or C, one that is NULL where it fails, and for which rows that is."""

    text: str
    safe: str
    guard: str
    fails: Callable[[Numbered], bool]


FAILING = (
    Failing("s.n / s.m", "CASE WHEN s.m <> 0 THEN s.n / s.m END", "s.m <> 0", lambda row: row[3] == 0),
    Failing("CAST(s.x AS INTEGER)", "TRY_CAST(s.x AS INTEGER)", "s.x <> 'x'", lambda row: row[4] == "x"),
    Failing(
        "twice(share(s.n, s.m))",
        "CASE WHEN s.m <> 0 THEN s.n / s.m END",
        "s.m <> 0",
        lambda row: row[3] == 0,
    ),
)
PARTIAL = "s.k = 1"
"""A guard that leaves rows over which fail."""

EXPRESSIONS = (
    "CASE WHEN {g} THEN {x} END",
    "CASE WHEN NOT ({g}) THEN -1 ELSE {x} END",
    "CASE {g} WHEN TRUE THEN {x} ELSE 0 END",
    "COALESCE(CASE WHEN {g} THEN NULL ELSE -1 END, {x})",
    "{g} AND {x} > 1",
    "NOT ({g}) OR {x} > 1",
    "CASE WHEN {g} THEN {x} IN (SELECT id FROM t) END",
    "CASE WHEN {g} THEN {x} NOT IN (SELECT id FROM t WHERE name IS NOT NULL) ELSE TRUE END",
    "CASE WHEN {g} THEN (SELECT name FROM t WHERE t.id = {x}) ELSE '-' END",
    "CASE WHEN {g} THEN (SELECT COUNT(*) FROM t WHERE t.id = {x}) ELSE -1 END",
    "CASE WHEN {g} THEN (SELECT name FROM (SELECT id + 0 AS i, name FROM t) AS u WHERE u.i = {x}) END",
    "CASE WHEN {g} THEN {x} > ANY (SELECT id FROM t) END",
    "CASE WHEN {g} THEN {x} <= ALL (SELECT id FROM t WHERE t.id = {x}) END",
    "NOT ({g}) OR EXISTS (SELECT * FROM t WHERE t.id = {x})",
    "{g} AND NOT EXISTS (SELECT * FROM t WHERE t.id = {x})",
    "IF({g}, {x} IN (SELECT id FROM t), FALSE)",
    "COALESCE(CASE WHEN {g} THEN NULL ELSE -1 END, (SELECT MAX(id) FROM t WHERE t.id = {x}))",
    "COALESCE(CASE WHEN {g} THEN CAST(NULL AS BOOLEAN) ELSE TRUE END, {x} IN (SELECT id FROM t))",
    "TRUE IN (NOT ({g}), {x} IN (SELECT id FROM t))",
    "CASE WHEN s.id >= 0 THEN {g} AND {x} IN (SELECT id FROM t) END = TRUE",
)
NESTED = (
    "CASE WHEN {g} THEN CASE WHEN s.n > 2 THEN {x} IN (SELECT id FROM t) END END",
    "s.id IN (SELECT id FROM t) AND {g} AND {x} IN (SELECT id FROM t)",
    "(s.n > 2 OR {g}) AND CASE WHEN {g} THEN {x} > (SELECT MIN(id) FROM t) END",
)
CONDITIONS = (
    "{g} AND {x} > 1",
    "NOT ({g}) OR {x} > 1",
    "{g} AND {x} IN (SELECT id FROM t)",
    "{g} AND {x} NOT IN (SELECT id FROM t)",
    "{g} AND (s.id, {x}) IN (SELECT id - 1, id FROM t)",
    "{g} AND EXISTS (SELECT * FROM t WHERE t.id = {x})",
    "{g} AND NOT EXISTS (SELECT * FROM t WHERE t.id = {x})",
    "NOT ({g}) OR {x} IN (SELECT id FROM t)",
    "{g} AND {x} = (SELECT MIN(id) FROM t)",
    "{g} AND {x} >= ALL (SELECT id FROM t)",
    "s.id NOT IN (SELECT id FROM t WHERE id > 5) AND {g} AND {x} IN (SELECT id FROM t)",
)
AGGREGATES = (
    *(f"{name}({{x}})" for name in ("SUM", "AVG", "MIN", "MAX", "COUNT", "VAR_POP", "MEDIAN", "ANY_VALUE")),
    *("COUNT(DISTINCT {x})", "SUM(DISTINCT {x})", "STDDEV_SAMP({x})"),
    *("PERCENTILE_DISC(0.5) WITHIN GROUP (ORDER BY {x})", "BOOL_OR({x} > 1)", "MODE({x})"),
)
SECOND = "FLOOR(ROWTIME TO SECOND)"
WINDOW = "OVER (RANGE INTERVAL '2' SECOND FOLLOWING)"
NEXT = f"FROM r {WINDOW} AS r WHERE r.id = {{x}}"
OF_STREAM = (
    *(f"SELECT STREAM s.id, {each} AS v FROM s" for each in EXPRESSIONS),
    *(f"SELECT STREAM s.id FROM s WHERE {each}" for each in CONDITIONS),
    "SELECT STREAM s.id, (SELECT name FROM t WHERE t.id = {x}) AS v FROM s WHERE {g}",
    "SELECT STREAM s.id, {x} IN (SELECT id FROM t) AS v FROM s WHERE {g}",
    *(
        f"SELECT STREAM COUNT(*) AS c, {each} FILTER (WHERE {{g}}) AS v FROM s GROUP BY {SECOND}"
        for each in (*AGGREGATES, "FIRST_VALUE({x})", "LISTAGG({x})")
    ),
    f"SELECT STREAM COUNT(*) AS c, SUM(CASE WHEN {{g}} THEN {{x}} END) AS v FROM s GROUP BY {SECOND}",
    "SELECT STREAM COUNT(*) AS c, SUM((SELECT MAX(id) FROM t WHERE t.id = {x})) FILTER (WHERE {g}) AS v "
    "FROM s GROUP BY FLOOR(ROWTIME TO SECOND)",
    "SELECT STREAM CASE WHEN {g} THEN {x} END AS v, COUNT(*) AS c FROM s "
    "GROUP BY FLOOR(ROWTIME TO SECOND), CASE WHEN {g} THEN {x} END",
    "SELECT STREAM CASE WHEN {g} THEN {x} IN (SELECT id FROM t) END AS v, COUNT(*) AS c FROM s "
    "GROUP BY FLOOR(ROWTIME TO SECOND), CASE WHEN {g} THEN {x} IN (SELECT id FROM t) END",
    *(
        f"SELECT STREAM s.id, s.k, s.m, s.n, s.x FROM s GROUP BY {SECOND}, s.id, s.k, s.m, s.n, s.x "
        f"HAVING {each}"
        for each in ("{g} AND {x} > 1", "NOT ({g}) OR {x} > 1", "{g} AND {x} IN (SELECT id FROM t)")
    ),
    *(
        f"SELECT STREAM s.id, COUNT(*) OVER (ROWS 2 PRECEDING) AS c, {each} FILTER (WHERE {{g}}) "
        "OVER (ROWS 2 PRECEDING) AS v FROM s"
        for each in AGGREGATES
    ),
    "SELECT STREAM s.id, COUNT(*) OVER (PARTITION BY CASE WHEN {g} THEN {x} END ROWS 1 PRECEDING) FROM s",
    "SELECT STREAM s.id, LAG(CASE WHEN {g} THEN {x} END) OVER () AS v FROM s",
    "SELECT STREAM s.id FROM s ORDER BY FLOOR(ROWTIME TO SECOND), CASE WHEN {g} THEN {x} END",
    f"SELECT STREAM s.id FROM s WHERE {{g}} AND EXISTS (SELECT * {NEXT})",
    f"SELECT STREAM s.id FROM s WHERE NOT ({{g}}) OR EXISTS (SELECT * {NEXT})",
    f"SELECT STREAM s.id FROM s WHERE {{g}} AND {{x}} = (SELECT MAX(id) {NEXT})",
    f"SELECT STREAM s.id, (SELECT MAX(name) {NEXT}) AS v FROM s WHERE {{g}}",
    "SELECT STREAM s.id, t.name FROM s, t WHERE {g} AND {x} = t.id",
)
OF_TABLE = (
    *(f"SELECT s.id, {each} AS v FROM c AS s" for each in EXPRESSIONS),
    *(f"SELECT s.id FROM c AS s WHERE {each}" for each in CONDITIONS),
    "SELECT s.id, (SELECT name FROM t WHERE t.id = {x}) AS v FROM c AS s WHERE {g}",
    *(f"SELECT COUNT(*) AS c, {each} FILTER (WHERE {{g}}) AS v FROM c AS s" for each in AGGREGATES),
    "SELECT s.k, COUNT(*) AS c, SUM({x}) FILTER (WHERE {g}) AS v FROM c AS s GROUP BY s.k",
    "SELECT CASE WHEN {g} THEN {x} END AS v, COUNT(*) AS c FROM c AS s GROUP BY CASE WHEN {g} THEN {x} END",
    "SELECT s.id, s.k, s.n, s.m, s.x FROM c AS s GROUP BY s.id, s.k, s.n, s.m, s.x HAVING {g} AND {x} > 1",
    "SELECT s.id FROM c AS s ORDER BY CASE WHEN {g} THEN {x} END, s.id LIMIT 2",
    "SELECT s.id, t.name FROM c AS s, t WHERE {g} AND {x} = t.id",
)
KINDS = ("INNER", "LEFT", "RIGHT", "FULL")
ON_KEY = (
    "SELECT STREAM s.id, t.name FROM s JOIN t ON {g} AND {x} = t.id",
    "SELECT STREAM s.id, t.name FROM s LEFT JOIN t ON {g} AND {x} = t.id",
    "SELECT STREAM s.id, t.name FROM s LEFT JOIN t ON {g} AND t.id > 1 AND t.id = {x} AND s.n > 1",
    "SELECT STREAM s.id, t.name FROM t RIGHT JOIN s ON {g} AND {x} = t.id",
    *(f"SELECT s.id, t.name FROM c AS s {kind} JOIN t ON {{g}} AND {{x}} = t.id" for kind in KINDS),
    *(f"SELECT s.id, t.name FROM t {kind} JOIN c AS s ON {{g}} AND {{x}} = t.id" for kind in KINDS),
    *(f"SELECT STREAM s.id, r.name FROM s {k} JOIN r {WINDOW} AS r ON {{g}} AND {{x}} = r.id" for k in KINDS),
    *(f"SELECT STREAM s.id, r.name FROM r {k} JOIN s {WINDOW} AS s ON {{g}} AND {{x}} = r.id" for k in KINDS),
    *(f"[kept] SELECT STREAM s.id, r.name FROM s {k} JOIN r ON {{g}} AND {{x}} = r.id" for k in KINDS),
)
ONLY_GUARDED = (
    *(f"SELECT s.id, t.name FROM c AS s {k} JOIN t ON {{g}} AND {{x}} < t.id" for k in KINDS),
    "SELECT STREAM s.id, t.name FROM s LEFT JOIN t ON {g} AND {x} < t.id",
    *(f"SELECT STREAM s.id, r.name FROM s {k} JOIN r {WINDOW} AS r ON {{g}} AND {{x}} < r.id" for k in KINDS),
    *(
        f"SELECT STREAM s.id, r.name FROM s {k} JOIN r {WINDOW} AS r "
        "ON {g} AND {x} IN (SELECT id FROM t) AND s.id = r.id"
        for k in KINDS
    ),
    "SELECT STREAM s.id FROM s, t WHERE {g} AND {x} < t.id",
    f"SELECT STREAM s.id, CASE WHEN {{g}} THEN {{x}} IN (SELECT id FROM r {WINDOW} AS r) END AS v FROM s",
    "SELECT STREAM s.id, t.name, u.name AS o FROM s, t, t AS u WHERE t.id = s.id AND {g} AND {x} = u.id",
    *(f"SELECT STREAM s.id, {each} AS v FROM s" for each in NESTED),
    *(f"SELECT s.id, {each} AS v FROM c AS s" for each in NESTED),
    f"SELECT STREAM s.id, s.k, s.m, s.n, s.x FROM s GROUP BY {SECOND}, s.id, s.k, s.m, s.n, s.x "
    "HAVING NOT EXISTS (SELECT * FROM t AS u WHERE u.id = CASE WHEN {g} THEN 0 ELSE 1 END) AND {x} > 1",
    "SELECT STREAM s.id FROM s "
    "WHERE NOT EXISTS (SELECT * FROM t AS u WHERE u.id = CASE WHEN {g} THEN 0 ELSE 1 END) AND {x} > 1",
    "SELECT STREAM s.id FROM s WHERE EXISTS (SELECT * FROM t AS u WHERE u.id = CASE WHEN {g} THEN 1 END) "
    "AND {x} IN (SELECT id FROM t)",
    "SELECT STREAM s.id FROM s WHERE NOT EXISTS (SELECT * FROM t AS u "
    "WHERE u.id = CASE WHEN {g} THEN 0 ELSE 1 END) AND {x} IN (SELECT id FROM t)",
)
ROWS_MISS = (*OF_STREAM, *OF_TABLE)
"""Queries that miss a row for which the expression fails."""

rows = st.lists(
    st.tuples(
        st.integers(0, 2), st.integers(1, 6), st.none() | st.integers(0, 2), st.sampled_from(["1", "2", "x"])
    ),
    max_size=6,
)


def result(query: str, numbered: list[Numbered]) -> tuple[Shown, int]:
    """Return the rows that a query tells, and the number of its error rows."""
    kept, _, text = query.rpartition("[kept] ")
    options = " OPTIONS (RETENTION '2 SECOND')" if kept or query.startswith("[kept]") else ""
    node = dict(plan_pipeline(f"{RELATIONS}CREATE VIEW v{options} AS {text};").relations)["V"]
    flow = Flow({"OUT": node}, {})
    changes: Timed = [(1_000 * (row[0] // 2), row) for row in numbered]
    for name, given_rows in (("T", NAMED), ("R", NAMED), ("S", changes), ("C", changes)):
        if not flow.reads(name):
            continue
        origin = flow.origin(name, 0)
        timed = [TimedRow(time, origin, at, Opcode.INSERT, row) for at, (time, row) in enumerate(given_rows)]
        flow.insert(name, 0, Tray.from_rows(flow.row_type(name), timed))
        flow.bound(name, 0, Bound(LATEST))
    emitted = flow.drain()
    answer = [row for tray in emitted.outputs["OUT"] for row in tray.rows()]
    if not text.startswith("SELECT STREAM"):
        # Within a millisecond a change may be reported in several steps.
        net: Counter[tuple[int, Row]] = Counter()
        for row in answer:
            net[row.rowtime, row.row] += int(row.opcode)
        return sorted(repr(row) for row in net.items() if row[1]), len(emitted.faults)
    return [repr((row.rowtime, row.row)) for row in answer], len(emitted.faults)


def does_not_fail(query: str, failing: Failing, numbered: list[Numbered]) -> None:
    """See that a query whose guard is a whole one gives what the one gives that cannot fail."""
    answer, errors = result(query.format(g=failing.guard, x=failing.text), numbered)
    assert (answer, errors) == (result(query.format(g=failing.guard, x=failing.safe), numbered)[0], 0)


def misses_what_fails(query: str, failing: Failing, numbered: list[Numbered]) -> None:
    """See that rows that fail behind a guard that takes them are error rows, and missing."""
    left = [row for row in numbered if row[1] != 1 or not failing.fails(row)]
    answer, errors = result(query.format(g=PARTIAL, x=failing.text), numbered)
    assert sorted(answer) == sorted(result(query.format(g=PARTIAL, x=failing.safe), left)[0])
    missing = len(numbered) - len(left)
    # A row of a table is looked at again when another table changes.
    assert errors == missing or (query in OF_TABLE and errors > missing > 0)


def meets_nothing_where_it_fails(query: str, failing: Failing, numbered: list[Numbered]) -> None:
    """See that rows whose key fails behind a guard that takes them are error rows, and match nothing."""
    answer, errors = result(query.format(g=PARTIAL, x=failing.text), numbered)
    assert answer == result(query.format(g=PARTIAL, x=failing.safe), numbered)[0]
    assert errors == sum(row[1] == 1 and failing.fails(row) for row in numbered)


SOME: list[Numbered] = [
    *((0, 1, 6, 2, "1"), (1, 0, 6, 0, "x"), (2, 1, 6, 0, "x"), (3, 1, 3, 1, "2")),
    *((4, 2, 4, None, "x"), (5, 1, 2, 1, "x"), (6, 0, 2, 2, "1")),
]


def crossed(queries: Iterable[str]) -> pytest.MarkDecorator:
    """Take each query with each expression that fails; each run of the tests takes one of these, in turn."""
    cases = [
        pytest.param(
            query,
            failing,
            id=f"{failing.text}-{query}",
            marks=[] if (row + column) % len(FAILING) == 0 else [pytest.mark.long],
        )
        for row, query in enumerate(queries)
        for column, failing in enumerate(FAILING)
    ]
    return pytest.mark.parametrize(("query", "failing"), cases)


@crossed([*ROWS_MISS, *ON_KEY, *ONLY_GUARDED])
def test_what_is_guarded_does_not_fail(query: str, failing: Failing) -> None:
    does_not_fail(query, failing, SOME)


@crossed(ROWS_MISS)
def test_a_row_that_fails_is_an_error_row_and_missing(query: str, failing: Failing) -> None:
    misses_what_fails(query, failing, SOME)


@crossed(ON_KEY)
def test_a_row_whose_key_fails_is_an_error_row_and_meets_nothing(query: str, failing: Failing) -> None:
    meets_nothing_where_it_fails(query, failing, SOME)


def check(query: str, failing: Failing, drawn: list[tuple[int, int, int | None, str]]) -> None:
    numbered = [(at, *row) for at, row in enumerate(drawn)]
    does_not_fail(query, failing, numbered)
    if query in ON_KEY:
        meets_nothing_where_it_fails(query, failing, numbered)
    elif query in ROWS_MISS:
        misses_what_fails(query, failing, numbered)


QUERIES = st.sampled_from([*ROWS_MISS, *ON_KEY, *ONLY_GUARDED])


@settings(deadline=None, max_examples=20)
@given(QUERIES, st.sampled_from(FAILING), rows)
def test_guards_hold_for_any_rows(
    query: str, failing: Failing, drawn: list[tuple[int, int, int | None, str]]
) -> None:
    check(query, failing, drawn)


@pytest.mark.long
@settings(settings.get_profile("long"), deadline=None)
@given(QUERIES, st.sampled_from(FAILING), rows)
def test_guards_hold_for_any_rows_for_long(
    query: str, failing: Failing, drawn: list[tuple[int, int, int | None, str]]
) -> None:
    check(query, failing, drawn)
