"""The seam between what a topic held and what is live (docs/decisions/0005).

History is over when a live run first stands where the topics ended as it began.
No row says that; it is where they ended when somebody looked, and how late it
was by the clock on the wall. So it is a decision: made once in a pipeline's
life, for each model that asks for it, committed with everything else, and
obeyed by every replay, which is given it before it begins.
"""

from __future__ import annotations

from collections.abc import Mapping

import structlog

from rowtide.checkpoint.ledger import RESET, Decision, PartitionId
from rowtide.clock import Clock
from rowtide.rowtime.bound import EARLIEST
from rowtide.runtime.live.work import PipelineState

_log = structlog.get_logger("rowtide")


class Seam:
    """Says when history is over; asked between turns, when everything that came is processed.

    ``ends`` are the offsets at which the topics ended when the run began.
    """

    def __init__(self, ends: Mapping[PartitionId, int], clock: Clock) -> None:
        self._ends = ends
        self._clock = clock
        self._is_over = False

    def decide(self, work: PipelineState) -> list[Decision]:
        """Return, once, the jumps of the models that have not had theirs.

        Where the model has seen nothing yet, or is not behind the clock, its jump is none: it is logged all
        the same, so that no later start makes one.
        """
        if self._is_over or any(work.positions.get(place, end) < end for place, end in self._ends.items()):
            return []
        self._is_over = True
        now = self._clock.now_ms()
        decided = []
        for model, before in work.flow.jumps_from().items():
            after = before if before == EARLIEST else max(before, now)
            decided.append(Decision(RESET, model, 0, before, after))
            _log.info("history_is_over", model=model, jumps=after > before, from_ms=before, to_ms=after)
        return decided
