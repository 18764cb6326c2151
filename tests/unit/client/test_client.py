"""``rowtide.connect``: PEP 249 on a running service, and on answers that break off."""

from __future__ import annotations

import subprocess
import sys
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from pathlib import Path

import pytest

import rowtide
from rowtide import client
from rowtide_connectors.memory import memory_broker
from support.canned import answering, json_lines
from support.served import served

PIPELINE = """
CREATE SERVER k FOREIGN DATA WRAPPER MEMORY OPTIONS (broker '{file}');
CREATE SERVER d FOREIGN DATA WRAPPER RDBMS OPTIONS (url 'sqlite:///{file}');
CREATE FOREIGN STREAM readings (sensor VARCHAR(8), amount DECIMAL(6, 2))
  SERVER k OPTIONS (topic 'readings', format 'JSON');
CREATE TABLE latest_of (sensor VARCHAR(8), amount DECIMAL(6, 2), PRIMARY KEY (sensor));
CREATE FOREIGN TABLE latest (sensor VARCHAR(8), amount DECIMAL(6, 2), PRIMARY KEY (sensor)) SERVER d;
CREATE PUMP p1 STARTED AS INSERT INTO latest_of SELECT STREAM sensor, amount FROM readings;
CREATE PUMP p2 STARTED AS INSERT INTO latest SELECT sensor, amount FROM latest_of;
"""
HEAD = {"columns": ["A"], "types": ["INTEGER"], "changes": False}
FAILED = {"error": "too large", "hint": "Filter.", "failed": True}
ROW = {"op": "+", "rowtime": 1_000, "row": [1]}


def test_queries_on_a_running_pipeline(tmp_path: Path) -> None:
    broker = memory_broker(str(tmp_path / "out.db"))
    broker.ensure_topic("readings", 1)
    produce = iter(range(100))

    def send() -> None:
        number = next(produce)
        value = b'{"sensor":"s%d","amount":%d.5}' % (number % 2, number)
        broker.produce("readings", [value], timestamps=[1_000 * number])

    for _ in range(4):
        send()
    file = tmp_path / "readings.sql"
    file.write_text(PIPELINE.format(file=tmp_path / "out.db"))
    with served(file) as url, rowtide.connect(url) as connection:
        cursor = connection.cursor().execute("SELECT sensor, amount FROM latest_of ORDER BY sensor")
        assert cursor.fetchall() == [("s0", Decimal("2.50")), ("s1", Decimal("3.50"))]
        assert cursor.description is not None
        assert [each[:2] for each in cursor.description] == [
            ("SENSOR", "VARCHAR(8)"),
            ("AMOUNT", "DECIMAL(6, 2)"),
        ]
        assert (cursor.description[0][1] == client.STRING, cursor.description[1][1] == client.NUMBER) == (
            True,
            True,
        )
        assert (cursor.fetchone(), cursor.rowtime_bound) == (None, None)
        cursor.execute("SELECT STREAM sensor FROM readings")
        send()
        moment = datetime(1970, 1, 1, 0, 0, 4, tzinfo=UTC)
        assert cursor.fetchmany() == [(moment, "s0")]
        assert cursor.rowtime_bound == moment
        with pytest.raises(client.InterfaceError, match="no last row"):
            cursor.fetchall()
        cursor.execute("SELECT STREAM sensor FROM readings LIMIT 1")
        send()
        assert [sensor for _, sensor in cursor] == ["s1"]
        with pytest.raises(client.ProgrammingError, match='"NOTHING" does not exist'):
            cursor.execute("SELECT * FROM nothing")


def test_values_are_those_of_python(tmp_path: Path) -> None:
    types = {
        "DECIMAL(4, 2)": ("1.50", Decimal("1.50")),
        "VARBINARY(3)": ("AP8=", b"\x00\xff"),
        "DATE": (-1, date(1969, 12, 31)),
        "TIME": (1, time(0, 0, 0, 1_000)),
        "TIMESTAMP": (0, datetime(1970, 1, 1, tzinfo=UTC)),
        "TIMESTAMP WITH TIME ZONE": (-1, datetime(1969, 12, 31, 23, 59, 59, 999_000, tzinfo=UTC)),
        "INTERVAL DAY TO SECOND": (-1, timedelta(milliseconds=-1)),
        "INTERVAL YEAR TO MONTH": (14, 14),
        "DATE ARRAY": ([0, None], [date(1970, 1, 1), None]),
        "VARCHAR(4)": ("rope", "rope"),
    }
    head = {"columns": [f"C{at}" for at in range(len(types))], "types": [*types], "changes": True}
    given: list[object] = [each for each, _ in types.values()]
    nothing: list[object] = [None] * len(types)
    body = json_lines(
        None,
        head,
        *({"op": "+", "rowtime": None, "row": row} for row in (given, nothing)),
        {"ended": "contents"},
    )
    token = tmp_path / "token"
    token.write_text("secret\n")
    with answering(body) as (url, asked), rowtide.connect(url, token_file=token) as connection:
        assert [*connection.cursor().execute("SELECT 1")] == [
            tuple(wanted for _, wanted in types.values()),
            tuple(nothing),
        ]
        assert asked == ["Bearer secret"]


@pytest.mark.parametrize(
    ("body", "status", "kind", "said"),
    [
        (json_lines(HEAD, ROW), 200, client.OperationalError, "the answer has no end"),
        (
            json_lines(HEAD, ROW, {"ended": "partitions changed"}),
            200,
            client.OperationalError,
            "partitions changed",
        ),
        (
            json_lines(HEAD, ROW, {"error": "too large", "hint": "Filter.", "failed": True}),
            200,
            client.OperationalError,
            "Filter",
        ),
        (json_lines(HEAD, ROW) + b"{", 200, client.OperationalError, "stopped answering"),
        (json_lines({}), 200, client.InternalError, "no columns"),
        (b"<html>", 404, client.InternalError, "not a service of Rowtide"),
        (
            json_lines({"error": "no token", "hint": "Pass one."}),
            401,
            client.OperationalError,
            "no token\nhint: Pass one.",
        ),
        (json_lines({"error": "1:1: error", "hint": None}), 400, client.ProgrammingError, "1:1: error"),
    ],
)
def test_no_failure_looks_like_the_end_of_the_rows(
    body: bytes, status: int, kind: type[Exception], said: str
) -> None:
    with (
        answering(body, status) as (url, _),
        rowtide.connect(url) as connection,
        pytest.raises(kind, match=said),
    ):
        for row in connection.cursor().execute("SELECT STREAM a FROM s"):
            assert row == (datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC), 1)


def test_rows_that_the_query_rejects_are_messages() -> None:
    body = json_lines(HEAD | {"changes": True}, {"error": "CAST: x"}, ROW, {"ended": "contents"})
    with answering(body) as (url, _), rowtide.connect(url) as connection:
        cursor = connection.cursor().execute("SELECT a FROM t")
        assert cursor.fetchall() == [(1,)]
        assert [str(message) for _, message in cursor.messages] == ["CAST: x"]


def test_what_is_not_possible_is_refused(tmp_path: Path) -> None:
    with pytest.raises(client.InterfaceError, match="is not a URL"):
        rowtide.connect("localhost:8080")
    with pytest.raises(client.InterfaceError, match="cannot be read"):
        rowtide.connect("http://127.0.0.1:9", token_file=tmp_path / "none")
    connection = rowtide.connect("http://127.0.0.1:9")
    cursor = connection.cursor()
    with pytest.raises(client.OperationalError, match="no service answers"):
        cursor.execute("SELECT 1")
    with pytest.raises(client.NotSupportedError):
        cursor.execute("SELECT ?", (1,))
    with pytest.raises(client.NotSupportedError):
        cursor.executemany("SELECT ?", [(1,)])
    with pytest.raises(client.InterfaceError, match="no query"):
        cursor.fetchone()
    connection.close()
    for call in connection.cursor, lambda: cursor.execute("SELECT 1"):
        with pytest.raises(client.InterfaceError, match="is closed"):
            call()


def test_the_client_loads_nothing_of_the_service() -> None:
    program = "import sys, rowtide; rowtide.connect; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    ours = {each for each in done.stdout.split() if each.startswith("rowtide")}
    assert {each for each in ours if not each.startswith("rowtide.client")} == {"rowtide", "rowtide.sql"}
    assert (client.apilevel, client.threadsafety) == ("2.0", 1)
