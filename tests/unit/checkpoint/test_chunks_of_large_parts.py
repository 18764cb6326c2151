"""A part of a snapshot is cut into chunks while it is written: never is all of it in memory."""

from __future__ import annotations

import itertools

import pyarrow as pa
import pytest

from rowtide.checkpoint.ledger import KeptSnapshot
from rowtide.checkpoint.snapshot import Checksum, chunks_of, manifest_of, snapshot_from

ROWS, BATCH_ROWS = 200_000, 1_000


def table(rows: int) -> pa.Table:
    whole = pa.table(
        {"n": pa.array(range(rows), pa.int64()), "s": [f"row {each * 7919}" for each in range(rows)]}
    )
    return pa.Table.from_batches(whole.to_batches(max_chunksize=BATCH_ROWS), whole.schema)


@pytest.fixture(autouse=True)
def _small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rowtide.checkpoint.snapshot.CHUNK_BYTES", 10_000)


@pytest.mark.parametrize("rows", [0, 1, BATCH_ROWS, 20 * BATCH_ROWS + 1])
def test_chunks_of_many_batches_are_one_stream(rows: int) -> None:
    kept = KeptSnapshot({("A", 0): 1}, {"1 A Merge": {"queue 0": table(rows), "queue 1": table(3)}})
    chunks = list(chunks_of(kept))
    for _, held in itertools.groupby(chunks, key=lambda each: each.part):
        *whole, last = [len(each.content) for each in held]
        assert set(whole) <= {10_000}
        assert 0 < last <= 10_000
    manifest = manifest_of(kept)
    checksum = Checksum(manifest)
    for each in chunks:
        checksum.add(each)
    read = snapshot_from(manifest, chunks, checksum.text())
    assert read.state["1 A Merge"]["queue 0"].equals(kept.state["1 A Merge"]["queue 0"])


def test_only_one_batch_of_a_part_is_in_memory() -> None:
    kept = KeptSnapshot({}, {"1 A Merge": {"queue 0": table(ROWS)}})
    before = pa.total_allocated_bytes()
    most = size = 0
    for chunk in chunks_of(kept):
        most = max(most, pa.total_allocated_bytes() - before)
        size += len(chunk.content)
    assert size > 1_000_000
    assert most < 100_000
