"""Statements that change tables while rows flow: what a row sees depends on rowtimes alone."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import pytest

from rowtide.errors import StatementError
from rowtide.flow.flow import Flow
from rowtide.flow.table_changes import LastStatement, changes_of
from rowtide.plan.outputs import table_nodes
from rowtide.rows.rowop import Opcode, Row, TimedRow
from rowtide.rows.tray import Tray
from rowtide.rows.types import RowType
from rowtide.rowtime.bound import EARLIEST
from rowtide.sql.pipeline import SqlSession
from support.seeds import seeds

PIPELINE = """
CREATE SERVER k FOREIGN DATA WRAPPER MEMORY;
CREATE SERVER d FOREIGN DATA WRAPPER RDBMS OPTIONS (url 'sqlite://');
CREATE FOREIGN STREAM orders (id BIGINT, currency VARCHAR(3)) SERVER k OPTIONS (topic 'orders', format 'JSON');
CREATE TABLE limits (currency VARCHAR(3) PRIMARY KEY, most INTEGER)
  SERVER k OPTIONS (topic 'limits', format 'JSON');
CREATE TABLE rates (currency VARCHAR(3) PRIMARY KEY, rate INTEGER, UNIQUE (rate));
INSERT INTO rates VALUES ('EUR', 1), ('USD', 2);
CREATE TABLE names (currency VARCHAR(3), name VARCHAR(20));
CREATE TABLE regions (currency VARCHAR(3) PRIMARY KEY, region INTEGER);
CREATE FOREIGN TABLE valued (id BIGINT, currency VARCHAR(3), rate INTEGER) SERVER d;
CREATE PUMP p1 AS INSERT INTO valued
  SELECT STREAM o.id, o.currency, r.rate FROM orders AS o LEFT JOIN rates AS r ON o.currency = r.currency;
CREATE FOREIGN TABLE named (currency VARCHAR(3), name VARCHAR(20), rate INTEGER, n BIGINT,
  PRIMARY KEY (currency, name, rate)) SERVER d;
CREATE PUMP p2 AS INSERT INTO named
  SELECT r.currency, n.name, r.rate, COUNT(*) FROM rates AS r JOIN names AS n ON r.currency = n.currency
  GROUP BY r.currency, n.name, r.rate;
CREATE FOREIGN TABLE limited (currency VARCHAR(3) PRIMARY KEY, most INTEGER, rate INTEGER) SERVER d;
CREATE PUMP p3 AS INSERT INTO limited
  SELECT l.currency, l.most, r.rate FROM limits AS l LEFT JOIN rates AS r ON l.currency = r.currency;
CREATE FOREIGN TABLE best (currency VARCHAR(3) PRIMARY KEY, rate INTEGER) SERVER d;
CREATE PUMP p4 AS INSERT INTO best SELECT currency, rate FROM rates ORDER BY rate DESC LIMIT 2;
CREATE FOREIGN TABLE everything (currency VARCHAR(3) PRIMARY KEY, n BIGINT) SERVER d;
CREATE PUMP p5 AS INSERT INTO everything SELECT currency, COUNT(*) FROM (
  SELECT currency FROM rates UNION ALL SELECT currency FROM regions UNION ALL SELECT currency FROM limits) AS u
  GROUP BY currency;
CREATE FOREIGN TABLE twice (id BIGINT, rate INTEGER, region INTEGER) SERVER d;
CREATE PUMP p6 AS INSERT INTO twice
  SELECT STREAM o.id, r.rate, g.region FROM orders AS o LEFT JOIN rates AS r ON o.currency = r.currency
  LEFT JOIN regions AS g ON o.currency = g.currency;
"""
CURRENCIES = ("EUR", "USD", "GBP", "JPY")
PARTITIONS = {"ORDERS": (0, 1), "LIMITS": (0,)}


@dataclass(frozen=True)
class Logged:
    """A statement as the log has it."""

    rowtime: int
    changes: Mapping[str, tuple[RowType, tuple[Row, ...], tuple[Row, ...]]]

    def apply(self, flow: Flow, number: int) -> None:
        flow.change_tables(
            LastStatement(number, self.rowtime),
            {name: changes_of(*change) for name, change in self.changes.items()},
        )


@dataclass
class Output:
    """What a flow has given: rows of each output, with the changes applied."""

    rows: dict[str, Counter[Row]] = field(default_factory=dict)
    faults: list[str] = field(default_factory=list)

    def take(self, flow: Flow) -> None:
        emitted = flow.drain()
        self.faults += [f"{each.relation} {each.reason} {each.message}" for each in emitted.faults]
        for name, trays in emitted.outputs.items():
            held = self.rows.setdefault(name, Counter())
            for tray in trays:
                for timed in tray.rows():
                    held[timed.row] += int(timed.opcode)

    def contents(self) -> dict[str, Counter[Row]]:
        return {name: +held for name, held in self.rows.items()}


@pytest.fixture(scope="module")
def session() -> SqlSession:
    session = SqlSession()
    session.feed(PIPELINE)
    return session


def drawn_statement(rng: random.Random) -> str:
    currency = rng.choice(CURRENCIES)
    return rng.choice(
        (
            f"INSERT INTO rates VALUES ('{currency}', {rng.randrange(100)})",
            f"UPDATE rates SET rate = rate + {rng.randrange(50)} WHERE currency <> '{currency}'",
            "UPDATE rates SET rate = 100 - rate",
            f"DELETE FROM rates WHERE currency = '{currency}'",
            "TRUNCATE rates",
            "MERGE INTO rates AS r USING regions AS g ON r.currency = g.currency WHEN MATCHED THEN "
            "UPDATE SET rate = r.rate + g.region WHEN NOT MATCHED THEN INSERT VALUES (g.currency, g.region + 200)",
            f"INSERT INTO names VALUES ('{currency}', 'name'), ('{currency}', 'name')",
            f"DELETE FROM names WHERE currency = '{currency}'",
            f"UPDATE names SET name = 'n{rng.randrange(3)}'",
            f"INSERT INTO regions VALUES ('{currency}', {rng.randrange(3)}); DELETE FROM rates WHERE rate > 90",
        )
    )


def rows_of(flow: Flow, table: str) -> Sequence[Row]:
    return [timed.row for timed in flow.table(table).rows()]


def inserted(flow: Flow, stream: str, partition: int, rowtime: int, offset: int, row: Row) -> None:
    tray = Tray.from_rows(
        flow.source_type(stream),
        [TimedRow(rowtime, flow.origin(stream, partition), offset, Opcode.INSERT, row)],
    )
    flow.insert(stream, partition, tray)


Message = tuple[str, int, int, int, Row]


def messages(rng: random.Random, count: int) -> list[Message]:
    clocks = {(stream, partition): 1_000 for stream, each in PARTITIONS.items() for partition in each}
    offsets = dict.fromkeys(clocks, 0)
    found: list[Message] = []
    for number in range(count):
        place = rng.choice(list(clocks))
        clocks[place] += rng.choice((0, 0, 1, 3, 40))
        currency = rng.choice(CURRENCIES)
        row: Row = (number, currency) if place[0] == "ORDERS" else (currency, number)
        found.append((*place, clocks[place], offsets[place], row))
        offsets[place] += 1
    return found


def replayed(
    plan_outputs: Mapping[str, object], log: Iterable[Logged], given: Sequence[Message], rng: random.Random
) -> Output:
    """Apply the log as early as possible, and the rows in another cut and order of partitions."""
    flow, output = Flow(plan_outputs, PARTITIONS), Output()  # type: ignore[arg-type]
    output.take(flow)
    waiting = list(enumerate(log, 1))
    left = {place: [each for each in given if each[:2] == place] for place in {each[:2] for each in given}}
    while left or waiting:
        if waiting and (not left or rng.random() < 0.7):
            number, logged = waiting.pop(0)
            logged.apply(flow, number)
        else:
            place = rng.choice(sorted(left))
            for each in left[place][: rng.randrange(1, 9)]:
                # A statement must be there before rows that see it.
                while waiting and waiting[0][1].rowtime <= each[2]:
                    number, logged = waiting.pop(0)
                    logged.apply(flow, number)
                inserted(flow, *each)
                left[place].remove(each)
            if not left[place]:
                del left[place]
        if rng.random() < 0.5:
            output.take(flow)
    output.take(flow)
    return output


@pytest.mark.parametrize("seed", seeds(40, few=10))
def test_a_replay_that_applies_the_log_early_gives_the_same(session: SqlSession, seed: int) -> None:
    rng = random.Random(seed)
    outputs = table_nodes(session.plan)
    flow, output, log = Flow(outputs, PARTITIONS), Output(), list[Logged]()
    given = messages(rng, 60)
    refused = 0
    for each in given:
        inserted(flow, *each)
        if rng.random() < 0.6:
            output.take(flow)
        if rng.random() < 0.2:
            output.take(flow)
            sent = session.sent(drawn_statement(rng))
            try:
                done = sent.execute(lambda table: rows_of(flow, table))  # noqa: B023 - called at once
            except Exception as error:  # noqa: BLE001 - only of UNIQUE
                assert "UNIQUE" in str(error)
                refused += 1
                continue
            changes = {
                name: (change.row_type, change.deleted, change.inserted)
                for name, change in done.changes.items()
            }
            log.append(Logged(flow.earliest_change(sent.targets), changes))
            log[-1].apply(flow, len(log))
            output.take(flow)
        if rng.random() < 0.1:
            output.take(flow)
            restored = Flow(outputs, PARTITIONS)
            restored.restore(flow.snapshot())
            assert restored.last_statement == flow.last_statement
            flow = restored
    output.take(flow)
    assert log
    assert [each.rowtime for each in log] == sorted(each.rowtime for each in log)
    assert not output.faults
    again = replayed(outputs, log, given, rng)
    assert not again.faults
    # The rows that only a bound lets out are the same in both: all partitions are read to the same end.
    assert again.contents() == output.contents()
    assert output.contents()["VALUED"] == expected(log, output.contents()["VALUED"], given)


def expected(log: Sequence[Logged], out: Counter[Row], given: Sequence[Message]) -> Counter[Row]:
    """Return the rows of VALUED that came out, with the rates that the log has at their rowtimes."""
    found: Counter[Row] = Counter()
    ids = {row[0] for row in out}
    for stream, _, rowtime, _, row in given:
        if stream != "ORDERS" or row[0] not in ids:
            continue
        rates: dict[object, object] = {"EUR": 1, "USD": 2}
        for logged in log:
            if logged.rowtime <= rowtime and "RATES" in logged.changes:
                _, deleted, added = logged.changes["RATES"]
                for each in deleted:
                    del rates[each[0]]
                rates.update(dict(added))  # type: ignore[arg-type]
        found[(*row, rates.get(row[1]))] += 1
    return found


def test_before_the_first_row_a_change_is_there_from_the_beginning(session: SqlSession) -> None:
    flow = Flow(table_nodes(session.plan), PARTITIONS)
    flow.drain()
    assert flow.earliest_change(["RATES"]) == EARLIEST


def test_a_table_whose_changes_come_out_at_times_is_not_changed() -> None:
    session = SqlSession()
    session.feed(
        "CREATE SERVER d FOREIGN DATA WRAPPER RDBMS OPTIONS (url 'sqlite://'); "
        "CREATE TABLE t (k INTEGER PRIMARY KEY, region INTEGER); INSERT INTO t VALUES (1, 1); "
        "CREATE FOREIGN TABLE o (region INTEGER PRIMARY KEY, n BIGINT) SERVER d; CREATE PUMP p AS INSERT INTO o "
        "SELECT region, COUNT(*) FROM t GROUP BY region EMIT CHANGES EVERY INTERVAL '1' MINUTE;"
    )
    flow = Flow(table_nodes(session.plan), {})
    flow.drain()
    with pytest.raises(StatementError, match="depends on the time of a table"):
        flow.earliest_change(["T"])
