"""PostgreSQL behind pgbouncer in transaction mode: each transaction may run in another session."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest
import sqlalchemy as sa

from real.pgbouncer import Pgbouncer
from rowtide.checkpoint.database import DatabaseLedger
from rowtide.checkpoint.ledger import KeptSnapshot, PartitionPosition
from rowtide_connectors.api import Database, TableColumn, TargetTable
from rowtide_connectors.rdbms.transaction import sql_connection
from rowtide_connectors.registry import find_sink

pytestmark = pytest.mark.postgres

ORDERS = TargetTable("ORDERS", (TableColumn("N", "BIGINT"), TableColumn("AT", "TIMESTAMP")), ("N",))


@pytest.fixture
def pooled(pgbouncer: Pgbouncer, postgres_url: str) -> str:
    """The address of an empty database whose sessions are in another time zone, through pgbouncer."""
    name = sa.make_url(postgres_url).database
    engine = sa.create_engine(postgres_url, isolation_level="AUTOCOMMIT", poolclass=sa.NullPool)
    with engine.connect() as connection:
        connection.exec_driver_sql(f"alter database \"{name}\" set time zone 'Asia/Tokyo'")
    return pgbouncer.url(postgres_url)


@pytest.fixture
def database(pooled: str) -> Iterator[Database]:
    with closing(find_sink("rdbms").open({"url": pooled})) as opened:
        yield opened


def settings(database: Database) -> list[Any]:
    with database.begin() as transaction:
        return [
            sql_connection(transaction).exec_driver_sql(f"show {name}").scalar_one()
            for name in ("lock_timeout", "timezone", "idle_in_transaction_session_timeout")
        ]


def test_each_transaction_has_its_settings_and_leaves_none_to_others(database: Database, pooled: str) -> None:
    engine = sa.create_engine(pooled, poolclass=sa.NullPool)
    for _ in range(5):
        assert settings(database) == ["30s", "UTC", "2min"]
        with engine.connect() as other:
            assert other.exec_driver_sql("show timezone").scalar_one() == "Asia/Tokyo"
            assert other.exec_driver_sql("show lock_timeout").scalar_one() == "0"


def test_a_direct_connection_has_its_settings_once(postgres_url: str) -> None:
    with closing(find_sink("rdbms").open({"url": postgres_url})) as database:
        assert settings(database) == ["30s", "UTC", "2min"]
        with database.begin() as transaction:
            driver: Any = sql_connection(transaction).connection.driver_connection
            assert driver.prepare_threshold is not None


def test_commits_of_two_databases_that_share_sessions_do_not_meet(pooled: str) -> None:
    """Statements are repeated more often than psycopg prepares them, in sessions that change."""
    databases = [find_sink("rdbms").open({"url": pooled}) for _ in range(3)]
    ledgers = [DatabaseLedger(database, f"p{number}") for number, database in enumerate(databases)]
    databases[0].prepare([ORDERS])
    epochs = [ledger.claim("digest", "a").epoch for ledger in ledgers]
    commits = 12
    for commit in range(commits):
        for number, (database, ledger) in enumerate(zip(databases, ledgers, strict=True)):
            with database.begin() as transaction:
                ledger.fence(transaction, epoch=epochs[number], commits=commit)
                transaction.upsert(ORDERS, {"N": [number, 10 + number], "AT": [commit, -commit]})
                position = PartitionPosition("S", "t", 0, commit, 0, None)
                ledger.write_positions(transaction, epochs[number], [position])
                ledger.write_snapshot(transaction, epochs[number], KeptSnapshot({("S", 0): commit}, {}))
    for database, ledger in zip(databases, ledgers, strict=True):
        record = ledger.read()
        assert record is not None
        assert (record.commits, record.positions()) == (commits, {("S", 0): commits - 1})
        assert ledger.newest_snapshot() is not None
        with database.begin_read_only() as transaction:
            assert len(list(transaction.rows(ORDERS))) == 6
        database.close()
