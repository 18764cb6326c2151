"""A snapshot as bytes: a manifest, and one Arrow IPC stream for each table of each step.

The manifest is JSON: the format's version, the positions, and which step and
table each part is. A part is cut into chunks that fit a row of any database.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa

from rowtide.checkpoint.ledger import KeptSnapshot

VERSION = 1
"""Of this format; a snapshot of another one is left alone, and recovery replays instead."""

CHUNK_BYTES = 4 << 20
"""Of a row of snapshot_chunks: PostgreSQL and its driver hold some of these at a time in memory."""


@dataclass(frozen=True, slots=True)
class Chunk:
    """One row of the chunks' table."""

    part: int
    chunk: int
    content: bytes


def manifest_of(snapshot: KeptSnapshot) -> str:
    """Give the manifest of a snapshot."""
    return json.dumps(
        {
            "version": VERSION,
            "positions": [[relation, number, at] for (relation, number), at in snapshot.positions.items()],
            "steps": list(snapshot.state),
            "parts": [[step, name] for step, name, _ in _parts(snapshot)],
        }
    )


def chunks_of(snapshot: KeptSnapshot) -> Iterator[Chunk]:
    """Give the parts of a snapshot, cut; one part is in memory at a time."""
    options = pa.ipc.IpcWriteOptions(compression="lz4")
    for part, (_, _, table) in enumerate(_parts(snapshot)):
        stream = pa.BufferOutputStream()
        with pa.ipc.new_stream(stream, table.schema, options=options) as writer:
            writer.write_table(table)
        content = memoryview(stream.getvalue())
        for chunk, start in enumerate(range(0, len(content), CHUNK_BYTES)):
            yield Chunk(part, chunk, bytes(content[start : start + CHUNK_BYTES]))


def is_readable(manifest: str) -> bool:
    """Tell whether this program reads snapshots of this manifest's version."""
    return bool(json.loads(manifest)["version"] == VERSION)


def snapshot_from(manifest: str, chunks: Iterable[Chunk]) -> KeptSnapshot:
    """Put a snapshot together; ``chunks`` come by part and chunk.

    Raises:
      ValueError: chunks are missing.
    """
    told = json.loads(manifest)
    parts: Sequence[tuple[str, str]] = told["parts"]
    contents: dict[int, list[bytes]] = {}
    for chunk in chunks:
        held = contents.setdefault(chunk.part, [])
        if chunk.chunk != len(held):
            raise ValueError(f"chunk {len(held)} of part {chunk.part} is missing")
        held.append(chunk.content)
    if len(contents) != len(parts):
        raise ValueError(f"{len(contents)} parts of {len(parts)} are there")
    state: dict[str, dict[str, pa.Table]] = {step: {} for step in told["steps"]}
    for part, (step, name) in enumerate(parts):
        whole = contents.pop(part)
        content = whole[0] if len(whole) == 1 else b"".join(whole)
        with pa.ipc.open_stream(content) as reader:
            state[step][name] = reader.read_all()
    positions = {(relation, number): at for relation, number, at in told["positions"]}
    return KeptSnapshot(positions, state)


def _parts(snapshot: KeptSnapshot) -> Iterator[tuple[str, str, pa.Table]]:
    for step, tables in snapshot.state.items():
        for name, table in tables.items():
            yield step, name, table
