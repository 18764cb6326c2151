"""What every log of sent statements does: in memory, on SQLite, and on real PostgreSQL and MariaDB."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rowtide.checkpoint.ledger import Ledger
from rowtide.checkpoint.statement_log import Settled, StatementChange, StatementOutcome
from rowtide.flow.table_changes import changes_of
from rowtide.rows.types import BIGINT, DOUBLE, VARCHAR, Field, Kind, RowType, Type
from rowtide.rowtime.bound import EARLIEST
from rowtide_connectors.api import Database
from support.checkpoint import ledger_of

TYPE = RowType(
    (Field("ID", BIGINT), Field("X", DOUBLE), Field("NAME", VARCHAR), Field("RAW", Type(Kind.VARBINARY)))
)
CHANGE = changes_of(
    TYPE, [(1, 0.1, "a", b"\x00\xff"), (2, None, None, None)], [(1, float("inf"), "ä\N{SNOWMAN}", b"")]
).to_arrow()


def committed(database: Database, ledger: Ledger, *settled: Settled) -> int:
    """Commit outcomes; return the number of the commit."""
    record = ledger.claim("{}", "here")
    with database.begin() as transaction:
        ledger.fence(transaction, epoch=record.epoch, commits=record.commits)
        ledger.statements().settle(transaction, record.commits + 1, settled)
    return record.commits + 1


def test_before_the_first_statement_there_is_nothing(database: Database) -> None:
    log = ledger_of(database, "p").statements()
    assert log.find(1) is None
    assert not [*log.newest(10), *log.queued(), *log.applied(0, 100)]


def test_a_statement_waits_and_is_settled_once(database: Database) -> None:
    ledger = ledger_of(database, "p")
    log, other = ledger.statements(), ledger_of(database, "q").statements()
    first, second, third = (
        log.send("DELETE FROM t\nWHERE 'ä'"),
        log.send("TRUNCATE t"),
        log.send("TRUNCATE u"),
    )
    other.send("TRUNCATE v")
    assert [each.statement_id for each in log.queued()] == [first, second, third]
    waits = log.find(first)
    assert waits is not None
    assert (waits.text, waits.outcome, waits.settled_at_ms) == (
        "DELETE FROM t\nWHERE 'ä'",
        StatementOutcome.QUEUED,
        None,
    )
    logged = StatementChange(1, 5_000, {"T": CHANGE, "U": CHANGE})
    commit = committed(
        database,
        ledger,
        Settled(first, logged, 3, "3 rows deleted"),
        Settled(second, error="error: no\n  TRUNCATE t"),
    )
    assert [each.statement_id for each in log.queued()] == [third]
    applied, refused, waiting = log.newest(10)
    assert [each.statement_id for each in log.newest(2)] == [second, third]
    assert (applied.outcome, applied.rows, applied.did, applied.rowtime, applied.error) == (
        StatementOutcome.APPLIED,
        3,
        "3 rows deleted",
        5_000,
        None,
    )
    assert (refused.outcome, refused.error, refused.rowtime) == (
        StatementOutcome.REFUSED,
        "error: no\n  TRUNCATE t",
        None,
    )
    assert waiting.outcome is StatementOutcome.QUEUED
    (found,) = log.applied(0, commit)
    assert (found.number, found.rowtime) == (1, 5_000)
    assert {name: table.to_pylist() for name, table in found.changes.items()} == {
        "T": CHANGE.to_pylist(),
        "U": CHANGE.to_pylist(),
    }
    assert found.changes["T"].schema == CHANGE.schema
    assert [each.outcome for each in other.newest(10)] == [StatementOutcome.QUEUED]
    assert list(other.applied(0, commit)) == []


def test_changes_are_read_in_order_from_a_number_and_up_to_a_commit(database: Database) -> None:
    ledger = ledger_of(database, "p")
    log = ledger.statements()
    ids = [log.send(f"TRUNCATE t{number}") for number in range(3)]
    nothing = StatementChange(1, EARLIEST, {})
    # They need not be settled in the order in which they were sent.
    one = committed(database, ledger, Settled(ids[2], nothing, 0, ""))
    two = committed(
        database,
        ledger,
        Settled(ids[0], replace(nothing, number=2, rowtime=7, changes={"T": CHANGE}), 1, ""),
        Settled(ids[1], replace(nothing, number=3, rowtime=7), 0, ""),
    )
    assert [(each.number, each.rowtime, list(each.changes)) for each in log.applied(0, two)] == [
        (1, EARLIEST, []),
        (2, 7, ["T"]),
        (3, 7, []),
    ]
    assert [each.number for each in log.applied(1, two)] == [2, 3]
    assert [each.number for each in log.applied(0, one)] == [1]
    from_the_beginning = log.find(ids[2])
    assert from_the_beginning is not None
    assert from_the_beginning.rowtime is None


def test_a_transaction_that_fails_settles_nothing(database: Database) -> None:
    ledger = ledger_of(database, "p")
    sent = ledger.statements().send("TRUNCATE t")

    def fail() -> None:
        with database.begin() as transaction:
            ledger.statements().settle(
                transaction, 1, [Settled(sent, StatementChange(1, 2, {"T": CHANGE}), 1, "")]
            )
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    assert [each.statement_id for each in ledger.statements().queued()] == [sent]
    assert list(ledger.statements().applied(0, 100)) == []


def test_a_dropped_pipeline_has_no_statements(database: Database) -> None:
    ledger, other = ledger_of(database, "p"), ledger_of(database, "q")
    sent = ledger.statements().send("TRUNCATE t")
    committed(database, ledger, Settled(sent, StatementChange(1, 2, {"T": CHANGE}), 1, ""))
    other.statements().send("TRUNCATE t")
    assert ledger.drop()
    assert list(ledger.statements().newest(10)) == []
    assert len(other.statements().newest(10)) == 1
