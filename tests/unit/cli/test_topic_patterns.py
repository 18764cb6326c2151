"""A foreign stream of the topics that match a pattern: new topics, restarts, replay, positions, bounds, why, infer."""

from __future__ import annotations

import json
import sqlite3
import uuid
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from rowtide.cli.main import app
from rowtide.cli.run.run import why_of
from rowtide_connectors.memory import MemoryBroker, memory_broker

PIPELINE = """\
CREATE SERVER here FOREIGN DATA WRAPPER MEMORY OPTIONS (broker '{broker}');
CREATE SERVER db FOREIGN DATA WRAPPER RDBMS OPTIONS (url 'sqlite:///{file}');
CREATE FOREIGN STREAM orders (id INTEGER) SERVER here OPTIONS (topic_pattern 'orders-(eu|us|[0-9]+)');
CREATE FOREIGN TABLE log (at TIMESTAMP, id INTEGER, topic VARCHAR(9), part INTEGER, place BIGINT) SERVER db;
CREATE PUMP p AS INSERT INTO log
  SELECT STREAM ROWTIME AS at, id, KAFKA_TOPIC, KAFKA_PARTITION, KAFKA_OFFSET FROM orders;
"""


def run(*args: object) -> Result:
    return CliRunner(env={"ROWTIDE_SERVICE__LISTEN": "127.0.0.1:0"}).invoke(app, [str(arg) for arg in args])


def answer(*args: object) -> Any:
    found = run(*args, "--json")
    assert found.exit_code == 0, found.output
    return json.loads(found.stdout)


class Files:
    def __init__(self, folder: Path) -> None:
        self.broker: MemoryBroker = memory_broker(name := uuid.uuid4().hex)
        self.name = name
        self.database = folder / "sink.db"
        self.pipeline = folder / "orders.sql"
        self.pipeline.write_text(PIPELINE.format(broker=name, file=self.database))
        self.count = 0

    def feed(self, time: int, topic: str, partition: int = 0, value: bytes | None = None) -> None:
        self.count += 1
        message = b'{"id":%d}' % self.count if value is None else value
        self.broker.produce(topic, [message], timestamps=[time], partition=partition)

    def run(self) -> None:
        found = run("run", self.pipeline, "--until-end")
        assert found.exit_code == 0, found.output

    def finish(self, time: str) -> None:
        """Let all rows come out: bounds in all partitions of all topics."""
        found = run("bound", self.pipeline, "orders", time)
        assert found.exit_code == 0, found.output
        self.run()

    def select(self, query: str) -> list[tuple[object, ...]]:
        connection = sqlite3.connect(self.database)
        try:
            return connection.execute(query).fetchall()
        finally:
            connection.close()

    def rows(self) -> list[tuple[object, ...]]:
        return self.select("select id, topic, part, place from log order by at, id")


@pytest.fixture
def files(tmp_path: Path) -> Files:
    return Files(tmp_path)


def test_topics_that_come_between_runs_join_and_every_number_stays(files: Files) -> None:
    files.broker.create_topic("orders-us", 2)
    files.broker.create_topic("returns-us", 1)
    files.feed(1_000, "orders-us")
    files.run()
    # Its name is before that of the first one.
    files.broker.create_topic("orders-eu", 1)
    files.feed(2_000, "orders-us", 1)
    files.feed(3_000, "orders-eu")
    files.run()
    files.broker.create_topic("orders-7", 2)
    files.feed(4_000, "orders-7", 1)
    files.feed(5_000, "orders-eu")
    files.run()
    files.finish("1970-01-01 00:01:00")
    assert files.rows() == [
        (1, "orders-us", 0, 0),
        (2, "orders-us", 1, 0),
        (3, "orders-eu", 0, 0),
        (4, "orders-7", 1, 0),
        (5, "orders-eu", 0, 1),
    ]
    positions = answer("positions", files.pipeline)["positions"]
    assert {(each["topic"], each["partition"]): (each["next_offset"], each["lag"]) for each in positions} == {
        ("orders-us", 0): (2, 0),
        ("orders-us", 1): (2, 0),
        ("orders-eu", 0): (3, 0),
        ("orders-7", 0): (1, 0),
        ("orders-7", 1): (2, 0),
    }
    ids = files.select("select topic, partition, topic_id from rowtide_positions order by partition")
    made = files.broker.made
    assert [each[2] for each in ids] == [str(made[str(topic)]) for topic, _, _ in ids]
    assert answer("replay", files.pipeline, "--compare")["equal"] is True
    found: Any = why_of(files.pipeline, None)("LOG", "id=4").to_json()
    (source,) = found["inputs"]
    assert (source["topic"], source["partition"], source["offset"]) == ("orders-7", 1, 0)


def test_error_rows_and_skips_name_the_topic(files: Files) -> None:
    files.broker.create_topic("orders-us", 1)
    files.feed(1_000, "orders-us")
    files.run()
    files.broker.create_topic("orders-eu", 2)
    files.feed(2_000, "orders-eu", 1, b"{broken")
    files.run()
    files.feed(3_000, "orders-eu", 1)
    ambiguous = run("positions", "skip", files.pipeline, "orders", 1, 1, "--yes")
    assert ambiguous.exit_code == 2
    assert "the stream reads several topics" in ambiguous.stderr
    done = run("positions", "skip", files.pipeline, "orders", 1, 1, "--topic", "orders-eu", "--yes")
    assert done.exit_code == 0, done.output
    files.finish("1970-01-01 00:01:00")
    errors = answer("errors", "list", files.pipeline)["errors"]
    assert [(each["topic"], each["partition"], each["offset"]) for each in errors] == [
        ("orders-eu", 1, 0),
        ("orders-eu", 1, 1),
    ]
    again = run("errors", "resubmit", files.pipeline, "--all")
    assert again.exit_code == 0, again.output
    files.run()
    assert answer("replay", files.pipeline, "--compare")["equal"] is True


def test_a_bound_is_written_to_one_topic_or_to_all_that_match(files: Files) -> None:
    files.broker.create_topic("orders-us", 1)
    files.broker.create_topic("orders-eu", 2)
    one = answer("bound", files.pipeline, "orders-eu", "1970-01-01 00:01:00", "--partition", "1")
    assert one["written"] == [{"topic": "orders-eu", "partition": 1, "offset": 0}]
    every = answer("bound", files.pipeline, "orders", "1970-01-01 00:01:00")
    assert [(each["topic"], each["partition"]) for each in every["written"]] == [
        ("orders-eu", 0),
        ("orders-eu", 1),
        ("orders-us", 0),
    ]
    absent = run("bound", files.pipeline, "orders-12", "1970-01-01 00:01:00")
    assert absent.exit_code == 2
    assert 'topic "orders-12" does not exist' in absent.stderr
    wrong = run("bound", files.pipeline, "returns", "1970-01-01 00:01:00")
    assert wrong.exit_code == 2
    assert "those that match 'orders-(eu|us|[0-9]+)'" in wrong.stderr


def test_a_start_without_any_topic_is_refused_and_says_what_to_do(files: Files) -> None:
    files.broker.create_topic("returns", 1)
    found = run("run", files.pipeline, "--until-end")
    assert found.exit_code != 0
    assert "no topic matches topic_pattern 'orders-(eu|us|[0-9]+)'" in found.stderr
    assert "Create a topic, or correct the option" in found.stderr
    checked = run("connectors", "check", files.pipeline)
    assert checked.exit_code == 2
    assert "no topic matches topic_pattern" in checked.stdout


@pytest.mark.parametrize("again", [True, False])
def test_a_topic_that_was_deleted_is_named(files: Files, again: bool) -> None:
    files.broker.create_topic("orders-us", 1)
    files.broker.create_topic("orders-eu", 1)
    files.feed(1_000, "orders-eu")
    files.run()
    files.broker.delete_topic("orders-eu")
    if again:
        files.broker.create_topic("orders-eu", 1)
        files.feed(1_000, "orders-eu")
    found = run("run", files.pipeline, "--until-end")
    assert found.exit_code != 0
    assert "orders-eu" in found.stderr
    assert ("deleted and created again" if again else "does not exist any more") in found.stderr


def test_check_names_the_topics_and_a_sample_has_messages_of_all(files: Files) -> None:
    files.broker.create_topic("orders-us", 1)
    files.broker.create_topic("orders-eu", 2)
    files.feed(1_000, "orders-us")
    files.feed(1_000, "orders-eu", 1, b'{"id":"x"}')
    found = run("connectors", "check", files.pipeline, "--sample", "10")
    assert (
        '2 topic(s) match \'orders-(eu|us|[0-9]+)\': "orders-eu", "orders-us", 3 partition(s)' in found.stdout
    )
    assert found.exit_code == 1, "a message does not fit"


def test_a_declaration_is_proposed_from_messages_of_all_topics(files: Files) -> None:
    files.broker.create_topic("orders-us", 1)
    files.broker.create_topic("orders-eu", 1)
    files.feed(1_000, "orders-us", 0, b'{"id":1,"state":"WA"}')
    files.feed(1_000, "orders-eu", 0, b'{"id":2,"vat":true}')
    server = ("--wrapper", "memory", "--option", f"broker={files.name}")
    found = run("connectors", "infer", "orders-.*", "--pattern", *server)
    assert found.exit_code == 0, found.output
    assert "CREATE FOREIGN STREAM orders (" in found.stdout
    assert "OPTIONS (topic_pattern 'orders-.*', format 'JSON')" in found.stdout
    assert "topics that match 'orders-.*'" in found.stdout
    assert all(column in found.stdout for column in ("state", "vat"))
    refused = run("connectors", "infer", "orders-.*", "--pattern", "--registry", "http://r", *server)
    assert refused.exit_code == 2
    assert "--pattern samples messages" in refused.stderr


def test_a_pattern_that_matches_a_topic_which_pumps_write_is_refused_with_one_that_does_not(
    files: Files,
) -> None:
    out = """
CREATE FOREIGN STREAM big (id INTEGER) SERVER here OPTIONS (topic 'orders-9', format 'JSON');
CREATE PUMP q AS INSERT INTO big SELECT STREAM id FROM orders WHERE id > 100;
"""
    text = files.pipeline.read_text() + out
    files.pipeline.write_text(text)
    for command in (("check",), ("run", "--until-end")):
        found = run(command[0], files.pipeline, *command[1:])
        assert found.exit_code == 2
        assert 'matches topic "orders-9", which pumps write to (foreign stream "BIG")' in found.stderr
    pattern = found.stderr.partition("Leave it out: topic_pattern '")[2].partition("'.")[0]
    assert pattern
    files.pipeline.write_text(text.replace("orders-(eu|us|[0-9]+)", pattern))
    assert run("check", files.pipeline).exit_code == 0
    files.broker.create_topic("orders-us", 1)
    files.broker.create_topic("orders-9", 1)
    files.feed(1_000, "orders-us")
    files.run()
    assert [topic for (topic,) in files.select("select topic from rowtide_positions")] == ["orders-us"]
