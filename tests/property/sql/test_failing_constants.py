"""What check refuses as a constant that fails is what every row would reject, and nothing else is refused."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rowtide.errors import RejectedRowError, StatementError
from rowtide.expr.rowwise import compile_row
from rowtide.plan.nodes import Project
from rowtide.sql.pipeline import SqlSession

ROWS = [(n, b) for n in (None, 0, 1, 7) for b in (None, False, True)]
NUMBERS = st.sampled_from(
    ("n", "1", "0", "CAST('abc' AS INTEGER)", "1 / 0", "CHR(-1)::INTEGER", "2147483647 + 1")
)
TRUTHS = st.sampled_from(("b", "TRUE", "FALSE", "NULL", "CAST('x' AS BOOLEAN)", "1 / 0 = 1"))


def _number(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    parts = st.tuples(inner, inner, _truth(inner))
    return parts.flatmap(
        lambda of: st.sampled_from(
            (
                "({0} + {1})",
                "COALESCE({0}, {1})",
                "CASE WHEN {2} THEN {0} ELSE {1} END",
                "CASE {0} WHEN 1 THEN {1} END",
                "IF({2}, {0}, {1})",
                "NVL2({0}, {1}, 3)",
                "GREATEST({0}, {1})",
                "TRY_CAST('abc' AS INTEGER)",
                "DECODE({0}, 1, {1})",
            )
        ).map(lambda form: form.format(*of))
    )


def _truth(numbers: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    def wider(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
        return st.one_of(
            st.tuples(inner, inner).map(lambda of: "({} AND {})".format(*of)),
            st.tuples(inner, inner).map(lambda of: "({} OR {})".format(*of)),
            inner.map("(NOT {})".format),
            st.tuples(numbers, numbers, numbers).map(lambda of: "({} BETWEEN {} AND {})".format(*of)),
            st.tuples(numbers, numbers, numbers).map(lambda of: "({} IN ({}, {}))".format(*of)),
        )

    return st.recursive(TRUTHS, wider, max_leaves=2)


EXPRESSIONS = st.recursive(NUMBERS, _number, max_leaves=3)


def _planned(text: str) -> Project:
    session = SqlSession()
    session.feed("CREATE STREAM s (n INTEGER, b BOOLEAN);")
    session.feed(f"CREATE VIEW v AS SELECT STREAM {text} AS x FROM s;")
    node = dict(session.plan.relations)["V"]
    assert isinstance(node, Project)
    return node


def _fails(text: str) -> list[bool]:
    """Return for each row whether the expression fails, in a branch: no constant is refused there."""
    (expr,) = _planned(f"CASE WHEN n IS NULL OR n IS NOT NULL THEN {text} END").expressions
    evaluate = compile_row(expr)
    failed = []
    for row in ROWS:
        try:
            evaluate(row, 0)
        except RejectedRowError:
            failed.append(True)
        else:
            failed.append(False)
    return failed


@given(EXPRESSIONS)
def test_what_is_refused_fails_for_every_row(text: str) -> None:
    failed = _fails(text)
    is_constant = re.search(r"\b[nb]\b", text) is None
    try:
        _planned(text)
    except StatementError as refused:
        assert all(failed), (text, refused.message)
        assert refused.place is not None
        assert refused.hint is not None
    else:
        assert not (is_constant and any(failed)), text


@pytest.mark.parametrize(
    "query",
    [
        "SELECT STREAM 1 / 0 AS x FROM s WHERE FALSE",
        "SELECT STREAM 1 / 0 AS x FROM s WHERE 1 > 2",
        "SELECT STREAM n FROM s WHERE n > 1 AND 1 / 0 > 1",
        "SELECT STREAM SUM(1 / 0) FILTER (WHERE b) AS x FROM s GROUP BY FLOOR(ROWTIME TO MINUTE)",
        "SELECT STREAM TO_DATE('May', 'Month') AS x, TO_DATE('Mon', CAST(n AS VARCHAR)) AS y FROM s",
        "SELECT n FROM t WHERE EXISTS (SELECT 1 / 0 FROM t AS u WHERE u.n = t.n)",
    ],
)
def test_what_a_filter_may_keep_from_every_row_is_accepted(query: str) -> None:
    session = SqlSession()
    session.feed(
        f"CREATE STREAM s (n INTEGER, b BOOLEAN); CREATE TABLE t (n INTEGER); CREATE VIEW v AS {query};"
    )


@pytest.mark.parametrize(
    ("query", "at"),
    [
        ("SELECT STREAM n FROM s WHERE 1 / 0 = 1 AND n > 1", "1 / 0"),
        ("SELECT STREAM 1 / 0 AS x FROM s WHERE n > 1", "1 / 0"),
        ("SELECT STREAM SUM(1 / 0) AS x FROM s GROUP BY FLOOR(ROWTIME TO MINUTE)", "1 / 0"),
        ("SELECT STREAM COUNT(*) AS c FROM s GROUP BY FLOOR(ROWTIME TO MINUTE), n + 1 / 0", "1 / 0"),
        ("SELECT STREAM COUNT(*) AS c FROM s GROUP BY FLOOR(ROWTIME TO MINUTE) HAVING 1 / 0 > 1", "1 / 0"),
        ("SELECT STREAM REGEXP_LIKE(k, 'a', 'in') AS x FROM s", "'in'"),
        ("SELECT STREAM REGEXP_REPLACE(k, 'a', 'b', 'gx') AS x FROM s", "'gx'"),
        ("SELECT STREAM REGEXP_EXTRACT(k, 'a(b)', 2) AS x FROM s", "2)"),
        ("SELECT STREAM SPLIT_PART(k, ',', 0) AS x FROM s", "0)"),
        ("SELECT STREAM PARSE_DATE('yyyy-MM-dd', k) AS x FROM s", "'yyyy"),
        ("SELECT STREAM TO_TIMESTAMP('YYYY-MM-DD', k) AS x FROM s", "'YYYY"),
        ("SELECT STREAM CASE WHEN n > 1 THEN SPLIT_PART(k, ',', 0) END AS x FROM s", "0)"),
        ("SELECT STREAM SUBSTRING(k FROM 'a#\"b' FOR '#') AS x FROM s", "'a#"),
    ],
)
def test_a_constant_that_fails_is_refused_with_its_place(query: str, at: str) -> None:
    session = SqlSession()
    session.feed("CREATE STREAM s (n INTEGER, k VARCHAR(8));")
    with pytest.raises(StatementError) as refused:
        session.feed(f"{query};" if query.startswith("CREATE") else f"CREATE VIEW v AS {query};")
    assert refused.value.place is not None
    assert refused.value.place.column == len("CREATE VIEW v AS ") + query.index(at) + 1


def test_a_month_behind_the_hour_is_told() -> None:
    session = SqlSession()
    session.feed(
        """CREATE STREAM s (at TIMESTAMP);
        CREATE VIEW v AS SELECT STREAM TO_CHAR(at, 'YYYY-MM-DD hh24:mm') AS x FROM s;
        CREATE VIEW w AS SELECT STREAM DATE_FORMAT(at, 'yyyy-MM-dd HH:MM') AS x FROM s;
        CREATE VIEW fine AS SELECT STREAM TO_CHAR(at, 'YY-MM HH24:MI') AS x, DATE_FORMAT(at, 'HH:mm') AS y FROM s;"""
    )
    told = [notice.message for notice in session.text_notices]
    assert told == [
        "MM in 'YYYY-MM-DD hh24:mm' is the month (line 2): the minute is MI",
        "MM in 'yyyy-MM-dd HH:MM' is the month (line 3): the minute is mm",
    ]
