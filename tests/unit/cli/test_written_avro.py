"""Streams that pumps write as Avro, from the command line: check, connectors check, run, replay, apply."""

from __future__ import annotations

import json
import sqlite3
import uuid
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from rowtide.cli.main import app
from rowtide_connectors.memory import MemoryBroker, memory_broker
from support.registry import FakeRegistry

PIPELINE = """\
CREATE SERVER here FOREIGN DATA WRAPPER MEMORY OPTIONS (broker '{broker}');
CREATE SERVER db FOREIGN DATA WRAPPER RDBMS OPTIONS (url 'sqlite:///{file}');
CREATE FOREIGN STREAM readings (sensor VARCHAR(9), celsius BIGINT) SERVER here OPTIONS (topic 'in');
CREATE FOREIGN STREAM hot (sensor VARCHAR(9), celsius BIGINT) SERVER here
  OPTIONS (topic 'out', format 'AVRO', key 'sensor', registry_url '{registry}');
CREATE FOREIGN TABLE log (sensor VARCHAR(9)) SERVER db;
CREATE PUMP p STARTED AS INSERT INTO hot SELECT STREAM sensor, celsius FROM readings WHERE celsius > 30;
CREATE PUMP q STARTED AS INSERT INTO log SELECT STREAM sensor FROM readings;
"""
NARROW = {
    "type": "record",
    "name": "Hot",
    "fields": [{"name": "sensor", "type": "string"}, {"name": "celsius", "type": "int"}],
}


def run(*args: object) -> Result:
    return CliRunner(env={"ROWTIDE_SERVICE__LISTEN": "127.0.0.1:0"}).invoke(app, [str(arg) for arg in args])


class Files:
    def __init__(self, folder: Path, registry: FakeRegistry) -> None:
        self.broker: MemoryBroker = memory_broker(name := uuid.uuid4().hex)
        self.pipeline = folder / "hot.sql"
        self.text = PIPELINE.format(broker=name, file=folder / "sink.db", registry=registry.url)
        self.pipeline.write_text(self.text)
        self.broker.create_topic("in")
        self.registry = registry

    def change(self, before: str, after: str) -> None:
        self.text = self.text.replace(before, after)
        self.pipeline.write_text(self.text)

    def feed(self, first: int, *celsius: int) -> None:
        values = [b'{"sensor":"s%d","celsius":%d}' % (at, each) for at, each in enumerate(celsius)]
        self.broker.produce("in", values, timestamps=[first + at for at in range(len(values))])

    def sent(self) -> list[tuple[int, Any]]:
        """Return number of the schema and record of each message."""
        found = []
        for value in self.broker.topic("out")[0].values:
            assert value is not None
            found.append((int.from_bytes(value[1:5], "big"), self.registry.read(value)))
        return found


@pytest.fixture
def files(tmp_path: Path, registry: FakeRegistry) -> Files:
    return Files(tmp_path, registry)


def test_rows_are_written_with_the_schema_that_a_start_registers(
    files: Files, registry: FakeRegistry
) -> None:
    files.feed(1_000, 31, 12, 95)
    registry.failures_left = 2
    result = run("run", files.pipeline, "--until-end")
    assert result.exit_code == 0, result.output
    assert registry.failures_left == 0
    files.feed(2_000, 44)
    assert run("run", files.pipeline, "--until-end").exit_code == 0
    (number,) = registry.subjects["out-value"]
    assert files.sent() == [
        (number, {"sensor": "s0", "celsius": 31}),
        (number, {"sensor": "s2", "celsius": 95}),
        (number, {"sensor": "s0", "celsius": 44}),
    ]
    assert files.broker.topic("out")[0].keys == [b"s0", b"s2", b"s0"]
    # A replay encodes nothing, so it does not need the registry.
    registry.failing = True
    result = run("replay", files.pipeline, "--compare")
    assert result.exit_code == 0, result.output


def test_values_that_the_schema_cannot_carry_are_error_rows(files: Files, registry: FakeRegistry) -> None:
    registry.register("out-value", NARROW)
    files.change("format 'AVRO'", "format 'AVRO', schema_id 'latest'")
    files.feed(1_000, 31, 1 << 40, 95)
    assert run("run", files.pipeline, "--until-end").exit_code == 0
    assert [each["celsius"] for _, each in files.sent()] == [31, 95]
    errors = json.loads(run("errors", "list", files.pipeline, "--json").output)["errors"]
    assert [(each["relation"], each["reason"]) for each in errors] == [
        ("HOT", 'CONSTRAINT: column "CELSIUS": 1099511627776 is out of the range of int')
    ]


def test_a_registry_that_does_not_answer_ends_a_start_only_with_no_wait(
    files: Files, registry: FakeRegistry
) -> None:
    registry.failing = True
    files.feed(1_000, 31)
    result = run("run", files.pipeline, "--until-end", "--no-wait")
    assert result.exit_code == 3, result.output
    assert 'schema registry of "HOT" is down' in result.output
    registry.failing = False
    assert run("run", files.pipeline, "--until-end").exit_code == 0
    assert len(files.sent()) == 1


@pytest.mark.parametrize("command", [("run", "--until-end"), ("connectors", "check")])
def test_a_schema_that_does_not_fit_ends_a_start_before_it_takes_the_epoch(
    files: Files, registry: FakeRegistry, command: tuple[str, str]
) -> None:
    registry.register(
        "out-value", {"type": "record", "name": "Hot", "fields": [{"name": "a", "type": "int"}]}
    )
    files.change("format 'AVRO'", "format 'AVRO', schema_id 'latest'")
    args = ("run", files.pipeline, "--until-end") if command[0] == "run" else (*command, files.pipeline)
    result = run(*args)
    assert result.exit_code == 2, result.output
    assert 'it has no field "sensor" for column "SENSOR"' in result.output
    connection = sqlite3.connect(files.pipeline.parent / "sink.db")
    names = [name for (name,) in connection.execute("select name from sqlite_master")]
    connection.close()
    assert "log" not in names


def test_connectors_check_registers_nothing(files: Files, registry: FakeRegistry) -> None:
    result = run("connectors", "check", files.pipeline)
    assert result.exit_code == 0, result.output
    assert registry.schemas == {}
    registry.failing = True
    assert run("connectors", "check", files.pipeline).exit_code == 3


def test_check_names_the_place_of_a_schema_that_does_not_fit(files: Files) -> None:
    wrong = [{"name": "sensor", "type": "long"}, {"name": "celsius", "type": "long"}]
    schema = json.dumps({"type": "record", "name": "Hot", "fields": wrong})
    files.change("format 'AVRO'", f"format 'AVRO', schema '{schema}'")
    result = run("check", files.pipeline)
    assert result.exit_code == 2
    assert 'field "sensor" is long, and column "SENSOR" is VARCHAR(9)' in result.stderr
    assert f"{files.pipeline}:5:" in result.stderr


def test_a_stream_that_apply_adds_is_written_with_its_schema(
    files: Files, registry: FakeRegistry, tmp_path: Path
) -> None:
    was = tmp_path / "was.sql"
    everything = files.text
    was.write_text("\n".join(line for line in files.text.splitlines() if "PUMP p" not in line))
    files.change(everything, was.read_text())
    files.feed(1_000, 31, 32)
    assert run("run", files.pipeline, "--until-end").exit_code == 0
    assert registry.schemas == {}
    files.change(was.read_text(), everything)
    result = run("apply", files.pipeline, "--was", was, "--yes")
    assert result.exit_code == 0, result.output
    files.feed(2_000, 33, 34)
    assert run("run", files.pipeline, "--until-end").exit_code == 0
    assert [each["celsius"] for _, each in files.sent()] == [33, 34]
