"""`rowtide execute` against a service on a real broker and database, which is killed while it executes."""

import json
from pathlib import Path

import pytest

from real.kafka import Broker
from real.postgres import PostgresServer
from rowtide_connectors.rdbms.database import open_database
from rowtide_connectors.rdbms.transaction import sql_connection
from support.service import config_for, positions_in, service
from support.waiting import wait_until

pytestmark = [pytest.mark.kafka, pytest.mark.postgres, pytest.mark.timeout(240)]

SQL = """
CREATE SERVER k FOREIGN DATA WRAPPER KAFKA OPTIONS (bootstrap_servers 'set by the configuration:1');
CREATE SERVER d FOREIGN DATA WRAPPER RDBMS OPTIONS (url 'set by the configuration');
CREATE FOREIGN STREAM readings (number BIGINT NOT NULL, sensor VARCHAR(16))
  SERVER k OPTIONS (topic 'set by the configuration', format 'JSON');
CREATE TABLE factors (sensor VARCHAR(16) PRIMARY KEY, factor BIGINT);
INSERT INTO factors VALUES ('a', 0);
CREATE FOREIGN TABLE scaled (number BIGINT, factor BIGINT) SERVER d;
CREATE PUMP p AS INSERT INTO scaled
  SELECT STREAM r.number, f.factor FROM readings AS r LEFT JOIN factors AS f ON r.sensor = f.sensor;
"""
FIRST_MS = 1_700_000_000_000


def test_statements_are_executed_once_by_processes_that_are_killed(
    kafka: Broker, postgres_server: PostgresServer, tmp_path: Path
) -> None:
    topic, url = kafka.create_topic(1), postgres_server.create_database()
    number = 0

    def produce(count: int) -> None:
        nonlocal number
        values = [b'{"number":%d,"sensor":"a"}' % each for each in range(number, number + count)]
        times = [FIRST_MS + each for each in range(number, number + count)]
        kafka.produce(topic, values, partition=0, timestamps=times)
        number += count

    produce(100)
    with service(tmp_path, config_for(kafka.bootstrap_servers, topic, url), sql=SQL) as made:
        add = "UPDATE factors SET factor = factor + 1"
        # It dies with the changes of a statement in an open transaction, then right after the commit.
        for started, points in enumerate(("commit.after_positions:3", "commit.after_commit:3"), 1):
            process = made.start(ROWTIDE_CRASH_AT=points)
            made.wait_for_log("running", times=started)
            for _ in range(3):
                assert made.run("execute", add, "--no-wait").exit_code == 0
                produce(20)
                # Each time one commit or more, up to the one that it dies in.
                wait_until(
                    lambda: process.poll() is not None or positions_in(url) == {0: number},  # noqa: B023 - at once
                    lambda: made.log.read_text()[-3_000:],
                )
            process.wait(60)
        made.start()
        produce(1)
        answer = made.run("execute", add, "--json")
        assert answer.exit_code == 0, answer.stderr
        assert json.loads(answer.stdout)["rows"] == 1
        refused = made.run("execute", "UPDATE factors SET factor = 1 / (factor - factor)")
        assert refused.exit_code == 2
        assert "division" in refused.stderr.lower()
        made.stop_all()
        produce(50)
        made.finish()
        listed = json.loads(made.run("execute", "--list", "--json").stdout)["statements"]
        compared = made.run("replay", "--compare")
        assert compared.exit_code == 0, compared.stdout
    assert [each["outcome"] for each in listed] == ["applied"] * 7 + ["refused"]
    database = open_database(url)
    try:
        with database.begin_read_only() as transaction:
            rows = sql_connection(transaction).exec_driver_sql("select number, factor from scaled").fetchall()
            log = sql_connection(transaction).exec_driver_sql(
                "select rowtime from rowtide.statements where number is not null order by number"
            )
            rowtimes = [rowtime for (rowtime,) in log]
    finally:
        database.close()
    expected = [
        (each, sum(rowtime is None or rowtime <= FIRST_MS + each for rowtime in rowtimes))
        for each in range(number)
    ]
    assert sorted(map(tuple, rows)) == expected
