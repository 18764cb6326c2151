"""Reads up to targets that may move on, obeying the log of decisions: what recoveries and followers do.

A recovery has one target, the committed positions, and ends there. A follower continues: each commit of the leader
moves its target. Messages behind the target are read ahead and wait, up to a limit, because the leader commits
them soon; they never enter the flow before they are committed.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping

from rowtide.checkpoint.ledger import RESET, SKIP, Decision, PartitionId, is_resubmission
from rowtide.checkpoint.statement_log import StatementChange
from rowtide.runtime.ingest.idle import DecisionLog
from rowtide.runtime.ingest.inbox import Inbox, Pausable, Paused
from rowtide.runtime.ingest.intake import POLL_BYTES, POLL_MESSAGES, Delivery, cut
from rowtide.runtime.live.read_loop import ReadLoop
from rowtide.runtime.live.resubmission import insert_resubmitted
from rowtide.runtime.pipeline_io import PipelineIO
from rowtide.runtime.state.pipeline_state import PipelineState

_TAKE_S = 0.5


class Advance(ReadLoop):
    """Reads ``work`` up to targets, from the positions ``begin``.

    Args:
      begin: where the flow of ``work`` is; it has read nothing after it.
      targets: the first targets.
      decisions: the log of decisions. ``learn`` adds later ones.
      follows: there will be further targets, so that all partitions are read ahead; False: only partitions that are
        not at their targets are read, up to these.
      emit: called after each turn, when the output is in ``work``; None: the output is dropped.
    """

    def __init__(
        self,
        io: PipelineIO,
        state: PipelineState,
        begin: Mapping[PartitionId, int],
        targets: Mapping[PartitionId, int],
        decisions: DecisionLog,
        *,
        follows: bool = False,
        emit: Callable[[], None] | None = None,
    ) -> None:
        self.messages = 0
        self.left: dict[PartitionId, int] = {}
        """The targets of the partitions that are not there yet."""
        self._io = io
        self._log = decisions
        self._follows = follows
        self._emit = state.drop if emit is None else emit
        self._at = dict(begin)
        self._targets = dict(begin)
        self._ahead: dict[PartitionId, deque[Delivery]] = {}
        self._channels = io.channels(state.flow)
        state.place_at(begin)
        for model, before, after in decisions.jumps:
            state.flow.jump(model, before, after)
        self._has_obeyed = any([self._obey(state, place) for place in begin])
        read = {place: at for place, at in begin.items() if follows or at < targets[place]}
        super().__init__(state, io.open_inbox(read, self._channels), io.backpressure())
        self._reading = _Reading(self.inbox)
        self.change(decisions.changes)
        self.aim(targets)

    def aim(self, targets: Mapping[PartitionId, int]) -> None:
        """Read up to these positions; those of partitions that are not named stay.

        Partitions of resubmitted rows are read at once.
        """
        self._targets.update(targets)
        self.left = {place: end for place, end in self._targets.items() if self._at[place] < end}
        is_due = self._has_obeyed or bool(self.left)
        for place in [place for place in self.left if is_resubmission(place)]:
            insert_resubmitted(self.work, self._channels[place[0]], place, self._io.resubmitted(place))
            self._at[place] = end = self.left.pop(place)
            self.messages += end
        for place in self.left:
            self._reading.resume(place)
            self.waiting.extend(self._ahead.pop(place, ()))
        if is_due:
            self._has_obeyed = False
            self.drain()
        if not self.left:
            self._arrive()

    def learn(self, decisions: Iterable[Decision]) -> None:
        """Add committed decisions, and obey those that are due at the positions of now. Afterwards ``aim``."""
        skips = False
        for each in decisions:
            self._log.add(each)
            skips |= each.kind == SKIP
            if each.kind == RESET or self._at.get((each.relation, each.partition)) == each.next_offset:
                self.work.obey(each)
                self._has_obeyed = True
        self._log.forget(self._at)
        if skips:
            self._reopen()

    def change(self, changes: Iterable[StatementChange]) -> None:
        """Apply committed changes of statements, unless the state has them. Their rowtimes are after its rows."""
        for each in changes:
            if self.work.change_tables(each):
                self._emit()

    def widen(self, begin: Mapping[PartitionId, int]) -> None:
        """Read partitions that the flow of ``work`` now has, too, from ``begin`` on. Afterwards ``aim``."""
        self._at.update(begin)
        self._targets.update(begin)
        for place in begin:
            self._has_obeyed |= self._obey(self.work, place)
        self._reopen()

    def collect(self, patience_s: float) -> None:
        """Read ahead of the targets, and process nothing."""
        for delivery in self.inbox.take(patience_s):
            self._keep(delivery)

    def close(self) -> None:
        """Close the inbox; what was read ahead is dropped."""
        self.inbox.close()

    def patience_s(self) -> float:
        """Return a longer wait than a running pipeline does, because nothing else is due."""
        return _TAKE_S

    def enter(self, delivery: Delivery) -> None:
        """Let the part before the target enter, cut at each decision, and keep the rest."""
        place = (delivery.relation, delivery.partition)
        target = self.left.get(place)
        if target is None:
            self._keep(delivery)
            return
        head, rest = cut(delivery, self._channels[delivery.relation], target)
        for part, reached in self._pieces(delivery if rest is None else head, place, target):
            if part is not None:
                super().enter(part)
                self.messages += len(part)
            self._at[place] = reached
            self._obey(self.work, place)
        if rest is not None:
            self._keep(rest)
        if self._at[place] >= target:
            del self.left[place]
            if not self._follows:
                self._reading.stop(place)
            if not self.left:
                self._arrive()

    def drain(self) -> None:
        """Process what has entered, and emit or drop the output."""
        super().drain()
        self._emit()

    def pausable(self) -> Pausable:
        """Return the part that also keeps partitions paused that are read far enough ahead."""
        return self._reading

    def reached(self) -> Collection[PartitionId]:
        """Return the partitions that are at their targets."""
        return self._targets.keys() - self.left.keys()

    def _arrive(self) -> None:
        """Set the positions of ``work`` to the targets: the log may have no message up to there."""
        self._at.update(self._targets)
        self.work.place_at(self._targets)

    def _reopen(self) -> None:
        """Read and decode again what was read ahead."""
        self.inbox.close()
        self.waiting.clear()
        self._ahead.clear()
        self._channels = self._io.channels(self.work.flow)
        self.inbox = self._io.open_inbox(self._at, self._channels)
        self._reading = _Reading(self.inbox)

    def _keep(self, delivery: Delivery) -> None:
        if not self._follows:
            return
        place = (delivery.relation, delivery.partition)
        ahead = self._ahead.setdefault(place, deque())
        ahead.append(delivery)
        messages = sum(map(len, ahead))
        if messages >= POLL_MESSAGES or sum(each.raw_bytes for each in ahead) >= POLL_BYTES:
            self._reading.stop(place)

    def _pieces(
        self, delivery: Delivery | None, partition: PartitionId, target: int
    ) -> Iterator[tuple[Delivery | None, int]]:
        """Cut a delivery at each decision; return each part with the offset after it.

        ``delivery`` ends at ``target`` or before it; None: the log has no message before the target any more.
        """
        rest, position = delivery, self._at[partition]
        end = target if delivery is None else delivery.next_offset
        while position < end:
            decided = self._log.next_after(partition, position)
            position = end if decided is None else min(decided, end)
            head = None
            if rest is not None:
                head, rest = cut(rest, self._channels[partition[0]], position)
            yield head, position

    def _obey(self, state: PipelineState, partition: PartitionId) -> bool:
        """Apply the decisions at the position of a partition; return whether there were any."""
        found = self._log.at(partition, self._at[partition])
        for decision in found:
            state.obey(decision)
        return bool(found)


class _Reading:
    """Pauses partitions that are read far enough ahead, and those that backpressure pauses."""

    def __init__(self, inbox: Inbox) -> None:
        self._inbox = inbox
        self._stopped: dict[str, frozenset[int]] = {}
        self._waiting: Paused = {}

    def stop(self, partition: PartitionId) -> None:
        relation, number = partition
        self._stopped[relation] = self._stopped.get(relation, frozenset()) | {number}
        self.pause(self._waiting)

    def resume(self, partition: PartitionId) -> None:
        relation, number = partition
        if number in self._stopped.get(relation, frozenset()):
            self._stopped[relation] -= {number}
            self.pause(self._waiting)

    def pause(self, partitions: Paused) -> None:
        self._waiting = partitions
        none: frozenset[int] = frozenset()
        self._inbox.pause(
            {
                relation: self._stopped.get(relation, none) | partitions.get(relation, none)
                for relation in self._stopped.keys() | partitions.keys()
            }
        )
