"""Graphs row by row: what each stimulus does in the whole graph, before the next one.

Random shapes with diamonds, loops and schedulers, processors that do everything they may, and a
reference that knows no queues, bounds or threads.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, cast

from hypothesis import strategies as st

from rowtide.engine.graph import At, Given, Graph, Processor, Stamp, Timer, Use
from rowtide.rowtime.bound import EARLIEST, LATEST

LOOP_MS = 7


@dataclass(frozen=True)
class Habits:
    """How one processor behaves: numbers that decide what it does with a row of some value."""

    copies: int
    timer_ms: int
    moves_to_ms: int
    cancels: int
    resets: bool


class Busy:
    """A processor whose every act depends on all that it has seen, in order.

    A row or event is (energy, mark); energy falls with every loop and timer, so all comes to an end.
    """

    def __init__(self, habits: Habits, loops: Sequence[str], schedulers: Sequence[str]) -> None:
        self._habits = habits
        self._loops = loops
        self._schedulers = schedulers
        self._seen = 0
        self._handles: list[int] = []

    def row(self, port: str, row: Any, at: At) -> None:
        energy, mark = row  # rows of these graphs are pairs
        self._see(hash_of(port, energy, mark, at.stamp))
        for copy in range((1, 0, 1, 2, 1)[(self._seen + self._habits.copies) % 5]):
            at.send((energy, (mark * 5 + self._seen + copy) % 9973))
        self._spend(energy, mark, at)

    def event(self, payload: Any, at: At) -> None:
        energy, mark = payload  # so are events
        self._see(hash_of("event", energy, mark, at.stamp))
        at.send((energy, (mark + self._seen) % 9973))
        self._spend(energy, mark, at)

    def _spend(self, energy: int, mark: int, at: At) -> None:
        if energy <= 0:
            return
        wanted = (self._seen + mark) % 7
        if wanted in (0, 1):
            handle = at.schedule(at.rowtime + self._habits.timer_ms * (mark % 3), (energy - 1, mark + 1))
            self._handles.append(handle)
        if wanted == 2 and self._handles:
            at.reschedule(self._handles[mark % len(self._handles)], at.rowtime + self._habits.moves_to_ms)
        if wanted == 3 and self._handles and self._habits.cancels:
            at.cancel(self._handles.pop())
        if wanted in (3, 4, 5) and self._loops:
            at.send((energy - 1, mark + 3), to=self._loops[mark % len(self._loops)])
        if wanted in (5, 6) and self._schedulers:
            name = self._schedulers[mark % len(self._schedulers)]
            at.schedule(at.rowtime + mark % 20, (energy - 1, mark + 2), on=name)

    def _see(self, value: int) -> None:
        self._seen = (self._seen * 31 + value) % 9973

    def snapshot(self) -> object:
        return self._seen, list(self._handles)

    def restore(self, state: Any) -> None:
        self._seen, handles = state  # as given by snapshot
        self._handles = list(handles)


def hash_of(port: str, energy: int, mark: int, stamp: Stamp) -> int:
    found = sum(map(ord, port)) + 3 * energy + 7 * mark
    return found + 11 * stamp.rowtime + 13 * stamp.origin + 17 * stamp.counter


class BusyResettable(Busy):
    """One that runs what is due when time jumps, and asks for something new."""

    def reset(self, before: int, after: int, due: Sequence[Timer], at: At) -> None:
        self._see(before + 3 * after)
        for timer in due:
            energy, mark = cast(tuple[int, int], timer.payload)
            self._see(timer.stamp.rowtime)
            at.send((energy, mark))
        at.schedule(after + 1, (0, len(due)))


@dataclass(frozen=True)
class Shape:
    """A graph with what runs in it."""

    graph: Graph
    habits: dict[str, Habits]

    @property
    def outputs(self) -> list[str]:
        return [node.name for node in self.graph.nodes]


@st.composite
def shapes(draw: st.DrawFn, uses: Sequence[Use] = (Use.CONSISTENT,), resets: bool = False) -> Shape:
    """One to four nodes over one or two sources, so that diamonds are common; up to two loops."""
    graph = Graph()
    names = [graph.source(f"S{at}") for at in range(draw(st.integers(1, 2)))]
    nodes = [f"N{at}" for at in range(draw(st.integers(1, 4)))]
    loops: dict[str, list[str]] = {name: [] for name in nodes}
    schedulers: dict[str, list[str]] = {name: [] for name in nodes}
    later = []
    for at in range(draw(st.integers(0, 2))):
        of = draw(st.sampled_from(nodes))
        to = draw(st.sampled_from(nodes[: nodes.index(of) + 1]))
        use = draw(st.sampled_from((*uses, None)))
        (schedulers if use is None else loops)[of].append(f"L{at}")
        later.append((f"L{at}", of, to, use))
    habits = {}
    for name in nodes:
        habits[name] = draw(
            st.builds(
                Habits,
                st.integers(0, 2),
                st.integers(0, 9),
                st.integers(-3, 9),
                st.integers(0, 1),
                st.booleans() if resets else st.just(False),
            )
        )
        inputs = draw(st.lists(st.sampled_from(names), min_size=1, max_size=3, unique=True))
        kind = BusyResettable if habits[name].resets else Busy
        graph.node(name, partial(kind, habits[name], loops[name], schedulers[name]), inputs)
        names.append(name)
    for loop, of, to, use in later:
        if use is None:
            graph.scheduler(loop, of, to, LOOP_MS)
        else:
            graph.loop(loop, of, to, None if use is Use.RECORDED else LOOP_MS, use)
    return Shape(graph, habits)


@dataclass(frozen=True)
class Arrival:
    """A row of a source."""

    source: str
    rowtime: int
    row: tuple[int, int]


@st.composite
def arrivals(draw: st.DrawFn, graph: Graph, most: int = 6, start: int = 0) -> list[Arrival]:
    """Rows of all sources, each source in rowtime order, in any interleaving."""
    times = dict.fromkeys(graph.sources, start)
    found = []
    for _ in range(draw(st.integers(0, most))):
        source = draw(st.sampled_from(graph.sources))
        times[source] += draw(st.sampled_from((0, 0, 1, 5, 20)))
        row = (draw(st.integers(0, 3)), draw(st.integers(0, 50)))
        found.append(Arrival(source, times[source], row))
    return found


@dataclass
class _Node:
    """A node of the reference."""

    processor: Processor
    index: int
    origin: int
    inputs: tuple[str, ...]
    timers: dict[int, tuple[Stamp, object]] = field(default_factory=dict)
    handles: int = 0


class Reference:
    """Works off one stimulus after the other; each goes through the whole graph before the next."""

    def __init__(self, graph: Graph) -> None:
        first_node, first_source = len(graph.loops), len(graph.loops) + len(graph.nodes)
        self._graph = graph
        self._origins = {name: first_source + at for at, name in enumerate(graph.sources)}
        self._loops = {loop.name: (at, loop) for at, loop in enumerate(graph.loops)}
        self._nodes = {
            shape.name: _Node(shape.make(), at, first_node + at, shape.inputs)
            for at, shape in enumerate(graph.nodes)
        }
        self._counters = dict.fromkeys((*graph.sources, *self._loops), 0)
        self._heap: list[tuple[Stamp, int, str, str, object]] = []
        self._gaps: dict[str, tuple[int, int]] = {}
        self._order = 0
        self._inbox: dict[str, list[tuple[int, str, object]]] = {}
        self.out: dict[str, list[Given]] = {name: [] for name in self._nodes}

    def insert(self, arrival: Arrival) -> None:
        self._counters[arrival.source] += 1
        stamp = Stamp(arrival.rowtime, self._origins[arrival.source], self._counters[arrival.source])
        self._push(stamp, "source", arrival.source, arrival.row)

    def reset(self, before: int, after: int) -> None:
        resettable = [name for name, node in self._nodes.items() if hasattr(node.processor, "reset")]
        self._gaps = dict.fromkeys(resettable, (before, after))
        self._push(Stamp(after, -1, -1), "reset", "", (before, after))

    def run(self) -> dict[str, list[Given]]:
        while True:
            stimulus = self._least(self._gaps)
            if stimulus is None:
                return self.out
            self._through(*stimulus)

    def _least(
        self, gaps: dict[str, tuple[int, int]], until: int = LATEST
    ) -> tuple[Stamp, str, str, object] | None:
        """Take the next stimulus up to a rowtime: a row or event of a link, or a timer that no gap hides."""
        found = []
        for name, node in self._nodes.items():
            for handle, (stamp, payload) in node.timers.items():
                if not hidden(gaps.get(name), stamp):
                    found.append((stamp, handle, name, payload))
        timer = min(found, key=lambda each: each[:2], default=None)
        visible = [
            each
            for each in self._heap
            if not (each[2] == "event" and hidden(gaps.get(self._target(each[3])), each[0]))
        ]
        first = min(visible, key=lambda each: each[:2], default=None)
        if min((each[0].rowtime for each in (timer, first) if each is not None), default=LATEST) > until:
            return None
        if timer is not None and (first is None or timer[0] < first[0]):
            stamp, handle, name, payload = timer
            del self._nodes[name].timers[handle]
            return stamp, "timer", name, payload
        if first is None:
            return None
        self._heap.remove(first)
        heapq.heapify(self._heap)
        return first[0], *first[2:]

    def _target(self, name: str) -> str:
        return self._loops[name][1].to

    def _through(self, stamp: Stamp, kind: str, name: str, row: object) -> None:
        """Let one stimulus, and what comes of it at its stamp, go through all nodes in order."""
        if kind == "source":
            self._spread(name, row)
        elif kind == "reset":
            self._inbox = {each: [(-1, "reset", row)] for each in self._gaps}
        elif kind in ("loop", "event"):
            self._inbox.setdefault(self._target(name), []).append((-2, f"{kind} {name}", row))
        elif kind != "told":
            self._inbox.setdefault(name, []).append((-1, kind, row))
        for each, node in self._nodes.items():
            waiting = sorted(self._inbox.pop(each, []), key=lambda item: item[0])
            for _, port, value in waiting:
                self._call(each, node, port, value, stamp)
                self._fire(each, node, stamp)

    def _fire(self, name: str, node: _Node, stamp: Stamp) -> None:
        """Let timers come that were asked for now, or before."""
        while True:
            gap = self._gaps.get(name)
            visible = ((each, handle) for handle, (each, _) in node.timers.items() if not hidden(gap, each))
            due = min(visible, default=None)
            if due is None or due[0] > stamp:
                return
            _, payload = node.timers.pop(due[1])
            node.processor.event(payload, _At(self, name, node, stamp))

    def _call(self, name: str, node: _Node, port: str, value: object, stamp: Stamp) -> None:
        at = _At(self, name, node, stamp)
        if port == "reset":
            before, after = self._gaps.pop(name)
            due = [
                Timer(when, handle, payload)
                for handle, (when, payload) in node.timers.items()
                if before < when.rowtime < after
            ]
            for timer in due:
                del node.timers[timer.handle]
            for each in [each for each in self._heap if each[2] == "event" and self._target(each[3]) == name]:
                if before < each[0].rowtime < after:
                    self._heap.remove(each)
                    due.append(Timer(each[0], each[1], each[4]))
            heapq.heapify(self._heap)
            node.processor.reset(before, after, sorted(due), at)  # type: ignore[attr-defined]
        elif port == "timer" or port.startswith("event "):
            node.processor.event(value, at)
        else:
            node.processor.row(port.removeprefix("loop "), value, at)

    def _spread(self, name: str, row: object) -> None:
        for each, node in self._nodes.items():
            if name in node.inputs:
                self._inbox.setdefault(each, []).append((node.inputs.index(name), name, row))

    def sent(self, name: str, stamp: Stamp, row: object, to: str | None) -> None:
        if to is None:
            self.out[name].append(Given(stamp, row))
            self._spread(name, row)
        else:
            self.looped(to, stamp.rowtime + self._loops[to][1].delay_ms, "loop", row)

    def looped(self, name: str, rowtime: int, kind: str, row: object) -> None:
        self._counters[name] += 1
        self._push(Stamp(rowtime, self._loops[name][0], self._counters[name]), kind, name, row)

    def _push(self, stamp: Stamp, kind: str, name: str, row: object) -> None:
        self._order += 1
        heapq.heappush(self._heap, (stamp, self._order, kind, name, row))

    def delay(self, name: str) -> int:
        return self._loops[name][1].delay_ms


class InOneOrder(Reference):
    """A graph in a pipeline: one row of all sources goes through it after the other.

    What is sent into a LIMITED or RECORDED link is the next row, when nothing else is left up to now.
    """

    def __init__(self, graph: Graph) -> None:
        super().__init__(graph)
        self._origin = len(graph.loops) + len(graph.nodes)
        self._count = 0
        self._rows: list[Arrival] = []
        self._sent: list[tuple[Stamp, int, int, str, object]] = []

    def insert(self, arrival: Arrival) -> None:
        self._rows.append(arrival)

    def skip(self, before: int, after: int) -> None:
        """Let what is due between two rowtimes come by reset: before a row in there, and at its end."""
        self.reset(before, after)

    def _cut(self, rowtime: int) -> bool:
        """Return who has something due in front of a row that comes while time is skipped."""
        due, is_cut = {}, False
        for name, (before, after) in self._gaps.items():
            if before < rowtime < after:
                self._gaps[name], is_cut = (rowtime, after), True
                if self._is_due(name, (before, rowtime)):
                    due[name] = (before, rowtime)
        if due:
            rest, self._gaps = self._gaps, {**self._gaps, **due}
            self._inbox = {name: [(-1, "reset", gap)] for name, gap in due.items()}
            self._through(Stamp(rowtime, -1, -1), "told", "", None)
            self._gaps = rest
        return is_cut

    def _is_due(self, name: str, gap: tuple[int, int]) -> bool:
        timers = [stamp for stamp, _ in self._nodes[name].timers.values()]
        events = [each[0] for each in self._heap if each[2] == "event" and self._target(each[3]) == name]
        return any(hidden(gap, stamp) for stamp in (*timers, *events))

    def run(self) -> dict[str, list[Given]]:
        now = EARLIEST
        while True:
            stimulus = self._least(self._gaps, now)
            if stimulus is None and self._sent:
                *_, name, row = heapq.heappop(self._sent)
                stimulus = self._next(now), "loop", name, row
            if stimulus is None:
                stimulus = self._least(self._gaps, self._rows[0].rowtime if self._rows else LATEST)
            if stimulus is None and self._rows:
                if self._cut(self._rows[0].rowtime):
                    now = self._rows[0].rowtime
                    continue
                arrival = self._rows.pop(0)
                stimulus = self._next(arrival.rowtime), "source", arrival.source, arrival.row
            if stimulus is None:
                return self.out
            now = stimulus[0].rowtime
            self._through(*stimulus)

    def _next(self, rowtime: int) -> Stamp:
        self._count += 1
        return Stamp(rowtime, self._origin, self._count)

    def sent(self, name: str, stamp: Stamp, row: object, to: str | None) -> None:
        if to is None or self._loops[to][1].use is Use.CONSISTENT:
            super().sent(name, stamp, row, to)
            return
        self._order += 1
        heapq.heappush(self._sent, (stamp, self._loops[to][0], self._order, to, row))


def hidden(gap: tuple[int, int] | None, stamp: Stamp) -> bool:
    """Return whether an event waits for a reset."""
    return gap is not None and gap[0] < stamp.rowtime < gap[1]


@dataclass(frozen=True)
class _At:
    reference: Reference
    name: str
    node: _Node
    stamp: Stamp

    @property
    def rowtime(self) -> int:
        return self.stamp.rowtime

    def send(self, row: object, to: str | None = None) -> None:
        self.reference.sent(self.name, self.stamp, row, to)

    def schedule(self, rowtime: int, payload: object = None, on: str | None = None) -> int:
        if on is not None:
            least = self.stamp.rowtime + self.reference.delay(on)
            self.reference.looped(on, max(rowtime, least), "event", payload)
            return 0
        self.node.handles += 1
        wanted = Stamp(rowtime, self.node.origin, self.node.handles)
        self.node.timers[self.node.handles] = (max(wanted, self.stamp), payload)
        return self.node.handles

    def reschedule(self, handle: int, rowtime: int) -> None:
        if handle in self.node.timers:
            wanted = Stamp(rowtime, self.node.origin, handle)
            self.node.timers[handle] = (max(wanted, self.stamp), self.node.timers[handle][1])

    def cancel(self, handle: int) -> None:
        self.node.timers.pop(handle, None)
