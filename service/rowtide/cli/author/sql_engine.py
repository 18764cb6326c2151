"""The engines of ``rowtide sql``: one in this process, or a running service."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

from rowtide.cli.service_url import RunningService, ask, path_of, pipeline_of
from rowtide.clock import Clock
from rowtide.config.settings import Settings
from rowtide.errors import BoundRegressionError, StatementError, TransientError
from rowtide.flow.flow import Emitted, Flow
from rowtide.plan.explain import explain
from rowtide.plan.nodes import Node, Source, TableSource, nodes_below
from rowtide.plan.pseudo import PSEUDO_COLUMNS
from rowtide.rows.rowop import Opcode, Row, TimedRow
from rowtide.rows.tray import Tray
from rowtide.rows.types import VARCHAR
from rowtide.rowtime.text import time_text
from rowtide.runtime.configured import configured
from rowtide.runtime.ingest.channels import channel
from rowtide.runtime.ingest.intake import POLL_MESSAGES, ExplicitBound
from rowtide.runtime.pipeline import open_for_query, open_pipeline
from rowtide.runtime.polling.options import poller_of
from rowtide.runtime.query.contents import plain
from rowtide.runtime.query.listing import Contents
from rowtide.runtime.recovery.begin import Begin, first_offsets
from rowtide.runtime.state.deadletters import error_values
from rowtide.runtime.state.following import CONTENTS
from rowtide.sql.catalog.system import ERRORS
from rowtide.sql.definitions.objects import relation_name
from rowtide.sql.grammar.statement_grammar import parse
from rowtide.sql.grammar.statements import Describe, QueryStatement, Show
from rowtide.sql.pipeline import STAGES, SqlSession
from rowtide_connectors.api import OffsetRange, PartitionReader

RESULT = "RESULT"
SYS_ERRORS = relation_name(ERRORS)
QUERY_PATIENCE_S = 30.0
"""A service writes a line every second while a query runs."""
POLL_S = 0.2
"""How long to wait for one topic, so that several topics alternate and Ctrl-C takes effect."""


@dataclass(frozen=True, slots=True)
class ResultColumns:
    """The shape of the rows that follow.

    ``changes``: they are changes of a table; ``timed`` False: they are the contents of a table.
    """

    names: tuple[str, ...]
    types: tuple[str, ...]
    changes: bool
    timed: bool = True


@dataclass(frozen=True, slots=True)
class ResultRow:
    """One row; ``op`` is + or -; ``rowtime`` is None for a row of a table's contents."""

    op: str
    rowtime: int | None
    row: Sequence[object]


@dataclass(frozen=True, slots=True)
class ResultNote:
    """A message beside the rows."""

    text: str


QueryEvent = ResultColumns | ResultRow | ResultNote


class Engine(Protocol):
    """An engine that executes statements."""

    def execute(self, text: str) -> Iterator[QueryEvent]:
        """Execute one statement, and yield its results as they arrive.

        Raises:
          StatementError, TransientError, OptionError.
        """

    def names(self) -> list[str]:
        """Return names that completion may offer."""


def is_query(text: str) -> bool:
    """Return whether a statement is a query, SHOW or DESCRIBE; all others define or insert something.

    Raises:
      StatementError: the text is not a statement.
    """
    try:
        statements = parse(text)
    except StatementError as error:
        error.text = text
        raise
    return bool(statements) and isinstance(statements[0], QueryStatement | Show | Describe)


class EmbeddedEngine:
    """An engine in this process: definitions and inserted rows live as long as it; topics are read.

    Args:
      settings: options of servers, streams and tables.
      begin: the position at which reading of topics starts.
      until_end: a query ends at the ends that the topics had at its start; else it continues.
      name: the pipeline whose committed errors SYS.ERRORS has.
      stopping: returns whether to stop a query.
    """

    def __init__(
        self,
        settings: Settings,
        begin: Begin,
        clock: Clock,
        *,
        until_end: bool,
        name: str | None = None,
        stopping: Callable[[], bool] = lambda: False,
    ) -> None:
        self._settings = settings
        self._begin = begin
        self._clock = clock
        self._until_end = until_end
        self._stopping = stopping
        # Later queries can name any pseudo-column.
        self._session = SqlSession(takes_rows=True, pseudo=frozenset(PSEUDO_COLUMNS), errors=True)
        self._name = name
        self._inserted: list[tuple[str, list[tuple[int, Row]]]] = []

    def load(self, text: str, file: str | None = None) -> None:
        """Execute statements that define and insert.

        Raises:
          StatementError: a statement is refused; nothing has changed.
        """
        self._session.feed(text, file=file)
        now = self._clock.now_ms()
        for arrived in self._session.arrived:
            rows = [(now if rowtime is None else rowtime, row) for rowtime, row in arrived.at(now)]
            self._inserted.append((arrived.relation, rows))

    def execute(self, text: str) -> Iterator[QueryEvent]:
        if not is_query(text):
            known, before = len(self._session.explained), len(self._inserted)
            self.load(text)
            explained = self._session.explained[known:]
            if not explained:
                yield from map(ResultNote, self._session.changed or ("ok",))
                yield from map(ResultNote, self._late(before))
                return
            yield ResultColumns(("PLAN",), (str(VARCHAR),), changes=False, timed=False)
            for _, nodes in explained:
                yield from _plan_lines(nodes)
            return
        listing = self._session.listing(text)
        read = {each.relation for each in nodes_below(listing.node) if isinstance(each, TableSource)}
        if SYS_ERRORS in read:
            listing = self._session.listing(text, self._errors())
        is_contents = listing.changes and self._is_finite(listing.node)
        if listing.order and not is_contents:
            listing = replace(listing, node=self._session.query(text), order=())
        node, contents = listing.node, Contents(listing.order)
        changes = listing.changes and not is_contents
        types = contents.shown([str(field.type) for field in node.row_type])
        yield ResultColumns(contents.shown(node.row_type.names), types, changes, not is_contents)
        for emitted in self._run(node):
            if is_contents:
                contents.take(_rows(emitted))
            else:
                for timed in _rows(emitted):
                    op = "-" if timed.opcode == Opcode.DELETE else "+"
                    yield ResultRow(op, timed.rowtime, [plain(value) for value in timed.row])
            for fault in emitted.faults:
                yield ResultNote(f"{fault.relation}: {fault.reason}: {fault.message}")
        for row in contents.rows():
            yield ResultRow("+", None, [plain(value) for value in row])

    def _late(self, before: int) -> Iterator[str]:
        """Yield a note for each late row that was inserted after the first ``before`` statements."""
        highest: dict[str, int] = {}
        for number, (relation, rows) in enumerate(self._inserted):
            for rowtime, _ in rows:
                reached = highest.get(relation, rowtime)
                if rowtime < reached and number >= before:
                    yield (
                        f'a row at {time_text(rowtime)} is late: "{relation}" is at {time_text(reached)}, '
                        "so no query sees it"
                    )
                highest[relation] = max(reached, rowtime)

    def names(self) -> list[str]:
        columns = (name for _, node in self._session.plan.relations for name in node.row_type.names)
        return [*(name for name, _ in self._session.kinds), *dict.fromkeys(columns)]

    def relations(self) -> list[tuple[str, str]]:
        """Return all relations and pumps with their kinds."""
        return list(self._session.kinds)

    def _errors(self) -> list[Row]:
        """Read the error rows that the pipeline has committed, the oldest first.

        Raises:
          StatementError: no pipeline is set, or it has no database.
        """
        if self._name is None:
            raise StatementError(
                f"{SYS_ERRORS} has the errors of a pipeline: none is given",
                hint="rowtide sql pipeline.sql -e 'SELECT * FROM SYS.ERRORS' names one.",
            )
        url = self._settings.checkpoint.url
        plan = configured(self._session.plan, self._settings)
        with open_pipeline(plan, self._name, None if url is None else url.reveal()) as pipeline:
            return [error_values(stored) for stored in pipeline.ledger.errors(limit=None)]

    def _is_finite(self, node: Node) -> bool:
        """Return whether a query ends: a topic has no end, and a table of a database is read once."""
        plan = self._session.plan
        read = {each.relation for each in nodes_below(node) if isinstance(each, Source) and each.foreign}
        topics = [
            each for each in plan.foreign_streams if each.name in read and poller_of(plan, each) is None
        ]
        return self._until_end or not topics

    def _run(self, node: Node) -> Iterator[Emitted]:
        """Run a query over all inserted rows and all messages of its topics."""
        plan = configured(self._session.plan, self._settings)
        read = {each.relation for each in nodes_below(node) if isinstance(each, Source)}
        streams = {stream.name: stream for stream in plan.foreign_streams if stream.name in read}
        sources = {name: open_for_query(plan, stream) for name, stream in streams.items()}
        readers: dict[str, PartitionReader] = {}
        is_finite = self._is_finite(node)
        try:
            ranges = {name: source.ranges() for name, source in sources.items()}
            flow = Flow({RESULT: node}, {name: sorted(held) for name, held in ranges.items()})
            self._insert(flow, node)
            yield flow.drain()
            positions = {name: dict(first_offsets(source, self._begin)) for name, source in sources.items()}
            channels = {name: channel(stream, sources[name], flow) for name, stream in streams.items()}
            readers = {name: source.reader(positions[name]) for name, source in sources.items()}
            while readers and not self._stopping():
                if is_finite and _has_reached(positions, ranges):
                    return
                for name, reader in readers.items():
                    for messages in reader.poll(POLL_MESSAGES, POLL_S):
                        delivery = channels[name].deliver(messages)
                        positions[name][messages.partition] = messages.next_offset
                        for part in delivery.parts:
                            if isinstance(part, ExplicitBound):
                                with suppress(BoundRegressionError):
                                    flow.bound(name, messages.partition, part.bound)
                            else:
                                flow.insert(name, messages.partition, part)
                        yield Emitted({}, list(delivery.faults))
                yield flow.drain()
        finally:
            for reader in readers.values():
                reader.close()
            for source in sources.values():
                source.close()

    def _insert(self, flow: Flow, node: Node) -> None:
        """Feed the rows of INSERT statements."""
        counters: Counter[str] = Counter()
        row_types = {
            each.relation: each.row_type
            for each in nodes_below(node)
            if isinstance(each, Source | TableSource)
        }
        for relation, rows in self._inserted:
            if relation not in row_types:
                continue
            timed = []
            for rowtime, row in rows:
                timed.append(
                    TimedRow(rowtime, flow.origin(relation, 0), counters[relation], Opcode.INSERT, row)
                )
                counters[relation] += 1
            flow.insert(relation, 0, Tray.from_rows(row_types[relation], timed))


class ServiceEngine:
    """A running service, which executes queries. A query on streams runs until it is stopped.

    A query on tables returns their contents; with ``follow`` it continues and returns their changes, too.
    """

    def __init__(self, service: RunningService | str, *, follow: bool = False) -> None:
        self._service = RunningService(service) if isinstance(service, str) else service
        self._follow = follow

    def execute(self, text: str) -> Iterator[QueryEvent]:
        if not is_query(text):
            raise StatementError(
                "a running service takes queries only",
                hint="Leave out --service to run statements that define relations.",
            )
        asked = {"sql": text, "once": not self._follow}
        try:
            queries = path_of(pipeline_of(self._service), "queries")
            started = ask(self._service, queries, method="POST", body=asked, patience_s=QUERY_PATIENCE_S)
            rows = f"{queries}/{started['id']}/rows"
            with self._service.open(rows, patience_s=QUERY_PATIENCE_S) as response:
                events = (_event_of(json.loads(line)) for line in response if line.strip())
                yield from events if self._follow else _contents(events)
        except StatementError as error:
            error.text = text
            raise
        except (TimeoutError, ConnectionError) as error:
            raise TransientError(f"{self._service.url} stopped answering: {error}") from error

    def names(self) -> list[str]:
        """Return no names: the client does not know the service's relations."""
        return []


def _contents(events: Iterator[QueryEvent]) -> Iterator[QueryEvent]:
    """Yield the contents of a table instead of its changes; rows of streams are unchanged."""
    contents: ResultColumns | None = None
    held: Counter[Row] = Counter()
    for answer in events:
        if isinstance(answer, ResultColumns) and answer.changes:
            contents = replace(answer, changes=False, timed=False)
            yield contents
        elif contents is not None and isinstance(answer, ResultRow):
            held[tuple(answer.row)] += -1 if answer.op == "-" else 1
        elif contents is None or answer != ResultNote(CONTENTS):
            yield answer
    for row in held.elements():
        yield ResultRow("+", None, row)


def _event_of(line: Mapping[str, Any]) -> QueryEvent:
    if "columns" in line:
        return ResultColumns(tuple(line["columns"]), tuple(line["types"]), bool(line["changes"]))
    if "row" in line:
        return ResultRow(line["op"], line["rowtime"], line["row"])
    if line.get("failed"):
        raise StatementError(line["error"], hint=line["hint"])
    return ResultNote(str(line.get("ended") or line.get("error")))


def _rows(emitted: Emitted) -> Iterator[TimedRow]:
    for tray in emitted.outputs.get(RESULT, ()):
        yield from tray.rows()


def _plan_lines(nodes: Sequence[Node]) -> Iterator[ResultRow]:
    """Yield the plan of an explained query after every stage, one row for each line."""
    for stage, node in zip(STAGES, nodes, strict=True):
        for line in (f"-- {stage}", *explain(node).lines()):
            yield ResultRow("+", None, [line])


def _has_reached(
    positions: Mapping[str, Mapping[int, int]], ranges: Mapping[str, Mapping[int, OffsetRange]]
) -> bool:
    return all(
        positions[name][partition] >= held.end
        for name, partitions in ranges.items()
        for partition, held in partitions.items()
    )


def history_file() -> Path:
    """Return the path of the prompt's history file."""
    return Path.home() / ".rowtide_history"
