"""``rowtide execute``, and its page of the API."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest
from typer.testing import CliRunner

from rowtide.app import RunOptions, build_process
from rowtide.cli.main import app
from rowtide.cli.pipeline_file import opened
from rowtide.cli.run.run import query_of, statements_of, why_of
from support.pipeline import PipelineFiles

SQL = """
CREATE SERVER k FOREIGN DATA WRAPPER MEMORY OPTIONS (broker '{file}');
CREATE SERVER d FOREIGN DATA WRAPPER RDBMS OPTIONS (url 'sqlite:///{file}');
CREATE FOREIGN STREAM orders (id BIGINT, currency VARCHAR(3)) SERVER k OPTIONS (topic 'orders', format 'JSON');
CREATE TABLE rates (currency VARCHAR(3) PRIMARY KEY, rate DECIMAL(6, 2));
CREATE FOREIGN TABLE valued (id BIGINT, rate DECIMAL(6, 2)) SERVER d;
CREATE PUMP p AS INSERT INTO valued
  SELECT STREAM o.id, r.rate FROM orders AS o LEFT JOIN rates AS r ON o.currency = r.currency;
"""


@pytest.fixture
def files(tmp_path: Path) -> PipelineFiles:
    files = PipelineFiles(tmp_path, SQL, '[service]\nlisten = "127.0.0.1:0"\n')
    files.broker.ensure_topic("orders", 1)
    return files


def order(files: PipelineFiles, number: int) -> None:
    value = b'{"id":%d,"currency":"EUR"}' % number
    files.broker.produce("orders", [value], timestamps=[1_000 * number], partition=0)


def test_statements_are_queued_and_executed_by_the_next_run(files: PipelineFiles) -> None:
    said = files.call("execute", "INSERT INTO rates VALUES ('EUR', 1.5)", "--no-wait")
    assert said == "Statement 1 is queued.\n"
    order(files, 1)
    files.run()
    files.call("execute", "UPDATE rates SET rate = rate * 2", "--no-wait")
    files.call("execute", "INSERT INTO rates VALUES ('USD', 1 / 0.0)", "--no-wait", code=2)
    files.run()
    order(files, 2)
    files.run()
    assert [tuple(map(float, row)) for row in files.rows("valued")] == [(1, 1.5), (2, 3.0)]  # type: ignore[arg-type]
    listed = files.call("execute", "--list")
    assert "APPLIED  1 row from the beginning" in listed
    assert "APPLIED  1 row from 1970-01-01 00:00:01.001" in listed
    (first, second) = json.loads(files.call("execute", "--list", "--json"))["statements"]
    assert (first["from_the_beginning"], first["rowtime"], first["did"]) == (True, None, ["1 row inserted"])
    assert (second["outcome"], second["rows"], second["from_the_beginning"]) == ("applied", 1, False)


def test_a_statement_that_nobody_executes_stays_queued(files: PipelineFiles) -> None:
    said = files.call("execute", "TRUNCATE rates", "--wait", "0.1", code=1)
    assert said.startswith("Statement 1 is queued.\n")
    assert "--list" in said
    files.run()
    assert "APPLIED  0 rows from the beginning" in files.call("execute", "--list")


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("UPDATE rats SET rate = 1", 'table "RATS" does not exist'),
        ("UPDATE rates SET rate = 'much'", "rate"),
        ("SELECT * FROM rates", "`rowtide sql --service` runs queries"),
        ("DROP TABLE rates", "`rowtide apply`"),
        ("DELETE FROM orders", "Rows of a stream do not change"),
        ("", "expected a statement"),
    ],
)
def test_what_is_wrong_is_refused_before_it_is_sent(files: PipelineFiles, text: str, error: str) -> None:
    assert error in files.call("execute", text, code=2)
    assert files.call("execute", "--list") == "No statements were sent.\n"


def test_statements_come_from_a_file_or_the_standard_input(files: PipelineFiles, tmp_path: Path) -> None:
    script = tmp_path / "fix.sql"
    script.write_text("INSERT INTO rates VALUES ('EUR', 1);\nDELETE FROM rates;\n")
    files.call("execute", "--file", str(script), "--no-wait")
    command = ["execute", str(files.sql), "--no-wait", "--config", str(files.config)]
    assert CliRunner().invoke(app, command, input="TRUNCATE rates;").exit_code == 0
    files.call("execute", "TRUNCATE rates", "--file", str(script), code=2)
    files.run()
    shown = json.loads(files.call("execute", "--list", "--json"))["statements"]
    assert [each["did"] for each in shown] == [["1 row inserted", "1 row deleted"], ["0 rows deleted"]]


def test_another_plan_is_refused(files: PipelineFiles) -> None:
    order(files, 1)
    files.run()
    files.sql.write_text(files.text.replace("LEFT JOIN", "JOIN"))
    assert "rowtide apply" in files.call("execute", "TRUNCATE rates", code=2)


@contextmanager
def served(files: PipelineFiles) -> Iterator[str]:
    """Run the service of a pipeline; yields its URL."""
    stop = threading.Event()
    with opened(files.sql, files.config) as (pipeline, settings):
        process = build_process(
            pipeline,
            settings,
            RunOptions(listen="127.0.0.1:0", statements=statements_of(files.sql)),
            version="1",
            stopping=stop.is_set,
            why=why_of(files.sql, files.config),
            query_of=lambda requests: query_of(files.sql, requests),
        )
        with process.serving() as urls:
            thread = threading.Thread(target=process.service.run)
            thread.start()
            try:
                while process.service.board.status().phase != "running":
                    time.sleep(0.01)
                yield urls["url"]
            finally:
                stop.set()
                thread.join()


def test_a_running_service_executes_statements_of_its_api_and_of_the_command(files: PipelineFiles) -> None:
    order(files, 1)
    with served(files) as url:
        answer = httpx.post(
            f"{url}/execute", params={"sql": "INSERT INTO rates VALUES ('EUR', 1), ('USD', 2)"}
        )
        assert answer.status_code == 200, answer.text
        assert (answer.json()["outcome"], answer.json()["rows"]) == ("applied", 2)
        said = files.call("execute", "DELETE FROM rates WHERE currency = 'USD'; UPDATE rates SET rate = 3")
        assert "1 row deleted\n1 row updated\nStatement 2 holds from" in said
        refused = files.call("execute", "UPDATE rates SET rate = 1 / (rate - 3)", code=2)
        assert "division" in refused.lower()
        failed = httpx.post(f"{url}/execute", params={"sql": "UPDATE rates SET rate = 1 / (rate - 3)"})
        assert (failed.status_code, failed.json()["outcome"]) == (400, "refused")
        wrong = httpx.post(f"{url}/execute", params={"sql": "UPDATE rats SET rate = 1"})
        assert wrong.status_code == 400
        assert 'table "RATS" does not exist' in wrong.json()["error"]
        assert httpx.post(f"{url}/execute", params={"sql": "TRUNCATE rates", "wait": "no"}).status_code == 400
        table = httpx.get(f"{url}/table", params={"relation": "RATES"}).json()
        assert [row[0] for row in table["rows"]] == ["EUR"]
        answer = httpx.get(f"{url}/why", params={"relation": "VALUED", "row": "id=1"}, timeout=60)
        assert [each["relation"] for each in answer.json()["inputs"]] == ["ORDERS"]
        queued = httpx.post(f"{url}/execute", params={"sql": "TRUNCATE rates", "wait": "false"})
        assert queued.status_code in (200, 202)


def test_a_query_that_follows_the_service_gets_the_changes_of_statements(files: PipelineFiles) -> None:
    order(files, 1)
    with served(files) as url:
        httpx.post(f"{url}/execute", params={"sql": "INSERT INTO rates VALUES ('EUR', 1)"}).raise_for_status()
        query = {"sql": "SELECT currency, CAST(rate AS INTEGER) AS n FROM rates"}
        with httpx.stream("GET", f"{url}/query", params=query, timeout=60) as answer:
            lines = (json.loads(line) for line in answer.iter_lines() if line.strip())
            assert next(lines)["columns"] == ["CURRENCY", "N"]
            assert next(lines)["row"] == ["EUR", 1]
            change = "UPDATE rates SET rate = 7; INSERT INTO rates VALUES ('USD', 3)"
            httpx.post(f"{url}/execute", params={"sql": change}, timeout=60).raise_for_status()
            changes = [(each["op"], each["row"]) for each in (next(lines), next(lines), next(lines))]
    assert changes == [("-", ["EUR", 1]), ("+", ["EUR", 7]), ("+", ["USD", 3])]


def test_a_row_is_explained_by_the_rows_of_statements(files: PipelineFiles) -> None:
    order(files, 1)
    files.run()
    files.call("execute", "INSERT INTO rates VALUES ('EUR', 4)", "--no-wait")
    order(files, 2)
    files.run()
    explained = why_of(files.sql, files.config)("VALUED", "id=2").to_json()
    assert [(each["relation"], each["rowtime"]) for each in explained["inputs"]] == [  # type: ignore[attr-defined]
        ("ORDERS", 2_000),
        ("RATES", 1_001),
    ]
    assert 'A row of "RATES" is from the statement with number 1' in str(explained["notes"])
