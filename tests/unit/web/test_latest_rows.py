"""The last rows of the relations of a pipeline that runs: over HTTP, at the prompt, in Python, after a restart."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import pytest
from typer.testing import CliRunner

import rowtide
from rowtide import client
from rowtide.cli.main import app
from rowtide.web.access import Access
from rowtide.web.tokens import TokenFile
from rowtide_connectors.memory import memory_broker
from support.served import served
from support.waiting import wait_until

SQL = """
CREATE SERVER k FOREIGN DATA WRAPPER MEMORY OPTIONS (broker '{file}');
CREATE SERVER d FOREIGN DATA WRAPPER RDBMS OPTIONS (url 'sqlite:///{file}');
CREATE SCHEMA shop;
CREATE FOREIGN STREAM readings (sensor VARCHAR(8), amount BIGINT)
  SERVER k OPTIONS (topic 'readings', partitions '1', format 'JSON');
CREATE VIEW shop.large AS SELECT STREAM sensor, amount, amount * 1E0 AS "d/b" FROM readings WHERE amount > 1;
CREATE VIEW unread AS SELECT STREAM sensor FROM readings;
CREATE TABLE latest_of (sensor VARCHAR(8), amount BIGINT, PRIMARY KEY (sensor));
CREATE FOREIGN TABLE latest (sensor VARCHAR(8), amount BIGINT, PRIMARY KEY (sensor)) SERVER d;
CREATE FOREIGN TABLE unwritten (sensor VARCHAR(8), PRIMARY KEY (sensor)) SERVER d;
CREATE PUMP p1 STARTED AS INSERT INTO latest_of SELECT STREAM sensor, amount FROM shop.large;
CREATE FOREIGN STREAM small (sensor VARCHAR(8), amount BIGINT) SERVER k OPTIONS (topic 'small', format 'JSON');
CREATE PUMP p2 STARTED AS INSERT INTO latest SELECT sensor, amount FROM latest_of;
CREATE PUMP p3 STARTED AS INSERT INTO small SELECT STREAM sensor, amount FROM shop.large WHERE amount < 3;
"""
LARGE = 2**63 - 1
AMOUNTS = (1, 2, LARGE, 4)


def produce(folder: Path, amounts: tuple[int, ...], second: int = 0) -> None:
    broker = memory_broker(str(folder / "out.db"))
    broker.ensure_topic("readings", 1)
    broker.ensure_topic("small", 1)
    for at, amount in enumerate(amounts, second):
        broker.produce("readings", [b'{"sensor":"s","amount":%d}' % amount], timestamps=[1_000 * at])


@pytest.fixture
def file(tmp_path: Path) -> Path:
    found = tmp_path / "readings.sql"
    found.write_text(SQL.format(file=tmp_path / "out.db"))
    produce(tmp_path, AMOUNTS)
    return found


@pytest.fixture
def url(file: Path) -> Iterator[str]:
    with served(file) as found:
        wait_until(lambda: latest(found, "READINGS")["total"] == len(AMOUNTS))
        yield found


def latest(url: str, relation: str, status: int = 200, **parameters: str) -> Any:
    found = httpx.get(
        f"{url}/api/v1/pipelines/readings/relations/{relation}/rows/latest",
        params=parameters,
        trust_env=False,
        timeout=60,
    )
    assert found.status_code == status, found.text
    return found.json()


def changes(answer: Any) -> list[tuple[str, int | None, Any]]:
    return [(each["op"], each["rowtime"], each["row"][1]) for each in answer["rows"]]


def test_each_kind_of_relation_has_the_rows_that_it_gave(url: str) -> None:
    read = latest(url, "READINGS")
    assert changes(read) == [("+", 1_000 * at, str(amount)) for at, amount in enumerate(AMOUNTS)]
    assert changes(latest(url, "READINGS", limit="2")) == changes(read)[-2:]
    view = latest(url, "SHOP.LARGE")
    assert changes(view) == changes(read)[1:]
    assert [each["row"][2] for each in view["rows"]] == [2.0, float(LARGE), 4.0]
    assert [each["name"] for each in view["columns"]] == ["SENSOR", "AMOUNT", "d/b"]
    moves = [("+", "2"), ("-", "2"), ("+", str(LARGE)), ("-", str(LARGE)), ("+", "4")]
    assert [(op, amount) for op, _, amount in changes(latest(url, "LATEST_OF"))] == moves
    assert [(op, amount) for op, _, amount in changes(latest(url, "LATEST"))] == moves
    assert changes(latest(url, "SMALL")) == [("+", 1_000, "2")]
    assert view["since"] <= view["at"]["time"]
    why_not = httpx.get(f"{url}/api/v1/pipelines/readings/relations/SMALL/why-not", trust_env=False)
    assert (why_not.status_code, why_not.json()["rows_out"]) == (200, 1)


@pytest.mark.parametrize(
    ("relation", "status", "said"),
    [
        ("UNREAD", 409, "SELECT STREAM"),
        ("UNWRITTEN", 409, "UNWRITTEN"),
        ("P1", 404, "does not exist"),
        ("nope", 404, "does not exist"),
    ],
)
def test_what_gives_no_rows_is_a_problem_that_says_what_to_do(
    url: str, relation: str, status: int, said: str
) -> None:
    refused = latest(url, relation, status)
    assert said in f"{refused['detail']} {refused['hint']}"


def test_the_prompt_prints_them(url: str) -> None:
    def call(*arguments: str, code: int = 0) -> Any:
        result = CliRunner().invoke(app, ["sql", "--service", url, *arguments])
        assert result.exit_code == code, result.output
        return result

    rows = [json.loads(each) for each in call("-e", "PRINT shop.large", "--json").stdout.splitlines()]
    assert rows[1] == {"OP": "+", "ROWTIME": 2_000, "SENSOR": "s", "AMOUNT": LARGE, "d/b": float(LARGE)}
    assert len(rows) == 3
    shown = call("-e", "PRINT latest_of;", "--limit", "2")
    assert shown.stdout.splitlines() == [
        "OP | ROWTIME | SENSOR | AMOUNT",
        f"- | 1970-01-01 00:00:03.000 | s | {LARGE}",
        "+ | 1970-01-01 00:00:03.000 | s | 4",
    ]
    assert "last 2 of 5 rows since" in call("-e", "PRINT latest_of", "--limit", "2").stderr
    assert "SELECT STREAM" in call("-e", "PRINT unread", code=2).output
    assert "does not exist" in call("-e", "PRINT nope.large", code=2).output


def test_a_client_reads_them(url: str) -> None:
    with rowtide.connect(url) as connection:
        cursor = connection.cursor().latest_rows("SHOP.LARGE", limit=2)
        assert cursor.description is not None
        assert [each[0] for each in cursor.description] == ["OP", "ROWTIME", "SENSOR", "AMOUNT", "d/b"]
        assert cursor.fetchall() == [
            ("+", datetime(1970, 1, 1, 0, 0, second, tzinfo=UTC), "s", amount, float(amount))
            for second, amount in ((2, LARGE), (3, 4))
        ]
        assert cursor.fetchone() is None
        for relation, limit, kind in (
            ("NOPE", 1, client.ProgrammingError),
            ("READINGS", 101, client.ProgrammingError),
            ("UNREAD", 1, client.OperationalError),
        ):
            with pytest.raises(kind):
                cursor.latest_rows(relation, limit)
        assert connection.cursor().execute("SELECT sensor FROM latest_of").fetchall() == [("s",)]


@pytest.mark.parametrize("with_snapshot", [False, True])
def test_after_a_restart_they_are_those_of_the_replay(file: Path, with_snapshot: bool) -> None:
    with served(file) as url:
        wait_until(lambda: latest(url, "READINGS")["total"] == len(AMOUNTS))
        before = latest(url, "READINGS")
        if with_snapshot:
            httpx.post(f"{url}/api/v1/pipelines/readings/snapshots", trust_env=False).raise_for_status()
    produce(file.parent, (7,), second=len(AMOUNTS))
    with served(file) as url:
        wait_until(lambda: changes(latest(url, "READINGS"))[-1:] == [("+", 4_000, "7")])
        after = latest(url, "READINGS")
    assert changes(after) == [*([] if with_snapshot else changes(before)), ("+", 4_000, "7")]
    assert after["total"] == len(after["rows"])
    assert after["since"] >= before["since"]


def test_the_right_to_read_is_needed(file: Path) -> None:
    tokens = {right: f"{right}-{'x' * 40}" for right in ("read", "post")}
    lines = [f"{right} {right} {token}" for right, token in tokens.items()]
    listed = file.parent / "tokens"
    listed.write_text("\n".join(lines))
    listed.chmod(0o600)
    with served(file, access=Access(TokenFile(listed))) as url:
        address = f"{url}/api/v1/pipelines/readings/relations/READINGS/rows/latest"
        found = [
            httpx.get(address, headers={"Authorization": f"Bearer {token}"}, trust_env=False).status_code
            for token in tokens.values()
        ]
        assert found == [200, 403]
        assert httpx.get(address, trust_env=False).status_code == 401
