"""Queries that look on while a pipeline runs, each in a process of its own.

A query's flow goes on from where the pipeline's stands, and takes in what the pipeline takes in. The pipeline
only copies the state that the query needs and hands its process what comes: how long a query takes, how much it
keeps and what it finds wrong is no matter of the pipeline's, and nothing of it is committed. A query that needs
more than its limits, a reader that does not keep up, or a change of the pipeline's partitions ends it.
"""

from __future__ import annotations

import multiprocessing
import pickle
import queue
import threading
from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess

from rowtide.checkpoint.ledger import PartitionId
from rowtide.errors import StatementError
from rowtide.flow.flow import Flow
from rowtide.plan.nodes import KeyedTable, Node, Source, TableSource, nodes_below
from rowtide.rows.tray import Tray
from rowtide.rowtime.bound import Bound
from rowtide.runtime.live.query_work import (
    CAUGHT_UP,
    CONTENTS,
    LAST,
    MEMORY_HINT,
    RESULT,
    TIME_HINT,
    BoundIn,
    DrainIn,
    EndIn,
    QueryBegin,
    QueryLimits,
    RowsIn,
    failed_line,
    out_of_memory,
    out_of_time,
    run_query,
)

__all__ = ["CONTENTS", "Follower", "Followers", "Question"]

WAITING_MESSAGES = 1_000
"""Trays and bounds that may wait for a query's process: it has seconds to take them."""
QUERIES_AT_MOST = 8
"""Maximum number of queries. Each is a process with its own memory."""
HEARTBEAT_S = 1.0
"""How long nothing may be said: so that a client that has gone is noticed."""
HEAVIEST_PLAN = 200_000
"""Of ``_weight``: the pipeline's loop waits for about half a second while a query of that plan begins."""
PRELOADED = ["rowtide.runtime.live.query_preload"]
"""What the parent of all queries' processes imports once."""


@dataclass(frozen=True, slots=True)
class Question:
    """A planned query: see ``QueryBegin``."""

    node: Node
    changes: bool
    order: tuple[bool, ...] = ()
    once: bool = False
    limits: QueryLimits = field(default_factory=QueryLimits)


def refuse_heavy(question: Question) -> None:
    """Refuse a query whose plan alone would keep the pipeline's loop busy.

    Raises:
      StatementError: its plan has too many steps.
    """
    if _weight(question.node) > HEAVIEST_PLAN:
        raise StatementError(
            "the query has too many steps",
            hint="Join fewer relations, and name a sub-query that is read twice as a view of the pipeline.",
        )


def _weight(node: Node) -> int:
    """Return how many fields are looked at where every step looks at all that it reads, directly or not.

    A step that is read twice counts twice with all below it, as in the hashes by which a flow finds equal steps.
    """
    sums: dict[int, tuple[int, int]] = {}

    def visit(each: Node) -> tuple[int, int]:
        if id(each) not in sums:
            below = [visit(read) for read in each.inputs]
            size = len(each.row_type) + sum(size for size, _ in below)
            sums[id(each)] = size, size + sum(weight for _, weight in below)
        return sums[id(each)]

    return visit(node)[1]


class Follower:
    """One query; fed by the owner of the pipeline's flow, read by any one thread.

    Raises:
      StatementError: the pipeline does not read what the query needs.
    """

    def __init__(self, question: Question, flow: Flow, partitions: Mapping[str, Sequence[int]]) -> None:
        node = question.node
        _refuse_unread(node, flow)
        self.is_open = True
        self.once = question.once
        self._limits = question.limits
        own = Flow({RESULT: node}, partitions)
        self._reads = frozenset(relation for relation in partitions if own.reads(relation))
        own.accompany(flow)
        # Other readers of a table are given its contents by the flow.
        first = flow.table(node.relation) if isinstance(node, KeyedTable) else None
        self._begin: QueryBegin | None = QueryBegin(
            node,
            partitions,
            own.image(),
            question.changes,
            question.order,
            question.once,
            None if first is None else (first.row_type, first.to_arrow()),
        )
        self._come: queue.Queue[bytes | None] = queue.Queue(WAITING_MESSAGES)
        self._has_come = False
        self._process: BaseProcess | None = None
        self._lines: Generator[bytes, None, None] | None = None
        self._ended: str | None = None
        """Why the process was ended, as the last line of the answer."""
        self._clock = threading.Timer(
            self._limits.seconds, self._kill, [out_of_time(self._limits), TIME_HINT]
        )
        self._clock.daemon = True

    def insert(self, place: PartitionId, tray: Tray) -> None:
        """Take in rows of a partition."""
        if place[0] in self._reads:
            self._take(RowsIn(place, tray.row_type, tray.to_arrow()))

    def bound(self, place: PartitionId, bound: Bound, reader: str | None = None) -> None:
        """Take in what a partition has promised; what is for one of the pipeline's readers is not for us."""
        if reader is None and place[0] in self._reads:
            self._take(BoundIn(place, bound))

    def follow(self, place: PartitionId, bound: Bound) -> None:
        """Let an idle partition take a bound."""
        if place[0] in self._reads:
            self._take(BoundIn(place, bound, taken=True))

    def drain(self) -> None:
        """Let the process work on what has been taken in."""
        if self._has_come:
            self._has_come = False
            self._take(DrainIn())
            self._has_come = False

    def end(self, why: str) -> None:
        """Take in nothing more, and let the answer say why."""
        if self.is_open:
            self._take(EndIn(why))
            self.is_open = False

    def lines(self) -> Iterator[bytes]:
        """Return the answer as it comes, lines of JSON, and an empty line now and then if nothing comes."""
        # Its time begins here: a client that has gone already reads nothing, and the query ends all the same.
        self._clock.start()
        self._lines = self._answer()
        return self._lines

    def close(self) -> None:
        """End the query, whatever it does: its client has gone. No thread may be reading ``lines``."""
        self.is_open = False
        self._clock.cancel()
        if self._lines is not None:
            self._lines.close()

    def _answer(self) -> Generator[bytes, None, None]:
        ours, theirs = multiprocessing.Pipe()
        try:
            self._process = _start(theirs, self._limits)
            theirs.close()
            if self._ended is not None:
                self._process.kill()
            ours.send(self._begin)
            # The state of a large table is not needed twice.
            self._begin = None
            threading.Thread(target=self._feed, args=(ours,), name="rowtide-query", daemon=True).start()
            while True:
                if not ours.poll(HEARTBEAT_S):
                    yield b"\n"
                    continue
                told = ours.recv_bytes()
                if told == CAUGHT_UP:
                    self._clock.cancel()
                    continue
                yield told[1:]
                if told.startswith(LAST):
                    return
        except (EOFError, ConnectionError):
            yield (self._ended or self._why_gone()).encode()
        finally:
            self._clock.cancel()
            self.is_open = False
            self._end_process()
            ours.close()

    def _feed(self, pipe: Connection) -> None:
        """Hand the process what comes, until it is gone."""
        try:
            while (come := self._come.get()) is not None:
                pipe.send_bytes(come)
        except (OSError, ValueError):
            # The reader finds out, too, and ends the query.
            return

    def _take(self, come: RowsIn | BoundIn | DrainIn | EndIn) -> None:
        if not self.is_open:
            return
        self._has_come = True
        try:
            self._come.put_nowait(pickle.dumps(come))
        except queue.Full:
            self._kill("its rows were not taken in time", None)

    def _kill(self, message: str, hint: str | None) -> None:
        """End the process of a query that takes too much."""
        self.is_open = False
        self._ended = self._ended or failed_line(message, hint)
        if self._process is not None:
            self._process.kill()

    def _why_gone(self) -> str:
        """Return the last line of a query whose process ended without one."""
        if self._process is None:
            return failed_line("the query's process did not start", None)
        self._process.join()
        if (self._process.exitcode or 0) < 0:
            # Compiled code that gets no memory cannot say so: it is ended by a signal.
            return failed_line(out_of_memory(self._limits), MEMORY_HINT)
        return failed_line(f"the query's process ended with code {self._process.exitcode}", None)

    def _end_process(self) -> None:
        # The thread that feeds it wakes up; where the queue is full, it is not waiting for more.
        if not self._come.full():
            self._come.put_nowait(None)
        if self._process is not None:
            self._process.kill()
            self._process.join()
            self._process.close()
            self._process = None


def _start(pipe: Connection, limits: QueryLimits) -> BaseProcess:
    """Start the process of a query: a copy of one that has no threads and has loaded what is needed."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(PRELOADED)
    process = context.Process(target=run_query, args=(pipe, limits), name="rowtide-query", daemon=True)
    process.start()
    return process


def _refuse_unread(node: Node, flow: Flow) -> None:
    """Refuse a query on what does not come by.

    Raises:
      StatementError: naming the stream.
    """
    for each in nodes_below(node):
        if not isinstance(each, Source | TableSource):
            continue
        if not flow.reads(each.relation):
            if isinstance(each, TableSource) and each.loaded_once:
                # Its rows are in the text.
                continue
            raise StatementError(
                f'no pump of the pipeline reads "{each.relation}", so the service does not read its rows',
                hint="Leave out --service to read its topic for this query alone.",
            )
        carried = flow.source_type(each.relation).names
        missing = [name for name in each.row_type.names if name not in carried]
        if missing or each.row_type.names != carried:
            told = ", ".join(missing) or "the same columns"
            raise StatementError(
                f'the pipeline does not read {told} of "{each.relation}"',
                hint="It reads only the pseudo-columns that its own statements name.",
            )


class Followers:
    """The queries of one pipeline; owned by the thread that owns its flow."""

    def __init__(self) -> None:
        self._held: list[Follower] = []

    def add(self, question: Question, flow: Flow, places: Sequence[PartitionId]) -> Follower:
        """Let a query look on from here; everything must have been drained.

        Raises:
          StatementError: there are too many, or it cannot begin here.
        """
        self._held = [each for each in self._held if each.is_open]
        if len(self._held) >= QUERIES_AT_MOST:
            raise StatementError(
                f"{QUERIES_AT_MOST} queries are subscribed already",
                hint="End one of them, or write the rows to a table with a pump.",
            )
        partitions: dict[str, list[int]] = {}
        for relation, partition in sorted(places):
            partitions.setdefault(relation, []).append(partition)
        follower = Follower(question, flow, partitions)
        self._held.append(follower)
        return follower

    def insert(self, place: PartitionId, tray: Tray) -> None:
        """Let all queries take in rows."""
        for each in self._open():
            each.insert(place, tray)

    def bound(self, place: PartitionId, bound: Bound, reader: str | None = None) -> None:
        """Let all queries take in a promise."""
        for each in self._open():
            each.bound(place, bound, reader)

    def follow(self, place: PartitionId, bound: Bound) -> None:
        """Let an idle partition take a bound in all queries."""
        for each in self._open():
            each.follow(place, bound)

    def drain(self) -> None:
        """Let all queries process what they have taken in."""
        for each in self._open():
            each.drain()

    def end(self, why: str) -> None:
        """End all queries."""
        for each in self._open():
            each.end(why)

    def _open(self) -> list[Follower]:
        """Return the queries that go on; one that sees what is there needs no more."""
        return [each for each in self._held if each.is_open and not each.once] if self._held else []
