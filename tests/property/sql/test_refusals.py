"""Whatever text comes in: it is planned, or refused with a StatementError that has a place inside of it."""

from __future__ import annotations

import re

from hypothesis import given, settings
from hypothesis import strategies as st

from rowtide.errors import Place, StatementError
from rowtide.plan.order import is_ordered
from rowtide.sql.dialect import RESERVED
from rowtide.sql.pipeline import Session

PRELUDE = """
CREATE SERVER b FOREIGN DATA WRAPPER KAFKA OPTIONS (bootstrap_servers 'b');
CREATE SERVER d FOREIGN DATA WRAPPER RDBMS OPTIONS (url 'sqlite://');
CREATE STREAM s (at TIMESTAMP, k VARCHAR(4), n INTEGER, p DECIMAL(10, 2), x DOUBLE, day DATE);
CREATE FOREIGN STREAM f (at TIMESTAMP, k VARCHAR(4), n INTEGER) SERVER b OPTIONS (topic 'f');
CREATE TABLE t (k VARCHAR(4) PRIMARY KEY, n INTEGER);
CREATE FOREIGN TABLE o (at TIMESTAMP, k VARCHAR(4), n INTEGER, PRIMARY KEY (k)) SERVER d;
"""
STATEMENTS = r"""
CREATE VIEW v AS SELECT STREAM at AS ROWTIME, * FROM f WHERE n > 1 ORDER BY at WITHIN INTERVAL '1' MINUTE;

CREATE VIEW v AS
  SELECT STREAM FLOOR(ROWTIME TO HOUR) AS h, k, SUM(n) AS t, AVG(p) FILTER (WHERE n > 1) AS a
  FROM s GROUP BY FLOOR(ROWTIME TO HOUR), k HAVING COUNT(*) > 2;

CREATE VIEW v AS
  SELECT STREAM s.k, t.n FROM s LEFT JOIN t FOR SYSTEM_TIME AS OF s.ROWTIME ON s.k = t.k;

CREATE VIEW v (a, b) AS SELECT STREAM k, n FROM s UNION ALL SELECT STREAM k, n + 1 FROM f;

CREATE PUMP p STARTED AS INSERT INTO o (at, k, n) SELECT STREAM ROWTIME, k, n FROM s WHERE k LIKE 'a%';

CREATE VIEW v AS
  SELECT STREAM CASE WHEN n IS NULL THEN 'x' ELSE k || 'y' END AS c, CAST(p AS INTEGER) AS i,
    TRIM(BOTH ' ' FROM k) AS w, EXTRACT(HOUR FROM at) AS e, n BETWEEN 1 AND 2 AS z, n IN (1, 2) AS y
  FROM s;

CREATE TABLE u (a INTEGER NOT NULL, b VARCHAR(3), PRIMARY KEY (a));
INSERT INTO u VALUES (1, 'x'), (2, NULL);

CREATE OR REPLACE SCHEMA "Q"; SET SCHEMA '"Q"'; CREATE STREAM z (a TIMESTAMP(3), b DECIMAL(5, 2));

DROP STREAM s; DROP TABLE IF EXISTS u; ALTER PUMP p STOP; CREATE STREAM r (a INTERVAL DAY TO SECOND);

CREATE VIEW v AS
  SELECT STREAM at + INTERVAL '1 02:03:04.5' DAY TO SECOND AS a, -n AS m, x / 1e3 AS q,
    DATE '2020-02-29' AS d, TIME '10:00:00' AS e, COALESCE(k, 'z') AS c
  FROM s;
""".strip().split("\n\n")
TOKEN = re.compile(r"'[^']*'|\"[^\"]*\"|[A-Za-z_]\w*|[\d.]+|<>|<=|>=|\|\||\S")
WORDS = sorted(
    {token for text in STATEMENTS for token in TOKEN.findall(text)}
    | RESERVED
    | {
        "99999999999999999999",
        "''",
        '""',
        "1e999",
        "OVER",
        "ROWTIME",
        "é",
        "\u2028",
        "$",
        "--",
        "/*",
        "\x00",
        "@",
    }
)


@st.composite
def mutated(draw: st.DrawFn) -> str:
    """Give a statement with some tokens taken away, doubled, swapped or replaced."""
    tokens = TOKEN.findall(draw(st.sampled_from(STATEMENTS)))
    for _ in range(draw(st.integers(0, 4))):
        at = draw(st.integers(0, len(tokens) - 1))
        match draw(st.sampled_from(["drop", "double", "swap", "replace", "insert"])):
            case "drop":
                del tokens[at]
            case "double":
                tokens.insert(at, tokens[at])
            case "swap":
                other = draw(st.integers(0, len(tokens) - 1))
                tokens[at], tokens[other] = tokens[other], tokens[at]
            case "replace":
                tokens[at] = draw(st.sampled_from(WORDS))
            case _:
                tokens.insert(at, draw(st.sampled_from(WORDS)))
        if not tokens:
            break
    return draw(st.sampled_from([" ", "\n", " \r\n\t"])).join(tokens)


def prepared() -> Session:
    session = Session()
    session.feed(PRELUDE)
    return session


def check(text: str) -> None:
    """Plan ``text`` after the prelude; see that a refusal points into the text that it shows."""
    session = prepared()
    before = session.plan
    try:
        plan = session.feed(text, file="a.sql")
    except StatementError as error:
        assert session.plan is before
        assert isinstance(error.place, Place)
        assert error.text is not None
        lines = error.text.splitlines() or [""]
        assert 1 <= error.place.line <= len(lines) + 1
        if error.place.line <= len(lines):
            assert 1 <= error.place.column <= len(lines[error.place.line - 1]) + 2
        assert error.message
        assert error.message[-1] != "."
        error.render()
    else:
        for _, node in plan.relations:
            assert is_ordered(node)


@settings(max_examples=300)
@given(mutated())
def test_a_mutated_statement_is_planned_or_refused_at_a_place(text: str) -> None:
    check(text)


@settings(max_examples=100)
@given(st.text(max_size=60))
def test_any_text_is_planned_or_refused_at_a_place(text: str) -> None:
    check(text)


def test_the_statements_that_are_mutated_are_themselves_accepted() -> None:
    for text in STATEMENTS:
        if not text.startswith("DROP"):
            prepared().feed(text)


def test_a_statement_nested_too_deeply_is_refused() -> None:
    for text in ("(" * 5_000 + "1" + ")" * 5_000, "- " * 5_000 + "1", "1" + "+1" * 20_000):
        check(f"CREATE VIEW v AS SELECT STREAM {text} AS a FROM s;")


def test_a_refusal_of_the_guide_that_is_not_supported_yet_says_so() -> None:
    for text in (
        "CREATE VIEW v AS WITH RECURSIVE w AS (SELECT STREAM * FROM s) SELECT STREAM * FROM w;",
        "CREATE VIEW v AS SELECT STREAM * FROM TABLE(g(CURSOR(SELECT STREAM * FROM s)));",
    ):
        try:
            prepared().feed(text)
        except StatementError as error:
            assert "not supported yet" in error.message or "for now" in error.message
        else:
            raise AssertionError(text)
