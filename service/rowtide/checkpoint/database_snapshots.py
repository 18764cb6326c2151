"""Snapshots in the tables of the checkpoint: an entry each, and the chunks of its parts.

An entry has no manifest while its chunks are being stored. No reader sees it until then. If its process has died, the
next snapshot drops it.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Any

import sqlalchemy as sa
import structlog

from rowtide.checkpoint.ledger import KeptSnapshot, SnapshotEntry
from rowtide.checkpoint.polled_log import collect_logs
from rowtide.checkpoint.snapshot import (
    Checksum,
    DamagedSnapshotError,
    blobs_in,
    chunks_of,
    manifest_of,
    offsets_in,
    snapshot_from,
    why_unreadable,
)
from rowtide.checkpoint.snapshot_part import Chunk, SnapshotEnd, SnapshotPart
from rowtide.checkpoint.statements import CHUNKS_AT_ONCE, binary_chunks, in_groups
from rowtide.checkpoint.tables import Tables, columns_at, now, to_ms

KEPT_SNAPSHOTS = 2
"""The newest, and one more in case the newest is unusable."""

_log = structlog.get_logger("rowtide")


@dataclass(frozen=True, slots=True)
class SnapshotRows:
    """The snapshots of ``pipeline`` as an open transaction on ``connection`` sees them."""

    connection: sa.Connection
    tables: Tables
    pipeline: str

    def write(self, epoch: int, snapshot: KeptSnapshot) -> int:
        """Store a snapshot and drop all but the last few; return its size in bytes."""
        pipelines = self.tables.pipelines
        commits = sa.select(pipelines.c.commits).where(pipelines.c.pipeline == self.pipeline)
        snapshot_id = self._begun(epoch, commits.scalar_subquery())
        manifest = manifest_of(snapshot)
        checksum = Checksum(manifest)
        size = 0
        for some in in_groups(chunks_of(snapshot)):
            self._store(snapshot_id, some)
            for each in some:
                checksum.add(each)
                size += len(each.content)
        self._complete(snapshot_id, SnapshotEnd(manifest, checksum.text(), size))
        return size

    def write_part(self, epoch: int, part: SnapshotPart) -> bool:
        """Store a part of a snapshot; with the last one it is complete, and all but the last few are dropped.

        Return False if the parts before it are gone.
        """
        snapshot_id = (
            self._begun(epoch, part.commits) if part.is_first else self._incomplete(epoch, part.commits)
        )
        if snapshot_id is None:
            return False
        for some in in_groups(iter(part.chunks)):
            self._store(snapshot_id, some)
        if part.end is not None:
            self._complete(snapshot_id, part.end)
        return True

    def _incomplete(self, epoch: int, commits: int) -> int | None:
        """Return the number of the incomplete snapshot of a commit; None: it was dropped."""
        snapshots = self.tables.snapshots
        found: int | None = self.connection.execute(
            sa.select(snapshots.c.snapshot_id).where(
                self._own(),
                self._is_incomplete(),
                snapshots.c.epoch == epoch,
                snapshots.c.commits == commits,
            )
        ).scalar_one_or_none()
        return found

    def _begun(self, epoch: int, commits: Any) -> int:
        """Insert the entry of a snapshot without its manifest; drop others that were never completed."""
        snapshots = self.tables.snapshots
        self._drop(self._is_incomplete())
        inserted = self.connection.execute(
            sa.insert(snapshots).values(
                pipeline=self.pipeline,
                epoch=epoch,
                commits=commits,
                manifest="",
                bytes=0,
                stored_at=now(self.connection.dialect.name),
            )
        )
        (snapshot_id,) = inserted.inserted_primary_key or (0,)
        return int(snapshot_id)

    def _store(self, snapshot_id: int, chunks: Sequence[Chunk]) -> None:
        self.connection.execute(
            sa.insert(self.tables.snapshot_chunks).inline(),
            [
                {
                    "snapshot_id": snapshot_id,
                    "part": each.part,
                    "chunk": each.chunk,
                    "content": each.content,
                }
                for each in chunks
            ],
        )

    def _complete(self, snapshot_id: int, end: SnapshotEnd) -> None:
        snapshots = self.tables.snapshots
        self.connection.execute(
            sa.update(snapshots)
            .where(snapshots.c.snapshot_id == snapshot_id)
            .values(manifest=end.manifest, bytes=end.size_bytes, checksum=end.checksum)
        )
        self._drop_old()

    def newest(self, version: str) -> KeptSnapshot | None:
        """Return the newest undamaged snapshot that this program can read; log those that are passed over.

        ``version`` is that of the checkpoint's tables.
        """
        snapshots = self.tables.snapshots
        passed_over: list[tuple[str, int, int, str]] = []
        found = None
        for row in self.connection.execute(
            sa.select(*columns_at(snapshots, version))
            .where(self._own(), ~self._is_incomplete())
            .order_by(snapshots.c.snapshot_id.desc())
        ).all():
            try:
                reason = why_unreadable(row.manifest)
                if reason is not None:
                    passed_over.append(("snapshot_not_read", row.snapshot_id, row.commits, reason))
                    continue
                with closing(self._chunks(row.snapshot_id)) as chunks:
                    found = replace(snapshot_from(row.manifest, chunks, row.checksum), commits=row.commits)
            except DamagedSnapshotError as error:
                passed_over.append(("snapshot_damaged", row.snapshot_id, row.commits, str(error)))
                continue
            break
        instead = "the log is replayed" if found is None else f"snapshot {row.snapshot_id} is used"
        for event, snapshot_id, commit, reason in passed_over:
            _log.warning(
                event,
                pipeline=self.pipeline,
                snapshot=snapshot_id,
                commit=commit,
                reason=reason,
                instead=instead,
            )
        return found

    def entries(self) -> Sequence[SnapshotEntry]:
        """Return the entries of stored snapshots, the newest first."""
        table = self.tables.snapshots
        listed = [table.c[name] for name in ("snapshot_id", "epoch", "commits", "bytes", "stored_at")]
        rows = self.connection.execute(
            sa.select(*listed).where(self._own(), ~self._is_incomplete()).order_by(table.c.snapshot_id.desc())
        )
        return [
            SnapshotEntry(row.snapshot_id, row.epoch, row.commits, row.bytes, to_ms(row.stored_at))
            for row in rows
        ]

    def named_blobs(self) -> list[str]:
        """Return the names of the blobs that the stored snapshots name.

        Raises:
          DamagedSnapshotError: a manifest cannot be read.
        """
        table = self.tables.snapshots
        rows = self.connection.execute(sa.select(table.c.manifest).where(self._own(), ~self._is_incomplete()))
        return [name for (manifest,) in rows for name in blobs_in(manifest)]

    def drop(self) -> int:
        """Drop all snapshots; return the number of those that were complete."""
        self._drop(self._is_incomplete())
        return self._drop(sa.true())

    def _own(self) -> sa.ColumnElement[bool]:
        return self.tables.snapshots.c.pipeline == self.pipeline

    def _is_incomplete(self) -> sa.ColumnElement[bool]:
        return self.tables.snapshots.c.manifest == ""

    def _drop(self, which: sa.ColumnElement[bool]) -> int:
        snapshots, chunks = self.tables.snapshots, self.tables.snapshot_chunks
        wanted = sa.select(snapshots.c.snapshot_id).where(self._own(), which)
        # A list of numbers: MySQL reads no table that the same statement deletes from.
        found = self.connection.execute(wanted).scalars().all()
        if found:
            for table in (chunks, snapshots):
                self.connection.execute(sa.delete(table).where(table.c.snapshot_id.in_(found)))
        return len(found)

    def _drop_old(self) -> None:
        snapshots = self.tables.snapshots
        complete = (
            sa.select(snapshots.c.snapshot_id, snapshots.c.manifest)
            .where(self._own(), ~self._is_incomplete())
            .order_by(snapshots.c.snapshot_id.desc())
        )
        kept = self.connection.execute(complete.limit(KEPT_SNAPSHOTS)).all()
        self._drop(snapshots.c.snapshot_id < kept[-1].snapshot_id)
        self._collect_logs([each.manifest for each in kept])

    def _collect_logs(self, manifests: Sequence[str]) -> None:
        """Delete the records of polled tables that all kept snapshots cover."""
        if len(manifests) < KEPT_SNAPSHOTS:
            # If the only snapshot is damaged, the start replays everything.
            return
        try:
            kept = [offsets_in(manifest) for manifest in manifests]
        except DamagedSnapshotError as error:
            _log.warning("logs_not_collected", pipeline=self.pipeline, reason=str(error))
            return
        collect_logs(self.connection, self.tables, self.pipeline, kept)

    def _chunks(self, snapshot_id: int) -> Generator[Chunk]:
        chunks = self.tables.snapshot_chunks
        query = (
            sa.select(chunks.c.part, chunks.c.chunk, chunks.c.content)
            .where(chunks.c.snapshot_id == snapshot_id)
            .order_by(chunks.c.part, chunks.c.chunk)
        )
        if self.connection.dialect.name == "postgresql":
            yield from binary_chunks(self.connection, query)
            return
        with self.connection.execute(query, execution_options={"yield_per": CHUNKS_AT_ONCE}) as result:
            for row in result:
                yield Chunk(*row)
