"""Crash points: named places around every I/O step, where a test can crash the process.

The runtime calls ``reach`` before and after each step that leaves the process.
In production nothing is armed and the call returns at once. A simulation arms
one point and gets ``SimulatedCrash``; a test of a child process sets
``ROWTIDE_CRASH_AT=name[:n]``, and the process ends as by SIGKILL when it
reaches that point for the n-th time.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Protocol

POINTS = (
    "start.before_epoch",
    "start.after_epoch",
    "start.before_positions",
    "start.after_positions",
    "recovery.before_snapshot",
    "recovery.after_snapshot",
    "recovery.before_replay",
    "recovery.within_replay",
    "recovery.after_replay",
    "intake.before_poll",
    "intake.after_poll",
    "intake.after_decode",
    "poll.before_read",
    "poll.after_rows",
    "poll.after_deletes",
    "poll.after_bound",
    "flow.before_drain",
    "flow.after_drain",
    "commit.before_fetch",
    "commit.before_begin",
    "commit.after_begin",
    "commit.after_fence",
    "commit.after_tables",
    "commit.after_errors",
    "commit.after_positions",
    "commit.after_snapshot",
    "commit.after_commit",
    "commit.after_settled",
    "stop.before_close",
)
"""Every crash point, in the order in which a start, a commit and a stop reach it."""

OUTBOX_POINTS = (
    "outbox.before_begin",
    "outbox.after_begin",
    "outbox.before_send",
    "outbox.after_send",
    "outbox.after_settle",
)
"""Every crash point of a sender of messages, which only pipelines that write to foreign streams reach."""

FILES_POINTS = ("files.before_list", "files.after_list")
"""Every crash point around the listing of files, which only pipelines that read files reach."""

ARCHIVE_POINTS = (
    "archive.after_poll",
    "archive.after_rows",
    "archive.before_link",
    "archive.after_link",
    "archive.after_note",
)
"""Every crash point of a process that archives topics."""

CRASH_AT = "ROWTIDE_CRASH_AT"
"""Environment variable that arms one point of a child process, as ``name`` or ``name:count``."""

_KILLED = 137
"""The exit code of a process that was killed with SIGKILL, as a shell shows it."""


class CrashPoints(Protocol):
    """Receives a call before and after each I/O step of the runtime."""

    def reach(self, point: str) -> None:
        """Reach a point of the lists of this module. Does not return if the point is armed."""


class NoCrash:
    """Production: nothing is armed."""

    def reach(self, point: str) -> None:
        """Do nothing."""


class SimulatedCrash(BaseException):
    """A simulated crash. It is not an Exception, so that no error handler catches it."""


class CrashAt:
    """Crashes when ``point`` is reached for the ``count``-th time. ``die`` raises or ends the process."""

    def __init__(self, point: str, count: int, die: Callable[[str], None]) -> None:
        if point not in (*POINTS, *OUTBOX_POINTS, *FILES_POINTS, *ARCHIVE_POINTS):
            raise ValueError(f'crash point "{point}" does not exist')
        self._point = point
        self._left = count
        self._die = die

    def reach(self, point: str) -> None:
        """Crash if this is the armed point, reached for the armed time."""
        if point == self._point:
            self._left -= 1
            if self._left == 0:
                self._die(point)


def crash_points_from_environment() -> CrashPoints:
    """Return the crash points that the environment arms: none in production."""
    armed = os.environ.get(CRASH_AT)
    if not armed:
        return NoCrash()
    point, _, count = armed.partition(":")
    return CrashAt(point, int(count or "1"), lambda _: os._exit(_KILLED))


def raise_crash(point: str) -> None:
    """Raise a simulated crash."""
    raise SimulatedCrash(point)
