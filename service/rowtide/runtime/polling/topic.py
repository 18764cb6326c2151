"""The log of a polled table as a topic of one partition, so that all that reads topics reads it too.

Only the live run of a service polls (``feed``). Recovery, replay and every other command read the log.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Protocol

import numpy as np

from rowtide.checkpoint.polled_log import LoggedChange, PolledLog
from rowtide.clock import Clock
from rowtide.runtime.crashpoints import CrashPoints
from rowtide.runtime.ingest.intake import BOUND_HEADER
from rowtide.runtime.polling.options import PollTimes
from rowtide.runtime.polling.poller import Poller, TableShape
from rowtide_connectors.api import Fetched, Messages, OffsetRange, PartitionReader, PolledTable

PARTITION = 0
_NAP_S = 0.1
"""Longest wait of a reader that only reads the log, between two looks at it."""


class ReadableLog(Protocol):
    """A log of changes and bounds; see ``PolledLog``."""

    def range(self) -> OffsetRange: ...

    def read(self, begin: int, limit: int) -> Sequence[LoggedChange]: ...

    def fetch(self, offsets: Sequence[int]) -> Sequence[LoggedChange]: ...


class LoggedTopic:
    """A log that nothing is added to, as a topic; see ``api.TopicSource``.

    Args:
      topic: the name of the table in its database.
      log: its log.
    """

    def __init__(self, topic: str, log: ReadableLog) -> None:
        self.topic = topic
        self._log = log

    def poll_if_due(self) -> float | None:
        """Add to the log if that is due. Return the seconds until the next time; None: never."""
        return None

    def monotonic(self) -> float | None:
        """Return the time of the clock of polls; None: the table is not polled."""
        return None

    def wait(self, seconds: float) -> None:
        """Wait on the clock of polls."""
        threading.Event().wait(seconds)

    def read(self, begin: int, limit: int) -> Messages | None:
        """Return the messages of the log from ``begin`` on; None: there is none yet."""
        changes = self._log.read(begin, limit)
        return _messages(self.topic, changes) if changes else None

    def ranges(self) -> Mapping[int, OffsetRange]:
        """Return the range of the log."""
        return {PARTITION: self._log.range()}

    def offsets_at(self, timestamp_ms: int) -> Mapping[int, int]:
        """Return the first offset of the log: a table has no earlier states to leave out."""
        return {PARTITION: self._log.range().earliest}

    def reader(self, positions: Mapping[int, int]) -> PartitionReader:
        """Open a reader of the log."""
        return LogReader(self, positions[PARTITION])

    def fetch(self, partition: int, offsets: Sequence[int]) -> Mapping[int, Fetched]:
        """Return the messages at these offsets."""
        return {
            each.offset: Fetched(each.rowtime, each.content, each.key) for each in self._log.fetch(offsets)
        }

    def has_append_times(self) -> bool:
        """Return False: the polls log their bounds."""
        return False

    def identity(self) -> str | None:
        """Return None: the log is dropped with the positions."""
        return None

    def ask_identity(self, timeout_s: float) -> Callable[[], str | None]:
        """Return a function that returns None."""
        del timeout_s
        return self.identity

    def is_compacted(self) -> bool:
        """Return False: what a recovery reads is never removed."""
        return False

    def close(self) -> None:
        """Do nothing: the log has no connection of its own."""


class PolledTopic(LoggedTopic):
    """The log of one table in the checkpoint, which polls add to.

    Args:
      shape: the columns of the table.
      table: the table in its database.
      log: its log in the checkpoint.
      times: the intervals of polls.
    """

    def __init__(self, shape: TableShape, table: PolledTable, log: PolledLog, times: PollTimes) -> None:
        super().__init__(table.name, log)
        self.interval_ms = times.interval_ms
        self._shape = shape
        self._table = table
        self._changes = log
        self._times = times
        self._poller: Poller | None = None
        self._turn = threading.Lock()

    def check(self) -> str | None:
        """Check that the table fits its declaration; see ``api.PolledTable``."""
        return self._table.check()

    def feed(self, epoch: int, clock: Clock, crash_points: CrashPoints) -> None:
        """Let readers poll the table from now on, under ``epoch``."""
        self._poller = Poller(
            self._shape, self._table, self._changes, self._times, epoch, clock, crash_points
        )

    def rest(self) -> None:
        """Let readers read the log only: another process polls."""
        self._poller = None

    def poll_if_due(self) -> float | None:
        """Poll the table if a poll is due. Return the seconds until the next one; None: never.

        Raises:
          As ``Poller.poll``.
        """
        poller = self._poller
        if poller is None:
            return None
        # The reader of an earlier run of this process may not have ended.
        with self._turn:
            state = poller.state()
            if poller.wait_ms(state) == 0:
                state = poller.poll()
            return poller.wait_ms(state) / 1000

    def monotonic(self) -> float | None:
        """Return the time of the clock of polls; None: nothing polls yet."""
        return None if self._poller is None else self._poller.clock.monotonic()

    def wait(self, seconds: float) -> None:
        """Wait on the clock of polls."""
        if self._poller is None:
            super().wait(seconds)
        else:
            self._poller.clock.sleep(seconds)

    def close(self) -> None:
        """Release the connections of the table."""
        self._table.close()


class LogReader:
    """Reads the log, and polls when a poll is due; see ``api.PartitionReader``."""

    def __init__(self, topic: LoggedTopic, position: int) -> None:
        self._topic = topic
        self._next = position
        self._paused = False
        self._due: float | None = None
        self._is_read = False

    def poll(self, max_messages: int, timeout_s: float) -> Sequence[Messages]:
        """Return what is in the log; without new records, poll the table if a poll is due."""
        if self._paused:
            self._topic.wait(timeout_s)
            return []
        found = self._take(max_messages)
        if found is not None:
            return [found]
        now = self._topic.monotonic()
        if now is None:
            self._topic.wait(min(timeout_s, _NAP_S))
            self._is_read = False
        elif self._due is None or now >= self._due:
            wait = self._topic.poll_if_due()
            self._due = None if wait is None else now + wait
            self._is_read = False
            found = self._take(max_messages)
        else:
            self._topic.wait(min(timeout_s, self._due - now))
        return [] if found is None else [found]

    def _take(self, max_messages: int) -> Messages | None:
        """Read the log, unless it was read to its end and nothing has been logged since."""
        if self._is_read:
            return None
        found = self._topic.read(self._next, max_messages)
        if found is None:
            self._is_read = True
        else:
            self._next = found.next_offset
        return found

    def pause(self, partitions: Iterable[int]) -> None:
        """Neither read nor poll."""
        self._paused = self._paused or PARTITION in partitions

    def resume(self, partitions: Iterable[int]) -> None:
        """Read and poll again."""
        self._paused = self._paused and PARTITION not in partitions

    def close(self) -> None:
        """Do nothing: the topic has the connections."""


def _messages(topic: str, changes: Sequence[LoggedChange]) -> Messages:
    headers = [None if each.bound is None else ((BOUND_HEADER, b"%d" % each.bound),) for each in changes]
    return Messages(
        topic=topic,
        partition=PARTITION,
        offsets=np.array([each.offset for each in changes], dtype=np.int64),
        timestamps=np.array([each.rowtime for each in changes], dtype=np.int64),
        keys=[each.key for each in changes],
        values=[each.content for each in changes],
        next_offset=changes[-1].offset + 1,
        headers=headers if any(headers) else None,
    )
