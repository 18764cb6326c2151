"""State in parts: what is put is got, in any number of parts; what the snapshot names; who reads it in one process."""

from __future__ import annotations

import itertools
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rowtide.checkpoint.ledger import KeptSnapshot
from rowtide.checkpoint.parts.files import FileParts
from rowtide.checkpoint.parts.gathered import GatheredState, available_bytes
from rowtide.checkpoint.parts.kept import (
    SEVERAL,
    WAITING,
    KeptPart,
    PartFacts,
    from_table,
    get,
    part_of,
    put,
    to_table,
    whole,
)
from rowtide.checkpoint.snapshot import (
    PARTS,
    Checksum,
    blobs_in,
    chunks_of,
    manifest_of,
    snapshot_from,
    why_unreadable,
)
from rowtide.errors import ReplacedSnapshotError, StatementError, UnusablePartError
from rowtide.operators.contract import Account, State, Want
from rowtide.operators.registry import split
from rowtide.plan.nodes import KeyedTable, TableSource
from rowtide.rows.rowop import Opcode, TimedRow
from rowtide.rows.tray import Tray
from rowtide.rows.types import BIGINT, VARCHAR, Field, RowType
from rowtide.testing.in_memory_database import InMemoryDatabase

ROWS = RowType((Field("k", VARCHAR), Field("n", BIGINT)))
NODE = KeyedTable("T", TableSource("S", ROWS), (0,))
NUMBERS = itertools.count()


def state_of(keys: list[str], account: Account | None = None) -> State:
    """Return the state of a table that has a row for each key."""
    rows = [TimedRow(at, 0, at, Opcode.INSERT, (key, at)) for at, key in enumerate(keys)]
    held = account or Account(rows_in=len(keys), done=len(keys), rows_out=len(keys))
    return {"account": held.to_arrow(), "rows": Tray.from_rows(ROWS, rows).to_arrow()}


def rows_in(state: State) -> list[str]:
    """Return the rows of a table as texts, without their order."""
    return sorted(map(repr, state["rows"].to_pylist()))


def kept(store: FileParts, state: State, number: int, of: int) -> KeptPart:
    name = f"p/1/1/{next(NUMBERS)}"
    tables = put(store, name, state)
    return KeptPart(number, of, name, store.where, "KeyedTable", 1_000_000, tables, PartFacts(0))


@given(keys=st.sets(st.text(max_size=3), max_size=20), before=st.integers(1, 4), after=st.integers(1, 4))
def test_a_state_is_the_same_in_any_number_of_parts(
    tmp_path_factory: pytest.TempPathFactory, keys: set[str], before: int, after: int
) -> None:
    store = FileParts(str(tmp_path_factory.getbasetemp() / "parts"))
    state = state_of(sorted(keys))
    parts = [kept(store, each, at, before) for at, each in enumerate(split(NODE, state, before))]
    assert rows_in(whole(parts, store)) == rows_in(state)
    assert Account.from_arrow(whole(parts, store)["account"]) == Account.from_arrow(state["account"])
    again = [part_of(NODE, parts, number, after, store) for number in range(after)]
    for found, wanted in zip(again, split(NODE, state, after), strict=True):
        assert rows_in(found) == rows_in(wanted)
    accounts = Account()
    for found in again:
        accounts.add(Account.from_arrow(found["account"]))
    assert accounts == Account.from_arrow(state["account"])


def test_the_part_of_a_task_is_read_alone(tmp_path: Path) -> None:
    store = FileParts(str(tmp_path))
    parts = [kept(store, state_of([key]), at, 3) for at, key in enumerate("abc")]
    store.drop([parts[0].name, parts[2].name])
    assert rows_in(part_of(NODE, parts, 1, 3, store)) == rows_in(state_of(["b"]))
    with pytest.raises(StatementError, match="is missing"):
        part_of(NODE, parts, 1, 2, store)


@pytest.mark.parametrize(
    ("number", "of", "named"),
    [
        (2, 3, "part 2 of 3 of the state of a KeyedTable"),
        (SEVERAL, 3, "a part with keys of several of 3 of the state of a KeyedTable"),
        (4, WAITING, "a part of the rows that wait in a KeyedTable"),
    ],
)
def test_a_part_that_is_missing_is_named(tmp_path: Path, number: int, of: int, named: str) -> None:
    store = FileParts(str(tmp_path))
    part = kept(store, state_of(["a"]), number, of)
    store.drop([part.name])
    with pytest.raises(UnusablePartError) as missing:
        get(store, part)
    assert missing.value.message == f'{named}, "{part.name}" in "{tmp_path}", is missing'


def test_a_blob_is_checked_table_by_table(tmp_path: Path) -> None:
    store = FileParts(str(tmp_path))
    part = kept(store, {"account": Account().to_arrow(), "none": pa.table({})}, 0, 1)
    assert get(store, part)["none"].num_rows == 0
    (file,) = [each for each in tmp_path.rglob("*") if each.is_file()]
    content = file.read_bytes()
    for at in range(len(content)):
        file.write_bytes(content[:at] + bytes([content[at] ^ 0x40]) + content[at + 1 :])
        with pytest.raises(StatementError, match="damaged"):
            get(store, part)


def test_parts_are_rows_of_a_snapshot_that_older_programs_pass_over(tmp_path: Path) -> None:
    store = FileParts(str(tmp_path))
    parts = [kept(store, state_of([key]), at, 2) for at, key in enumerate("ab")]
    facts = PartFacts(7, 3, (Want(0, 5), Want(1, None)))
    parts[1] = KeptPart(1, 2, parts[1].name, store.where, "KeyedTable", 5, parts[1].tables, facts)
    assert from_table(to_table(parts)) == parts
    state = {"1 T KeyedTable": {"account": Account().to_arrow(), PARTS: to_table(parts)}, "2 X": {}}
    snapshot = KeptSnapshot({("A", 0): 1}, state)
    manifest = manifest_of(snapshot)
    assert '"version": 4' in manifest
    assert blobs_in(manifest) == [each.name for each in parts]
    assert why_unreadable(manifest) is None
    without = manifest_of(KeptSnapshot({("A", 0): 1}, {"1 T KeyedTable": state_of(["a"])}))
    assert '"version": 3' in without
    assert blobs_in(without) == []
    checksum = Checksum(manifest)
    for each in chunks_of(snapshot):
        checksum.add(each)
    read = snapshot_from(manifest, chunks_of(snapshot), checksum.text())
    assert from_table(read.state["1 T KeyedTable"][PARTS]) == parts


def test_one_process_gets_the_state_of_a_step_as_one_operator_has_it(tmp_path: Path) -> None:
    store = FileParts(str(tmp_path))
    parts = [kept(store, state_of([key]), at, 2) for at, key in enumerate("ab")]
    held = {
        "in parts": {"account": Account(rows_in=2).to_arrow(), PARTS: to_table(parts)},
        "here": state_of(["c"]),
    }
    found = GatheredState(held, InMemoryDatabase(), lambda: True, lambda: None)
    assert rows_in(found["in parts"]) == sorted([*rows_in(state_of(["a"])), *rows_in(state_of(["b"]))])
    assert found["here"] is held["here"]
    assert list(found) == list(held)
    assert found.needed().most == 4_000_000
    assert GatheredState(held, InMemoryDatabase(), lambda: True, lambda: 4_000_000)["in parts"]
    small = GatheredState(held, InMemoryDatabase(), lambda: True, lambda: 3_999_999)
    store.drop([each.name for each in parts])
    # Whether a step is there is known without reading it, and what is here can be read.
    assert "in parts" in small
    assert small["here"] is held["here"]
    with pytest.raises(StatementError) as refused:
        _ = small["in parts"]
    assert '2.0 MB, of which "in parts" is 2.0 MB' in refused.value.message
    assert "4.0 MB are free" in refused.value.message


def test_what_newer_snapshots_have_replaced_is_not_damaged(tmp_path: Path) -> None:
    store = FileParts(str(tmp_path))
    parts = [kept(store, state_of([key]), at, 2) for at, key in enumerate("ab")]
    held = {"in parts": {"account": Account().to_arrow(), PARTS: to_table(parts)}}
    store.drop([parts[1].name])
    with pytest.raises(UnusablePartError, match="is missing") as missing:
        _ = GatheredState(held, InMemoryDatabase(), lambda: True)["in parts"]
    assert "state drop" in str(missing.value.hint)
    with pytest.raises(ReplacedSnapshotError) as replaced:
        _ = GatheredState(held, InMemoryDatabase(), lambda: False)["in parts"]
    assert "the newest one is read" in str(replaced.value.hint)


def test_free_memory_is_known() -> None:
    found = available_bytes()
    assert found is None or found > 1_000_000


@pytest.mark.parametrize(
    ("where", "message"),
    [
        ("parts", "is not an absolute path"),
        (
            "s3://key:secret@bucket/folder",
            r"^the address \"s3://\*\*\*@bucket/folder\" .* has a user or a password",
        ),
    ],
)
def test_places_that_a_snapshot_must_not_name(where: str, message: str) -> None:
    with pytest.raises(StatementError, match=message):
        FileParts(where)


def test_an_address_that_nothing_knows_is_refused() -> None:
    with pytest.raises(StatementError, match="cannot be used"):
        FileParts("what://bucket/folder").names("x")
