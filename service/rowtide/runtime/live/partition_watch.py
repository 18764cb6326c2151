"""The known ends of partitions: detects new and silent ones, and bounds from the broker's clock."""

from __future__ import annotations

from collections.abc import Mapping

from rowtide.checkpoint.ledger import PartitionId
from rowtide.clock import Clock
from rowtide.plan.plan import ForeignStream
from rowtide.runtime.ingest.append_times import LOOK_UP_S as APPEND_LOOK_UP_S
from rowtide.runtime.ingest.append_times import AppendTimes
from rowtide.runtime.ingest.idle import LOOK_UPS_A_TIMEOUT, IdleWatch, idle_timeouts
from rowtide.runtime.ingest.intake import LOOK_UP_S
from rowtide.runtime.live.bound_watch import BoundWatch
from rowtide.runtime.live.joining import JoiningPartitions
from rowtide.runtime.live.read_loop import ClockDecisions
from rowtide.runtime.live.resubmission import topic_places
from rowtide.runtime.state.observer import Observer
from rowtide.runtime.state.pipeline_state import PipelineState
from rowtide.runtime.state.status import StatusBoard
from rowtide_connectors.api import OffsetRange


class PartitionWatch:
    """Receives the look-ups of reading threads, and passes them to the parts that decide.

    Raises:
      StatementError: an idle time-out is not a length of time.
    """

    def __init__(
        self,
        streams: Mapping[str, ForeignStream],
        topics: Mapping[str, str],
        clock: Clock,
        board: StatusBoard,
        observer: Observer,
    ) -> None:
        self.newcomers = JoiningPartitions()
        self.append_times = AppendTimes({})
        """Set at the start, which reads from the brokers which topics have append times."""
        self.idle = IdleWatch({}, (), clock)
        self.bounds = BoundWatch(clock)
        self._idle_timeouts = idle_timeouts(streams.values())
        self._topics = topics
        self._clock = clock
        self._board = board
        self._observer = observer

    def decisions(self, state: PipelineState) -> ClockDecisions:
        """Return the part that decides on silent partitions of ``work`` from now on."""
        self.idle = IdleWatch(self._idle_timeouts, topic_places(state.positions), self._clock)
        self.bounds = BoundWatch(self._clock)
        return ClockDecisions(self.idle, self.append_times, self.bounds)

    def look_up_s(self, relation: str) -> float:
        """Return the interval of look-ups of a stream's ends: shorter if silence must be detected."""
        if self.append_times.watches(relation):
            return APPEND_LOOK_UP_S
        timeout_ms = self._idle_timeouts.get(relation)
        if timeout_ms is None:
            return LOOK_UP_S
        return min(LOOK_UP_S, timeout_ms / 1000 / LOOK_UPS_A_TIMEOUT)

    def looked_up(self, relation: str, ranges: Mapping[int, OffsetRange]) -> None:
        """Note the ranges of partitions: for lag, silence and new partitions. Called by reading threads."""
        self.newcomers.look_up(relation, ranges)
        places = {(relation, partition): held for partition, held in ranges.items()}
        log_ends = {place: held.log_end for place, held in places.items()}
        self._board.looked_up(places)
        self.idle.look_up(log_ends)
        self.append_times.look_up(relation, log_ends)
        self._observer.looked_up(self._topics, log_ends)


def ends_of(ranges: Mapping[str, Mapping[int, OffsetRange]]) -> dict[PartitionId, int]:
    """Return, for each partition, the end of what can be read now."""
    return {
        (relation, partition): held.end
        for relation, partitions in ranges.items()
        for partition, held in partitions.items()
    }
