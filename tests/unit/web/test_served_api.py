"""The API of a pipeline that runs: its answers have their declared types, also those of resources that do not exist."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx
import msgspec
import pytest

from rowtide.web.declared import ApiPath
from rowtide.web.described import ALL
from rowtide.web.problems import API, Problem, ProblemAnswer
from rowtide_connectors.memory import memory_broker
from support.served import served
from support.waiting import wait_until

SQL = """
CREATE SERVER k FOREIGN DATA WRAPPER MEMORY OPTIONS (broker '{file}');
CREATE SERVER d FOREIGN DATA WRAPPER RDBMS OPTIONS (url 'sqlite:///{file}');
CREATE FOREIGN STREAM readings (sensor VARCHAR(8), amount BIGINT)
  SERVER k OPTIONS (topic 'readings', partitions '1', format 'JSON');
CREATE TABLE "a/b" (sensor VARCHAR(8), amount BIGINT, PRIMARY KEY (sensor));
CREATE FOREIGN TABLE latest (sensor VARCHAR(8), amount BIGINT, PRIMARY KEY (sensor)) SERVER d;
CREATE PUMP p1 STARTED AS INSERT INTO "a/b" SELECT STREAM sensor, amount FROM readings;
CREATE PUMP p2 STARTED AS INSERT INTO latest SELECT sensor, amount FROM "a/b";
"""
LARGE = 2**63 - 1
HERE = f"{API}/pipelines/readings"
TABLE = f"{HERE}/relations/a%2Fb"


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("served")
    file = folder / "readings.sql"
    file.write_text(SQL.format(file=folder / "out.db"))
    broker = memory_broker(str(folder / "out.db"))
    broker.ensure_topic("readings", 1)
    values = [b'{"sensor":"s1","amount":%d}' % LARGE, b"{broken", b'{"sensor":"s2","amount":2}']
    for at, value in enumerate(values):
        broker.produce("readings", [value], timestamps=[1_000 * at], partition=0)
    with served(file) as found:
        wait_until(lambda: httpx.get(f"{found}{TABLE}/rows", trust_env=False).json().get("total") == 2)
        yield found


def call(url: str, method: str, path: str, **more: Any) -> httpx.Response:
    return httpx.request(method, url + path, trust_env=False, timeout=60, **more)


EVENT_STREAM = "text/event-stream"
NO_PAGE = (Problem.UNKNOWN_PATH, Problem.METHOD_NOT_ALLOWED)
NAMES = {"pipeline": "readings", "relation": "a%2Fb", "number": "1", "query": "1"}


@pytest.mark.parametrize(
    "declared",
    [each for each in ALL if each.path.startswith(API)],
    ids=lambda each: f"{each.method} {each.path}",
)
def test_an_answer_has_its_declared_type(declared: ApiPath, url: str) -> None:
    path = declared.path.format_map(NAMES)
    if declared.media_type == EVENT_STREAM:
        # It has no end.
        with httpx.stream(declared.method, url + path, trust_env=False, timeout=60) as stream:
            assert stream.status_code in declared.all_answers()
            assert stream.headers["content-type"].startswith(EVENT_STREAM)
            assert next(stream.iter_lines()).startswith("retry: ")
        return
    answer = call(url, declared.method, path)
    if answer.status_code >= 400:
        problem = msgspec.json.decode(answer.content, type=ProblemAnswer)
        # This service explains nothing and sends no statements.
        assert problem.type in {each.urn for each in (*declared.all_problems(), *NO_PAGE)}
        assert problem.status == answer.status_code
        return
    assert answer.status_code in declared.all_answers()
    if declared.answer is not None:
        assert msgspec.json.decode(answer.content, type=declared.answer)


def test_the_table_and_the_error_row_of_a_pipeline_that_runs(url: str) -> None:
    page = call(url, "GET", f"{TABLE}/rows?limit=1").json()
    rest = call(url, "GET", f"{TABLE}/rows?limit=1&after={page['next']}").json()
    assert sorted(page["rows"] + rest["rows"]) == [["s1", str(LARGE)], ["s2", "2"]]
    (row,) = call(url, "GET", f"{HERE}/errors?kind=rejected&pending=true").json()["errors"]
    assert (row["reason"], row["offset"], row["relation"]) == ("DECODE", 1, "READINGS")
    assert call(url, "GET", f"{HERE}/errors/{row['number']}").json() == row
    assert call(url, "GET", f"{HERE}/errors?after={row['number']}").json() == {"errors": [], "next": None}


def test_a_snapshot_is_taken_and_listed(url: str) -> None:
    taken = call(url, "POST", f"{HERE}/snapshots").json()
    listed = call(url, "GET", f"{HERE}/snapshots").json()["snapshots"]
    assert taken["commits"] in [each["commit"] for each in listed]
    at = call(url, "GET", f"{HERE}/positions").json()["at"]
    assert at["commit"] >= taken["commits"]


def test_a_query_is_started_and_read(url: str) -> None:
    asked = {"sql": 'SELECT sensor, amount AS n FROM "a/b" ORDER BY sensor', "once": True}
    started = call(url, "POST", f"{HERE}/queries", json=asked).json()
    assert started["columns"] == [{"name": "SENSOR", "type": "VARCHAR(8)"}, {"name": "N", "type": "BIGINT"}]
    lines = call(url, "GET", f"{HERE}/queries/{started['id']}/rows").text.splitlines()
    rows = [msgspec.json.decode(each)["row"] for each in lines if '"row"' in each]
    assert rows == [["s1", LARGE], ["s2", 2]]


def test_a_refused_query_has_its_place(url: str) -> None:
    refused = call(url, "POST", f"{HERE}/queries", json={"sql": 'SELECT\n nope FROM "a/b"'})
    assert (refused.status_code, refused.json()["type"]) == (400, Problem.STATEMENT_REFUSED.urn)
    assert refused.json()["place"] == {"line": 2, "column": 2, "length": 4}
