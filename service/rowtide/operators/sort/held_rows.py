"""Rows that wait for their time, and leave in order of it.

Rows that arrive in order of time wait in a queue in place, even between other rows of their tray. Only
rows that are earlier than a row before them are sorted: into runs, each more than twice as long as the
next, so that small trays do not sort again what large ones have sorted. When rows leave, every column that
something reads is gathered once.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from rowtide.operators.storage.gathering import Stretch, take_rows, take_rows_later
from rowtide.operators.storage.waiting import SMALL_ROWS
from rowtide.rows.arrays import Int64s
from rowtide.rows.column import compact
from rowtide.rows.tray import Tray
from rowtide.rows.types import RowType
from rowtide.rowtime.bound import EARLIEST

NO_ROWS: Int64s = np.empty(0, dtype=np.int64)

RECENT = 2
"""Maximum number of large trays that are kept whole: their rows out of order stay in place for a while."""


@dataclass(frozen=True, slots=True)
class _Piece:
    """Rows of a tray in order of time; ``rows`` None: all that it has."""

    tray: Tray
    rows: Int64s | None
    times: Int64s

    @classmethod
    def whole(cls, tray: Tray) -> _Piece:
        return cls(tray, None, compact(tray.rowtime))

    def __len__(self) -> int:
        return len(self.times)

    def slice(self, start: int, stop: int) -> _Piece:
        if self.rows is None:
            return _Piece(self.tray.slice(start, stop), None, self.times[start:stop])
        return _Piece(self.tray, self.rows[start:stop], self.times[start:stop])

    def taken(self) -> Tray:
        """Return the rows by themselves."""
        return self.tray if self.rows is None else take_rows(self.tray, self.rows, self.times)


class HeldRows:
    """Rows of one type. Rows of one time leave in order of arrival.

    A row that is not in the queue came after a later one that is, or was: so it came after every row of the
    queue that has its time.
    """

    def __init__(self, row_type: RowType) -> None:
        self._row_type = row_type
        self._queue: deque[_Piece] = deque()
        self._runs: list[_Piece] = []
        self._recent: list[_Piece] = []
        self._highest = EARLIEST
        self._waiting = 0

    def __len__(self) -> int:
        return self._waiting

    def first(self) -> int | None:
        """Return the least rowtime of the waiting rows."""
        found = [int(piece.times[0]) for piece in (*self._runs, *self._recent)]
        if self._queue:
            found.append(int(self._queue[0].times[0]))
        return min(found, default=None)

    def add(self, tray: Tray) -> None:
        """Add rows, in order of arrival."""
        from rowtide.operators.storage.kernels.gathering import part

        count = len(tray)
        if not count:
            return
        self._waiting += count
        whole = _Piece.whole(tray)
        times = whole.times
        ascending, in_turn, others = np.empty((3, count), dtype=np.int64)
        in_order = int(part(times, self._highest, ascending, in_turn, others))
        if in_order == count:
            self._append(whole)
            return
        others = others[: count - in_order]
        others = others[np.argsort(times[others], kind="stable")]
        is_small = count <= SMALL_ROWS
        if in_order:
            piece = _Piece(tray, ascending[:in_order], in_turn[:in_order])
            self._append(_Piece.whole(piece.taken()) if is_small or 2 * in_order < count else piece)
        self._recent.append(_Piece(tray, others, times[others]))
        while len(self._recent) > (0 if is_small else RECENT):
            self._sort_in(_Piece.whole(self._recent.pop(0).taken()))

    def release(self, limit: int) -> Tray | None:
        """Remove and return the rows with rowtime <= limit, in order."""
        first = self.first()
        if first is None or first > limit:
            return None
        pieces = self._leaving(limit)
        runs, self._runs = _split(self._runs, limit)
        recent, self._recent = _split(self._recent, limit)
        out = _together(pieces, [*runs, *recent], leaving=True)
        self._waiting -= len(out)
        return out

    def contents(self) -> Tray:
        """Return all waiting rows, in order; they stay."""
        if not self._waiting:
            return Tray.empty(self._row_type)
        return _together(list(self._queue), [*self._runs, *self._recent])

    # --------------------------------------------------------------- inside

    def _append(self, piece: _Piece) -> None:
        pieces = self._queue
        pieces.append(piece)
        self._highest = int(piece.times[-1])
        while len(pieces) > 1 and len(pieces[-2]) <= len(pieces[-1]) <= SMALL_ROWS:
            younger = pieces.pop()
            pieces.append(_Piece.whole(_together([pieces.pop(), younger], [])))

    def _sort_in(self, piece: _Piece) -> None:
        parts = [piece]
        length = len(piece)
        while self._runs and 2 * length >= len(self._runs[-1]):
            parts.append(self._runs.pop())
            length += len(parts[-1])
        self._runs.append(_Piece.whole(_together([], parts[::-1])))

    def _leaving(self, limit: int) -> list[_Piece]:
        """Take rows from the front of the queue."""
        pieces = self._queue
        leaving = []
        while pieces and pieces[0].times[0] <= limit:
            piece = pieces.popleft()
            if piece.times[-1] > limit:
                cut = int(np.searchsorted(piece.times, limit, side="right"))
                pieces.appendleft(piece.slice(cut, len(piece)))
                piece = piece.slice(0, cut)
            leaving.append(piece)
        return leaving


def _split(pieces: Sequence[_Piece], limit: int) -> tuple[list[_Piece], list[_Piece]]:
    """Return of each piece the rows with rowtime <= limit, and the others."""
    leaving, staying = [], []
    for piece in pieces:
        cut = int(np.searchsorted(piece.times, limit, side="right"))
        if cut:
            leaving.append(piece.slice(0, cut))
        if cut < len(piece):
            staying.append(piece.slice(cut, len(piece)))
    return leaving, staying


def _together(queue: Sequence[_Piece], runs: Sequence[_Piece], *, leaving: bool = False) -> Tray:
    """Put the rows of a queue and of sorted runs, the oldest first, into one tray in order of time.

    Of rows that are ``leaving``, fields are gathered that something reads.
    """
    from rowtide.operators.storage.kernels.gathering import zip_in

    if all(piece.rows is None for piece in queue) and (not runs or (not queue and len(runs) == 1)):
        return Tray.concat([piece.taken() for piece in (*queue, *runs)])
    stretches, moves = _laid_out([*queue, *runs], len(queue))

    def gathered(order: Int64s, rowtime: Int64s) -> Tray:
        if leaving:
            return take_rows_later(stretches, order, rowtime)
        return take_rows(Tray.concat([stretch.tray() for stretch in stretches]), order, rowtime)

    other_places, other_times = _sorted(runs, moves[len(queue) :])
    if not queue:
        return gathered(other_places, other_times)
    rows = sum(map(len, queue)) + len(other_times)
    order, rowtime = np.empty(rows, dtype=np.int64), np.empty(rows, dtype=np.int64)
    in_queue = done = 0
    for piece, move in zip(queue, moves, strict=False):
        places = NO_ROWS if piece.rows is None else piece.rows
        start = in_queue + done
        done = zip_in(
            piece.times, places, move, other_times, other_places, done, order[start:], rowtime[start:]
        )
        in_queue += len(piece)
    order[in_queue + done :] = other_places[done:]
    rowtime[in_queue + done :] = other_times[done:]
    return gathered(order, rowtime)


def _laid_out(pieces: Sequence[_Piece], in_queue: int) -> tuple[list[Stretch], list[int]]:
    """Return what the pieces, the first ``in_queue`` of them of the queue, need of their trays, end to end.

    The result includes the offset of each piece's rows.
    """
    ranges: dict[int, tuple[Tray, int, int]] = {}
    for at, piece in enumerate(pieces):
        start, stop = 0, len(piece.tray)
        if piece.rows is not None:
            rows = piece.rows
            # Those of the queue ascend.
            first_row, last_row = (rows[0], rows[-1]) if at < in_queue else (rows.min(), rows.max())
            start, stop = int(first_row), int(last_row) + 1
            if id(piece.tray) in ranges:
                _, first, last = ranges[id(piece.tray)]
                start, stop = min(start, first), max(stop, last)
        ranges[id(piece.tray)] = (piece.tray, start, stop)
    stretches, moved = [], {}
    behind = 0
    for key, (tray, start, stop) in ranges.items():
        stretches.append(Stretch(tray, start, stop))
        moved[key] = behind - start
        behind += stop - start
    return stretches, [moved[id(piece.tray)] for piece in pieces]


def _sorted(pieces: Sequence[_Piece], moves: Sequence[int]) -> tuple[Int64s, Int64s]:
    """Return places and times in the order of the times; those of one time keep their order."""
    if not pieces:
        return NO_ROWS, NO_ROWS
    moved = [
        (np.arange(len(piece)) if piece.rows is None else piece.rows) + move
        for piece, move in zip(pieces, moves, strict=True)
    ]
    if len(pieces) == 1:
        return moved[0], pieces[0].times
    places, times = np.concatenate(moved), np.concatenate([piece.times for piece in pieces])
    order = np.argsort(times, kind="stable")
    return places[order], times[order]
