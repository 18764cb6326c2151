"""Queries of a prompt, of Python and of the API read foreign tables: what is committed in the database, once."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import fields
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from typer.testing import CliRunner

import rowtide
from rowtide.cli.main import app
from rowtide.clock import SystemClock
from rowtide.config.settings import Settings
from rowtide.embedded.engine import EmbeddedEngine
from rowtide.errors import StatementError
from rowtide.runtime.query.query_work import QueryLimits, QueryText
from rowtide.runtime.recovery.begin import parse_begin
from rowtide.runtime.state.committed_tables import CommittedTables
from rowtide.runtime.state.output import TableOutput
from rowtide.runtime.state.questions import Questions
from rowtide.sql.pipeline import SqlSession, plan_pipeline
from rowtide_connectors.memory import memory_broker
from rowtide_connectors.registry import find_sink
from support.served import served
from support.waiting import wait_until

SQL = """
CREATE SERVER k FOREIGN DATA WRAPPER MEMORY OPTIONS (broker '{file}');
CREATE SERVER d FOREIGN DATA WRAPPER RDBMS OPTIONS (url 'sqlite:///{file}');
CREATE FOREIGN STREAM readings (sensor VARCHAR(8), amount INTEGER)
  SERVER k OPTIONS (topic 'readings', partitions '1', format 'JSON');
CREATE TABLE rooms (sensor VARCHAR(8) PRIMARY KEY, room VARCHAR(8));
INSERT INTO rooms VALUES ('s0', 'hall'), ('s1', 'attic');
CREATE FOREIGN TABLE latest (sensor VARCHAR(8), amount INTEGER, PRIMARY KEY (sensor)) SERVER d;
CREATE FOREIGN TABLE log (sensor VARCHAR(8), amount INTEGER) SERVER d OPTIONS (table_name 'lines');
CREATE PUMP p AS INSERT INTO latest SELECT STREAM sensor, amount FROM readings;
CREATE PUMP q AS INSERT INTO log SELECT STREAM sensor, amount FROM readings;
"""
MESSAGES = [b'{"sensor":"s%d","amount":%d}' % (number % 3, number) for number in range(7)]
ANSWERS = {
    "SELECT * FROM latest ORDER BY sensor": [["s0", 6], ["s1", 4], ["s2", 5]],
    "SELECT sensor FROM latest WHERE amount > 4 ORDER BY amount DESC": [["s0"], ["s2"]],
    "SELECT sensor FROM latest ORDER BY amount LIMIT 1": [["s1"]],
    "SELECT sensor FROM latest ORDER BY amount LIMIT 1 OFFSET 1": [["s2"]],
    "SELECT amount FROM log WHERE sensor = 's0' AND amount > 3 LIMIT 1": [[6]],
    "SELECT * FROM latest LIMIT 0": [],
    "SELECT COUNT(*) AS n, SUM(amount) AS s FROM log": [[7, 21]],
    "SELECT COUNT(*) AS n FROM log WHERE amount > 99": [[0]],
    "SELECT sensor, COUNT(*) AS n FROM log GROUP BY sensor HAVING COUNT(*) > 2": [["s0", 3]],
    "SELECT DISTINCT sensor FROM log WHERE amount < 2 ORDER BY sensor": [["s0"], ["s1"]],
    "SELECT l.amount FROM log AS l JOIN latest AS t ON l.sensor = t.sensor AND l.amount = t.amount ORDER BY 1": [
        [4],
        [5],
        [6],
    ],
    "SELECT room, amount FROM latest AS l JOIN rooms AS r ON l.sensor = r.sensor ORDER BY room": [
        ["attic", 4],
        ["hall", 6],
    ],
    "SELECT sensor FROM latest WHERE amount = (SELECT MAX(amount) FROM log)": [["s0"]],
    "SELECT sensor FROM latest WHERE sensor NOT IN (SELECT sensor FROM rooms)": [["s2"]],
    "WITH t AS (SELECT amount FROM latest) SELECT MAX(amount) AS m FROM t": [[6]],
    "SELECT sensor FROM latest INTERSECT SELECT sensor FROM rooms WHERE room = 'hall'": [["s0"]],
}
"""Queries, of tables alone and joined with one of the pipeline's, and their rows."""
OF_A_SERVICE = (
    "SELECT sensor FROM latest WHERE amount > 4 ORDER BY amount DESC",
    "SELECT COUNT(*) AS n, SUM(amount) AS s FROM log",
    "SELECT room, amount FROM latest AS l JOIN rooms AS r ON l.sensor = r.sensor ORDER BY room",
)
"""Those that are asked of a service, too: each is a process."""


def engine_of(text: str) -> EmbeddedEngine:
    engine = EmbeddedEngine(Settings(), parse_begin("earliest"), SystemClock(), until_end=True)
    engine.load(text)
    return engine


def call(*arguments: str, code: int = 0) -> str:
    result = CliRunner().invoke(app, ["sql", *arguments])
    assert result.exit_code == code, result.output
    return result.stdout if code == 0 else result.output


def rows_of(answer: str) -> list[list[Any]]:
    return [list(json.loads(line).values()) for line in answer.splitlines()]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    found = tmp_path / "readings.sql"
    found.write_text(SQL.format(file=tmp_path / "out.db"))
    broker = memory_broker(str(tmp_path / "out.db"))
    broker.ensure_topic("readings", 1)
    broker.produce("readings", MESSAGES, timestamps=[1_000 * at for at in range(len(MESSAGES))], partition=0)
    return found


def execute(file: Path, *statements: str) -> None:
    with closing(sqlite3.connect(file.parent / "out.db")) as database, database:
        for statement in statements:
            database.execute(statement)


@contextmanager
def running(file: Path, limits: QueryLimits | None = None) -> Iterator[str]:
    """Run the pipeline; yield the address of its service once all messages are committed."""
    with served(file, limits) as url, closing(sqlite3.connect(file.parent / "out.db")) as database:
        wait_until(lambda: database.execute("select count(*) from lines").fetchone()[0] == len(MESSAGES))
        yield url


def filled(file: Path) -> None:
    """Write what the pipeline would write."""
    rows = [json.loads(each) for each in MESSAGES]
    execute(
        file,
        "create table lines (sensor varchar(8), amount integer)",
        "create table latest (sensor varchar(8) not null primary key, amount integer)",
        *(f"insert into lines values ('{row['sensor']}', {row['amount']})" for row in rows),
        *(f"insert or replace into latest values ('{row['sensor']}', {row['amount']})" for row in rows),
    )


def test_an_engine_in_this_process_reads_what_is_committed(file: Path) -> None:
    filled(file)
    engine = engine_of(file.read_text())
    for query, rows in ANSWERS.items():
        answered = engine.answer(query).tray
        assert [list(timed.row) for timed in answered.rows()] == rows, query
    assert call(str(file), "-e", "SELECT * FROM latest ORDER BY sensor").splitlines() == [
        "SENSOR | AMOUNT",
        "s0 | 6",
        "s1 | 4",
        "s2 | 5",
        "(3 rows)",
    ]
    result = rowtide.sql(file, "SELECT amount FROM latest ORDER BY sensor")
    assert result.to_arrow().column("AMOUNT").to_pylist() == [6, 4, 5]
    joined = (
        "SELECT STREAM r.amount, l.amount AS last FROM readings AS r JOIN latest AS l ON r.sensor = l.sensor"
    )
    answer = call(str(file), "-e", joined, "--until-end", "--json").splitlines()
    assert [json.loads(line)["LAST"] for line in answer] == [6, 4, 5, 6, 4, 5, 6]


def test_a_service_reads_what_is_committed(file: Path) -> None:
    with running(file) as url:
        for query in OF_A_SERVICE:
            assert rows_of(call("--service", url, "-e", query, "--json")) == ANSWERS[query], query
        with rowtide.connect(url) as connection, connection.cursor() as cursor:
            cursor.execute("SELECT * FROM latest ORDER BY sensor")
            assert cursor.fetchall() == [("s0", 6), ("s1", 4), ("s2", 5)]
        # What is committed is read once, also by a query that continues.
        followed = call("--service", url, "-e", "SELECT * FROM latest ORDER BY sensor", "--follow", "--json")
        assert [json.loads(line)["SENSOR"] for line in followed.splitlines()] == ["s0", "s1", "s2"]
        execute(file, "update latest set amount = 'x' where sensor = 's1'")
        wrong = call("--service", url, "-e", "SELECT * FROM latest", code=2)
        assert 'table "LATEST" has a row that does not fit its declaration' in wrong


def test_the_limits_of_a_query_hold_and_a_limit_reads_no_further(file: Path) -> None:
    with running(file, QueryLimits(rows=5)) as url:
        execute(file, *("insert into lines select sensor, amount from lines" for _ in range(10)))
        refused = call("--service", url, "-e", "SELECT * FROM log", code=2)
        assert "the query has more than 5 rows" in refused
        assert len(call("--service", url, "-e", "SELECT * FROM log LIMIT 3", "--json").splitlines()) == 3
        assert rows_of(call("--service", url, "-e", "SELECT COUNT(*) AS n FROM log", "--json")) == [[7168]]


def test_a_table_that_is_missing_or_does_not_fit_is_named(file: Path) -> None:
    missing = call(str(file), "-e", "SELECT * FROM latest", code=2)
    assert 'table "latest" does not exist' in missing
    assert "`rowtide run` creates it" in missing
    execute(file, "create table latest (sensor varchar(8) not null primary key)")
    assert 'column "amount" is missing' in call(str(file), "-e", "SELECT * FROM latest", code=2)


def test_a_pipeline_does_not_read_foreign_tables(file: Path) -> None:
    for text in (
        "CREATE VIEW v AS SELECT * FROM latest",
        "CREATE PUMP r AS INSERT INTO rooms SELECT sensor, 'x' FROM latest",
    ):
        refused = call(str(file), "-e", text, code=2)
        assert 'foreign table "LATEST" cannot be read in a pipeline' in refused
        assert "rowtide sql pipeline.sql -e 'SELECT * FROM LATEST'" in refused
    refused = call(str(file), "-e", "SELECT STREAM * FROM latest", code=2)
    assert "SELECT STREAM cannot read a table" in refused


def test_a_query_of_what_is_committed_asks_nothing_of_the_pipeline(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # As in a service that runs on Spark, that starts, or that waits for its broker.
    with running(file) as url:
        monkeypatch.setattr(Questions, "ask", never)
        query = "SELECT COUNT(*) AS n FROM latest"
        assert rows_of(call("--service", url, "-e", query, "--json")) == [[3]]


ELSEWHERE = """
CREATE SERVER e FOREIGN DATA WRAPPER RDBMS OPTIONS (url 'sqlite:///out.db');
CREATE FOREIGN TABLE hidden (sensor VARCHAR(8)) SERVER e;
"""


@pytest.mark.parametrize(
    ("query", "servers"),
    [
        ("SELECT * FROM rooms", []),
        ("SELECT STREAM * FROM readings", []),
        ("SELECT * FROM latest", ["d"]),
        ("SELECT sensor FROM rooms WHERE sensor IN (SELECT sensor FROM hidden)", ["e"]),
        ("SELECT * FROM latest AS l JOIN hidden AS h ON l.sensor = h.sensor", ["d", "e"]),
    ],
)
def test_the_process_of_a_query_gets_the_options_of_the_servers_alone_that_it_reads_from(
    query: str, servers: list[str]
) -> None:
    session = SqlSession(committed=True)
    session.feed(SQL.format(file="out.db") + ELSEWHERE, file="readings.sql")
    tables = CommittedTables.of(session.plan, session.listing(query).node)
    assert [server.name.lower() for server, _ in tables.tables] == servers
    # What is sent before the query is planned has the text of the pipeline alone.
    assert [each.name for each in fields(QueryText)] == ["pipeline", "file", "sql", "once"]


def never(*_: object) -> None:
    raise AssertionError("the loop of the pipeline was asked")


VALUES = {
    "BOOLEAN": ("TRUE", "FALSE"),
    "TINYINT": ("-128", "127"),
    "SMALLINT": ("-32768", "32767"),
    "INTEGER": ("-2147483648", "2147483647"),
    "BIGINT": ("-9223372036854775807", "9223372036854775807"),
    "REAL": ("0.1", "-1.25"),
    "DOUBLE": ("0.1", "-1e300"),
    "DECIMAL(10, 2)": ("-12345678.91", "0.10"),
    "DECIMAL(38, 6)": ("12345678901234567890123456789012.123456", "-0.000001"),
    # Shorter ones are padded by PostgreSQL and MariaDB.
    "CHAR(3)": ("'abc'", "'xyz'"),
    "VARCHAR(8)": ("'größe'", "''"),
    "BINARY(2)": ("X'00FF'", "X'6162'"),
    "VARBINARY": ("X''", "X'000102'"),
    "UUID": ("CAST('a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11' AS UUID)",) * 2,
    "JSON": ("""CAST('{"a":[1,null]}' AS JSON)""", "CAST('7' AS JSON)"),
    "DATE": ("DATE '0001-01-01'", "DATE '2024-02-29'"),
    "TIME": ("TIME '00:00:00'", "TIME '23:59:59.999'"),
    "TIMESTAMP": ("TIMESTAMP '1969-12-31 23:59:59.999'", "TIMESTAMP '9999-12-31 23:59:59.999'"),
    "INTEGER ARRAY": ("ARRAY[1, NULL, -5]", "CAST('[]' AS INTEGER ARRAY)"),
    "VARCHAR(9) ARRAY": ("""ARRAY['a b', '', '"{,', NULL]""", "ARRAY['é']"),
    "DECIMAL(5, 2) ARRAY": ("ARRAY[1.5, NULL]", "ARRAY[-0.01]"),
    "DATE ARRAY": ("ARRAY[DATE '2024-02-29', NULL]", "ARRAY[DATE '0001-01-01']"),
    "BOOLEAN ARRAY": ("ARRAY[TRUE, NULL]", "ARRAY[FALSE]"),
    "VARBINARY ARRAY": ("ARRAY[X'00FF', NULL]", "ARRAY[X'']"),
}
"""Two values of each type."""


def url_of(kind: str, request: pytest.FixtureRequest, folder: Path) -> str:
    if kind == "sqlite":
        return f"sqlite:///{folder}/out.db"
    url: str = request.getfixturevalue(f"{kind}_url")
    return url


KINDS = pytest.mark.parametrize(
    "kind",
    [
        "sqlite",
        pytest.param("postgres", marks=pytest.mark.postgres),
        pytest.param("mariadb", marks=pytest.mark.mariadb),
    ],
)


@KINDS
def test_values_of_each_type_are_read_as_they_were_written(
    kind: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    url = url_of(kind, request, tmp_path)
    columns = ", ".join(f"c{at} {kind}" for at, kind in enumerate(VALUES))
    first, second = (", ".join(values) for values in zip(*VALUES.values(), strict=True))
    nothing = ", ".join(["NULL"] * len(VALUES))
    text = f"""
    CREATE SERVER d FOREIGN DATA WRAPPER RDBMS OPTIONS (url '{url}');
    CREATE TABLE given (id INTEGER PRIMARY KEY, {columns});
    CREATE FOREIGN TABLE held (id INTEGER PRIMARY KEY, {columns}) SERVER d;
    INSERT INTO given VALUES (1, {first}), (2, {second}), (3, {nothing});
    """
    engine = engine_of(text)
    given = engine.answer("SELECT * FROM given").tray
    plan = plan_pipeline(text)
    output = TableOutput(plan.foreign_tables[0])
    assert output.add([given]) == []
    writes = output.take()
    assert writes is not None
    with closing(find_sink("rdbms").open({"url": url})) as database:
        database.prepare([output.target])
        with database.begin() as transaction:
            writes.apply(transaction)
    held = engine.answer("SELECT * FROM held").tray
    assert {timed.row[0]: timed.row for timed in held.rows()} == {
        timed.row[0]: timed.row for timed in given.rows()
    }


WIDER = {
    "DECIMAL(10, 2)": ("decimal(12, 4)", "1.2300", Decimal("1.23"), "1.239"),
    "DECIMAL(4, 2)": ("decimal(12, 4)", "-99.99", Decimal("-99.99"), "100"),
    "INTEGER": ("decimal(12, 2)", "-5", -5, "1.70"),
    "SMALLINT": ("bigint", "32767", 32_767, "32768"),
    "VARCHAR(3)": ("varchar(9)", "'ab '", "ab ", "'abc '"),
    "CHAR(3)": ("varchar(9)", "'abc'", "abc", "'abcd'"),
    "CHAR(2)": ("char(5)", "'ab'", "ab", "'abc'"),
}
"""By the declared type: that of the column, a value and how it is read, and a value that does not fit."""


@KINDS
def test_values_of_wider_columns_are_read_exactly_or_refused(
    kind: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    url = url_of(kind, request, tmp_path)
    columns = ", ".join(f"c{at} {declared}" for at, declared in enumerate(WIDER))
    there = ", ".join(f"c{at} {of}" for at, (of, *_) in enumerate(WIDER.values()))
    if kind == "sqlite":
        # A column of integers takes any number.
        there = there.replace("decimal(12, 2)", "integer")
    database = sa.create_engine(url.replace("mariadb://", "mariadb+pymysql://"))

    def write(values: list[str]) -> None:
        with database.begin() as connection:
            connection.exec_driver_sql("delete from held")
            connection.exec_driver_sql(f"insert into held values ({', '.join(values)})")

    try:
        with database.begin() as connection:
            connection.exec_driver_sql(f"create table held ({there})")
        engine = engine_of(
            f"CREATE SERVER d FOREIGN DATA WRAPPER RDBMS OPTIONS (url '{url}');"
            f"CREATE FOREIGN TABLE held ({columns}) SERVER d;"
        )
        right = [value for _, value, _, _ in WIDER.values()]
        write(right)
        (row,) = engine.answer("SELECT * FROM held").tray.rows()
        assert list(row.row) == [read for _, _, read, _ in WIDER.values()]
        for at, (declared, (_, _, _, wrong)) in enumerate(WIDER.items()):
            write([*right[:at], wrong, *right[at + 1 :]])
            with pytest.raises(StatementError) as refused:
                engine.answer("SELECT * FROM held")
            assert f'does not fit its declaration: column "C{at}" ({declared}) has' in refused.value.message
    finally:
        database.dispose()
