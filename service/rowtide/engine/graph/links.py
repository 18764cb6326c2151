"""The links between the nodes of a graph: rows in order, and a bound for later rows.

A link has one writer and one reader, which can be two threads: the writer adds
a row before it raises the bound, the reader reads the bound before it looks for
rows. So rows that the reader has not seen are not before the bound.
"""

from __future__ import annotations

from collections import deque
from heapq import heapify, heappop, heappush
from typing import Any

from rowtide.engine.graph.decisions import Divergence, ReplayDivergedError, Restamped
from rowtide.engine.graph.graph import LoopShape, Use
from rowtide.engine.graph.node import Timer
from rowtide.engine.graph.stamp import BEHIND, END, START, Gap, Given, Stamp, Turn, later, reaching


class Link:
    """Rows from one writer in the order of their stamps; no later row is before ``bound``."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.bound = START
        self._waiting: deque[Given] = deque()

    def put(self, given: Given) -> None:
        """Add a row; called by the writer."""
        self._waiting.append(given)

    def promise(self, bound: Stamp) -> bool:
        """Raise the bound and return whether it moved; called by the writer."""
        if bound <= self.bound:
            return False
        self.bound = bound
        return True

    def next_stamp(self) -> Stamp:
        """Return the stamp of the first row, or the least stamp of the next one; called by the reader."""
        bound = self.bound
        return self._waiting[0].stamp if self._waiting else bound

    def __len__(self) -> int:
        return len(self._waiting)

    def take(self) -> Given:
        """Remove and return the first row."""
        return self._waiting.popleft()

    def snapshot(self) -> Any:
        """Return the rows and the bound as plain values."""
        return tuple(self.bound), [(tuple(each.stamp), each.row) for each in self._waiting]

    def restore(self, state: Any) -> None:
        """Restore the state that ``snapshot`` returned."""
        bound, waiting = state
        self.bound = Stamp(*bound)
        self._waiting = deque(Given(Stamp(*stamp), row) for stamp, row in waiting)


class Timers:
    """Events at rowtimes, of the scheduler of one node. Entries of the heap may be stale."""

    def __init__(self, origin: int) -> None:
        self._origin = origin
        self._heap: list[tuple[Stamp, int]] = []
        self._live: dict[int, Timer] = {}
        self._counter = 0

    def __len__(self) -> int:
        return len(self._live)

    def add(self, now: Stamp, rowtime: int, payload: object) -> int:
        """Add an event at ``rowtime``, or right after ``now`` if that is later; return its handle."""
        self._counter += 1
        self._set(self._counter, now, rowtime, payload)
        return self._counter

    def move(self, handle: int, now: Stamp, rowtime: int) -> None:
        """Move an event that has not run to another rowtime."""
        if handle in self._live:
            self._set(handle, now, rowtime, self._live[handle].payload)

    def drop(self, handle: int) -> None:
        """Cancel an event."""
        self._live.pop(handle, None)

    def first(self) -> Stamp | None:
        """Return the stamp of the next event."""
        while self._heap:
            stamp, handle = self._heap[0]
            if handle in self._live and self._live[handle].stamp == stamp:
                return stamp
            heappop(self._heap)
        return None

    def take(self) -> Timer:
        """Remove and return the next event, after a call of ``first``."""
        _, handle = heappop(self._heap)
        return self._live.pop(handle)

    def take_between(self, before: int, after: int) -> list[Timer]:
        """Remove and return the events between two rowtimes (ms, both excluded), in order."""
        found = (each for each in self._live.values() if before < each.stamp.rowtime < after)
        due = sorted(found, key=lambda each: each[:2])
        for each in due:
            del self._live[each.handle]
        return due

    def rowtimes(self) -> list[int]:
        """Return the rowtimes (ms) of the events."""
        return [each.stamp.rowtime for each in self._live.values()]

    def is_between(self, before: int, after: int) -> bool:
        """Return whether an event has a rowtime between two (ms, both excluded)."""
        return any(before < each.stamp.rowtime < after for each in self._live.values())

    def snapshot(self) -> Any:
        """Return the events as plain values."""
        return self._counter, [(tuple(each.stamp), each.handle, each.payload) for each in self._live.values()]

    def restore(self, state: Any) -> None:
        """Restore the state that ``snapshot`` returned."""
        self._counter, live = state
        timers = [Timer(Stamp(*stamp), handle, payload) for stamp, handle, payload in live]
        self._live = {each.handle: each for each in timers}
        self._heap = [(each.stamp, each.handle) for each in timers]
        heapify(self._heap)

    def _set(self, handle: int, now: Stamp, rowtime: int, payload: object) -> None:
        stamp = max(Stamp(rowtime, self._origin, handle), now)
        self._live[handle] = Timer(stamp, handle, payload)
        heappush(self._heap, (stamp, handle))


Entry = tuple[Stamp, bool, int, object]
"""What is in a looping link: stamp, whether it comes last there, number, row."""


def _place(entry: Entry) -> tuple[Stamp, bool, int]:
    return entry[:3]


class LoopLink:
    """A looping link, or a scheduler that a loop drives: it gives its rows new stamps.

    ``_arrived`` are the rows that the writer has added and the reader has not stamped yet; those of a
    CONSISTENT link or a scheduler have their stamps already. ``port`` is its number among the ports of the
    reader.
    """

    def __init__(
        self, shape: LoopShape, origin: int, port: int, log: list[Restamped], diverging: Divergence
    ) -> None:
        self.shape = shape
        self.name = shape.name
        self._origin = origin
        self._port = port
        self._log = deque(log)
        self._diverging = diverging
        self._arrived: deque[tuple[int, Given]] = deque()
        self._heap: list[Entry] = []
        self._put = 0
        self._bound = END if shape.use is Use.RECORDED else START
        self._seen = self._bound
        self.decided: list[Restamped] = []

    @property
    def is_decided(self) -> bool:
        """Whether stamps depend on the rows that wait at the target, and are logged."""
        return self.shape.use in (Use.LIMITED, Use.RECORDED)

    def put(self, given: Given, rowtime: int | None = None) -> None:
        """Add a row, or an event for ``rowtime``; called by the writer."""
        self._put += 1
        if not self.is_decided:
            least = later(given.stamp.rowtime, self.shape.delay_ms)
            wanted = least if rowtime is None else max(rowtime, least)
            given = Given(Stamp(wanted, self._origin, self._put), given.row)
        self._arrived.append((self._put, given))

    def promise(self, bound: Stamp) -> bool:
        """Record that later rows are sent at ``bound`` or later; called by the writer."""
        if self.shape.use is Use.RECORDED:
            return False
        raised = reaching(later(bound.rowtime, self.shape.delay_ms), self._origin)
        if raised <= self._bound:
            return False
        self._bound = raised
        return True

    def settle(self, others: Stamp, published: Stamp, clock: Turn) -> None:
        """Stamp the rows that have arrived; called by the reader.

        ``others`` is the least stamp that its other ports have or can bring, ``published`` what it has
        promised itself, ``clock`` the turn that it has processed last.
        """
        # Read first: rows that have not arrived by then are not before it.
        self._seen = self._bound
        while self._arrived:
            number, given = self._arrived.popleft()
            if not self.is_decided:
                heappush(self._heap, (given.stamp, False, number, given.row))
                continue
            decided = self._logged(number, given.stamp)
            if decided is None:
                stamp = self._decided(number, given.stamp, others, published)
                decided = Restamped(self.name, number, given.stamp, stamp, (stamp, self._port) <= clock)
            self.decided.append(decided)
            heappush(self._heap, (decided.stamp, decided.last, number, given.row))

    def next_turn(self, hidden: Gap | None = None) -> Turn:
        """Return the least turn of the rows in the link and of later rows; called after ``settle``.

        Events of a scheduler with a rowtime between ``hidden`` (ms, both excluded) are left out.
        """
        waiting = self._front(hidden)
        if self._log:
            return min(self._turn(self._log[0].stamp, self._log[0].last), waiting)
        return min((self._seen, self._port), waiting)

    def is_ready(self, turn: Turn) -> bool:
        """Return whether the first row has this turn."""
        return bool(self._heap) and self._turn(*self._heap[0][:2]) == turn

    def waiting(self, hidden: Gap | None) -> Stamp:
        """Return the stamp of the first row, as ``next_turn`` does; END if there is none."""
        return self._front(hidden)[0]

    def _front(self, hidden: Gap | None) -> Turn:
        if self.shape.use is None and hidden is not None:
            before, after, _ = hidden
            stamps = (each[0] for each in self._heap if not before < each[0].rowtime < after)
            return min(stamps, default=END), self._port
        return self._turn(*self._heap[0][:2]) if self._heap else (END, self._port)

    def _turn(self, stamp: Stamp, last: bool) -> Turn:
        return stamp, self._port + BEHIND * last

    def __len__(self) -> int:
        return len(self._heap)

    def take(self) -> Given:
        """Remove and return the first row."""
        stamp, _, _, row = heappop(self._heap)
        return Given(stamp, row)

    def take_between(self, before: int, after: int) -> list[Timer]:
        """Remove and return the events between two rowtimes (ms, both excluded), in order."""
        due = [each for each in sorted(self._heap, key=_place) if before < each[0].rowtime < after]
        taken = {number for _, _, number, _ in due}
        self._heap = [each for each in self._heap if each[2] not in taken]
        heapify(self._heap)
        return [Timer(stamp, number, payload) for stamp, _, number, payload in due]

    def rowtimes(self) -> list[int]:
        """Return the rowtimes (ms) of the rows in the link."""
        return [each[0].rowtime for each in self._heap]

    def is_between(self, before: int, after: int) -> bool:
        """Return whether an event has a rowtime between two (ms, both excluded)."""
        return any(before < each[0].rowtime < after for each in self._heap)

    def jump(self, least: Stamp) -> bool:
        """Record that nothing in the graph is before ``least``; return whether the link can continue.

        Raises:
          ReplayDivergedError: if the log has a row that can no longer arrive.
        """
        if self._log and not self._heap and least > self._log[0].original:
            self._diverge(None)
            return True
        return self.promise(least)

    def snapshot(self) -> Any:
        """Return the rows in the link as plain values; rows that have arrived are stamped first."""
        entries = [(tuple(each[0]), *each[1:]) for each in sorted(self._heap, key=_place)]
        return self._put, tuple(self._bound), entries

    def restore(self, state: Any) -> None:
        """Restore the state that ``snapshot`` returned, and keep only the part of the log after it."""
        self._put, bound, entries = state
        self._bound = Stamp(*bound)
        self._heap = [(Stamp(*stamp), last, number, row) for stamp, last, number, row in entries]
        heapify(self._heap)
        self._log = deque(each for each in self._log if each.number > self._put)

    def _logged(self, number: int, original: Stamp) -> Restamped | None:
        if not self._log:
            return None
        logged = self._log[0]
        if (logged.number, logged.original) != (number, original):
            self._diverge(original)
            return None
        return self._log.popleft()

    def _diverge(self, came: Stamp | None) -> None:
        logged = self._log[0]
        if self._diverging is Divergence.STOP:
            raise ReplayDivergedError(self.name, logged.number, logged.original, came)
        self._log.clear()

    def _decided(self, number: int, original: Stamp, others: Stamp, published: Stamp) -> Stamp:
        # Never before the row that caused it, which can be ahead of the target if no other path leads there.
        soon = max(original, published) if others == END else max(original, published, others)
        if self.shape.use is Use.LIMITED:
            late = Stamp(later(original.rowtime, self.shape.delay_ms), self._origin, number)
            return max(published, min(late, soon))
        return soon
