"""The work of a query's process: plan the query, run its flow, and write its answer as lines of JSON.

Planning is part of the query, because it computes constants, and an expression may take any time. The process
is a child of the service. It may take all the memory and time that its limits allow without taking any of the
pipeline's: the system refuses it more memory, and the service ends it after its time limit.
"""

from __future__ import annotations

import json
import os
import pickle
import resource
import signal
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from math import ceil, isfinite
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Protocol

import msgspec
import pyarrow as pa

from rowtide.checkpoint.ledger import PartitionId
from rowtide.errors import BoundRegressionError, RowtideError, StatementError
from rowtide.flow.flow import Emitted, Flow
from rowtide.flow.image import FlowImage
from rowtide.flow.table_changes import LastStatement
from rowtide.plan.nodes import Node
from rowtide.rows.rowop import Opcode, Row, TimedRow
from rowtide.rows.tray import Tray
from rowtide.rows.types import RowType, Type
from rowtide.rowtime.bound import EARLIEST, Bound
from rowtide.runtime.query.contents import plain
from rowtide.runtime.query.listing import Contents
from rowtide.sql.pipeline import SqlSession
from rowtide_connectors.errors import ConnectorError

RESULT = "RESULT"
"""The one output of a query's flow."""
CONTENTS = "these were all rows"
"""The reason for the end of a query that reads once."""
ENOUGH = "LIMIT asks for no more rows"
"""The reason for the end of a query that has the rows of its LIMIT."""
LINES_AT_ONCE = 500
_encode = msgspec.json.Encoder(decimal_format="string").encode
"""Writes what ``json`` writes of ``contents.plain``, in less time."""
NICE = 10
"""The niceness of a query."""

PLANNED, REFUSED = b"P", b"R"
"""The first byte of the process's first message: the plan, or the error of a rejected query."""
LINES, CAUGHT_UP, LAST = b"L", b"C", b"E"
"""The first byte of later messages: lines, the end of the initial state, the last lines."""


@dataclass(frozen=True, slots=True)
class QueryLimits:
    """Limits of one query: seconds to return the initial state, bytes of memory beyond it, and rows."""

    seconds: float = 30.0
    memory_bytes: int = 256 * 1024 * 1024
    rows: int = 1_000_000


class CommittedRows(Protocol):
    """What reads the foreign tables of a pipeline for a query."""

    def insert(self, node: Node, flow: Flow) -> Iterator[Emitted]:
        """Insert the rows of the foreign tables that ``node`` reads into its flow, and yield what comes out."""


@dataclass(frozen=True, slots=True)
class QueryText:
    """A query to plan, and the pipeline whose relations it reads; ``once`` as in ``Question``."""

    pipeline: str
    file: str
    sql: str
    once: bool


@dataclass(frozen=True, slots=True)
class Question:
    """A planned query.

    ``changes``: its rows are changes of a table; ``order`` has, for each sort key of the contents,
    whether it descends. With ``once`` the query returns the current rows and ends. With a ``limit`` it ends after as
    many rows. ``is_committed``: of the pipeline it reads nothing but foreign tables, from their database.
    """

    node: Node
    changes: bool
    order: tuple[bool, ...]
    once: bool
    limit: int | None = None
    is_committed: bool = False


@dataclass(frozen=True, slots=True)
class QueryBegin:
    """The start of a query; ``first`` are rows that precede those of the flow.

    ``committed`` reads the foreign tables that the query names.
    """

    question: Question
    partitions: Mapping[str, Sequence[int]]
    image: FlowImage
    committed: CommittedRows
    first: tuple[RowType, pa.Table] | None = None


@dataclass(frozen=True, slots=True)
class RowsIn:
    """Rows of a partition."""

    place: PartitionId
    row_type: RowType
    table: pa.Table


@dataclass(frozen=True, slots=True)
class BoundIn:
    """A bound of a partition; ``taken``: it is idle and takes the bound of others."""

    place: PartitionId
    bound: Bound
    taken: bool = False


@dataclass(frozen=True, slots=True)
class ChangeIn:
    """The changes of a statement: the rows of each table."""

    statement: LastStatement
    changes: Mapping[str, tuple[RowType, pa.Table]]


@dataclass(frozen=True, slots=True)
class EndIn:
    """The end of the query, with the reason."""

    why: str


@dataclass(frozen=True, slots=True)
class DrainIn:
    """Process the input so far."""


class _EnoughError(Exception):
    """The query has as many rows as its LIMIT asks for."""


class LimitError(RowtideError):
    """A query exceeds its limits."""


def yield_processor() -> None:
    """Set the niceness of queries for this process and its children, so that the pipeline has priority."""
    os.nice(max(0, NICE - os.nice(0)))


def run_query(pipe: Connection, limits: QueryLimits) -> None:
    """Run one query until it ends: the whole life of its process."""
    # Ctrl-C in a terminal reaches all its processes; the service ends this one.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    yield_processor()
    # If the service has ended, only this ends a query that computes.
    _limit_processor(ceil(limits.seconds) + 1)
    with suppress(OSError):
        # If the machine runs out of memory, the system ends a query first.
        Path("/proc/self/oom_score_adj").write_text("1000")
    # Count memory when it is allocated; other allocators of Arrow reserve in advance.
    pa.set_memory_pool(pa.system_memory_pool())
    with suppress(EOFError, BrokenPipeError, ConnectionError):
        asked: QueryText = pipe.recv()
        if not _plan(pipe, asked, limits):
            return
        begin: QueryBegin = pipe.recv()
        answer = _Answer(pipe, begin, limits)
        try:
            answer.run()
        except _EnoughError:
            answer.end(ENOUGH)
        except LimitError as error:
            answer.fail(error.message, error.hint)
        except MemoryError:
            answer.fail(out_of_memory(limits), MEMORY_HINT)
        except BoundRegressionError as error:
            answer.end(error.message)
        except (StatementError, ConnectorError) as error:
            answer.fail(error.message, error.hint)
        except (EOFError, ConnectionError):
            raise
        except Exception as error:  # noqa: BLE001 - the process ends with it, and the client learns why
            answer.fail(f"the query failed: {error}", None)


MEMORY_HINT = "Select fewer rows before they are joined or sorted, or raise limits.query_bytes."
TIME_HINT = "Select fewer rows before they are joined, or raise limits.query_s."
ROWS_HINT = "Add LIMIT or WHERE, or raise limits.query_rows."


def out_of_memory(limits: QueryLimits) -> str:
    """Return the message for a client whose query needed too much memory."""
    return f"the query needs more than {limits.memory_bytes // (1024 * 1024)} MiB of memory"


def out_of_time(limits: QueryLimits) -> str:
    """Return the message for a client whose query took too long."""
    return f"the query took more than {limits.seconds:g} s"


def _plan(pipe: Connection, asked: QueryText, limits: QueryLimits) -> bool:
    """Send the plan of a query, and return True; or why it is refused."""
    session = SqlSession(committed=True)
    session.feed(asked.pipeline, file=asked.file)
    _limit_memory(limits.memory_bytes)
    try:
        listing = session.listing(asked.sql)
        # What is committed is read once, also by a query that continues.
        asks_once = asked.once or listing.is_committed
        is_listed = asks_once or listing.limit is not None
        node = listing.node if is_listed else session.query(asked.sql)
        question = Question(
            node,
            listing.changes,
            tuple(listing.order) if asks_once else (),
            asks_once and listing.changes,
            listing.limit,
            listing.is_committed,
        )
        pipe.send_bytes(PLANNED + pickle.dumps(question))
        return True
    except StatementError as error:
        pipe.send_bytes(REFUSED + pickle.dumps(error))
    except MemoryError:
        pipe.send_bytes(REFUSED + pickle.dumps(StatementError(out_of_memory(limits), hint=MEMORY_HINT)))
    return False


class _Answer:
    """The lines of one query's answer, from the rows of its flow."""

    def __init__(self, pipe: Connection, begin: QueryBegin, limits: QueryLimits) -> None:
        self._pipe = pipe
        self._begin = begin
        self._limits = limits
        self._question = begin.question
        self._contents = Contents(begin.question.order, begin.question.limit)
        self._lines: list[bytes] = []
        self._given = 0
        self._has_floats = any(_holds_floats(field.type) for field in begin.question.node.row_type)

    def run(self) -> None:
        """Process the initial input, and then new input, until the query ends."""
        begin = self._begin
        node = begin.question.node
        flow = Flow({RESULT: node}, begin.partitions)
        flow.begin_from(begin.image)
        flow.collect()
        _limit_memory(self._limits.memory_bytes)
        row_type, shown = node.row_type, self._contents.shown
        types = shown([str(field.type) for field in row_type])
        self._tell({"columns": shown(row_type.names), "types": types, "changes": begin.question.changes})
        self._flush()
        if begin.first is not None:
            self._give(Tray.from_arrow(*begin.first).rows())
        for emitted in begin.committed.insert(node, flow):
            self._emit(emitted)
        self._emit(flow.drain())
        self._emit(flow.settle())
        if begin.question.once:
            self.end(CONTENTS)
            return
        self._flush()
        _limit_processor(resource.RLIM_INFINITY)
        self._pipe.send_bytes(CAUGHT_UP)
        self._follow(flow)

    def end(self, why: str) -> None:
        """Send the last lines of a query that ends normally."""
        for row in self._contents.rows():
            self._row("+", None, row)
        self._tell({"ended": why})
        self._flush(LAST)

    def fail(self, message: str, hint: str | None) -> None:
        """Send the last line of a query that fails."""
        # The lines that are not sent yet may have used up the memory.
        self._lines.clear()
        self._contents = Contents(())
        self._lines.append(failed_line(message, hint).encode())
        self._flush(LAST)

    def _follow(self, flow: Flow) -> None:
        while True:
            come = self._pipe.recv()
            match come:
                case RowsIn(place, row_type, table):
                    flow.insert(*place, Tray.from_arrow(row_type, table))
                case BoundIn(place, bound, taken):
                    if taken:
                        flow.follow(*place, bound)
                    else:
                        flow.bound(*place, bound)
                case ChangeIn(statement, changes):
                    flow.change_tables(
                        statement, {name: Tray.from_arrow(*rows) for name, rows in changes.items()}
                    )
                case DrainIn():
                    self._emit(flow.drain())
                    self._flush()
                case EndIn(why):
                    self.end(why)
                    return

    def _emit(self, emitted: Emitted) -> None:
        for tray in emitted.outputs[RESULT]:
            self._give(tray.rows())
        for fault in emitted.faults:
            self._tell({"error": f"{fault.reason}: {fault.message}"})

    def _give(self, rows: Iterator[TimedRow]) -> None:
        if self._question.once or self._question.order:
            self._contents.take(rows)
            if self._question.once:
                self._refuse_too_many()
            return
        limit = self._question.limit
        if limit == 0:
            raise _EnoughError
        for timed in rows:
            rowtime = None if timed.rowtime == EARLIEST else timed.rowtime
            self._row("-" if timed.opcode == Opcode.DELETE else "+", rowtime, timed.row)
            self._given += 1
            if self._given == limit:
                raise _EnoughError

    def _refuse_too_many(self) -> None:
        """Refuse contents of more rows than the limits allow, and end the query if it has all that it wants."""
        limit = self._question.limit
        is_complete = self._contents.is_complete(self._question.node)
        size = limit if is_complete and limit is not None else self._contents.size
        if size > self._limits.rows:
            raise LimitError(f"the query has more than {self._limits.rows} rows", hint=ROWS_HINT)
        if is_complete:
            raise _EnoughError

    def _row(self, op: str, rowtime: int | None, row: Row) -> None:
        self._add(row_line(op, rowtime, row, has_floats=self._has_floats))

    def _tell(self, line: Mapping[str, Any]) -> None:
        self._add(f"{json.dumps(line)}\n".encode())

    def _add(self, line: bytes) -> None:
        self._lines.append(line)
        if len(self._lines) >= LINES_AT_ONCE:
            self._flush()

    def _flush(self, kind: bytes = LINES) -> None:
        if self._lines or kind == LAST:
            self._pipe.send_bytes(kind + b"".join(self._lines))
            self._lines.clear()


def _holds_floats(of: Type) -> bool:
    return of.is_float or of.element is not None


def row_line(op: str, rowtime: int | None, row: Row, *, has_floats: bool) -> bytes:
    """Return the line of one row. ``has_floats``: a value of the row, or an element of one, may be a float."""
    if has_floats and not all(map(_is_finite, row)):
        # The fast encoder would write null for NaN and infinity.
        return f"{json.dumps({'op': op, 'rowtime': rowtime, 'row': plain(row)})}\n".encode()
    return _encode({"op": op, "rowtime": rowtime, "row": row}) + b"\n"


def _is_finite(value: object) -> bool:
    if isinstance(value, tuple):
        return all(map(_is_finite, value))
    return not isinstance(value, float) or isfinite(value)


def failed_line(message: str, hint: str | None) -> str:
    """Return the last line of an answer that is not complete."""
    return f"{json.dumps({'error': message, 'hint': hint, 'failed': True})}\n"


def _limit_processor(seconds: int) -> None:
    """Limit the processor time of this process: the system ends it afterwards."""
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, resource.RLIM_INFINITY))


def _limit_memory(more_bytes: int) -> None:
    """Limit the memory of this process to ``more_bytes`` beyond its current size, on Linux."""
    status = Path("/proc/self/status")
    if not status.exists():
        # Other systems do not report it; the limits of time and rows remain.
        return
    for line in status.read_text().splitlines():
        name, _, value = line.partition(":")
        if name == "VmData":
            limit = int(value.split()[0]) * 1024 + more_bytes
            resource.setrlimit(resource.RLIMIT_DATA, (limit, resource.RLIM_INFINITY))
            return
