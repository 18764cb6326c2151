"""SIGTERM and SIGINT: finish the commit and exit within ten seconds, on Spark within two minutes.

The first signal asks the main loop to stop. A commit that hangs in a database
that does not answer must not keep the process: after a limit the process
ends anyway. This is safe at any moment, because messages that are not
committed are read again.
"""

from __future__ import annotations

import os
import signal
import threading
from types import FrameType
from typing import Any

import structlog

LIMIT_S = 9.0
"""Ten seconds are promised. One of them is for the end of the process."""
BATCH_LIMIT_S = 115.0
"""On Spark the batch in hand is finished, within two minutes."""
_GIVEN_UP = 3

_log = structlog.get_logger("rowtide")


class StopSignals:
    """Notes that the process was asked to stop, within a ``with`` block of its main thread.

    ``limit_s``: the time after which it ends anyway.
    """

    def __init__(self, limit_s: float = LIMIT_S) -> None:
        self._limit_s = limit_s
        self._asked = False
        self._before: dict[signal.Signals, Any] = {}
        self._watchdog: threading.Timer | None = None

    def is_set(self) -> bool:
        """Return whether to stop."""
        return self._asked

    def __enter__(self) -> StopSignals:
        for number in (signal.SIGTERM, signal.SIGINT):
            self._before[number] = signal.signal(number, self._handle)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        if self._watchdog is not None:
            self._watchdog.cancel()

    def _handle(self, number: int, _frame: FrameType | None) -> None:
        if self._asked:
            # After the second signal, do not wait.
            os._exit(_GIVEN_UP)
        self._asked = True
        _log.info("stopping", signal=signal.Signals(number).name)
        self._watchdog = threading.Timer(self._limit_s, _give_up, [self._limit_s])
        self._watchdog.daemon = True
        self._watchdog.start()


def _give_up(limit_s: float) -> None:
    _log.error(
        "stop_timed_out", limit_s=limit_s, hint="Nothing is lost: what was not committed is read again."
    )
    os._exit(_GIVEN_UP)
