"""What every ledger does with snapshots: in memory, on SQLite, and on real PostgreSQL and MariaDB."""

from __future__ import annotations

import random
from contextlib import nullcontext

import pyarrow as pa
import pytest
import sqlalchemy as sa

from rowtide.checkpoint.database_snapshots import KEPT_SNAPSHOTS
from rowtide.checkpoint.ledger import KeptSnapshot, Ledger
from rowtide.checkpoint.parts.gathered import is_in_parts, kept_of
from rowtide.checkpoint.snapshot import PARTS, SnapshotInParts
from rowtide.checkpoint.tables import named, schema_of
from rowtide.operators.contract import Account
from rowtide.testing.in_memory_database import InMemoryDatabase
from rowtide_connectors.api import Database
from rowtide_connectors.rdbms.transaction import sql_connection
from support.checkpoint import ledger_of


@pytest.fixture
def ledger(database: Database) -> Ledger:
    return ledger_of(database, "prices")


def state(*numbers: int) -> dict[str, dict[str, pa.Table]]:
    return {"step 1": {"rows": pa.table({"n": pa.array(numbers, pa.int64())}), "none": pa.table({})}, "2": {}}


def snapshot_of(number: int, rows: int = 1) -> KeptSnapshot:
    return KeptSnapshot({("ORDERS", 0): number}, state(*range(number, number + rows)))


def newest_in(ledger: Ledger) -> int | None:
    """Return the number of the newest snapshot, whose rows are checked."""
    found = ledger.newest_snapshot()
    if found is None:
        return None
    (number,) = found.positions.values()
    rows = found.state["step 1"]["rows"]["n"].to_pylist()
    assert rows == list(range(number, number + len(rows)))
    return number


def stored_chunks(database: Database) -> set[int]:
    """Return the snapshots that have chunks."""
    with database.begin() as transaction:
        connection = sql_connection(transaction)
        dialect = connection.dialect.name
        chunks = sa.table(
            named(dialect, "snapshot_chunks"), sa.column("snapshot_id"), schema=schema_of(dialect)
        )
        return set(connection.execute(sa.select(chunks.c.snapshot_id)).scalars())


def test_the_newest_snapshot_comes_back_and_few_are_kept(
    database: Database, ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rowtide.checkpoint.snapshot.CHUNK_BYTES", 1000)
    epoch = ledger.claim("digest", "a").epoch
    for number in range(5):
        with database.begin() as transaction:
            ledger.fence(transaction, epoch=epoch, commits=number)
            kept = KeptSnapshot({("ORDERS", 0): number, ("ORDERS", 1): 7}, state(*range(number * 10_000)))
            ledger.write_snapshot(transaction, epoch, kept)
    found = ledger.newest_snapshot()
    assert found is not None
    assert found.positions == kept.positions
    assert found.state.keys() == kept.state.keys()
    assert found.state["2"] == {}
    assert found.state["step 1"]["rows"].equals(kept.state["step 1"]["rows"])
    assert found.state["step 1"]["none"].num_columns == 0
    entries = ledger.snapshots()
    assert [entry.commits for entry in entries] == [5, 4][:KEPT_SNAPSHOTS]
    assert all(entry.bytes > 0 for entry in entries)


def test_a_snapshot_of_another_format_is_passed_over(
    database: Database, ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    epoch = ledger.claim("digest", "a").epoch
    with database.begin() as transaction:
        ledger.write_snapshot(transaction, epoch, KeptSnapshot({("ORDERS", 0): 1}, state(1)))
    with monkeypatch.context() as newer, database.begin() as transaction:
        newer.setattr("rowtide.checkpoint.snapshot.VERSION", 99)
        ledger.write_snapshot(transaction, epoch, KeptSnapshot({("ORDERS", 0): 2}, state(2)))
    found = ledger.newest_snapshot()
    assert found is not None
    assert found.positions == {("ORDERS", 0): 1}


@pytest.mark.parametrize("version", [1, 2])
def test_a_snapshot_with_pickled_models_is_passed_over(
    database: Database, ledger: Ledger, monkeypatch: pytest.MonkeyPatch, version: int
) -> None:
    epoch = ledger.claim("digest", "a").epoch
    with monkeypatch.context() as older, database.begin() as transaction:
        older.setattr("rowtide.checkpoint.snapshot.VERSION", version)
        ledger.write_snapshot(transaction, epoch, KeptSnapshot({("ORDERS", 0): 1}, state(1)))
        models = {"1 MODEL": {"parts": pa.table({"state": pa.array([b"any"], pa.large_binary())})}}
        ledger.write_snapshot(transaction, epoch, KeptSnapshot({("ORDERS", 0): 2}, models))
    found = ledger.newest_snapshot()
    assert found is not None
    assert found.positions == {("ORDERS", 0): 1}


@pytest.mark.parametrize("seed", range(3))
def test_snapshots_in_parts_are_there_when_they_are_complete(
    database: Database, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    monkeypatch.setattr("rowtide.checkpoint.snapshot.CHUNK_BYTES", 500)
    rng = random.Random(seed)
    ledger, other = ledger_of(database, "prices"), ledger_of(database, "other")
    epoch, commits = ledger.claim("digest", "a").epoch, 0
    epoch_of_other = other.claim("digest", "a").epoch
    # Another pipeline has one that is incomplete, and stays as it is.
    parts_of_other = SnapshotInParts(snapshot_of(7, 500), 1, 600)
    with database.begin() as transaction:
        other.write_snapshot_part(transaction, epoch_of_other, parts_of_other.part())
    complete: list[tuple[int, int]] = []
    parts: SnapshotInParts | None = None
    number = 0
    for _ in range(60):
        action = rng.choice(("whole", "first", "next", "next", "next", "next", "fails", "dies"))
        if action == "dies":
            epoch, parts = ledger.claim("digest", "b").epoch, None
            continue
        if action == "first":
            number += 1
            rows = rng.choice((1, 100, 500))
            parts = SnapshotInParts(snapshot_of(number, rows), commits + 1, rng.choice((1, 600, 2_000)))
        if action in ("next", "fails") and parts is None:
            continue
        with (
            pytest.raises(ZeroDivisionError) if action == "fails" else nullcontext(),
            database.begin() as (transaction),
        ):
            ledger.fence(transaction, epoch=epoch, commits=commits)
            if action == "whole":
                number += 1
                parts = None
                ledger.write_snapshot(transaction, epoch, snapshot_of(number))
            else:
                assert parts is not None
                assert ledger.write_snapshot_part(transaction, epoch, parts.part())
            if action == "fails":
                _ = 1 / 0
        if action == "fails":
            continue
        commits += 1
        if action == "whole":
            complete.append((number, commits))
        elif parts is not None:
            of, end = parts.part().commits, parts.stored()
            if end is not None:
                complete.append((number, of))
                parts = None
        kept = complete[-KEPT_SNAPSHOTS:][::-1]
        assert newest_in(ledger) == (kept[0][0] if kept else None)
        entries = ledger.snapshots()
        assert [each.commits for each in entries] == [of for _, of in kept]
        if not isinstance(database, InMemoryDatabase):
            # One more of this pipeline, and the other's.
            unknown = stored_chunks(database) - {each.snapshot_id for each in entries}
            assert len(unknown) == 1 + (parts is not None)
    assert len(complete) > 3
    assert other.newest_snapshot() is None
    while parts_of_other.stored() is None:
        with database.begin() as transaction:
            other.write_snapshot_part(transaction, epoch_of_other, parts_of_other.part())
    assert newest_in(other) == 7


def test_the_rest_of_a_snapshot_that_was_dropped_is_not_stored(
    database: Database, ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rowtide.checkpoint.snapshot.CHUNK_BYTES", 500)
    epoch = ledger.claim("digest", "a").epoch
    dropped, parts = (SnapshotInParts(snapshot_of(1, 500), commit, 1) for commit in (1, 2))
    for some in (dropped, parts):
        # The second one takes the place of the first one.
        with database.begin() as transaction:
            assert ledger.write_snapshot_part(transaction, epoch, some.part())
        assert some.stored() is None
    with database.begin() as transaction:
        assert not ledger.write_snapshot_part(transaction, epoch, dropped.part())
    end = None
    while end is None:
        with database.begin() as transaction:
            assert ledger.write_snapshot_part(transaction, epoch, parts.part())
        end = parts.stored()
    assert newest_in(ledger) == 1


def test_the_blobs_are_known_that_stored_snapshots_name(database: Database, ledger: Ledger) -> None:
    epoch = ledger.claim("digest", "a").epoch
    assert ledger.named_blobs() == []
    for number in range(4):
        parts = pa.table({"name": [f"folder/1/{number}/{blob}" for blob in "ab"]})
        held = {"1 A": {"account": Account().to_arrow(), PARTS: parts}} if number else {}
        with database.begin() as transaction:
            ledger.fence(transaction, epoch=epoch, commits=number)
            kept = KeptSnapshot({("ORDERS", 0): number}, held | state(number))
            ledger.write_snapshot(transaction, epoch, kept)
    assert sorted(ledger.named_blobs()) == [f"folder/1/{number}/{blob}" for number in (2, 3) for blob in "ab"]
    found = ledger.newest_snapshot()
    assert found is not None
    assert is_in_parts(found.state)
    assert found.commits == 4
    assert kept_of(found.state)["1 A"][PARTS].column("name").to_pylist() == ["folder/1/3/a", "folder/1/3/b"]
    assert found.state["step 1"]["rows"]["n"].to_pylist() == [3]


def test_a_pipeline_has_a_folder_in_stores_that_no_other_has(database: Database, ledger: Ledger) -> None:
    others = [ledger_of(database, name) for name in ("other", "prices/2")]
    for each in (ledger, *others):
        each.claim("digest", "a")
        assert each.known_parts_folder() is None
    folders = [each.parts_folder() for each in (ledger, *others)]
    assert len(set(folders)) == 3
    assert all(folder.isalnum() for folder in folders)
    assert [each.parts_folder() for each in (ledger, *others)] == folders
    assert [each.known_parts_folder() for each in (ledger, *others)] == folders
    # A pipeline that is dropped and begins again has another one.
    assert ledger_of(database, "prices").drop()
    assert ledger.known_parts_folder() is None
    ledger.claim("digest", "a")
    assert ledger.parts_folder() not in folders
