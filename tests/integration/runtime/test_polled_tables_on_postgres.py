"""A table of one PostgreSQL database fills a table of another; the process is killed at every step."""

from __future__ import annotations

import random
import time
from pathlib import Path

import psycopg
import pytest
import sqlalchemy as sa

from real.postgres import PostgresServer
from rowtide.runtime.crashpoints import CRASH_AT
from support.service import Service, service
from support.waiting import PATIENCE_S, wait_until

SQL = """
CREATE SERVER crm FOREIGN DATA WRAPPER RDBMS OPTIONS (url 'set by the configuration');
CREATE SERVER d FOREIGN DATA WRAPPER RDBMS OPTIONS (url 'set by the configuration');
CREATE TABLE users (id INTEGER PRIMARY KEY, name VARCHAR(9), country CHAR(2), credit DECIMAL(12, 2), seen TIMESTAMP)
  SERVER crm OPTIONS (table_name 'app.users', changes_by 'updated_at', lookback '1',
    poll_interval '1 SECOND', compare_interval '2 SECOND');
CREATE FOREIGN TABLE users_now (id INTEGER PRIMARY KEY, name VARCHAR(9), country CHAR(2), credit DECIMAL(12, 2),
  seen TIMESTAMP) SERVER d;
CREATE FOREIGN TABLE countries (country CHAR(2) PRIMARY KEY, n BIGINT, credit DECIMAL(38, 2)) SERVER d;
CREATE PUMP p1 STARTED AS INSERT INTO users_now SELECT * FROM users;
CREATE PUMP p2 STARTED AS INSERT INTO countries
  SELECT country, COUNT(*), SUM(credit) FROM users GROUP BY country;
"""
KILLED_AT = (
    "poll.before_read",
    "poll.after_rows",
    "poll.after_deletes",
    "poll.after_bound",
    "intake.after_decode",
    "flow.after_drain",
    "commit.after_fence",
    "commit.after_snapshot",
    "commit.after_commit",
    "recovery.after_replay",
)
IN_EACH_RUN = KILLED_AT[2::3]
KILLED = 137
MANY = 4_500
"""Rows of several groups of a poll."""


class Crm:
    """The source."""

    def __init__(self, url: str) -> None:
        self.url = sa.make_url(url).set(drivername="postgresql").render_as_string(hide_password=False)
        self.rng = random.Random(1)
        self.run(
            "create schema app",
            "create table app.users (id integer primary key, name varchar(9), country char(2),"
            " credit numeric(12, 2), seen timestamptz, updated_at timestamptz not null default now())",
            "create index on app.users (updated_at)",
            f"insert into app.users select i, 'n' || i, chr(65 + i % 5) || 'X', i / 4.0, now()"
            f" from generate_series(1, {MANY}) as i",
        )

    def run(self, *statements: str) -> None:
        with psycopg.connect(self.url) as connection:
            for statement in statements:
                connection.execute(statement.encode())

    def change(self) -> None:
        """Insert, update and delete some rows, each in a transaction of its own."""
        for _ in range(20):
            id_ = self.rng.randrange(1, MANY + 500)
            if self.rng.random() < 0.3:
                self.run(f"delete from app.users where id = {id_}")
            else:
                self.run(
                    f"insert into app.users values ({id_}, 'm{self.rng.randrange(9999)}',"
                    f" '{self.rng.choice('ABC')}Y', {self.rng.randrange(10**6)} / 100.0, now())"
                    " on conflict (id) do update set name = excluded.name, country = excluded.country,"
                    " credit = excluded.credit, updated_at = clock_timestamp()"
                )


def rows(url: str, query: str) -> list[tuple[object, ...]]:
    with psycopg.connect(url) as connection:
        connection.execute("set time zone 'UTC'")
        return connection.execute(query.encode()).fetchall()


@pytest.mark.postgres
@pytest.mark.timeout(900)
@pytest.mark.parametrize("points", [IN_EACH_RUN, pytest.param(KILLED_AT, marks=pytest.mark.long)], ids=len)
def test_a_table_is_that_of_its_source_however_often_the_process_is_killed(
    postgres_server: PostgresServer, tmp_path: Path, points: tuple[str, ...]
) -> None:
    crm, sink = Crm(postgres_server.create_database()), postgres_server.create_database()
    address = sa.make_url(sink).set(drivername="postgresql").render_as_string(hide_password=False)
    config = (
        f'[servers.crm]\nurl = "{crm.url}"\n[servers.d]\nurl = "{sink}"\n[service]\nlisten = "127.0.0.1:0"\n'
        "[checkpoint]\nsnapshot_rows = 3000\nsnapshot_interval_s = 0\n[commit]\ninterval_ms = 20\n"
    )
    with service(tmp_path, config, SQL) as made:
        for point in points:
            process = made.start(**{CRASH_AT: point})
            deadline = time.monotonic() + PATIENCE_S
            while process.poll() is None:
                assert time.monotonic() < deadline, f"{point}: {made.log.read_text()[-3_000:]}"
                crm.change()
                time.sleep(0.2)
            assert process.returncode == KILLED, made.log.read_text()[-3_000:]
        crm.change()
        time.sleep(2.5)
        made.finish()
        wanted = rows(
            crm.url,
            "select id, name, country, credit, date_trunc('milliseconds', seen at time zone 'UTC')"
            " from app.users order by id",
        )
        assert rows(address, "select * from users_now order by id") == wanted
        grouped = "select country, count(*), sum(credit) from app.users group by country order by country"
        assert rows(address, "select * from countries where n > 0 order by country") == rows(crm.url, grouped)
        assert rows(address, "select * from rowtide.errors") == []
        ((logged, seen),) = rows(
            address, "select count(distinct message_offset), count(*) from rowtide.polled_changes"
        )
        assert logged == seen
        _outage(postgres_server, crm, made, address)


def _outage(postgres: PostgresServer, crm: Crm, made: Service, address: str) -> None:
    """Break the connections to the source while the service runs: it continues with the next poll."""
    process = made.start()
    for _ in range(3):
        crm.change()
        postgres.drop_connections(crm.url)
        time.sleep(1)
    crm.run("insert into app.users (id, name) values (99999, 'last')")
    wait_until(
        lambda: rows(address, "select 1 from users_now where id = 99999"),
        lambda: made.log.read_text()[-3_000:],
    )
    process.terminate()
    assert process.wait(60) == 0
