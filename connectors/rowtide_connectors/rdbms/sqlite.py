"""SQLite, through Python's own driver: one file, one writer.

Every transaction is BEGIN IMMEDIATE, so that it cannot fail later because another one wrote first.
SQLite has neither dates nor exact decimals: times are ISO 8601 text in UTC, and a decimal of more
than 15 digits is text, since as a number it would lose digits.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from datetime import UTC, date, datetime, timedelta
from decimal import Context, Decimal
from functools import partial
from typing import Any

import sqlalchemy as sa
from sqlalchemy.pool import StaticPool

from rowtide_connectors.checkpoint_tables import CHECKPOINT_SCHEMA, CHECKPOINT_TABLES
from rowtide_connectors.errors import GoneError
from rowtide_connectors.rdbms.dialect import (
    READS,
    PhysicalColumns,
    limited,
    on_conflict,
    quoted,
    table_sql,
)
from rowtide_connectors.rdbms.failures import RowDataError
from rowtide_connectors.rdbms.sql_type import TIMESTAMPS, SqlType, TargetColumn
from rowtide_connectors.rdbms.table import (
    VIEW_FAULT,
    ExistingColumn,
    ExistingTable,
    PhysicalColumn,
    PhysicalTable,
)

EXACT_DIGITS = 15
"""The most significant decimal digits that a double, SQLite's only fractional type, stores unchanged."""

_EPOCH = datetime(1970, 1, 1)
_EPOCH_DAY = date(1970, 1, 1).toordinal()
_DAY_MS = 86_400_000
_WIDE = Context(prec=76)

_DDL = {
    "DOUBLE": "double precision",
    "BINARY": "blob",
    "VARBINARY": "blob",
    "TIMESTAMP WITH TIME ZONE": "timestamptz",
    # Other names would be those of numbers.
    "UUID": "char(36)",
    **dict.fromkeys(("JSON", "ARRAY"), "json_text"),
    # These have integer affinity, because their names contain INT: milliseconds, and months.
    "INTERVAL DAY TO SECOND": "interval_ms",
    "INTERVAL YEAR TO MONTH": "interval_months",
}
_TEXT_OR_NUMERIC = frozenset({"DATE", "TIME", *TIMESTAMPS})


_FIXED_VIEW = """
select 1 from sqlite_master as v where v.type = 'view' and v.name = ? and not exists (
    select 1 from sqlite_master as t
    where t.type = 'trigger' and t.tbl_name = v.name and t.sql like '%instead of insert%'
)
"""
_JUDGING = re.compile(r"\b(check|references)\b", re.IGNORECASE)


class Sqlite:
    """SQLite 3.24 or newer (ON CONFLICT)."""

    has_stages = False
    table_options = ""
    creation_commits = False
    idle_transaction_s = 0

    def create_engine(self, url: sa.URL, connect_timeout_s: int, lock_timeout_s: int) -> sa.Engine:
        """Make the engine. A database in memory is one connection that all threads share in turn."""
        arguments: dict[str, Any] = {"connect_args": {"timeout": lock_timeout_s, "check_same_thread": False}}
        in_memory = url.database in (None, "", ":memory:")
        if in_memory:
            arguments["poolclass"] = StaticPool
        engine = sa.create_engine(url.set(drivername="sqlite+pysqlite"), **arguments)

        @sa.event.listens_for(engine, "connect")
        def set_up(connection: Any, _: object) -> None:
            # The driver's own BEGIN is deferred, and not issued before every statement.
            connection.isolation_level = None
            if not in_memory:
                connection.execute("pragma journal_mode = wal")
                connection.execute("pragma synchronous = full")

        @sa.event.listens_for(engine, "begin")
        def begin(connection: sa.Connection) -> None:
            # One that only reads waits for no writer, and lets none wait: its first statement takes a snapshot.
            reads = connection.get_execution_options().get(READS, False)
            connection.exec_driver_sql("begin" if reads else "begin immediate")

        return engine

    def type_ddl(self, sql_type: SqlType) -> str:
        """Return the declared type, which also decides what SQLite does to values."""
        if sql_type.name == "DECIMAL":
            if sql_type.precision is not None and sql_type.precision <= EXACT_DIGITS:
                return f"decimal{sql_type.arguments}"
            return f"decimal_text{sql_type.arguments}"
        arguments = "" if sql_type.name in ("BINARY", "VARBINARY") else sql_type.arguments
        return _DDL.get(sql_type.name, sql_type.name.lower()) + arguments

    def column_ddl(self, connection: sa.Connection, table: PhysicalTable, column: PhysicalColumn) -> str:
        """Return the type."""
        return self.type_ddl(column.type)

    def located(self, connection: sa.Connection, table: PhysicalTable) -> PhysicalTable:
        """Check that the schema, which is the name of an attached database, exists."""
        if table.schema is not None:
            attached = connection.exec_driver_sql("select name from pragma_database_list").scalars()
            if table.schema.lower() not in {name.lower() for name in attached}:
                raise GoneError(
                    f'schema "{table.schema}" does not exist',
                    hint="SQLite has no schemas: remove the schema from table_name.",
                )
        return table

    def is_checkpoint(self, table: PhysicalTable) -> bool:
        """Return whether the table has one of the checkpoint's names, in any case of letters."""
        return table.name.lower() in {f"{CHECKPOINT_SCHEMA}_{name}" for name in CHECKPOINT_TABLES}

    def check_rights(self, connection: sa.Connection, table: PhysicalTable) -> None:
        """Do nothing: SQLite has only the rights on the file."""

    def check_creation(self, connection: sa.Connection, table: PhysicalTable) -> None:
        """Do nothing, likewise."""

    def creating(self, connection: sa.Connection) -> AbstractContextManager[None]:
        """Do nothing: every transaction is the only one that writes."""
        return nullcontext()

    def check_deferred(self, connection: sa.Connection) -> None:
        """Do nothing: foreign keys are not enforced, and other constraints are checked with each statement."""

    def renew_savepoint(self, connection: sa.Connection, name: str) -> None:
        """RAISE(ROLLBACK, ..) in a trigger ends the transaction."""
        driver: Any = connection.connection.driver_connection
        if not driver.in_transaction:
            connection.exec_driver_sql("begin immediate")
            connection.exec_driver_sql(f"savepoint {name}")

    def read_at_one_moment(self, connection: sa.Connection) -> None:
        """Do nothing: a transaction that reads has one snapshot."""

    def existing(self, connection: sa.Connection, table: PhysicalTable) -> ExistingTable | None:
        """Look a table up."""
        columns = connection.exec_driver_sql(
            'select name, type, "notnull", dflt_value, pk, hidden in (2, 3) as made from pragma_table_xinfo(?)',
            (table.name,),
        ).all()
        if not columns:
            return None
        unique = [frozenset(column.name for column in columns if column.pk)]
        inexact: dict[str, str] = {}
        indices = connection.exec_driver_sql(
            'select name from pragma_index_list(?) where "unique" and not partial', (table.name,)
        ).scalars()
        for index in indices.all():
            members = connection.exec_driver_sql(
                "select name, coll from pragma_index_xinfo(?) where key", (index,)
            ).all()
            unique.append(frozenset(name for name, _ in members if name is not None))
            inexact |= {
                name: f"{collation}, in which different texts are equal; keys need BINARY"
                for name, collation in members
                if collation != "BINARY"
            }
        return ExistingTable(
            [
                ExistingColumn(
                    column.name,
                    column.type,
                    not column.notnull and not column.pk,
                    # INTEGER PRIMARY KEY numbers rows automatically.
                    column.dflt_value is not None or bool(column.pk),
                    inexact.get(column.name),
                    bool(column.made),
                )
                for column in columns
            ],
            [columns for columns in unique if columns],
            self._judges(connection, table),
            faults=[VIEW_FAULT] if connection.exec_driver_sql(_FIXED_VIEW, (table.name,)).scalar() else [],
        )

    def _judges(self, connection: sa.Connection, table: PhysicalTable) -> bool:
        """Return whether there is more than one key: CHECK, FOREIGN KEY, a trigger, another unique index."""
        written = connection.exec_driver_sql(
            "select sql from sqlite_master where tbl_name = ? and type in ('table', 'trigger')", (table.name,)
        ).scalars()
        texts = [text or "" for text in written]
        indices = connection.exec_driver_sql(
            'select count(*) from pragma_index_list(?) where "unique"', (table.name,)
        ).scalar_one()
        return len(texts) > 1 or int(indices) > 1 or any(_JUDGING.search(text) for text in texts)

    def foreign_keys(self, connection: sa.Connection, table: PhysicalTable) -> Iterator[tuple[str, ...]]:
        """Return none: SQLite does not enforce them."""
        return iter(())

    def target(self, existing: str, sql_type: SqlType) -> TargetColumn | None:
        """Compare the affinity: SQLite ignores the rest of a type."""
        return TargetColumn(existing) if affinity(existing) in self._affinities(sql_type) else None

    def taken(self, sql_type: SqlType) -> Sequence[str]:
        """Return the affinities."""
        return [f"any type of affinity {name}" for name in self._affinities(sql_type)]

    def _affinities(self, sql_type: SqlType) -> Sequence[str]:
        if sql_type.name in _TEXT_OR_NUMERIC:
            return ("TEXT", "NUMERIC", "BLOB")
        return (affinity(self.type_ddl(sql_type)),)

    def insert(
        self, connection: sa.Connection, table: PhysicalTable, columns: PhysicalColumns, *, replace: bool
    ) -> None:
        """Insert row by row, in one call of the driver."""
        names = quoted(connection, [column for column, _ in columns])
        statement = (
            f"insert into {table_sql(connection, table)} ({', '.join(names)})"
            f" values ({', '.join('?' * len(names))})"
        )
        if replace:
            key = quoted(connection, [table.column(name) for name in table.key])
            statement += on_conflict(names, key)
        connection.exec_driver_sql(statement, _parameters(columns))

    def delete(self, connection: sa.Connection, table: PhysicalTable, keys: PhysicalColumns) -> None:
        """Delete row by row, in one call of the driver."""
        names = quoted(connection, [column for column, _ in keys])
        same = " and ".join(f"{name} = ?" for name in names)
        connection.exec_driver_sql(
            f"delete from {table_sql(connection, table)} where {same}", _parameters(keys)
        )

    def unstorable(self, columns: PhysicalColumns) -> Iterator[tuple[int, str]]:
        """Every value of our types can be stored."""
        return iter(())

    def rows(
        self, connection: sa.Connection, table: PhysicalTable, *, limit: int | None = None
    ) -> Generator[tuple[object, ...]]:
        """Yield all rows."""
        names = quoted(connection, table.columns)
        readers = [_reader(column.type) for column in table.columns]
        statement = f"select {', '.join(names)} from {table_sql(connection, table)}"
        result = connection.exec_driver_sql(limited(statement, limit))
        for row in result:
            yield tuple(
                None if value is None else read(value) for read, value in zip(readers, row, strict=True)
            )


def affinity(declared: str) -> str:
    """Return the affinity of a declared type, by the rules of SQLite's documentation (datatype3, 3.1)."""
    text = declared.upper()
    if "INT" in text:
        return "INTEGER"
    if re.search("CHAR|CLOB|TEXT", text):
        return "TEXT"
    if "BLOB" in text or not text:
        return "BLOB"
    if re.search("REAL|FLOA|DOUB", text):
        return "REAL"
    return "NUMERIC"


def _parameters(columns: PhysicalColumns) -> list[tuple[object, ...]]:
    converted = []
    for column, values in columns:
        write = _writer(column.type)
        try:
            converted.append(
                list(values)
                if write is None
                else [None if value is None else write(value) for value in values]
            )
        except (OverflowError, ValueError) as error:
            raise RowDataError(f'column "{column.name}": {error}') from error
    return list(zip(*converted, strict=True))


def _writer(sql_type: SqlType) -> Callable[[Any], object] | None:
    match sql_type.name:
        case "DECIMAL":
            return str
        case "DATE":
            return _date_text
        case "TIME":
            return _time_text
        case "TIMESTAMP":
            return _timestamp_text
        case "TIMESTAMP WITH TIME ZONE":
            return lambda milliseconds: f"{_timestamp_text(milliseconds)}+00:00"
        case _:
            return None


def _reader(sql_type: SqlType) -> Callable[[Any], object]:
    match sql_type.name:
        case "DECIMAL":
            return partial(_decimal, Decimal(1).scaleb(-sql_type.scale))
        case "BOOLEAN":
            return lambda value: bool(value) if value in (0, 1) else value
        case "REAL" | "DOUBLE":
            return float
        case "DATE":
            return lambda text: date.fromisoformat(text).toordinal() - _EPOCH_DAY
        case "TIME":
            return lambda text: _milliseconds(datetime.fromisoformat(f"1970-01-01 {text}") - _EPOCH)
        case "TIMESTAMP":
            return lambda text: _milliseconds(datetime.fromisoformat(text) - _EPOCH)
        case "TIMESTAMP WITH TIME ZONE":
            return _instant
        case _:
            return lambda value: value


def _decimal(unit: Decimal, value: object) -> Decimal:
    """Return a number with the declared digits; with its own if it has more."""
    found = Decimal(str(value))
    filled = found.quantize(unit, context=_WIDE)
    return filled if filled == found else found


def _instant(text: str) -> int:
    """Return the instant of a text, which an existing column may hold without an offset."""
    moment = datetime.fromisoformat(text)
    return _milliseconds((moment.astimezone(UTC).replace(tzinfo=None) if moment.tzinfo else moment) - _EPOCH)


def _milliseconds(span: timedelta) -> int:
    return span // timedelta(milliseconds=1)


def _date_text(days: int) -> str:
    return date.fromordinal(_EPOCH_DAY + days).isoformat()


def _time_text(milliseconds: int) -> str:
    return _timestamp_text(milliseconds % _DAY_MS)[11:]


def _timestamp_text(milliseconds: int) -> str:
    return (_EPOCH + timedelta(milliseconds=milliseconds)).isoformat(" ", "milliseconds")
