"""The tables that list what is defined, and SHOW and DESCRIBE over them (docs/sql/catalog.md)."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from rowtide.errors import StatementError
from rowtide.plan.nodes import TableSource, nodes_below
from rowtide.rows.rowop import Row
from rowtide.sql.catalog.system import ERROR_ROWS, ERRORS, TABLES
from rowtide.sql.functions.built_in import BUILT_IN
from rowtide.sql.pipeline import SqlSession

DOCS = Path(__file__).parents[3] / "docs" / "sql"
PAGE = (DOCS / "catalog.md").read_text(encoding="utf-8")
TEXT = "\n".join(page.read_text(encoding="utf-8") for page in sorted(DOCS.glob("*.md")))
DEFINED = """
CREATE SCHEMA shop;
CREATE SERVER k FOREIGN DATA WRAPPER KAFKA OPTIONS (bootstrap_servers 'localhost:9092');
CREATE SERVER d FOREIGN DATA WRAPPER RDBMS OPTIONS (url 'sqlite://');
CREATE FOREIGN STREAM feed (a VARCHAR(8), d DECIMAL(9, 2)) SERVER k OPTIONS (topic 'feed');
CREATE FOREIGN TABLE sink (b INTEGER, a VARCHAR(8), PRIMARY KEY (a, b)) SERVER d;
CREATE TABLE shop."Odd.name" (id INTEGER NOT NULL, UNIQUE (id));
CREATE VIEW latest AS SELECT STREAM KAFKA_OFFSET AS o, a FROM feed;
CREATE PUMP p STOPPED AS INSERT INTO sink SELECT STREAM 1, a FROM feed;
"""


@pytest.fixture
def session() -> SqlSession:
    defined = SqlSession()
    defined.feed(DEFINED)
    return defined


def held(session: SqlSession, table: str) -> tuple[Row, ...]:
    """Return the rows of a table that lists definitions."""
    (source,) = (
        each
        for each in nodes_below(session.listing(f"SELECT * FROM {table}").node)
        if isinstance(each, TableSource)
    )
    return source.rows


def test_each_kind_of_object_is_listed(session: SqlSession) -> None:
    assert held(session, "INFORMATION_SCHEMA.SCHEMATA") == (
        ("PUBLIC",),
        ("SHOP",),
        ("SYS",),
        ("INFORMATION_SCHEMA",),
    )
    assert held(session, "INFORMATION_SCHEMA.TABLES") == (
        ("PUBLIC", "FEED", "FOREIGN STREAM"),
        ("PUBLIC", "SINK", "FOREIGN TABLE"),
        ("SHOP", "Odd.name", "BASE TABLE"),
        ("PUBLIC", "LATEST", "VIEW"),
    )
    assert held(session, "SYS.PUMPS") == (("PUBLIC", "P", "SINK", False),)
    assert held(session, "SYS.SERVERS") == (("K", "KAFKA"), ("D", "RDBMS"))
    assert held(session, "SYS.INDEXES") == (("SHOP", "Odd.name", "ID", "ID", True),)
    assert held(session, "SYS.MODELS") == ()


def test_columns_have_their_types_and_places_in_the_key(session: SqlSession) -> None:
    assert held(session, "INFORMATION_SCHEMA.COLUMNS") == (
        ("PUBLIC", "FEED", "A", 1, "YES", "VARCHAR(8)", 8, None, None, None),
        ("PUBLIC", "FEED", "D", 2, "YES", "DECIMAL(9, 2)", None, 9, 2, None),
        ("PUBLIC", "SINK", "B", 1, "NO", "INTEGER", None, None, None, 2),
        ("PUBLIC", "SINK", "A", 2, "NO", "VARCHAR(8)", 8, None, None, 1),
        ("SHOP", "Odd.name", "ID", 1, "NO", "INTEGER", None, None, None, None),
        ("PUBLIC", "LATEST", "O", 1, "NO", "BIGINT", None, None, None, None),
        ("PUBLIC", "LATEST", "A", 2, "YES", "VARCHAR(8)", 8, None, None, None),
    )


def test_every_listed_function_is_in_the_pages(session: SqlSession) -> None:
    names = [str(name) for name, _ in held(session, "SYS.FUNCTIONS")]
    assert len(names) == len(set(names)) > 200
    assert [name for name in names if not re.search(rf"(?<![\w.]){name}(?!\w)", TEXT)] == []


NOT_FUNCTIONS = frozenset(
    {
        *(
            "ALL",
            "AND",
            "ANY",
            "ARRAY",
            "CASE",
            "CURSOR",
            "DATE",
            "EXISTS",
            "ILIKE",
            "INTERVAL",
            "LATERAL",
            "LIKE",
        ),
        *("NOT", "OR", "PERIOD", "ROW", "SOME", "TABLE", "TIME", "TIMESTAMP", "UNNEST"),
        *("CEIL_TO", "FLOOR_TO", "NEGATE", "TRIM_LEADING", "TRIM_TRAILING", "COLLECT"),
    }
)
"""Built-in names that are words of the grammar, parts of a form, or not supported."""


def test_every_function_is_listed(session: SqlSession) -> None:
    listed = {str(name) for name, _ in held(session, "SYS.FUNCTIONS")}
    calls = {name for name in BUILT_IN if name.isidentifier()}
    assert calls - listed == NOT_FUNCTIONS


@pytest.mark.parametrize("key", [*TABLES, ERRORS], ids=".".join)
def test_the_page_has_the_columns_of_each_table(key: tuple[str, str]) -> None:
    (line,) = (each for each in PAGE.splitlines() if each.startswith(f"| `{'.'.join(key)}` |"))
    if key == ERRORS:
        assert "(errors.md)" in line
        assert all(
            f"`{name}`" in (DOCS / "errors.md").read_text(encoding="utf-8") for name in ERROR_ROWS.names
        )
        return
    found = re.findall(r"`([A-Z_]{4,})`", line.split("|")[2])
    values = {"VIEW", "STREAM", "SCALAR", "AGGREGATE", "WINDOW"}
    assert [name for name in found if name not in values] == list(TABLES[key][0].names)


@pytest.mark.parametrize(
    "what", re.findall(r"[A-Z]+", " ".join(re.findall(r"^SHOW ([A-Z| ]*)", PAGE, re.MULTILINE)))
)
def test_everything_that_the_page_shows_can_be_listed(session: SqlSession, what: str) -> None:
    assert session.listing(f"SHOW {what} LIKE 'a%'").changes


def test_describe_names_a_relation_by_its_schema(session: SqlSession) -> None:
    assert session.listing('DESCRIBE shop."Odd.name"').node.row_type.names[:1] == ("COLUMN_NAME",)
    session.feed("SET SCHEMA 'SHOP';")
    assert session.listing('DESC "Odd.name"').changes
    for text, wanted in (
        ("DESCRIBE nope", "does not exist"),
        ("DESCRIBE PUBLIC.p", "is a pump"),
        ("DESCRIBE SYS.PUMPS", "not described"),
        ("SHOW TABLES IN nope", 'schema "NOPE" does not exist'),
        ("SHOW NOPE", "expected TABLES"),
        ("SELECT * FROM SYS.PUMP", "does not exist"),
    ):
        with pytest.raises(StatementError, match=wanted) as caught:
            session.listing(text)
        assert caught.value.place is not None


@pytest.mark.parametrize(
    "text",
    [
        "SHOW TABLES",
        "DESCRIBE feed",
        "CREATE VIEW v AS SELECT * FROM SYS.PUMPS",
        "CREATE VIEW INFORMATION_SCHEMA.v AS SELECT 1 AS n",
        "CREATE SCHEMA information_schema",
        "DROP VIEW SYS.PUMPS",
        "INSERT INTO INFORMATION_SCHEMA.TABLES VALUES (1)",
    ],
)
def test_a_pipeline_cannot_contain_them(session: SqlSession, text: str) -> None:
    with pytest.raises(StatementError):
        session.feed(text)
