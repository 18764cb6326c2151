"""Gets the record of a pipeline free that a session holds whose process no longer speaks.

A process that is suspended within a transaction, or whose network is gone, keeps the lock that each claim of the epoch
waits for. Its session is ended: the database rolls back what was not committed, and the process, should it
continue, meets a broken connection and then the fence. A session that works is waited for, as before.
"""

from __future__ import annotations

from collections.abc import Callable

import structlog

from rowtide.checkpoint.ledger import Leadership, Writer
from rowtide.clock import Clock
from rowtide_connectors.errors import ConnectorError

LOOK_S = 0.1
LONGEST_S = 10.0
"""A transaction that works for so long is left to the claim itself, which waits for its lock."""

_log = structlog.get_logger("rowtide")


class RecordRelease:
    """Frees the record of ``pipeline`` from sessions that are silent for ``silence_s``."""

    def __init__(self, leadership: Leadership, pipeline: str, silence_s: float) -> None:
        self._leadership = leadership
        self._pipeline = pipeline
        self._silence_s = silence_s
        self._told: str | None = None

    def attempt(self) -> Writer | None:
        """End the session that holds the record, if it is silent for long enough.

        Returns the session that a claim should still wait for. If a session cannot be looked at or ended, the claim
        has to wait for its lock, as without this.
        """
        try:
            writer = self._leadership.writer()
            if writer is None:
                return None
            if writer.grant is not None:
                self._tell("its role is another one", f"Let all processes use one role, or: {writer.grant}.")
                return None
            if writer.silent_s is None or writer.silent_s < self._silence_s:
                return writer
            self._leadership.end_writer(writer)
        except ConnectorError as error:
            self._tell(error.message, error.hint)
            return None
        _log.warning(
            "session_ended",
            pipeline=self._pipeline,
            session=writer.session,
            silent_s=round(writer.silent_s, 3),
        )
        return None

    def wait(self, clock: Clock, stopping: Callable[[], bool]) -> None:
        """Wait until the transaction that holds the record now has ended, or was ended."""
        until = clock.monotonic() + LONGEST_S
        first = held = self.attempt()
        while first is not None and held is not None and held.transaction == first.transaction:
            if stopping() or clock.monotonic() >= until:
                return
            clock.sleep(LOOK_S)
            held = self.attempt()

    def _tell(self, reason: str, hint: str | None) -> None:
        if reason != self._told:
            self._told = reason
            _log.warning("session_not_ended", pipeline=self._pipeline, reason=reason, hint=hint)
