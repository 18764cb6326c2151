"""A stream of the topics of a real broker that match a pattern: topics come while it runs, and it is killed."""

from __future__ import annotations

import json
import signal
import sqlite3
import uuid
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from real.kafka import Broker
from rowtide.cli.main import app
from support.service import service

SQL = """
CREATE SERVER k FOREIGN DATA WRAPPER KAFKA OPTIONS (bootstrap_servers '{kafka}');
CREATE SERVER d FOREIGN DATA WRAPPER RDBMS OPTIONS (url 'sqlite:///{file}');
CREATE FOREIGN STREAM orders (number BIGINT) SERVER k OPTIONS (topic_pattern '{prefix}-[a-z]', format 'JSON');
CREATE FOREIGN TABLE log (number BIGINT, topic VARCHAR(40), part INTEGER, place BIGINT) SERVER d;
CREATE PUMP p AS INSERT INTO log SELECT STREAM number, KAFKA_TOPIC, KAFKA_PARTITION, KAFKA_OFFSET FROM orders;
"""
CONFIG = """
[service]
listen = "127.0.0.1:0"
[commit]
interval_ms = 30
"""
START = 1_700_000_000_000


@pytest.mark.kafka
@pytest.mark.timeout(300)
def test_topics_that_come_are_read_once_over_a_kill(kafka: Broker, tmp_path: Path) -> None:
    prefix, file = f"p{uuid.uuid4().hex[:8]}", tmp_path / "sink.db"
    wanted: list[tuple[object, ...]] = []
    ends: dict[tuple[str, int], int] = {}
    clock = START

    def feed(messages: int = 20) -> None:
        nonlocal clock
        for (topic, number), first in sorted(ends.items()):
            rows = [(len(wanted) + at, topic, number, first + at) for at in range(messages)]
            stamps = [clock + at for at in range(messages)]
            values = [b'{"number":%d}' % row[0] for row in rows]
            kafka.produce(topic, values, partition=number, timestamps=stamps)
            wanted.extend(rows)
            ends[topic, number] = first + messages
        clock += messages

    def create(letter: str, partitions: int) -> None:
        topic = kafka.create_topic(partitions, name=f"{prefix}-{letter}")
        ends.update({(topic, number): 0 for number in range(partitions)})

    kafka.create_topic(name=f"{prefix}-other")
    text = SQL.format(kafka=kafka.bootstrap_servers, file=file, prefix=prefix)
    with service(tmp_path, CONFIG, sql=text) as made:
        files = [str(tmp_path / "readings.sql"), "--config", str(tmp_path / "config.toml")]

        def run(name: str, *arguments: str) -> Result:
            return CliRunner().invoke(app, [name, *files, *arguments])

        refused = run("run", "--until-end")
        assert refused.exit_code == 2
        assert f"no topic matches topic_pattern '{prefix}-[a-z]'" in refused.stderr
        create("m", 1)
        process = made.start()
        made.wait_for_log("running")
        feed()
        # One that is before the first one by name, and that a running service finds.
        create("a", 2)
        made.wait_for_log("partition_joins", times=2)
        feed()
        process.send_signal(signal.SIGKILL)
        assert process.wait() == -signal.SIGKILL, made.log.read_text()[-3_000:]
        create("c", 1)
        feed()
        bound = [[("rowtide.bound", str(clock + 100_000).encode())]]
        for topic, number in ends:
            kafka.produce(topic, [None], partition=number, timestamps=[clock], headers=bound)
        for command in (("run", "--until-end"), ("replay", "--compare")):
            done = run(*command)
            assert done.exit_code == 0, done.output
        positions = json.loads(run("positions", "--json").stdout)["positions"]
    assert {(each["topic"], each["partition"]): each["lag"] for each in positions} == dict.fromkeys(ends, 0)
    connection = sqlite3.connect(file)
    try:
        found = connection.execute("select number, topic, part, place from log").fetchall()
        late = connection.execute('select topic, "partition", message_offset from rowtide_errors').fetchall()
        ids = connection.execute("select topic, topic_id from rowtide_positions").fetchall()
    finally:
        connection.close()
    # Rows of a topic that comes may be late: each message is a row of the table or an error row.
    by_place = {row[1:]: row for row in wanted}
    assert sorted([*found, *(by_place[place] for place in late)]) == wanted
    assert f"{prefix}-m" not in {place[0] for place in late}
    assert len(set(ids)) == 3
    assert len({topic_id for _, topic_id in ids}) == 3, "each topic has its own id"
