"""The checkpoint in a database in memory: the reference that other ledgers are tested against."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import islice

from rowtide.checkpoint.database_snapshots import KEPT_SNAPSHOTS
from rowtide.checkpoint.error_stream import ALL_ERRORS, ErrorFilter, together
from rowtide.checkpoint.ledger import (
    RESET,
    Decision,
    ErrorRow,
    KeptAccount,
    KeptSnapshot,
    PartitionPosition,
    PendingErrors,
    Pulse,
    Record,
    Resubmission,
    SnapshotEntry,
    StoredError,
    Writer,
    takes_any,
    why_not_ours,
)
from rowtide.checkpoint.parts.gathered import gathered
from rowtide.checkpoint.parts.store import new_folder
from rowtide.checkpoint.snapshot import SnapshotInParts, blobs_in, snapshot_from, why_unreadable
from rowtide.checkpoint.snapshot_part import Chunk, SnapshotPart
from rowtide.checkpoint.texts import storable
from rowtide.clock import Clock
from rowtide.errors import FaultError, OvertakenError
from rowtide.rowtime.text import time_text
from rowtide.testing.in_memory_database import (
    Checkpoint,
    EncodedSnapshot,
    InMemoryDatabase,
    InMemoryTransaction,
)
from rowtide.testing.in_memory_outbox import InMemoryOutbox
from rowtide.testing.in_memory_statements import InMemoryStatements
from rowtide_connectors.api import Transaction


class InMemoryLedger:
    """The checkpoint of ``pipeline`` in ``database``; see ``checkpoint.ledger.Ledger``."""

    def __init__(self, database: InMemoryDatabase, pipeline: str, clock: Clock) -> None:
        self._database = database
        self._pipeline = pipeline
        self._clock = clock

    # ------------------------------------------------------------- the record

    def read(self) -> Record | None:
        """Return the committed record."""
        self._database.before("read")
        return self._committed().record

    def read_within(self, transaction: Transaction) -> Record | None:
        """Return the record as an open transaction sees it."""
        return self._within(transaction).record

    def other_plans(self) -> Mapping[str, str]:
        """Return the digests of the others that have committed; see ``ledger.Ledger``."""
        self._database.before("read")
        held = self._database.contents.checkpoints.items()
        return {
            name: each.record.digest
            for name, each in held
            if name != self._pipeline
            and each.record is not None
            and each.record.commits
            and each.record.digest
        }

    def text(self) -> str | None:
        """Return the text of the file that runs; see ``ledger.Ledger``."""
        self._database.before("read")
        return self._committed().text

    def claim(
        self,
        digest: str,
        holder: str,
        refuse: Callable[[Record], None] = takes_any,
        text: str | None = None,
    ) -> Record:
        """Take the next epoch; see ``ledger.Ledger``."""
        with self._database.begin() as transaction:
            record = self._claimed(transaction, digest, holder)
            refuse(record)
            self._within(transaction).text = text
            if not record.has_begun:
                record = self._within(transaction).record = replace(record, digest=digest)
        return record

    def decide(self, holder: str, decide: Callable[[Record], Sequence[Decision]]) -> Record:
        """Take the next epoch and append decisions, atomically."""
        with self._database.begin() as transaction:
            record = self._claimed(transaction, "", holder)
            self.write_decisions(transaction, record.epoch, decide(record))
        return record

    def fence(self, transaction: Transaction, *, epoch: int, commits: int) -> None:
        """Count one more commit under ``epoch``.

        Raises:
          SupersededError, LostCommitsError, FaultError: as ``Ledger.fence``; the pipeline does not exist.
        """
        checkpoint = self._within(transaction)
        record = checkpoint.record
        if record is None:
            raise FaultError(f'pipeline "{self._pipeline}" no longer exists in the checkpoint')
        self._check(checkpoint, record, epoch, commits)
        checkpoint.record = replace(record, commits=commits + 1, committed_at_ms=self._clock.now_ms())

    # ------------------------------------------------------- what a commit adds

    def write_positions(
        self, transaction: Transaction, epoch: int, partition_positions: Sequence[PartitionPosition]
    ) -> None:
        """Record the positions of partitions.

        Raises:
          FaultError: a position would move backwards.
        """
        record = self._record(transaction)
        held = {each.place: each for each in record.partition_positions}
        for each in partition_positions:
            before = held.get(each.place, each)
            if before.next_offset > each.next_offset:
                raise FaultError(f'a position of pipeline "{self._pipeline}" would move backwards')
            held[each.place] = replace(each, start_offset=before.start_offset, topic_id=before.topic_id)
        self._within(transaction).record = replace(
            record, partition_positions=tuple(held[place] for place in sorted(held))
        )

    def write_errors(self, transaction: Transaction, epoch: int, rows: Sequence[ErrorRow]) -> None:
        """Append rows to the error stream."""
        checkpoint = self._within(transaction)
        for row in rows:
            checkpoint.last_error += 1
            kept = replace(
                row, reason=storable(row.reason), row=None if row.row is None else storable(row.row)
            )
            checkpoint.stored_errors.append(
                StoredError(checkpoint.last_error, kept, epoch, self._clock.now_ms())
            )

    def write_decisions(self, transaction: Transaction, epoch: int, decisions: Sequence[Decision]) -> None:
        """Append decisions to the log; a decision replaces the earlier one that it repeats."""
        checkpoint = self._within(transaction)
        new = {_point(each) for each in decisions}
        checkpoint.decisions = [each for each in checkpoint.decisions if _point(each) not in new]
        checkpoint.decisions += decisions
        for each in decisions:
            checkpoint.last_decision += 1
            checkpoint.decision_numbers[_point(each)] = checkpoint.last_decision

    def replace_plan(
        self, transaction: Transaction, digest: str, gone: Sequence[str], text: str | None = None
    ) -> None:
        """Record that the current commit is the first one of another plan."""
        checkpoint, record = self._within(transaction), self._record(transaction)
        partition_positions = tuple(each for each in record.partition_positions if each.relation not in gone)
        checkpoint.record = replace(
            record, digest=digest, changed_at=record.commits, partition_positions=partition_positions
        )
        checkpoint.text = text
        checkpoint.decisions = [each for each in checkpoint.decisions if each.kind != RESET]
        checkpoint.snapshots = []
        checkpoint.incomplete = None

    def write_accounts(self, transaction: Transaction, accounts: Sequence[KeptAccount]) -> None:
        """Record accounts; accounts that are not passed stay unchanged."""
        self._within(transaction).accounts.update({(each.part, each.relation): each for each in accounts})

    def write_snapshot(self, transaction: Transaction, epoch: int, snapshot: KeptSnapshot) -> int:
        """Store a snapshot and return its size in bytes; only the last few snapshots are kept."""
        record = self._within(transaction).record
        parts = SnapshotInParts(snapshot, 0 if record is None else record.commits, part_bytes=sys.maxsize)
        self.write_snapshot_part(transaction, epoch, parts.part())
        end = parts.stored()
        return 0 if end is None else end.size_bytes

    def write_snapshot_part(self, transaction: Transaction, epoch: int, part: SnapshotPart) -> bool:
        """Store a part of a snapshot; see ``checkpoint.ledger.Ledger``."""
        checkpoint = self._within(transaction)
        name = epoch, part.commits
        held: tuple[Chunk, ...] = ()
        if not part.is_first:
            if checkpoint.incomplete is None or checkpoint.incomplete[0] != name:
                return False
            held = checkpoint.incomplete[1]
        chunks = (*held, *part.chunks)
        checkpoint.incomplete = name, chunks
        if part.end is not None:
            checkpoint.incomplete = None
            checkpoint.last_snapshot += 1
            entry = SnapshotEntry(
                checkpoint.last_snapshot, epoch, part.commits, part.end.size_bytes, self._clock.now_ms()
            )
            stored = EncodedSnapshot(entry, part.end.manifest, chunks, part.end.checksum)
            checkpoint.snapshots = [*checkpoint.snapshots, stored][-KEPT_SNAPSHOTS:]
        return True

    # ----------------------------------------------------------------- readers

    def decisions(self) -> Sequence[Decision]:
        """Return all decisions, in the order in which they were committed."""
        return list(self._committed().decisions)

    def leadership(self) -> InMemoryLedger:
        """Return the signs of life of the process that holds the epoch: they are here, too."""
        return self

    def pulse(self) -> Pulse | None:
        """Return the last sign of life."""
        self._database.before("pulse")
        held = self._committed()
        return None if held.record is None else Pulse(held.record.epoch, held.record.commits, held.beats)

    def beat(self, epoch: int, beats: int) -> None:
        """Record a sign of life under ``epoch``.

        Raises:
          SupersededError: another epoch holds the pipeline.
        """
        with self._database.begin() as transaction:
            checkpoint, record = self._within(transaction), self._record(transaction)
            self._check(checkpoint, record, epoch, record.commits)
            checkpoint.beats = beats

    def decisions_after(self, number: int) -> Sequence[tuple[int, Decision]]:
        """Return the decisions after that one, with their numbers."""
        held = self._committed()
        numbered = [(held.decision_numbers[_point(each)], each) for each in held.decisions]
        return [(at, each) for at, each in numbered if at > number]

    def writer(self) -> Writer | None:
        """Return the session that holds the record."""
        return self._database.writer()

    def end_writer(self, writer: Writer) -> None:
        """End the session that holds the record."""
        self._database.writer = lambda: None

    def outbox(self, relation: str) -> InMemoryOutbox:
        """Return the outbox of a foreign stream."""
        return InMemoryOutbox(self._database, self._pipeline, relation)

    def statements(self) -> InMemoryStatements:
        """Return the statements that are sent to the running pipeline."""
        return InMemoryStatements(self._database, self._pipeline, self._clock)

    def accounts(self) -> Sequence[KeptAccount]:
        """Return all accounts as of the last commit."""
        accounts = self._committed().accounts
        return [accounts[key] for key in sorted(accounts)]

    def snapshots(self) -> Sequence[SnapshotEntry]:
        """Return the stored snapshots, the newest first."""
        return [each.entry for each in reversed(self._committed().snapshots)]

    def newest_snapshot(self) -> KeptSnapshot | None:
        """Return the newest snapshot that this version can read; snapshots in memory are never damaged."""
        for each in reversed(self._committed().snapshots):
            if why_unreadable(each.manifest) is None:
                found = snapshot_from(each.manifest, each.chunks, each.checksum)
                read = replace(found, commits=each.entry.commits)
                return gathered(read, self._database, self.snapshots)
        return None

    def parts_folder(self) -> str:
        """Return the folder of the pipeline in any store of state in parts."""
        with self._database.begin() as transaction:
            checkpoint = self._within(transaction)
            if checkpoint.parts_folder is None:
                checkpoint.parts_folder = new_folder()
            return checkpoint.parts_folder

    def known_parts_folder(self) -> str | None:
        """Return the same; None: nothing has asked for it before."""
        return self._committed().parts_folder

    def named_blobs(self) -> Sequence[str]:
        """Return the names of the blobs that the stored snapshots name."""
        return [name for each in self._committed().snapshots for name in blobs_in(each.manifest)]

    def errors(self, wanted: ErrorFilter = ALL_ERRORS, limit: int | None = 100) -> Sequence[StoredError]:
        """Return committed error rows, the oldest first."""
        found = (each for each in self._committed().stored_errors if _is_wanted(each, wanted))
        return list(islice(found, limit))

    def pending_errors(self) -> PendingErrors:
        """Count the error rows that are not resubmitted."""
        stored = self._committed().stored_errors
        pending = Counter(each.row.relation for each in stored if each.resubmitted is None)
        return PendingErrors(
            dict(sorted(pending.items())), max((each.error_id for each in stored), default=None)
        )

    def refused_within(self, transaction: Transaction, table: str) -> Sequence[tuple[int | None, str | None]]:
        """Return rowtime and JSON of the rows that a foreign table refused."""
        wanted = ErrorFilter(relation=table, reason="CONSTRAINT")
        stored = self._within(transaction).stored_errors
        return [(each.row.rowtime, each.row.row) for each in stored if _is_wanted(each, wanted)]

    def resubmit(self, rows: Sequence[StoredError]) -> int:
        """Mark error rows as resubmitted, and return the number of resubmissions.

        Raises:
          OvertakenError: one of them was resubmitted in the meantime; nothing has changed.
        """
        with self._database.begin() as transaction:
            checkpoint = self._within(transaction)
            stored = {each.error_id: each for each in checkpoint.stored_errors}
            last = number = max((each.resubmitted or 0 for each in stored.values()), default=0)
            for group in together(rows):
                number += 1
                for each in group:
                    if stored[each.error_id].resubmitted is not None:
                        raise OvertakenError(
                            "some of the error rows were resubmitted by another command; nothing has changed"
                        )
                    stored[each.error_id] = replace(
                        each, resubmitted=number, resubmitted_at_ms=self._clock.now_ms()
                    )
            checkpoint.stored_errors = list(stored.values())
        return number - last

    def resubmissions(self) -> Sequence[Resubmission]:
        """Return the resubmissions, in order."""
        found = {
            each.resubmitted: Resubmission(
                each.resubmitted, each.row.stream, each.row.relation, entered=each.row.row is not None
            )
            for each in self._committed().stored_errors
            if each.resubmitted is not None and each.row.stream is not None
        }
        return [found[number] for number in sorted(found)]

    def resubmitted(self, number: int) -> Sequence[StoredError]:
        """Return the rows of one resubmission in the order of their rowtimes."""
        rows = [each for each in self._committed().stored_errors if each.resubmitted == number]
        return sorted(rows, key=lambda each: (each.row.rowtime or 0, each.error_id))

    def drop(self) -> bool:
        """Drop the pipeline; return whether it existed."""
        with self._database.begin() as transaction:
            for key in [each for each in transaction.contents.outboxes if each[0] == self._pipeline]:
                del transaction.contents.outboxes[key]
            sent = transaction.contents.statements
            for number in [each for each, (pipeline, *_) in sent.items() if pipeline == self._pipeline]:
                del sent[number]
            return transaction.contents.checkpoints.pop(self._pipeline, Checkpoint()).record is not None

    def _claimed(self, transaction: Transaction, digest: str, holder: str) -> Record:
        checkpoint = self._within(transaction)
        record = checkpoint.record or Record(0, "", 0, digest, (), None)
        checkpoint.claimed_at_ms = self._clock.now_ms()
        checkpoint.record = replace(record, epoch=record.epoch + 1, holder=holder)
        return checkpoint.record

    def _committed(self) -> Checkpoint:
        return self._database.contents.checkpoints.get(self._pipeline, Checkpoint())

    def _within(self, transaction: Transaction) -> Checkpoint:
        if not isinstance(transaction, InMemoryTransaction):
            raise FaultError("the checkpoint in memory takes part in transactions in memory only")
        return transaction.contents.checkpoints.setdefault(self._pipeline, Checkpoint())

    def _record(self, transaction: Transaction) -> Record:
        record = self._within(transaction).record
        if record is None:
            raise FaultError(f'pipeline "{self._pipeline}" no longer exists in the checkpoint')
        return record

    def _check(self, checkpoint: Checkpoint, record: Record, epoch: int, commits: int) -> None:
        error = why_not_ours(
            self._pipeline,
            found=(record.epoch, record.commits),
            ours=(epoch, commits),
            taken=f"{record.holder} at {time_text(checkpoint.claimed_at_ms)} UTC",
        )
        if error is not None:
            raise error


def _point(decision: Decision) -> tuple[object, ...]:
    return decision.kind, decision.relation, decision.partition, decision.next_offset, decision.reader


def _is_wanted(stored: StoredError, wanted: ErrorFilter) -> bool:
    row, word = stored.row, wanted.reason
    return (
        stored.error_id > wanted.after
        and (not wanted.numbers or stored.error_id in wanted.numbers)
        and wanted.kind in (None, row.kind)
        and wanted.relation in (None, row.relation)
        and (word is None or row.reason == word or row.reason.startswith(f"{word}:"))
        and not (wanted.pending and stored.resubmitted is not None)
    )
