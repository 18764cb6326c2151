"""One pipeline as a service: start (claim, recover), run, stop."""

from __future__ import annotations

from rowtide.runtime.context import PipelineContext
from rowtide.runtime.inspect.requests import Requests
from rowtide.runtime.live.loading import load_ahead
from rowtide.runtime.live.running import run_live
from rowtide.runtime.pipeline_io import PipelineIO
from rowtide.runtime.recovery.begin import Begin, StartEdge
from rowtide.runtime.recovery.start import claim, recover


class Service:
    """The run of a pipeline in one process. ``board`` and ``requests`` are for other threads."""

    def __init__(self, context: PipelineContext) -> None:
        self._io = PipelineIO(context)
        self.board = self._io.board
        self.requests = Requests(self._io)

    def run(self, begin: Begin = StartEdge.WATERMARK, *, until_end: bool = False) -> None:
        """Start, then run until a stop is requested or, with ``until_end``, to the current ends.

        Raises:
          StatementError: the start is refused; no state has changed.
          SupersededError: another process took the pipeline.
          TransientError: a dependency is down and waiting is not wanted.
          StoppedError: a stop was requested while a dependency was down; uncommitted work was dropped.
          FaultError: an invariant broke.
        """
        context = self._io.context
        if context.threads:
            load_ahead(list(context.sources.values()))
        claimed = claim(self._io, begin)
        work = recover(self._io, claimed)
        if not context.stopping():
            run_live(self._io, claimed, work, self.requests, until_end=until_end)
