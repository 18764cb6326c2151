"""One pipeline as a service: start (claim, recover), run, stop.

A start that is refused (another plan, ``--from`` over committed positions, an
aged-out log) changes nothing and leaves a running process alone: the epoch is
taken only after everything that can be looked at has been looked at.
"""

from __future__ import annotations

import os
import random
import socket
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TypeVar

import structlog

from rowtide.checkpoint.ledger import Ledger, PartitionId, PartitionPosition, Record, StoredError
from rowtide.clock import Clock
from rowtide.codec.registry import DEFAULT_FORMAT, decoder_for
from rowtide.errors import StatementError, TransientError
from rowtide.flow.flow import Flow
from rowtide.flow.gates import Target
from rowtide.operators.contract import RESUBMITTED
from rowtide.plan.nodes import Node
from rowtide.plan.outputs import table_nodes
from rowtide.plan.plan import ForeignStream, Plan
from rowtide.runtime.commit.commit import Committer
from rowtide.runtime.commit.crashpoints import CrashPoints, NoCrash
from rowtide.runtime.commit.retry import Retry
from rowtide.runtime.configured import takes_append_times
from rowtide.runtime.ingest.append_times import LOOK_UP_S as APPEND_LOOK_UP_S
from rowtide.runtime.ingest.append_times import AppendTimes, by_message_time
from rowtide.runtime.ingest.backpressure import MAX_HELD_BYTES, MAX_HELD_ROWS, Backpressure
from rowtide.runtime.ingest.idle import LOOK_UPS_A_TIMEOUT, DecisionLog, IdleWatch, idle_timeouts
from rowtide.runtime.ingest.inbox import QUEUE_BYTES, QUEUE_MESSAGES, DirectInbox, Inbox, ThreadedInbox
from rowtide.runtime.ingest.intake import LOOK_UP_S, POLL_MESSAGES, Channel, StreamReader, check_identity
from rowtide.runtime.ingest.joining import Newcomers
from rowtide.runtime.ingest.resubmission import let_in, topic_places
from rowtide.runtime.inspect.facts import gathered
from rowtide.runtime.inspect.state import SnapshotTaken, TableContents, table_contents
from rowtide.runtime.inspect.status import DATABASE, StatusBoard, broker_of
from rowtide.runtime.inspect.why_not import SilenceExplanation, answer, not_running
from rowtide.runtime.live.following import Follower
from rowtide.runtime.live.live import Live, Observer, Pace, Unobserved, Watching
from rowtide.runtime.live.loading import load_ahead
from rowtide.runtime.live.questions import Questions
from rowtide.runtime.live.read_loop import ClockDecisions
from rowtide.runtime.live.work import PipelineState
from rowtide.runtime.recovery.begin import (
    Begin,
    StartEdge,
    StartTimestamp,
    first_offsets,
    prepare_tables,
    refuse_start,
)
from rowtide.runtime.recovery.digest import dumped, plan_digests
from rowtide.runtime.recovery.newest import NewestSnapshot
from rowtide.runtime.recovery.recovery import (
    begin_of_replay,
    check_compacted,
    check_ranges,
    flow_at,
    identities_of,
    replay,
    telling_progress,
    usable,
)
from rowtide.runtime.recovery.seam import Seam
from rowtide.runtime.recovery.skipping import Skipped, skipped_of
from rowtide_connectors.api import Database, OffsetRange, TopicSource

Result = TypeVar("Result")

START_COMMITS = 1
"""The commit that records where a pipeline begins; all after it are of rows."""

_log = structlog.get_logger("rowtide")


@dataclass(frozen=True, slots=True)
class Equipment:
    """What a pipeline runs on: its parts outside the process, and time.

    ``sources`` has the source of each foreign stream that a pump reads. ``wait`` False: a dependency
    that is down ends the service. ``recreate_tables``: output tables that are missing are created again where
    positions are committed. ``threads`` False reads in the main thread, for simulations.
    """

    name: str
    plan: Plan
    sources: Mapping[str, TopicSource]
    database: Database
    ledger: Ledger
    clock: Clock
    pace: Pace
    stopping: Callable[[], bool]
    rng: random.Random = field(default_factory=random.Random)
    wait: bool = True
    recreate_tables: bool = False
    threads: bool = True
    crash_points: CrashPoints = field(default_factory=NoCrash)
    observer: Observer = field(default_factory=Unobserved)
    max_held_rows: int = MAX_HELD_ROWS
    max_held_bytes: int = MAX_HELD_BYTES
    poll_messages: int = POLL_MESSAGES
    queue_messages: int = QUEUE_MESSAGES
    queue_bytes: int = QUEUE_BYTES


class Service:
    """One process's run of a pipeline."""

    def __init__(self, equipment: Equipment) -> None:
        self._equipment = equipment
        self._streams = {
            stream.name: stream
            for stream in equipment.plan.foreign_streams
            if stream.name in equipment.sources
        }
        self.board = StatusBoard(equipment.name, equipment.clock, equipment.observer.entered_phase)
        self._idle_timeouts = idle_timeouts(self._streams.values())
        self._idle = IdleWatch({}, (), equipment.clock)
        self._append_times = AppendTimes(())
        self._newcomers = Newcomers()
        self._compacted: Mapping[str, str] = {}
        self._identities: Mapping[str, str] = {}
        self._skipped: Skipped = {}
        self._created: Sequence[str] = ()
        self._newest = NewestSnapshot(equipment.ledger)
        self._questions = Questions()
        self._work: PipelineState | None = None
        self._snapshot: Callable[[], SnapshotTaken] | None = None
        self._backpressure = self.new_backpressure()
        self._ask_again = 0.0
        self._database_retry = self._retry(DATABASE, beats=True)
        self._broker_retry = self._retry("broker", beats=True)

    def run(self, begin: Begin = StartEdge.WATERMARK, *, until_end: bool = False) -> None:
        """Start, then go on until told to stop or, with ``until_end``, to the ends that there are now.

        Raises:
          StatementError: the start is refused; nothing has changed.
          SupersededError: another process took the pipeline.
          TransientError: a dependency is down and waiting is not wanted.
          StoppedError: told to stop while a dependency was down; nothing uncommitted was kept.
          FaultError: an invariant broke.
        """
        equipment = self._equipment
        if equipment.threads:
            load_ahead(list(equipment.sources.values()))
        record, ranges = self._start(begin)
        work, committer = self._recover(record, ranges)
        if equipment.stopping():
            return
        self.board.enter("running")
        decisions = self.watch(work)
        for relation, held in ranges.items():
            self._note_ranges(relation, held)
        self._let_in(work)
        self._resubmit(work)
        inbox = self.open_inbox(work.positions, self.channels(work.flow))
        self._work = work
        live = Live(
            work=work,
            inbox=inbox,
            committer=committer,
            pace=equipment.pace,
            clock=equipment.clock,
            stopping=self._is_stopping,
            admit=lambda: self._admit(work, inbox),
            carries_state=bool(self._compacted),
            crash_points=equipment.crash_points,
            backpressure=self._backpressure,
            decisions=decisions,
            observer=Watching(self.board, equipment.observer, work, self._created),
            questions=self._questions,
            # A run to the end leaves the rest of history, if there is more, to the next one.
            seam=None if until_end else Seam(_ends(ranges), equipment.clock),
        )
        self._snapshot = lambda: self._take_snapshot(live, committer)
        _log.info("running", pipeline=equipment.name, epoch=record.epoch, commits=record.commits)
        try:
            live.run(_ends(ranges) if until_end else None)
            self.board.enter("stopping")
        finally:
            work.followers.end("the service stops")
            equipment.crash_points.reach("stop.before_close")
            inbox.close()
        summary = self.board.status().summary
        fields = {} if summary is None else summary.fields()
        _log.info("stopped", pipeline=equipment.name, epoch=record.epoch, commits=committer.commits, **fields)

    def watch(self, work: PipelineState) -> ClockDecisions:
        """Return what notices silent partitions of ``work``, from now on."""
        self._idle = IdleWatch(self._idle_timeouts, topic_places(work.positions), self._equipment.clock)
        return ClockDecisions(self._idle, self._append_times)

    def stand(self) -> tuple[Record, PipelineState]:
        """Take the pipeline and bring it to its committed positions, without going on.

        Raises:
          As ``run``.
        """
        record, ranges = self._start(StartEdge.WATERMARK)
        work, _ = self._recover(record, ranges)
        return record, work

    def committer(self, record: Record, work: PipelineState) -> Committer:
        """Return what commits cuts of ``work`` under the epoch of ``record``."""
        return self._committer(record, work.source_of)

    def why_not(self, relation: str) -> SilenceExplanation:
        """Return why ``relation`` (its catalog name) is silent; called by any thread.

        Raises:
          StatementError: the pipeline has no such relation.
          TransientError: the main loop did not come round in time.
        """
        plan, shown = self._equipment.plan, self.board.status()
        nodes = dict(plan.relations)
        if relation not in nodes and relation not in {table.name for table in plan.foreign_tables}:
            raise StatementError(
                f'relation "{relation}" does not exist in pipeline "{self._equipment.name}"',
                hint="It is named as in the catalog: upper case unless quoted.",
            )
        if self._work is None or shown.phase in ("starting", "recovering", "stopping"):
            return not_running(self._equipment.name, relation, shown.phase, shown.waits_for)
        return self._questions.ask(
            lambda work: answer(
                self._equipment.name,
                relation,
                work.flow.why_not(relation, nodes.get(relation)),
                gathered(
                    work,
                    self._equipment.plan,
                    {name: source.topic for name, source in self._equipment.sources.items()},
                    self.board,
                    self._backpressure.paused,
                    self._idle,
                ),
            )
        )

    def snapshot(self) -> SnapshotTaken:
        """Commit now, with a snapshot; called by any thread.

        Raises:
          TransientError: the pipeline does not run yet, or did not come round in time.
        """
        take = self._snapshot
        if take is None:
            raise TransientError(
                f'pipeline "{self._equipment.name}" is {self.board.status().phase}',
                hint="Ask again when it runs.",
            )
        return self._questions.ask(lambda _work: take())

    def _take_snapshot(self, live: Live, committer: Committer) -> SnapshotTaken:
        live.commit(with_snapshot=True)
        stored = committer.stored
        return SnapshotTaken(self._equipment.name, committer.commits, stored.size_bytes, stored.seconds)

    def follow(self, node: Node, *, once: bool = False) -> Follower:
        """Let a query look on while the pipeline runs, or see once what is there; called by any thread.

        Raises:
          StatementError: there are too many, or it cannot begin here.
          TransientError: the pipeline does not run, or did not come round in time.
        """
        return self._questions.ask(
            lambda work: work.followers.add(node, work.flow, list(work.positions), once=once)
        )

    def contents(self, relation: str, limit: int) -> TableContents:
        """Return rows of an engine table as it is now; called by any thread.

        Raises:
          StatementError: there is no such table.
          TransientError: the main loop did not come round in time.
        """
        return self._questions.ask(lambda work: table_contents(work.flow, relation, limit))

    def _start(self, begin: Begin) -> tuple[Record, Mapping[str, Mapping[int, OffsetRange]]]:
        """Look at everything, refuse what must be refused, take the epoch; give the record and ranges."""
        equipment = self._equipment
        if not equipment.plan.pumps:
            raise StatementError(
                "no pump writes to a foreign table, so there is nothing to run",
                hint="CREATE PUMP name STARTED AS INSERT INTO a foreign table SELECT .. makes one.",
            )
        digests = plan_digests(equipment.plan)
        record = self._database_retry.call(equipment.ledger.read)
        if record is not None and record.standings:
            refuse_start(equipment.name, record, digests, begin)
        ranges = {
            relation: self._broker_retry.call(source.ranges)
            for relation, source in sorted(equipment.sources.items())
        }
        self._compacted = {
            relation: source.topic
            for relation, source in sorted(equipment.sources.items())
            if self._broker_retry.call(source.is_compacted)
        }
        self._append_times = AppendTimes(
            [
                relation
                for relation in sorted(by_message_time(equipment.plan) & equipment.sources.keys())
                if takes_append_times(self._streams[relation])
                and self._broker_retry.call(equipment.sources[relation].has_append_times)
            ]
        )
        if record is not None and record.standings:
            known = identities_of(record)
            for relation, source in sorted(equipment.sources.items()):
                self._broker_retry.call(partial(check_identity, source, known.get(relation)))
            self._check_log(record, ranges)
        kept = record is not None and bool(record.standings) and not equipment.recreate_tables
        self._created = self._database_retry.call(
            partial(prepare_tables, equipment.name, equipment.database, equipment.plan, kept=kept)
        )
        if self._created:
            _log.info("tables_created", pipeline=equipment.name, tables=list(self._created))
        equipment.crash_points.reach("start.before_epoch")
        holder = f"{socket.gethostname()} process {os.getpid()}"
        record = self._database_retry.call(lambda: equipment.ledger.claim(dumped(digests), holder))
        equipment.crash_points.reach("start.after_epoch")
        self.board.claimed(record.epoch)
        equipment.observer.claimed(equipment.name, record)
        if not record.standings:
            record = self._record_start(record, begin)
        self._identities = identities_of(record)
        self.board.stands(record)
        return record, ranges

    def _record_start(self, record: Record, begin: Begin) -> Record:
        """Commit where a pipeline begins that has committed nothing."""
        equipment = self._equipment
        identities = {
            relation: self._broker_retry.call(source.identity)
            for relation, source in sorted(equipment.sources.items())
        }
        standings = [
            PartitionPosition(relation, source.topic, partition, offset, offset, None, identities[relation])
            for relation, source in sorted(equipment.sources.items())
            for partition, offset in sorted(
                self._broker_retry.call(partial(first_offsets, source, begin)).items()
            )
        ]
        equipment.crash_points.reach("start.before_positions")
        self._committer(record, lambda _: None).commit_start(standings)
        equipment.crash_points.reach("start.after_positions")
        said = f"{begin.timestamp_ms} ms" if isinstance(begin, StartTimestamp) else begin.value
        _log.info("begins", pipeline=equipment.name, begin=said, partitions=len(standings))
        return Record(
            record.epoch,
            record.holder,
            record.commits + 1,
            record.digest,
            tuple(standings),
            equipment.clock.now_ms(),
        )

    def _check_log(self, record: Record, ranges: Mapping[str, Mapping[int, OffsetRange]]) -> None:
        """Refuse a start for which the log no longer holds what is needed."""
        snapshot = usable(self._database_retry.call(self._newest.look), record)
        begin = begin_of_replay(record, snapshot)
        check_ranges(record, begin, ranges)
        check_compacted(record, begin, self._compacted)

    def _recover(
        self, record: Record, ranges: Mapping[str, Mapping[int, OffsetRange]]
    ) -> tuple[PipelineState, Committer]:
        """Bring a new flow to the committed positions."""
        equipment = self._equipment
        self.board.enter("recovering")
        equipment.crash_points.reach("recovery.before_snapshot")
        snapshot = usable(self._database_retry.call(self._newest.take), record)
        resubmissions = self._database_retry.call(equipment.ledger.resubmissions)
        flow = flow_at(table_nodes(equipment.plan), record, snapshot, resubmissions)
        work = PipelineState(flow, equipment.plan.foreign_tables, record.standings)
        equipment.crash_points.reach("recovery.after_snapshot")
        begin = begin_of_replay(record, snapshot)
        check_ranges(record, begin, ranges)
        check_compacted(record, begin, self._compacted)
        if record.commits > START_COMMITS and snapshot is None:
            # What the pipeline's own INSERT statements gave came out with the first commit of rows.
            work.drain()
            work.drop()
        equipment.crash_points.reach("recovery.before_replay")
        channels = self.channels(flow)
        began = equipment.clock.monotonic()
        messages = replay(
            work,
            begin,
            record.positions(),
            decisions=DecisionLog(self._database_retry.call(equipment.ledger.decisions)),
            channels=channels,
            open_inbox=lambda positions: self.open_inbox(positions, channels),
            crash_points=equipment.crash_points,
            stopping=self._is_stopping,
            resubmitted=self.resubmitted,
            backpressure=self.new_backpressure(),
            progress=telling_progress(equipment.name, equipment.clock, work, record.positions()),
        )
        work.go_on_from(self._database_retry.call(equipment.ledger.accounts))
        equipment.crash_points.reach("recovery.after_replay")
        seconds = equipment.clock.monotonic() - began
        equipment.observer.recovered(work, seconds)
        _log.info(
            "recovered",
            pipeline=equipment.name,
            snapshot=snapshot is not None,
            replayed_messages=messages,
            held_rows=work.held(),
            seconds=round(seconds, 3),
        )
        return work, self._committer(record, work.source_of)

    def _admit(self, work: PipelineState, inbox: Inbox) -> None:
        """Let in the partitions that have appeared, and read them too."""
        for place in self._let_in(work):
            relation, partition = place
            source = self._equipment.sources[relation]
            into = channel(self._streams[relation], source, work.flow, self._skipped)
            inbox.join(into, {partition: work.positions[place]})
        if self._equipment.clock.monotonic() >= self._ask_again:
            self._resubmit(work)

    def _resubmit(self, work: PipelineState) -> None:
        """Let in the error rows that have been resubmitted since this was asked last."""
        equipment = self._equipment
        self._ask_again = equipment.clock.monotonic() + LOOK_UP_S
        for each in self._database_retry.call(equipment.ledger.resubmissions):
            if each.place in work.positions:
                continue
            source = equipment.sources[each.stream]
            bound_ms = work.join(each.place, source.topic, 0, Target(each.relation, each.entered))
            rows = self.resubmitted(each.place)
            let_in(work, channel(self._streams[each.stream], source, work.flow), each.place, rows)
            _log.info(
                "errors_resubmitted",
                number=each.number,
                stream=each.stream,
                relation=each.relation,
                rows=len(rows),
                bound_ms=bound_ms,
            )

    def resubmitted(self, place: PartitionId) -> Sequence[StoredError]:
        """Return the error rows of a resubmission."""
        number = place[1] - RESUBMITTED
        return self._database_retry.call(lambda: self._equipment.ledger.resubmitted(number))

    def _let_in(self, work: PipelineState) -> list[PartitionId]:
        """Let partitions join that topics have got since the pipeline knew them."""
        newcomers = self._newcomers.take(work.positions)
        for (relation, partition), offset in newcomers.items():
            topic = self._equipment.sources[relation].topic
            bound_ms = work.join((relation, partition), topic, offset)
            self._idle.hear((relation, partition))
            _log.info(
                "partition_joins",
                relation=relation,
                topic=topic,
                partition=partition,
                offset=offset,
                bound_ms=bound_ms,
            )
        return list(newcomers)

    def _committer(self, record: Record, source_of: Callable[[int], PartitionId | None]) -> Committer:
        return Committer(
            database=self._equipment.database,
            ledger=self._equipment.ledger,
            record=record,
            sources=self._equipment.sources,
            source_of=source_of,
            retry=self._database_retry,
            fetching=self._broker_retry,
            clock=self._equipment.clock,
            crash_points=self._equipment.crash_points,
        )

    def channels(self, flow: Flow) -> dict[str, Channel]:
        """Return, by foreign stream, how messages become rows of ``flow``."""
        self._skipped = skipped_of(self._database_retry.call(self._equipment.ledger.decisions))
        return {
            name: channel(stream, self._equipment.sources[name], flow, self._skipped)
            for name, stream in self._streams.items()
        }

    def open_inbox(self, positions: Mapping[PartitionId, int], channels: Mapping[str, Channel]) -> Inbox:
        """Open the readers of these partitions."""
        equipment = self._equipment
        intakes = []
        for relation, each in sorted(channels.items()):
            own = {
                partition: positions[name, partition]
                for name, partition in topic_places(positions)
                if name == relation
            }
            if own:
                retry = self._retry(broker_of(relation), beats=not equipment.threads)
                intake = StreamReader(
                    each,
                    own,
                    equipment.crash_points,
                    equipment.clock,
                    self._note_ranges,
                    equipment.poll_messages,
                    self._look_up_s(relation),
                    self._identities.get(relation),
                )
                intakes.append((intake, retry))
        if equipment.threads:
            return ThreadedInbox(intakes, equipment.queue_messages, equipment.queue_bytes)
        return DirectInbox(intakes, equipment.clock)

    def new_backpressure(self) -> Backpressure:
        """Return what balances the partitions by the limits of the equipment."""
        equipment = self._equipment
        return Backpressure(
            equipment.plan.pumps, equipment.clock, equipment.max_held_rows, equipment.max_held_bytes
        )

    def _retry(self, dependency: str, *, beats: bool) -> Retry:
        equipment = self._equipment
        return Retry(
            dependency,
            clock=equipment.clock,
            rng=random.Random(equipment.rng.random()),
            stopping=equipment.stopping,
            wait=equipment.wait,
            denied_ends=lambda: self.board.status().epoch is None,
            waiting=self._note_waiting if beats else self.board.waiting,
            failed=equipment.observer.retried,
        )

    def _look_up_s(self, relation: str) -> float:
        """Return how often the ends of a stream are looked up: more often where silence is to be noticed."""
        if self._append_times.watches(relation):
            return APPEND_LOOK_UP_S
        timeout_ms = self._idle_timeouts.get(relation)
        if timeout_ms is None:
            return LOOK_UP_S
        return min(LOOK_UP_S, timeout_ms / 1000 / LOOK_UPS_A_TIMEOUT)

    def _note_ranges(self, relation: str, ranges: Mapping[int, OffsetRange]) -> None:
        """Note how far partitions reach: for lag, to know silence and new ones; called by reading threads."""
        self._newcomers.look_up(relation, ranges)
        ends = _ends({relation: ranges})
        self.board.looked_up(ends)
        self._idle.look_up(ends)
        self._append_times.look_up(relation, ends)
        topics = {relation: source.topic for relation, source in self._equipment.sources.items()}
        self._equipment.observer.looked_up(topics, ends)

    def _note_waiting(self, dependency: str, is_down: bool) -> None:
        """Note a wait of the main loop: it comes round while it waits."""
        self.board.waiting(dependency, is_down)
        self.board.beat()
        if self._work is not None:
            # A commit waits: everything has been drained, and the caller that asks why need not wait too.
            self._questions.answer(self._work)

    def _is_stopping(self) -> bool:
        self.board.beat()
        return self._equipment.stopping()


def _ends(ranges: Mapping[str, Mapping[int, OffsetRange]]) -> dict[PartitionId, int]:
    return {
        (relation, partition): held.end
        for relation, partitions in ranges.items()
        for partition, held in partitions.items()
    }


def channel(
    stream: ForeignStream, source: TopicSource, flow: Flow, skipped: Skipped | None = None
) -> Channel:
    """Return how messages of a foreign stream become rows of a flow.

    Raises:
      StatementError: the stream's format does not exist or cannot carry its types.
    """
    decoder = decoder_for(dict(stream.options).get("format", DEFAULT_FORMAT), stream.name, stream.row_type)
    origins = {
        partition: flow.origin(stream.name, partition)
        for relation, partition in flow.bounds()
        if relation == stream.name
    }
    return Channel(stream, source, decoder, origins, (skipped or {}).get(stream.name, {}))
