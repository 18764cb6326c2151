"""The log of a polled table, in each kind of database: what is collected, and what is read again."""

from __future__ import annotations

import json
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from rowtide.checkpoint.database import DatabaseLedger
from rowtide.checkpoint.ledger import KeptSnapshot
from rowtide.checkpoint.polled_log import PolledLog, PolledRow, PollState
from rowtide.checkpoint.snapshot import DamagedSnapshotError, manifest_of, offsets_in
from rowtide.errors import SupersededError
from rowtide.operators.contract import RESUBMITTED
from rowtide_connectors.api import Database, OffsetRange
from rowtide_connectors.rdbms import CONNECTOR


@pytest.fixture(
    params=[
        "sqlite",
        pytest.param("postgres", marks=pytest.mark.postgres),
        pytest.param("mariadb", marks=pytest.mark.mariadb),
    ]
)
def database(request: pytest.FixtureRequest, tmp_path: Path) -> Database:
    assert CONNECTOR.sink is not None
    is_file = request.param == "sqlite"
    url = f"sqlite:///{tmp_path / 'out.db'}" if is_file else request.getfixturevalue(f"{request.param}_url")
    return CONNECTOR.sink.open({"url": url})


def row(number: int, name: str = "") -> PolledRow:
    return PolledRow(json.dumps({"ID": number}).encode(), json.dumps({"ID": number, "N": name}).encode())


def test_a_log_has_each_change_once_and_a_delete_of_each_key_that_is_gone(database: Database) -> None:
    ledger = DatabaseLedger(database, "p")
    with closing(database):
        log = PolledLog(database, "p", "USERS")
        assert (log.range(), log.state("a")) == (OffsetRange(0, 0), PollState("a"))
        epoch = ledger.claim("", "test").epoch
        state = log.append(epoch, log.state("a"), 5, [row(1), row(2)])
        assert log.append(epoch, state, 5, [row(1), row(2)]) == state == log.state("a")
        state = log.append(epoch, state, 5, [row(2, "x"), row(3)])
        state = log.delete(epoch, state, 5, [row(1).key_digest, row(9).key_digest])
        assert state.pending == 5
        state = log.complete(epoch, replace(state, bound=20, reached="7"))
        assert state == log.state("a") == PollState("a", 6, 20, None, "7")
        assert log.state("b") == PollState("b", 6, 20)
        assert [(each.offset, each.rowtime, each.content is None, each.bound) for each in log.read(3, 9)] == [
            (3, 5, False, None),
            (4, 5, True, None),
            (5, 20, True, 20),
        ]
        assert sorted(key for some in log.key_digests() for key in some) == sorted(
            row(number).key_digest for number in (2, 3)
        )
        assert PolledLog(database, "p", "OTHERS").range() == OffsetRange(0, 0)
        ledger.claim("", "another")
        with pytest.raises(SupersededError):
            log.append(epoch, state, 30, [row(4)])


def test_only_records_before_both_kept_snapshots_are_collected(database: Database) -> None:
    ledger = DatabaseLedger(database, "p")
    with closing(database):
        log, other = PolledLog(database, "p", "USERS"), PolledLog(database, "p", "OTHERS")
        epoch = ledger.claim("", "test").epoch
        for each in (log, other):
            each.append(epoch, each.state("a"), 5, [row(number) for number in range(10)])

        def snapshot(positions: dict[tuple[str, int], int]) -> None:
            with database.begin() as transaction:
                ledger.write_snapshot(transaction, epoch, KeptSnapshot(positions, {}))

        snapshot({("USERS", 0): 4})
        assert log.range() == OffsetRange(0, 10)
        # Resubmitted rows have offsets of their own.
        snapshot({("USERS", 0): 7, ("USERS", RESUBMITTED + 1): 1, ("OTHERS", 0): 9})
        assert (log.range(), other.range()) == (OffsetRange(4, 10), OffsetRange(0, 10))
        snapshot({("USERS", 0): 10, ("OTHERS", 0): 10})
        assert (log.range(), other.range()) == (OffsetRange(7, 10), OffsetRange(9, 10))
        snapshot({("USERS", 0): 10, ("OTHERS", 0): 10})
        assert (log.range(), other.range()) == (OffsetRange(10, 10), OffsetRange(10, 10))
        ledger.drop()
        assert log.range() == OffsetRange(0, 0)


def test_a_damaged_manifest_collects_nothing() -> None:
    assert offsets_in(manifest_of(KeptSnapshot({("A", 1): 5, ("A", 0): 3}, {}))) == {"A": 3}
    with pytest.raises(DamagedSnapshotError):
        offsets_in('{"positions": 1}')
