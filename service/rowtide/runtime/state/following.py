"""Queries that follow a running pipeline, each in a separate process.

A query's flow starts from a copy of the pipeline's state and processes the same input from then on. The pipeline
copies the state that the query needs and passes the input to the query's process. Time, memory and errors of a
query do not affect the pipeline, and nothing of a query is committed. A query ends if it exceeds its limits, if
its reader does not keep up, or if the pipeline's partitions change.
"""

from __future__ import annotations

import json
import multiprocessing
import pickle
import queue
import threading
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from multiprocessing import forkserver
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerContext
from multiprocessing.process import BaseProcess

from rowtide.checkpoint.ledger import PartitionId
from rowtide.errors import LimitReachedError, StatementError
from rowtide.flow.flow import Flow
from rowtide.flow.table_changes import LastStatement
from rowtide.plan.nodes import KeyedTable, Node, Source, TableSource, nodes_below
from rowtide.rows.tray import Tray
from rowtide.rowtime.bound import Bound
from rowtide.runtime.query.query_work import (
    CAUGHT_UP,
    CONTENTS,
    LAST,
    MEMORY_HINT,
    RESULT,
    TIME_HINT,
    BoundIn,
    ChangeIn,
    CommittedRows,
    DrainIn,
    EndIn,
    QueryBegin,
    QueryLimits,
    QueryText,
    Question,
    RowsIn,
    failed_line,
    out_of_memory,
    out_of_time,
    run_query,
)

__all__ = ["CONTENTS", "Follower", "Followers", "QueryProcess"]

WAITING_MESSAGES = 1_000
"""Maximum trays and bounds that wait for a query's process; it has seconds to take them."""
QUERIES_AT_MOST = 8
"""Maximum number of queries. Each is a process with its own memory."""
FEEDING_ENDS_S = 1.0
"""Wait for the thread that feeds a process, which ends at its next write to a process that has ended."""
HEARTBEAT_S = 1.0
"""Longest time without output, so that a disconnected client is detected."""
LARGEST_PLAN = 4 * 1024 * 1024
"""Maximum bytes of a plan as the query's process sends it, with its constants."""
NOT_TAKEN = "its rows were not taken in time"
HEAVIEST_PLAN = 200_000
"""Maximum ``_weight`` of a plan: the pipeline's loop waits for about half a second while such a query
starts."""
PRELOADED = ["rowtide.runtime.state.committed_tables", "rowtide.runtime.query.query_preload"]
"""Modules that the parent of all queries' processes imports once."""


PREPARED_AFTER_S = 5.0
"""A service starts the parent of all queries' processes so long after it listens: its own start comes first."""


def prepare_queries() -> None:
    """Start the parent of all queries' processes, if it does not run, so that the first query need not wait for it."""
    _query_processes()
    forkserver.ensure_running()


@contextmanager
def queries_prepared_soon() -> Iterator[None]:
    """Call ``prepare_queries`` within the block, after ``PREPARED_AFTER_S``."""
    soon = threading.Timer(PREPARED_AFTER_S, prepare_queries)
    soon.daemon = True
    soon.start()
    try:
        yield
    finally:
        soon.cancel()


def _query_processes() -> ForkServerContext:
    """Return what starts a copy of a process that has no threads and has loaded what is needed."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(PRELOADED)
    return context


class QueryProcess:
    """The process of one query: it plans the query first, and is ended after its time limit.

    Raises:
      LimitReachedError: there are too many.
    """

    _running = threading.BoundedSemaphore(QUERIES_AT_MOST)

    def __init__(self, limits: QueryLimits) -> None:
        if not self._running.acquire(blocking=False):
            raise LimitReachedError(
                f"{QUERIES_AT_MOST} queries are subscribed already",
                hint="End one of them, or write the rows to a table with a pump.",
            )
        self._limits = limits
        self._over: str | None = None
        """Why the process was ended, as the last line of its answer."""
        self.pipe, theirs = multiprocessing.Pipe()
        self._clock = threading.Timer(limits.seconds, self.kill, [out_of_time(limits), TIME_HINT])
        self._clock.daemon = True
        self._process: BaseProcess | None = _query_processes().Process(
            target=run_query, args=(theirs, limits), name="rowtide-query", daemon=True
        )
        try:
            self._process.start()
        except BaseException:
            self._running.release()
            raise
        theirs.close()
        self._clock.start()

    def plan(self, asked: QueryText) -> Question:
        """Return the plan of a query.

        Raises:
          StatementError: it is refused, or takes too much.
        """
        try:
            self.pipe.send(asked)
            reply = self.pipe.recv_bytes(LARGEST_PLAN)
        except (OSError, EOFError) as error:
            why = json.loads(self.why_gone())
            raise StatementError(why["error"], hint=why["hint"]) from error
        found: Question | StatementError = pickle.loads(reply[1:])
        if isinstance(found, StatementError):
            raise found
        return found

    def caught_up(self) -> None:
        """Remove the time limit from now on."""
        self._clock.cancel()

    def kill(self, message: str, hint: str | None) -> None:
        """End a query that takes too much; called by any thread."""
        self._over = self._over or failed_line(message, hint)
        process = self._process
        if process is not None:
            # The process may be gone by now.
            with suppress(ValueError):
                process.kill()

    def why_gone(self) -> str:
        """Return the last line of a query whose process ended without one."""
        if self._over is not None or self._process is None:
            return self._over or failed_line("the query has ended", None)
        self._process.kill()
        self._process.join()
        if (self._process.exitcode or 0) < 0:
            # Compiled code cannot report a failed allocation: a signal ends it.
            return failed_line(out_of_memory(self._limits), MEMORY_HINT)
        return failed_line(f"the query's process ended with code {self._process.exitcode}", None)

    def close(self) -> None:
        """End the process, and free its place."""
        self._clock.cancel()
        if self._process is None:
            return
        process, self._process = self._process, None
        process.kill()
        process.join()
        process.close()
        self.pipe.close()
        self._running.release()


@dataclass(frozen=True, slots=True)
class StartedQuery:
    """A query that has started: its lines, and what they are of. ``changes`` as in ``Question``."""

    follower: Follower
    process: QueryProcess
    columns: Sequence[str]
    types: Sequence[str]
    changes: bool

    def lines(self) -> Iterator[bytes]:
        """Yield the answer, as ``Follower.lines`` does."""
        return self.follower.lines(self.process)

    def close(self) -> None:
        """End the query at once. No thread may be reading ``lines``."""
        self.follower.close()
        self.process.close()


def started(question: Question, follower: Follower, process: QueryProcess) -> StartedQuery:
    """Return a query that has started."""
    row_type = question.node.row_type
    # The last fields are the sort keys.
    shown = len(row_type) - len(question.order)
    types = [str(field.type) for field in row_type][:shown]
    return StartedQuery(follower, process, row_type.names[:shown], types, question.changes)


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
    """Return the number of fields visited if every step visits all that it reads, directly or not.

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

    ``committed`` are the foreign tables that it reads.

    Raises:
      StatementError: the pipeline does not read what the query needs.
    """

    def __init__(
        self,
        question: Question,
        flow: Flow,
        partitions: Mapping[str, Sequence[int]],
        committed: CommittedRows,
    ) -> None:
        node = question.node
        _refuse_unread(node, flow)
        self.is_open = True
        own = Flow({RESULT: node}, partitions)
        self._reads = frozenset(relation for relation in partitions if own.reads(relation))
        self._tables = frozenset(each.relation for each in nodes_below(node) if isinstance(each, TableSource))
        own.accompany(flow)
        # The flow passes the contents of a table to its other readers.
        first = flow.table(node.relation) if isinstance(node, KeyedTable) else None
        held = None if first is None else (first.row_type, first.to_arrow())
        self._begin: QueryBegin | None = QueryBegin(question, partitions, own.image(), committed, held)
        self._come: queue.Queue[bytes | None] = queue.Queue(WAITING_MESSAGES)
        self._has_come = False
        self._is_slow = False
        self._process: QueryProcess | None = None
        self._lines: Generator[bytes, None, None] | None = None

    def insert(self, partition: PartitionId, tray: Tray) -> None:
        """Add rows of a partition."""
        if partition[0] in self._reads:
            self._take(RowsIn(partition, tray.row_type, tray.to_arrow()))

    def bound(self, partition: PartitionId, bound: Bound, reader: str | None = None) -> None:
        """Add a bound of a partition; ignore a bound for one of the pipeline's readers."""
        if reader is None and partition[0] in self._reads:
            self._take(BoundIn(partition, bound))

    def follow(self, partition: PartitionId, bound: Bound) -> None:
        """Let an idle partition take a bound."""
        if partition[0] in self._reads:
            self._take(BoundIn(partition, bound, taken=True))

    def change_tables(self, statement: LastStatement, changes: Mapping[str, Tray]) -> None:
        """Apply the changes of a statement to the tables that the query reads."""
        own = {
            name: (tray.row_type, tray.to_arrow()) for name, tray in changes.items() if name in self._tables
        }
        if own:
            self._take(ChangeIn(statement, own))

    def drain(self) -> None:
        """Process the input so far."""
        if self._has_come:
            self._has_come = False
            self._take(DrainIn())
            self._has_come = False

    def end(self, why: str) -> None:
        """Stop the input, and report the reason in the answer."""
        if self.is_open:
            self._take(EndIn(why))
            self.is_open = False

    def lines(self, process: QueryProcess) -> Iterator[bytes]:
        """Yield the answer as lines of JSON, and an empty line from time to time without output."""
        self._process = process
        self._lines = self._answer(process)
        return self._lines

    def close(self) -> None:
        """End the query at once, because its client has disconnected. No thread may be reading ``lines``."""
        self.is_open = False
        if self._lines is not None:
            self._lines.close()
        if self._process is not None:
            self._process.close()

    def _answer(self, process: QueryProcess) -> Generator[bytes, None, None]:
        pipe = process.pipe
        feeding = threading.Thread(target=self._feed, args=(pipe,), name="rowtide-query", daemon=True)
        try:
            if self._is_slow:
                process.kill(NOT_TAKEN, None)
            pipe.send(self._begin)
            # The state of a large table is not needed twice.
            self._begin = None
            feeding.start()
            while True:
                if not pipe.poll(HEARTBEAT_S):
                    yield b"\n"
                    continue
                reply = pipe.recv_bytes()
                if reply == CAUGHT_UP:
                    process.caught_up()
                    continue
                yield reply[1:]
                if reply.startswith(LAST):
                    return
        except (EOFError, ConnectionError):
            yield process.why_gone().encode()
        finally:
            self.is_open = False
            process.kill("the query has ended", None)
            # Wake the thread that feeds it; if the queue is full, it does not wait for input.
            with suppress(queue.Full):
                self._come.put_nowait(None)
            if feeding.is_alive():
                feeding.join(FEEDING_ENDS_S)
            process.close()

    def _feed(self, pipe: Connection) -> None:
        """Pass input to the process, until the process ends."""
        try:
            while (come := self._come.get()) is not None:
                pipe.send_bytes(come)
        except (OSError, ValueError):
            # The reader detects it, too, and ends the query.
            return

    def _take(self, come: RowsIn | BoundIn | ChangeIn | DrainIn | EndIn) -> None:
        if not self.is_open:
            return
        self._has_come = True
        try:
            self._come.put_nowait(pickle.dumps(come))
        except queue.Full:
            self.is_open = False
            self._is_slow = True
            if self._process is not None:
                self._process.kill(NOT_TAKEN, None)


def _refuse_unread(node: Node, flow: Flow) -> None:
    """Reject a query on a stream that the pipeline does not read.

    Raises:
      StatementError: naming the stream.
    """
    for each in nodes_below(node):
        if not isinstance(each, Source | TableSource):
            continue
        if not flow.reads(each.relation):
            if isinstance(each, TableSource) and each.loaded_once:
                # Its rows are in the statement.
                continue
            raise StatementError(
                f'no pump of the pipeline reads "{each.relation}", so the service does not read its rows',
                hint="Leave out --service to read its topic for this query alone.",
            )
        carried = flow.source_type(each.relation).names
        missing = [name for name in each.row_type.names if name not in carried]
        if missing or each.row_type.names != carried:
            unread = ", ".join(missing) or "the same columns"
            raise StatementError(
                f'the pipeline does not read {unread} of "{each.relation}"',
                hint="It reads only the pseudo-columns that its own statements name.",
            )


class Followers:
    """The queries of one pipeline; owned by the thread that owns its flow."""

    def __init__(self) -> None:
        self._held: list[Follower] = []

    def add(
        self, question: Question, flow: Flow, places: Sequence[PartitionId], committed: CommittedRows
    ) -> Follower:
        """Start a query at the current state of the flow; everything must have been drained.

        Raises:
          StatementError: the query cannot start at this state.
        """
        self._held = [each for each in self._held if each.is_open]
        partitions: dict[str, list[int]] = {}
        for relation, partition in sorted(places):
            partitions.setdefault(relation, []).append(partition)
        follower = Follower(question, flow, partitions, committed)
        # A query that reads once gets no further input.
        if not question.once:
            self._held.append(follower)
        return follower

    def insert(self, partition: PartitionId, tray: Tray) -> None:
        """Add rows to all queries."""
        for each in self._open():
            each.insert(partition, tray)

    def bound(self, partition: PartitionId, bound: Bound, reader: str | None = None) -> None:
        """Add a bound to all queries."""
        for each in self._open():
            each.bound(partition, bound, reader)

    def follow(self, partition: PartitionId, bound: Bound) -> None:
        """Let an idle partition take a bound in all queries."""
        for each in self._open():
            each.follow(partition, bound)

    def change_tables(self, statement: LastStatement, changes: Mapping[str, Tray]) -> None:
        """Apply the changes of a statement in all queries."""
        for each in self._open():
            each.change_tables(statement, changes)

    def drain(self) -> None:
        """Process the input so far in all queries."""
        for each in self._open():
            each.drain()

    def end(self, why: str) -> None:
        """End all queries."""
        for each in self._open():
            each.end(why)

    def _open(self) -> list[Follower]:
        return [each for each in self._held if each.is_open] if self._held else []
