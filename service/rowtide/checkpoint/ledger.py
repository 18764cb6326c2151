"""What a checkpoint is to the runtime: the one record of where a pipeline stands.

Everything is kept in the database that the output goes to, and written in the
transaction of the output (law 5). The runtime's own memory of it may be wrong
after a connection broke within a commit: then it reads the ledger again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from rowtide.operators.contract import RESUBMITTED, State
from rowtide_connectors.api import Transaction

PartitionId = tuple[str, int]
"""A partition: foreign stream and number."""


@dataclass(frozen=True, slots=True)
class PartitionPosition:
    """Where a partition stands: next offset to read, rowtime bound (ms; None: no bound yet).

    ``start_offset`` is where the pipeline began with it: a recovery without a snapshot reads from there.
    """

    relation: str
    topic: str
    partition: int
    next_offset: int
    start_offset: int
    bound: int | None
    topic_id: str | None = None
    """What tells the topic from a later one of its name, where that is known."""

    @property
    def place(self) -> PartitionId:
        """The partition."""
        return self.relation, self.partition


@dataclass(frozen=True, slots=True)
class Record:
    """What the ledger has of a pipeline.

    ``commits`` counts the commits that there ever were: it tells a process whether a commit whose
    reply was lost has happened. ``digest`` is that of the plan; ``holder`` says who has the epoch.
    """

    epoch: int
    holder: str
    commits: int
    digest: str
    standings: tuple[PartitionPosition, ...]
    committed_at_ms: int | None
    changed_at: int | None = None
    """The commit with which another plan took over: what was read before it cannot be replayed."""

    def positions(self) -> dict[PartitionId, int]:
        """Return the next offset of each partition."""
        return {standing.place: standing.next_offset for standing in self.standings}


@dataclass(frozen=True, slots=True)
class KeptSnapshot:
    """A stored snapshot: the positions at which it was taken, and the state of the flow there."""

    positions: Mapping[PartitionId, int]
    state: Mapping[str, State]


@dataclass(frozen=True, slots=True)
class SnapshotEntry:
    """What is known of a stored snapshot without reading it. ``bytes`` is its size in the database."""

    snapshot_id: int
    epoch: int
    commits: int
    bytes: int
    stored_at_ms: int


@dataclass(frozen=True, slots=True)
class ErrorRow:
    """One row of the error stream (docs/sql/semantics.md#error-rows). Times are ms since the epoch, UTC.

    ``topic``, ``partition``, ``offset`` and ``raw`` are None where an operator had made the row, and
    ``raw`` also where the log no longer holds the message. ``reason`` begins with its ``Reason``;
    ``row`` is the row itself as JSON text, where it had been decoded. ``stream`` is the foreign stream
    that the message came by and ``message_time`` its timestamp, where it was still known.
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


@dataclass(frozen=True, slots=True)
class StoredError:
    """A row of the error stream as it was committed; ``error_id`` ascends.

    ``resubmitted`` is the number of the resubmission that it was part of, if it was.
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

    They are a partition of that stream, ``number`` above ``RESUBMITTED``; ``entered``: they had been
    rows before they were refused. It is read once, and its end is known.
    """

    number: int
    stream: str
    relation: str
    entered: bool

    @property
    def place(self) -> PartitionId:
        """The partition that they are."""
        return self.stream, RESUBMITTED + self.number


def is_resubmission(place: PartitionId) -> bool:
    """Return whether a partition is no topic's, but holds resubmitted rows."""
    return place[1] >= RESUBMITTED


RESET = "RESET"
"""The kind of the decision that the time of a model jumps, since history is over."""
SKIP = "SKIP"
"""The kind of the decision that the message at ``next_offset`` is not decoded but an error row."""


@dataclass(frozen=True, slots=True)
class Decision:
    """Something that the wall clock or the broker decided, which a replay must repeat.

    See docs/sql/semantics.md#silent-and-new-partitions.

    It took effect before the message at ``next_offset`` of the partition, and raised its bound to
    ``bound``, if that is not None. ``kind`` says why, such as IDLE, JOIN, APPEND_TIME, ARRIVAL.
    ``reader`` names the one judge of lateness that it is for; None: all that read the partition.

    One of kind RESET is of no partition: it says that the time of the model ``relation`` jumped from the
    rowtime ``next_offset`` to ``bound``, and holds from the beginning (docs/decisions/0005).
    """

    kind: str
    relation: str
    partition: int
    next_offset: int
    bound: int | None
    reader: str | None = None


def jump_of(decision: Decision) -> tuple[str, int, int]:
    """Return, of a decision of kind RESET, the model and the rowtimes (ms) from which to which it jumps."""
    before = decision.next_offset
    return decision.relation, before, before if decision.bound is None else decision.bound


@dataclass(frozen=True, slots=True)
class KeptAccount:
    """Where the rows of a relation went since the pipeline began (law 4), as of a commit.

    ``part`` is SOURCE (messages of a foreign stream: done are those that became rows, filtered bound
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


class Ledger(Protocol):
    """The checkpoint of one pipeline in one database.

    Methods without a transaction open their own, and raise UnavailableError when the database is down.
    """

    def read(self) -> Record | None:
        """Return what is recorded; None for a pipeline that never started. Changes nothing.

        Raises:
          StatementError: the tables were written by a newer program.
        """

    def read_within(self, transaction: Transaction) -> Record | None:
        """Return what is recorded as an open transaction sees it; else as ``read``."""

    def claim(self, digest: str, holder: str) -> Record:
        """Take the next epoch; creates the tables and the record where there are none.

        ``holder`` says who we are (host and process), for the one that we supersede. ``digest`` is
        kept only as long as there are no positions: after that it is the one they belong to.

        Raises:
          StatementError: the tables were written by a newer program.
        """

    def decide(self, holder: str, decide: Callable[[Record], Sequence[Decision]]) -> Record:
        """Take the next epoch and append the decisions that ``decide`` makes of the record, or do neither.

        It is no commit: their number stays. A process that runs the pipeline fails at its next commit.

        Raises:
          What ``decide`` raises; nothing has changed.
        """

    def fence(self, transaction: Transaction, *, epoch: int, commits: int) -> None:
        """Move the record from ``commits`` to ``commits + 1`` under ``epoch``, or fail.

        Called first in every commit: it locks the record.

        Raises:
          SupersededError: another epoch holds the pipeline; the message says who.
          FaultError: the epoch is ours but the number of commits is another one.
        """

    def write_standings(
        self, transaction: Transaction, epoch: int, standings: Sequence[PartitionPosition]
    ) -> None:
        """Record where partitions stand; those not given stay.

        Raises:
          FaultError: a position would move backwards.
        """

    def write_errors(self, transaction: Transaction, epoch: int, rows: Sequence[ErrorRow]) -> None:
        """Append rows to the error stream's table."""

    def write_decisions(self, transaction: Transaction, epoch: int, decisions: Sequence[Decision]) -> None:
        """Append decisions to the log that a replay obeys.

        Of several of one kind for one reader at one offset of a partition only the last is kept: bounds
        only rise.
        """

    def decisions(self) -> Sequence[Decision]:
        """Return all decisions, in the order in which they were committed."""

    def replace_plan(self, transaction: Transaction, digest: str, gone: Sequence[str]) -> None:
        """Record that the commit under way is the first of another plan.

        Snapshots of the plan before it are dropped, the positions of the streams that are ``gone``, and jumps
        of time: the models that are kept have theirs in their state.
        """

    def write_accounts(self, transaction: Transaction, accounts: Sequence[KeptAccount]) -> None:
        """Record accounts; those not given stay."""

    def accounts(self) -> Sequence[KeptAccount]:
        """Return all accounts as of the last commit."""

    def refused_within(self, transaction: Transaction, table: str) -> Sequence[tuple[int | None, str | None]]:
        """Return rowtime and JSON of the rows that a foreign table was found not to take."""

    def resubmissions(self) -> Sequence[Resubmission]:
        """Return what was resubmitted, in order."""

    def resubmitted(self, number: int) -> Sequence[StoredError]:
        """Return the rows of one resubmission in the order of their rowtimes: that numbers their offsets."""

    def write_snapshot(self, transaction: Transaction, epoch: int, snapshot: KeptSnapshot) -> int:
        """Keep a snapshot, and give its size in bytes; older ones but the last few are dropped."""

    def snapshots(self) -> Sequence[SnapshotEntry]:
        """Return what snapshots are stored, the newest first; what an entry stands for never changes."""

    def newest_snapshot(self) -> KeptSnapshot | None:
        """Return the newest snapshot that this version can read and that is whole; None: there is none.

        Logs each damaged one, with what is read instead.
        """
