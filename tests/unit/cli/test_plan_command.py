"""rowtide plan: what a changed file keeps, restarts and loses is reported, and nothing is touched."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from rowtide.cli.main import app
from rowtide_connectors.memory import memory_broker

SQL = """
CREATE SERVER k FOREIGN DATA WRAPPER MEMORY OPTIONS (broker '{file}');
CREATE SERVER d FOREIGN DATA WRAPPER RDBMS OPTIONS (url 'sqlite:///{file}');
CREATE FOREIGN STREAM readings (sensor VARCHAR(8), amount INTEGER)
  SERVER k OPTIONS (topic 'readings', format 'JSON');
CREATE VIEW sorted AS SELECT STREAM sensor, amount FROM readings ORDER BY ROWTIME WITHIN INTERVAL '5' SECOND;
CREATE VIEW per_minute AS
  SELECT STREAM FLOOR(ROWTIME TO MINUTE) AS period, sensor, SUM(amount) AS total
  FROM sorted GROUP BY FLOOR(ROWTIME TO MINUTE), sensor;
CREATE FOREIGN TABLE minutes (period TIMESTAMP, sensor VARCHAR(8), total INTEGER) SERVER d;
CREATE PUMP p1 STARTED AS INSERT INTO minutes SELECT STREAM period, sensor, total FROM per_minute;
"""
MORE = """
CREATE TABLE latest_of (sensor VARCHAR(8), amount INTEGER, PRIMARY KEY (sensor));
CREATE FOREIGN TABLE latest (sensor VARCHAR(8), amount INTEGER, PRIMARY KEY (sensor)) SERVER d;
CREATE PUMP p2 STARTED AS INSERT INTO latest_of SELECT STREAM sensor, amount FROM sorted;
CREATE PUMP p3 STARTED AS INSERT INTO latest SELECT sensor, amount FROM latest_of;
"""
CONFIG = """
[service]
listen = "127.0.0.1:0"
[checkpoint]
snapshot_rows = 1
"""


class Files:
    def __init__(self, folder: Path) -> None:
        self.sql, self.was, self.config = folder / "r.sql", folder / "was.sql", folder / "c.toml"
        self.text = SQL.format(file=folder / "out.db")
        self.sql.write_text(self.text)
        self.was.write_text(self.text)
        self.config.write_text(CONFIG)
        broker = memory_broker(str(folder / "out.db"))
        broker.ensure_topic("readings", 1)
        for number in range(20):
            value = b'{"sensor":"s%d","amount":1}' % (number % 3)
            broker.produce("readings", [value], timestamps=[1_000 * number])

    def call(self, name: str, *arguments: str, code: int = 0) -> str:
        command = [name, str(self.sql), *arguments, "--config", str(self.config)]
        result = CliRunner().invoke(app, command)
        assert result.exit_code == code, result.output
        return result.output


@pytest.fixture
def files(tmp_path: Path) -> Files:
    return Files(tmp_path)


def test_nothing_committed_and_nothing_changed_are_said(files: Files) -> None:
    assert "everything restarts" in files.call("plan")
    assert json.loads(files.call("plan", "--json")) == {"committed": False, "changes": []}
    files.call("run", "--until-end")
    assert "The plan is unchanged" in files.call("plan")
    answer = json.loads(files.call("plan", "--json"))
    assert (answer["committed"], answer["changes"]) == (True, [])


def test_an_addition_keeps_what_there_is(files: Files) -> None:
    files.call("run", "--until-end")
    files.sql.write_text(files.text + MORE)
    answer = json.loads(files.call("plan", "--was", str(files.was), "--json", code=1))
    assert answer["changes"] == ['foreign table "LATEST" is new', 'pump "P3" is new']
    kept = {(each["relation"], each["operator"]): each["rows"] for each in answer["kept"]}
    assert kept["SORTED", "Sort"] == 5
    assert kept["PER_MINUTE", "GroupByPeriod"] == 3
    assert answer["lost"] == []
    assert [each["relation"] for each in answer["begins_empty"]] == ["LATEST_OF"]
    assert answer["tables_created"] == ["LATEST"]
    shown = files.call("plan", "--was", str(files.was), code=1)
    assert "keeps its state:" in shown
    assert "another pipeline name" in shown
    # It is only reported: the pipeline is as it was.
    files.sql.write_text(files.text)
    assert "The plan is unchanged" in files.call("plan")


def test_a_changed_group_loses_its_state(files: Files) -> None:
    files.call("run", "--until-end")
    files.sql.write_text(files.text.replace("TO MINUTE", "TO HOUR"))
    assert "state that is lost:" in files.call("plan", code=1)
    answer = json.loads(files.call("plan", "--was", str(files.was), "--json", code=1))
    assert [(each["relation"], each["rows"]) for each in answer["lost"]] == [("PER_MINUTE", 3)]
    assert [each["relation"] for each in answer["begins_empty"]] == ["PER_MINUTE"]


def test_a_file_that_did_not_run_and_a_table_that_does_not_fit_are_refused(files: Files) -> None:
    files.call("run", "--until-end")
    files.was.write_text(files.text + MORE)
    assert "is not what pipeline" in files.call("plan", "--was", str(files.was), code=2)
    files.sql.write_text(
        files.text.replace("total INTEGER)", "total INTEGER, n DOUBLE)").replace(
            "sensor, total FROM per_minute", "sensor, total, 1e0 FROM per_minute"
        )
    )
    assert "does not fit" in files.call("plan", code=2)
