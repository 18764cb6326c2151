"""Whatever text comes in: it is planned, or refused with a StatementError that has a place inside of it."""

from __future__ import annotations

import random
from collections.abc import Sequence
from copy import copy
from typing import Protocol

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from property.sql.sql_corpus import TOKEN, Seed, bracket_at, grafts, seeds
from rowtide.errors import SourceSpan, StatementError
from rowtide.flow.flow import Flow
from rowtide.plan.explain import explain
from rowtide.plan.nodes import Node, Source
from rowtide.plan.nodes.walk import nodes_below
from rowtide.sql.grammar.dialect import RESERVED
from rowtide.sql.pipeline import SqlSession

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

CREATE VIEW v AS
  WITH a (x, y) AS (SELECT STREAM k, n FROM s),
    b AS (SELECT STREAM x FROM a WHERE y BETWEEN SYMMETRIC 3 AND 1)
  SELECT STREAM q.x FROM b AS q (x) UNION ALL SELECT STREAM k FROM f ORDER BY ROWTIME;

CREATE VIEW v AS
  SELECT STREAM k, SUM(n) AS t, RANK() OVER w AS r, MAX(SUM(n)) OVER (PARTITION BY k ROWS 3 PRECEDING) AS m
  FROM s GROUP BY HOP(ROWTIME, INTERVAL '1' MINUTE, INTERVAL '3' MINUTE), k
  WINDOW w AS (PARTITION BY k ORDER BY ROWTIME);

CREATE VIEW v AS
  SELECT STREAM k, n FROM s ORDER BY FLOOR(ROWTIME TO HOUR), n DESC NULLS LAST, k LIMIT 3 OFFSET 1;

CREATE VIEW v AS
  SELECT STREAM a.k, b.n
  FROM s OVER (ORDER BY STEP(s.ROWTIME BY INTERVAL '1' HOUR) RANGE INTERVAL '0' HOUR PRECEDING) AS a
  RIGHT JOIN f OVER (RANGE BETWEEN INTERVAL '2' MINUTE PRECEDING AND CURRENT ROW) AS b
  ON a.k = b.k AND a.n < b.n;

CREATE VIEW v AS
  SELECT STREAM k, n, b.n AS m FROM f AS a NATURAL JOIN t LEFT JOIN t AS b USING (k)
  WHERE k IN (SELECT k FROM t WHERE n > 1) AND n > 0;

CREATE VIEW v AS
  SELECT STREAM DISTINCT FLOOR(ROWTIME TO DAY) AS d, k FROM s
  EXCEPT SELECT STREAM FLOOR(ROWTIME TO DAY), k FROM f
  INTERSECT SELECT STREAM FLOOR(ROWTIME TO DAY), k FROM s;

CREATE VIEW v AS
  SELECT STREAM KAFKA_OFFSET AS o, LPAD(k, 3, 'x') SIMILAR TO '(a|b)%' ESCAPE '!' AS z,
    TIMESTAMPADD(DAY, n, at) AS t,
    SUBSTRING(k FROM 1 FOR 2) AS u, POSITION('a' IN k) AS p, OVERLAY(k PLACING 'x' FROM 1) AS w
  FROM f;

CREATE FOREIGN DATA WRAPPER w LIBRARY 'KAFKA' OPTIONS (a 'b');
ALTER SERVER b OPTIONS (SET bootstrap_servers 'c', ADD z 'y');
CREATE INDEX i ON t (n); DROP INDEX IF EXISTS i; ALTER VIEW v DESCRIPTION 'x';
""".strip().split("\n\n")
TOKENS = [TOKEN.findall(text) for text in STATEMENTS]
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


class Choices(Protocol):
    """Where chance comes from."""

    def number(self, most: int) -> int:
        """Return a number from 0 to ``most``."""

    def one(self, of: Sequence[str]) -> str:
        """Return one of several."""


class Drawn:
    """Chance from hypothesis, which can make a failure small."""

    def __init__(self, draw: st.DrawFn) -> None:
        self._draw = draw

    def number(self, most: int) -> int:
        return self._draw(st.integers(0, most))

    def one(self, of: Sequence[str]) -> str:
        return self._draw(st.sampled_from(of))


class Seeded:
    """Chance from a seed: ten times as quick."""

    def __init__(self, seed: int) -> None:
        self._rng = random.Random(seed)

    def number(self, most: int) -> int:
        return self._rng.randint(0, most)

    def one(self, of: Sequence[str]) -> str:
        return self._rng.choice(of)


def mutation(chance: Choices, of: Sequence[str]) -> str:
    """Return a statement with tokens taken away, doubled, swapped, or replaced, or with brackets of others."""
    tokens = list(of)
    for _ in range(chance.number(4)):
        at = chance.number(len(tokens) - 1)
        match chance.one(["drop", "double", "swap", "replace", "insert", "graft"]):
            case "drop":
                del tokens[at]
            case "double":
                tokens.insert(at, tokens[at])
            case "swap":
                other = chance.number(len(tokens) - 1)
                tokens[at], tokens[other] = tokens[other], tokens[at]
            case "replace":
                tokens[at] = chance.one(WORDS)
            case "graft":
                # A bracket, or any token, gives way to a bracket of another statement.
                pieces = grafts()
                tokens[at : bracket_at(tokens, at)] = pieces[chance.number(len(pieces) - 1)]
            case _:
                tokens.insert(at, chance.one(WORDS))
        if not tokens:
            break
    return chance.one([" ", "\n", " \r\n\t"]).join(tokens)


@st.composite
def mutated(draw: st.DrawFn) -> str:
    return mutation(Drawn(draw), draw(st.sampled_from(TOKENS)))


PREPARED = SqlSession()
PREPARED.feed(PRELUDE)


def prepared() -> SqlSession:
    """Return a session after the prelude; what it holds are values, so a copy is one of its own."""
    return copy(PREPARED)


def check(text: str, after: SqlSession = PREPARED) -> None:
    """Plan ``text`` after what a session has taken; see that a refusal points into the text that it shows."""
    session = copy(after)
    before = session.plan
    try:
        plan = session.feed(text, file="a.sql")
    except StatementError as error:
        assert session.plan is before
        assert isinstance(error.place, SourceSpan)
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
            assert node.is_ordered()


MUTATIONS = 10_000
"""Of each seed of the long run."""
FEW_MUTATIONS = 1_000
"""In every run."""


def check_mutations(seed: int, count: int) -> None:
    """Mutate the statements above and, as often, any statement that the project has anywhere."""
    chance = Seeded(seed)
    known = (*(Seed(PREPARED, tokens) for tokens in TOKENS), *seeds())
    for number in range(count):
        one = known[chance.number(len(TOKENS) - 1 if number % 2 else len(known) - 1)]
        text = mutation(chance, one.tokens)
        try:
            check(text, one.session)
        except Exception as error:
            error.add_note(f"seed {seed}, mutation {number}: {text!r}")
            raise


ASKED = 1_000
"""How many queries, statements and relations are tried beyond their plan, in every run."""


def check_asked(seed: int, count: int) -> None:
    """Mutate queries that are asked and statements that are sent; see that what is accepted has operators."""
    chance = Seeded(seed)
    known = (*(Seed(PREPARED, tokens) for tokens in TOKENS), *seeds())
    for number in range(count):
        one = known[chance.number(len(TOKENS) - 1 if number % 2 else len(known) - 1)]
        start = one.tokens.index("SELECT") if "SELECT" in one.tokens else 0
        text = mutation(chance, one.tokens[start:])
        session = copy(one.session)
        try:
            if one.tokens[0] in ("INSERT", "UPDATE", "DELETE", "MERGE", "TRUNCATE"):
                session.sent(text)
            else:
                check_operators(session.query(text))
        except StatementError as error:
            error.render()
        except Exception as error:
            error.add_note(f"seed {seed}, mutation {number}: {text!r}")
            raise


def check_operators(node: Node) -> None:
    """See that a query is explained, and that its operators can be made."""
    assert explain(node).lines()
    sources = (each for each in nodes_below(node) if isinstance(each, Source))
    Flow({"Q": node}, {each.relation: (0,) for each in sources})


def test_mutated_statements_of_the_project_are_planned_or_refused_at_a_place() -> None:
    check_mutations(0, FEW_MUTATIONS)
    # In the same test, because all SQL of the project is planned first.
    check_asked(0, ASKED)


@pytest.mark.long
@pytest.mark.timeout(1_800)
@pytest.mark.parametrize("seed", range(10))
def test_a_hundred_thousand_mutated_statements_are_planned_or_refused_at_a_place(seed: int) -> None:
    check_mutations(seed, MUTATIONS)
    check_asked(seed, MUTATIONS)


@settings(max_examples=100)
@given(mutated())
def test_a_mutated_statement_is_planned_or_refused_at_a_place(text: str) -> None:
    check(text)


@settings(max_examples=100)
@given(st.text(max_size=60))
def test_any_text_is_planned_or_refused_at_a_place(text: str) -> None:
    check(text)


def test_the_statements_that_are_mutated_are_themselves_accepted() -> None:
    for text in STATEMENTS:
        if not text.startswith(("DROP", "CREATE FOREIGN DATA")):
            prepared().feed(text)


def test_a_statement_nested_too_deeply_is_refused() -> None:
    for text in ("(" * 5_000 + "1" + ")" * 5_000, "- " * 5_000 + "1", "1" + "+1" * 20_000):
        check(f"CREATE VIEW v AS SELECT STREAM {text} AS a FROM s;")


def test_a_refusal_of_the_guide_that_is_not_supported_yet_says_so() -> None:
    with pytest.raises(StatementError, match=r"not supported yet|for now"):
        prepared().feed(
            "CREATE VIEW v AS WITH RECURSIVE w AS (SELECT STREAM * FROM s) SELECT STREAM * FROM w;"
        )
