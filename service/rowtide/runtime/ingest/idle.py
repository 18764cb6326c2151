"""Silent partitions, under a declared idle time-out (docs/sql/semantics.md#idle-partitions).

A partition counts as silent only on evidence: a recent look-up shows that its
end is at its position. A partition that is paused, lags, or has a broker that
is down is waited for, whatever the clock shows; otherwise an outage would make
good rows late.

A stream all of whose partitions are silent follows the streams that it meets in
the plan (``flow.meetings``; docs/sql/streams.md).

The decision is a bound. It is logged with the commit, with the offset before
which it took effect. Recovery and replay obey the log and do not decide.
"""

from __future__ import annotations

import bisect
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from rowtide.checkpoint.ledger import CUT, RESET, SKIP, Decision, PartitionId, is_resubmission, jump_of
from rowtide.checkpoint.statement_log import StatementChange
from rowtide.clock import Clock
from rowtide.errors import StatementError
from rowtide.plan.plan import ForeignStream
from rowtide.rowtime.bound import EARLIEST
from rowtide.rowtime.idle import IdlePartitions
from rowtide.sql.catalog.notices import IDLE_TIMEOUT
from rowtide.sql.grammar.literals import interval_text_ms

IDLE = "IDLE"
"""The kind of these decisions."""

LOOK_UPS_A_TIMEOUT = 4
"""Number of look-ups of ends within a time-out, so that there is fresh evidence when it is over."""


def idle_timeouts(streams: Iterable[ForeignStream]) -> dict[str, int]:
    """Return the time-out in ms of each stream that has one.

    Raises:
      StatementError: the option is not a duration.
    """
    found = {}
    for stream in streams:
        text = dict(stream.options).get(IDLE_TIMEOUT)
        if text is not None:
            try:
                found[stream.name] = interval_text_ms(text)
            except ValueError as error:
                raise StatementError(
                    f'option "{IDLE_TIMEOUT}" of foreign stream "{stream.name}": {error}'
                ) from error
    return found


class IdleWatch:
    """Decides the bounds of silent partitions. Called by the main thread."""

    def __init__(self, timeouts: Mapping[str, int], places: Iterable[PartitionId], clock: Clock) -> None:
        self._timeouts = timeouts
        self._clock = clock
        self._looked_up: dict[PartitionId, tuple[int, int]] = {}
        self._heard: dict[PartitionId, int] = {}
        now = self._now()
        held: dict[str, list[int]] = {}
        for relation, partition in places:
            held.setdefault(relation, []).append(partition)
        self._streams = {
            relation: IdlePartitions(held[relation], timeout, now)
            for relation, timeout in timeouts.items()
            if relation in held
        }

    def note_arrival(self, partition: PartitionId) -> None:
        """Note that a message of a partition has come."""
        relation, number = partition
        self._heard[partition] = now = self._now()
        if relation in self._streams:
            self._streams[relation].note_arrival(number, now)

    def look_up(self, ends: Mapping[PartitionId, int]) -> None:
        """Record the current ends of partitions; may be called by another thread."""
        now = self._now()
        self._looked_up.update({place: (end, now) for place, end in ends.items()})

    def decide(
        self,
        positions: Mapping[PartitionId, int],
        bounds: Mapping[PartitionId, int],
        met: Callable[[Collection[str]], Mapping[PartitionId, int]] = lambda _idle: {},
    ) -> list[Decision]:
        """Return the bounds that silent partitions take now, by relation and partition.

        ``positions`` and ``bounds`` are those of all partitions. ``met`` returns the bounds that
        partitions of idle streams take from the streams that they meet.
        """
        taken: dict[PartitionId, int] = {}
        idle = []
        now = self._now()
        for relation, partitions in self._streams.items():
            for partition in partitions.idle(now):
                if not self._is_silent((relation, partition), positions, now):
                    partitions.note_arrival(partition, now)
            own = {
                partition: bound
                for (name, partition), bound in bounds.items()
                if name == relation and not is_resubmission((name, partition))
            }
            taken.update(
                ((relation, partition), bound) for partition, bound in partitions.decide(own, now).items()
            )
            if partitions.are_all_idle(now):
                idle.append(relation)
        for place, bound in (met(idle) if idle else {}).items():
            if not is_resubmission(place) and bound > max(bounds[place], taken.get(place, EARLIEST)):
                taken[place] = bound
        return [Decision(IDLE, *place, positions[place], bound) for place, bound in sorted(taken.items())]

    def timeout_ms(self, relation: str) -> int | None:
        """Return the time-out of a stream; None where none is declared."""
        return self._timeouts.get(relation)

    def silent_ms(self, partition: PartitionId) -> int | None:
        """Return the time since which a partition is silent; None if no time-out is declared."""
        relation, number = partition
        stream = self._streams.get(relation)
        return None if stream is None else stream.silent_ms(number, self._now())

    def heard_ms(self, partition: PartitionId) -> int | None:
        """Return the time since the last message of a partition; None: none has come since this process runs."""
        at = self._heard.get(partition)
        return None if at is None else self._now() - at

    def _is_silent(self, partition: PartitionId, positions: Mapping[PartitionId, int], now: int) -> bool:
        """Return whether a fresh look-up found no message after a partition's position."""
        if partition not in self._looked_up:
            return False
        end, at = self._looked_up[partition]
        return end <= positions[partition] and now - at <= self._timeouts[partition[0]] // 2

    def _now(self) -> int:
        return int(self._clock.monotonic() * 1000)


class DecisionLog:
    """The committed decisions that a replay obeys: by partition, in the order of the offsets.

    ``changes`` are those of statements, with numbers in order. They have rowtimes and no offset: a replay applies
    them first.
    """

    def __init__(self, decisions: Sequence[Decision], changes: Sequence[StatementChange] = ()) -> None:
        self.changes = changes
        self._held: dict[PartitionId, list[Decision]] = {}
        self.jumps: list[tuple[str, int, int]] = []
        """Models, with the rowtimes (ms) from which to which their time jumps: known from the beginning."""
        for decision in decisions:
            self.add(decision)

    def add(self, decision: Decision) -> None:
        """Add a decision that was committed after the others."""
        if decision.kind == RESET:
            self.jumps.append(jump_of(decision))
        elif decision.kind not in (SKIP, CUT):
            # Skipped messages are known from the start: ``Channel`` has their offsets. A cut affects no row.
            self._held.setdefault((decision.relation, decision.partition), []).append(decision)

    def forget(self, positions: Mapping[PartitionId, int]) -> None:
        """Drop the decisions before these positions."""
        for place in self._held.keys() & positions.keys():
            offset = positions[place]
            self._held[place] = [each for each in self._held[place] if each.next_offset >= offset]

    def at(self, partition: PartitionId, offset: int) -> list[Decision]:
        """Return the decisions before the message at ``offset`` of a partition, in order."""
        return [each for each in self._held.get(partition, ()) if each.next_offset == offset]

    def next_after(self, partition: PartitionId, offset: int) -> int | None:
        """Return the next offset above ``offset`` with a decision."""
        offsets = [each.next_offset for each in self._held.get(partition, ())]
        found = bisect.bisect_right(offsets, offset)
        return offsets[found] if found < len(offsets) else None
