"""Waiting for a dependency that is down: back off, log it once a minute, lose nothing.

Only ``UnavailableError`` of a connector leads to a wait. Without patience
(``--no-wait``) it becomes a ``TransientError``, which ends the command with
exit code 3; so does a ``DeniedError`` at a start.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

import structlog

from rowtide.clock import Clock
from rowtide.errors import TransientError
from rowtide_connectors.errors import DeniedError, UnavailableError

Result = TypeVar("Result")

FIRST_DELAY_S = 0.1
LONGEST_DELAY_S = 10.0
"""Long enough not to overload a starting server, short enough to continue soon after it is back."""
SAY_AGAIN_S = 60.0
"""Interval between reports of a wait: one when it begins, then one each minute."""
_NAP_S = 0.2
"""Longest sleep without a check whether to stop, so that SIGTERM is obeyed well within 10 seconds."""

_log = structlog.get_logger("rowtide")


class StoppedError(Exception):
    """The service was asked to stop while it waited. The step was not done, and nothing was lost."""


@dataclass(frozen=True, slots=True)
class Patience:
    """Which failures are waited for.

    Args:
      wait: False raises TransientError at the first failure.
      denied_ends: returns whether a DeniedError raises TransientError, too. At a start nothing has worked
        yet, so credentials or rights are likely wrong.
    """

    wait: bool
    denied_ends: Callable[[], bool] = lambda: False


class Retry:
    """Repeats steps against one dependency until they succeed.

    Args:
      dependency: the name shown to the user, for example ``broker of "orders"``.
      clock: reads the time and sleeps; virtual in tests.
      rng: spreads the delays, so that many services do not retry at the same moment.
      stopping: returns whether the service was asked to stop.
      waiting: called with the dependency and True repeatedly while it is down, and with False when it is back.
      failed: called with the dependency once for every failure.
    """

    def __init__(
        self,
        dependency: str,
        *,
        clock: Clock,
        rng: random.Random,
        stopping: Callable[[], bool],
        patience: Patience,
        waiting: Callable[[str, bool], None] = lambda _dependency, _is_down: None,
        failed: Callable[[str], None] = lambda _dependency: None,
    ) -> None:
        self._dependency = dependency
        self._clock = clock
        self._rng = rng
        self._stopping = stopping
        self._patience = patience
        self._waiting = waiting
        self._failed = failed

    def call(self, step: Callable[[], Result]) -> Result:
        """Repeat ``step`` until it succeeds, and return its result.

        Raises:
          TransientError: it failed, and waiting is not wanted or would not help.
          StoppedError: the service was asked to stop meanwhile.
        """
        delay = FIRST_DELAY_S
        began = said = None
        failures = 0
        while True:
            try:
                result = step()
            except UnavailableError as error:
                if isinstance(error, DeniedError) and self._patience.denied_ends():
                    raise TransientError(error.message, hint=error.hint) from error
                if not self._patience.wait:
                    raise TransientError(
                        f"{self._dependency} is down: {error.message}", hint=error.hint
                    ) from error
                failures += 1
                self._failed(self._dependency)
                now = self._clock.monotonic()
                began = now if began is None else began
                if said is None or now - said >= SAY_AGAIN_S:
                    said = now
                    _log.warning(
                        "dependency_down",
                        dependency=self._dependency,
                        reason=error.message,
                        hint=error.hint,
                        waiting_s=round(now - began, 1),
                        failures=failures,
                    )
                self._sleep(delay * (0.5 + self._rng.random() / 2))
                delay = min(delay * 2, LONGEST_DELAY_S)
                continue
            if began is not None:
                self._waiting(self._dependency, False)
                down_s = round(self._clock.monotonic() - began, 1)
                _log.info("dependency_back", dependency=self._dependency, down_s=down_s, failures=failures)
            return result

    def _sleep(self, seconds: float) -> None:
        until = self._clock.monotonic() + seconds
        while (left := until - self._clock.monotonic()) > 0:
            if self._stopping():
                raise StoppedError(self._dependency)
            self._waiting(self._dependency, True)
            self._clock.sleep(min(left, _NAP_S))
        if self._stopping():
            raise StoppedError(self._dependency)
