"""state and snapshot: what a pipeline keeps is shown, stored when asked for, and dropped."""

import json
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from support.pipeline import PipelineFiles
from support.served import served

SQL = """
CREATE SERVER k FOREIGN DATA WRAPPER MEMORY OPTIONS (broker '{file}');
CREATE SERVER d FOREIGN DATA WRAPPER RDBMS OPTIONS (url 'sqlite:///{file}');
CREATE FOREIGN STREAM readings (sensor VARCHAR(8), amount DECIMAL(6, 2), at TIMESTAMP)
  SERVER k OPTIONS (topic 'readings', partitions '2', format 'JSON');
CREATE TABLE latest_of (sensor VARCHAR(8), amount DECIMAL(6, 2), at TIMESTAMP, PRIMARY KEY (sensor));
CREATE FOREIGN TABLE latest (sensor VARCHAR(8), amount DECIMAL(6, 2), at TIMESTAMP, PRIMARY KEY (sensor))
  SERVER d;
CREATE PUMP p1 STARTED AS INSERT INTO latest_of SELECT STREAM sensor, amount, at FROM readings;
CREATE PUMP p2 STARTED AS INSERT INTO latest SELECT sensor, amount, at FROM latest_of;
"""
CONFIG = """
[service]
listen = "127.0.0.1:0"
[checkpoint]
snapshot_rows = {rows}
"""


class Files(PipelineFiles):
    def __init__(self, folder: Path) -> None:
        super().__init__(folder, SQL, CONFIG.format(rows=5))
        self.broker.ensure_topic("readings", 2)
        for number in range(20):
            value = b'{"sensor":"s%d","amount":%d.5,"at":%d}' % (number % 3, number, 1_000 * number)
            self.broker.produce("readings", [value], timestamps=[1_000 * number], partition=number % 2)

    def service(self) -> AbstractContextManager[str]:
        return served(self.sql)


@pytest.fixture
def files(tmp_path: Path) -> Files:
    return Files(tmp_path)


def test_what_each_operator_keeps_is_listed(files: Files) -> None:
    assert "has stored no snapshot" in files.call("state list", code=1)
    files.call("run", "--until-end")
    answer = json.loads(files.call("state list", "--json"))
    assert answer["snapshots"][0]["commits"] >= 2
    kept = {(each["relation"], each["operator"], each["partition"]): each for each in answer["operators"]}
    assert kept["LATEST_OF", "KeyedTable", None]["rows"] == 3
    assert ("READINGS", "Sort", 1) in kept
    assert "LATEST_OF" in files.call("state list")


def test_the_rows_of_a_table_are_shown_as_the_snapshot_has_them(files: Files) -> None:
    assert "has no snapshot" in files.call("state show", "latest_of", code=2)
    files.call("run", "--until-end")
    answer = json.loads(files.call("state show", "latest_of", "--json"))
    assert (answer["columns"], answer["total"]) == (["SENSOR", "AMOUNT", "AT"], 3)
    assert ["s0", "18.50", 18_000] in answer["rows"]
    assert "1970-01-01 00:00:18.000" in files.call("state show", "latest_of", "--limit", "3")
    assert "1 of 3 rows" in files.call("state show", "latest_of", "--limit", "1")
    assert "is not an engine table" in files.call("state show", "readings", code=2)


def test_dropping_must_be_meant(files: Files) -> None:
    files.call("run", "--until-end")
    assert "Add --snapshots or --all" in files.call("state drop", code=2)
    assert "Add --yes" in files.call("state drop", "--all", code=2)
    assert "snapshots dropped" in files.call("state drop", "--snapshots", "--yes")
    files.call("state list", code=1)
    # Nothing is lost: the log has it all.
    files.call("run", "--until-end")
    assert "Equal" in files.call("replay", "--compare")
    assert "Dropped" in files.call("state drop", "--all", "--yes")
    assert "committed nothing" in files.call("positions", code=1)
    assert "No stored state" in files.call("state drop", "--all", "--yes", code=1)


def test_a_running_service_stores_a_snapshot_when_asked_and_shows_its_tables(files: Files) -> None:
    assert "no service answers" in files.call("snapshot", "--service", "http://127.0.0.1:9", code=3)
    with files.service() as url:
        answer = json.loads(files.call("snapshot", "--service", url, "--json"))
        assert answer["bytes"] > 0
        shown = json.loads(files.call("state show", "latest_of", "--service", url, "--json"))
        assert shown["total"] == 3
        assert 'invalid name: "no one"' in files.call("state show", "no one", "--service", url, code=2)
        files.config.write_text(files.config.read_text() + '[pipeline]\nname = "other"\n')
        assert 'runs pipeline "readings", not "other"' in files.call("snapshot", "--service", url, code=2)
    files.config.write_text(CONFIG.format(rows=0))
    (stored,) = json.loads(files.call("state list", "--json"))["snapshots"]
    assert stored["commits"] == answer["commits"]
