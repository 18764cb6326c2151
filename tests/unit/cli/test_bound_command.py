"""``rowtide bound``: a promise for a quiet topic, from the command line to the rows that it lets go."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from rowtide.cli.main import app
from support.pipeline import PipelineFiles

SQL = """
CREATE SERVER k FOREIGN DATA WRAPPER MEMORY OPTIONS (broker '{file}');
CREATE SERVER d FOREIGN DATA WRAPPER RDBMS OPTIONS (url 'sqlite:///{file}');
CREATE FOREIGN STREAM changes (at TIMESTAMP, id INTEGER NOT NULL, name VARCHAR(20))
  SERVER k OPTIONS (topic 'users', partitions '2', format 'JSON');
CREATE VIEW changes_timed AS SELECT STREAM at AS ROWTIME, id, name FROM changes;
CREATE TABLE users (id INTEGER NOT NULL PRIMARY KEY, name VARCHAR(20));
CREATE PUMP fill STARTED AS INSERT INTO users (ROWTIME, id, name)
  SELECT STREAM ROWTIME, id, name FROM changes_timed;
CREATE FOREIGN STREAM clicks (id INTEGER) SERVER k OPTIONS (topic 'clicks', format 'JSON');
CREATE FOREIGN TABLE named (id INTEGER, name VARCHAR(20)) SERVER d;
CREATE PUMP p STARTED AS INSERT INTO named (id, name)
  SELECT STREAM c.id, u.name FROM clicks c LEFT JOIN users u ON c.id = u.id;
"""
AT_MS = 1_767_225_600_000


@pytest.fixture
def files(tmp_path: Path) -> PipelineFiles:
    files = PipelineFiles(tmp_path, SQL, "", name="sessions")
    files.broker.ensure_topic("users", 2)
    files.broker.ensure_topic("clicks", 1)
    files.broker.produce("users", [b'{"at":%d,"id":1,"name":"ann"}' % (AT_MS - 1000)], timestamps=[AT_MS])
    files.broker.produce("clicks", [b'{"id":1}'], timestamps=[AT_MS])
    return files


def test_a_bound_record_lets_the_rows_go_that_waited_for_a_quiet_topic(files: PipelineFiles) -> None:
    files.run()
    assert files.rows("named") == []
    answer = files.call("bound", "users", "2026-01-01T00:00:00", "--strict")
    assert answer.splitlines() == [
        'bound 2026-01-01 00:00:00.001 written to topic "users", partition 0, offset 1',
        'bound 2026-01-01 00:00:00.001 written to topic "users", partition 1, offset 0',
    ]
    files.run()
    assert files.rows("named") == [(1, "ann")]


def test_a_partition_and_a_stream_are_named_and_told_as_json(files: PipelineFiles) -> None:
    answer = json.loads(files.call("bound", "changes", str(AT_MS), "--partition", "1", "--json"))
    assert answer == {"topic": "users", "bound_ms": AT_MS, "written": [{"partition": 1, "offset": 0}]}


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("user", "2026-01-01"), ('no foreign stream of the pipeline reads topic "user"', "clicks, users")),
        (("users", "soon"), ('"soon"', "milliseconds since 1970")),
        (("users", "2026-01-01", "--partition", "7"), ('topic "users" has no partition 7', "0 to 1")),
    ],
)
def test_what_is_wrong_is_named_and_nothing_is_written(
    files: PipelineFiles, arguments: tuple[str, ...], words: tuple[str, ...]
) -> None:
    command = ["bound", str(files.sql), *arguments, "--config", str(files.config)]
    result = CliRunner().invoke(app, command)
    assert result.exit_code == 2
    assert all(word in result.output for word in words), result.output
    assert len(files.broker.topic("users")[0].offsets) == 1
