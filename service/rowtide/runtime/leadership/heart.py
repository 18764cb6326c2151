"""The signs of life of a leader: its commits, and heartbeats while it has none.

The main loop beats, not a thread: a process whose loop hangs shows no sign of life. A heartbeat under an epoch
that was superseded fails as a commit does, so that an idle process, too, learns that it no longer leads.
"""

from __future__ import annotations

from collections.abc import Callable

import structlog

from rowtide.checkpoint.ledger import Leadership, resigned
from rowtide.clock import Clock
from rowtide.errors import SupersededError
from rowtide_connectors.errors import UnavailableError

_log = structlog.get_logger("rowtide")


class Heart:
    """Beats for one process while it leads.

    Args:
      leadership: the signs of life in the checkpoint.
      clock: reads the time.
      last_commit: returns the time of the last commit of this process, or anything else that changes with it.
      failed: called if the database is down.
    """

    def __init__(
        self,
        leadership: Callable[[], Leadership],
        clock: Clock,
        *,
        last_commit: Callable[[], object],
        failed: Callable[[], None],
    ) -> None:
        self._leadership = leadership
        self._clock = clock
        self._last_commit = last_commit
        self._failed = failed
        self._epoch: int | None = None
        self._interval_s = 0.0
        self._beats = 0
        self._last_sign = 0.0
        self._seen: object = None

    def lead(self, epoch: int, interval_s: float) -> None:
        """Beat from now on, under ``epoch``, after each interval without a commit.

        The claim of the epoch was the first sign of life.
        """
        self._epoch, self._interval_s, self._beats = epoch, interval_s, 0
        self._last_sign, self._seen = self._clock.monotonic(), self._last_commit()

    def beat_if_due(self) -> None:
        """Beat if nothing was committed for the interval. Called by the main loop.

        Raises:
          SupersededError: another process took the pipeline.
        """
        if self._epoch is None:
            return
        now = self._clock.monotonic()
        if (seen := self._last_commit()) != self._seen:
            self._seen, self._last_sign = seen, now
        if now - self._last_sign < self._interval_s:
            return
        self._last_sign = now
        self._beats += 1
        self._record(self._epoch, self._beats)

    def rest(self) -> None:
        """Stop beating."""
        self._epoch = None

    def resign(self) -> None:
        """Stop beating, and let a follower take over at once."""
        epoch, self._epoch = self._epoch, None
        if epoch is not None:
            try:
                self._record(epoch, resigned(epoch))
            except SupersededError:
                # Somebody has taken over already.
                _log.info("superseded_while_stopping", epoch=epoch)

    def _record(self, epoch: int, beats: int) -> None:
        try:
            self._leadership().beat(epoch, beats)
        except UnavailableError:
            # The next commit waits for the database, and followers see no more of it than this process.
            self._failed()
