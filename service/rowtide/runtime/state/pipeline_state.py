"""The state of a pipeline in a process: the flow, and what it has processed since the last commit.

Owned by one thread. Deliveries enter, the flow drains, output rows and faults
gather. ``cut`` takes all of it as one commit. During recovery and ``--compare``
the same rows take the same path, and the output is used otherwise.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

import pyarrow as pa

from rowtide.checkpoint.ledger import (
    RESET,
    Decision,
    ErrorRow,
    KeptAccount,
    KeptSnapshot,
    PartitionId,
    PartitionPosition,
    jump_of,
)
from rowtide.checkpoint.statement_log import Settled, StatementChange
from rowtide.errors import BoundRegressionError, FaultError, Reason, StatementError
from rowtide.flow.flow import Flow
from rowtide.flow.gates import Target
from rowtide.flow.latest_trays import LatestTrays
from rowtide.flow.table_changes import LastStatement
from rowtide.operators.contract import Fault, RowCounts
from rowtide.plan.nodes import Node
from rowtide.plan.plan import ForeignStream, ForeignTable
from rowtide.rows.tray import Tray, tray_schema
from rowtide.rowtime.bound import EARLIEST, LATEST, Bound
from rowtide.runtime.ingest.idle import IDLE
from rowtide.runtime.ingest.intake import Delivery, ExplicitBound
from rowtide.runtime.state.deadletters import RecentMessages
from rowtide.runtime.state.following import Followers
from rowtide.runtime.state.output import TableOutput, Writes
from rowtide.runtime.state.stream_output import Sends, StreamOutput
from rowtide.runtime.state.written_order import WrittenOrder
from rowtide_connectors.api import Transaction

SOURCE_PART, OPERATORS_PART, TABLE_PART = "SOURCE", "OPERATORS", "TABLE"
"""The parts of the accounts."""
JOIN = "JOIN"
"""The kind of the decisions by which a partition joins."""
_JOINED = "the pipeline has got another partition: ask again"


@dataclass(slots=True)
class IntakeAccount:
    """The account of the messages of one foreign stream, before the flow (law 4)."""

    messages: int = 0
    rows: int = 0
    bounds: int = 0
    rejected: int = 0

    @classmethod
    def of(cls, kept: KeptAccount) -> IntakeAccount:
        """Return the account that a commit has."""
        return cls(kept.rows_in, kept.done, kept.filtered, kept.rejected)

    def kept(self, relation: str) -> KeptAccount:
        """Return it as a commit has it."""
        return KeptAccount(
            SOURCE_PART, relation, self.messages, self.rows, self.bounds, 0, self.rejected, 0, self.rows
        )

    def check(self, relation: str) -> None:
        """Check that every message became a row, a bound or an error row.

        Raises:
          FaultError: naming the stream and its numbers.
        """
        if self.messages != self.rows + self.bounds + self.rejected:
            raise FaultError(
                f'messages of "{relation}" are not accounted for: {self.messages} in, {self.rows} rows, '
                f"{self.bounds} bounds, {self.rejected} rejected"
            )


@dataclass(frozen=True, slots=True)
class CommitBatch:
    """The content of one commit: the rows that became final since the last one, and their positions.

    For a backfill: ``moves`` move staged rows of the database to their tables, ``error_rows`` are
    prepared error rows, in chunks.
    """

    writes: Iterable[Writes]
    faults: tuple[Fault, ...]
    partition_positions: tuple[PartitionPosition, ...]
    snapshot: KeptSnapshot | None
    messages: int
    decisions: tuple[Decision, ...] = ()
    moves: Sequence[Callable[[Transaction], None]] = ()
    error_rows: Iterable[Sequence[ErrorRow]] = ()
    sends: Sequence[Sends] = ()
    """Messages for foreign streams."""
    moved_rows: Mapping[str, int] = field(default_factory=dict)
    """The number of rows that ``moves`` bring to each table, if it is known."""
    statements: Sequence[Settled] = ()
    """The outcomes of statements that were sent."""
    accounts: Callable[[], Sequence[KeptAccount]] = tuple
    """Returns the changed accounts. Called during the commit, because the database may still refuse rows."""


class PipelineState:
    """A flow between its sources and its tables.

    Args:
      flow: the flow of ``plan.outputs.table_nodes``: its outputs are foreign tables and streams by name.
      targets: the foreign tables, and the foreign streams that pumps write to.
      partition_positions: the recorded position of each partition. Recovery moves the flow there.
      sends: False: rows for foreign streams are counted, and not encoded.
    """

    def __init__(
        self,
        flow: Flow,
        targets: Sequence[ForeignTable | ForeignStream],
        partition_positions: Sequence[PartitionPosition],
        *,
        sends: bool = True,
    ) -> None:
        self.flow = flow
        self.recent = RecentMessages()
        self.followers = Followers()
        self.latest: LatestTrays | None = None
        """The last rows of each relation; None: they are not kept."""
        self.outputs: dict[str, TableOutput | StreamOutput] = {
            each.name: TableOutput(each)
            if isinstance(each, ForeignTable)
            else StreamOutput(each, sends=sends)
            for each in targets
        }
        self._in_order = WrittenOrder(targets, list(flow.program.outputs))
        self.accounts: dict[str, IntakeAccount] = {}
        self.messages = self.raw_bytes = 0
        self.span: tuple[int, int] | None = None
        """Range of rowtimes, from (included) and to (excluded), of rows for the tables; None: all rows."""
        self._sizes: dict[str, tuple[int, int]] = {}
        self._partition_positions = {position.place: position for position in partition_positions}
        self._positions = {position.place: position.next_offset for position in partition_positions}
        self._moved: set[PartitionId] = set()
        self._faults: list[Fault] = []
        self._decisions: dict[tuple[str, PartitionId, int, str | None], Decision] = {}
        self._settled: list[Settled] = []
        self._kept_accounts: Mapping[tuple[str, str], KeptAccount] = {}
        self._latest_accounts: Mapping[tuple[str, str], KeptAccount] = {}
        self.counts = flow.counts()
        """The counts of the flow's steps as of the last cut, or of the start."""
        self._kept_sums: Mapping[str, RowCounts] = {}
        self._latest_sums: Mapping[str, RowCounts] = {}

    def keep_latest(self, nodes: Mapping[str, Node], now_ms: int) -> None:
        """Keep the last rows of relations and outputs from now on (ms since 1970)."""
        self.latest = LatestTrays(nodes, now_ms)
        self.latest.follow(self.flow)

    @property
    def positions(self) -> Mapping[PartitionId, int]:
        """The next offset of each partition, after everything that has entered."""
        return self._positions

    @property
    def has_moved(self) -> bool:
        """Return whether there is anything to commit."""
        return bool(self._moved) or self.gathered > 0 or bool(self._decisions) or self.is_awaited

    @property
    def is_awaited(self) -> bool:
        """Return whether somebody waits for the commit: it has the outcome of a statement."""
        return bool(self._settled)

    @property
    def gathered(self) -> int:
        """Count the output and error rows that wait for the commit."""
        return sum(map(len, self.outputs.values())) + len(self._faults)

    def mean_bytes(self, relation: str) -> float:
        """Return the mean size of a foreign stream's messages so far, in bytes of values; 0: no messages."""
        messages, size = self._sizes.get(relation, (0, 0))
        return size / messages if messages else 0.0

    def held(self) -> int:
        """Count the rows that the flow holds."""
        return self.flow.held()

    def source_of(self, origin: int) -> PartitionId | None:
        """Return the partition of an origin; None where an operator made the row."""
        return self.flow.source_of(origin)

    def place_at(self, positions: Mapping[PartitionId, int]) -> None:
        """Set the positions of the partitions before anything has entered, where recovery begins."""
        self._positions = dict(positions)

    def enter(self, delivery: Delivery) -> None:
        """Let a delivery enter the flow. ``drain`` processes it.

        Raises:
          FaultError: the delivery is not the partition's next.
        """
        place = (delivery.relation, delivery.partition)
        offsets = delivery.messages.offsets
        if len(offsets) and int(offsets[0]) < self._positions[place]:
            raise FaultError(
                f'partition {delivery.partition} of "{delivery.relation}" delivered offset {offsets[0]} again: '
                f"its position is {self._positions[place]}"
            )
        account = self.accounts.setdefault(delivery.relation, IntakeAccount())
        faults = list(delivery.faults)
        for part in delivery.parts:
            if isinstance(part, ExplicitBound):
                fault = self._promise(place, part)
                if fault is None:
                    account.bounds += 1
                else:
                    faults.append(fault)
            else:
                self.flow.insert(delivery.relation, delivery.partition, part)
                self.followers.insert(place, part)
                account.rows += len(part)
        account.rejected += len(faults)
        account.messages += len(delivery)
        self.messages += len(delivery)
        self.raw_bytes += delivery.raw_bytes
        messages, size = self._sizes.get(delivery.relation, (0, 0))
        self._sizes[delivery.relation] = (messages + len(delivery), size + delivery.raw_bytes)
        self._faults += faults
        self.recent.add(delivery.relation, delivery.messages)
        self._positions[place] = delivery.next_offset
        self._moved.add(place)

    def obey(self, decision: Decision) -> None:
        """Apply a decision at the current position of its partition. ``drain`` processes it."""
        place = (decision.relation, decision.partition)
        if decision.kind == RESET:
            self.flow.jump(*jump_of(decision))
        elif decision.kind == IDLE and decision.bound is not None:
            self.flow.follow(*place, Bound(decision.bound))
            self.followers.follow(place, Bound(decision.bound))
        elif decision.bound is not None:
            self.followers.bound(place, Bound(decision.bound), decision.reader)
            # The state already contains this decision.
            with suppress(BoundRegressionError):
                if decision.reader is None:
                    self.flow.bound(*place, Bound(decision.bound))
                else:
                    self.flow.promise(decision.reader, Bound(decision.bound))
        self._decisions[decision.kind, place, decision.next_offset, decision.reader] = decision

    def settle(self, settled: Settled) -> None:
        """Apply what a statement has changed, if it has; the next commit records its outcome."""
        if settled.logged is not None:
            self.change_tables(settled.logged)
        self._settled.append(settled)

    def change_tables(self, logged: StatementChange) -> bool:
        """Apply a change of tables and process it, unless the state has it; return whether it had not.

        Raises:
          StatementError: another plan logged it, and its table has other columns now.
        """
        if logged.number <= self.flow.last_statement.number:
            return False
        changes = {
            relation: _tray(self.flow, relation, rows, logged.number)
            for relation, rows in logged.changes.items()
            if self.flow.reads(relation)
        }
        statement = LastStatement(logged.number, logged.rowtime)
        # Statements before it, and rows that have entered, come first.
        self.drain()
        self.flow.change_tables(statement, changes)
        self.followers.change_tables(statement, changes)
        self.drain()
        return True

    def join(
        self,
        partition: PartitionId,
        topic: str,
        start_offset: int,
        target: Target | None = None,
        *,
        topic_id: str | None = None,
    ) -> int | None:
        """Add a new partition, from ``start_offset`` on; return its bound (ms).

        Its rows may not be below the bound of the stream's other partitions
        (docs/sql/semantics.md#new-partitions): this is a decision, one for each judge of its
        lateness. ``enter`` adds its messages. ``target`` is the target of its rows, if they are
        resubmitted. ``topic_id`` None: that of the stream's other partitions.
        """
        self.drain()
        self.followers.end(_JOINED)
        relation, number = partition
        self._continue(
            self.flow.widened(
                _partitions({*self._positions, partition}), {} if target is None else {partition: target}
            )
        )
        self._positions[partition] = start_offset
        known = (each.topic_id for each in self._partition_positions.values() if each.relation == relation)
        self._partition_positions[partition] = PartitionPosition(
            relation, topic, number, start_offset, start_offset, None, topic_id or next(known, None)
        )
        self._moved.add(partition)
        judges = self.flow.judges(relation, number)
        bounds = {reader: None if bound == EARLIEST else bound for reader, bound in judges.items()}
        self.obey(Decision(JOIN, relation, number, start_offset, None))
        for reader, bound in bounds.items():
            self.obey(Decision(JOIN, relation, number, start_offset, bound, reader))
        self.drain()
        return min((bound for bound in bounds.values() if bound is not None), default=None)

    def rebase(
        self, partition_positions: Sequence[PartitionPosition], targets: Mapping[PartitionId, Target]
    ) -> None:
        """Take over what another process has committed: its partitions, and the positions of its last commit.

        Everything must have been drained. The bounds of partitions that have joined are decisions of the log,
        and must be obeyed before the next ``drain``. ``targets`` are those of resubmitted rows.
        """
        committed = {each.place: each for each in partition_positions}
        joined = committed.keys() - self._positions.keys()
        self._partition_positions = committed
        if not joined:
            return
        self.followers.end(_JOINED)
        self._continue(
            self.flow.widened(
                _partitions({*self._positions, *joined}),
                {each: targets[each] for each in joined & targets.keys()},
            )
        )
        self._positions.update({place: committed[place].start_offset for place in joined})

    def go_on(
        self, flow: Flow, partition_positions: Iterable[PartitionPosition], accounts: Sequence[KeptAccount]
    ) -> None:
        """Continue from the flow that Spark has brought to committed positions, with all accounts of that commit.

        Everything must have been drained and committed before Spark began.
        """
        self._continue(flow)
        self.counts = flow.counts()
        for each in partition_positions:
            self._partition_positions[each.place] = each
            self._positions[each.place] = each.next_offset
        self.continue_accounts(accounts)

    def drain(self) -> None:
        """Process what has entered; output rows and faults gather."""
        emitted = self.flow.drain()
        self.followers.drain()
        self._faults += emitted.faults
        for table, trays in emitted.outputs.items():
            if trays:
                self._faults += self.outputs[table].add([self._within(tray) for tray in trays])

    def _within(self, tray: Tray) -> Tray:
        if self.span is None:
            return tray
        begin, end = self.span
        return tray.where((tray.rowtime >= begin) & (tray.rowtime < end))

    def drop(self) -> None:
        """Drop what has gathered: it was committed before (recovery), or is not needed."""
        self._settle()
        for output in self.outputs.values():
            output.take()
        self._faults = []
        self._decisions.clear()
        self._settled.clear()
        self._moved.clear()
        self.messages = self.raw_bytes = 0
        self.recent.forget()

    def check(self) -> None:
        """Count the rows of all steps, and check law 4 everywhere.

        Raises:
          FaultError: a row or message is not accounted for.
        """
        self.counts = self.flow.counts()
        for relation, account in self.accounts.items():
            account.check(relation)
        for name, output in self.outputs.items():
            output.account.check(name, 0)

    def partition_positions(self) -> tuple[PartitionPosition, ...]:
        """Return the position and current bound of every partition."""
        bounds = self.flow.bounds()
        return tuple(
            PartitionPosition(
                held.relation,
                held.topic,
                held.partition,
                self._positions[place],
                held.start_offset,
                None if (bound := bounds.get(place, EARLIEST)) in (EARLIEST, LATEST) else bound,
                held.topic_id,
            )
            for place, held in self._partition_positions.items()
        )

    def cut(self, *, with_snapshot: bool) -> CommitBatch:
        """Take everything since the last cut as one commit. Everything must have been drained.

        Raises:
          FaultError: law 4 does not hold.
        """
        self.check()
        self._settle()
        partition_positions = self.partition_positions()
        moved = tuple(
            position
            for position in partition_positions
            if position.place in self._moved or self._differs(position)
        )
        taken = [output.take() for output in self.outputs.values()]
        result = CommitBatch(
            writes=self._in_order([each for each in taken if isinstance(each, Writes)], self.flow.ranks),
            faults=tuple(self._faults),
            partition_positions=moved,
            snapshot=KeptSnapshot(dict(self._positions), self.flow.snapshot()) if with_snapshot else None,
            messages=self.messages,
            decisions=tuple(self._decisions.values()),
            statements=tuple(self._settled),
            sends=tuple(each for each in taken if isinstance(each, Sends)),
            accounts=self._changed_accounts,
        )
        # Decisions before this cut are committed by now.
        self._kept_accounts, self._kept_sums = self._latest_accounts, self._latest_sums
        self._partition_positions.update((position.place, position) for position in moved)
        self._faults = []
        self._decisions.clear()
        self._settled.clear()
        self._moved.clear()
        self.messages = self.raw_bytes = 0
        return result

    def continue_accounts(self, accounts: Sequence[KeptAccount]) -> None:
        """Continue the accounts of the last commit, because a replay has not read everything again."""
        for each in accounts:
            if each.part == SOURCE_PART:
                self.accounts[each.relation] = IntakeAccount.of(each)
            elif each.part == TABLE_PART and each.relation in self.outputs:
                account = self.outputs[each.relation].account
                account.rows_in, account.done, account.rejected = each.rows_in, each.done, each.rejected
        self._latest_accounts = {(each.part, each.relation): each for each in accounts}
        self._latest_sums = {}

    def kept_accounts(self) -> Sequence[KeptAccount]:
        """Return all accounts as of the last commit."""
        return tuple(self._latest_accounts.values())

    def _changed_accounts(self) -> Sequence[KeptAccount]:
        """Return the accounts that have changed since the last commit."""
        now = [each.kept(relation) for relation, each in self.accounts.items()]
        now += [
            kept_account(OPERATORS_PART, name, counts)
            for name, counts in self.counts.sums.items()
            if self._kept_sums.get(name) != counts
        ]
        now += [
            kept_account(TABLE_PART, name, output.account.counts()) for name, output in self.outputs.items()
        ]
        self._latest_sums = self.counts.sums
        self._latest_accounts = {**self._kept_accounts, **{(each.part, each.relation): each for each in now}}
        return [each for each in now if self._kept_accounts.get((each.part, each.relation)) != each]

    def _continue(self, flow: Flow) -> None:
        self.flow = flow
        if self.latest is not None:
            self.latest.follow(flow)

    def _settle(self) -> None:
        if self.latest is not None:
            self.latest.settle()

    def _differs(self, position: PartitionPosition) -> bool:
        return self._partition_positions[position.place] != position

    def _promise(self, partition: PartitionId, mark: ExplicitBound) -> Fault | None:
        relation, number = partition
        try:
            self.flow.bound(relation, number, mark.bound)
            self.followers.bound(partition, mark.bound)
        except BoundRegressionError as error:
            origin = self.flow.origin(relation, number)
            return Fault(
                relation, Reason.BOUND, error.message, mark.timestamp, origin, mark.offset, bound=error.held
            )
        return None


def _partitions(places: Iterable[PartitionId]) -> dict[str, list[int]]:
    """Return the partitions of each relation, in order."""
    found: dict[str, list[int]] = {}
    for relation, partition in sorted(places):
        found.setdefault(relation, []).append(partition)
    return found


def _tray(flow: Flow, relation: str, rows: pa.Table, number: int) -> Tray:
    row_type = flow.source_type(relation)
    if not rows.schema.equals(tray_schema(row_type)):
        raise StatementError(
            f'statement {number} changed table "{relation}" when it had other columns',
            hint="Its changes cannot be replayed under this plan.",
        )
    return Tray.from_arrow(row_type, rows)


def kept_account(part: str, relation: str, counts: RowCounts) -> KeptAccount:
    """Return an account as a commit has it."""
    return KeptAccount(
        part,
        relation,
        counts.rows_in,
        counts.done,
        counts.filtered,
        counts.late,
        counts.rejected,
        counts.held,
        counts.rows_out,
    )
