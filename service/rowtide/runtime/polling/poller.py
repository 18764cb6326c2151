"""One poll of a table: read it, log what differs from the last logged rows, log the next bound.

Rowtimes (docs/decisions/0009-tables-of-databases-as-sources.md):

* Changes have the rowtime of the poll that finds them: its wall time when it begins, and never less than
  the last bound. Rows of the first poll have always been there: their rowtime is 1970-01-01.
* A complete poll promises that no change comes before the next poll is due: its bound is
  ``poll_interval`` later. So rows of a stream wait for a table only while a poll is late.

A poll that does not complete has logged a part of its changes, and no bound. The next one has the same
rowtime, so both are one change of the table for every reader.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import msgspec
import numpy as np
import structlog
from numpy.typing import NDArray

from rowtide.checkpoint.polled_log import LOOK_UP_ROWS, PolledLog, PolledRow, PollState
from rowtide.clock import Clock
from rowtide.errors import StatementError
from rowtide.runtime.crashpoints import CrashPoints
from rowtide.runtime.polling.options import PollTimes
from rowtide_connectors.api import PolledTable
from rowtide_connectors.errors import UnavailableError

ALWAYS_MS = 0
"""The rowtime of the rows of the first poll."""

_KEY_CHARACTERS = 32
_encode = msgspec.json.Encoder(decimal_format="number").encode
_log = structlog.get_logger("rowtide")


@dataclass(frozen=True, slots=True)
class TableShape:
    """The columns of a table, by their SQL names, and the places of those of its key."""

    relation: str
    columns: tuple[str, ...]
    key: tuple[int, ...]
    read_from: str
    """The table and the options that decide what a poll reads."""
    jsons: tuple[int, ...] = ()
    """The places of columns of JSON, which the database gives as text."""

    def row(self, values: tuple[object, ...]) -> PolledRow:
        """Return a row as messages have it."""
        key = {self.columns[at]: values[at] for at in self.key}
        row = dict(zip(self.columns, values, strict=True))
        for at in self.jsons:
            if isinstance(text := values[at], str):
                row[self.columns[at]] = msgspec.Raw(text.encode())
        return PolledRow(_encode(key), _encode(row))


@dataclass(frozen=True, slots=True)
class Poller:
    """Polls one table under an epoch; used by one thread at a time."""

    shape: TableShape
    table: PolledTable
    log: PolledLog
    times: PollTimes
    epoch: int
    clock: Clock
    crash_points: CrashPoints

    def state(self) -> PollState:
        """Return how far the polls got.

        Raises:
          UnavailableError.
        """
        return self.log.state(self.shape.read_from)

    def wait_ms(self, state: PollState) -> int:
        """Return how long to wait for the next poll; at most one interval, whatever the wall clock does."""
        if state.bound is None or state.pending is not None:
            return 0
        return min(max(state.bound - self.clock.now_ms(), 0), self.times.interval_ms)

    def poll(self) -> PollState:
        """Read the table, log the changes and the next bound; return the state after it.

        Raises:
          UnavailableError: the database of the table or of the checkpoint is down, or two rows of the table have
            the same key; a later call continues.
          GoneError, MismatchError: the table does not fit its declaration any more.
          SupersededError: another process took the pipeline.
          StatementError: two rows have the same key in the first poll, so the declared key is wrong.
        """
        state = self.state()
        began, now = self.clock.monotonic(), self.clock.now_ms()
        rowtime = self._rowtime(state, now)
        whole = self._reads_all(state, now)
        first, begin = state.bound is None, state.next_offset
        self.crash_points.reach("poll.before_read")
        keys = bytearray()
        rows = 0
        with self.table.read(None if whole else state.reached) as read:
            reached = read.reached
            for some in self._rows(read.chunks(), is_first=first):
                rows += len(some)
                if whole:
                    keys += "".join(row.key_digest for row in some).encode()
                state = self.log.append(self.epoch, state, rowtime, some)
                self.crash_points.reach("poll.after_rows")
        if whole:
            state = self._delete_others(state, rowtime, keys)
        changes = state.next_offset - begin
        state = self.log.complete(
            self.epoch,
            replace(
                state,
                bound=max(rowtime, now) + self.times.interval_ms,
                reached=reached,
                compared_ms=now if whole else state.compared_ms,
            ),
        )
        self.crash_points.reach("poll.after_bound")
        (_log.info if first else _log.debug)(
            "table_polled",
            relation=self.shape.relation,
            table=self.table.name,
            all_rows=whole,
            rows=rows,
            changes=changes,
            seconds=round(self.clock.monotonic() - began, 3),
        )
        return state

    def _rowtime(self, state: PollState, now: int) -> int:
        if state.pending is not None:
            return state.pending
        return ALWAYS_MS if state.bound is None else max(now, state.bound)

    def _reads_all(self, state: PollState, now: int) -> bool:
        if state.reached is None or state.compared_ms is None:
            return True
        return self.times.compare_ms is not None and now - state.compared_ms >= self.times.compare_ms

    def _rows(
        self, chunks: Iterator[Sequence[tuple[object, ...]]], *, is_first: bool
    ) -> Iterator[list[PolledRow]]:
        """Yield the rows of a read in groups for the log, with distinct keys.

        Raises:
          StatementError: two rows have the same key, and the poll is the first one.
          UnavailableError: so they have in a later poll.
        """
        last = None
        for chunk in chunks:
            for start in range(0, len(chunk), LOOK_UP_ROWS):
                rows = [self.shape.row(values) for values in chunk[start : start + LOOK_UP_ROWS]]
                keys = {row.key for row in rows}
                if len(keys) < len(rows) or last in keys:
                    raise self._two_rows(rows, last, is_first=is_first)
                last = rows[-1].key
                yield rows

    def _two_rows(
        self, rows: Sequence[PolledRow], last: bytes | None, *, is_first: bool
    ) -> StatementError | UnavailableError:
        seen = {last}
        for row in rows:
            if row.key in seen:
                break
            seen.add(row.key)
        text = f'table "{self.table.name}" has two rows with the key {row.key.decode()}'
        if is_first:
            return StatementError(
                text,
                hint=f'Declare as PRIMARY KEY of "{self.shape.relation}" columns that no two rows share.',
            )
        return UnavailableError(
            text, hint="Delete or change one of them in the database; the poll is then repeated by itself."
        )

    def _delete_others(self, state: PollState, rowtime: int, keys: bytearray) -> PollState:
        """Log DELETEs of the logged rows whose keys were not read."""
        read: NDArray[np.bytes_] = np.sort(np.frombuffer(keys, dtype=f"S{_KEY_CHARACTERS}"))
        for known in self.log.key_digests():
            gone = _not_in(known, read)
            if gone:
                state = self.log.delete(self.epoch, state, rowtime, gone)
                self.crash_points.reach("poll.after_deletes")
        return state


def _not_in(digests: Sequence[str], read: NDArray[np.bytes_]) -> list[str]:
    """Return the digests that are not in ``read``, which is sorted."""
    if not len(read):
        return list(digests)
    wanted = np.array(digests, dtype=read.dtype)
    places = np.minimum(np.searchsorted(read, wanted), len(read) - 1)
    return [digests[at] for at in np.flatnonzero(read[places] != wanted).tolist()]
