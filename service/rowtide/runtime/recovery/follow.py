"""A follower: a recovery that does not end, up to the moment at which the replica takes over.

It reads the same messages as the leader, processes them with the same operators up to the committed positions,
obeys the leader's logged decisions, and drops the output. It never makes a decision, and never enters a message
that is not committed. So a take-over replays only what was committed since its last look.

A pipeline that reads a compacted topic, or topics by a pattern, is not followed warm: its followers watch, and
recover from the newest snapshot when they take over.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial

import structlog

from rowtide.checkpoint.ledger import PartitionId, Pulse, Record
from rowtide.errors import FaultError, LostCommitsError, ReplacedSnapshotError, StatementError
from rowtide.runtime.ingest.idle import DecisionLog
from rowtide.runtime.leadership.release import RecordRelease
from rowtide.runtime.leadership.watch import LeaderWatch, Standby
from rowtide.runtime.live.read_loop import TAKE_S
from rowtide.runtime.live.resubmission import targets_of
from rowtide.runtime.pipeline_io import PipelineIO
from rowtide.runtime.recovery.advance import Advance
from rowtide.runtime.recovery.begin import Begin
from rowtide.runtime.recovery.digest import differences
from rowtide.runtime.recovery.recovery import usable
from rowtide.runtime.recovery.start import (
    START_COMMITS,
    Checked,
    Claimed,
    build,
    check_start,
    recover,
    recovered,
    take_epoch,
)
from rowtide.runtime.state.pipeline_state import PipelineState
from rowtide.runtime.state.questions import Questions
from rowtide.runtime.state.status import ReplicaStatus, Role
from rowtide.runtime.topics import adopt_topics, known_ids
from rowtide_connectors.api import MatchingSource
from rowtide_connectors.errors import UnavailableError

_log = structlog.get_logger("rowtide")


@dataclass(frozen=True, slots=True)
class TakenOver:
    """A pipeline that this process leads from now on, at its committed positions."""

    claimed: Claimed
    work: PipelineState


class _StillLedError(Exception):
    """The leader has committed since the last look, or another replica has taken over."""


class FollowingReplica:
    """One replica, from its start or the loss of its leadership to the moment at which it leads.

    Args:
      io: the readers of the pipeline in this process.
      standby: the times.
      watch: what this replica has seen of leaders.
      questions: requests of other threads, which a follower answers about the rows up to its position.
    """

    def __init__(self, io: PipelineIO, standby: Standby, watch: LeaderWatch, questions: Questions) -> None:
        self._io = io
        self._standby = standby
        self._watch = watch
        self._questions = questions
        self._leadership = io.context.ledger.leadership()
        self._release = RecordRelease(self._leadership, io.context.name, standby.silence_s)
        self._warm: _WarmState | None = None

    def until_leading(self, begin: Begin) -> TakenOver | None:
        """Follow until it is time to lead, and take over; None: asked to stop.

        Raises:
          StatementError: the start is refused, or the pipeline was changed while it was followed.
          SupersededError: another process took the pipeline while this one took over.
          LostCommitsError: the database has lost commits that this replica has followed.
          TransientError, StoppedError, GoneError: as ``Service.run``.
        """
        context, io = self._io.context, self._io
        checked = check_start(io, begin)
        clock = context.clock
        self._watch.begin(clock.monotonic())
        self._show("follower")
        next_look = clock.monotonic()
        try:
            while not io.is_stopping():
                if clock.monotonic() >= next_look:
                    next_look = clock.monotonic() + self._standby.look_s
                    self._look(checked)
                    if self._watch.is_leaderless():
                        taken = self._take_over(checked)
                        if taken is not None:
                            return taken
                self._turn(max(0.0, min(TAKE_S, next_look - clock.monotonic())))
        finally:
            if self._warm is not None:
                self._warm.close()
        return None

    def _look(self, checked: Checked) -> None:
        """Look at the leader, and aim at what it has committed."""
        io, clock = self._io, self._io.context.clock
        before, pulse = self._watch.last, io.database.call(self._leadership.pulse)
        self._watch.see(pulse, clock.monotonic())
        if pulse is None:
            if before is None:
                return
            raise FaultError(
                f'the checkpoint of pipeline "{io.context.name}" was dropped while it was followed'
            )
        if before is not None and _version(pulse) < _version(before):
            # What this replica has processed may differ from what the leader does now.
            raise LostCommitsError(
                f'the database has lost commits of pipeline "{io.context.name}": it has commit {pulse.commits} of '
                f"epoch {pulse.epoch}, and has had commit {before.commits} of epoch {before.epoch}"
            )
        if self._warm is None or before is None or _version(before) != _version(pulse):
            record = io.database.call(io.context.ledger.read)
            if record is not None and record.has_begun:
                _refuse_change(io.context.name, record, checked.digests)
                io.board.begins_at(record)
                self._aim(checked, record)
        self._tell(pulse)

    def _aim(self, checked: Checked, record: Record) -> None:
        if self._warm is not None:
            self._warm.aim(record)
        elif not self._is_cold(checked):
            try:
                self._warm = _WarmState.at_snapshot(self._io, checked, record)
            except ReplacedSnapshotError as error:
                # The next look begins with the newest one.
                _log.warning("snapshot_replaced", pipeline=self._io.context.name, reason=error.message)
                return
            _log.info(
                "following",
                pipeline=self._io.context.name,
                epoch=record.epoch,
                commits=record.commits,
                leader=record.holder,
            )

    def _is_cold(self, checked: Checked) -> bool:
        """Return whether a take-over has to recover.

        The log of a compacted topic may not return the same messages again. The topics of a pattern are numbered by
        the leader, and found by the readers of this process, too.
        """
        sources = self._io.context.sources.values()
        return bool(checked.compacted) or any(isinstance(each, MatchingSource) for each in sources)

    def _turn(self, patience_s: float) -> None:
        if self._warm is None:
            self._io.board.enter("following")
            self._io.context.clock.sleep(patience_s)
            return
        self._warm.turn(patience_s)
        if self._warm.is_drained:
            self._questions.answer(self._warm.work)

    def _tell(self, pulse: Pulse) -> None:
        """Show how far this replica is behind."""
        now = self._io.context.clock.monotonic()
        reached = pulse.commits if self._warm is None else self._warm.reached(now)
        lag = max(0, pulse.commits - reached)
        self._show("follower", lag, 0.0 if self._warm is None or not lag else now - self._warm.reached_at)

    def _show(self, role: Role, lag_commits: int = 0, lag_s: float = 0.0) -> None:
        io = self._io
        shown = ReplicaStatus(
            role, self._watch.takeovers, lag_commits, round(lag_s, 3), lag_s <= self._standby.takeover_s
        )
        io.board.replicates(shown)
        io.context.observer.replicates(shown)

    def _take_over(self, checked: Checked) -> TakenOver | None:
        """Take the epoch if the leader shows no sign of life since the last look; None: it lives."""
        io, context = self._io, self._io.context
        if self._release.attempt() is not None:
            # The next look sees what becomes of the transaction.
            return None
        began, seen = context.clock.monotonic(), self._watch.last

        def refuse(record: Record) -> None:
            # The claim waited for a commit that was under way. What it has changed is seen here.
            expected = (0, 0) if seen is None else (seen.epoch, seen.commits)
            if (record.epoch - 1, record.commits) != expected:
                raise _StillLedError

        try:
            claimed = take_epoch(io, checked, refuse, once=seen is not None)
        except _StillLedError:
            return None
        except UnavailableError as error:
            _log.warning("not_taken_over", pipeline=context.name, reason=error.message)
            self._watch.begin(context.clock.monotonic())
            return None
        io.heart.lead(claimed.record.epoch, self._standby.beat_s)
        waited_s = self._watch.timeout_s
        self._watch.take(claimed.record.epoch)
        if seen is not None:
            _log.warning(
                "taking_over",
                pipeline=context.name,
                epoch=claimed.record.epoch,
                commits=claimed.record.commits,
                resigned=seen.has_resigned,
                after_s=0.0 if seen.has_resigned else waited_s,
            )
        self._show("leader")
        sources = sorted(context.sources.items())
        claimed = replace(
            claimed, ranges={relation: io.broker.call(source.ranges) for relation, source in sources}
        )
        if self._warm is None:
            return TakenOver(claimed, recover(io, claimed))
        io.board.enter("recovering")
        self._warm.aim(claimed.record)
        messages = self._warm.catch_up(io.is_stopping)
        if self._warm.is_behind:
            io.heart.resign()
            return None
        recovered(io, self._warm.work, began, "took_over", replayed_messages=messages)
        return TakenOver(claimed, self._warm.work)


def _refuse_change(name: str, record: Record, digests: Mapping[str, str]) -> None:
    """Refuse to follow another plan.

    Raises:
      StatementError: naming what changed.
    """
    if changes := differences(record.digest, digests):
        raise StatementError(
            f'pipeline "{name}" was changed while it was followed: {"; ".join(changes)}',
            hint="Start this replica again with the file that `rowtide apply` has applied.",
        )


def _version(pulse: Pulse) -> tuple[int, int]:
    return pulse.epoch, pulse.commits


class _WarmState:
    """The state of a pipeline that moves on with each commit of the leader."""

    def __init__(
        self, io: PipelineIO, state: PipelineState, loop: Advance, record: Record, last: int
    ) -> None:
        self.work = state
        self.reached_at = io.context.clock.monotonic()
        """When it was last at a commit."""
        self._io = io
        self._loop = loop
        self._last_decision = last
        self._aimed = record
        self._reached = 0

    @classmethod
    def at_snapshot(cls, io: PipelineIO, checked: Checked, record: Record) -> _WarmState:
        """Build the state at the newest snapshot, and aim at the committed positions.

        Raises:
          StatementError: the log no longer holds what is needed.
        """
        context = io.context
        io.board.enter("recovering")
        adopt_topics(context.sources, record)
        io.identities = known_ids(record.partition_positions)
        snapshot = io.database.call(checked.snapshots.take)
        # Read again: a snapshot may be newer than the record, but not ahead of one that is read after it.
        record = io.database.call(context.ledger.read) or record
        sources = sorted(context.sources.items())
        ranges = {relation: io.broker.call(source.ranges) for relation, source in sources}
        built = build(io, record, usable(snapshot, record), ranges, checked.compacted)
        decisions = io.database.call(lambda: context.ledger.leadership().decisions_after(0))
        changes = io.database.call(partial(context.ledger.statements().applied, 0, record.commits))
        log = DecisionLog([each for _, each in decisions], changes)
        loop = Advance(io, built.work, built.begin, record.positions(), log, follows=True)
        return cls(io, built.work, loop, record, max((number for number, _ in decisions), default=0))

    @property
    def is_behind(self) -> bool:
        """Return whether messages up to the target are not processed yet."""
        return bool(self._loop.left)

    @property
    def is_drained(self) -> bool:
        """Return whether the flow has nothing to process that came in before its target."""
        return self._aimed.commits > START_COMMITS

    def reached(self, now: float) -> int:
        """Return the number of the commit that the state has reached; ``now`` is the time of the call."""
        if not self.is_behind:
            self._reached, self.reached_at = self._aimed.commits, now
        return self._reached

    def aim(self, record: Record) -> None:
        """Continue to the positions of ``record``, and obey the decisions that were committed meanwhile."""
        if record.commits == self._aimed.commits and record.epoch == self._aimed.epoch:
            return
        context, work = self._io.context, self.work
        after = self._last_decision
        decisions = self._io.database.call(lambda: context.ledger.leadership().decisions_after(after))
        self._last_decision = max((number for number, _ in decisions), default=after)
        self._loop.learn(each for _, each in decisions)
        known = work.flow.last_statement.number
        self._loop.change(
            self._io.database.call(partial(context.ledger.statements().applied, known, record.commits))
        )
        if record.commits > START_COMMITS:
            # Also without messages: rows of the pipeline's own INSERT statements came out with the first commit of
            # rows, and partitions join only where everything has been processed.
            self._loop.drain()
        joined = self._joined(record)
        work.rebase(
            record.partition_positions, targets_of(self._io.database.call(context.ledger.resubmissions))
        )
        if joined:
            adopt_topics(context.sources, record)
            self._io.identities = known_ids(record.partition_positions)
            self._loop.widen(joined)
        self._aimed = record
        self._loop.aim(record.positions())

    def turn(self, patience_s: float) -> None:
        """Process what was read up to the target; at the target, read ahead."""
        if self.is_behind:
            self._loop.turn()
            if not self.is_behind:
                self._io.board.enter("following")
        else:
            self._io.board.enter("following")
            self._loop.collect(patience_s)

    def catch_up(self, stopping: Callable[[], bool]) -> int:
        """Process everything up to the target, and return the number of messages."""
        before = self._loop.messages
        while self.is_behind and not stopping():
            self._loop.turn()
        return self._loop.messages - before

    def close(self) -> None:
        """Close the readers."""
        self._loop.close()

    def _joined(self, record: Record) -> dict[PartitionId, int]:
        """Return the first offsets of partitions that the leader has let join."""
        known = self.work.positions
        return {
            each.place: each.start_offset for each in record.partition_positions if each.place not in known
        }
