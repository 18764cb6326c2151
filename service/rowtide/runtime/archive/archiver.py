"""Archives topics: reads every message, whatever it says, and writes it to the files of its topic's archive.

An archive is a copy of a log, not of rows. Nothing is decoded and no message has a ROWTIME, so none is late or
rejected, and no partition waits for another one. The files say where the archive ends; a start continues there.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import structlog

from rowtide.clock import Clock
from rowtide.errors import StatementError
from rowtide.plan.plan import ForeignStream, Plan
from rowtide.plan.pseudo import WITH_PSEUDO_COLUMNS
from rowtide.runtime.archive.files import FileLimits, TopicArchive, WrittenFile
from rowtide.runtime.crashpoints import CrashPoints, NoCrash
from rowtide.runtime.ingest.intake import POLL_MESSAGES, another_topic, check_identity
from rowtide.runtime.retry import Patience, Retry, StoppedError
from rowtide.runtime.topics import reads_topic
from rowtide_connectors.api import Messages, OffsetRange, PartitionReader, TopicSource
from rowtide_connectors.errors import GoneError
from rowtide_connectors.several import SeveralTopics

LOOK_UP_S = 10.0
"""How often new topics and partitions are looked for."""
WAIT_S = 0.2
"""How long messages are waited for before signals and the age of files are looked at."""
BUFFERED_BYTES = 256 << 20
"""The messages of all partitions that are in memory until their row groups are written, at most."""

_log = structlog.get_logger("rowtide")


@dataclass(frozen=True, slots=True)
class ArchiveOrder:
    """What is ordered: the folder, when files end, and what to do with offsets that the broker no longer has.

    ``skip_lost``: continue after them. Else the archive ends with an error. ``until_end``: stop where the topics end
    now.
    """

    root: Path
    limits: FileLimits = field(default_factory=FileLimits)
    skip_lost: bool = False
    until_end: bool = False


@dataclass(frozen=True, slots=True)
class ArchiveMeans:
    """What archiving needs of its process. ``wait`` False: a dependency that is down ends it."""

    clock: Clock
    stopping: Callable[[], bool]
    wait: bool = True
    rng: random.Random = field(default_factory=random.Random)
    crash_points: CrashPoints = field(default_factory=NoCrash)


@dataclass(slots=True)
class ArchiveReport:
    """The result: messages and files that were written, and by topic and partition where the archive ends."""

    messages: int = 0
    files: int = 0
    positions: dict[str, dict[int, int]] = field(default_factory=dict)


def streams_to_archive(plan: Plan, topics: Sequence[str]) -> list[ForeignStream]:
    """Return the foreign streams whose topics are archived: those that are named, or all that read a broker.

    Raises:
      StatementError: no foreign stream reads a broker, or a name is unknown.
    """
    servers = {server.name: server for server in plan.servers}
    every = [each for each in plan.foreign_streams if servers[each.server].wrapper in WITH_PSEUDO_COLUMNS]
    found = [
        each
        for each in every
        if not topics or any(name.upper() == each.name or reads_topic(each, name) for name in topics)
    ]
    for name in topics:
        if not any(name.upper() == each.name or reads_topic(each, name) for each in every):
            shown = ", ".join(each.name for each in every) or "none"
            raise StatementError(
                f'no foreign stream of the pipeline is or reads "{name}"',
                hint=f"Those of brokers are: {shown}.",
            )
    if not found:
        raise StatementError(
            "no foreign stream of the pipeline reads a broker",
            hint="Topics are archived, not files or tables.",
        )
    return found


class _Line:
    """One topic: its source, its archive, and the reader between them."""

    def __init__(
        self, source: TopicSource, archive: TopicArchive, order: ArchiveOrder, means: ArchiveMeans
    ) -> None:
        self.source = source
        self.archive = archive
        self._order = order
        self._means = means
        self._reader: PartitionReader | None = None
        self._ends: dict[int, int] = {}
        self._has_failed = False

    def begin(self) -> None:
        """Find out where the archive ends, and open a reader there.

        Raises:
          StatementError: the topic is another one, or no longer has what follows.
          UnavailableError, GoneError, MismatchError.
        """
        self.archive.begin()
        check_identity(self.source, self.archive.identity())
        ranges = self.source.ranges()
        self._ends = self._ends or {partition: held.end for partition, held in ranges.items()}
        self.archive.note_identity(self.source.identity())
        self._follow(ranges)
        self._has_failed = False

    def look_up(self) -> None:
        """Look for new partitions, and for another topic of the same name. Raises as ``begin``."""
        check_identity(self.source, self.archive.identity())
        ranges = self.source.ranges()
        if ranges.keys() - self.archive.positions.keys():
            self._follow(ranges)

    def _follow(self, ranges: Mapping[int, OffsetRange]) -> None:
        positions = self.archive.positions
        if wrong := another_topic(self.source.topic, positions, ranges):
            raise wrong
        for partition, held in ranges.items():
            position = positions.get(partition)
            if position is not None and position < held.earliest:
                self._lost(partition, position, held.earliest)
            if position is None or position < held.earliest:
                with self._reading_again():
                    self.archive.start(partition, held.earliest)
        self._open()

    def _lost(self, partition: int, first: int, earliest: int) -> None:
        what = f'topic "{self.source.topic}" partition {partition} no longer has offsets {first} to {earliest - 1}'
        if not self._order.skip_lost:
            raise StatementError(
                f"{what}, which are not in the archive",
                hint="Add --skip-lost to archive what is left. A backfill from the archive then begins after "
                "these offsets.",
            )
        _log.warning("archive_gap", reason=what)

    def _open(self) -> None:
        self.close()
        self._reader = self.source.reader(self.archive.positions)

    def poll(self, timeout_s: float) -> Sequence[Messages]:
        """Return what has arrived. After an error the next call begins at the end of what was added.

        Raises:
          UnavailableError, GoneError, and as ``begin``.
        """
        try:
            if self._has_failed:
                self.begin()
            if self._reader is None:
                self._open()
            assert self._reader is not None
            return self._reader.poll(POLL_MESSAGES, timeout_s)
        except GoneError:
            before = self.archive.positions
            self._follow(self.source.ranges())
            if self.archive.positions == before:
                raise
            return ()
        except BaseException:
            self.close()
            raise

    def add(self, polled: Sequence[Messages]) -> int:
        """Archive messages; return their number. Raises as ``TopicArchive.add``."""
        with self._reading_again():
            for messages in polled:
                self.archive.add(messages)
        return sum(len(messages.offsets) for messages in polled)

    def tidy(self, *, spills: bool) -> None:
        """Finish the files that are old enough; ``spills``: keep no messages in memory. Raises as ``add``."""
        with self._reading_again():
            self.archive.finish_due()
            if spills:
                self.archive.write_groups()

    def finish(self) -> None:
        """Finish all files. Raises as ``add``."""
        with self._reading_again():
            self.archive.finish()

    @contextmanager
    def _reading_again(self) -> Iterator[None]:
        """After a failure, let what has no file yet be read again: the files say what has one."""
        try:
            yield
        except BaseException:
            self.archive.abandon()
            self.close()
            self._has_failed = True
            raise

    @property
    def is_at_end(self) -> bool:
        """Whether the ends are reached that the topic had at the start."""
        positions = self.archive.positions
        return all(positions.get(partition, 0) >= end for partition, end in self._ends.items())

    def close(self) -> None:
        """Close the reader."""
        reader, self._reader = self._reader, None
        if reader is not None:
            reader.close()


class Archiver:
    """Archives the topics of some sources until it is stopped, or up to their ends.

    Args:
      sources: of foreign streams; a topic that several of them read is archived once.
      order: what is ordered.
      means: what it needs of its process.
      tell: called with each file that is written.
    """

    def __init__(
        self,
        sources: Sequence[TopicSource],
        order: ArchiveOrder,
        means: ArchiveMeans,
        tell: Callable[[WrittenFile], None] = lambda _file: None,
    ) -> None:
        self._sources = sources
        self._order = order
        self._means = means
        self._tell = tell
        self._lines: dict[str, _Line] = {}
        self._report = ArchiveReport()
        self._broker, self._disk = self._retry("broker"), self._retry("archive")

    def _retry(self, dependency: str) -> Retry:
        means = self._means
        return Retry(
            dependency,
            clock=means.clock,
            rng=means.rng,
            stopping=means.stopping,
            patience=Patience(means.wait),
        )

    def run(self) -> ArchiveReport:
        """Archive; return what was written.

        Raises:
          StatementError: a topic is another one than that of its archive, or the broker has deleted what follows.
          SupersededError: another process archives one of the topics into the folder.
          TransientError: the broker is down, or a file cannot be written, and waiting is not wanted.
        """
        try:
            with suppress(StoppedError):
                self._archive()
            # Also what was read when the process was asked to stop.
            for line in self._lines.values():
                line.finish()
        finally:
            for line in self._lines.values():
                line.close()
                line.archive.abandon()
        self._report.positions = {
            topic: line.archive.positions for topic, line in sorted(self._lines.items())
        }
        return self._report

    def _archive(self) -> None:
        clock = self._means.clock
        self._broker.call(self._find_topics)
        look_again = clock.monotonic() + LOOK_UP_S
        while not self._means.stopping():
            # Wait only where nothing has arrived at any topic.
            came = sum(self._step(line, 0.0) for line in self._lines.values())
            if self._order.until_end and all(line.is_at_end for line in self._lines.values()):
                return
            if not came:
                for line in self._lines.values():
                    self._step(line, WAIT_S / len(self._lines))
            spills = sum(line.archive.buffered for line in self._lines.values()) > BUFFERED_BYTES
            for line in self._lines.values():
                self._disk.call(partial(line.tidy, spills=spills))
            if clock.monotonic() >= look_again:
                self._broker.call(self._find_topics)
                look_again = clock.monotonic() + LOOK_UP_S

    def _step(self, line: _Line, timeout_s: float) -> int:
        def once() -> int:
            polled = self._broker.call(lambda: line.poll(timeout_s))
            self._means.crash_points.reach("archive.after_poll")
            return line.add(polled)

        return self._disk.call(once)

    def _find_topics(self) -> None:
        for source in self._sources:
            # Of a pattern, this finds new topics.
            source.ranges()
            for each in source.topics() if isinstance(source, SeveralTopics) else [source]:
                if (line := self._lines.get(each.topic)) is not None:
                    line.look_up()
                else:
                    line = _Line(each, self._new_archive(each.topic), self._order, self._means)
                    line.begin()
                    self._lines[each.topic] = line

    def _new_archive(self, topic: str) -> TopicArchive:
        order, means = self._order, self._means
        return TopicArchive(order.root, topic, order.limits, means.clock, self._written, means.crash_points)

    def _written(self, file: WrittenFile) -> None:
        self._report.messages += file.messages
        self._report.files += 1
        _log.info(
            "archived",
            topic=file.topic,
            partition=file.partition,
            begin=file.begin,
            end=file.end,
            messages=file.messages,
            file=str(file.path.relative_to(self._order.root)),
        )
        self._tell(file)
