"""The files of one topic's archive: each message is in exactly one of them.

A file has the messages of one partition from the offset in its name on, up to where the next file begins. It is
written under a hidden name and gets its own by a hard link, which fails if the name exists. The day of its first
message decides its folder. So its whole path depends on the topic and its first offset only: of several processes one
wins, and the newest file says where the archive ends (docs/decisions/0023-archives-of-messages.md).
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from rowtide.clock import Clock
from rowtide.errors import FaultError, StatementError, SupersededError
from rowtide.rows.types import MAX_TIMESTAMP_MS
from rowtide.runtime.archive.layout import (
    COLUMNS,
    DAY_MS,
    NOTES,
    date_folder,
    day_of,
    file_name,
    is_unfinished,
    place_in,
    topic_folder,
)
from rowtide.runtime.crashpoints import CrashPoints, NoCrash
from rowtide_connectors.api import Messages
from rowtide_connectors.durable import check_links, make_folder, replace_text, sync_folder, writing_to

COMPRESSION = "zstd"
_ROW_BYTES = 40
"""What a message counts beside its key, value and headers."""


@dataclass(frozen=True, slots=True)
class FileLimits:
    """When a file ends, whichever comes first; and how much of each is in memory.

    ``file_bytes``: of its messages, before compression. ``age_s``: since its first message was read.
    ``group_bytes``: of a row group, which is in memory until it is written.
    """

    file_bytes: int = 128 << 20
    age_s: float = 600.0
    group_bytes: int = 8 << 20


@dataclass(frozen=True, slots=True)
class WrittenFile:
    """A file that has its name: the messages of a partition from ``begin`` (inclusive) to ``end`` (exclusive)."""

    topic: str
    partition: int
    begin: int
    end: int
    messages: int
    path: Path


@dataclass(slots=True)
class _OpenFile:
    """A file that is being written; ``size`` is that of its messages, ``pending`` those of its next row group."""

    begin: int
    day: int
    path: Path
    hidden: Path
    opened_at: float
    raw: BinaryIO
    writer: pq.ParquetWriter
    messages: int = 0
    size: int = 0
    pending: list[pa.RecordBatch] = field(default_factory=list)
    pending_size: int = 0

    def add(self, batch: pa.RecordBatch, size: int, group_bytes: int) -> None:
        self.pending.append(batch)
        self.messages += batch.num_rows
        self.size += size
        self.pending_size += size
        if self.pending_size >= group_bytes:
            self.write_group()

    def write_group(self) -> None:
        if self.pending:
            self.writer.write_table(pa.Table.from_batches(self.pending, COLUMNS))
            self.pending, self.pending_size = [], 0

    def finish(self) -> None:
        """Let the whole file be on the disk."""
        self.write_group()
        self.writer.close()
        self.raw.flush()
        os.fsync(self.raw.fileno())
        self.raw.close()

    def drop(self) -> None:
        """Remove what was written, whatever state it is in."""
        with suppress(Exception):
            self.writer.close()
        with suppress(OSError):
            self.raw.close()
        with suppress(OSError):
            self.hidden.unlink(missing_ok=True)


class TopicArchive:
    """The archive of one topic below ``root``. One thread uses it.

    Args:
      root: the folder of the archive.
      topic: the name of the topic.
      limits: when files end.
      clock: measures the age of files.
      written: called with each file that has got its name.
      crash_points: for tests.
    """

    def __init__(
        self,
        root: Path,
        topic: str,
        limits: FileLimits,
        clock: Clock,
        written: Callable[[WrittenFile], None] = lambda _file: None,
        crash_points: CrashPoints | None = None,
    ) -> None:
        self.folder = topic_folder(root, topic)
        self._root = root
        self._topic = topic
        self._limits = limits
        self._clock = clock
        self._written = written
        self._crash_points = crash_points or NoCrash()
        self._token = secrets.token_hex(8)
        self._has_begun = False
        self._open: dict[int, _OpenFile] = {}
        self._next: dict[int, int] = {}
        """Where the next file or message of each partition begins, with the holes before it."""
        self._read: dict[int, int] = {}
        """Where each partition is read on: also after holes that follow its last message."""

    def begin(self) -> None:
        """Find out where the archive ends, and remove what earlier processes left unfinished.

        Raises:
          StatementError: a file is damaged.
          SupersededError: this process has begun before, and another one since.
          MismatchError, DeniedError, UnavailableError: files cannot be written there.
        """
        self.abandon()
        with writing_to(self.folder):
            make_folder(self.folder / NOTES)
            if self._has_begun:
                self._check_owner()
            check_links(self.folder, self._root)
            newest: dict[int, tuple[int, Path]] = {}
            for folder, _, names in os.walk(self.folder):
                for name in names:
                    if is_unfinished(name):
                        (Path(folder) / name).unlink(missing_ok=True)
                    elif place := place_in(name):
                        partition, begin = place
                        held = newest.get(partition, (-1, Path()))
                        newest[partition] = max(held, (begin, Path(folder) / name))
            # For order only: two processes that begin an empty archive may begin at different offsets.
            replace_text(self._owner, self._token, self._token)
            self._has_begun = True
            self._next = {partition: _end_of(path) for partition, (_, path) in newest.items()}
            self._read = dict(self._next)
            for note in (self.folder / NOTES).glob("*.position"):
                partition = int(note.stem)
                end, read = map(int, note.read_text().split())
                self._next[partition] = max(self._next.get(partition, 0), end)
                self._read[partition] = max(self._next[partition], read)

    @property
    def positions(self) -> dict[int, int]:
        """Where to read on in each partition that the archive has begun, after all messages that were added."""
        return {each: max(end, self._read.get(each, 0)) for each, end in self._next.items()}

    @property
    def _owner(self) -> Path:
        return self.folder / NOTES / "owner"

    @property
    def buffered(self) -> int:
        """The bytes of messages that are in memory."""
        return sum(file.pending_size for file in self._open.values())

    def write_groups(self) -> None:
        """Write the messages that are in memory to their files, as row groups; raises as ``add``."""
        with writing_to(self.folder):
            for file in self._open.values():
                file.write_group()

    def identity(self) -> str | None:
        """Return the id of the topic that the archive is of; None: it is not noted."""
        with writing_to(self.folder):
            try:
                return (self.folder / NOTES / "topic").read_text() or None
            except FileNotFoundError:
                return None

    def note_identity(self, identity: str | None) -> None:
        """Note the id of the topic."""
        if identity is not None and identity != self.identity():
            with writing_to(self.folder):
                replace_text(self.folder / NOTES / "topic", identity, self._token)

    def start(self, partition: int, offset: int) -> None:
        """Let a partition continue at an offset: the first one that is read."""
        self._finish(partition)
        self._next[partition] = self._read[partition] = offset

    def add(self, messages: Messages) -> None:
        """Add messages of one partition, which follow ``positions``; files that are full get their names.

        Raises:
          DeniedError, UnavailableError: a file cannot be written, or it is not known whether it was: ``begin`` again.
          SupersededError: another process archives the topic.
          FaultError: the messages do not follow those before.
        """
        partition = messages.partition
        if len(messages.offsets) and messages.offsets[0] < self._next[partition]:
            raise FaultError(
                f'offset {messages.offsets[0]} of topic "{self._topic}" partition {partition} was read twice'
            )
        days = np.clip(messages.timestamps, 0, MAX_TIMESTAMP_MS) // DAY_MS
        sizes = _sizes(messages)
        batch = _batch(messages, self._next[partition])
        start, count = 0, len(sizes)
        with writing_to(self.folder):
            while start < count:
                file = self._open.get(partition) or self._create(partition, int(messages.timestamps[start]))
                stop = _first(days[start:] > file.day, start, count)
                room = self._limits.file_bytes - file.size
                full = _first(np.cumsum(sizes[start:stop]) >= room, start, stop)
                is_full = full < stop
                stop = full + 1 if is_full else stop
                if stop > start:
                    part = batch.slice(start, stop - start)
                    file.add(part, int(sizes[start:stop].sum()), self._limits.group_bytes)
                    self._next[partition] = int(messages.offsets[stop - 1]) + 1
                    self._crash_points.reach("archive.after_rows")
                if is_full or stop < count:
                    self._finish(partition)
                start = stop
        self._read[partition] = messages.next_offset

    def finish_due(self) -> None:
        """Finish the files that are old enough; raises as ``add``."""
        now = self._clock.monotonic()
        for partition, file in list(self._open.items()):
            if now - file.opened_at >= self._limits.age_s:
                self._finish(partition)

    def finish(self) -> None:
        """Finish all files; raises as ``add``."""
        for partition in list(self._open):
            self._finish(partition)

    def abandon(self) -> None:
        """Drop the files that have no names yet: their messages are to be read again, from ``positions``."""
        for file in self._open.values():
            file.drop()
        begins = {partition: file.begin for partition, file in self._open.items()}
        self._next |= begins
        self._read |= begins
        self._open = {}

    def _check_owner(self) -> None:
        if self._owner.read_text() != self._token:
            raise SupersededError(f'another process archives topic "{self._topic}" into "{self._root}"')

    def _create(self, partition: int, timestamp_ms: int) -> _OpenFile:
        begin, day = self._next[partition], day_of(timestamp_ms)
        folder = self.folder / date_folder(day)
        make_folder(folder)
        name = file_name(partition, begin)
        hidden = folder / f".{name}.{self._token}.tmp"
        raw = hidden.open("wb")
        writer = pq.ParquetWriter(raw, COLUMNS, compression=COMPRESSION)
        file = _OpenFile(begin, day, folder / name, hidden, self._clock.monotonic(), raw, writer)
        self._open[partition] = file
        return file

    def _finish(self, partition: int) -> None:
        """Link the open file of a partition to its name, and note where it ends."""
        file = self._open.get(partition)
        if file is None:
            return
        with writing_to(self.folder):
            file.finish()
            self._crash_points.reach("archive.before_link")
            self._check_owner()
            os.link(file.hidden, file.path)
            # From here on the messages are in the archive, whatever fails.
            del self._open[partition]
            self._crash_points.reach("archive.after_link")
            sync_folder(file.path.parent)
            file.hidden.unlink(missing_ok=True)
            end = self._next[partition]
            note = self.folder / NOTES / f"{partition:05}.position"
            replace_text(note, f"{end} {max(end, self._read[partition])}", self._token)
            self._crash_points.reach("archive.after_note")
        self._written(WrittenFile(self._topic, partition, file.begin, end, file.messages, file.path))


def _first(found: np.ndarray[tuple[int], np.dtype[np.bool_]], start: int, none: int) -> int:
    """Return the first place where ``found`` is true, counted from ``start``; ``none`` if there is none."""
    places = np.flatnonzero(found)
    return start + int(places[0]) if len(places) else none


def _sizes(messages: Messages) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    headers = messages.headers or [None] * len(messages.values)
    return np.array(
        [
            _ROW_BYTES
            + len(key or b"")
            + len(value or b"")
            + sum(len(name) + len(text or b"") for name, text in given or ())
            for key, value, given in zip(messages.keys, messages.values, headers, strict=True)
        ],
        dtype=np.int64,
    )


def _batch(messages: Messages, position: int) -> pa.RecordBatch:
    """Return the rows of messages that were read from ``position`` on."""
    offsets = messages.offsets
    ends = np.concatenate([[position], offsets[:-1] + 1])[: len(offsets)]
    headers = messages.headers or [None] * len(offsets)
    return pa.RecordBatch.from_arrays(
        [
            pa.array(np.full(len(offsets), messages.partition, dtype=np.int32)),
            pa.array(offsets, pa.int64()),
            pa.array(offsets - ends, pa.int64()),
            pa.array(messages.timestamps, pa.int64()).cast(COLUMNS.field("timestamp").type),
            pa.array(messages.keys, pa.binary()),
            pa.array(messages.values, pa.binary()),
            pa.array(list(_pairs(headers)), COLUMNS.field("headers").type),
        ],
        schema=COLUMNS,
    )


def _pairs(
    headers: Sequence[Sequence[tuple[str, bytes]] | None],
) -> Iterator[list[dict[str, object]] | None]:
    for given in headers:
        yield [{"key": name, "value": value} for name, value in given] if given else None


def _end_of(path: Path) -> int:
    """Return the offset after the last message of a file.

    Raises:
      StatementError: the file is not one of an archive.
    """
    try:
        metadata = pq.ParquetFile(path).metadata
        at = metadata.schema.to_arrow_schema().get_field_index("offset")
        group = metadata.row_group(metadata.num_row_groups - 1)
        return int(group.column(at).statistics.max) + 1
    except (pa.ArrowException, AttributeError, IndexError) as error:
        raise StatementError(
            f'file "{path}" of the archive is damaged: {error}',
            hint="Move it away, and its note in _rowtide: its messages are archived again from the topic.",
        ) from error
