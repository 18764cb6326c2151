"""A table or view of a database that is read again and again.

A read is one transaction that changes nothing and sees one state of the database. Rows come in the order
of the declared key, through a cursor on the server's side where the driver has one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy import exc

from rowtide_connectors.api import TargetTable
from rowtide_connectors.errors import DeniedError, GoneError, MismatchError, OptionError
from rowtide_connectors.options import suggestion
from rowtide_connectors.rdbms.failures import database_errors, label_of
from rowtide_connectors.rdbms.reading.fit import misfit
from rowtide_connectors.rdbms.reading.progress import ORDERED, ORDERED_IN_SQLITE, begin_after, reached_of
from rowtide_connectors.rdbms.reading.values import plain_value
from rowtide_connectors.rdbms.table import PhysicalTable, physical

CHUNK_ROWS = 2_000
"""Rows in memory at once. Also the rows of one look-up in the checkpoint, within every database's limit."""

_READ_HINT = "GRANT SELECT on it (and USAGE on its schema) to the user of the server."
_NATIVE = (sa.Boolean, sa.Integer, sa.Numeric, sa.Float, sa.LargeBinary)
"""Types that PostgreSQL's driver returns as they are. Other values are read as PostgreSQL's own text,
since Python has no infinite times, and loses digits of JSON numbers."""


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """How a table is read: the column that orders changes, and how far before its greatest value to begin."""

    changes_by: str | None
    lookback: int
    connect_timeout_s: int


@dataclass(frozen=True, slots=True)
class _Found:
    """A table in the database: its columns as declared, and the one that orders changes."""

    table: PhysicalTable
    types: Mapping[str, sa.types.TypeEngine[Any]]
    changes_by: str | None
    changes_may_be_null: bool


class SqlPolledTable:
    """A table to poll; see ``api.PolledTable``. Used by one thread at a time."""

    def __init__(self, address: sa.URL, table: TargetTable, options: ReadOptions) -> None:
        self._table = physical(table)
        self._options = options
        self._label = label_of(address)
        self.name = self._table.label
        self._kind = address.get_backend_name()
        try:
            self._engine = _engine(address, options.connect_timeout_s)
        except (exc.ArgumentError, ImportError) as error:
            raise OptionError(f"{self._label} cannot be opened: {error}") from error

    def check(self) -> str | None:
        """Check columns, types and rights; see ``api.PolledTable``."""
        with self._reading() as connection:
            found = self._find(connection)
            connection.execute(self._rows(found, None).limit(1)).all()
            return self._remark(connection, found)

    @contextmanager
    def read(self, since: str | None) -> Iterator[SqlTableRead]:
        """Open a consistent read; see ``api.PolledTable``."""
        with self._reading() as connection:
            found = self._find(connection)
            reached = self._reached(connection, found)
            begin: object = None
            if since is not None and found.changes_by is not None:
                begin = begin_after(
                    found.changes_by, since, self._options.lookback, text=self._kind == "sqlite"
                )
            plain = [plain_value(column.type) for column in found.table.columns]
            query = self._rows(found, begin)
            yield SqlTableRead(connection, self._label, query, plain, reached or since)

    def close(self) -> None:
        """Close the connections."""
        self._engine.dispose()

    @contextmanager
    def _reading(self) -> Iterator[sa.Connection]:
        try:
            with database_errors(self._label), self._engine.connect() as connection:
                if self._kind == "postgresql":
                    connection.exec_driver_sql("set local datestyle = 'ISO, YMD'")
                yield connection
                connection.rollback()
        except DeniedError as error:
            if "permission denied for" in error.message:
                raise DeniedError(error.message, hint=_READ_HINT) from error
            raise

    def _find(self, connection: sa.Connection) -> _Found:
        """Look the table up, and match its columns with the declared ones.

        Raises:
          GoneError, MismatchError.
        """
        looking = sa.inspect(connection)
        schema, name = self._table.schema, self._table.name
        try:
            columns = {column["name"]: column for column in looking.get_columns(name, schema=schema)}
        except exc.NoSuchTableError:
            columns = {}
        if not columns:
            raise GoneError(
                f'table "{self.name}" does not exist in {self._label}',
                hint=suggestion(name, _names(looking, schema))
                + " Name the table, with its schema before a dot, in table_name.",
            )
        matched: dict[str, str] = {}
        differences = []
        for declared in self._table.columns:
            there = _matching(declared.name, columns)
            if there is None:
                near = suggestion(declared.name, columns)
                differences.append(f'column "{declared.name}" is missing ({near.rstrip(".")})')
                continue
            matched[declared.sql_name] = there
            kind = columns[there]["type"]
            wrong = misfit(there, kind, _shown(kind, connection), declared.type)
            if wrong is not None:
                differences.append(wrong)
        if differences:
            raise MismatchError(
                f'table "{self.name}" does not fit: {"; ".join(differences)}',
                hint="Change the CREATE TABLE, or read a view of the table.",
            )
        changes_by = self._changes_by(columns, connection)
        return _Found(
            self._table.found({name: (there, None) for name, there in matched.items()}),
            {name: column["type"] for name, column in columns.items()},
            changes_by,
            changes_by is not None and bool(columns[changes_by]["nullable"]),
        )

    def _changes_by(self, columns: Mapping[str, Any], connection: sa.Connection) -> str | None:
        if self._options.changes_by is None:
            return None
        found = _matching(self._options.changes_by, columns)
        if found is None:
            raise MismatchError(
                f'column "{self._options.changes_by}" of option "changes_by" does not exist in table '
                f'"{self.name}"',
                hint=suggestion(self._options.changes_by, columns),
            )
        kind = columns[found]["type"]
        if not isinstance(kind, ORDERED_IN_SQLITE if self._kind == "sqlite" else ORDERED):
            raise MismatchError(
                f'column "{found}" of option "changes_by" is {_shown(kind, connection)}',
                hint="It must be a time or a number that grows with every change of its row.",
            )
        return found

    def _remark(self, connection: sa.Connection, found: _Found) -> str | None:
        if found.changes_by is None:
            return "each poll reads all rows"
        indexes = sa.inspect(connection).get_indexes(self._table.name, schema=self._table.schema)
        if any((each["column_names"] or [None])[0] == found.changes_by for each in indexes):
            return None
        return f'no index begins with "{found.changes_by}", so each poll reads all rows in the database'

    def _reached(self, connection: sa.Connection, found: _Found) -> str | None:
        if found.changes_by is None:
            return None
        greatest: sa.ColumnElement[Any] = sa.func.max(sa.column(found.changes_by))
        value = connection.execute(
            sa.select(sa.cast(greatest, sa.Text) if self._kind == "postgresql" else greatest).select_from(
                _from(found.table)
            )
        ).scalar_one()
        return reached_of(value)

    def _rows(self, found: _Found, begin: object) -> sa.Select[Any]:
        columns = [
            self._selected(column.name, found.types[column.name]).label(f"c{at}")
            for at, column in enumerate(found.table.columns)
        ]
        keys: list[sa.ColumnElement[Any]] = [
            sa.column(found.table.column(name).name) for name in found.table.key
        ]
        query = sa.select(*columns).select_from(_from(found.table)).order_by(*keys)
        if begin is None or found.changes_by is None:
            return query
        # SQLite compares times as text, which the value already is.
        kind = sa.types.NullType() if self._kind == "sqlite" else found.types[found.changes_by]
        ordering = sa.column(found.changes_by, kind)
        wanted: sa.ColumnElement[bool] = ordering >= sa.literal(begin, kind)
        if found.changes_may_be_null:
            wanted = sa.or_(wanted, ordering.is_(None))
        return query.where(wanted)

    def _selected(self, name: str, kind: sa.types.TypeEngine[Any]) -> sa.ColumnElement[Any]:
        # Without a type, so that SQLAlchemy does not convert the values.
        column: sa.ColumnElement[Any] = sa.column(name)
        if self._kind != "postgresql" or isinstance(kind, _NATIVE):
            return column
        if isinstance(kind, sa.ARRAY):
            column = sa.func.to_json(column)
        return sa.cast(column, sa.Text)


@dataclass(frozen=True, slots=True)
class SqlTableRead:
    """One read; see ``api.TableRead``."""

    connection: sa.Connection
    label: str
    query: sa.Select[Any]
    plain: Sequence[Any]
    reached: str | None

    def chunks(self) -> Iterator[Sequence[tuple[object, ...]]]:
        """Yield the rows by ``CHUNK_ROWS``."""
        with database_errors(self.label):
            result = self.connection.execute(self.query, execution_options={"yield_per": CHUNK_ROWS})
            for rows in result.partitions():
                yield [
                    tuple(make(value) for make, value in zip(self.plain, row, strict=True)) for row in rows
                ]


def _engine(address: sa.URL, connect_timeout_s: int) -> sa.Engine:
    """Make an engine whose transactions only read, each on one state of the database."""
    if address.get_backend_name() == "postgresql":
        return sa.create_engine(
            address.set(drivername="postgresql+psycopg"),
            connect_args={
                "connect_timeout": connect_timeout_s,
                "client_encoding": "utf8",
                "options": "-c timezone=UTC",
            },
            pool_size=1,
            pool_pre_ping=True,
            isolation_level="REPEATABLE READ",
            execution_options={"postgresql_readonly": True},
        )
    if address.get_backend_name() != "sqlite":
        # The rows of one transaction of InnoDB are those of its first SELECT.
        return sa.create_engine(
            address.set(drivername="mysql+pymysql"),
            connect_args={
                "connect_timeout": connect_timeout_s,
                "charset": "utf8mb4",
                "init_command": "set time_zone = '+00:00'",
            },
            pool_size=1,
            pool_pre_ping=True,
            isolation_level="REPEATABLE READ",
        )
    engine = sa.create_engine(
        address.set(drivername="sqlite+pysqlite"),
        connect_args={"timeout": connect_timeout_s, "check_same_thread": False},
        # An open file that was renamed or replaced would be read forever.
        poolclass=sa.NullPool,
    )

    @sa.event.listens_for(engine, "connect")
    def connected(connection: Any, _: object) -> None:
        # The driver's own BEGIN is not issued before a SELECT.
        connection.isolation_level = None
        connection.execute("pragma query_only = on")

    @sa.event.listens_for(engine, "begin")
    def begin(connection: sa.Connection) -> None:
        connection.exec_driver_sql("begin")

    return engine


def _from(table: PhysicalTable) -> sa.TableClause:
    return sa.table(table.name, schema=table.schema)


def _matching(name: str, columns: Mapping[str, object]) -> str | None:
    """Return the column with this name. If no name matches exactly, upper and lower case are ignored."""
    if name in columns:
        return name
    return next((each for each in columns if each.lower() == name.lower()), None)


def _names(looking: sa.Inspector, schema: str | None) -> list[str]:
    try:
        return [*looking.get_table_names(schema=schema), *looking.get_view_names(schema=schema)]
    except exc.SQLAlchemyError:
        # The schema does not exist.
        return []


def _shown(kind: sa.types.TypeEngine[Any], connection: sa.Connection) -> str:
    if isinstance(kind, sa.types.NullType):
        return "of an unknown type"
    return str(kind.compile(dialect=connection.dialect)).lower()
