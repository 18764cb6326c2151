"""The statements that define a pipeline, as syntax; frozen, each with its places in the text."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

from rowtide.errors import SourceSpan
from rowtide.rows.types import Type
from rowtide.sql.grammar.syntax import NOWHERE, Expression, Name, QualifiedName, QuerySyntax


class OptionChange(Enum):
    """The changes of one option by ALTER."""

    ADD = "ADD"
    SET = "SET"
    DROP = "DROP"


class ObjectKind(Enum):
    """The kinds of objects that statements create and drop; the value is the kind in messages."""

    SCHEMA = "schema"
    WRAPPER = "foreign data wrapper"
    SERVER = "server"
    FOREIGN_STREAM = "foreign stream"
    STREAM = "stream"
    FOREIGN_TABLE = "foreign table"
    TABLE = "table"
    VIEW = "view"
    PUMP = "pump"
    INDEX = "index"
    MODEL = "model"
    FUNCTION = "function"
    MODEL_OUTPUT = "model output"
    MODEL_TABLE = "model table"


CREATED_KINDS = tuple(
    kind for kind in ObjectKind if kind not in (ObjectKind.MODEL_OUTPUT, ObjectKind.MODEL_TABLE)
)
"""The kinds that have their own CREATE and DROP; the ports of a model do not."""


@dataclass(frozen=True, slots=True)
class OptionItem:
    """``name 'value'``; the name is folded to lower case unless it is quoted."""

    name: str
    value: str
    place: SourceSpan = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class CheckDefinition:
    """``[CONSTRAINT name] CHECK (condition)``."""

    name: Name | None
    condition: Expression
    place: SourceSpan = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class ColumnDefinition:
    """``name type [NOT NULL] [DEFAULT constant] [OPTIONS (option 'value', ...)]``."""

    name: Name
    type: Type
    nullable: bool
    default: Expression | None = None
    options: tuple[OptionItem, ...] = ()


@dataclass(frozen=True, slots=True)
class IndexDefinition:
    """``INDEX [name] (column, ...)`` or ``UNIQUE (column, ...)`` of a table."""

    name: Name | None
    columns: tuple[Name, ...]
    place: SourceSpan = field(default=NOWHERE, compare=False)
    unique: bool = False


@dataclass(frozen=True, slots=True)
class ForeignKeyDefinition:
    """``FOREIGN KEY (column, ...) REFERENCES table [(column, ...)]`` of a foreign table."""

    columns: tuple[Name, ...]
    table: QualifiedName
    referred: tuple[Name, ...] | None
    place: SourceSpan = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class CreateSchema:
    """CREATE [OR REPLACE] SCHEMA."""

    name: QualifiedName
    replace: bool
    place: SourceSpan = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class SetSchema:
    """SET SCHEMA 'name'."""

    name: QualifiedName
    place: SourceSpan = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class CreateWrapper:
    """CREATE [OR REPLACE] FOREIGN DATA WRAPPER: a connector, with options for its servers."""

    name: QualifiedName
    replace: bool
    library: str | None
    options: tuple[OptionItem, ...]
    place: SourceSpan = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class CreateServer:
    """CREATE [OR REPLACE] SERVER."""

    name: QualifiedName
    replace: bool
    wrapper: Name
    options: tuple[OptionItem, ...]
    place: SourceSpan = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class CreateRelation:
    """CREATE [OR REPLACE] [FOREIGN] STREAM or TABLE. ``key`` names the PRIMARY KEY columns.

    A TABLE with ``server`` is an engine table whose rows come from a topic.
    """

    kind: ObjectKind
    name: QualifiedName
    replace: bool
    columns: tuple[ColumnDefinition, ...]
    key: tuple[Name, ...]
    server: QualifiedName | None
    options: tuple[OptionItem, ...]
    place: SourceSpan = field(default=NOWHERE, compare=False)
    indexes: tuple[IndexDefinition, ...] = ()
    checks: tuple[CheckDefinition, ...] = ()
    foreign_keys: tuple[ForeignKeyDefinition, ...] = ()


@dataclass(frozen=True, slots=True)
class CreateAs:
    """CREATE [OR REPLACE] [FOREIGN] STREAM or TABLE name [(names, PRIMARY KEY (..))] [SERVER ..] AS query.

    It creates a relation with the columns of the query, and the pump that fills it. ``options`` are those of the
    foreign relation, ``pump_options`` those of the pump.
    """

    kind: ObjectKind
    name: QualifiedName
    replace: bool
    columns: tuple[Name, ...]
    key: tuple[Name, ...]
    server: QualifiedName | None
    options: tuple[OptionItem, ...]
    query: QuerySyntax
    pump_options: tuple[OptionItem, ...]
    place: SourceSpan = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class CreateIndex:
    """CREATE INDEX name ON table (column, ...)."""

    table: QualifiedName
    index: IndexDefinition
    place: SourceSpan = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class CreateView:
    """CREATE [OR REPLACE] VIEW name [(columns)] AS query; ``alters`` makes it ALTER VIEW."""

    name: QualifiedName
    replace: bool
    columns: tuple[Name, ...]
    query: QuerySyntax
    options: tuple[OptionItem, ...]
    place: SourceSpan = field(default=NOWHERE, compare=False)
    alters: bool = False


@dataclass(frozen=True, slots=True)
class CreatePump:
    """CREATE [OR REPLACE] PUMP name [STARTED | STOPPED] AS INSERT INTO target [(columns)] query."""

    name: QualifiedName
    replace: bool
    started: bool
    target: QualifiedName
    columns: tuple[Name, ...]
    query: QuerySyntax
    options: tuple[OptionItem, ...]
    place: SourceSpan = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class CreateModel:
    """CREATE [OR REPLACE] MODEL name AS 'package.module:Class'. ``path_place`` is the place of the path."""

    name: QualifiedName
    replace: bool
    path: str
    options: tuple[OptionItem, ...]
    path_place: SourceSpan = field(default=NOWHERE, compare=False)
    place: SourceSpan = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class ParameterDefinition:
    """``name type`` of a function."""

    name: Name
    type: Type


@dataclass(frozen=True, slots=True)
class CreateFunction:
    """CREATE [OR REPLACE] FUNCTION name (parameters) RETURNS type .. AS 'module.function' or RETURN expression.

    ``source`` is the path of a function or aggregate in Python, or the expression; ``takes_null`` is None if the
    statement does not say whether the function is called with NULL. A table function ``returns`` columns.
    """

    name: QualifiedName
    replace: bool
    parameters: tuple[ParameterDefinition, ...]
    returns: Type | tuple[ParameterDefinition, ...]
    source: str | Expression
    takes_null: bool | None
    options: tuple[OptionItem, ...]
    source_place: SourceSpan = field(default=NOWHERE, compare=False)
    place: SourceSpan = field(default=NOWHERE, compare=False)
    is_aggregate: bool = False


Created = (
    CreateSchema
    | CreateWrapper
    | CreateServer
    | CreateRelation
    | CreateAs
    | CreateIndex
    | CreateView
    | CreatePump
    | CreateModel
    | CreateFunction
)


@dataclass(frozen=True, slots=True)
class CreateIfMissing:
    """CREATE kind IF NOT EXISTS: without effect if there is an object of this kind and name."""

    statement: Created
    place: SourceSpan = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class InsertValues:
    """INSERT INTO target [(columns)] VALUES (...), (...)."""

    target: QualifiedName
    columns: tuple[Name, ...]
    rows: tuple[tuple[Expression, ...], ...]
    place: SourceSpan = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class Assignment:
    """``column = value`` of SET."""

    column: Name
    value: Expression


@dataclass(frozen=True, slots=True)
class Update:
    """UPDATE table [alias] SET column = value, .. [WHERE condition]."""

    target: QualifiedName
    alias: Name | None
    changes: tuple[Assignment, ...]
    where: Expression | None
    place: SourceSpan = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class Delete:
    """DELETE FROM table [alias] [WHERE condition]."""

    target: QualifiedName
    alias: Name | None
    where: Expression | None
    place: SourceSpan = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class Truncate:
    """TRUNCATE [TABLE] table."""

    target: QualifiedName
    place: SourceSpan = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class MergeBranch:
    """WHEN [NOT] MATCHED [AND condition] THEN action; the action is UPDATE, DELETE, INSERT or NOTHING."""

    matched: bool
    condition: Expression | None
    action: str
    changes: tuple[Assignment, ...] = ()
    columns: tuple[Name, ...] = ()
    values: tuple[Expression, ...] = ()
    place: SourceSpan = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class MergeInto:
    """MERGE INTO table [alias] USING table | (VALUES ..) [alias [(columns)]] ON condition branches."""

    target: QualifiedName
    alias: Name | None
    source: QualifiedName | QuerySyntax
    source_alias: Name | None
    columns: tuple[Name, ...]
    condition: Expression
    branches: tuple[MergeBranch, ...]
    place: SourceSpan = field(default=NOWHERE, compare=False)


RowChange = Update | Delete | Truncate | MergeInto
"""Statements that change the rows of an engine table."""


@dataclass(frozen=True, slots=True)
class AlterPump:
    """ALTER PUMP name, .. START | STOP; with ``every`` all pumps of the schema ``names``, or of the current one."""

    names: tuple[QualifiedName, ...]
    start: bool
    place: SourceSpan = field(default=NOWHERE, compare=False)
    every: bool = False


@dataclass(frozen=True, slots=True)
class Alter:
    """ALTER kind name OPTIONS ([ADD | SET | DROP] name ['value'], ...); without changes, of DESCRIPTION."""

    kind: ObjectKind
    name: QualifiedName
    changes: tuple[tuple[OptionChange, OptionItem], ...]
    place: SourceSpan = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class AddColumn:
    """ALTER kind name ADD [COLUMN] column."""

    kind: ObjectKind
    name: QualifiedName
    column: ColumnDefinition
    place: SourceSpan = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class DropColumn:
    """ALTER kind name DROP [COLUMN] column."""

    kind: ObjectKind
    name: QualifiedName
    column: Name
    place: SourceSpan = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class Rename:
    """ALTER kind name RENAME TO other; with ``column`` RENAME [COLUMN] column TO other."""

    kind: ObjectKind
    name: QualifiedName
    column: Name | None
    to: Name
    place: SourceSpan = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class Drop:
    """DROP kind [IF EXISTS] name [CASCADE]."""

    kind: ObjectKind
    name: QualifiedName
    if_exists: bool
    place: SourceSpan = field(default=NOWHERE, compare=False)
    cascade: bool = False


@dataclass(frozen=True, slots=True)
class Explain:
    """EXPLAIN [PLAN FOR] query: ``rowtide explain`` shows its plan."""

    query: QuerySyntax
    place: SourceSpan = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class Show:
    """SHOW TABLES | STREAMS | .. [IN schema] [LIKE 'pattern']: only for a prompt."""

    what: str
    schema: Name | None
    pattern: str | None
    place: SourceSpan = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class Describe:
    """DESCRIBE relation: its columns; only for a prompt."""

    name: QualifiedName
    place: SourceSpan = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class Print:
    """PRINT relation: the messages of a foreign stream's topic, on a service the last rows; only for a prompt."""

    name: QualifiedName
    place: SourceSpan = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class QueryStatement:
    """A query by itself: only for a prompt."""

    query: QuerySyntax
    place: SourceSpan = field(default=NOWHERE, compare=False)


Statement = (
    Created
    | CreateIfMissing
    | SetSchema
    | CreateWrapper
    | CreateServer
    | CreateRelation
    | CreateIndex
    | CreateView
    | CreatePump
    | CreateModel
    | CreateFunction
    | InsertValues
    | RowChange
    | AlterPump
    | Alter
    | AddColumn
    | DropColumn
    | Rename
    | Drop
    | Explain
    | Show
    | Describe
    | Print
    | QueryStatement
)
