"""What every ledger does: in memory, on SQLite in memory and in a file, and on real PostgreSQL."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
import sqlalchemy as sa

from rowtide.checkpoint import error_stream
from rowtide.checkpoint.database import DatabaseLedger
from rowtide.checkpoint.error_stream import ErrorFilter
from rowtide.checkpoint.ledger import (
    RESET,
    SKIP,
    Decision,
    ErrorRow,
    KeptAccount,
    KeptSnapshot,
    Ledger,
    PartitionPosition,
    PendingErrors,
    Pulse,
    Record,
    Resubmission,
    resigned,
)
from rowtide.checkpoint.tables import SCHEMA, named, schema_of
from rowtide.clock import SystemClock
from rowtide.errors import FaultError, LostCommitsError, OvertakenError, StatementError, SupersededError
from rowtide.testing.in_memory_database import InMemoryDatabase
from rowtide_connectors.api import Database, TableColumn, TargetTable
from rowtide_connectors.rdbms.transaction import sql_connection
from rowtide_connectors.registry import find_sink
from support.checkpoint import AnyLedger, ledger_of

POSITIONS = (
    PartitionPosition("ORDERS", "orders", 0, 120, 100, 1_700_000_000_000),
    PartitionPosition("ORDERS", "orders", 1, 7, 7, None),
)
LATE = ErrorRow("LATE", "ORDERS", "LATE: behind", "orders", 0, 101, 900, 1_000, b"\x00\xff", '{"a": 1}')
REJECTED = ErrorRow("REJECTED", "V", "CAST: \x00 and \ud800", None, None, None, None, None, None)
OUTPUT = TargetTable("OUTPUT", (TableColumn("N", "INTEGER"),), ())

RELATIONAL = (
    "sqlite-memory",
    "sqlite-file",
    pytest.param("postgres", marks=pytest.mark.postgres),
    pytest.param("mariadb", marks=pytest.mark.mariadb),
)
"""Databases whose tables can be looked at."""


@pytest.fixture(params=["in-memory", *RELATIONAL])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Database]:
    match request.param:
        case "in-memory":
            yield InMemoryDatabase()
            return
        case "postgres" | "mariadb" as kind:
            url = request.getfixturevalue(f"{kind}_url")
        case "sqlite-file":
            url = f"sqlite:///{tmp_path / 'sink.db'}"
        case _:
            url = "sqlite://"
    opened = find_sink("rdbms").open({"url": url})
    yield opened
    opened.close()


@pytest.fixture
def ledger(database: Database) -> AnyLedger:
    return ledger_of(database, "prices")


def test_every_one_keeps_to_the_protocol(ledger: AnyLedger) -> None:
    # Checked by mypy, with the arguments of every method.
    kept: Ledger = ledger
    assert kept.read() is None


def state(*numbers: int) -> dict[str, dict[str, pa.Table]]:
    return {"step 1": {"rows": pa.table({"n": pa.array(numbers, pa.int64())}), "none": pa.table({})}, "2": {}}


def has_schemas(database: Database) -> bool:
    with database.begin() as transaction:
        return schema_of(sql_connection(transaction).dialect.name) is not None


def commit(
    database: Database, ledger: AnyLedger, epoch: int, commits: int, *partition_positions: PartitionPosition
) -> None:
    with database.begin() as transaction:
        ledger.fence(transaction, epoch=epoch, commits=commits)
        ledger.write_positions(transaction, epoch, partition_positions)


def test_nothing_is_there_before_a_claim(ledger: AnyLedger) -> None:
    assert ledger.read() is None
    assert ledger.newest_snapshot() is None
    assert [*ledger.decisions(), *ledger.errors(), *ledger.snapshots()] == []


@pytest.mark.parametrize("database", RELATIONAL, indirect=True)
def test_looking_makes_no_tables(database: Database, ledger: AnyLedger) -> None:
    assert ledger.read() is None
    with database.begin() as transaction:
        dialect = sql_connection(transaction).dialect.name
        assert not sa.inspect(sql_connection(transaction)).has_table(
            named(dialect, "positions"), schema_of(dialect)
        )


def test_every_claim_takes_the_next_epoch_and_says_who_holds_it(ledger: AnyLedger) -> None:
    first = ledger.claim("digest", "host a")
    second = ledger.claim("digest", "host b")
    assert (first.epoch, first.holder, first.commits, first.partition_positions) == (1, "host a", 0, ())
    assert (second.epoch, second.holder) == (2, "host b")
    assert ledger.read() == second


def test_the_digest_stays_that_of_the_positions(database: Database, ledger: AnyLedger) -> None:
    ledger.claim("one", "a")
    record = ledger.claim("two", "a")
    assert record.digest == "two", "nothing was committed under the first"
    commit(database, ledger, record.epoch, 0, *POSITIONS)
    assert ledger.claim("three", "a").digest == "two"


def test_the_text_is_that_of_the_last_start_or_change(database: Database, ledger: AnyLedger) -> None:
    def refuse(_: Record) -> None:
        raise StatementError("not this one")

    assert ledger.text() is None
    ledger.claim("one", "a", text="first \u20ac 'text'\n")
    assert ledger.text() == "first \u20ac 'text'\n"
    with pytest.raises(StatementError, match="not this one"):
        ledger.claim("one", "a", refuse, "refused")
    epoch = ledger.claim("one", "a", text="second").epoch
    assert ledger.text() == "second"
    commit(database, ledger, epoch, 0, *POSITIONS)
    with database.begin() as transaction:
        ledger.fence(transaction, epoch=epoch, commits=1)
        ledger.replace_plan(transaction, "two", [], "third")
    assert ledger.text() == "third"
    ledger.claim("two", "of a pipeline without a file")
    assert ledger.text() is None


def test_a_record_that_is_refused_is_not_taken_over(database: Database, ledger: AnyLedger) -> None:
    seen: list[Record] = []

    def refuse(record: Record) -> None:
        seen.append(record)
        raise StatementError("not this one")

    with pytest.raises(StatementError, match="not this one"):
        ledger.claim("digest", "a", refuse)
    assert ledger.read() is None
    commit(database, ledger, ledger.claim("digest", "a").epoch, 0, *POSITIONS)
    before = ledger.read()
    with pytest.raises(StatementError, match="not this one"):
        ledger.claim("digest", "b", refuse)
    assert ledger.read() == before
    assert [record.partition_positions for record in seen] == [(), POSITIONS]


def test_what_is_committed_is_read_back(database: Database, ledger: AnyLedger) -> None:
    epoch = ledger.claim("digest", "a").epoch
    commit(database, ledger, epoch, 0, *POSITIONS)
    moved = replace(POSITIONS[0], next_offset=150, start_offset=999, bound=1_700_000_060_000)
    commit(database, ledger, epoch, 1, moved)
    record = ledger.read()
    assert record is not None
    assert record.commits == 2
    assert record.committed_at_ms is not None
    assert record.committed_at_ms > 1_700_000_000_000
    assert record.partition_positions == (replace(moved, start_offset=100), POSITIONS[1])
    assert record.positions() == {("ORDERS", 0): 150, ("ORDERS", 1): 7}


def test_pipelines_of_one_database_do_not_meet(database: Database, ledger: AnyLedger) -> None:
    other = ledger_of(database, "other")
    commit(database, ledger, ledger.claim("d", "a").epoch, 0, *POSITIONS)
    assert other.read() is None
    assert other.claim("e", "b").epoch == 1
    assert other.claim("e", "b").partition_positions == ()


def test_pipelines_of_one_database_see_the_plans_of_those_that_have_committed(
    database: Database, ledger: AnyLedger
) -> None:
    other = ledger_of(database, "other")
    assert other.other_plans() == {}
    epoch = ledger.claim("d", "a").epoch
    assert other.other_plans() == {}
    commit(database, ledger, epoch, 0, *POSITIONS)
    assert other.other_plans() == {"prices": "d"}
    assert ledger.other_plans() == {}


def test_a_superseded_process_commits_nothing_and_is_told_by_whom(
    database: Database, ledger: AnyLedger
) -> None:
    database.prepare([OUTPUT])
    zombie = ledger.claim("digest", "the old host").epoch
    commit(database, ledger, zombie, 0, *POSITIONS)
    ledger.claim("digest", "the new host")
    with (
        pytest.raises(SupersededError, match='"prices" was taken by the new host at 2'),
        database.begin() as t,
    ):
        t.append(OUTPUT, {"N": [1]})
        ledger.fence(t, epoch=zombie, commits=1)
    with database.begin() as transaction:
        assert list(transaction.rows(OUTPUT)) == []
    record = ledger.read()
    assert record is not None
    assert record.commits == 1


def test_a_commit_is_counted_once(database: Database, ledger: AnyLedger) -> None:
    epoch = ledger.claim("digest", "a").epoch
    commit(database, ledger, epoch, 0)
    with pytest.raises(FaultError, match="has 1 commits, expected 0"):
        commit(database, ledger, epoch, 0)


@pytest.mark.parametrize(("epochs", "commits"), [(0, 2), (1, 0), (1, 1)])
def test_a_process_ahead_of_the_database_commits_nothing(
    database: Database, ledger: AnyLedger, epochs: int, commits: int
) -> None:
    """A failover to a standby that lags loses commits, and perhaps the claim of the epoch."""
    epoch = ledger.claim("digest", "a").epoch
    commit(database, ledger, epoch, 0)
    before = ledger.read()
    with pytest.raises(LostCommitsError, match="it has commit 1 of epoch 1") as raised:
        commit(database, ledger, epoch + epochs, commits)
    assert "Start the pipeline again" in (raised.value.hint or "")
    if epochs:
        with pytest.raises(LostCommitsError):
            ledger.leadership().beat(epoch + epochs, 1)
    assert ledger.read() == before


def test_a_commit_that_fails_leaves_no_trace(database: Database, ledger: AnyLedger) -> None:
    epoch = ledger.claim("digest", "a").epoch
    with pytest.raises(ZeroDivisionError), database.begin() as transaction:
        ledger.fence(transaction, epoch=epoch, commits=0)
        ledger.write_positions(transaction, epoch, POSITIONS)
        ledger.write_errors(transaction, epoch, [LATE])
        ledger.write_decisions(transaction, epoch, [Decision("IDLE", "ORDERS", 1, 7, 5)])
        ledger.write_snapshot(transaction, epoch, KeptSnapshot({("ORDERS", 0): 120}, state(1)))
        _ = 1 / 0
    record = ledger.read()
    assert record is not None
    assert (record.commits, record.partition_positions) == (0, ())
    assert [*ledger.decisions(), *ledger.errors(), *ledger.snapshots()] == []


def test_a_position_never_goes_back(database: Database, ledger: AnyLedger) -> None:
    epoch = ledger.claim("digest", "a").epoch
    commit(database, ledger, epoch, 0, *POSITIONS)
    commit(database, ledger, epoch, 1, *POSITIONS)
    with pytest.raises(FaultError, match="would move backwards"):
        commit(database, ledger, epoch, 2, replace(POSITIONS[0], next_offset=119))
    record = ledger.read()
    assert record is not None
    assert record.partition_positions == POSITIONS


def test_errors_are_kept_with_everything_and_read_page_by_page(database: Database, ledger: AnyLedger) -> None:
    epoch = ledger.claim("digest", "a").epoch
    with database.begin() as transaction:
        ledger.write_errors(transaction, epoch, [LATE, REJECTED])
        ledger.write_errors(transaction, epoch, [])
    first, second = ledger.errors()
    assert first.row == LATE
    assert first.row.late_by_ms == 100
    assert first.epoch == epoch
    assert first.committed_at_ms > 1_700_000_000_000
    assert second.row == replace(REJECTED, reason="CAST: \N{REPLACEMENT CHARACTER} and ?")
    assert first.error_id < second.error_id
    assert ledger.errors(ErrorFilter(after=first.error_id)) == [second]
    assert ledger.errors(limit=1) == [first]
    assert ledger.errors(ErrorFilter(kind="REJECTED")) == [second]
    assert ledger.errors(ErrorFilter(relation="ORDERS")) == [first]


def test_error_rows_are_resubmitted_once_and_read_in_the_order_of_their_rowtimes(
    database: Database, ledger: AnyLedger
) -> None:
    epoch = ledger.claim("digest", "a").epoch
    later = replace(LATE, rowtime=950, stream="ORDERS", message_time=951)
    sooner = replace(later, rowtime=940)
    decoded = replace(later, relation="ORDERS", row=None)
    with database.begin() as transaction:
        ledger.write_errors(transaction, epoch, [later, sooner, decoded, REJECTED])
    assert list(ledger.resubmissions()) == []
    rows = ledger.errors()
    pending = ledger.pending_errors()
    assert sum(pending.by_relation.values()) == 4
    assert (pending.by_relation["ORDERS"] >= 1, pending.newest) == (True, rows[3].error_id)
    assert ledger.resubmit(rows[:3]) == 2
    assert ledger.pending_errors() == PendingErrors({REJECTED.relation: 1}, rows[3].error_id)
    assert list(ledger.resubmissions()) == [
        Resubmission(1, "ORDERS", "ORDERS", entered=True),
        Resubmission(2, "ORDERS", "ORDERS", entered=False),
    ]
    assert [each.row for each in ledger.resubmitted(1)] == [sooner, later]
    assert [each.row for each in ledger.resubmitted(2)] == [decoded]
    assert [each.error_id for each in ledger.errors(ErrorFilter(pending=True))] == [rows[3].error_id]
    with pytest.raises(OvertakenError, match="resubmitted by another command; nothing has changed"):
        ledger.resubmit(rows[2:])
    assert ledger.errors(ErrorFilter(numbers=(rows[3].error_id,)))[0].resubmitted is None


def test_a_resubmission_has_no_more_bytes_than_are_read_at_once(
    database: Database, ledger: AnyLedger, monkeypatch: pytest.MonkeyPatch
) -> None:
    epoch = ledger.claim("digest", "a").epoch
    small = replace(LATE, stream="ORDERS", raw=b"12345", key=b"", row=None)
    large = replace(small, raw=b"1234567890123")
    with database.begin() as transaction:
        ledger.write_errors(transaction, epoch, [small, small, small, large, small])
    monkeypatch.setattr(error_stream, "RESUBMITTED_BYTES", 2 * small.size)
    assert ledger.resubmit(ledger.errors()) == 4
    read = [[each.row.raw for each in ledger.resubmitted(number)] for number in range(1, 5)]
    assert read == [[small.raw] * 2, [small.raw], [large.raw], [small.raw]]


def test_decisions_are_read_in_the_order_of_their_commit(database: Database, ledger: AnyLedger) -> None:
    epoch = ledger.claim("digest", "a").epoch
    log = [
        Decision("IDLE", "ORDERS", 1, 7, 5_000),
        Decision("JOIN", "A", 0, 0, None),
        Decision("IDLE", "A", 0, 3, 9),
    ]
    with database.begin() as transaction:
        ledger.write_decisions(transaction, epoch, log[:2])
        ledger.write_decisions(transaction, epoch, [])
    with database.begin() as transaction:
        ledger.write_decisions(transaction, epoch, log[2:])
    assert ledger.decisions() == log


@pytest.mark.parametrize("database", RELATIONAL, indirect=True)
def test_tables_of_a_newer_program_are_refused(database: Database, ledger: AnyLedger) -> None:
    ledger.claim("digest", "a")
    with database.begin() as transaction:
        dialect = sql_connection(transaction).dialect.name
        version = sa.table(named(dialect, "version"), sa.column("version_num"), schema=schema_of(dialect))
        sql_connection(transaction).execute(sa.update(version).values(version_num="9999"))
    for refused in (ledger.read, ledger.newest_snapshot, lambda: ledger.claim("digest", "b")):
        with pytest.raises(StatementError, match='"9999", which is newer than this program'):
            refused()


def test_a_dropped_pipeline_is_forgotten_and_its_runner_fails(database: Database, ledger: AnyLedger) -> None:
    other = ledger_of(database, "other")
    assert ledger.drop() is False
    epoch = ledger.claim("digest", "a").epoch
    for number, each in enumerate((ledger, other)):
        each.claim("digest", "a")
        with database.begin() as transaction:
            each.write_errors(transaction, epoch, [LATE])
            each.write_snapshot(transaction, epoch, KeptSnapshot({("ORDERS", 0): number}, state(1)))
    assert ledger.drop() is True
    assert ledger.read() is None
    assert [*ledger.errors(), *ledger.snapshots()] == []
    assert len(other.errors()) == len(other.snapshots()) == 1
    assert other.newest_snapshot() is not None
    with pytest.raises(FaultError, match="no longer exists"):
        commit(database, ledger, epoch, 0)


@pytest.mark.parametrize("database", RELATIONAL, indirect=True)
def test_the_documented_columns_of_positions_and_errors_are_there(
    database: Database, ledger: AnyLedger
) -> None:
    commit(database, ledger, ledger.claim("digest", "a").epoch, 0, *POSITIONS)
    prefix = f"{SCHEMA}." if has_schemas(database) else f"{SCHEMA}_"
    with database.begin() as transaction:
        rows = (
            sql_connection(transaction)
            .execute(
                sa.text(
                    'select pipeline, relation, topic, "partition", next_offset, bound, epoch'
                    f" from {prefix}positions where committed_at > '2020-01-01' order by next_offset desc"
                )
            )
            .all()
        )
    assert [tuple(row) for row in rows] == [
        ("prices", "ORDERS", "orders", 0, 120, 1_700_000_000_000, 1),
        ("prices", "ORDERS", "orders", 1, 7, None, 1),
    ]


def test_two_processes_that_start_at_once_get_two_epochs(database: Database) -> None:
    ledgers = [ledger_of(database, "prices") for _ in range(4)]
    epochs: list[int] = []
    threads = [
        threading.Thread(target=lambda each=each: epochs.append(each.claim("digest", "a").epoch))
        for each in ledgers
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(epochs) == [1, 2, 3, 4]


@pytest.mark.parametrize(
    "database",
    [
        pytest.param("postgres", marks=pytest.mark.postgres),
        pytest.param("mariadb", marks=pytest.mark.mariadb),
    ],
    indirect=True,
)
def test_a_claim_waits_for_the_commit_that_is_under_way_and_sees_it(database: Database) -> None:
    ledger = DatabaseLedger(database, "prices")
    epoch = ledger.claim("digest", "old").epoch
    claimed: list[Record] = []
    with database.begin() as transaction:
        ledger.fence(transaction, epoch=epoch, commits=0)
        claiming = threading.Thread(target=lambda: claimed.append(ledger.claim("digest", "new")))
        claiming.start()
        claiming.join(0.5)
        assert not claimed, "the commit holds the pipeline's row"
        ledger.write_positions(transaction, epoch, POSITIONS)
    claiming.join(30)
    (record,) = claimed
    assert (record.epoch, record.commits, record.partition_positions) == (2, 1, POSITIONS)


def test_a_decision_beside_the_commits_takes_the_epoch_and_counts_as_no_commit(
    database: Database, ledger: AnyLedger
) -> None:
    epoch = ledger.claim("plan", "service").epoch
    commit(database, ledger, epoch, 0, *POSITIONS)
    skipped = Decision(SKIP, "ORDERS", 0, 120, None)
    record = ledger.decide("a person", lambda seen: [skipped] if seen.positions()["ORDERS", 0] == 120 else [])
    assert (record.epoch, record.holder, record.commits, record.digest) == (epoch + 1, "a person", 1, "plan")
    assert ledger.decisions() == [skipped]
    with pytest.raises(SupersededError, match="taken by a person"):
        commit(database, ledger, epoch, 1)
    commit(database, ledger, epoch + 1, 1)

    def refuse(_record: Record) -> list[Decision]:
        raise StatementError("no")

    with pytest.raises(StatementError):
        ledger.decide("another person", refuse)
    assert ledger.read() is not None
    commit(database, ledger, epoch + 1, 2)
    assert ledger.decisions() == [skipped]


def test_a_new_plan_keeps_what_holds_under_it(database: Database, ledger: AnyLedger) -> None:
    epoch = ledger.claim("one", "a").epoch
    other = PartitionPosition("GONE", "gone", 0, 5, 0, None)
    idle, reset = Decision("IDLE", "ORDERS", 1, 7, 5), Decision(RESET, "M", 0, 10, 20)
    commit(database, ledger, epoch, 0, *POSITIONS, other)
    with database.begin() as transaction:
        ledger.write_decisions(transaction, epoch, [idle, reset])
        ledger.write_snapshot(transaction, epoch, KeptSnapshot({("ORDERS", 0): 120}, state(1)))
    with database.begin() as transaction:
        ledger.fence(transaction, epoch=epoch, commits=1)
        ledger.replace_plan(transaction, "two", ["GONE"])
    record = ledger.read()
    assert record is not None
    assert (record.digest, record.changed_at, record.partition_positions) == ("two", 2, POSITIONS)
    assert ledger.decisions() == [idle]
    assert ledger.newest_snapshot() is None


def test_a_decision_at_the_same_point_takes_the_place_of_the_one_before(
    database: Database, ledger: AnyLedger
) -> None:
    epoch = ledger.claim("digest", "a").epoch
    low, high = (Decision("IDLE", "ORDERS", 1, 7, bound) for bound in (5, 9))
    judge = replace(low, reader="V")
    for decisions in ([low, judge], [high]):
        with database.begin() as transaction:
            ledger.write_decisions(transaction, epoch, decisions)
    assert ledger.decisions() == [judge, high]


def test_accounts_stay_until_they_are_written_again(database: Database, ledger: AnyLedger) -> None:
    ledger.claim("digest", "a")
    first, second = (KeptAccount("TABLE", name, 4, 3, 0, 0, 1, 0, 3) for name in ("A", "B"))
    for accounts in ([second, first], [replace(second, rows_in=9)], []):
        with database.begin() as transaction:
            ledger.write_accounts(transaction, accounts)
    assert list(ledger.accounts()) == [first, replace(second, rows_in=9)]


def test_rows_that_a_table_refused_are_found(database: Database, ledger: AnyLedger) -> None:
    epoch = ledger.claim("digest", "a").epoch
    refused = replace(REJECTED, reason="CONSTRAINT: no", rowtime=7, row='{"a": 1}')
    with database.begin() as transaction:
        ledger.write_errors(transaction, epoch, [refused, replace(refused, relation="W"), REJECTED])
        assert list(ledger.refused_within(transaction, "V")) == [(7, '{"a": 1}')]


def test_commits_and_heartbeats_are_signs_of_life(database: Database, ledger: AnyLedger) -> None:
    leadership = ledger.leadership()
    assert leadership.pulse() is None
    epoch = ledger.claim("digest", "a").epoch
    assert leadership.pulse() == Pulse(epoch, 0, 0)
    commit(database, ledger, epoch, 0, *POSITIONS)
    assert leadership.pulse() == Pulse(epoch, 1, 0)
    for beats in (1, 2, 2):
        leadership.beat(epoch, beats)
        assert leadership.pulse() == Pulse(epoch, 1, beats)
    record = ledger.read()
    assert record is not None
    assert (record.epoch, record.commits) == (epoch, 1)


def test_a_heartbeat_of_a_superseded_process_fails(ledger: AnyLedger) -> None:
    epoch = ledger.claim("digest", "a").epoch
    ledger.claim("digest", "host b")
    before = ledger.leadership().pulse()
    with pytest.raises(SupersededError, match="taken by host b"):
        ledger.leadership().beat(epoch, 1)
    assert ledger.leadership().pulse() == before


def test_a_process_that_has_ended_has_resigned_until_the_next_claim(ledger: AnyLedger) -> None:
    epoch = ledger.claim("digest", "a").epoch
    ledger.leadership().beat(epoch, resigned(epoch))
    assert (pulse := ledger.leadership().pulse()) and pulse.has_resigned
    ledger.claim("digest", "b")
    assert (pulse := ledger.leadership().pulse()) and not pulse.has_resigned


def test_decisions_are_read_from_a_number_on(database: Database, ledger: AnyLedger) -> None:
    epoch = ledger.claim("digest", "a").epoch
    first = Decision("IDLE", "ORDERS", 0, 120, 1_000)
    second = Decision("JOIN", "ORDERS", 1, 7, None, "V")
    repeated = replace(first, bound=2_000)
    assert list(ledger.leadership().decisions_after(0)) == []
    with database.begin() as transaction:
        ledger.write_decisions(transaction, epoch, [first, second])
    found = ledger.leadership().decisions_after(0)
    assert [each for _, each in found] == [first, second]
    last = max(number for number, _ in found)
    assert list(ledger.leadership().decisions_after(last)) == []
    with database.begin() as transaction:
        ledger.write_decisions(transaction, epoch, [repeated])
    # It replaces the first one, and is later than all.
    assert [each for _, each in ledger.leadership().decisions_after(last)] == [repeated]
    assert list(ledger.decisions()) == [second, repeated]


@pytest.mark.parametrize("database", RELATIONAL, indirect=True)
def test_the_last_decisions_are_read_back_in_pages(database: Database, ledger: AnyLedger) -> None:
    assert isinstance(ledger, DatabaseLedger)
    assert ledger.last_decisions(10) == ()
    epoch, other = ledger.claim("digest", "a").epoch, ledger_of(database, "others")
    log = [Decision("IDLE", "ORDERS", 0, offset, offset) for offset in range(5)]
    for each in log:
        with database.begin() as transaction:
            other.write_decisions(transaction, epoch, [each])
            ledger.write_decisions(transaction, epoch, [each])
    found = ledger.last_decisions(3)
    assert [each.decision for each in found] == log[:1:-1]
    assert {each.epoch for each in found} == {epoch}
    assert all(abs(each.committed_at_ms - SystemClock().now_ms()) < 600_000 for each in found)
    assert [each.decision for each in ledger.last_decisions(3, found[-1].number)] == log[1::-1]
    assert ledger.last_decisions(3, ledger.last_decisions(5)[-1].number) == []


@pytest.mark.parametrize("database", RELATIONAL, indirect=True)
def test_a_leader_of_an_earlier_version_has_no_heartbeats(database: Database, ledger: AnyLedger) -> None:
    epoch = ledger.claim("digest", "a").epoch
    with database.begin() as transaction:
        connection = sql_connection(transaction)
        where = f"{SCHEMA}." if schema_of(connection.dialect.name) else f"{SCHEMA}_"
        tables = ("listed_files", "statements", "statement_changes", "state_parts")
        later = [f"drop table {where}{name}" for name in tables]
        added = [
            f"alter table {where}pipelines drop column {name}" for name in ("beats", "content", "session")
        ]
        for change in (*added, *later):
            connection.execute(sa.text(change))
        connection.execute(sa.text(f"update {where}version set version_num = '0010'"))
        connection.info.pop("rowtide_checkpoint_version", None)  # A new process has not seen it yet.
    assert ledger.leadership().pulse() == Pulse(epoch, 0, 0)
    assert ledger.claim("digest", "b").epoch == epoch + 1
    ledger.leadership().beat(epoch + 1, 3)
    assert ledger.leadership().pulse() == Pulse(epoch + 1, 0, 3)
