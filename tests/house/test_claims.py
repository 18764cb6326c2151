"""What README and docs/limitations.md say is refused is refused, and what they list is what there is."""

from __future__ import annotations

import re
from collections.abc import Sequence

import pytest

from house.machine import ROOT
from rowtide.codec.registry import format_names
from rowtide.errors import StatementError
from rowtide.expr.aggregates.sum import MOST_PRODUCT_BITS
from rowtide.sql.pipeline import plan_pipeline
from rowtide_connectors.registry import connector_names

README = (ROOT / "README.md").read_text()
LIMITATIONS = (ROOT / "docs/limitations.md").read_text()

PRELUDE = """
CREATE STREAM s (k VARCHAR(4), n INTEGER, p DECIMAL(10, 2), x DOUBLE, j JSON);
CREATE STREAM r (k VARCHAR(4), n INTEGER);
CREATE TABLE t (k VARCHAR(4) PRIMARY KEY, n INTEGER);
CREATE TABLE u (k VARCHAR(4) PRIMARY KEY, n INTEGER);
"""


def view(query: str) -> str:
    return f"CREATE VIEW v AS {query};"


INTERPOLATE = """
CREATE FUNCTION f(x DOUBLE, step INTERVAL DAY TO SECOND, longest INTERVAL DAY TO SECOND)
  RETURNS TABLE (at TIMESTAMP, x DOUBLE) LANGUAGE PYTHON AS 'rowtide.functions.interpolation.Linear';
"""

REFUSED: dict[str, Sequence[str]] = {
    "sub-queries over streams without a window": (
        view("SELECT STREAM * FROM s WHERE n IN (SELECT STREAM n FROM r)"),
        view(
            "SELECT STREAM s.n FROM s LEFT JOIN t ON s.k = t.k AND EXISTS (SELECT 1 FROM u WHERE u.n = s.n + t.n)"
        ),
    ),
    "`ROWS` windows on a joined relation": (
        view("SELECT STREAM s.k FROM s JOIN r OVER (ROWS 3 PRECEDING) ON s.k = r.k"),
        view("SELECT STREAM SUM(n) OVER (ORDER BY ROWTIME GROUPS 3 PRECEDING) FROM s"),
        view("SELECT STREAM SUM(n) OVER (ROWS 3 PRECEDING EXCLUDE CURRENT ROW) FROM s"),
    ),
    "in windows over tables": (
        view("SELECT k, SUM(n) OVER (ORDER BY n RANGE INTERVAL '1' DAY PRECEDING) FROM t"),
        view("SELECT k, NTILE(4) OVER (ORDER BY n) FROM t"),
        view("SELECT k, PERCENT_RANK() OVER (ORDER BY n) FROM t"),
        view("SELECT k, CUME_DIST() OVER (ORDER BY n) FROM t"),
        view("SELECT k FROM t QUALIFY NTILE(4) OVER (ORDER BY n) = 1"),
    ),
    "`NTILE`": (
        view("SELECT STREAM NTILE(4) OVER (ORDER BY ROWTIME) FROM s"),
        view("SELECT STREAM PERCENT_RANK() OVER (ORDER BY n) FROM s"),
        view("SELECT STREAM CUME_DIST() OVER (ORDER BY n) FROM s"),
        view("SELECT STREAM LEAD(n) IGNORE NULLS OVER (ORDER BY ROWTIME) FROM s"),
        view("SELECT STREAM ARRAY_AGG(n) OVER (ROWS 3 PRECEDING) FROM s"),
        view("SELECT STREAM JSON_ARRAYAGG(n) OVER (ROWS 3 PRECEDING) FROM s"),
        view("SELECT STREAM JSON_OBJECTAGG(k VALUE n) OVER (ROWS 3 PRECEDING) FROM s"),
    ),
    "`WITH RECURSIVE`": (
        view("WITH RECURSIVE a AS (SELECT k FROM t) SELECT k FROM a"),
        view("SELECT k, COUNT(*) FROM t GROUP BY GROUPING SETS ((k), (n))"),
    ),
    "`LATERAL`": (
        view("SELECT STREAM s.k FROM s, LATERAL (SELECT n FROM t WHERE t.k = s.k) AS l"),
        view("SELECT STREAM * FROM GENERATE_SERIES(1, 3)"),
    ),
    "`HOP` by days of a size in months": (
        view("SELECT STREAM COUNT(*) FROM s GROUP BY HOP(ROWTIME, INTERVAL '1' DAY, INTERVAL '1' MONTH)"),
        view(
            "SELECT STREAM COUNT(*) FROM s "
            "GROUP BY CUMULATE(ROWTIME, INTERVAL '1' MINUTE, INTERVAL '1' HOUR) EMIT CHANGES"
        ),
        view(
            "SELECT STREAM * FROM TABLE(HOP(TABLE s, DESCRIPTOR(ROWTIME), INTERVAL '1' MINUTE, INTERVAL '1' HOUR))"
        ),
        view(
            "SELECT STREAM * FROM TABLE(CUMULATE(TABLE s, DESCRIPTOR(ROWTIME), INTERVAL '1' MINUTE, INTERVAL '1' HOUR))"
        ),
        view("SELECT STREAM * FROM TABLE(SESSION(TABLE s, DESCRIPTOR(ROWTIME), INTERVAL '1' MINUTE))"),
    ),
    "`MATCH_RECOGNIZE`": (
        view("SELECT STREAM * FROM s MATCH_RECOGNIZE (ORDER BY ROWTIME PATTERN (a) DEFINE a AS n > 1)"),
    ),
    "a query without a pump or view": ("SELECT STREAM * FROM s;", "INSERT INTO t SELECT STREAM k, n FROM s;"),
    "table functions over tables": (
        INTERPOLATE
        + view(
            "SELECT * FROM TABLE(f(CURSOR(SELECT 1e0 AS x FROM t), INTERVAL '1' SECOND, INTERVAL '1' HOUR))"
        ),
        INTERPOLATE
        + view(
            "SELECT STREAM * FROM TABLE(f(CURSOR(SELECT STREAM x FROM s), CURSOR(SELECT STREAM x FROM s), "
            "INTERVAL '1' SECOND, INTERVAL '1' HOUR))"
        ),
    ),
    "`GROUP BY FLOOR(m TO HOUR)`": (
        "CREATE VIEW w AS SELECT STREAM FLOOR(ROWTIME TO MINUTE) + INTERVAL '7' SECOND AS m, n FROM s; "
        + view("SELECT STREAM SUM(n) FROM w GROUP BY FLOOR(m TO HOUR)"),
        view("SELECT STREAM SUM(n) FROM s GROUP BY FLOOR(ROWTIME + INTERVAL '7' SECOND TO HOUR)"),
        view("SELECT STREAM SUM(n) FROM s GROUP BY CEIL(ROWTIME AT TIME ZONE 'Europe/Berlin' TO HOUR)"),
        view(
            "SELECT STREAM SUM(n) FROM s "
            "GROUP BY HOP(ROWTIME AT TIME ZONE 'Europe/Berlin', INTERVAL '1' HOUR, INTERVAL '1' DAY)"
        ),
        view(
            "SELECT STREAM SUM(n) FROM s GROUP BY SESSION(ROWTIME AT TIME ZONE 'Europe/Berlin', INTERVAL '1' HOUR)"
        ),
    ),
}
"""How a line of the list of what SQL refuses begins, and statements that are refused for it."""

TYPES: dict[str, Sequence[str]] = {
    "No type is finer than a millisecond: `TIMESTAMP(6)` is refused": ("CREATE STREAM a (x TIMESTAMP(6));",),
    "TIME WITH TIME ZONE is not supported": ("CREATE STREAM a (x TIME WITH TIME ZONE);",),
    "The types MAP and ROW do not exist": (
        "CREATE STREAM a (x MAP<VARCHAR(4), INTEGER>);",
        "CREATE STREAM a (x ROW(a INTEGER, b INTEGER));",
    ),
    "have one dimension, elements of any type but INTERVAL and JSON, and no order": (
        "CREATE STREAM a (x INTEGER ARRAY ARRAY);",
        "CREATE STREAM a (x INTERVAL DAY ARRAY);",
        "CREATE STREAM a (x JSON ARRAY);",
        "CREATE STREAM a (x INTEGER ARRAY); " + view("SELECT STREAM x FROM a WHERE x < x"),
    ),
    "JSON has no comparison": (view("SELECT STREAM k FROM s WHERE j = j"),),
}
"""What the page says of types, and statements that are refused for it."""

FORMATS = {
    "AVRO": "Avro",
    "BSON": "BSON",
    "CSV": "CSV",
    "DEBEZIUM_AVRO": "Debezium's envelopes in both",
    "DEBEZIUM_JSON": "Debezium's envelopes in both",
    "JSON": "JSON",
    "KEY_VALUE": "key-value pairs",
    "PROTOBUF": "Protobuf",
    "RAW": "RAW",
    "XML": "XML",
}
"""What the pages call each format."""
CONNECTORS = {"files": "files", "http": "webhooks", "kafka": "Kafka", "rdbms": "databases"}
"""What the pages call each connector but that of tests and the demo, ``memory``."""


def listed(text: str, before: str) -> list[str]:
    """Return the lines of the list after a line, each in one piece."""
    block = text.partition(before)[2].lstrip("\n").partition("\n\n")[0]
    return [" ".join(each.split()) for each in re.split(r"^\* ", block, flags=re.MULTILINE) if each.strip()]


def test_each_line_of_what_is_refused_has_a_statement() -> None:
    lines = listed(LIMITATIONS, "These are refused:\n")
    assert len(lines) == len(REFUSED)
    assert [each for each in lines if not each.startswith(tuple(REFUSED))] == []


@pytest.mark.parametrize("claim", TYPES)
def test_what_the_page_says_of_types_is_there(claim: str) -> None:
    assert claim in " ".join(LIMITATIONS.split())


@pytest.mark.parametrize(
    "statement", [each for table in (REFUSED, TYPES) for statements in table.values() for each in statements]
)
def test_what_the_page_says_is_refused(statement: str) -> None:
    with pytest.raises(StatementError) as caught:
        plan_pipeline(PRELUDE + statement)
    assert caught.value.place is not None


def test_the_page_has_the_limit_of_products() -> None:
    assert f"an exact product of at most {MOST_PRODUCT_BITS:,} bits" in " ".join(LIMITATIONS.split())


def test_the_pages_name_every_format_and_no_other() -> None:
    assert FORMATS.keys() == {*format_names()}
    (sentence,) = re.findall(r"Formats are (.*?)\.", " ".join(LIMITATIONS.split()))
    named = re.split(r", | and ", sentence)
    assert sorted(named) == sorted({*FORMATS.values()})


def test_the_table_of_systems_names_every_connector() -> None:
    assert CONNECTORS.keys() | {"memory"} == {*connector_names()}
    (row,) = [line for line in README.splitlines() if line.startswith("| other sources and sinks |")]
    ours = row.split("|")[2]
    assert [name for name in CONNECTORS.values() if name not in ours] == []
    (row,) = [line for line in README.splitlines() if line.startswith("| Avro, Protobuf, Schema Registry |")]
    assert all(name in row for name in ("Avro", "Protobuf", "XML", "BSON"))


def test_the_limits_of_the_readme_are_those_of_the_page() -> None:
    """The README names a few of the page's; none of them is something that the product has."""
    limits = " ".join(README.partition("\n## Limits\n")[2].partition("\n## ")[0].split())
    assert "The types MAP and ROW do not exist." in limits
    page = " ".join(LIMITATIONS.split())
    for name in re.findall(r"(?:[Tt]here is no|has no|no) ([A-Z][A-Za-z]+)", f"{limits} {page}"):
        assert name.upper() not in format_names(), name
