"""A running graph, as a pure step function: rows and bounds in, rows out.

A node handles the first rows of its ports in the order of (stamp, port), as soon
as no other port can have an earlier one. So the order in which nodes step does not
change the output of a graph whose looping links are CONSISTENT; the decisions of
other links are in ``decisions``.

If no node can continue and a looping link blocks its target, the least stamp in
the whole graph plus the delay is a bound for the link, which lets the target
continue.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from rowtide.engine.errors import ModelError
from rowtide.engine.graph.decisions import Decisions, Divergence, WasReset
from rowtide.engine.graph.graph import Graph, NodeShape, Use
from rowtide.engine.graph.links import Link, LoopLink, Timers
from rowtide.engine.graph.node import Remembering, Resettable
from rowtide.engine.graph.returns import Returning, Returns
from rowtide.engine.graph.stamp import END, START, Gap, Given, Stamp, Turn, reaching
from rowtide.errors import BoundRegressionError, Reason, RejectedRowError
from rowtide.rowtime.bound import EARLIEST, LATEST


class _Source:
    """A source: stamps the rows from outside."""

    def __init__(self, name: str, origin: int, links: list[Link], counters: list[int], mine: int) -> None:
        self.name = name
        self._counters = counters
        self._mine = mine
        self.links = links
        self.bound = START
        self.explicit = EARLIEST
        self._origin = origin

    def insert(self, rowtime: int, row: object) -> None:
        if rowtime < self.bound.rowtime:
            late = self.bound.rowtime - rowtime
            raise RejectedRowError(Reason.LATE, f'a row of "{self.name}" is {late} ms before its bound')
        self._counters[self._mine] += 1
        stamp = Stamp(rowtime, self._origin, self._counters[self._mine])
        for link in self.links:
            link.put(Given(stamp, row))
        self.reach(rowtime)

    def reach(self, rowtime: int) -> None:
        counter = self._counters[self._mine] + 1
        self._promise(Stamp(rowtime, self._origin, counter) if rowtime < LATEST else END)

    def _promise(self, bound: Stamp) -> None:
        self.bound = max(self.bound, bound)
        for link in self.links:
            link.promise(self.bound)

    def snapshot(self) -> Any:
        counter = self._counters[self._mine]
        return tuple(self.bound), self.explicit, counter, [link.snapshot() for link in self.links]

    def restore(self, state: Any) -> None:
        bound, self.explicit, self._counters[self._mine], links = state
        self.bound = Stamp(*bound)
        for link, each in zip(self.links, links, strict=True):
            link.restore(each)


class _Here:
    """The ``At`` of one call."""

    def __init__(self, node: _Node, stamp: Stamp) -> None:
        self.stamp = stamp
        self.rowtime = stamp.rowtime
        self._node = node

    def send(self, row: object, to: str | None = None) -> None:
        self._node.send(Given(self.stamp, row), to)

    def schedule(self, rowtime: int, payload: object = None, on: str | None = None) -> int:
        if on is None:
            return self._node.timers.add(self.stamp, rowtime, payload)
        self._node.driven(on).put(Given(self.stamp, payload), rowtime)
        return 0

    def reschedule(self, handle: int, rowtime: int) -> None:
        self._node.timers.move(handle, self.stamp, rowtime)

    def cancel(self, handle: int) -> None:
        self._node.timers.drop(handle)


class _Node:
    """One node with its ports: looping links first, then its own scheduler, then its inputs."""

    def __init__(self, shape: NodeShape, origin: int, gaps: list[Gap]) -> None:
        self.name = shape.name
        self.processor = shape.make()
        self._wants_resets = isinstance(self.processor, Resettable)
        self.timers = Timers(origin)
        self.loops: list[LoopLink] = []
        self.inputs: list[Link] = []
        self.readers: list[Link] = []
        self.feeds: dict[str, LoopLink | Returning] = {}
        self.kept: list[Given] | None = None
        self._gaps = gaps
        self._gaps_met = 0
        self._published = START
        self._clock: Turn = (START, 0)

    def send(self, given: Given, to: str | None) -> None:
        if to is not None:
            link = self.feeds.get(to)
            if link is None or link.shape.use is None:
                raise ModelError(f'node "{self.name}" has no looping link "{to}"')
            link.put(given)
            return
        for reader in self.readers:
            reader.put(given)
        if self.kept is not None:
            self.kept.append(given)

    def driven(self, name: str) -> LoopLink:
        link = self.feeds.get(name)
        if not isinstance(link, LoopLink) or link.shape.use is not None:
            raise ModelError(f'node "{self.name}" does not drive a scheduler "{name}"')
        return link

    def step(self, limit: int) -> tuple[int, bool]:
        """Handle up to ``limit`` rows and events; return how many, and whether bounds have moved."""
        worked = 0
        turns = self._survey()
        turn = min(turns)
        while worked < limit and self._take(turns.index(turn), turn):
            self._clock = turn
            worked += 1
            turns = self._survey()
            turn = min(turns)
        return worked, self._publish(turn[0])

    def least_waiting(self) -> Stamp:
        """Return the least stamp of the waiting rows and events; END if there are none."""
        gap = self._gap()
        found = [self._timer_stamp(), *(link.waiting(gap) for link in self.loops)]
        found += [link.next_stamp() for link in self.inputs if len(link)]
        return min(found)

    def rowtimes_due(self) -> list[int]:
        """Return the rowtimes (ms) of events and looping rows."""
        return [
            *self.timers.rowtimes(),
            *(rowtime for loop in self.loops for rowtime in loop.rowtimes()),
        ]

    def has_met_all(self) -> bool:
        """Return whether the processor has handled all jumps of time, or does not handle them."""
        return not self._wants_resets or self._gaps_met == len(self._gaps)

    def drop_due(self, rowtime: int) -> None:
        """Drop the events and looping rows that are due up to a rowtime (ms)."""
        while (gap := self._gap()) is not None and gap.after <= rowtime:
            self._gaps_met += 1
        self.timers.take_between(EARLIEST, rowtime + 1)
        for loop in self.loops:
            loop.take_between(EARLIEST, rowtime + 1)

    def settle(self) -> None:
        """Stamp the rows that have arrived through looping links."""
        self._survey()

    def _survey(self) -> list[Turn]:
        """Return for each port the least turn of its waiting and later rows."""
        gap = self._gap()
        inputs = [link.next_stamp() for link in self.inputs]
        own = self._timer_stamp()
        others = min(own, *inputs)
        for loop in self.loops:
            loop.settle(others, self._published, self._clock)
        ports = enumerate((own, *inputs), start=len(self.loops))
        return [*(loop.next_turn(gap) for loop in self.loops), *((stamp, port) for port, stamp in ports)]

    def _take(self, port: int, turn: Turn) -> bool:
        """Handle the first row or event of a port; return False if it has none yet."""
        if port < len(self.loops):
            loop = self.loops[port]
            if not loop.is_ready(turn):
                return False
            self._call(loop.name, loop.take(), is_event=loop.shape.use is None)
        elif port == len(self.loops):
            if turn[0] == END:
                return False
            self._time(turn[0])
        else:
            link = self.inputs[port - len(self.loops) - 1]
            if not len(link):
                return False
            self._call(link.name, link.take(), is_event=False)
        return True

    def _call(self, port: str, given: Given, *, is_event: bool) -> None:
        at = _Here(self, given.stamp)
        if is_event:
            self.processor.event(given.row, at)
        else:
            self.processor.row(port, given.row, at)

    def _time(self, stamp: Stamp) -> None:
        """Run the next event of the node's own scheduler, or the reset that is due."""
        gap = self._gap()
        first = self.timers.first()
        if gap is None or (first is not None and first.rowtime <= gap[0]):
            timer = self.timers.take()
            self.processor.event(timer.payload, _Here(self, timer.stamp))
            return
        self._gaps_met += 1
        before, after, is_last = gap
        due = self.timers.take_between(before, after)
        for loop in self.loops:
            if loop.shape.use is None:
                due += loop.take_between(before, after)
        if isinstance(self.processor, Resettable) and (due or is_last):
            due.sort(key=lambda timer: timer.stamp)
            self.processor.reset(before, after, due, _Here(self, stamp))

    @property
    def wants_resets(self) -> bool:
        return self._wants_resets

    def is_due_between(self, before: int, after: int) -> bool:
        """Return whether a reset would handle an event between two rowtimes (ms, both excluded)."""
        if not self._wants_resets:
            return False
        events = [loop for loop in self.loops if loop.shape.use is None]
        return self.timers.is_between(before, after) or any(loop.is_between(before, after) for loop in events)

    def _timer_stamp(self) -> Stamp:
        first, gap = self.timers.first(), self._gap()
        if gap is not None and (first is None or first.rowtime > gap[0]):
            # Before everything else at that rowtime, at all nodes alike.
            return reaching(gap[1])
        return END if first is None else first

    def _gap(self) -> Gap | None:
        """Return the next jump of time for a processor that handles jumps."""
        if not self._wants_resets or self._gaps_met == len(self._gaps):
            return None
        return self._gaps[self._gaps_met]

    def _publish(self, bound: Stamp) -> bool:
        self._published = max(self._published, bound)
        moved = [link.promise(self._published) for link in self.readers]
        moved += [link.promise(self._published) for link in self.feeds.values()]
        return any(moved)

    def snapshot(self) -> Any:
        state = self.processor.snapshot() if isinstance(self.processor, Remembering) else None
        return (
            state,
            self.timers.snapshot(),
            tuple(self._published),
            (tuple(self._clock[0]), self._clock[1]),
            self._gaps_met,
            [link.snapshot() for link in self.loops],
            [link.snapshot() for link in self.readers],
            None if self.kept is None else [(tuple(each.stamp), each.row) for each in self.kept],
        )

    def restore(self, state: Any) -> None:
        own, timers, published, clock, self._gaps_met, loops, readers, kept = state
        self._clock = (Stamp(*clock[0]), clock[1])
        if isinstance(self.processor, Remembering):
            self.processor.restore(own)
        self.timers.restore(timers)
        self._published = Stamp(*published)
        for link, each in zip(self.loops, loops, strict=True):
            link.restore(each)
        for reader, each in zip(self.readers, readers, strict=True):
            reader.restore(each)
        if kept is not None:
            self.kept = [Given(Stamp(*stamp), row) for stamp, row in kept]


class GraphRun:
    """Runs a graph; used by one thread, but different threads can ``step`` different nodes.

    Args:
      graph: the graph to run.
      outputs: the nodes whose rows are kept for ``taken``.
      log: the decisions of an earlier run, to repeat.
      diverging: what to do when the run does not match the log.
      in_one_order: the rows of all sources have one order, that of the calls of ``insert``: a row or bound
        of one source is a bound of all. ``drain`` handles each row before the next one, and rows in looping
        links that are not CONSISTENT come back at once (``returns``), so no decisions are needed.
    """

    def __init__(
        self,
        graph: Graph,
        outputs: Iterable[str],
        log: Decisions | None = None,
        diverging: Divergence = Divergence.STOP,
        *,
        in_one_order: bool = False,
    ) -> None:
        log = Decisions() if log is None else log
        self._gaps = [Gap(each.before, each.after) for each in log.resets]
        self._skipped: list[tuple[int, int]] = []
        self._resets: list[WasReset] = []
        first_node = len(graph.loops)
        first_source = first_node + len(graph.nodes)
        self._nodes = {
            shape.name: _Node(shape, first_node + at, self._gaps) for at, shape in enumerate(graph.nodes)
        }
        links: dict[str, list[Link]] = {name: [] for name in graph.sources}
        for shape in graph.nodes:
            for name in shape.inputs:
                link = Link(name)
                self._nodes[shape.name].inputs.append(link)
                (links[name] if name in links else self._nodes[name].readers).append(link)
        self._in_one_order = in_one_order
        counters = [0] * len(graph.sources)
        self._sources = {}
        for at, name in enumerate(graph.sources):
            stamper = 0 if in_one_order else at
            self._sources[name] = _Source(name, first_source + stamper, links[name], counters, stamper)
        self._returns = Returns()
        for at, loop in enumerate(graph.loops):
            if in_one_order and loop.use in (Use.LIMITED, Use.RECORDED):
                link = Link(loop.name)
                self._nodes[loop.to].inputs.insert(0, link)
                self._nodes[loop.of].feeds[loop.name] = self._returns.link(loop)
                self._sources[loop.name] = _Source(loop.name, first_source, [link], counters, 0)
                continue
            ports = self._nodes[loop.to].loops
            looping = LoopLink(loop, at, len(ports), log.of(loop.name), diverging)
            self._nodes[loop.of].feeds[loop.name] = looping
            ports.append(looping)
        for name in outputs:
            self._nodes[name].kept = []

    @property
    def nodes(self) -> list[str]:
        """The nodes, each after its inputs."""
        return list(self._nodes)

    def insert(self, source: str, rowtime: int, row: object) -> None:
        """Add a row of a source; ``step`` and ``drain`` handle it.

        Raises:
          RejectedRowError: if the row is late: before the bound of the source; nothing has changed.
          KeyError: if the source does not exist.
        """
        if self._cut_gap(rowtime):
            # A reset, and events due at this rowtime, are handled before the row, with all their effects.
            self._reach(source, rowtime)
            self.drain()
        self._sources[source].insert(rowtime, row)
        self._reach(source, rowtime)

    def bound(self, source: str, rowtime: int) -> None:
        """Raise the bound of a source: no row before ``rowtime`` follows.

        Raises:
          BoundRegressionError: if an earlier bound was later; nothing has changed.
          KeyError: if the source does not exist.
        """
        held = self._sources[source].explicit
        if rowtime < held:
            raise BoundRegressionError(source, 0, held=held, offered=rowtime)
        self._sources[source].explicit = rowtime
        self._reach(source, rowtime)

    def _reach(self, source: str, rowtime: int) -> None:
        reached = self._sources.values() if self._in_one_order else (self._sources[source],)
        for each in reached:
            each.reach(rowtime)

    def reset(self, after: int) -> None:
        """Jump in time: no row of any source before ``after`` (ms) follows, as at the end of a replay.

        A ``Resettable`` processor handles the jump, instead of the events since the latest row or bound of
        a source.

        Raises:
          BoundRegressionError: if a source is ahead of ``after``; nothing has changed.
        """
        before = max((source.bound.rowtime for source in self._sources.values()), default=EARLIEST)
        if after < before:
            raise BoundRegressionError("time", 0, held=before, offered=after)
        self._gaps.append(Gap(before, after))
        self._resets.append(WasReset(before, after))
        for source in self._sources.values():
            source.reach(after)

    def drop_due(self, rowtime: int) -> None:
        """Continue to ``rowtime`` (ms) without the events and looping rows due by then.

        For sources in one order.
        """
        for node in self._nodes.values():
            node.drop_due(rowtime)
        self._reach(next(iter(self._sources)), rowtime)
        self.drain()

    @property
    def wants_resets(self) -> bool:
        """Whether any processor handles jumps of time."""
        return any(node.wants_resets for node in self._nodes.values())

    def skip(self, before: int, after: int) -> None:
        """Let processors handle the events between two rowtimes (ms, both excluded) by ``reset``.

        For sources in one order. The result is the same whenever it is called before time has passed
        ``before``; a range that was passed before changes nothing. A row of a source in the range splits it: a
        processor handles the events before the row, and the rest of the range begins with the row.

        Raises:
          BoundRegressionError: if the range begins before the end of another one.
        """
        if (before, after) in self._skipped:
            return
        held = max((end for _, end in self._skipped), default=EARLIEST)
        if before < held or after <= before:
            raise BoundRegressionError("time", 0, held=held, offered=min(before, after))
        self._skipped.append((before, after))
        self._gaps.append(Gap(before, after))

    def _cut_gap(self, rowtime: int) -> bool:
        """Split the skipped range that a row from outside is in; return whether there is one."""
        if not self._skipped:
            return False
        before, after, _ = self._gaps[-1]
        if before < rowtime < after:
            # Nodes count the gaps that they have handled, so a gap without events is left out.
            is_due = any(node.is_due_between(before, rowtime) for node in self._nodes.values())
            cut = [Gap(before, rowtime, is_last=False)] if is_due else []
            self._gaps[-1:] = [*cut, Gap(rowtime, after)]
            return True
        return False

    def step(self, node: str, limit: int = 1) -> bool:
        """Let one node handle up to ``limit`` rows and events; return whether anything has moved.

        Raises:
          ReplayDivergedError: if the run does not match the log.
        """
        worked, promised = self._nodes[node].step(limit)
        return promised or worked > 0

    def jump(self) -> bool:
        """Raise the bounds of looping links as far as all waiting rows allow; return whether any moved.

        Without it, loops advance by one delay at a time, or not at all. Call it while no node steps.

        Raises:
          ReplayDivergedError: if the log has a row that can no longer arrive.
        """
        for node in self._nodes.values():
            node.settle()
        return self._jump()

    def _jump(self) -> bool:
        loops = [link for node in self._nodes.values() for link in node.loops]
        if not loops:
            return False
        least = min([self._least_waiting(), *(source.bound for source in self._sources.values())])
        return any([link.jump(least) for link in loops])

    def drain(self) -> None:
        """Handle all rows that have arrived, as far as the bounds allow.

        Raises:
          ReplayDivergedError: if the run does not match the log.
          ModelError: if rows that come back at once loop without end.
        """
        self._work_off()
        for returned in self._returns.one_by_one():
            source = self._sources[returned.link]
            source.insert(source.bound.rowtime, returned.row)
            self._reach(returned.link, source.bound.rowtime)
            self._work_off()

    def _work_off(self) -> None:
        while True:
            steps = [node.step(DRAIN_ROWS) for node in self._nodes.values()]
            worked = any(rows for rows, _ in steps)
            if self._in_one_order and self._is_idle():
                return
            # If only bounds move, they advance in a loop by one delay at a time.
            jumped = not worked and self._jump()
            if not worked and not jumped and not any(promised for _, promised in steps):
                return

    def _is_idle(self) -> bool:
        """Return whether all waiting rows are at or after the bounds of the sources.

        For sources in one order. The bounds of nodes and links can be lower until something waits for them.
        """
        for node in self._nodes.values():
            if node.loops:
                node.settle()
        return self._least_waiting() >= next(iter(self._sources.values())).bound

    def next_rowtime(self) -> int | None:
        """Return the least rowtime (ms) of the waiting rows and events, or None."""
        if not self._in_one_order:
            for node in self._nodes.values():
                node.settle()
        least = self._least_waiting()
        return None if least == END else least.rowtime

    def last_rowtime(self) -> int | None:
        """Return the greatest rowtime (ms) of the waiting events and looping rows, or None."""
        found = [rowtime for node in self._nodes.values() for rowtime in node.rowtimes_due()]
        if self._gaps and any(not node.has_met_all() for node in self._nodes.values()):
            found.append(self._gaps[-1].after)
        return max(found, default=None)

    def _least_waiting(self) -> Stamp:
        return min((node.least_waiting() for node in self._nodes.values()), default=END)

    def taken(self, node: str) -> list[Given]:
        """Remove and return the rows that a node has sent since the last call, in order."""
        kept = self._nodes[node].kept
        if kept is None:
            raise ModelError(f'node "{node}" is not an output')
        self._nodes[node].kept = []
        return kept

    def decisions(self) -> Decisions:
        """Remove and return the decisions since the last call, to be stored with the output."""
        found = Decisions(resets=self._resets)
        self._resets = []
        for node in self._nodes.values():
            for link in node.loops:
                found.restamped += link.decided
                link.decided = []
        return found

    def snapshot(self) -> dict[str, Any]:
        """Return the state of the run as plain values.

        Rows that have arrived through looping links are stamped now: take ``decisions`` after this call.
        """
        for node in self._nodes.values():
            node.settle()
        return {
            "gaps": [tuple(gap) for gap in self._gaps],
            "skipped": list(self._skipped),
            "sources": {name: source.snapshot() for name, source in self._sources.items()},
            "nodes": {name: node.snapshot() for name, node in self._nodes.items()},
            "returns": self._returns.snapshot(),
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Restore, in a new run, the state that ``snapshot`` of a run of the same graph returned."""
        known = [Gap(*gap) for gap in state["gaps"]]
        self._gaps[:] = [*known, *(gap for gap in self._gaps if gap not in known)]
        self._skipped = [(before, after) for before, after in state["skipped"]]
        for name, source in self._sources.items():
            source.restore(state["sources"][name])
        for name, node in self._nodes.items():
            node.restore(state["nodes"][name])
        self._returns.restore(state["returns"])


DRAIN_ROWS = 1000
"""The most rows that a node handles before the next node steps: this limits the rows waiting between them."""
