"""The ledger: the interface of the checkpoint for the runtime.

Everything is in the database of the output, and written in the transaction of
the output (law 5). The runtime's own memory of it may be wrong after a
connection broke within a commit: then it reads the ledger again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from rowtide.checkpoint.outbox import Outbox
from rowtide.checkpoint.snapshot_part import SnapshotPart
from rowtide.checkpoint.statement_log import StatementLog
from rowtide.errors import FaultError, LostCommitsError, RowtideError, SupersededError
from rowtide.operators.contract import RESUBMITTED, State
from rowtide_connectors.api import Transaction

PartitionId = tuple[str, int]
"""A partition: foreign stream and number."""


@dataclass(frozen=True, slots=True)
class PartitionPosition:
    """The position of a partition: next offset to read, rowtime bound (ms; None: no bound yet).

    ``start_offset`` is the first offset of the pipeline: a recovery without a snapshot reads from there.
    """

    relation: str
    topic: str
    partition: int
    next_offset: int
    start_offset: int
    bound: int | None
    topic_id: str | None = None
    """The id of the topic, if known. A later topic of the same name has another one."""

    @property
    def place(self) -> PartitionId:
        """The partition."""
        return self.relation, self.partition


@dataclass(frozen=True, slots=True)
class Record:
    """The record of a pipeline.

    ``commits`` counts all commits: from it a process finds out whether a commit whose reply was
    lost has happened. ``digest`` is that of the plan; ``holder`` is the process that has the
    epoch.
    """

    epoch: int
    holder: str
    commits: int
    digest: str
    partition_positions: tuple[PartitionPosition, ...]
    committed_at_ms: int | None
    changed_at: int | None = None
    """The commit with which another plan took over. Earlier messages cannot be replayed."""

    @property
    def has_begun(self) -> bool:
        """Whether something is committed. A pipeline that reads no stream has no positions even then."""
        return self.commits > 0

    def positions(self) -> dict[PartitionId, int]:
        """Return the next offset of each partition."""
        return {position.place: position.next_offset for position in self.partition_positions}


@dataclass(frozen=True, slots=True)
class KeptSnapshot:
    """A stored snapshot: the positions at which it was taken, and the state of the flow there.

    ``commits`` is the number of the commit at which it was taken, if it was read.
    """

    positions: Mapping[PartitionId, int]
    state: Mapping[str, State]
    commits: int | None = None


@dataclass(frozen=True, slots=True)
class SnapshotEntry:
    """The entry of a stored snapshot. ``bytes`` is its size in the database."""

    snapshot_id: int
    epoch: int
    commits: int
    bytes: int
    stored_at_ms: int


@dataclass(frozen=True, slots=True)
class ErrorRow:
    """One row of the error stream (docs/sql/semantics.md#error-rows). Times are ms since the epoch, UTC.

    ``topic``, ``partition``, ``offset`` and ``raw`` are None if an operator made the row, and ``raw``
    also if the log no longer has the message. ``reason`` begins with its ``Reason``; ``row`` is the
    row as JSON text, if it was decoded. ``stream`` is the foreign stream of the message and
    ``message_time`` its timestamp, if it was still known.
    """

    kind: str
    relation: str
    reason: str
    topic: str | None
    partition: int | None
    offset: int | None
    rowtime: int | None
    bound: int | None
    raw: bytes | None
    row: str | None = None
    stream: str | None = None
    message_time: int | None = None
    key: bytes | None = None
    headers: str | None = None
    """JSON: an array of name and value in base64, or null."""

    @property
    def late_by_ms(self) -> int | None:
        """By how much a late row missed the bound."""
        if self.kind != "LATE" or self.bound is None or self.rowtime is None:
            return None
        return self.bound - self.rowtime

    @property
    def size(self) -> int:
        """About how many bytes its message and its row take."""
        return sum(len(each) for each in (self.raw, self.key, self.headers, self.row) if each is not None)


@dataclass(frozen=True, slots=True)
class StoredError:
    """A committed row of the error stream. ``error_id`` ascends.

    ``resubmitted`` is the number of the resubmission that includes it, if any.
    """

    error_id: int
    row: ErrorRow
    epoch: int
    committed_at_ms: int
    resubmitted: int | None = None
    resubmitted_at_ms: int | None = None


@dataclass(frozen=True, slots=True)
class Resubmission:
    """Error rows of one stream that one relation had refused, resubmitted together.

    They form a partition of that stream, with ``number`` above ``RESUBMITTED``. ``entered``: they
    were rows before they were refused. The partition is read once, and its end is known.
    """

    number: int
    stream: str
    relation: str
    entered: bool

    @property
    def place(self) -> PartitionId:
        """The partition that they are."""
        return self.stream, RESUBMITTED + self.number


def is_resubmission(partition: PartitionId) -> bool:
    """Return whether a partition holds resubmitted rows and does not belong to a topic."""
    return partition[1] >= RESUBMITTED


RESET = "RESET"
"""The kind of the decision that the time of a model jumps because history is over."""
SKIP = "SKIP"
"""The kind of the decision that the message at ``next_offset`` is not decoded but an error row."""
CUT = "CUT"
"""The kind of the decision that a backfill ends before the message at ``next_offset``; see ``Decision``."""


@dataclass(frozen=True, slots=True)
class Decision:
    """A decision of the wall clock or the broker, which a replay must repeat.

    See docs/sql/semantics.md#silent-and-new-partitions.

    It took effect before the message at ``next_offset`` of the partition, and raised its bound to
    ``bound``, if that is not None. ``kind`` says why, such as IDLE, JOIN, APPEND_TIME.
    ``reader`` names the one judge of lateness that it is for; None: all that read the partition.

    A decision of kind RESET has no partition: the time of the model ``relation`` jumped from the rowtime
    ``next_offset`` to ``bound``. It holds from the beginning (docs/decisions/0005).

    A decision of kind CUT affects no row, so a replay has nothing to obey: a backfill that is run again
    ends at the same offsets. Its ``bound`` is the time by which they were chosen (ms).
    """

    kind: str
    relation: str
    partition: int
    next_offset: int
    bound: int | None
    reader: str | None = None


@dataclass(frozen=True, slots=True)
class StoredDecision:
    """A committed decision. ``number`` ascends."""

    number: int
    decision: Decision
    epoch: int
    committed_at_ms: int


def jump_of(decision: Decision) -> tuple[str, int, int]:
    """Return the model of a RESET decision, and the rowtimes (ms) from which and to which it jumps."""
    before = decision.next_offset
    return decision.relation, before, before if decision.bound is None else decision.bound


@dataclass(frozen=True, slots=True)
class KeptAccount:
    """The account of a relation's rows since the pipeline began (law 4), as of a commit.

    ``part`` is SOURCE (messages of a foreign stream: ``done`` became rows, ``filtered`` are bound
    records), OPERATORS, or TABLE (rows written to a foreign table).
    """

    part: str
    relation: str
    rows_in: int
    done: int
    filtered: int
    late: int
    rejected: int
    held: int
    rows_out: int


@dataclass(frozen=True, slots=True)
class Pulse:
    """The last sign of life of the process that holds the epoch: it differs from the one before.

    ``beats`` counts the heartbeats under this epoch; ``resigned`` of the epoch: the process has ended in order.
    """

    epoch: int
    commits: int
    beats: int

    @property
    def has_resigned(self) -> bool:
        """Return whether the holder of the epoch has ended in order, so that no process leads."""
        return self.beats == resigned(self.epoch)


def resigned(epoch: int) -> int:
    """Return what stands for the heartbeats of a process that has ended. A later epoch makes it void."""
    return -epoch


@dataclass(frozen=True, slots=True)
class Writer:
    """A session of the database whose open transaction has written the record of a pipeline, so that a claim waits.

    ``session`` is its number at the server, and ``transaction`` tells its transaction from others. ``silent_s`` is for
    how long the server has waited for its next statement; None: it works. ``grant`` is the statement without which
    this process may not see or end it; None: it may.
    """

    session: int
    transaction: str
    silent_s: float | None
    grant: str | None = None


class Leadership(Protocol):
    """The signs of life of one pipeline, for replicas that follow its leader. They fence no process: ``fence`` does.

    Each method opens a transaction, and raises UnavailableError when the database is down.
    """

    def pulse(self) -> Pulse | None:
        """Return the last sign of life; None for a pipeline that never started."""

    def beat(self, epoch: int, beats: int) -> None:
        """Record a sign of life under ``epoch``.

        Raises:
          SupersededError: another epoch holds the pipeline; LostCommitsError: an earlier one.
        """

    def decisions_after(self, number: int) -> Sequence[tuple[int, Decision]]:
        """Return the decisions that were committed after decision ``number`` (0: all), with their numbers."""

    def writer(self) -> Writer | None:
        """Return the session whose open transaction has written the record; None: none, or the database hides it.

        Raises:
          ConnectorError: the server does not answer, or not this question.
        """

    def end_writer(self, writer: Writer) -> None:
        """End a session that is silent in this transaction, which the database then rolls back. Others stay.

        Raises:
          As ``writer``.
        """


def why_not_ours(
    pipeline: str, *, found: tuple[int, int], ours: tuple[int, int], taken: str
) -> RowtideError | None:
    """Return why a process must not commit, by epoch and number of commits; None: it may.

    Args:
      pipeline: its name.
      found: the epoch and the commits of the database.
      ours: those of this process.
      taken: who has the epoch, since when.
    """
    if found == ours:
        return None
    if found < ours:
        return LostCommitsError(
            f'the database has lost commits of pipeline "{pipeline}": it has commit {found[1]} of epoch {found[0]}, '
            f"and this process commit {ours[1]} of epoch {ours[0]}",
            hint="Start the pipeline again: it continues at the last commit of the database, and computes the rows "
            "after it again. If a standby of the database was promoted, let commits wait for the standby.",
        )
    if found[0] != ours[0]:
        return SupersededError(
            f'pipeline "{pipeline}" was taken by {taken}: epoch {found[0]}, ours is {ours[0]}'
        )
    return FaultError(f'checkpoint of pipeline "{pipeline}" has {found[1]} commits, expected {ours[1]}')


def takes_any(_: Record) -> None:
    """Refuse no record: any is taken over."""


@dataclass(frozen=True, slots=True)
class PendingErrors:
    """How many error rows of each relation are not resubmitted, and the number of the newest error row."""

    by_relation: Mapping[str, int]
    newest: int | None


class Ledger(Protocol):
    """The checkpoint of one pipeline in one database.

    Methods without a transaction open their own, and raise UnavailableError when the database is down.
    """

    def read(self) -> Record | None:
        """Return the record; None for a pipeline that never started. Changes nothing.

        Raises:
          StatementError: the tables were written by a newer program.
        """

    def read_within(self, transaction: Transaction) -> Record | None:
        """Return the record as an open transaction sees it; otherwise like ``read``."""

    def other_plans(self) -> Mapping[str, str]:
        """Return the digests of the other pipelines in the database that have committed, by their names.

        Raises:
          StatementError: the tables were written by a newer program.
        """

    def text(self) -> str | None:
        """Return the text of the file that runs, without its secrets; None: no process has stored one.

        Raises:
          StatementError: the tables were written by a newer program.
        """

    def claim(
        self,
        digest: str,
        holder: str,
        refuse: Callable[[Record], None] = takes_any,
        text: str | None = None,
    ) -> Record:
        """Take the next epoch, or leave it; creates the tables and the record if they do not exist.

        ``refuse`` is called with the record that is taken over, within the transaction: what it raises
        leaves everything as it is. A check before the call would miss what another process has just
        committed.

        ``holder`` names this process (host and process) for the one that it supersedes. ``digest`` is
        stored only if the record has no positions yet; otherwise the digest of the positions stays. ``text`` is
        that of the file that runs from now on: ``refuse`` has compared its plan.

        Raises:
          StatementError: the tables were written by a newer program.
          What ``refuse`` raises; nothing has changed.
        """

    def decide(self, holder: str, decide: Callable[[Record], Sequence[Decision]]) -> Record:
        """Take the next epoch and append the decisions that ``decide`` makes of the record, or do neither.

        The number of commits does not change. A process that runs the pipeline fails at its next commit.

        Raises:
          What ``decide`` raises; nothing has changed.
        """

    def fence(self, transaction: Transaction, *, epoch: int, commits: int) -> None:
        """Move the record from ``commits`` to ``commits + 1`` under ``epoch``, or fail.

        Called first in every commit: it locks the record.

        Raises:
          SupersededError: another epoch holds the pipeline; the message names its holder.
          LostCommitsError: the database is at an earlier epoch or commit.
          FaultError: the epoch is ours, and the database has more commits.
        """

    def write_positions(
        self, transaction: Transaction, epoch: int, partition_positions: Sequence[PartitionPosition]
    ) -> None:
        """Record the positions of partitions. Others do not change.

        Raises:
          FaultError: a position would move backwards.
        """

    def write_errors(self, transaction: Transaction, epoch: int, rows: Sequence[ErrorRow]) -> None:
        """Append rows to the error stream's table."""

    def write_decisions(self, transaction: Transaction, epoch: int, decisions: Sequence[Decision]) -> None:
        """Append decisions to the log that a replay obeys.

        Only the last decision of one kind for one reader at one offset of a partition is kept: bounds
        only rise.
        """

    def decisions(self) -> Sequence[Decision]:
        """Return all decisions, in the order in which they were committed."""

    def replace_plan(
        self, transaction: Transaction, digest: str, gone: Sequence[str], text: str | None = None
    ) -> None:
        """Record that the current commit is the first of another plan, whose file has this ``text``.

        Drops snapshots of the old plan, positions of the streams that are ``gone``, and jumps of time:
        kept models have theirs in their state.
        """

    def write_accounts(self, transaction: Transaction, accounts: Sequence[KeptAccount]) -> None:
        """Record accounts. Others do not change."""

    def leadership(self) -> Leadership:
        """Return the signs of life of the process that holds the epoch."""

    def outbox(self, relation: str) -> Outbox:
        """Return the outbox of a foreign stream that pumps write to."""

    def statements(self) -> StatementLog:
        """Return the statements that are sent to the running pipeline."""

    def accounts(self) -> Sequence[KeptAccount]:
        """Return all accounts as of the last commit."""

    def pending_errors(self) -> PendingErrors:
        """Count the error rows that are not resubmitted."""

    def refused_within(self, transaction: Transaction, table: str) -> Sequence[tuple[int | None, str | None]]:
        """Return rowtime and JSON of the rows that a foreign table has refused."""

    def resubmissions(self) -> Sequence[Resubmission]:
        """Return the resubmissions, in order."""

    def resubmitted(self, number: int) -> Sequence[StoredError]:
        """Return the rows of one resubmission in the order of rowtime. Indexes are offsets."""

    def write_snapshot(self, transaction: Transaction, epoch: int, snapshot: KeptSnapshot) -> int:
        """Store a snapshot, and return its size in bytes. Drops all but the last few."""

    def write_snapshot_part(self, transaction: Transaction, epoch: int, part: SnapshotPart) -> bool:
        """Store a part of a snapshot. No reader sees the snapshot until its last part is committed.

        A first part, and ``write_snapshot``, drop what has been stored of one that is incomplete. Return False, and
        store nothing, if the parts before it are no longer there: a person may drop snapshots at any time.
        """

    def snapshots(self) -> Sequence[SnapshotEntry]:
        """Return the entries of stored snapshots, the newest first. A stored snapshot never changes."""

    def newest_snapshot(self) -> KeptSnapshot | None:
        """Return the newest undamaged snapshot that this version can read, or None.

        Logs each damaged one, with what is read instead.
        """

    def parts_folder(self) -> str:
        """Return the folder of the pipeline in any store of state in parts: no other pipeline has it.

        The tables exist.
        """

    def known_parts_folder(self) -> str | None:
        """Return the same, or None if nothing has asked for it before: no state was kept in parts."""

    def named_blobs(self) -> Sequence[str]:
        """Return the names of the blobs of state in parts that the stored snapshots name; see ``parts.store``.

        Raises:
          DamagedSnapshotError: what one of them names cannot be read.
        """
