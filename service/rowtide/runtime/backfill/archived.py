"""Messages of an archive in place of those that the broker no longer has: one log, spliced by offsets.

A backfill reads each partition from its archive as far as that has every offset, and from there on from the broker. So
what both have is taken once, and it does not matter what the broker deletes meanwhile. A message that is
in neither is an error, before anything is processed (docs/decisions/0023-archives-of-messages.md).
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import groupby
from typing import TYPE_CHECKING, Protocol

import numpy as np
import structlog

from rowtide.errors import StatementError
from rowtide.plan.plan import ForeignStream
from rowtide.runners.archived import ArchivedPart, Stamps, Wanted
from rowtide.runtime.backfill.begin import BackfillOrder, BackfillStart, adopt, first_positions
from rowtide.runtime.backfill.messages import FrameReader
from rowtide.runtime.state.context import PipelineContext
from rowtide_connectors.api import Fetched, MatchingSource, OffsetRange, PartitionReader, TopicSource
from rowtide_connectors.several import SeveralTopics, place_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_log = structlog.get_logger("rowtide")

_STAMPS_KEPT = 128
"""The parts of which the timestamps are kept: searches for times come back to them."""


class Archive(Protocol):
    """An archive of messages, as the runner reads it."""

    path: str

    def parts(self, topics: Collection[str]) -> Iterable[ArchivedPart]:
        """Return the parts of all partitions of these topics, each of at most some 100,000 messages.

        Raises:
          StatementError: the archive cannot be read, or lacks a column.
        """

    def stamps(self, wanted: Wanted) -> Stamps:
        """Return offsets and times of messages."""

    def fetch(self, topic: str, partition: int, offsets: Sequence[int]) -> Mapping[int, Fetched]:
        """Return the messages at these offsets; a missing one is left out."""

    def messages(self, wanted: Mapping[int, Wanted]) -> DataFrame:
        """Return messages as a frame, in any order; the keys are the numbers that partitions have in it."""


class ArchivedLog:
    """What an archive has of one partition.

    Args:
      archive: the archive.
      parts: of this partition, at least one.
    """

    def __init__(self, archive: Archive, parts: Iterable[ArchivedPart]) -> None:
        self._archive = archive
        self._parts = sorted(parts, key=lambda part: (part.begin, part.end))
        self._latest = np.maximum.accumulate([part.latest_ms for part in self._parts])
        self._stamps = lru_cache(_STAMPS_KEPT)(self._read_stamps)

    @property
    def begin(self) -> int:
        """The first offset of the archive."""
        return self._parts[0].begin

    @property
    def end(self) -> int:
        """The offset after the last message."""
        return max(part.end for part in self._parts)

    def first_missing(self, offset: int) -> tuple[int, int | None]:
        """Return the first offset from ``offset`` on that the archive does not have, and the next that it has again.

        Raises:
          StatementError: a message is there more than once.
        """
        at = max(bisect_right(self._parts, offset, key=lambda part: part.begin) - 1, 0)
        reached = offset
        for number in range(at, len(self._parts)):
            part = self._parts[number]
            if part.end <= reached and number == at:
                continue
            begins, ends = [part.begin], [part.end]
            if not part.is_whole:
                stamps = self._stamps(number)
                begins, ends = stamps.begins.tolist(), (stamps.offsets + 1).tolist()
            for begin, end in zip(begins, ends, strict=True):
                if end <= offset:
                    continue
                if begin > reached:
                    return reached, begin
                if reached > offset and begin < reached:
                    raise self._repeated(part, begin)
                reached = end
        return reached, None

    def _repeated(self, part: ArchivedPart, offset: int) -> StatementError:
        return StatementError(
            f'the archive "{self._archive.path}" has messages of topic "{part.topic}" partition {part.partition} '
            f"more than once, from offset {offset} on",
            hint="Name a folder that has each message once: leave copies of files out.",
        )

    def offset_at(self, timestamp_ms: int) -> int | None:
        """Return the first offset with a timestamp or a later one; None: there is none in the archive."""
        number = int(np.searchsorted(self._latest, timestamp_ms))
        if number == len(self._parts):
            return None
        stamps = self._stamps(number)
        return int(stamps.offsets[np.flatnonzero(stamps.timestamps >= timestamp_ms)[0]])

    def _read_stamps(self, number: int) -> Stamps:
        part = self._parts[number]
        return self._archive.stamps(Wanted(part.topic, part.partition, part.begin, part.end))


class SplicedSource:
    """A topic, or several, whose oldest messages are in an archive; see ``api.TopicSource``.

    Its readers read from the broker.

    Args:
      source: the topic.
      archive: the archive.
      logs: what it has, by topic and partition.
    """

    def __init__(
        self, source: TopicSource, archive: Archive, logs: Mapping[tuple[str, int], ArchivedLog]
    ) -> None:
        self._source = source
        self._archive = archive
        self._logs = logs
        self._splices: dict[int, int] = {}

    @property
    def topic(self) -> str:
        """The name of the topic, or the names."""
        return self._source.topic

    def log(self, partition: int) -> ArchivedLog | None:
        """Return what the archive has of a partition."""
        return self._logs.get(place_of(self.topic, partition))

    def splice(self, partition: int) -> int:
        """Return the offset up to which a partition is read from the archive; see ``join``."""
        return self._splices.get(partition, 0)

    def join(self, begins: Mapping[int, int], *, is_first: bool) -> None:
        """Find out up to where each partition is read from the archive, if it is read from ``begins`` on.

        ``is_first``: nothing is committed, so these are what archive and broker have.

        Raises:
          StatementError: a message is neither in the archive nor at the broker; or the archive is of another topic.
        """
        archived = {topic for topic, _ in self._logs}
        for partition, held in sorted(self._source.ranges().items()):
            if partition not in begins:
                continue
            log, begin = self.log(partition), begins[partition]
            topic, number = place_of(self.topic, partition)
            if log is None:
                if is_first and topic in archived and 0 < held.earliest >= begin:
                    raise self._missing(topic, number, 0, held.earliest)
                continue
            if log.end > held.end:
                raise StatementError(
                    f'the archive "{self._archive.path}" has messages of topic "{topic}" partition {number} up to '
                    f"offset {log.end - 1}, but the topic ends at {held.end}",
                    hint="It is the archive of another topic of the same name, such as one that was deleted.",
                )
            missing, again = log.first_missing(begin)
            if missing < held.earliest:
                raise self._missing(topic, number, missing, min(again or held.earliest, held.earliest))
            self._splices[partition] = missing

    def _missing(self, topic: str, partition: int, first: int, end: int) -> StatementError:
        return StatementError(
            f'offsets {first} to {end - 1} of topic "{topic}" partition {partition} are neither in the archive '
            f'"{self._archive.path}" nor at the broker',
            hint="Restore the files of the archive that have them, or begin after them with --from TIME.",
        )

    def ranges(self) -> Mapping[int, OffsetRange]:
        """Return the range of each partition, from the first archived message on."""
        found = {}
        for partition, held in self._source.ranges().items():
            log = self.log(partition)
            found[partition] = held if log is None else replace(held, earliest=min(held.earliest, log.begin))
        return found

    def offsets_at(self, timestamp_ms: int) -> Mapping[int, int]:
        """Return, per partition, the first offset stamped ``timestamp_ms`` or later, else its end."""
        found = dict(self._source.offsets_at(timestamp_ms))
        for partition, offset in found.items():
            log = self.log(partition)
            archived = None if log is None else log.offset_at(timestamp_ms)
            found[partition] = offset if archived is None else min(archived, offset)
        return found

    def fetch(self, partition: int, offsets: Sequence[int]) -> Mapping[int, Fetched]:
        """Return messages, from the archive if they are there."""
        archived = [offset for offset in offsets if offset < self.splice(partition)]
        found = dict(self._archive.fetch(*place_of(self.topic, partition), archived)) if archived else {}
        left = [offset for offset in offsets if offset not in found]
        return {**found, **(self._source.fetch(partition, left) if left else {})}

    def reader(self, positions: Mapping[int, int]) -> PartitionReader:
        """Open a reader at the broker."""
        return self._source.reader(positions)

    def has_append_times(self) -> bool:
        """Return whether the broker stamps."""
        return self._source.has_append_times()

    def identity(self) -> str | None:
        """Return the id of the topic."""
        return self._source.identity()

    def ask_identity(self, timeout_s: float) -> Callable[[], str | None]:
        """Begin to query the id of the topic."""
        return self._source.ask_identity(timeout_s)

    def is_compacted(self) -> bool:
        """Return whether the topic is compacted."""
        return self._source.is_compacted()

    def close(self) -> None:
        """Release the connections of the topic."""
        self._source.close()


@dataclass(frozen=True, slots=True)
class Spliced:
    """What a backfill works with: a context whose sources are spliced, and the frames of their messages."""

    context: PipelineContext
    frames: FrameReader


def splice(
    context: PipelineContext,
    frames: FrameReader,
    archive: Archive,
    order: BackfillOrder,
    found: BackfillStart,
) -> Spliced:
    """Splice an archive and the topics of a pipeline. ``found`` is what is committed.

    Raises:
      StatementError: a message that the backfill needs is neither in the archive nor at the broker, or the archive
        cannot be read, or is not of these topics.
      UnavailableError, GoneError.
    """
    adopt(context, found)
    for relation, source in context.sources.items():
        if isinstance(source, MatchingSource):
            raise StatementError(
                f'foreign stream "{relation}" reads topics by a pattern: a backfill cannot read them from an archive',
                hint="Name the topics: topic 'a, b'.",
            )
    logs = _logs(archive, context.sources.values())
    sources = {name: SplicedSource(source, archive, logs) for name, source in context.sources.items()}
    given = found.partition_positions or first_positions(sources, order.begin)
    begins: dict[str, dict[int, int]] = {}
    for each in given:
        begins.setdefault(each.relation, {})[each.partition] = each.next_offset
    for name, source in sources.items():
        source.join(begins.get(name, {}), is_first=not found.partition_positions)
        _log.info(
            "archive", relation=name, read_up_to={each: source.splice(each) for each in begins.get(name, {})}
        )
    return Spliced(replace(context, sources=sources), _SplicedFrames(archive, frames, sources))


def _logs(archive: Archive, sources: Iterable[TopicSource]) -> dict[tuple[str, int], ArchivedLog]:
    topics = {
        each.topic
        for source in sources
        for each in (source.topics() if isinstance(source, SeveralTopics) else [source])
    }
    parts = sorted(archive.parts(topics))
    if not parts:
        raise StatementError(
            f'the archive "{archive.path}" has no message of topics {", ".join(sorted(topics))}',
            hint="Name the folder that has the folders topic=NAME.",
        )
    return {
        place: ArchivedLog(archive, list(own))
        for place, own in groupby(parts, key=lambda part: (part.topic, part.partition))
    }


@dataclass(frozen=True, slots=True)
class _SplicedFrames:
    """Reads each partition from the archive up to its splice, then from the broker; see ``FrameReader``."""

    archive: Archive
    frames: FrameReader
    sources: Mapping[str, SplicedSource]

    def __call__(
        self, stream: ForeignStream, topics: str, begin: Mapping[int, int], end: Mapping[int, int]
    ) -> DataFrame:
        source = self.sources[stream.name]
        wanted: dict[int, Wanted] = {}
        later = dict(begin)
        for partition, first in begin.items():
            until = min(source.splice(partition), end[partition])
            if first < until:
                wanted[partition] = Wanted(*place_of(topics, partition), first, until)
                later[partition] = until
        if not wanted:
            return self.frames(stream, topics, begin, end)
        archived = self.archive.messages(wanted)
        if all(later[partition] >= offset for partition, offset in end.items()):
            return archived
        return archived.unionAll(self.frames(stream, topics, later, end))
