"""Silent partitions of a backfill (docs/howto/backfill.md#silent-partitions).

The end of the input does not advance a bound, so all rows of a stream wait for
a partition without messages. If the stream declares ``idle_timeout``, such a
partition follows the others by the rules of the live service (``ingest.idle``).
It counts as silent under the same condition: its log ends at the cut, and its
last message, if any, is older than the time-out. The bound that it takes is
committed as a decision.

Rows that still wait at the end are reported with the partition that they wait for.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from rowtide.checkpoint.ledger import Decision, PartitionId
from rowtide.flow.flow import Flow
from rowtide.plan.plan import ForeignStream
from rowtide.rowtime.bound import EARLIEST, Bound
from rowtide.rowtime.text import time_text
from rowtide.runners.spark.frames import SparkRun
from rowtide.runtime.configured import takes_append_times
from rowtide.runtime.ingest.append_times import AppendTimes, by_message_time
from rowtide.runtime.ingest.idle import IdleWatch, idle_timeouts
from rowtide.runtime.retry import Retry
from rowtide.runtime.state.context import PipelineContext
from rowtide_connectors.several import place_of


class PartitionSilence(ABC):
    """Decides which bounds silent partitions take in a run. Called by ``SparkRun.read``.

    Args:
      cut: the offset at which each partition ends.
    """

    def __init__(self, cut: Mapping[PartitionId, int]) -> None:
        self._cut = cut
        self._taken: dict[tuple[str, PartitionId], Decision] = {}

    @property
    def decisions(self) -> tuple[Decision, ...]:
        """The decisions, the last of each kind for each partition."""
        return tuple(self._taken[key] for key in sorted(self._taken))

    def __call__(self, flow: Flow, latest: Mapping[str, int]) -> tuple[dict[PartitionId, Bound], bool]:
        """Return the bounds that silent partitions take now, and whether they are explicit ones.

        ``latest`` has the latest timestamp of the messages of each stream (ms).
        """
        found = self._append_times(latest).decide(self._cut, flow.bounds())
        is_explicit = bool(found)
        watch = None if found else self._idle()
        if watch is not None:
            found = watch.decide(self._cut, flow.bounds(), flow.met)
        self._taken.update(((each.kind, (each.relation, each.partition)), each) for each in found)
        bounds = {(each.relation, each.partition): each.bound for each in found}
        return {place: Bound(bound) for place, bound in bounds.items() if bound is not None}, is_explicit

    @abstractmethod
    def _append_times(self, latest: Mapping[str, int]) -> AppendTimes:
        """Return what the broker's clock has shown, after a look-up of ends that began after everything was read."""

    @abstractmethod
    def _idle(self) -> IdleWatch | None:
        """Return what knows how long partitions are silent; None: no time-out is declared."""


class SilenceAtCut(PartitionSilence):
    """The decisions of a slice of a backfill.

    Args:
      context: the sources, and the clock.
      streams: the foreign streams.
      cut: the offset at which each partition ends.
      retry: repeats what fails because a broker is down.
    """

    def __init__(
        self,
        context: PipelineContext,
        streams: Sequence[ForeignStream],
        cut: Mapping[PartitionId, int],
        retry: Retry,
    ) -> None:
        super().__init__(cut)
        self._context = context
        self._retry = retry
        self._timeouts = idle_timeouts(streams)
        self._watch: IdleWatch | None = None
        self._times: AppendTimes | None = None

    def _append_times(self, latest: Mapping[str, int]) -> AppendTimes:
        times = self._times = self._times or self._append_times_at_cut(latest)
        return times

    def _idle(self) -> IdleWatch | None:
        if self._timeouts and self._watch is None:
            self._watch = self._looked_up()
        return self._watch

    def _append_times_at_cut(self, latest: Mapping[str, int]) -> AppendTimes:
        """Return what the broker's clock has shown, after a look-up of all ends."""
        plan, sources = self._context.plan, self._context.sources
        declared = {stream.name for stream in plan.foreign_streams if takes_append_times(stream)}
        stamped = [
            relation
            for relation in sorted(by_message_time(plan) & declared & sources.keys())
            if self._retry.call(sources[relation].has_append_times)
        ]
        times = AppendTimes(dict.fromkeys(stamped, True))
        for relation in stamped:
            times.note_arrival(relation, np.array([latest.get(relation, EARLIEST)]))
            ranges = self._retry.call(sources[relation].ranges)
            ends = {(relation, partition): held.log_end for partition, held in ranges.items()}
            # Everything was read before this look-up began: the first time notes it, the second proves it.
            times.look_up(relation, ends)
            times.look_up(relation, ends)
        return times

    def _looked_up(self) -> IdleWatch:
        """Return a watch that has waited for the longest time-out, and has heard what is not silent."""
        clock = _Waited()
        watch = IdleWatch(self._timeouts, self._cut, clock)
        clock.seconds = max(self._timeouts.values()) / 1000
        now = self._context.clock.now_ms()
        for relation, timeout in self._timeouts.items():
            if relation not in self._context.sources:
                continue
            source = self._context.sources[relation]
            recent = self._retry.call(partial(source.offsets_at, now - timeout))
            ends = self._retry.call(source.ranges)
            for place in (place for place in self._cut if place[0] == relation):
                watch.look_up({place: ends[place[1]].log_end})
                if recent[place[1]] < self._cut[place]:
                    watch.note_arrival(place)
        return watch


class _Waited:
    """A clock that shows the time that a live service would have waited."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def now_ms(self) -> int:
        return int(self.seconds * 1000)

    def monotonic(self) -> float:
        return self.seconds

    def sleep(self, seconds: float) -> None:
        self.seconds += seconds


@dataclass(frozen=True, slots=True)
class HeldBack:
    """Rows that wait for one partition at the end of a backfill.

    ``bound`` is how far the partition has come (ms; None: it has no bound). ``messages_left``: it has
    messages from the cut on. ``follows``: an ``idle_timeout`` is declared on its stream.
    """

    relation: str
    topic: str
    partition: int
    rows: int
    bound: int | None
    messages_left: bool
    follows: bool

    def shown(self) -> str:
        """Return a line for people, and one with what to do if there is something to do."""
        reached = "it has no bound" if self.bound is None else f"its bound is {time_text(self.bound)}"
        line = (
            f'{self.rows:,} rows wait for partition {self.partition} of topic "{self.topic}" '
            f"({self.relation}): {reached}"
        )
        return f"{line}\n{self.hint()}"

    def hint(self) -> str:
        """Return what releases the rows."""
        if self.messages_left:
            return "  It has messages after the cut: `rowtide run` continues with them."
        if self.follows:
            return "  It follows the others when it has been silent for its idle_timeout."
        return (
            f"  If the partition stays silent, declare idle_timeout on foreign stream {self.relation}, such as "
            "idle_timeout '30 SECOND': then it follows the others, and rows that it brings late are error rows."
        )


def held_back(
    run: SparkRun,
    context: PipelineContext,
    cut: Mapping[PartitionId, int],
    silence: SilenceAtCut,
    retry: Retry,
) -> list[HeldBack]:
    """Return the partitions that rows wait for at the end of a run, those that hold most back first.

    A partition that follows others is not named: they are.
    """
    followers = {(each.relation, each.partition) for each in silence.decisions}
    flow = run.shadow()
    enquiry = flow.enquiry()
    rows: dict[PartitionId, int] = {}
    for at, (count, wants) in (enquiry.ahead() | run.waiting.ahead()).items():
        keepers = enquiry.keeping_back(at, wants)
        for place in {(keeper.relation, keeper.partition) for keeper in keepers} - followers:
            rows[place] = rows.get(place, 0) + count
    ends = {
        relation: retry.call(context.sources[relation].ranges)
        for relation in sorted({relation for relation, _ in rows})
        if relation in context.sources
    }
    declared = idle_timeouts(context.plan.foreign_streams)
    bounds = flow.bounds()
    found = [
        HeldBack(
            relation,
            *place_of(context.sources[relation].topic, partition),
            count,
            None if bounds[relation, partition] == EARLIEST else bounds[relation, partition],
            ends[relation][partition].log_end > cut[relation, partition],
            relation in declared,
        )
        for (relation, partition), count in rows.items()
        if relation in ends
    ]
    return sorted(found, key=lambda each: (-each.rows, each.relation, each.partition))
