"""The plan of a whole pipeline, which the SQL layer passes to the runners."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from rowtide.errors import SourceSpan
from rowtide.plan.nodes import Node
from rowtide.plan.pseudo import with_pseudo_columns
from rowtide.rows.types import Field, Kind, RowType, Type


@dataclass(frozen=True, slots=True)
class Server:
    """CREATE SERVER: a wrapper with its options. Names are folded to lower case, except quoted ones."""

    name: str
    wrapper: str
    options: tuple[tuple[str, str], ...]


ColumnOptions = tuple[tuple[str, tuple[tuple[str, str], ...]], ...]
"""Options of columns, by the column's name; columns without options are left out."""


POLLED_WRAPPERS = frozenset({"RDBMS"})
"""Wrappers of the servers whose tables are polled: they have tables, and no topics."""

PATCHING_FORMATS = ("DEBEZIUM_JSON", "DEBEZIUM_AVRO")
"""Formats whose messages may leave columns of a row unchanged."""
KEPT = Field("$KEPT", Type(Kind.VARCHAR))
"""After the columns of such a row: the numbers of the unchanged columns, separated by commas."""


def is_patching(options: tuple[tuple[str, str], ...]) -> bool:
    """Return whether the format that options name is one of ``PATCHING_FORMATS``."""
    return dict(options).get("format", "").upper() in PATCHING_FORMATS


def changes_type(row_type: RowType, key: tuple[int, ...], *, patched: bool) -> RowType:
    """Return the row type of the changes of a table: a DELETE has the key only.

    ``patched``: after the columns come ``KEPT`` and ``columns_before``.
    """
    fields = [replace(field, nullable=at not in key) for at, field in enumerate(row_type)]
    return RowType((*fields, KEPT, *columns_before(row_type)) if patched else tuple(fields))


def columns_before(row_type: RowType) -> RowType:
    """Return the columns of the row before a change that moves it to another key; of other changes they are NULL."""
    return RowType(tuple(replace(field, name=f"$BEFORE.{field.name}", nullable=True) for field in row_type))


@dataclass(frozen=True, slots=True)
class ForeignStream:
    """CREATE FOREIGN STREAM: a relation with rows of a connector; also the source of a table with SERVER.

    ``row_type`` holds the columns that are decoded, ``pseudo`` names the pseudo-columns that queries read.
    """

    name: str
    row_type: RowType
    server: str
    options: tuple[tuple[str, str], ...]
    pseudo: tuple[str, ...] = ()
    column_options: ColumnOptions = ()
    key: tuple[int, ...] = ()
    """The PRIMARY KEY of the table that it fills; empty for a stream."""

    @property
    def is_patched(self) -> bool:
        """Whether its messages may leave columns of a row unchanged."""
        return bool(self.key) and is_patching(self.options)

    @property
    def source_type(self) -> RowType:
        """The row type of its source: the columns, and after them the pseudo-columns."""
        if self.key:
            return changes_type(self.row_type, self.key, patched=self.is_patched)
        return with_pseudo_columns(self.row_type, self.pseudo)


@dataclass(frozen=True, slots=True)
class ForeignKey:
    """FOREIGN KEY of a foreign table: ``fields`` hold the PRIMARY KEY of a row of foreign table ``table``."""

    fields: tuple[int, ...]
    table: str


@dataclass(frozen=True, slots=True)
class ForeignTable:
    """CREATE FOREIGN TABLE: a table of a database that pumps write to. ``key``: its PRIMARY KEY."""

    name: str
    row_type: RowType
    key: tuple[int, ...]
    server: str
    options: tuple[tuple[str, str], ...]
    foreign_keys: tuple[ForeignKey, ...] = ()


@dataclass(frozen=True, slots=True)
class Pump:
    """CREATE PUMP into a foreign table or a foreign stream: the rows of ``node`` are written there.

    ``node`` has exactly the target's fields in order. Pumps into streams and engine tables are
    part of those relations' nodes and are not in this list. ``rowtime_field`` is the field of the
    target that ROWTIME or the group's period feeds, if any: ``replay --from --to`` compares by it
    (docs/sql/semantics.md#replay).
    """

    name: str
    target: str
    node: Node
    rowtime_field: int | None = None


@dataclass(frozen=True, slots=True)
class Notice:
    """A warning of ``check``, which does not stop a pipeline."""

    relation: str
    message: str


@dataclass(frozen=True, slots=True)
class Definition:
    """A relation or pump as it was defined: its kind, the text of its statement without secrets, and its columns.

    ``key`` are the fields of its PRIMARY KEY; empty: none, or they are unknown. ``reads`` are the relations that its
    query names, and the pumps that write to it. ``query`` is SQL text that reads all its rows; None: it has none.
    """

    name: str
    kind: str
    text: str
    place: SourceSpan
    row_type: RowType
    key: tuple[int, ...] = ()
    reads: tuple[str, ...] = ()
    query: str | None = None


@dataclass(frozen=True, slots=True)
class Plan:
    """The content of a pipeline file, resolved and typed, as pure values.

    ``foreign_streams`` are read, ``written_streams`` are the foreign streams that pumps write to.
    ``relations`` are all named relations that rows can be read from (streams, foreign streams,
    views, engine tables) with their nodes: the scenario kit and ``rowtide sql`` read any of them.
    Sorts and merges are where order is first needed (``plan.order``). ``streams`` names those of CREATE
    STREAM: their producers may come and go. ``definitions`` are those of all relations and pumps, to show.
    """

    servers: tuple[Server, ...]
    foreign_streams: tuple[ForeignStream, ...]
    foreign_tables: tuple[ForeignTable, ...]
    relations: tuple[tuple[str, Node], ...]
    pumps: tuple[Pump, ...]
    notices: tuple[Notice, ...] = ()
    streams: tuple[str, ...] = ()
    written_streams: tuple[ForeignStream, ...] = ()
    definitions: tuple[Definition, ...] = field(default=(), compare=False)

    @property
    def targets(self) -> tuple[ForeignTable | ForeignStream, ...]:
        """The foreign tables, and the foreign streams that pumps write to."""
        return (*self.foreign_tables, *self.written_streams)
