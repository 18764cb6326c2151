"""Foreign streams that pumps write to, from the command line: check, connectors check, run, errors, backfill."""

from __future__ import annotations

import json
import sqlite3
import uuid
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from rowtide.cli.main import app
from rowtide_connectors.memory import MemoryBroker, memory_broker

PIPELINE = """\
CREATE SERVER here FOREIGN DATA WRAPPER MEMORY OPTIONS (broker '{broker}');
CREATE SERVER db FOREIGN DATA WRAPPER RDBMS OPTIONS (url 'sqlite:///{file}');
CREATE FOREIGN STREAM readings (sensor VARCHAR(9), celsius DOUBLE, kind INTEGER) SERVER here OPTIONS (topic 'in');
CREATE FOREIGN STREAM hot (sensor VARCHAR(9), celsius DOUBLE, kind INTEGER, part INTEGER) SERVER here
  OPTIONS (topic 'out', partitions '2', key 'sensor', headers 'kind', partition 'part');
CREATE FOREIGN TABLE log (sensor VARCHAR(9)) SERVER db;
CREATE PUMP p STARTED AS INSERT INTO hot SELECT STREAM sensor, celsius / (kind - 5), kind, kind - 1 FROM readings;
CREATE PUMP q STARTED AS INSERT INTO log SELECT STREAM sensor FROM readings;
"""


def run(*args: object) -> Result:
    # Tests of other processes run at the same time.
    return CliRunner(env={"ROWTIDE_SERVICE__LISTEN": "127.0.0.1:0"}).invoke(app, [str(arg) for arg in args])


class Files:
    def __init__(self, folder: Path) -> None:
        self.name = uuid.uuid4().hex
        self.database = folder / "sink.db"
        self.pipeline = folder / "hot.sql"
        self.text = PIPELINE.format(broker=self.name, file=self.database)
        self.write(self.text)

    def write(self, text: str) -> None:
        self.pipeline.write_text(text, encoding="utf-8")

    @property
    def broker(self) -> MemoryBroker:
        return memory_broker(self.name)


@pytest.fixture
def files(tmp_path: Path) -> Files:
    return Files(tmp_path)


def test_rows_become_messages_and_those_that_cannot_are_error_rows(files: Files) -> None:
    files.broker.create_topic("in")
    values = [
        b'{"sensor":"a","celsius":8.5,"kind":1}',
        b'{"sensor":"b","celsius":1e300,"kind":2}',
        b'{"sensor":null,"celsius":null,"kind":null}',
        b'{"sensor":"c","celsius":1,"kind":-3}',
        b'{"sensor":"d","celsius":4,"kind":1}',
        b'{"sensor":"d","celsius":4,"kind":1}',
    ]
    files.broker.produce("in", values, timestamps=[0, 1000, 2000, 3000, 4000, 5000])
    result = run("run", files.pipeline, "--until-end")
    assert result.exit_code == 0, result.output
    assert "wrote 4 rows to HOT" in result.output
    out = files.broker.topic("out")
    assert list(zip(out[1].timestamps, out[1].keys, out[1].values, out[1].headers, strict=True)) == [
        (1000, b"b", b'{"sensor":"b","celsius":-3.3333333333333335e299}', [("kind", b"2")])
    ]
    found = [json.loads(value or b"") for value in out[0].values]
    assert found[-2:] == [{"sensor": "d", "celsius": -1.0}, {"sensor": "d", "celsius": -1.0}]
    assert {"sensor": None, "celsius": None} in [*found, *map(json.loads, filter(None, out[1].values))]
    errors = json.loads(run("errors", "list", files.pipeline, "--json").output)["errors"]
    assert [(each["relation"], each["reason"]) for each in errors] == [
        (
            "HOT",
            "CONSTRAINT: its rowtime is not after 1970-01-01 00:00:00, as a message's timestamp has to be",
        ),
        ("HOT", "CONSTRAINT: -4 is not the number of a partition"),
    ]
    connection = sqlite3.connect(files.database)
    assert connection.execute("select last_number, sent_number from rowtide_outboxes").fetchall() == [(4, 4)]
    assert connection.execute("select count(*) from rowtide_outbox").fetchall() == [(0,)]
    connection.close()
    assert run("run", files.pipeline, "--until-end").exit_code == 0
    assert sum(len(log.values) for log in out.values()) == 4


def test_the_changes_of_a_table_are_upserts(files: Files) -> None:
    files.broker.create_topic("in")
    head, *_ = files.text.partition("CREATE FOREIGN STREAM hot")
    files.write(
        head
        + """
CREATE TABLE sums (sensor VARCHAR(9) PRIMARY KEY, kinds BIGINT);
CREATE PUMP p1 OPTIONS (RETENTION 'UNBOUNDED') AS INSERT INTO sums
  SELECT STREAM sensor, SUM(kind) FROM readings GROUP BY sensor EMIT CHANGES;
CREATE FOREIGN STREAM out (sensor VARCHAR(9), kinds BIGINT) SERVER here
  OPTIONS (topic 'out', key 'sensor', changes 'upsert');
CREATE PUMP p2 AS INSERT INTO out SELECT * FROM sums WHERE kinds < 4;
CREATE FOREIGN TABLE log (sensor VARCHAR(9)) SERVER db;
CREATE PUMP p3 AS INSERT INTO log SELECT STREAM sensor FROM readings;
"""
    )
    kinds = [1, 2, 3, None, -3]
    values = [json.dumps({"sensor": "a" if each else "b", "kind": each}).encode() for each in kinds]
    files.broker.produce("in", values, timestamps=[1000 * at for at in range(1, 6)])
    assert run("run", files.pipeline, "--until-end").exit_code == 0
    log = files.broker.topic("out")[0]
    assert list(zip(log.timestamps, log.keys, log.values, strict=True)) == [
        (1000, b'"a"', b'{"sensor":"a","kinds":1}'),
        (2000, b'"a"', b'{"sensor":"a","kinds":3}'),
        (3000, b'"a"', None),
        (5000, b'"a"', b'{"sensor":"a","kinds":3}'),
    ]


def test_connectors_check_looks_the_topic_up(files: Files) -> None:
    result = run("connectors", "check", files.pipeline)
    assert result.exit_code == 0, result.output
    assert 'ok      stream HOT: topic "out" is written to, exactly once: the receiver' in result.output


@pytest.mark.parametrize(
    ("before", "after", "message", "hint"),
    [
        ("key 'sensor'", "key 'sensr'", 'column "sensr" does not exist', 'Did you mean "sensor"?'),
        ("key 'sensor'", "key 'sensor,sensor'", "it names a column twice", None),
        ("key 'sensor'", "key ''", "it names no column", None),
        ("key 'sensor'", "key 'sensor', key_format 'XML'", '"XML" is not supported', "Keys are written as"),
        (
            "key 'sensor'",
            "key 'sensor,kind', key_format 'TEXT'",
            "TEXT is for one column",
            "key_format 'JSON'",
        ),
        ("key 'sensor'", "key_format 'TEXT'", "the stream has no key", "Add key 'column'"),
        ("key 'sensor'", "changes 'upsert'", "messages have no key", "Add key 'column'"),
        ("key 'sensor'", "key 'sensor', changes 'append'", '"append" is not supported', "changes 'upsert'"),
        ("key 'sensor'", "key 'sensor', changes 'upsert'", "is not part of the key", "in two partitions"),
        (
            "topic 'in'",
            "topic 'in', changes 'upsert'",
            '"changes"',
            "for a foreign stream that a pump writes to",
        ),
        ("partition 'part'", "partition 'celsius'", 'column "CELSIUS" is DOUBLE, not an integer', None),
        ("partition 'part'", "partition 'part,kind'", "it names more than one column", None),
        (
            "key 'sensor'",
            "format 'YAML'",
            'format "YAML" of foreign stream "HOT" does not exist',
            "are AVRO, BSON, CSV, DEBEZIUM_AVRO, DEBEZIUM_JSON, JSON, KEY_VALUE, PROTOBUF, RAW, XML",
        ),
        (
            "key 'sensor'",
            "key 'sensor', format 'DEBEZIUM_JSON'",
            "rows without changes cannot be written as DEBEZIUM_JSON",
            "Add changes 'upsert' and key 'column'",
        ),
        ("key 'sensor'", "key 'sensor', tombstones 'false'", "format JSON does not take it", None),
        ("key 'sensor'", "format 'RAW'", "has format RAW", "message VARCHAR"),
        ("key 'sensor'", "max_pending '0'", 'option "max_pending"', "at least 1"),
        ("key 'sensor'", "max_pending 'few'", "has the value 'few'", "a whole number"),
        ("key 'sensor'", "lost_number 'skip'", 'has the value "skip"', "stop or resend"),
        ("key 'sensor'", "idle_timeout '1 SECOND'", "does not exist", "pumps write to this one"),
        ("key 'sensor'", "kee 'sensor'", '"kee"', 'Did you mean "key"?'),
        ("topic 'in'", "topic 'in', key 'sensor'", '"key"', "for a foreign stream that a pump writes to"),
    ],
)
def test_check_refuses_an_option_at_its_place(
    files: Files, before: str, after: str, message: str, hint: str | None
) -> None:
    files.write(files.text.replace(before, after, 1))
    result = run("check", files.pipeline)
    assert result.exit_code == 2
    assert message in result.stderr
    assert f"{files.pipeline}:" in result.stderr
    assert hint is None or hint in result.stderr


def test_check_refuses_a_connector_that_cannot_write_messages(files: Files) -> None:
    files.write(
        files.text.replace("SERVER here\n  OPTIONS (topic 'out', partitions '2',", "SERVER db\n  OPTIONS (")
    )
    result = run("check", files.pipeline)
    assert result.exit_code == 2
    assert 'connector "rdbms" cannot write messages' in result.stderr
    assert "Connectors that can: files, http, kafka, memory." in result.stderr


def test_a_backfill_of_such_a_pipeline_is_refused(files: Files) -> None:
    result = run("backfill", files.pipeline, "--until", "2026-01-01")
    assert result.exit_code == 2
    assert 'a backfill writes to tables only, and pumps write to foreign streams: "HOT"' in result.stderr


def test_a_changed_written_stream_is_another_plan(files: Files, tmp_path: Path) -> None:
    files.broker.create_topic("in")
    files.broker.produce("in", [b'{"sensor":"a","celsius":8.5,"kind":1}'] * 2, timestamps=[1000, 2000])
    assert run("run", files.pipeline, "--until-end").exit_code == 0
    was = tmp_path / "was.sql"
    was.write_text(files.text)
    files.write(files.text.replace("headers 'kind', ", ""))
    result = run("run", files.pipeline, "--until-end")
    assert result.exit_code == 2
    assert 'written stream "HOT" has changed' in result.stderr
    result = run("apply", files.pipeline, "--was", was, "--yes")
    assert result.exit_code == 2
    assert 'written stream "HOT" has changed: messages that wait for it' in result.stderr
    files.write(files.text.replace("key 'sensor'", "key 'sensor', max_pending '7'"))
    assert run("run", files.pipeline, "--until-end").exit_code == 0


def test_a_pump_that_apply_adds_writes_from_then_on(files: Files, tmp_path: Path) -> None:
    files.broker.create_topic("in")
    message = b'{"sensor":"a","celsius":8.5,"kind":1}'
    files.broker.produce("in", [message] * 2, timestamps=[1000, 2000])
    was = tmp_path / "was.sql"
    was.write_text("\n".join(line for line in files.text.splitlines() if "PUMP p" not in line))
    files.write(was.read_text())
    assert run("run", files.pipeline, "--until-end").exit_code == 0
    files.write(files.text)
    result = run("apply", files.pipeline, "--was", was, "--yes")
    assert result.exit_code == 0, result.output
    files.broker.produce("in", [message] * 3, timestamps=[3000, 4000, 5000])
    assert run("run", files.pipeline, "--until-end").exit_code == 0
    assert files.broker.topic("out")[0].timestamps == [3000, 4000, 5000]
