"""One transaction a commit (law 5): output rows, error rows, positions, bounds, snapshot, fence.

If the connection breaks during the commit, its result is unknown. The committer
then reads the number of commits from the ledger, and repeats the same writes
only if this commit is not among them.

Before COMMIT, brokers confirm the ids of the topics that the rows are from (see
``topic_checks``). Rows of a topic that was created again under the same name
are never committed, however far its log reaches.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import structlog

from rowtide.checkpoint.ledger import (
    ErrorRow,
    PartitionId,
    PartitionPosition,
    Record,
    StoredError,
    why_not_ours,
)
from rowtide.checkpoint.snapshot import SnapshotInParts
from rowtide.errors import FaultError
from rowtide.operators.contract import RESUBMITTED, Fault
from rowtide.runtime.commit.collecting import UnnamedParts
from rowtide.runtime.commit.sifting import refused_rows
from rowtide.runtime.commit.topic_checks import NoAnswerError, TopicChecks
from rowtide.runtime.retry import Retry
from rowtide.runtime.state.context import PipelineContext
from rowtide.runtime.state.deadletters import RecentMessages, error_rows
from rowtide.runtime.state.output import Writes
from rowtide.runtime.state.pipeline_state import CommitBatch
from rowtide.runtime.topics import TopicNames
from rowtide_connectors.api import Fetched
from rowtide_connectors.errors import RefusedRowsError, UnavailableError
from rowtide_connectors.listed import ListedSource

_log = structlog.get_logger("rowtide")


class RefusedInCommit:
    """The rows of a commit that the database refuses; the others are written without them.

    The writes of a backfill are read again for every attempt, so they are not kept here.
    """

    def __init__(self) -> None:
        # By the number of the writes: places of rows among those that were left each time.
        self._rows: dict[int, list[Sequence[int]]] = {}
        self.are_apart = False
        """Whether the database takes each row alone and not all together, so that it gets them in parts."""

    def add(self, found: Mapping[int, Collection[int]]) -> None:
        """Add rows by the number of their writes, at their places in ``without``."""
        for at, rows in found.items():
            self._rows.setdefault(at, []).append(sorted(rows))

    def without(self, writes: Iterable[Writes]) -> Iterator[Writes]:
        """Yield the writes without the refused rows."""
        for at, given in enumerate(writes):
            left = given
            for rows in self._rows.get(at, ()):
                left = left.without(rows)
            yield left


class _SiftedError(Exception):
    """The database has refused rows, which were found and have ``faults``: commit again, without them."""

    def __init__(self, faults: Sequence[Fault]) -> None:
        super().__init__()
        self.faults = faults


@dataclass(frozen=True, slots=True)
class StoredSnapshot:
    """The size of a snapshot in the database, and the time that its writes took."""

    size_bytes: int
    seconds: float


class Committer:
    """Commits the cuts of one process, under the epoch that it has claimed.

    Args:
      context: the database, its ledger, and the sources to fetch raw bytes from.
      record: the record that the claim of the epoch returned.
      source_of: returns the partition of an origin.
      retry: repeats what fails because the database is down.
      fetching: repeats what fails because a broker is down.
      beat: of a process whose tasks keep state in parts; see ``UnnamedParts``.
    """

    def __init__(
        self,
        context: PipelineContext,
        record: Record,
        source_of: Callable[[int], PartitionId | None],
        *,
        retry: Retry,
        fetching: Retry,
        beat: Callable[[], None] | None = None,
    ) -> None:
        self._database = context.database
        self._ledger = context.ledger
        self._pipeline = context.name
        self._epoch = record.epoch
        self._commits = record.commits
        self._sources = context.sources
        self._topics = TopicNames(context.sources)
        self._source_of = source_of
        self._retry = retry
        self._fetching = fetching
        self._clock = context.clock
        self.stored = StoredSnapshot(0, 0.0)
        """The last snapshot."""
        self._crash_points = context.crash_points
        self._parts: SnapshotInParts | None = None
        self._parts_seconds = 0.0
        self._is_dropped = False
        self._unnamed = UnnamedParts(context, record.epoch, retry, beat)

    @property
    def is_storing(self) -> bool:
        """Return whether parts of a snapshot wait for the next commits."""
        return self._parts is not None

    @property
    def epoch(self) -> int:
        """The epoch that the commits are made under."""
        return self._epoch

    @property
    def commits(self) -> int:
        """The number of commits of the pipeline, as far as this process knows."""
        return self._commits

    def commit(
        self, batch: CommitBatch, recent: RecentMessages, *, part_bytes: int | None = None
    ) -> Sequence[ErrorRow]:
        """Commit ``cut``, with retries for as long as needed, and return its error rows.

        With ``part_bytes``, one commit stores at most so much of a snapshot, and the next commits store the rest.
        A new snapshot takes the place of one that is incomplete.

        Raises:
          SupersededError, LostCommitsError: another process took the pipeline, or the database has lost commits;
            nothing of the cut was committed.
          TransientError: the database is down and waiting is not wanted.
          StoppedError: the service was asked to stop while the database or a broker was down.
          StatementError: a topic is another one than it was; nothing of the cut was committed.
        """
        faults, refusals = list(batch.faults), RefusedInCommit()
        errors = self._error_rows(faults, recent)
        uncertain = False
        self._is_dropped = False
        if batch.snapshot is not None:
            self._parts, self._parts_seconds = None, 0.0
            if part_bytes is not None:
                self._parts = SnapshotInParts(batch.snapshot, self._commits + 1, part_bytes)
        topics = TopicChecks(self._sources, batch.partition_positions, self._fetching)

        def attempt() -> None:
            nonlocal uncertain
            if uncertain and self._has_happened():
                return
            try:
                self._write(batch, refusals, errors, topics)
            except UnavailableError:
                uncertain = True
                raise
            except RefusedRowsError as met:
                raise _SiftedError(self._sift(batch, refusals, met)) from met

        while True:
            topics.begin()
            try:
                self._retry.call(attempt)
                break
            except NoAnswerError:
                topics.wait()
            except _SiftedError as sifted:
                # The database decides last about a row. The others are committed without those that it refuses.
                faults += sifted.faults
                errors = self._error_rows(faults, recent)
        self._commits += 1
        if self._settle_part(batch):
            self._unnamed.remove()
        self._crash_points.reach("commit.after_settled")
        return errors

    def _settle_part(self, batch: CommitBatch) -> bool:
        """Note that the part of a snapshot in this commit is stored, or that the parts before it are gone.

        Return whether a snapshot is now complete.
        """
        if self._parts is None:
            return batch.snapshot is not None
        end = self._parts.stored()
        if self._is_dropped:
            _log.warning("snapshot_abandoned", pipeline=self._pipeline, reason="its first parts were dropped")
        elif end is not None:
            self.stored = StoredSnapshot(end.size_bytes, self._parts_seconds)
        if self._is_dropped or end is not None:
            self._parts = None
        return end is not None and not self._is_dropped

    def _sift(self, batch: CommitBatch, refusals: RefusedInCommit, met: RefusedRowsError) -> list[Fault]:
        """Find the rows that the database refuses, note them in ``refusals``, and return their faults.

        Raises:
          UnavailableError: a table would refuse any row, or the database refuses none now.
        """
        found = refused_rows(self._database, partial(refusals.without, batch.writes))
        if not found:
            if refusals.are_apart:
                raise UnavailableError(f"the database refused rows that it takes now: {met.message}")
            refusals.are_apart = True
            return []
        faults: list[Fault] = []
        for each in found.values():
            rows = list(each.faults.values())
            faults += rows
            each.account.done -= len(rows)
            each.account.rejected += len(rows)
            _log.warning("rows_refused", table=each.table, rows=len(rows), reason=rows[0].message)
        refusals.add({at: each.faults for at, each in found.items()})
        return faults

    def _error_rows(self, faults: Sequence[Fault], recent: RecentMessages) -> Sequence[ErrorRow]:
        self._crash_points.reach("commit.before_fetch")
        return error_rows(
            faults,
            source_of=self._source_of,
            topics=self._topics,
            recent=recent,
            fetch=self._fetch,
            resubmitted=self._resubmitted,
            named=self._named,
        )

    def _named(self, partition: PartitionId, offset: int) -> str | None:
        source = self._sources[partition[0]]
        return source.place(partition[1], offset) if isinstance(source, ListedSource) else None

    def _resubmitted(self, partition: PartitionId) -> Sequence[StoredError]:
        return self._retry.call(lambda: self._ledger.resubmitted(partition[1] - RESUBMITTED))

    def commit_start(self, partition_positions: Sequence[PartitionPosition]) -> None:
        """Commit the start positions of a new pipeline.

        Raises:
          As ``commit``.
        """
        self.commit(CommitBatch((), (), tuple(partition_positions), None, 0), RecentMessages())

    def _write(
        self, batch: CommitBatch, refusals: RefusedInCommit, errors: Sequence[ErrorRow], topics: TopicChecks
    ) -> None:
        reach = self._crash_points.reach
        reach("commit.before_begin")
        with self._database.begin(apart=refusals.are_apart) as transaction:
            reach("commit.after_begin")
            self._ledger.fence(transaction, epoch=self._epoch, commits=self._commits)
            reach("commit.after_fence")
            for each in refusals.without(batch.writes):
                each.apply(transaction)
            for move in batch.moves:
                move(transaction)
            for sends in batch.sends:
                self._ledger.outbox(sends.relation).add(transaction, sends.messages)
            reach("commit.after_tables")
            for chunk in batch.error_rows:
                self._ledger.write_errors(transaction, self._epoch, chunk)
            if errors:
                self._ledger.write_errors(transaction, self._epoch, errors)
            reach("commit.after_errors")
            self._ledger.write_positions(transaction, self._epoch, batch.partition_positions)
            self._ledger.write_decisions(transaction, self._epoch, batch.decisions)
            self._ledger.statements().settle(transaction, self._commits + 1, batch.statements)
            self._ledger.write_accounts(transaction, batch.accounts())
            reach("commit.after_positions")
            began = self._clock.monotonic()
            if self._parts is not None:
                self._is_dropped = not self._ledger.write_snapshot_part(
                    transaction, self._epoch, self._parts.part()
                )
                self._parts_seconds += self._clock.monotonic() - began
            elif batch.snapshot is not None:
                size = self._ledger.write_snapshot(transaction, self._epoch, batch.snapshot)
                self.stored = StoredSnapshot(size, self._clock.monotonic() - began)
            reach("commit.after_snapshot")
            topics.end()
        reach("commit.after_commit")

    def _has_happened(self) -> bool:
        """Return whether the commit that was in doubt is in the database."""
        record = self._ledger.read()
        if record is None:
            raise FaultError("the checkpoint no longer exists in the database")
        has_happened = record.commits == self._commits + 1
        error = why_not_ours(
            self._pipeline,
            found=(record.epoch, record.commits),
            ours=(self._epoch, self._commits + has_happened),
            taken=record.holder,
        )
        if error is not None:
            raise error
        return has_happened

    def _fetch(self, partition: PartitionId, offsets: Sequence[int]) -> Mapping[int, Fetched]:
        relation, number = partition
        return self._fetching.call(lambda: self._sources[relation].fetch(number, offsets))
