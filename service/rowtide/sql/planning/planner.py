"""Definitions -> nodes: each relation of a catalog, resolved and typed, each once.

A stream is a bare Source and an engine table a KeyedTable over a bare
TableSource. ``plan.connect`` adds the feeds of pumps and INSERTs, and
``plan.order`` the judges and merges.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from copy import copy
from dataclasses import dataclass, field, replace

from rowtide.errors import SourceSpan, StatementError
from rowtide.expr.tree import Expr, FieldRef, Literal, RowtimeRef
from rowtide.plan.nodes import (
    CommittedTable,
    FilterInserts,
    KeyedTable,
    Merge,
    Model,
    Node,
    PatchedTable,
    Source,
    TableSource,
    UniqueTable,
    nodes_below,
)
from rowtide.plan.plan import changes_type, is_patching
from rowtide.plan.pseudo import with_pseudo_columns
from rowtide.plan.upserts import CHANGES, UPSERT, takes_changes, upsert_key
from rowtide.rows.types import RowType
from rowtide.sql.catalog.columns import checked, filled_by_a_topic
from rowtide.sql.catalog.finite import table_of
from rowtide.sql.catalog.models import model_node, output_node
from rowtide.sql.catalog.system import catalog_table
from rowtide.sql.definitions.objects import (
    Catalog,
    Key,
    ModelOutputDefinition,
    Origin,
    PumpDefinition,
    Retention,
    StreamDefinition,
    TableDefinition,
    ViewDefinition,
    relation_name,
)
from rowtide.sql.expressions.conversions import assign
from rowtide.sql.expressions.scope import ROWTIME, UnknownColumn
from rowtide.sql.from_clause.joins import FromPlanner, PlannedFrom
from rowtide.sql.functions.table_functions import rows_of_function
from rowtide.sql.grammar.statements import ObjectKind
from rowtide.sql.grammar.syntax import (
    FromItem,
    Name,
    QuerySyntax,
    RelationRef,
    RowsOfFunction,
    Select,
    SetOperation,
    UnionAll,
    ValuesSyntax,
    With,
)
from rowtide.sql.grammar.syntax_walk import holds_query
from rowtide.sql.group.one_off import with_empty_groups
from rowtide.sql.join.comma_joins import with_joined_where
from rowtide.sql.planning.having import groups_in_from
from rowtide.sql.planning.listing import Listing, without_limit
from rowtide.sql.planning.selects import SelectPlanner
from rowtide.sql.relations.relations import (
    Planned,
    QueryShape,
    SelectOutput,
    column_index,
    distinct_names,
    is_plain_rowtime,
    project,
    projected,
    renamed,
)
from rowtide.sql.select.once import MemoById
from rowtide.sql.select.promotion import check_rowtime_type, promoted
from rowtide.sql.select.select_terms import named_in_list
from rowtide.sql.select.set_operations import combined, combined_changes
from rowtide.sql.select.unions import align, branches, ordered_union
from rowtide.sql.subquery.subqueries import Filtered, SubqueryPlanner
from rowtide.sql.window.qualify import with_qualify


@dataclass(frozen=True, slots=True)
class PlannedPump:
    """A pump's rows in the form of its target. ``place`` is the place of the target's name."""

    target: Key
    node: Node
    changelog: bool
    place: SourceSpan


@dataclass(frozen=True, slots=True)
class _Reading:
    """The context of a query: the relation whose text contains it, the schema, and the enclosing WITHs."""

    relation: str
    schema: str
    reader: Key | None
    tables: Mapping[str, Planned] = field(default_factory=dict)


class Planner:
    """Plans the relations of one catalog. ``readers`` has the relations that each view and pump reads."""

    def __init__(self, catalog: Catalog, pseudo: frozenset[str] = frozenset()) -> None:
        """Plan for ``catalog``; ``pseudo`` are pseudo-columns that a query outside the catalog names."""
        self._catalog = catalog
        self._pseudo = pseudo
        self._planned: dict[Key, Planned] = {}
        self._max_ahead_ms = {
            relation_name(key): found.max_ahead_ms
            for key, found in catalog.objects.items()
            if isinstance(found, StreamDefinition) and found.max_ahead_ms is not None
        }
        self._written = catalog.written_streams()
        self._reading: set[Key] = set()
        self._shapes: MemoById[QueryShape] = MemoById()
        self._reads: MemoById[tuple[FromPlanner, PlannedFrom]] = MemoById()
        self._filtered: MemoById[Filtered] = MemoById()
        self._asked: set[ObjectKind] = set()
        """The kinds of the relations that a query reads by itself."""
        self.readers: dict[Key, set[Key]] = {}
        """The keys of the relations that each view and pump reads directly."""

    def grown(self, catalog: Catalog) -> Planner:
        """Return the planner of a later catalog, which reuses the plans of unchanged relations."""
        planner = Planner(catalog, self._pseudo)
        if not catalog.holds(self._catalog):
            return planner.prepared()
        planner._planned, planner.readers = dict(self._planned), dict(self.readers)
        return planner

    def prepared(self) -> Planner:
        """Plan all relations in the order of creation, to limit the depth of recursion.

        The error of a relation is raised when the relation is requested.
        """
        for key, found in self._catalog.objects.items():
            if found.kind not in (ObjectKind.PUMP, ObjectKind.FOREIGN_TABLE):
                with suppress(StatementError):
                    self.relation(key)
        return self

    def relation(self, key: Key) -> Planned:
        """Return the node of a stream, table or view.

        Raises:
          StatementError: a view's query cannot be planned; with the view's own text and file.
        """
        if key not in self._planned:
            self._planned[key] = self._relation(key)
        return self._planned[key]

    def shown(self, key: Key) -> Node:
        """Return the node of a relation for readers: without pseudo-columns.

        Raises:
          StatementError: as ``relation``.
        """
        planned = self.relation(key)
        if not planned.hidden:
            return planned.node
        row_type = RowType(tuple(planned.node.row_type)[: -planned.hidden])
        fields = tuple(FieldRef(index, each.type) for index, each in enumerate(row_type))
        return project(relation_name(key), planned.node, fields, row_type)

    def pump(self, key: Key) -> PlannedPump:
        """Return the output of a pump.

        Raises:
          StatementError: it cannot be planned.
        """
        pump = self._catalog.objects[key]
        if not isinstance(pump, PumpDefinition):
            raise KeyError(key)
        with written_in(pump.origin):
            return self._pump(key, pump)

    def pumped(self, key: Key) -> QueryShape:
        """Return the query of a pump, whose target need not exist.

        Raises:
          StatementError: it cannot be planned.
        """
        pump = self._catalog.objects[key]
        if not isinstance(pump, PumpDefinition):
            raise KeyError(key)
        return self._query(pump.query, _Reading(relation_name(key), pump.schema, key))

    def query(self, query: QuerySyntax, schema: str) -> Planned:
        """Plan a query by itself, as a relation without a name."""
        shape = self._query(query, _Reading("QUERY", schema, None))
        return Planned(projected(shape, "QUERY"), shape.changelog)

    def listing(self, query: QuerySyntax, schema: str) -> Listing:
        """Plan a query by itself; if it is a query of tables, its rows are listed in the order of ORDER BY."""
        at, inner = _Reading("QUERY", schema, None), query
        while isinstance(inner, With):
            at, inner = self._with_tables(inner, at), inner.body
        inner, limit = without_limit(inner)
        shape = self._select(inner, at, lists=True) if isinstance(inner, Select) else self._query(inner, at)
        named = (each for planned in self._planned.values() for each in nodes_below(planned.node))
        node = with_empty_groups(projected(shape, "QUERY"), named)
        is_committed = self._asked == {ObjectKind.FOREIGN_TABLE}
        return Listing(node, shape.changelog, shape.order, limit, is_committed=is_committed)

    # -------------------------------------------------------------- relations

    def _relation(self, key: Key) -> Planned:
        name = relation_name(key)
        match self._catalog.objects[key]:
            case StreamDefinition(row_type=row_type, server=server) as stream:
                if key in self._written and takes_changes(stream.options):
                    with written_in(stream.origin):
                        rows = checked(TableSource(name, row_type), name, stream.checks, FilterInserts)
                    return Planned(
                        KeyedTable(name, rows, upsert_key(row_type, stream.options)), changelog=True
                    )
                pseudo = self._catalog.pseudo_columns(key, self._pseudo)
                given = with_pseudo_columns(row_type, pseudo)
                source = Source(name, given, foreign=server is not None and key not in self._written)
                with written_in(stream.origin):
                    node = checked(source, name, stream.checks)
                return Planned(node, changelog=False, hidden=len(pseudo))
            case TableDefinition(row_type=row_type, key=columns) as table:
                with written_in(table.origin):
                    rows = checked(TableSource(name, row_type), name, table.checks, FilterInserts)
                if table.source is not None:
                    return self._filled(name, table)
                unique = tuple(index.columns for index in table.indexes if index.unique)
                if unique:
                    return Planned(UniqueTable(name, rows, columns, unique), changelog=True)
                return Planned(KeyedTable(name, rows, columns), changelog=True)
            case ModelOutputDefinition(model=model, changes=changes) as output:
                return Planned(output_node(name, output, self._model(key, model)), changes)
            case ViewDefinition() as view:
                with written_in(view.origin):
                    shape = self._query(view.query, _Reading(name, view.schema, key))
                    return Planned(projected(renamed(shape, view.columns), name), shape.changelog)
            case PumpDefinition():
                raise KeyError(key)

    def _filled(self, name: str, table: TableDefinition) -> Planned:
        """Return a table whose changes come from a topic."""
        patched = is_patching(table.options)
        row_type = changes_type(table.row_type, table.key, patched=patched)
        source = Source(name, row_type, foreign=True, in_log_order=True)
        with written_in(table.origin):
            changes = checked(source, name, table.checks, FilterInserts)
        kind = PatchedTable if patched else KeyedTable
        return Planned(kind(name, changes, table.key), changelog=True)

    def _model(self, reader: Key, name: str) -> Model:
        """Return the node of a model, which every output of it reads."""
        model = self._catalog.models[name]
        ports = {(name, port.name.upper()) for port in model.accepts}
        self.readers.setdefault(reader, set()).update(ports)
        return model_node(name, model, lambda key: self.relation(key).node)

    def _read(self, ref: RelationRef, at: _Reading) -> tuple[Planned, tuple[str, ...]]:
        """Return the relation of a name in FROM, and its qualifiers."""
        names = tuple(part.text for part in ref.name.parts)
        if len(names) == 1 and names[0] in at.tables:
            return at.tables[names[0]], names
        reader = at.reader
        listed = catalog_table(self._catalog, ref.name, self._row_type, at_prompt=reader is None)
        if listed is not None:
            return Planned(listed, changelog=True), names
        key, found = self._catalog.find(ref.name, "relation", schema=at.schema, near=tuple(at.tables))
        shown = relation_name(key)
        if reader is None:
            self._asked.add(found.kind)
        if isinstance(found, TableDefinition) and found.kind is ObjectKind.FOREIGN_TABLE:
            if reader is None and self._catalog.reads_committed:
                return _committed(shown, found), key
            raise StatementError(
                f'foreign table "{shown}" cannot be read in a pipeline: pumps write to it',
                span=ref.name.place,
                hint=f"Read what its pump reads. rowtide sql pipeline.sql -e 'SELECT * FROM {shown}' reads the "
                "committed rows.",
            )
        if found.kind is ObjectKind.PUMP:
            raise StatementError(f'"{shown}" is a pump, not a relation', span=ref.name.place)
        if reader is not None:
            self.readers.setdefault(reader, set()).add(key)
        if key in self._reading:
            raise StatementError(f'view "{shown}" reads itself', span=ref.name.place)
        self._reading.add(key)
        try:
            return self.relation(key), key
        finally:
            self._reading.discard(key)

    def _row_type(self, key: Key) -> RowType:
        """Return the columns of a relation or foreign table."""
        found = self._catalog.objects[key]
        if isinstance(found, TableDefinition) and found.kind is ObjectKind.FOREIGN_TABLE:
            return found.row_type
        return self.shown(key).row_type

    # ---------------------------------------------------------------- queries

    def _query(self, query: QuerySyntax, at: _Reading) -> QueryShape:
        return self._shapes(query, at, make=lambda: self._shape(query, at))

    def _shape(self, query: QuerySyntax, at: _Reading) -> QueryShape:
        if isinstance(query, With):
            return self._query(query.body, self._with_tables(query, at))
        if isinstance(query, ValuesSyntax):
            return table_of(query)
        if isinstance(query, UnionAll):
            return self._union(query, at)
        if isinstance(query, RowsOfFunction):
            cursor = self._query(query.query, at)
            return rows_of_function(query, cursor, at.relation, self._retention(at.reader))
        if isinstance(query, SetOperation):
            sides = [self._query(each, at) for each in (query.left, query.right)]
            aligned = align(sides, query.operation)[0]
            if aligned[0].changelog:
                return combined_changes(query, aligned, at.relation, self._retention(at.reader))
            return combined(query, aligned, at.relation)
        return self._select(query, at)

    def _select(self, query: Select, at: _Reading, *, lists: bool = False) -> QueryShape:
        if holds_query(query.having):
            return self._select(groups_in_from(query, self._from_planner(at).scope_of), at, lists=lists)
        try:
            return self._listed(query, at, lists=lists)
        except UnknownColumn as error:
            raise named_in_list(query, error) from error

    def _listed(self, query: Select, at: _Reading, *, lists: bool) -> QueryShape:
        select = with_qualify(query, lambda inner: inner.emit is not None or self._reads_changes(inner, at))
        filtered = self._filtered(select.source, select.where, at, make=lambda: self._where(select, at))
        select, read = copy(filtered.rest).listed(replace(select, where=filtered.where))
        retention = self._retention(at.reader)
        return SelectPlanner(at.relation, select, read, self._max_ahead_ms, retention, lists=lists).plan()

    def _where(self, query: Select, at: _Reading) -> Filtered:
        """Plan FROM and WHERE of a query."""
        query = with_joined_where(query, self._from_planner(at).scope_of)
        from_planner, read = self._from(query.source, at)
        return self._subqueries(at, copy(from_planner), read).filtered(query.where, query.place)

    def _from(self, source: FromItem, at: _Reading) -> tuple[FromPlanner, PlannedFrom]:
        """Plan FROM; also return its planner, which has the used names."""

        def planned() -> tuple[FromPlanner, PlannedFrom]:
            planner = self._from_planner(at)
            return planner, planner.plan(source)

        return self._reads(source, at, make=planned)

    def _reads_changes(self, query: Select, at: _Reading) -> bool:
        """Return whether a query reads changes. Its planning reports errors."""
        try:
            return self._from(query.source, at)[1].changelog
        except StatementError:
            return False

    def _from_planner(self, at: _Reading) -> FromPlanner:
        return FromPlanner(
            at.relation,
            lambda ref: self._read(ref, at),
            lambda inner: self._derived(inner, at),
            self._retention(at.reader),
            lambda planner, condition, read, filters, guards: self._subqueries(at, planner, read).condition(
                condition, filters=filters, guards=guards
            ),
        )

    def _subqueries(self, at: _Reading, from_planner: FromPlanner, read: PlannedFrom) -> SubqueryPlanner:
        return SubqueryPlanner(
            at.relation,
            from_planner,
            read,
            lambda inner: self._query(inner, at),
            lambda source: self._from(source, at)[1],
        )

    def _retention(self, reader: Key | None) -> Retention | None:
        """Return the RETENTION of a view or pump."""
        found = None if reader is None else self._catalog.objects[reader]
        return found.retention if isinstance(found, ViewDefinition | PumpDefinition) else None

    def _derived(self, query: QuerySyntax, at: _Reading, columns: Sequence[Name] = ()) -> Planned:
        shape = renamed(self._query(query, at), columns, "the WITH")
        return Planned(projected(shape, at.relation), shape.changelog)

    def _with_tables(self, query: With, at: _Reading) -> _Reading:
        """Plan the queries of a WITH, each once; each sees those before it."""
        named: dict[str, Planned] = {}
        for each in query.tables:
            name = each.name.text
            if name in named:
                raise StatementError(f'query "{name}" is defined twice in WITH', span=each.name.place)
            named[name] = self._derived(each.query, at, each.columns)
            at = replace(at, tables={**at.tables, name: named[name]})
        return at

    def _union(self, union: UnionAll, at: _Reading) -> QueryShape:
        """Merge the branches of UNION ALL in their order; the names are those of the first branch."""
        relation = at.relation
        shapes = [self._query(each, at) for each in branches(union)]
        aligned, columns = align(shapes, "UNION ALL")
        sources = [projected(shape, relation) for shape in aligned]
        changelog = aligned[0].changelog
        node: Node = Merge(relation, tuple(sources), of_changes=changelog)
        if changelog and union.order_by:
            raise StatementError(
                "ORDER BY of a UNION ALL of tables is not supported yet", span=union.order_by[0].place
            )
        for item in union.order_by:
            node = ordered_union(node, relation, item)
        fields = [
            SelectOutput(field.name, FieldRef(index, field.type), field.nullable, column[0].place)
            for index, (field, column) in enumerate(zip(node.row_type, columns, strict=True))
        ]
        outputs: list[SelectOutput] = list(fields)
        for position, output in enumerate(shapes[0].outputs):
            if output.is_rowtime:
                outputs.insert(position, replace(output, expr=RowtimeRef()))
        return QueryShape(node, tuple(outputs), changelog, place=union.place)

    # ------------------------------------------------------------------ pumps

    def _pump(self, key: Key, pump: PumpDefinition) -> PlannedPump:
        name = relation_name(key)
        target_key, target = self._catalog.find(pump.target, "stream or table", schema=pump.schema)
        shown = relation_name(target_key)
        if not isinstance(target, StreamDefinition | TableDefinition):
            raise StatementError(
                f'{target.kind.value} "{shown}" cannot be written to', span=pump.target.place
            )
        if isinstance(target, TableDefinition) and target.source is not None:
            raise filled_by_a_topic(shown, pump.target.place)
        if isinstance(pump.query, ValuesSyntax):
            raise StatementError(
                "a pump cannot insert VALUES",
                span=pump.query.place,
                hint=f"Write INSERT INTO {shown} VALUES (..) without a pump.",
            )
        shape = self._query(pump.query, _Reading(name, pump.schema, key))
        node = _stored(shape, name, pump.columns, target, shown, self._max_ahead_ms)
        if shape.changelog:
            _check_changelog(node, target, shown, pump.target.place)
        return PlannedPump(target_key, node, shape.changelog, pump.target.place)


def _stored(
    shape: QueryShape,
    relation: str,
    columns: Sequence[Name],
    definition: StreamDefinition | TableDefinition,
    target: str,
    max_ahead_ms: Mapping[str, int],
) -> Node:
    """Return ``shape`` as rows of its target: by position, cast to the columns' types.

    The value for ROWTIME in ``columns`` is promoted, unless it is the query's own.

    Raises:
      StatementError: the numbers of values and columns differ, or a value does not fit.
    """
    outputs, row_type = shape.outputs, definition.row_type
    if not columns:
        if len(shape.fields) == len(row_type) or len(outputs) != len(row_type):
            outputs = shape.fields
        positions: list[int | None] = list(range(len(row_type)))
    else:
        distinct_names(columns)
        takes_rowtime = definition.kind is not ObjectKind.FOREIGN_TABLE
        positions = [
            None if takes_rowtime and name.text == ROWTIME else column_index(row_type, name, target)
            for name in columns
        ]
        if len(outputs) > len(positions) and len(shape.fields) == len(positions):
            outputs = shape.fields
    node = shape.node
    named = next((each for each, at in zip(outputs, positions, strict=False) if at is None), None)
    if named is not None and not is_plain_rowtime(named.expr) and len(outputs) == len(positions):
        if shape.changelog:
            raise StatementError(
                "a column of a changelog cannot be promoted to ROWTIME: a change has the ROWTIME of the row "
                "that caused it",
                span=named.place,
            )
        check_rowtime_type(named.expr, named.place)
        node, outputs = promoted(relation, node, outputs, named.expr, max_ahead_ms)
    if len(outputs) != len(positions):
        raise StatementError(
            f'the query returns {len(outputs)} columns, "{target}" takes {len(positions)}',
            span=shape.place,
        )
    values: dict[int, Expr] = {}
    defaults = dict(definition.defaults)
    for output, position in zip(outputs, positions, strict=True):
        if position is not None:
            column = row_type[position]
            values[position] = assign(
                output.expr, column.type, f'column "{column.name}" of "{target}"', output.place
            )
    for position, column in enumerate(row_type):
        if position not in values:
            if not column.nullable and position not in defaults:
                raise StatementError(
                    f'column "{column.name}" of "{target}" is NOT NULL and has no value',
                    span=shape.place,
                )
            values[position] = Literal(defaults.get(position), column.type)
    expressions = tuple(values[position] for position in range(len(row_type)))
    stored = project(relation, node, expressions, _judged_by_pump(definition))
    # An engine table and a stream check their rows themselves.
    outside = definition.kind in (ObjectKind.FOREIGN_TABLE, ObjectKind.FOREIGN_STREAM)
    return checked(stored, target, definition.checks) if outside else stored


def _judged_by_pump(definition: StreamDefinition | TableDefinition) -> RowType:
    """Return the row type of a pump: NOT NULL if nothing after the pump checks it.

    A foreign table checks its own rows, and an engine table those without a key.
    """
    if isinstance(definition, StreamDefinition):
        return definition.row_type
    own = definition.server is not None
    return RowType(
        tuple(
            replace(field, nullable=field.nullable or own or index in definition.key)
            for index, field in enumerate(definition.row_type)
        )
    )


def _check_changelog(
    node: Node, target: StreamDefinition | TableDefinition, shown: str, span: SourceSpan
) -> None:
    """Check that a table's changes can be applied to the target: each change to its row.

    Raises:
      StatementError: the target keeps no rows, or its key does not distinguish those of the table.
    """
    what = f'{target.kind.value} "{shown}"'
    fields = node.key_fields()
    if isinstance(target, StreamDefinition):
        if target.server is None or not takes_changes(target.options):
            hint = "A stream cannot delete rows: write to a table with a PRIMARY KEY"
            if target.server is not None:
                hint += f", or add {CHANGES} '{UPSERT}' and key 'column' to its OPTIONS"
            raise StatementError(
                f"the changes of a table cannot be written to {what}", span=span, hint=f"{hint}."
            )
        if fields is None or not set(fields) <= set(upsert_key(target.row_type, target.options)):
            raise StatementError(
                f"the key of {what} does not contain the key of the changes that are written",
                span=span,
                hint="Otherwise two rows would have one key. Add the columns to the option key.",
            )
        return
    if not target.key:
        raise StatementError(
            f"the changes of a table cannot be written to {what} without PRIMARY KEY",
            span=span,
            hint="Add a PRIMARY KEY: it identifies the row that a change replaces.",
        )
    if fields is None or not set(fields) <= set(target.key):
        raise StatementError(
            f"the PRIMARY KEY of {what} does not contain the key of the changes that are written",
            span=span,
            hint="Otherwise two rows could become one row of the target. Add the key's columns to the PRIMARY KEY.",
        )


def _committed(name: str, table: TableDefinition) -> Planned:
    """Return the committed rows of a foreign table."""
    fields = tuple(replace(field, nullable=True) for field in table.row_type)
    return Planned(CommittedTable(name, RowType(fields), loaded_once=True), changelog=True)


@contextmanager
def written_in(origin: Origin) -> Iterator[None]:
    """Add the text and file of their definition to errors in this block."""
    try:
        yield
    except StatementError as error:
        if error.text is None:
            error.text, error.file = origin.text, origin.file
            error.place = error.place or origin.place
        raise
