"""A snapshot as bytes: a manifest, and one Arrow IPC stream for each table of each step.

It is stored whole with one commit, or in parts, with that commit and those that follow.

The manifest is JSON: the format's version, the positions, and the step and
table of each part. A part is cut into chunks that fit a row of any database.

A checksum over manifest and chunks is stored beside them, since Arrow reads most
damaged bytes as other values. Version 1 of the format had none. Versions 1 and 2
stored the states of models as pickles, in a part called ``parts``: such a snapshot
is never loaded, since reading a pickle runs whatever code it names. Version 4 is
that of a snapshot of which some state is in blobs elsewhere.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from hashlib import blake2b
from hmac import compare_digest
from typing import Any

import pyarrow as pa

from rowtide.checkpoint.ledger import KeptSnapshot, is_resubmission
from rowtide.checkpoint.snapshot_part import Chunk, SnapshotEnd, SnapshotPart

VERSION = 3
"""The version of this format; recovery ignores a snapshot of a later one and replays instead."""
_NAMES_BLOBS = 4
"""The version of a snapshot that names blobs of state. One that names none can be read by older programs, too."""
_WITHOUT_CHECKSUM = 1
_WITH_PICKLES = 2
_PICKLED = "parts"
PARTS = "kept in parts"
"""The table of a step whose state is in blobs of a store; its column ``name`` has their names: see ``parts.kept``."""

CHUNK_BYTES = 1 << 20
"""Size of a row of snapshot_chunks. PostgreSQL and its driver hold some of them in memory."""


class DamagedSnapshotError(Exception):
    """The stored bytes are not those that were written. The message describes the damage."""


class SnapshotInParts:
    """A snapshot that is stored with several commits.

    Args:
      snapshot: what is stored. It stays in memory until then.
      commits: the number of the commit that stores its first part.
      part_bytes: the size of a part at most. A part has at least one chunk.
    """

    def __init__(self, snapshot: KeptSnapshot, commits: int, part_bytes: int) -> None:
        self._commits = commits
        self._part_bytes = part_bytes
        self._manifest = manifest_of(snapshot)
        self._checksum = Checksum(self._manifest)
        self._chunks = chunks_of(snapshot)
        self._ahead = next(self._chunks, None)
        self._size = 0
        self._is_first = True
        self._part: SnapshotPart | None = None

    def part(self) -> SnapshotPart:
        """Return the part for the next commit: the same one until ``stored``, so that a commit can be repeated."""
        if self._part is None:
            self._part = self._taken()
            self._is_first = False
        return self._part

    def stored(self) -> SnapshotEnd | None:
        """Note that the part is in the database; return the end if it was the last one.

        Raises:
          ValueError: no part was taken since the last call.
        """
        if self._part is None:
            raise ValueError("no part of the snapshot was taken")
        end, self._part = self._part.end, None
        return end

    def _taken(self) -> SnapshotPart:
        chunks: list[Chunk] = []
        size = 0
        while self._ahead is not None and (not chunks or size + len(self._ahead.content) <= self._part_bytes):
            chunks.append(self._ahead)
            self._checksum.add(self._ahead)
            size += len(self._ahead.content)
            self._ahead = next(self._chunks, None)
        self._size += size
        end = None
        if self._ahead is None:
            end = SnapshotEnd(self._manifest, self._checksum.text(), self._size)
        return SnapshotPart(self._commits, self._is_first, chunks, end)


class Checksum:
    """The checksum of a snapshot, updated with each chunk in order: BLAKE2b with 32 bytes."""

    def __init__(self, manifest: str) -> None:
        self._hash = blake2b(digest_size=32)
        self._add(manifest.encode())

    def add(self, chunk: Chunk) -> None:
        """Add a chunk, with its place."""
        self._add(b"%d %d" % (chunk.part, chunk.chunk))
        self._add(chunk.content)

    def text(self) -> str:
        """Return its stored form: the algorithm, and the digest in hexadecimal digits."""
        return f"blake2b:{self._hash.hexdigest()}"

    def _add(self, content: bytes) -> None:
        # The length comes first, so that another split of the same bytes has another checksum.
        self._hash.update(b"%d:" % len(content))
        self._hash.update(content)


def manifest_of(snapshot: KeptSnapshot) -> str:
    """Return the manifest of a snapshot."""
    manifest: dict[str, object] = {
        "version": VERSION,
        "positions": [[relation, number, at] for (relation, number), at in snapshot.positions.items()],
        "steps": list(snapshot.state),
        "parts": [[step, name] for step, name, _ in _parts(snapshot)],
    }
    if blobs := [each for _, name, table in _parts(snapshot) if name == PARTS for each in _names(table)]:
        manifest |= {"version": _NAMES_BLOBS, "blobs": blobs}
    return json.dumps(manifest)


def _names(parts: pa.Table) -> list[str]:
    names: list[str] = parts.column("name").to_pylist()
    return names


def blobs_in(manifest: str) -> list[str]:
    """Return the names of the blobs that a snapshot with this manifest names.

    Raises:
      DamagedSnapshotError: it is not a manifest.
    """
    try:
        names: list[str] = json.loads(manifest).get("blobs", [])
    except (ValueError, AttributeError) as error:
        raise DamagedSnapshotError(f"its manifest cannot be read: {error}") from error
    return names


def offsets_in(manifest: str) -> dict[str, int]:
    """Return the least offset of each relation in a manifest, resubmitted rows left out.

    Raises:
      DamagedSnapshotError: it is not a manifest.
    """
    found: dict[str, int] = {}
    try:
        for relation, number, at in json.loads(manifest)["positions"]:
            if not is_resubmission((relation, number)):
                found[relation] = min(at, found.get(relation, at))
    except (ValueError, KeyError, TypeError) as error:
        raise DamagedSnapshotError(f"its manifest cannot be read: {error}") from error
    return found


def chunks_of(snapshot: KeptSnapshot) -> Iterator[Chunk]:
    """Yield the parts of a snapshot, cut; one batch of a part is in memory at a time.

    The state of a backfill may lie in files that are mapped, and be larger than the memory.
    """
    for part, (_, _, table) in enumerate(_parts(snapshot)):
        for chunk, content in enumerate(cut(streamed(table))):
            yield Chunk(part, chunk, content)


def streamed(table: pa.Table) -> Iterator[bytes]:
    """Yield the Arrow IPC stream of a table, batch by batch."""
    options = pa.ipc.IpcWriteOptions(compression="lz4")
    sink = _Sink()
    with pa.ipc.new_stream(sink, table.schema, options=options) as writer:
        # Of a large batch a chunk's worth is compressed at a time.
        rows = max(1, table.num_rows * CHUNK_BYTES // max(table.nbytes, CHUNK_BYTES))
        for batch in table.to_batches(max_chunksize=rows):
            writer.write_batch(batch)
            yield sink.take()
    yield sink.take()


class _Sink:
    """A file that keeps what is written until it is taken."""

    closed = False

    def __init__(self) -> None:
        self._held: list[bytes] = []
        self._written = 0

    def write(self, content: bytes) -> int:
        self._held.append(bytes(content))
        self._written += len(content)
        return len(content)

    def tell(self) -> int:
        return self._written

    def flush(self) -> None:
        """Do nothing: what is written is there."""

    def take(self) -> bytes:
        """Return what was written since the last time."""
        held, self._held = self._held, []
        return b"".join(held)


def cut(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the same bytes in pieces of ``CHUNK_BYTES``; the last one may be smaller."""
    held = bytearray()
    for piece in pieces:
        held += piece
        whole = len(held) - len(held) % CHUNK_BYTES
        for start in range(0, whole, CHUNK_BYTES):
            yield bytes(held[start : start + CHUNK_BYTES])
        del held[:whole]
    if held:
        yield bytes(held)


def why_unreadable(manifest: str) -> str | None:
    """Return why this program does not read a snapshot with this manifest; None: it does.

    Raises:
      DamagedSnapshotError: it is not a manifest.
    """
    try:
        parsed = json.loads(manifest)
        version, names = parsed["version"], {name for _, name in parsed["parts"]}
        if not _WITHOUT_CHECKSUM <= version <= _NAMES_BLOBS:
            return f"its format is {version}, and this program reads 1 to {_NAMES_BLOBS}"
    except (ValueError, KeyError, TypeError) as error:
        raise DamagedSnapshotError(f"its manifest cannot be read: {error}") from error
    if version <= _WITH_PICKLES and _PICKLED in names:
        return "it holds models as an earlier version stored them, in a form that can run code"
    return None


def snapshot_from(manifest: str, chunks: Iterable[Chunk], checksum: str | None) -> KeptSnapshot:
    """Build a snapshot from ``chunks``, which are in order of part and chunk.

    Raises:
      DamagedSnapshotError: chunks are missing or damaged.
    """
    counted = Checksum(manifest)
    contents: dict[int, list[bytes]] = {}
    for chunk in chunks:
        held = contents.setdefault(chunk.part, [])
        if chunk.chunk != len(held):
            raise DamagedSnapshotError(f"chunk {len(held)} of part {chunk.part} is missing")
        held.append(chunk.content)
        counted.add(chunk)
    try:
        parsed = json.loads(manifest)
        if checksum is None and parsed["version"] != _WITHOUT_CHECKSUM:
            raise DamagedSnapshotError("its checksum is missing")
        if checksum is not None and not compare_digest(checksum.encode(), counted.text().encode()):
            raise DamagedSnapshotError("its checksum differs")
        return _read(parsed, contents)
    except (pa.ArrowException, OSError, ValueError, KeyError, TypeError) as error:
        # Only of a snapshot without a checksum.
        raise DamagedSnapshotError(f"it cannot be read: {error}") from error


def _read(parsed: Any, contents: dict[int, list[bytes]]) -> KeptSnapshot:
    parts: Sequence[tuple[str, str]] = parsed["parts"]
    if len(contents) != len(parts):
        raise DamagedSnapshotError(f"{len(contents)} parts of {len(parts)} are there")
    state: dict[str, dict[str, pa.Table]] = {step: {} for step in parsed["steps"]}
    for part, (step, name) in enumerate(parts):
        whole = contents.pop(part)
        content = whole[0] if len(whole) == 1 else b"".join(whole)
        with pa.ipc.open_stream(content) as reader:
            state[step][name] = reader.read_all()
    positions = {(relation, number): at for relation, number, at in parsed["positions"]}
    return KeptSnapshot(positions, state)


def _parts(snapshot: KeptSnapshot) -> Iterator[tuple[str, str, pa.Table]]:
    for step, tables in snapshot.state.items():
        for name, table in tables.items():
            yield step, name, table
