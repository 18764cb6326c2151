"""The engine in this process: statements, and queries over inserted rows and the messages of topics."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace

from rowtide.clock import Clock
from rowtide.config.settings import Settings
from rowtide.embedded.events import QueryEvent, ResultColumns, ResultNote, ResultRow, is_query, statement_of
from rowtide.embedded.topics import MESSAGE_COLUMNS, TopicReading, message_rows
from rowtide.errors import StatementError
from rowtide.flow.flow import Emitted, Flow
from rowtide.plan.explain import explain
from rowtide.plan.nodes import Node, Source, TableSource, nodes_below
from rowtide.plan.pseudo import PSEUDO_COLUMNS
from rowtide.rows.rowop import Opcode, Row, TimedRow
from rowtide.rows.tray import Tray
from rowtide.rows.types import VARCHAR, RowType
from rowtide.rowtime.bound import EARLIEST
from rowtide.rowtime.text import time_text
from rowtide.runtime.configured import configured
from rowtide.runtime.pipeline import open_pipeline
from rowtide.runtime.polling.options import poller_of
from rowtide.runtime.query.contents import plain
from rowtide.runtime.query.listing import Contents
from rowtide.runtime.recovery.begin import Begin
from rowtide.runtime.state.committed_tables import CommittedTables
from rowtide.runtime.state.deadletters import error_values
from rowtide.sql.catalog.system import ERRORS
from rowtide.sql.definitions.objects import relation_name
from rowtide.sql.grammar.statements import Print
from rowtide.sql.located import located
from rowtide.sql.pipeline import STAGES, SqlSession

RESULT = "RESULT"
SYS_ERRORS = relation_name(ERRORS)


@dataclass(frozen=True, slots=True, eq=False)
class EngineAnswer:
    """All rows of a query; ``notes`` has a line for each row that could not be processed.

    ``changes``: they are changes of a table; ``timed`` False: they are the contents of a table. ``bound`` is the
    rowtime bound of the query (ms).
    """

    tray: Tray
    changes: bool
    timed: bool
    bound: int
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Asked:
    """A planned query. ``is_listed``: its rows are contents of a table, which come at the end, sorted."""

    node: Node
    contents: Contents
    changes: bool
    is_listed: bool
    limit: int | None


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
        self._session = SqlSession(
            takes_rows=True, pseudo=frozenset(PSEUDO_COLUMNS), errors=True, committed=True
        )
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
        statement = statement_of(text)
        if isinstance(statement, Print):
            yield from self._messages_of(statement, text)
            return
        if not is_query(statement):
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
        asked = self._asked(text)
        contents, types = asked.contents, [str(field.type) for field in asked.node.row_type]
        columns = ResultColumns(
            contents.shown(asked.node.row_type.names),
            contents.shown(types),
            asked.changes,
            not asked.is_listed,
        )
        given = 0
        with self._opened(asked.node) as (flow, topics, tables):
            # After the topics are found: a broker that is down has an error alone.
            yield columns
            for emitted in self._run(asked.node, flow, topics, tables):
                if asked.is_listed:
                    contents.take(_rows(emitted))
                else:
                    for timed in _rows(emitted):
                        if given == asked.limit:
                            return
                        op = "-" if timed.opcode == Opcode.DELETE else "+"
                        yield ResultRow(op, timed.rowtime, [plain(value) for value in timed.row])
                        given += 1
                yield from map(ResultNote, _notes(emitted))
                if given == asked.limit:
                    return
                if contents.is_complete(asked.node):
                    break
        for row in contents.rows():
            yield ResultRow("+", None, [plain(value) for value in row])

    def _messages_of(self, statement: Print, text: str) -> Iterator[QueryEvent]:
        """Yield the messages of the topic of a foreign stream, as they are."""
        plan = configured(self._session.plan, self._settings)
        with located(text, None):
            name = self._session.name_of(statement.name)
            stream = next((each for each in plan.foreign_streams if each.name == name), None)
            if stream is None:
                raise StatementError(
                    f'"{name}" has no topic that is read',
                    span=statement.name.place,
                    hint="PRINT shows the messages of a foreign stream. SELECT * FROM a table shows its rows.",
                )
        with closing(TopicReading(plan, [stream], self._begin)) as topics:
            ends = topics.ends()
            yield MESSAGE_COLUMNS
            read = topics.messages(ends if self._until_end else None, self._stopping)
            for _, messages in filter(None, read):
                yield from message_rows(messages)

    def answer(self, text: str) -> EngineAnswer:
        """Execute one query up to its end, and return all rows.

        Raises:
          StatementError: it is not one query, or it is refused.
        """
        asked = self._asked(text)
        trays, notes = [Tray.empty(asked.node.row_type)], list[str]()
        with self._opened(asked.node) as (flow, topics, tables):
            for emitted in self._run(asked.node, flow, topics, tables):
                if asked.is_listed:
                    asked.contents.take(_rows(emitted))
                else:
                    trays += emitted.outputs.get(RESULT, ())
                notes += _notes(emitted)
                if asked.limit is not None and sum(map(len, trays)) >= asked.limit and not asked.is_listed:
                    break
                if asked.contents.is_complete(asked.node):
                    break
            bound = flow.promised()[RESULT]
        if asked.is_listed:
            row_type = RowType(asked.contents.shown(asked.node.row_type.fields))
            rows = (TimedRow(EARLIEST, 0, 0, Opcode.INSERT, row) for row in asked.contents.rows())
            trays = [Tray.from_rows(row_type, rows)]
        answer = Tray.concat(trays)
        if asked.limit is not None:
            answer = answer.slice(0, min(asked.limit, len(answer)))
        return EngineAnswer(answer, asked.changes, not asked.is_listed, bound, tuple(notes))

    def _asked(self, text: str) -> _Asked:
        """Plan one query."""
        listing = self._session.listing(text)
        read = {each.relation for each in nodes_below(listing.node) if isinstance(each, TableSource)}
        if SYS_ERRORS in read:
            listing = self._session.listing(text, self._errors())
        is_listed = listing.changes and self._is_finite(listing.node)
        if listing.order and not is_listed:
            listing = replace(listing, node=self._session.query(text), order=())
        changes = listing.changes and not is_listed
        contents = Contents(listing.order, listing.limit)
        return _Asked(listing.node, contents, changes, is_listed, listing.limit)

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

    @contextmanager
    def _opened(self, node: Node) -> Iterator[tuple[Flow, TopicReading, CommittedTables]]:
        """Connect to the topics that a query reads, and make its flow; also return the foreign tables."""
        plan = configured(self._session.plan, self._settings)
        read = {each.relation for each in nodes_below(node) if isinstance(each, Source)}
        with closing(
            TopicReading(plan, (each for each in plan.foreign_streams if each.name in read), self._begin)
        ) as topics:
            flow = Flow({RESULT: node}, {name: sorted(held) for name, held in topics.ends().items()})
            yield flow, topics, CommittedTables.of(plan, node)

    def _run(
        self, node: Node, flow: Flow, topics: TopicReading, tables: CommittedTables
    ) -> Iterator[Emitted]:
        """Run a query over all inserted rows, what is committed, and all messages of its topics."""
        ends = topics.ends() if self._is_finite(node) else None
        flow.collect()
        self._insert(flow, node)
        yield flow.drain()
        yield from tables.insert(node, flow)
        if ends is None:
            yield flow.settle()
        yield from topics.read(flow, ends, self._stopping)
        if ends is not None:
            yield flow.settle()

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


def _rows(emitted: Emitted) -> Iterator[TimedRow]:
    for tray in emitted.outputs.get(RESULT, ()):
        yield from tray.rows()


def _notes(emitted: Emitted) -> Iterator[str]:
    """Yield a line for each row that could not be processed."""
    for fault in emitted.faults:
        yield f"{fault.relation}: {fault.reason}: {fault.message}"


def _plan_lines(nodes: Sequence[Node]) -> Iterator[ResultRow]:
    """Yield the plan of an explained query after every stage, one row for each line."""
    for stage, node in zip(STAGES, nodes, strict=True):
        for line in (f"-- {stage}", *explain(node).lines()):
            yield ResultRow("+", None, [line])
