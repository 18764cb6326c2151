"""The seam between history and live messages (docs/decisions/0005).

History is over when a live run first reaches the ends that the topics had at
its start. This depends on the moment of the look-up and on the wall clock, not
on rows. So it is a decision: made once in a pipeline's life for each model that
asks for it, committed with everything else, and obeyed by every replay, which
receives it before it begins.
"""

from __future__ import annotations

from collections.abc import Mapping

import structlog

from rowtide.checkpoint.ledger import RESET, Decision, PartitionId
from rowtide.clock import Clock
from rowtide.rowtime.bound import EARLIEST
from rowtide.runtime.state.pipeline_state import PipelineState

_log = structlog.get_logger("rowtide")


class EndOfHistory:
    """Detects the end of history. Called between turns, when all input is processed.

    ``ends`` are the end offsets of the topics at the start of the run.
    """

    def __init__(self, ends: Mapping[PartitionId, int], clock: Clock) -> None:
        self._ends = ends
        self._clock = clock
        self._is_over = False

    def decide(self, state: PipelineState) -> list[Decision]:
        """Return, once, the jumps of the models that have not had one.

        If the model has no rows yet, or its time is not before that of the clock, its jump skips no time. It is logged
        nevertheless, so that no later start makes one.
        """
        if self._is_over or any(state.positions.get(place, end) < end for place, end in self._ends.items()):
            return []
        self._is_over = True
        now = self._clock.now_ms()
        decided = []
        for model, before in state.flow.jumps_from().items():
            after = before if before == EARLIEST else max(before, now)
            decided.append(Decision(RESET, model, 0, before, after))
            _log.info("history_is_over", model=model, jumps=after > before, from_ms=before, to_ms=after)
        return decided
