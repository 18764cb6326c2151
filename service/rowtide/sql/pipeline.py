"""A pipeline's text -> its plan.

``plan_pipeline`` reads a whole file. A ``SqlSession`` accepts further statements,
one text at a time, for scenarios and prompts. A refused text changes nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

from rowtide.errors import SourceSpan, StatementError
from rowtide.plan.connect import Feed, FeedConnector
from rowtide.plan.nodes import Node, Source
from rowtide.plan.order import place_order
from rowtide.plan.plan import POLLED_WRAPPERS, ForeignKey, ForeignStream, ForeignTable, Notice, Plan, Pump
from rowtide.plan.questions import rowtime_field
from rowtide.rows.rowop import Row
from rowtide.sql.catalog.notices import notices, text_notices
from rowtide.sql.catalog.system import refuse_change, with_errors
from rowtide.sql.catalog.values import TimedValues, arrived, timed_rows
from rowtide.sql.definitions.objects import (
    Catalog,
    Key,
    Origin,
    PumpDefinition,
    StreamDefinition,
    TableDefinition,
    ViewDefinition,
    relation_name,
)
from rowtide.sql.functions.binding import bound
from rowtide.sql.grammar.statement_grammar import parse, parse_name
from rowtide.sql.grammar.statements import (
    CreateAs,
    CreateIfMissing,
    CreatePump,
    CreateView,
    Describe,
    Drop,
    Explain,
    InsertValues,
    ObjectKind,
    Print,
    QueryStatement,
    Rename,
    RowChange,
    Show,
    Statement,
)
from rowtide.sql.grammar.syntax import DeclaredFunction, QualifiedName, QuerySyntax
from rowtide.sql.grammar.syntax_walk import pseudo_in
from rowtide.sql.located import located
from rowtide.sql.planning.defined import definitions
from rowtide.sql.planning.listing import Listing
from rowtide.sql.planning.planner import PlannedPump, Planner, written_in
from rowtide.sql.row_changes import CHANGED, refuse_pumped, with_row_change
from rowtide.sql.sent_statements import SentStatements
from rowtide.sql.shown import as_query
from rowtide.sql.statements.created_as import relation_and_pump
from rowtide.sql.statements.define import define, exists
from rowtide.sql.statements.dropping import is_dropped, prepared_drop, pumps_of, refuse_renaming_of_used


@dataclass(frozen=True, slots=True)
class PlanStage:
    """All relations and pumps after one step of planning, for EXPLAIN."""

    name: str
    relations: tuple[tuple[str, Node], ...]
    pumps: tuple[tuple[str, Node], ...]


def plan_pipeline(text: str, *, file: str | None = None, inserted: Collection[str] = ()) -> Plan:
    """Plan a pipeline file.

    Args:
      text: its statements.
      file: its name, for errors.
      inserted: streams and tables, by catalog name, with another writer outside the plan, besides
        pumps and INSERT statements.

    Raises:
      StatementError: the first error, with its place, the text and the file.
    """
    session = SqlSession(inserted=inserted)
    session.feed(text, file=file)
    return session.plan


@dataclass(frozen=True, slots=True)
class StreamRows:
    """Rows of an INSERT statement into a stream. A row without a ROWTIME (ms) gets the time of arrival."""

    relation: str
    rows: tuple[TimedValues, ...]

    def at(self, now_ms: int) -> tuple[TimedValues, ...]:
        """Return the rows with the values that they have if they arrive at ``now_ms``."""
        return arrived(self.rows, now_ms)


class SqlSession:
    """The definitions of a sequence of texts, and their plan. Each text is accepted as a whole or not at all.

    With ``takes_rows``, INSERT statements can add rows to streams: the caller reads them from ``arrived``,
    and they are one more producer of the stream. ``pseudo`` are pseudo-columns that later texts name:
    foreign streams have them from the beginning, so that these texts change no source. With ``errors``
    the table SYS.ERRORS exists, for a prompt. With ``committed``, queries can read foreign tables: the caller inserts
    the rows of each ``CommittedTable``.
    """

    def __init__(
        self,
        *,
        inserted: Collection[str] = (),
        takes_rows: bool = False,
        pseudo: frozenset[str] = frozenset(),
        errors: bool = False,
        committed: bool = False,
    ) -> None:
        self._inserted = frozenset(inserted)
        self._takes_rows = takes_rows
        self._arrived: tuple[StreamRows, ...] = ()
        self._explained: tuple[tuple[Node, ...], ...] = ()
        self._changed: tuple[str, ...] = ()
        catalog = Catalog(pseudo=pseudo, reads_committed=committed)
        self._catalog = with_errors(catalog) if errors else catalog
        self._changing: frozenset[str] = frozenset()
        self._planner = Planner(self._catalog)
        self._stages, self._plan = _plan(self._catalog, self._planner, self._inserted, self._changing)

    @property
    def plan(self) -> Plan:
        """The plan of all statements so far."""
        return self._plan

    @property
    def stages(self) -> tuple[PlanStage, ...]:
        """The plan as written, with its feeds connected, and with judges and merges placed."""
        return self._stages

    def feed(self, text: str, *, file: str | None = None) -> Plan:
        """Add further statements, and return the plan of all statements so far.

        Raises:
          StatementError: a statement is refused, with place, text and file; nothing has changed.
        """
        arrived: list[StreamRows] = []
        changed: list[str] = []
        with located(text, file):
            catalog, planner, asked = self._catalog, self._planner, list[tuple[QuerySyntax, str]]()
            for each in parse(text):
                statement: Statement = each
                if isinstance(each, CreateIfMissing):
                    if exists(catalog, each.statement):
                        continue
                    statement = each.statement
                statement = bound(statement, catalog.declared)
                if isinstance(statement, Explain):
                    asked.append((statement.query, catalog.current))
                rows = _stream_rows(catalog, statement) if self._takes_rows else None
                if isinstance(statement, RowChange):
                    refuse_change(statement)
                    refuse_pumped(catalog, statement)
                    catalog, count = with_row_change(catalog, statement)
                    changed.append(f"{count} {'row' if count == 1 else 'rows'} {CHANGED[type(statement)]}")
                elif rows is None:
                    origin = Origin(text, file, statement.place)
                    for part in _parts(catalog, planner, statement, origin):
                        catalog = _defined(catalog, part, origin)
                        if isinstance(part, CreateView | CreatePump):
                            planner = planner.grown(catalog)
                            _plan_defined(planner, catalog.key(part.name), part)
                else:
                    arrived.append(rows)
            inserted = self._inserted.union(rows.relation for rows in arrived)
            planner = planner.grown(catalog)
            changing = self._changing | _changed_streams(self._catalog, self._planner, catalog, planner)
            changing |= inserted - self._inserted if self._catalog.objects else frozenset()
            stages, plan = _plan(catalog, planner, inserted, changing)
            explained = [_query_stages(catalog, *each, inserted, changing) for each in asked]
        self._catalog, self._planner, self._stages, self._plan = catalog, planner, stages, plan
        self._inserted, self._arrived, self._changing = inserted, tuple(arrived), changing
        self._explained += tuple(explained)
        self._changed = tuple(changed)
        return plan

    @property
    def changed(self) -> tuple[str, ...]:
        """What the last text's UPDATE, DELETE, TRUNCATE and MERGE did: "2 rows updated"."""
        return self._changed

    @property
    def explained(self) -> tuple[tuple[str, tuple[Node, ...]], ...]:
        """The EXPLAIN statements so far, numbered, each with the plan of its query after every stage."""
        return tuple((f"EXPLAIN {number}", nodes) for number, nodes in enumerate(self._explained, 1))

    @property
    def arrived(self) -> tuple[StreamRows, ...]:
        """The rows of the last text's INSERT statements into streams, which the caller inserts."""
        return self._arrived

    @property
    def text_notices(self) -> tuple[Notice, ...]:
        """The notices about definitions, which do not depend on options."""
        plan = self.plan
        pumps = {pump.name: pump.node for pump in plan.pumps}
        return text_notices(self._catalog, dict(plan.relations) | pumps)

    @property
    def kinds(self) -> tuple[tuple[str, str], ...]:
        """All relations and pumps by catalog name, with their kinds, for example "foreign stream"."""
        return tuple((relation_name(key), found.kind.value) for key, found in self._catalog.objects.items())

    @property
    def functions(self) -> tuple[DeclaredFunction, ...]:
        """The functions of CREATE FUNCTION."""
        return tuple(self._catalog.declared.values())

    @property
    def pumps(self) -> tuple[tuple[str, str], ...]:
        """All pumps, including those into streams and engine tables, each with its target."""
        pumps = pumps_of(self._catalog, self._planner)
        return tuple((relation_name(key), relation_name(pump.target)) for key, pump in pumps.items())

    def relation_name(self, text: str) -> str:
        """Return the catalog name of ``text``, a name as in SQL.

        Raises:
          StatementError: it is not a name, or does not exist.
        """
        with located(text, None):
            return self.name_of(parse_name(text))

    def name_of(self, name: QualifiedName) -> str:
        """Return the catalog name of a name in a statement.

        Raises:
          StatementError: it does not exist; with its place in the statement.
        """
        key, _ = self._catalog.find(name, "relation or pump")
        return relation_name(key)

    def query(self, text: str, errors: Sequence[Row] = ()) -> Node:
        """Plan one query by itself, over the definitions so far; ``errors`` are the rows of SYS.ERRORS.

        Raises:
          StatementError: it is not a query, or cannot be planned.
        """
        with located(text, None):
            query, catalog = self._asked(text, errors)
            return _query_stages(catalog, query, catalog.current, self._inserted, self._changing)[-1]

    def listing(self, text: str, errors: Sequence[Row] = ()) -> Listing:
        """Plan one query by itself; if it is a query of tables, its rows are listed, sorted by ORDER BY.

        Raises:
          StatementError: as ``query``.
        """
        with located(text, None):
            query, catalog = self._asked(text, errors)
            listing = Planner(catalog, pseudo_in(query)).prepared().listing(query, catalog.current)
            placed = _stages_of(catalog, listing.node, self._inserted, self._changing)[-1]
            return replace(listing, node=placed)

    def sent(self, text: str) -> SentStatements:
        """Resolve statements that are sent to the running pipeline; the definitions stay as they are.

        Raises:
          StatementError: one is not a statement that changes rows of engine tables.
        """
        return SentStatements(self._catalog, text)

    def _asked(self, text: str, errors: Sequence[Row]) -> tuple[QuerySyntax, Catalog]:
        """Return the one query of ``text``, and its catalog."""
        statements = parse(text)
        if len(statements) != 1 or not isinstance(statements[0], QueryStatement | Show | Describe):
            place = statements[0].place if statements else SourceSpan(1, 1)
            raise StatementError("expected one query", span=place)
        asked = statements[0]
        if isinstance(asked, QueryStatement):
            query = bound(asked.query, self._catalog.declared)
        else:
            query = as_query(self._catalog, asked)
        return query, with_errors(self._catalog, errors) if errors else self._catalog


STAGES = ("as written", "with pumps connected", "with judges and merges")
"""The stages of planning, in order."""


def _query_stages(
    catalog: Catalog, query: QuerySyntax, schema: str, inserted: frozenset[str], changing: frozenset[str]
) -> tuple[Node, ...]:
    """Plan one query by itself, and return the plan after each of ``STAGES``."""
    planned = Planner(catalog, pseudo_in(query)).prepared().query(query, schema)
    return _stages_of(catalog, planned.node, inserted, changing)


def _stages_of(
    catalog: Catalog, written: Node, inserted: frozenset[str], changing: frozenset[str]
) -> tuple[Node, ...]:
    """Return a query's plan after each of ``STAGES``; ``written`` is the plan of the first stage."""
    feeds = _feeds(catalog, pumps_of(catalog, Planner(catalog).prepared()), inserted, changing)
    connected = FeedConnector(feeds).connect(written)
    return written, connected, place_order(connected)


def _defined(catalog: Catalog, statement: Statement, origin: Origin) -> Catalog:
    """Return the catalog after one statement."""
    if isinstance(statement, QueryStatement):
        raise StatementError(
            "a query alone has no effect in a pipeline",
            span=statement.place,
            hint="Name it with CREATE VIEW name AS SELECT ..; write its rows to a table with CREATE PUMP.",
        )
    if isinstance(statement, Show | Describe | Print):
        raise StatementError(
            "SHOW, DESCRIBE and PRINT are statements of a prompt",
            span=statement.place,
            hint="rowtide sql pipeline.sql -e 'SHOW TABLES' lists what a file defines.",
        )
    if isinstance(statement, Explain):
        Planner(catalog, pseudo_in(statement.query)).prepared().query(statement.query, catalog.current)
        return catalog
    refuse_change(statement)
    if isinstance(statement, Drop) and is_dropped(catalog, statement):
        return catalog
    if isinstance(statement, Drop):
        catalog = prepared_drop(catalog, statement)
    if isinstance(statement, Rename) and statement.column is None:
        refuse_renaming_of_used(catalog, statement)
    return define(catalog, statement, origin)


def _parts(catalog: Catalog, planner: Planner, statement: Statement, origin: Origin) -> tuple[Statement, ...]:
    """Return the statements that a statement stands for, which is mostly itself."""
    if isinstance(statement, CreateAs):
        return relation_and_pump(catalog, planner, statement, origin)
    return (statement,)


def _plan_defined(planner: Planner, key: Key, statement: CreateView | CreatePump) -> None:
    """Check that the definition of a statement can be planned at its place."""
    if isinstance(statement, CreatePump):
        planner.pump(key)
    else:
        planner.relation(key)


def _stream_rows(catalog: Catalog, statement: Statement) -> StreamRows | None:
    """Return the rows that a statement inserts into a stream; None for other statements."""
    if not isinstance(statement, InsertValues):
        return None
    key, found = catalog.find(statement.target, "stream or table")
    if found.kind is not ObjectKind.STREAM or not isinstance(found, StreamDefinition):
        return None
    name = relation_name(key)
    rows = timed_rows(statement, found.row_type, (), name, dict(found.defaults), arrives=True)
    return StreamRows(name, rows)


# ------------------------------------------------------------------ the plan


def _plan(
    catalog: Catalog, planner: Planner, inserted: frozenset[str], changing: frozenset[str]
) -> tuple[tuple[PlanStage, ...], Plan]:
    """Plan everything in a catalog, stage by stage."""
    written: dict[str, Node] = {}
    for key, found in catalog.objects.items():
        if found.kind not in (ObjectKind.PUMP, ObjectKind.FOREIGN_TABLE):
            with _changed_below(catalog):
                written[relation_name(key)] = planner.shown(key)
    with _changed_below(catalog):
        pumps = pumps_of(catalog, planner)
    _check_circles(catalog, planner, pumps)
    connector = FeedConnector(_feeds(catalog, pumps, inserted, changing))
    connected = {name: connector.connect(node) for name, node in written.items()}
    outside = {
        key: planned
        for key, planned in pumps.items()
        if catalog.objects[planned.target].kind in (ObjectKind.FOREIGN_TABLE, ObjectKind.FOREIGN_STREAM)
    }
    flows = {
        relation_name(key): connector.connect(_flowing(catalog, key, planned))
        for key, planned in pumps.items()
    }
    ordered = {name: place_order(node) for name, node in connected.items()}
    ordered_flows = {name: place_order(node) for name, node in flows.items()}
    stages = (
        _stage(STAGES[0], written, {relation_name(key): each.node for key, each in pumps.items()}),
        _stage(STAGES[1], connected, flows),
        _stage(STAGES[2], ordered, ordered_flows),
    )
    foreign = {
        key: ForeignStream(
            relation_name(key),
            found.row_type,
            found.server,
            found.options,
            catalog.pseudo_columns(key),
            found.column_options,
        )
        for key, found in catalog.objects.items()
        if isinstance(found, StreamDefinition) and found.server is not None
    }
    written_streams = catalog.written_streams()
    streams = tuple(stream for key, stream in foreign.items() if key not in written_streams)
    streams += tuple(
        ForeignStream(
            relation_name(key),
            found.row_type,
            found.source,
            found.options,
            column_options=found.column_options,
            key=found.key,
        )
        for key, found in catalog.objects.items()
        if isinstance(found, TableDefinition) and found.source is not None
    )
    tables = tuple(
        ForeignTable(
            relation_name(key),
            found.row_type,
            found.key,
            found.server,
            found.options,
            tuple(ForeignKey(each.columns, relation_name(each.table)) for each in found.foreign_keys),
        )
        for key, found in catalog.objects.items()
        if isinstance(found, TableDefinition) and found.server is not None
    )
    plan = Plan(
        servers=tuple(catalog.servers.values()),
        foreign_streams=streams,
        foreign_tables=tables,
        relations=tuple(ordered.items()),
        pumps=tuple(
            Pump(name, relation_name(pumped.target), ordered_flows[name], rowtime_field(flows[name]))
            for name, pumped in ((relation_name(key), each) for key, each in outside.items())
        ),
        streams=tuple(
            relation_name(key) for key, found in catalog.objects.items() if found.kind is ObjectKind.STREAM
        ),
        written_streams=tuple(stream for key, stream in foreign.items() if key in written_streams),
        notices=(
            *notices(ordered | ordered_flows, _that_may_be_silent(catalog, streams)),
            *text_notices(catalog, ordered | ordered_flows),
        ),
        definitions=definitions(catalog, ordered | ordered_flows, planner.readers, pumps),
    )
    return stages, plan


def _that_may_be_silent(catalog: Catalog, streams: Iterable[ForeignStream]) -> dict[str, ForeignStream]:
    """Return the foreign streams whose bounds come with messages alone: each poll of a table moves its bound."""
    return {
        stream.name: stream
        for stream in streams
        if not (stream.key and catalog.servers[stream.server].wrapper in POLLED_WRAPPERS)
    }


def _stage(name: str, relations: dict[str, Node], pumps: dict[str, Node]) -> PlanStage:
    return PlanStage(name, tuple(relations.items()), tuple(pumps.items()))


def _flowing(catalog: Catalog, key: Key, planned: PlannedPump) -> Node:
    """Return the node of a pump. A stopped pump has no rows and no bound, but keeps its place."""
    pump = catalog.objects[key]
    if isinstance(pump, PumpDefinition) and not pump.started:
        return Source(relation_name(key), planned.node.row_type)
    return planned.node


def _changed_streams(
    before: Catalog, planned_before: Planner, after: Catalog, planned: Planner
) -> frozenset[str]:
    """Return the existing streams whose producers have changed."""
    producers = []
    for catalog, planner in ((before, planned_before), (after, planned)):
        with _changed_below(catalog):
            pumps = pumps_of(catalog, planner)
        producers.append({(key, pump.target) for key, pump in pumps.items()})
    changed = {target for _, target in producers[0] ^ producers[1]}
    return frozenset(
        relation_name(key)
        for key in changed
        if key in before.objects and before.objects[key].kind is ObjectKind.STREAM
    )


def _feeds(
    catalog: Catalog,
    pumps: dict[Key, PlannedPump],
    inserted: frozenset[str],
    changing: frozenset[str] = frozenset(),
) -> dict[str, Feed]:
    """Return the input of each stream, engine table, and foreign stream that pumps write to."""
    feeds, written = {}, catalog.written_streams()
    for key, found in catalog.objects.items():
        if found.kind in (ObjectKind.STREAM, ObjectKind.TABLE) or key in written:
            name = relation_name(key)
            rows = found.rows if isinstance(found, TableDefinition) else ()
            nodes = tuple(_flowing(catalog, pump, each) for pump, each in pumps.items() if each.target == key)
            feeds[name] = Feed(nodes, rows, name in inserted, name in changing)
    return feeds


def _check_circles(catalog: Catalog, planner: Planner, pumps: dict[Key, PlannedPump]) -> None:
    """Refuse pumps that feed a relation that they read, directly or through other relations.

    Raises:
      StatementError: the pumps form a cycle; the message names the first one.
    """
    readers = {key: set(read) for key, read in planner.readers.items()}
    for key, planned in pumps.items():
        readers.setdefault(planned.target, set()).add(key)
    for key, planned in pumps.items():
        pending, seen = [key], set[Key]()
        while pending:
            each = pending.pop()
            for read in readers.get(each, ()):
                if read == planned.target:
                    pump = catalog.objects[key]
                    with written_in(pump.origin):
                        raise StatementError(
                            f'pump "{relation_name(key)}" writes to what it reads: "{relation_name(read)}"',
                            span=planned.place,
                            hint="Use a model for loops.",
                        )
                if read not in seen:
                    seen.add(read)
                    pending.append(read)


@contextmanager
def _changed_below(catalog: Catalog) -> Iterator[None]:
    """Add to errors in this block why a view or pump is refused that was accepted at its place."""
    try:
        yield
    except StatementError as error:
        readers = [
            (found.origin.place.line, found.origin.place.column, f'{found.kind.value} "{relation_name(key)}"')
            for key, found in catalog.objects.items()
            if isinstance(found, ViewDefinition | PumpDefinition) and found.origin.text is error.text
        ]
        place = error.place or SourceSpan(1, 1)
        before = [each for each in readers if each[:2] <= (place.line, place.column)]
        if before:
            why = f"A statement after {max(before)[2]} changes what it reads: replace it, too."
            error.hint = why if error.hint is None else f"{error.hint} {why}"
        raise
