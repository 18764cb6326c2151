"""A snapshot whose bytes have changed is never read as other contents; one of an earlier version is read."""

from __future__ import annotations

import itertools
import sqlite3
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from structlog.testing import capture_logs

from rowtide.checkpoint.ledger import KeptSnapshot
from rowtide.checkpoint.migrate import HEAD
from rowtide.checkpoint.snapshot import (
    Checksum,
    DamagedSnapshotError,
    chunks_of,
    manifest_of,
    snapshot_from,
    why_unreadable,
)
from rowtide.checkpoint.snapshot_part import Chunk
from rowtide.runtime.pace import Pace
from rowtide.sql.pipeline import plan_pipeline
from rowtide_connectors.memory import memory_broker
from support.pipeline import work_off

EARLIER = Path(__file__).parent / "written" / "version_0006.sql"
"""A checkpoint of the first 100 messages of ``World``, as versions up to 0006 wrote it."""

SQL = """
CREATE SERVER k FOREIGN DATA WRAPPER MEMORY OPTIONS (broker '{broker}');
CREATE SERVER d FOREIGN DATA WRAPPER RDBMS OPTIONS (url 'sqlite:///{file}');
CREATE FOREIGN STREAM readings (sensor VARCHAR(8), amount BIGINT) SERVER k
  OPTIONS (topic 'readings', format 'JSON');
CREATE FOREIGN TABLE minutes (period TIMESTAMP, sensor VARCHAR(8), n BIGINT, total BIGINT,
  PRIMARY KEY (period, sensor)) SERVER d;
CREATE PUMP p STARTED AS INSERT INTO minutes
  SELECT STREAM FLOOR(ROWTIME TO MINUTE) AS period, sensor, COUNT(*) AS n, SUM(amount) AS total
  FROM readings GROUP BY FLOOR(ROWTIME TO MINUTE), sensor;
"""


class World:
    """A pipeline over the broker in memory into an SQLite file."""

    def __init__(self, folder: Path, name: str) -> None:
        self.file = folder / f"{name}.db"
        self._broker = memory_broker(str(self.file))
        self._broker.ensure_topic("readings", 1)
        self._number = itertools.count()

    def send(self, messages: int) -> None:
        for number in itertools.islice(self._number, messages):
            value = b'{"sensor":"s%d","amount":%d}' % (number % 3, number)
            self._broker.produce("readings", [value], timestamps=[60_000 + number * 1_700])

    def run(self) -> list[dict[str, object]]:
        """Run over all messages, and return what was logged."""
        plan = plan_pipeline(SQL.format(broker=self.file, file=self.file))
        with capture_logs() as logged:
            work_off(plan, "p", Pace(0, 40, 40, None))
        return [dict(each) for each in logged]

    def query(self, text: str, *values: object) -> list[tuple[object, ...]]:
        connection = sqlite3.connect(self.file)
        try:
            with connection:
                return connection.execute(text, values).fetchall()
        finally:
            connection.close()

    def rows(self) -> list[tuple[object, ...]]:
        return self.query("select * from minutes order by period, sensor")


def straight(folder: Path, messages: int) -> list[tuple[object, ...]]:
    world = World(folder, "straight")
    world.send(messages)
    world.run()
    return world.rows()


STATE = {
    "1 A Sort/0": {"rows": pa.table({"n": pa.array(range(50), pa.int64()), "s": ["abc"] * 50})},
    "2 B": {"groups": pa.table({"x": pa.array([0.5, None], pa.float64())}), "none": pa.table({})},
    "3 C": {},
}
STORED = KeptSnapshot({("A", 0): 17, ("A", 1): 2**40}, STATE)
MANIFEST, CHUNKS = manifest_of(STORED), list(chunks_of(STORED))
SIZES = [len(MANIFEST), *(len(each.content) for each in CHUNKS)]


def checksum_of(manifest: str, chunks: Sequence[Chunk]) -> str:
    counted = Checksum(manifest)
    for each in chunks:
        counted.add(each)
    return counted.text()


def flipped(content: bytes, bit: int) -> bytes:
    changed = bytearray(content)
    changed[bit // 8] ^= 1 << bit % 8
    return bytes(changed)


def refused(manifest: str, chunks: Sequence[Chunk], checksum: str | None) -> bool:
    try:
        if why_unreadable(manifest) is not None:
            return True
        snapshot_from(manifest, chunks, checksum)
    except DamagedSnapshotError:
        return True
    return False


def test_what_was_written_is_read() -> None:
    found = snapshot_from(MANIFEST, CHUNKS, checksum_of(MANIFEST, CHUNKS))
    assert found.positions == STORED.positions
    assert {step: dict(tables) for step, tables in found.state.items()} == STATE


@given(st.integers(0, 8 * sum(SIZES) - 1))
def test_a_flipped_bit_is_never_read_as_other_contents(bit: int) -> None:
    checksum, manifest, chunks = checksum_of(MANIFEST, CHUNKS), MANIFEST, list(CHUNKS)
    if bit < 8 * SIZES[0]:
        manifest = flipped(MANIFEST.encode(), bit).decode("latin-1")
    else:
        bit -= 8 * SIZES[0]
        for index, each in enumerate(CHUNKS):
            if bit < 8 * len(each.content):
                chunks[index] = replace(each, content=flipped(each.content, bit))
                break
            bit -= 8 * len(each.content)
    assert refused(manifest, chunks, checksum)


@given(st.data())
def test_a_damaged_checksum_and_chunks_that_are_elsewhere_are_never_read(data: st.DataObject) -> None:
    checksum = checksum_of(MANIFEST, CHUNKS)
    bit = data.draw(st.integers(0, 8 * len(checksum) - 1))
    assert refused(MANIFEST, CHUNKS, flipped(checksum.encode(), bit).decode("latin-1"))
    chunks = data.draw(st.permutations([each.content for each in CHUNKS]))
    moved = [replace(each, content=content) for each, content in zip(CHUNKS, chunks, strict=True)]
    assert moved == CHUNKS or refused(MANIFEST, moved, checksum)
    assert refused(MANIFEST, CHUNKS[: data.draw(st.integers(0, len(CHUNKS) - 1))], checksum)
    assert refused(MANIFEST, CHUNKS, None)


def flip_in_chunk(world: World, snapshot: object) -> None:
    ((part, content),) = world.query(
        "select part, content from rowtide_snapshot_chunks where snapshot_id = ?"
        " order by length(content) desc limit 1",
        snapshot,
    )
    assert isinstance(content, bytes)
    world.query(
        "update rowtide_snapshot_chunks set content = ? where snapshot_id = ? and part = ?",
        flipped(content, 8 * (len(content) // 2)),
        snapshot,
        part,
    )


def drop_a_chunk(world: World, snapshot: object) -> None:
    world.query("delete from rowtide_snapshot_chunks where snapshot_id = ? and part = 3", snapshot)


def cut_the_manifest(world: World, snapshot: object) -> None:
    world.query(
        "update rowtide_snapshots set manifest = substr(manifest, 1, 40) where snapshot_id = ?", snapshot
    )


def move_a_position(world: World, snapshot: object) -> None:
    world.query(
        "update rowtide_snapshots set manifest = replace(manifest, '0, ', '0, 1') where snapshot_id = ?",
        snapshot,
    )


@pytest.mark.parametrize("damaged", [1, 2], ids=["the newest", "both"])
@pytest.mark.parametrize("damage", [flip_in_chunk, drop_a_chunk, cut_the_manifest, move_a_position])
def test_a_start_over_damaged_snapshots_gives_the_same_rows(
    tmp_path: Path, damage: Callable[[World, object], None], damaged: int
) -> None:
    world = World(tmp_path, "damaged")
    world.send(110)
    world.run()
    stored = [each for (each,) in world.query("select snapshot_id from rowtide_snapshots order by 1 desc")]
    assert len(stored) == 2
    for snapshot in stored[:damaged]:
        damage(world, snapshot)
    world.send(60)
    logged = world.run()
    answer = [each for each in logged if each["event"] == "snapshot_damaged"]
    assert [each["snapshot"] for each in answer] == stored[:damaged]
    instead = f"snapshot {stored[1]} is used" if damaged == 1 else "the log is replayed"
    assert {each["instead"] for each in answer} == {instead}
    (recovered,) = [each for each in logged if each["event"] == "recovered"]
    assert recovered["snapshot"] is (damaged == 1)
    assert world.rows() == straight(tmp_path, 170)


def test_a_checkpoint_of_an_earlier_version_is_read_and_upgraded(tmp_path: Path) -> None:
    world = World(tmp_path, "earlier")
    connection = sqlite3.connect(world.file)
    connection.executescript(EARLIER.read_text())
    connection.close()
    world.send(170)
    (recovered,) = [each for each in world.run() if each["event"] == "recovered"]
    assert (recovered["snapshot"], recovered["replayed_messages"]) == (True, 0)
    assert world.rows() == straight(tmp_path, 170)
    assert world.query("select version_num from rowtide_version") == [(HEAD,)]
    without = world.query("select checksum is null from rowtide_snapshots order by snapshot_id")
    assert without == [(1,), (0,)]


def test_a_damaged_snapshot_of_an_earlier_version_that_cannot_be_read_is_passed_over(tmp_path: Path) -> None:
    world = World(tmp_path, "earlier")
    connection = sqlite3.connect(world.file)
    connection.executescript(EARLIER.read_text())
    connection.close()
    world.query("update rowtide_snapshot_chunks set content = substr(content, 1, 100) where part = 9")
    world.send(170)
    assert [each["instead"] for each in world.run() if each["event"] == "snapshot_damaged"] == [
        "the log is replayed"
    ]
    assert world.rows() == straight(tmp_path, 170)
