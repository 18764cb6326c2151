"""A foreign stream that reads several topics: restarts, positions, error rows, bounds, replay, why, skip."""

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
CREATE FOREIGN STREAM orders (id INTEGER) SERVER here OPTIONS (topic 'north, south;east');
CREATE FOREIGN TABLE log (at TIMESTAMP, id INTEGER, topic VARCHAR(9), part INTEGER, place BIGINT) SERVER db;
CREATE PUMP p AS INSERT INTO log
  SELECT STREAM ROWTIME AS at, id, KAFKA_TOPIC, KAFKA_PARTITION, KAFKA_OFFSET FROM orders;
"""
TOPICS = ("north", "south", "east")


def run(*args: object) -> Result:
    return CliRunner(env={"ROWTIDE_SERVICE__LISTEN": "127.0.0.1:0"}).invoke(app, [str(arg) for arg in args])


def answer(*args: object) -> Any:
    found = run(*args, "--json")
    assert found.exit_code == 0, found.output
    return json.loads(found.stdout)


class Files:
    def __init__(self, folder: Path) -> None:
        self.broker: MemoryBroker = memory_broker(name := uuid.uuid4().hex)
        for topic in TOPICS:
            self.broker.create_topic(topic, 2)
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

    def rows(self) -> list[tuple[object, ...]]:
        connection = sqlite3.connect(self.database)
        try:
            return connection.execute("select id, topic, part, place from log order by at, id").fetchall()
        finally:
            connection.close()


@pytest.fixture
def files(tmp_path: Path) -> Files:
    return Files(tmp_path)


def finish(files: Files, time: str) -> None:
    """Let all rows come out: bounds in all partitions of all topics."""
    found = run("bound", files.pipeline, "orders", time)
    assert found.exit_code == 0, found.output
    files.run()


def test_rows_of_all_topics_are_one_stream_in_order_over_restarts(files: Files) -> None:
    files.feed(2_000, "north")
    files.feed(1_000, "south", 1)
    files.run()
    files.feed(4_000, "east")
    files.feed(3_000, "north", 1)
    finish(files, "1970-01-01 00:01:00")
    assert files.rows() == [
        (2, "south", 1, 0),
        (1, "north", 0, 0),
        (4, "north", 1, 0),
        (3, "east", 0, 0),
    ]
    positions = answer("positions", files.pipeline)["positions"]
    assert [(each["topic"], each["partition"], each["next_offset"]) for each in positions] == [
        ("north", 0, 2),
        ("south", 0, 1),
        ("north", 1, 2),
        ("east", 0, 2),
        ("south", 1, 2),
        ("east", 1, 1),
    ]
    assert answer("replay", files.pipeline, "--compare")["equal"] is True


def test_error_rows_name_the_topic_and_are_resubmitted_once(files: Files) -> None:
    files.feed(1_000, "south", 1, b"{broken")
    files.feed(2_000, "east", 0, b'{"id":"x"}')
    files.run()
    errors = answer("errors", "list", files.pipeline)["errors"]
    assert [(each["topic"], each["partition"], each["offset"]) for each in errors] == [
        ("south", 1, 0),
        ("east", 0, 0),
    ]
    again = run("errors", "resubmit", files.pipeline, "--all")
    assert again.exit_code == 0, again.output
    files.run()
    errors = answer("errors", "list", files.pipeline)["errors"]
    # The other message cannot be decoded, so it stays.
    assert [(each["topic"], each["partition"], each["offset"]) for each in errors[2:]] == [("east", 0, 0)]


def test_a_bound_is_written_to_one_topic_or_to_all(files: Files) -> None:
    one = answer("bound", files.pipeline, "south", "1970-01-01 00:01:00", "--partition", "1")
    assert one["written"] == [{"topic": "south", "partition": 1, "offset": 0}]
    every = answer("bound", files.pipeline, "orders", "1970-01-01 00:01:00")
    assert [(each["topic"], each["partition"]) for each in every["written"]] == [
        (topic, partition) for topic in sorted(TOPICS) for partition in (0, 1)
    ]
    wrong = run("bound", files.pipeline, "south", "1970-01-01 00:01:00", "--partition", "2")
    assert wrong.exit_code == 2
    assert 'topic "south" has no partition 2' in wrong.stderr


def test_a_row_is_explained_by_its_topic(files: Files) -> None:
    files.feed(1_000, "south", 1)
    finish(files, "1970-01-01 00:01:00")
    found: Any = why_of(files.pipeline, None)("LOG", "id=1").to_json()
    (source,) = found["inputs"]
    assert (source["topic"], source["partition"], source["offset"]) == ("south", 1, 0)
    released = {(each["topic"], each["partition"]) for each in found["releases"]}
    assert ("north", 0) in released
    assert all(partition < 2 for _, partition in released)


def test_a_message_of_a_topic_is_skipped(files: Files) -> None:
    files.feed(1_000, "south", 1)
    files.run()
    files.feed(2_000, "south", 1)
    ambiguous = run("positions", "skip", files.pipeline, "orders", 1, 1, "--yes")
    assert ambiguous.exit_code == 2
    assert "the stream reads several topics" in ambiguous.stderr
    wrong = run("positions", "skip", files.pipeline, "orders", 1, 1, "--topic", "west", "--yes")
    assert 'the stream does not read "west"' in wrong.stderr
    done = run("positions", "skip", files.pipeline, "orders", 1, 1, "--topic", "south", "--yes")
    assert done.exit_code == 0, done.output
    finish(files, "1970-01-01 00:01:00")
    assert files.rows() == [(1, "south", 1, 0)]
    (error,) = answer("errors", "list", files.pipeline)["errors"]
    assert (error["topic"], error["partition"], error["offset"]) == ("south", 1, 1)
    assert error["reason"].startswith("SKIPPED")


def test_a_topic_that_was_created_again_is_named(files: Files) -> None:
    files.feed(1_000, "south", 1)
    files.feed(1_000, "south", 1)
    files.run()
    files.broker.delete_topic("south")
    files.broker.create_topic("south", 2)
    found = run("run", files.pipeline, "--until-end")
    assert found.exit_code == 2, found.output
    assert "south" in found.output


@pytest.mark.parametrize(
    ("topic", "message"),
    [("a,,b", "names an empty topic"), ("a,b,a", "names a topic twice")],
)
def test_a_wrong_list_is_refused(files: Files, topic: str, message: str) -> None:
    files.pipeline.write_text(files.pipeline.read_text().replace("north, south;east", topic))
    found = run("check", files.pipeline)
    assert found.exit_code == 2
    assert message in found.stderr


def test_a_pump_writes_to_one_topic(files: Files) -> None:
    files.pipeline.write_text(
        files.pipeline.read_text()
        + """
CREATE FOREIGN STREAM out (id INTEGER) SERVER here OPTIONS (topic 'a,b');
CREATE PUMP q AS INSERT INTO out SELECT STREAM id FROM orders;
"""
    )
    found = run("check", files.pipeline)
    assert found.exit_code == 2
    assert "names several topics, and pumps write to one" in found.stderr


def test_a_new_partition_before_others_in_the_order_joins_behind_their_rows(files: Files) -> None:
    for topic in TOPICS:
        for partition in (0, 1):
            files.feed(2_000 if (topic, partition) == ("east", 1) else 3_000, topic, partition)
    files.run()
    # All partitions of lower numbers are beyond 2,000, so the row of the last one is out.
    assert files.rows() == [(6, "east", 1, 0)]
    files.broker.add_partitions("north", 3)
    files.run()
    files.feed(2_000, "north", 2)
    files.feed(2_001, "north", 2)
    finish(files, "1970-01-01 00:01:00")
    assert files.rows()[:2] == [(6, "east", 1, 0), (8, "north", 2, 1)]
    (error,) = answer("errors", "list", files.pipeline)["errors"]
    assert (error["topic"], error["partition"], error["offset"]) == ("north", 2, 0)
    assert error["bound"] == "1970-01-01 00:00:02.001"
    assert answer("replay", files.pipeline, "--compare")["equal"] is True
