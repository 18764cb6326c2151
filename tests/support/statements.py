"""A pipeline whose tables are changed by statements while it runs, on a broker in memory and SQLite."""

from __future__ import annotations

import json
import random
import sqlite3
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rowtide.checkpoint.database import DatabaseLedger
from rowtide.checkpoint.statement_log import SentText, StatementChange
from rowtide.rows.rowop import Opcode, Row
from rowtide.rows.tray import Tray
from rowtide.runtime.crashpoints import CrashPoints, NoCrash, SimulatedCrash
from rowtide.runtime.inspect.replay import Range, compare
from rowtide.runtime.pace import Pace
from rowtide.runtime.service import Service
from rowtide.runtime.state.context import PipelineContext
from rowtide.sql.pipeline import SqlSession
from rowtide.testing.virtual_clock import VirtualClock
from rowtide_connectors.memory.broker import MemoryBroker
from rowtide_connectors.memory.source import MemorySource
from rowtide_connectors.rdbms.database import open_database

PIPELINE = "orders"
SQL = """
CREATE SERVER k FOREIGN DATA WRAPPER MEMORY;
CREATE SERVER d FOREIGN DATA WRAPPER RDBMS OPTIONS (url 'sqlite://');
CREATE FOREIGN STREAM orders (id BIGINT, currency VARCHAR(3)) SERVER k OPTIONS (topic 'orders', format 'JSON');
CREATE TABLE rates (currency VARCHAR(3) PRIMARY KEY, rate INTEGER CHECK (rate >= 0), UNIQUE (rate));
INSERT INTO rates VALUES ('EUR', 10), ('USD', 20);
CREATE TABLE regions (currency VARCHAR(3) PRIMARY KEY, region VARCHAR(8) NOT NULL);
CREATE TABLE fed (currency VARCHAR(3) PRIMARY KEY, last BIGINT);
CREATE PUMP p0 AS INSERT INTO fed SELECT STREAM currency, id FROM orders;
CREATE FOREIGN TABLE valued (id BIGINT, currency VARCHAR(3), rate INTEGER, region VARCHAR(8)) SERVER d;
CREATE PUMP p1 AS INSERT INTO valued
  SELECT STREAM o.id, o.currency, r.rate, g.region FROM orders AS o LEFT JOIN rates AS r ON o.currency = r.currency
  LEFT JOIN regions AS g ON o.currency = g.currency;
CREATE FOREIGN TABLE kept (currency VARCHAR(3) PRIMARY KEY, rate INTEGER, region VARCHAR(8), last BIGINT) SERVER d;
CREATE PUMP p2 AS INSERT INTO kept
  SELECT r.currency, r.rate, g.region, f.last FROM rates AS r LEFT JOIN regions AS g ON r.currency = g.currency
  LEFT JOIN fed AS f ON r.currency = f.currency;
CREATE TABLE unread (n INTEGER);
"""
CURRENCIES = ("EUR", "USD", "GBP", "JPY")


@dataclass
class StatementsWorld:
    """What outlives a process."""

    folder: Path
    sql: str = SQL
    broker: MemoryBroker = field(default_factory=MemoryBroker)
    clock: VirtualClock = field(default_factory=VirtualClock)
    now: int = 1_000
    orders: list[tuple[int, int, str]] = field(default_factory=list)
    """Rowtime, id and currency of each order."""

    def __post_init__(self) -> None:
        self.session = SqlSession()
        self.session.feed(self.sql)
        self.broker.create_topic("orders", 2)

    def order(self, rng: random.Random) -> None:
        """Write an order to the topic; rowtimes of one partition do not fall."""
        self.now += rng.choice((0, 1, 1, 250))
        number, currency = len(self.orders), rng.choice(CURRENCIES)
        self.orders.append((self.now, number, currency))
        value = json.dumps({"id": number, "currency": currency}).encode()
        self.broker.produce("orders", [value], timestamps=[self.now], partition=number % 2)

    @contextmanager
    def ledger(self) -> Iterator[DatabaseLedger]:
        """Open the checkpoint."""
        with closing(open_database(f"sqlite:///{self.folder / 'sink.db'}")) as database:
            yield DatabaseLedger(database, PIPELINE)

    def send(self, text: str) -> int:
        """Queue a statement, as another process does."""
        with self.ledger() as ledger:
            return ledger.statements().send(text)

    def sent(self) -> Sequence[SentText]:
        """Return the statements and their outcomes."""
        with self.ledger() as ledger:
            return ledger.statements().newest(10_000)

    def log(self) -> Sequence[StatementChange]:
        """Return the committed changes."""
        with self.ledger() as ledger:
            record = ledger.read()
            return ledger.statements().applied(0, 0 if record is None else record.commits)

    @contextmanager
    def context(self, **changes: Any) -> Iterator[PipelineContext]:
        """Return the context of a process."""
        with closing(open_database(f"sqlite:///{self.folder / 'sink.db'}")) as database:
            ledger = DatabaseLedger(database, PIPELINE)
            given: dict[str, Any] = {
                "name": PIPELINE,
                "plan": self.session.plan,
                "sources": {"ORDERS": MemorySource(self.broker, "orders")},
                "database": database,
                "ledger": ledger,
                "clock": self.clock,
                "pace": Pace(100, 20, None, None),
                "stopping": self.until_done(ledger),
                "rng": random.Random(7),
                "threads": False,
                "poll_messages": 7,
                "statements": self.session.sent,
            }
            yield PipelineContext(**(given | changes))

    def until_done(self, ledger: DatabaseLedger) -> Callable[[], bool]:
        """Return what stops a process: everything in topic and queue is committed."""

        def is_done() -> bool:
            record = ledger.read()
            positions = {} if record is None else record.positions()
            ends = {("ORDERS", number): log.end for number, log in self.broker.topic("orders").items()}
            return positions == ends and not ledger.statements().queued()

        return is_done

    def run(self, crash_points: CrashPoints | None = None, **changes: Any) -> bool:
        """Run a process until everything is committed; return False if it died."""
        try:
            with self.context(crash_points=crash_points or NoCrash(), **changes) as context:
                Service(context).run()
        except SimulatedCrash:
            return False
        return True

    def rows(self, table: str) -> Counter[tuple[Any, ...]]:
        """Return the rows of a foreign table."""
        with closing(sqlite3.connect(self.folder / "sink.db")) as connection:
            return Counter(connection.execute(f"select * from {table}").fetchall())

    def differences(self) -> list[str]:
        """Replay everything from the first offset, and compare."""
        with self.context(stopping=lambda: False) as context:
            return [str(each) for each in compare(context, Range()).differences]

    def table_at(
        self,
        table: str,
        rowtime: int | None,
        first: Sequence[Row],
        log: Sequence[StatementChange] | None = None,
    ) -> dict[object, Row]:
        """Return the rows by their first column as of a rowtime (None: now), by the log alone."""
        rows = {row[0]: row for row in first}
        row_type = dict(self.session.plan.relations)[table].row_type
        for logged in self.log() if log is None else log:
            if (rowtime is None or logged.rowtime <= rowtime) and table in logged.changes:
                for timed in Tray.from_arrow(row_type, logged.changes[table]).rows():
                    if timed.opcode == Opcode.DELETE:
                        del rows[timed.row[0]]
                    else:
                        rows[timed.row[0]] = timed.row
        return rows

    def expected_valued(self, ids: set[int]) -> Counter[tuple[Any, ...]]:
        """Return the rows of ``valued`` with these ids."""
        found: Counter[tuple[Any, ...]] = Counter()
        log = self.log()
        for rowtime, number, currency in self.orders:
            if number in ids:
                rates = self.table_at("RATES", rowtime, [("EUR", 10), ("USD", 20)], log)
                regions = self.table_at("REGIONS", rowtime, [], log)
                rate = rates.get(currency, (None, None))[1]
                found[number, currency, rate, regions.get(currency, (None, None))[1]] += 1
        return found


def drawn_statement(rng: random.Random) -> str:
    """Return a statement; some fail."""
    currency = rng.choice(CURRENCIES)
    return rng.choice(
        (
            f"INSERT INTO rates VALUES ('{currency}', {rng.randrange(100)})",
            f"UPDATE rates SET rate = rate + {rng.randrange(50)} WHERE currency <> '{currency}'",
            "UPDATE rates SET rate = 100 - rate",
            "UPDATE rates SET rate = 1 / (rate - rate)",
            f"DELETE FROM rates WHERE currency = '{currency}'",
            "TRUNCATE rates",
            f"INSERT INTO regions VALUES ('{currency}', 'r{rng.randrange(3)}'); DELETE FROM rates WHERE rate > 90",
            f"DELETE FROM regions; INSERT INTO regions (currency, region) VALUES ('{currency}', NULL)",
            "MERGE INTO rates AS r USING regions AS g ON r.currency = g.currency "
            "WHEN MATCHED THEN UPDATE SET rate = r.rate + 1 WHEN NOT MATCHED THEN INSERT VALUES (g.currency, 7)",
            "MERGE INTO rates AS r USING fed AS f ON r.currency = f.currency "
            "WHEN MATCHED THEN UPDATE SET rate = CAST(f.last AS INTEGER) WHEN NOT MATCHED THEN DO NOTHING",
        )
    )
