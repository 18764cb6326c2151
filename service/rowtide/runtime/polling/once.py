"""A table of a database that is read once, for a query beside a running pipeline: its log is in memory."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

from rowtide.checkpoint.polled_log import LoggedChange
from rowtide.clock import Clock
from rowtide.runtime.polling.options import PollTimes
from rowtide.runtime.polling.poller import ALWAYS_MS, TableShape
from rowtide.runtime.polling.topic import LoggedTopic
from rowtide_connectors.api import OffsetRange, PolledTable


class OneRead:
    """The rows of one read of a table, and the bound that a poll at that time promises."""

    def __init__(self, shape: TableShape, table: PolledTable, times: PollTimes, clock: Clock) -> None:
        self._shape = shape
        self._table = table
        self._times = times
        self._clock = clock

    @cached_property
    def _changes(self) -> Sequence[LoggedChange]:
        bound = self._clock.now_ms() + self._times.interval_ms
        found: list[LoggedChange] = []
        with self._table.read(None) as read:
            for rows in read.chunks():
                for values in rows:
                    row = self._shape.row(values)
                    found.append(LoggedChange(len(found), ALWAYS_MS, row.key, row.content, None))
        self._table.close()
        return [*found, LoggedChange(len(found), bound, None, None, bound)]

    def range(self) -> OffsetRange:
        """Return the number of rows; reads the table at the first call."""
        return OffsetRange(0, len(self._changes))

    def read(self, begin: int, limit: int) -> Sequence[LoggedChange]:
        """Return at most ``limit`` records from ``begin`` on."""
        return self._changes[begin : begin + limit]

    def fetch(self, offsets: Sequence[int]) -> Sequence[LoggedChange]:
        """Return the records at these offsets."""
        return [self._changes[offset] for offset in offsets if offset < len(self._changes)]


def read_once(shape: TableShape, table: PolledTable, times: PollTimes, clock: Clock) -> LoggedTopic:
    """Return a topic with the rows of one read of a table."""
    return LoggedTopic(table.name, OneRead(shape, table, times, clock))
