"""The catalog: schemas and objects by name, defined by the statements so far. Values never change in place.

A definition keeps its query as syntax, with the schema that was set at that time.
The planner resolves the query again for every plan, so a replaced relation reaches
all its readers. ``place`` is the place of the statement.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from rowtide.errors import SourceSpan, StatementError
from rowtide.plan.nodes import ModelPort
from rowtide.plan.plan import ColumnOptions, Server
from rowtide.plan.pseudo import PSEUDO_COLUMNS, WITH_PSEUDO_COLUMNS
from rowtide.rows.rowop import Row
from rowtide.rows.types import RowType
from rowtide.sql.grammar.statements import CheckDefinition, CreateFunction, ObjectKind
from rowtide.sql.grammar.suggestions import did_you_mean
from rowtide.sql.grammar.syntax import DeclaredFunction, Name, QualifiedName, QuerySyntax

DEFAULT_SCHEMA = "PUBLIC"
SYSTEM_SCHEMA = "SYS"
INFORMATION_SCHEMA = "INFORMATION_SCHEMA"
SYSTEM_SCHEMAS = (SYSTEM_SCHEMA, INFORMATION_SCHEMA)
"""The schemas of the system's tables; statements cannot create objects in them."""

Key = tuple[str, str]
"""Schema and name, folded."""


@dataclass(frozen=True, slots=True)
class Origin:
    """The place of a definition, for errors that are found later."""

    text: str
    file: str | None
    place: SourceSpan


def folder_of(file: str | None) -> str:
    """Return the folder of a pipeline's file; without a file, the working folder of the process."""
    return (file or "").rpartition("/")[0] or "."


@dataclass(frozen=True, slots=True)
class StreamDefinition:
    """A stream or, with ``server``, a foreign stream."""

    row_type: RowType
    origin: Origin
    server: str | None = None
    options: tuple[tuple[str, str], ...] = ()
    max_ahead_ms: int | None = None
    model: str | None = None
    """The model whose input it is."""
    defaults: tuple[tuple[int, object], ...] = ()
    checks: tuple[CheckDefinition, ...] = ()
    column_options: ColumnOptions = ()

    @property
    def kind(self) -> ObjectKind:
        """Stream or foreign stream."""
        return ObjectKind.STREAM if self.server is None else ObjectKind.FOREIGN_STREAM


@dataclass(frozen=True, slots=True)
class Wrapper:
    """A foreign data wrapper: its connector, and the initial options of its servers."""

    library: str
    options: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class SecondaryIndex:
    """A secondary index of an engine table. If it is ``unique``, no two rows have equal ``columns``."""

    name: str
    columns: tuple[int, ...]
    unique: bool = False


@dataclass(frozen=True, slots=True)
class ForeignKeyTo:
    """A FOREIGN KEY of a foreign table: ``columns`` hold the PRIMARY KEY of another one (``table``), or of its own."""

    columns: tuple[int, ...]
    table: Key


@dataclass(frozen=True, slots=True)
class TableDefinition:
    """An engine table or, with ``server``, a foreign table. ``rows`` are those of INSERT statements.

    ``source`` is the server whose topic fills an engine table.

    ``defaults`` are the fields that have a default, each with its value. Only a foreign table has ``foreign_keys``.
    """

    row_type: RowType
    key: tuple[int, ...]
    origin: Origin
    server: str | None = None
    options: tuple[tuple[str, str], ...] = ()
    rows: tuple[Row, ...] = ()
    indexes: tuple[SecondaryIndex, ...] = ()
    defaults: tuple[tuple[int, object], ...] = ()
    checks: tuple[CheckDefinition, ...] = ()
    source: str | None = None
    column_options: ColumnOptions = ()
    foreign_keys: tuple[ForeignKeyTo, ...] = ()

    @property
    def kind(self) -> ObjectKind:
        """Table or foreign table."""
        return ObjectKind.TABLE if self.server is None else ObjectKind.FOREIGN_TABLE


@dataclass(frozen=True, slots=True)
class Retention:
    """OPTIONS (RETENTION '..') of a view or pump: how long unlimited state is kept; None is forever."""

    length_ms: int | None


@dataclass(frozen=True, slots=True)
class ViewDefinition:
    """A view: its query, and the names of its columns if the definition has them.

    ``pseudo`` are the pseudo-columns that its query names.
    """

    query: QuerySyntax
    columns: tuple[Name, ...]
    schema: str
    origin: Origin
    pseudo: frozenset[str] = frozenset()
    retention: Retention | None = None
    kind: ObjectKind = ObjectKind.VIEW


@dataclass(frozen=True, slots=True)
class PumpDefinition:
    """A pump: its query and its target."""

    query: QuerySyntax
    target: QualifiedName
    columns: tuple[Name, ...]
    schema: str
    started: bool
    origin: Origin
    pseudo: frozenset[str] = frozenset()
    retention: Retention | None = None
    kind: ObjectKind = ObjectKind.PUMP


@dataclass(frozen=True, slots=True)
class ModelDefinition:
    """A model, wired by its class; its ports are objects in the schema with its name.

    ``code`` is a digest of its text; ``folder`` is the folder of the pipeline's file, searched for its module.
    """

    path: str
    options: tuple[tuple[str, str], ...]
    accepts: tuple[ModelPort, ...]
    gives: tuple[ModelPort, ...]
    origin: Origin
    code: str
    folder: str


@dataclass(frozen=True, slots=True)
class ModelOutputDefinition:
    """Output ``number`` of a model: a stream, or with ``changes`` a table with key ``key``."""

    model: str
    number: int
    row_type: RowType
    changes: bool
    key: tuple[int, ...]
    origin: Origin

    @property
    def kind(self) -> ObjectKind:
        """Model output or model table."""
        return ObjectKind.MODEL_TABLE if self.changes else ObjectKind.MODEL_OUTPUT


ObjectDefinition = (
    StreamDefinition | TableDefinition | ViewDefinition | PumpDefinition | ModelOutputDefinition
)


@dataclass(frozen=True, slots=True)
class FunctionDefinition:
    """A function of CREATE FUNCTION, and its statement."""

    declared: DeclaredFunction
    statement: CreateFunction
    origin: Origin


def _is_same(here: object, there: object) -> bool:
    """Return whether a definition is unchanged, apart from the rows of a table."""
    if here is there:
        return True
    if not (isinstance(here, TableDefinition) and isinstance(there, TableDefinition)):
        return False
    return replace(here, rows=()) == replace(there, rows=())


@dataclass(frozen=True, slots=True)
class Catalog:
    """All definitions, in the order of their creation."""

    schemas: tuple[str, ...] = (DEFAULT_SCHEMA,)
    current: str = DEFAULT_SCHEMA
    servers: Mapping[str, Server] = field(default_factory=dict)
    wrappers: Mapping[str, Wrapper] = field(default_factory=dict)
    pseudo: frozenset[str] = frozenset()
    """Pseudo-columns that foreign streams carry besides those that queries name."""
    reads_committed: bool = False
    """Whether queries of a prompt can read foreign tables: who runs them inserts the committed rows."""
    models: Mapping[str, ModelDefinition] = field(default_factory=dict)
    objects: Mapping[Key, ObjectDefinition] = field(default_factory=dict)
    functions: Mapping[str, FunctionDefinition] = field(default_factory=dict)

    @property
    def declared(self) -> Mapping[str, DeclaredFunction]:
        """The functions of CREATE FUNCTION, by name."""
        return {name: function.declared for name, function in self.functions.items()}

    def key(self, name: QualifiedName, *, schema: str | None = None) -> Key:
        """Return schema and name of ``name``, resolved in ``schema`` (default: the current one).

        Raises:
          StatementError: the schema does not exist.
        """
        if len(name.parts) == 1:
            return schema or self.current, name.parts[0].text
        written = name.parts[0].text
        if written not in self.schemas and written not in self.models and written not in SYSTEM_SCHEMAS:
            raise StatementError(
                f'schema "{written}" does not exist',
                span=name.parts[0].place,
                hint=did_you_mean(written, [*self.schemas, *self.models])
                or f"Create it with CREATE SCHEMA {_part(written)};.",
            )
        return written, name.parts[1].text

    def find(
        self, name: QualifiedName, what: str, *, schema: str | None = None, near: tuple[str, ...] = ()
    ) -> tuple[Key, ObjectDefinition]:
        """Return the definition of ``name``; ``what`` is its kind, for messages.

        ``near`` are further names for the hint.

        Raises:
          StatementError: it does not exist; the hint proposes a name.
        """
        key = self.key(name, schema=schema)
        found = self.objects.get(key)
        if found is not None:
            return key, found
        if key[0] in SYSTEM_SCHEMAS:
            raise StatementError(
                f'"{relation_name(key)}" is not a relation of the pipeline',
                span=name.place,
                hint="rowtide sql pipeline.sql -e 'SELECT * FROM SYS.ERRORS' reads what it has committed."
                if key[1] == "ERRORS"
                else None,
            )
        elsewhere = [relation_name(other) for other in self.objects if other[1] == key[1]]
        if elsewhere:
            hint = f"There is one in another schema: {', '.join(sorted(elsewhere))}."
            if key[0] == DEFAULT_SCHEMA and len(name.parts) == 1:
                hint += " SET SCHEMA says which schema names without one mean."
        else:
            hint = (
                did_you_mean(key[1], [*near, *(other[1] for other in self.objects if other[0] == key[0])])
                or ""
            )
        raise StatementError(
            f'{what} "{relation_name(key)}" does not exist', span=name.place, hint=hint or None
        )

    def find_of(self, name: QualifiedName, kind: ObjectKind) -> tuple[Key, ObjectDefinition]:
        """Return the definition of ``name`` of kind ``kind``.

        Raises:
          StatementError: it does not exist, or is of another kind.
        """
        key, found = self.find(name, kind.value)
        if found.kind is not kind:
            raise StatementError(
                f'"{relation_name(key)}" is a {found.kind.value}, not a {kind.value}', span=name.place
            )
        return key, found

    def define(self, key: Key, definition: ObjectDefinition) -> Catalog:
        """Return a catalog with ``definition`` under ``key``. A replaced definition keeps its place in the order."""
        return replace(self, objects={**self.objects, key: definition})

    def without(self, key: Key) -> Catalog:
        """Return a catalog without ``key``."""
        return replace(self, objects={other: found for other, found in self.objects.items() if other != key})

    def pseudo_columns(self, key: Key, further: frozenset[str] = frozenset()) -> tuple[str, ...]:
        """Return the pseudo-columns that the rows of a stream carry: those that any query names.

        ``further`` are the names in one more query. A column of the stream hides a pseudo-column.
        """
        stream = self.objects[key]
        if not isinstance(stream, StreamDefinition) or stream.server is None:
            return ()
        if self.servers[stream.server].wrapper not in WITH_PSEUDO_COLUMNS:
            return ()
        named = further | self.named_pseudo()
        if not named or key in self.written_streams():
            return ()
        return tuple(name for name in PSEUDO_COLUMNS if name in named and name not in stream.row_type.names)

    def named_pseudo(self) -> frozenset[str]:
        """Return the pseudo-columns that any query names."""
        given = self.objects.values()
        queries = (each for each in given if isinstance(each, ViewDefinition | PumpDefinition))
        return self.pseudo.union(*(query.pseudo for query in queries))

    def written_streams(self) -> frozenset[Key]:
        """Return the foreign streams that pumps write to. Their rows are those of the pumps."""
        return frozenset(
            key
            for key in (self._target(pump) for _, pump in self.pumps())
            if isinstance(found := self.objects.get(key), StreamDefinition) and found.server is not None
        )

    def _target(self, pump: PumpDefinition) -> Key:
        *schema, name = (part.text for part in pump.target.parts)
        return (schema[0] if schema else pump.schema), name

    def holds(self, other: Catalog) -> bool:
        """Return whether this catalog has everything in ``other`` unchanged, without further pseudo-columns."""
        return (
            all(_is_same(self.objects.get(key), found) for key, found in other.objects.items())
            and all(self.servers.get(name) is server for name, server in other.servers.items())
            and all(self.models.get(name) is model for name, model in other.models.items())
            and self.named_pseudo() == other.named_pseudo()
            and self.written_streams() == other.written_streams()
        )

    def pumps(self) -> Iterator[tuple[Key, PumpDefinition]]:
        """Return the pumps in the order of their creation."""
        return ((key, found) for key, found in self.objects.items() if isinstance(found, PumpDefinition))


def relation_name(key: Key) -> str:
    """Return the catalog name for error rows and steps: with schema unless it is the default one."""
    schema, name = (_part(part) for part in key)
    return name if key[0] == DEFAULT_SCHEMA else f"{schema}.{name}"


def _part(name: str) -> str:
    """Quote a part of a name that has a dot or a quote."""
    return '"' + name.replace('"', '""') + '"' if "." in name or '"' in name else name
