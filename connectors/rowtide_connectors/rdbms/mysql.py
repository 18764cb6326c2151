"""MySQL and MariaDB, through PyMySQL.

Differences from PostgreSQL that the rest of this package relies on:

* Transactions are READ COMMITTED: under REPEATABLE READ, MySQL's default, a statement that waited for a lock
  sees the newest rows, but the next SELECT sees those from before the wait.
* CREATE TABLE commits. So tables are created under a lock of the session, after all others were checked, and
  dropped again if one of them cannot be created.
* Text in tables of ours has a collation in which no two texts are equal.
* ON DUPLICATE KEY UPDATE replaces the row of any key. A table with more keys is written row by row.
* The sql_mode of the session is strict: a value that does not fit is refused, not changed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from decimal import Decimal
from typing import Any

import sqlalchemy as sa

from rowtide_connectors.checkpoint_tables import CHECKPOINT_SCHEMA, CHECKPOINT_TABLES
from rowtide_connectors.errors import GoneError, MismatchError, OptionError, UnavailableError
from rowtide_connectors.rdbms.dialect import IDLE_TRANSACTION_S, PhysicalColumns, limited
from rowtide_connectors.rdbms.failures import label_of
from rowtide_connectors.rdbms.literals import packed, row_literals
from rowtide_connectors.rdbms.sql_type import (
    TIMESTAMPS,
    TYPES,
    Limit,
    SqlType,
    TargetColumn,
    target_of,
    whole,
    whole_numbers,
)
from rowtide_connectors.rdbms.table import (
    VIEW_FAULT,
    ExistingColumn,
    ExistingTable,
    PhysicalColumn,
    PhysicalTable,
)

POOL_SIZE = 3
"""Connections for the commit, and for readers such as the status page."""

LEAST_PACKET = 16 << 20
"""A snapshot's chunk of 4 MiB may take twice that as text; MariaDB's default is this, MySQL's is more."""

DELETED_AT_ONCE = 200
"""Keys of one DELETE: the server looks each up in the index."""

FETCH_ROWS = 10_000
LONGEST_NAME = 64
"""Characters of an identifier."""

KEY_BYTES = 3072
"""Limit of all columns of an InnoDB key."""
_CHARACTER_BYTES = 4
_INLINE_LENGTH = 255
"""Longer text and binary columns are stored outside of the row, which has a limit of 65,535 bytes."""

SQL_MODE = "STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION,NO_AUTO_VALUE_ON_ZERO,ANSI_QUOTES"
CREATION_LOCK = "rowtide creates tables"
"""Lock of the server under which tables are created."""

_UUID_LENGTH = 36

LEAST_VERSIONS = {"MariaDB": (10, 6), "MySQL": (8, 0, 19)}

_DDL = {
    "REAL": "float",
    "INTEGER": "int",
    "UUID": "char(36)",
    "ARRAY": "json",
    "TIME": "time(3)",
    **dict.fromkeys(TIMESTAMPS, "datetime(3)"),
    "INTERVAL DAY TO SECOND": "bigint",
    "INTERVAL YEAR TO MONTH": "bigint",
}
_READ = {
    # As text, a FLOAT has six digits.
    "REAL": "cast({0} as double)",
    # CHAR is stored without the spaces at its end. RPAD alone would cut a text of a longer column.
    "CHAR": "rpad({0}, greatest(char_length({0}), {1}), ' ')",
    "DATE": "datediff({0}, '1970-01-01')",
    "TIME": "timestampdiff(microsecond, '1970-01-01', timestamp('1970-01-01', {0})) div 1000",
    **dict.fromkeys(TIMESTAMPS, "timestampdiff(microsecond, '1970-01-01', {0}) div 1000"),
}
_PYTHON: dict[str, Callable[[Any], object]] = {
    "BOOLEAN": bool,
    "DECIMAL": Decimal,
    **dict.fromkeys(("TINYINT", "SMALLINT", "INTEGER", "BIGINT"), whole),
    **dict.fromkeys(("INTERVAL DAY TO SECOND", "INTERVAL YEAR TO MONTH"), whole),
}
"""Types whose column may be of another one."""
_COLUMNS_OF = """
select column_name, column_type, is_nullable = 'YES',
    column_default is not null or extra like '%%auto_increment%%' or extra like '%%generated%%',
    collation_name, coalesce(generation_expression, '') <> ''
from information_schema.columns where table_schema = %s and table_name = %s order by ordinal_position
"""
_UNIQUE_OF = """
select index_name, column_name, sub_part from information_schema.statistics
where table_schema = %s and table_name = %s and non_unique = 0
"""
_JUDGES = """
select exists (
    select 1 from information_schema.table_constraints where table_schema = %(schema)s
    and table_name = %(table)s and constraint_type in ('CHECK', 'FOREIGN KEY')
) or exists (
    select 1 from information_schema.referential_constraints
    where unique_constraint_schema = %(schema)s and referenced_table_name = %(table)s
) or exists (
    select 1 from information_schema.triggers
    where event_object_schema = %(schema)s and event_object_table = %(table)s
)
"""
_FOREIGN_KEYS = """
select constraint_name, column_name, referenced_table_schema, referenced_table_name, referenced_column_name
from information_schema.key_column_usage
where table_schema = %s and table_name = %s and referenced_table_name is not null
order by constraint_name, ordinal_position
"""
_FIXED_VIEW = """
select 1 from information_schema.views where table_schema = %s and table_name = %s and is_updatable = 'NO'
"""
_FORMATTED = re.compile(r"([a-z]+)(?:\((\d+)(?:,(\d+))?\))?( unsigned)?.*")
"""A column_type, such as ``decimal(10,2)`` or ``int(10) unsigned``."""
_INTEGER_BYTES = {"tinyint": 1, "smallint": 2, "mediumint": 3, "int": 4, "bigint": 8}
_SIZES = {"tinytext": 255, "text": 65_535, "mediumtext": 2**24 - 1}
_SIZES |= {"tinyblob": 255, "blob": 65_535, "mediumblob": 2**24 - 1}
_MILLISECOND_DIGITS = 3
_TIMESTAMPS_MS = (1_000, 2**31 * 1_000 - 1)
"""Of the type TIMESTAMP: from 1970-01-01 00:00:01 to 2038-01-19 03:14:07."""
_EXACT_COLLATION = re.compile(r".*_nopad_bin|.*_0900_bin|binary")


class MySql:
    """MySQL 8.0.19 or newer, and MariaDB 10.6 or newer."""

    has_stages = False
    table_options = " engine = InnoDB default character set utf8mb4"
    creation_commits = True

    def __init__(self) -> None:
        self.idle_transaction_s = IDLE_TRANSACTION_S
        self._packet = LEAST_PACKET
        self._database = ""

    def create_engine(self, url: sa.URL, connect_timeout_s: int, lock_timeout_s: int) -> sa.Engine:
        """Make the engine; every session is strict, in UTC and READ COMMITTED, with time-outs of locks."""
        if not url.database:
            raise OptionError(
                f'option "url" names no database: {label_of(url)}',
                hint="Such as mysql://user@host/name.",
                option="url",
            )
        self._database = url.database
        engine = sa.create_engine(
            url.set(drivername="mysql+pymysql"),
            connect_args={
                "connect_timeout": connect_timeout_s,
                "charset": "utf8mb4",
                "sql_mode": SQL_MODE,
            },
            pool_size=POOL_SIZE,
            pool_pre_ping=True,
            isolation_level="READ COMMITTED",
        )

        @sa.event.listens_for(engine, "connect")
        def connected(connection: Any, _: object) -> None:
            try:
                self._set_up(connection, lock_timeout_s, label_of(url))
            except BaseException:
                # SQLAlchemy does not have the connection yet and would not close it.
                connection.close()
                raise

        return engine

    def _set_up(self, connection: Any, lock_timeout_s: int, label: str) -> None:
        text = connection.get_server_info()
        product = "MariaDB" if "mariadb" in text.lower() else "MySQL"
        # MariaDB may begin with 5.5.5-, for clients that know no version 10.
        found = re.match(r"(?:5\.5\.5-)?(\d+)\.(\d+)\.(\d+)", text)
        version = tuple(map(int, found.groups())) if found else ()
        if version < LEAST_VERSIONS[product]:
            least = ".".join(map(str, LEAST_VERSIONS[product]))
            raise MismatchError(f"{label} is {product} {text}, which is older than {product} {least}")
        settings = [
            "time_zone = '+00:00'",
            f"innodb_lock_wait_timeout = {max(1, lock_timeout_s)}",
            f"lock_wait_timeout = {max(1, lock_timeout_s)}",
        ]
        if product == "MariaDB":
            settings.append(f"idle_transaction_timeout = {self.idle_transaction_s}")
        with connection.cursor() as cursor:
            cursor.execute(f"set session {', '.join(settings)}")
            cursor.execute("select @@max_allowed_packet")
            (packet,) = cursor.fetchone()
        if packet < LEAST_PACKET:
            raise MismatchError(
                f"{label} takes statements of {packet} bytes, and Rowtide needs {LEAST_PACKET}",
                hint=f"Set max_allowed_packet = {LEAST_PACKET} or more in the server's configuration.",
            )
        # Some room for the statement around the rows.
        self._packet = packet - (1 << 16)

    def type_ddl(self, sql_type: SqlType) -> str:
        """Return the type of a column that is not of a key."""
        return self._type_ddl(sql_type, _INLINE_LENGTH)

    def column_ddl(self, connection: sa.Connection, table: PhysicalTable, column: PhysicalColumn) -> str:
        """Return type and collation of a new column. A key limits the length of its texts."""
        length = _INLINE_LENGTH
        if column.sql_name in table.key:
            # An array in a key is text, of which each value has one.
            parts = [_key_type(table.column(name).type) for name in table.key]
            texts = [part for part in parts if part.name in ("CHAR", "VARCHAR", "BINARY", "VARBINARY")]
            fixed = sum(
                _UUID_LENGTH * _CHARACTER_BYTES if part.name == "UUID" else 16
                for part in parts
                if part not in texts
            )
            length = max(1, (KEY_BYTES - fixed) // max(1, len(texts)) // _CHARACTER_BYTES)
            of = _key_type(column.type)
            return self._type_ddl(of, length, is_key=True) + self._collation(connection, of)
        return self._type_ddl(column.type, length) + self._collation(connection, column.type)

    def _type_ddl(self, sql_type: SqlType, length: int, *, is_key: bool = False) -> str:
        name, precision = sql_type.name, sql_type.precision
        if name in ("CHAR", "VARCHAR", "BINARY", "VARBINARY"):
            is_text = name.endswith("CHAR")
            wanted = precision or (1 if name == "CHAR" else None)
            if is_key and (wanted is None or wanted > length):
                wanted = length
            if wanted is None or wanted > length:
                return "longtext" if is_text else "longblob"
            if name == "CHAR" and wanted <= _INLINE_LENGTH:
                return f"char({wanted})"
            return f"varchar({wanted})" if is_text else f"varbinary({wanted})"
        if name == "DECIMAL":
            return f"decimal{sql_type.arguments or '(65, 30)'}"
        return _DDL.get(name, name.lower())

    def _collation(self, connection: sa.Connection, sql_type: SqlType) -> str:
        if sql_type.name not in ("CHAR", "VARCHAR", "UUID"):
            return ""
        return f" character set utf8mb4 collate {exact_collation(connection)}"

    def located(self, connection: sa.Connection, table: PhysicalTable) -> PhysicalTable:
        """Check the names, and that the schema, which is a database of the server, exists."""
        for kind, name in (("table", table.name), *(("column", column.name) for column in table.columns)):
            if why := _unusable(name):
                raise MismatchError(f'{kind} name "{name}" {why}', hint="Choose another name.")
        if table.schema is None:
            return replace(table, home=self._database)
        found = connection.exec_driver_sql(
            "select 1 from information_schema.schemata where schema_name = %s", (table.schema,)
        ).scalar_one_or_none()
        if found is None:
            raise GoneError(
                f'schema "{table.schema}" does not exist',
                hint="A schema is a database of the server: create it (CREATE DATABASE), or name another one "
                "before the dot in table_name.",
            )
        return table

    def is_checkpoint(self, table: PhysicalTable) -> bool:
        """Return whether the table has one of the checkpoint's names, in any case of letters."""
        own = {f"{CHECKPOINT_SCHEMA}_{name}" for name in CHECKPOINT_TABLES}
        return table.place == self._database and table.name.lower() in own

    def check_rights(self, connection: sa.Connection, table: PhysicalTable) -> None:
        """Run the statements of a write without rows: the server checks the rights."""
        name = _table_sql(table)
        columns = _quoted(table.columns)
        same = ", ".join(f"{each} = {each}" for each in columns)
        listed = ", ".join(columns)
        nothing = ", ".join(["null"] * len(columns))
        _execute(connection, f"insert into {name} ({listed}) select {nothing} from dual where 1 = 0")
        if table.key:
            _execute(connection, f"update {name} set {same} where 1 = 0")

    def check_creation(self, connection: sa.Connection, table: PhysicalTable) -> None:
        """Do nothing: CREATE TABLE itself is refused."""

    @contextmanager
    def creating(self, connection: sa.Connection) -> Iterator[None]:
        """Hold a lock of the server; CREATE TABLE would release one of the transaction."""
        taken = connection.exec_driver_sql("select get_lock(%s, 60)", (CREATION_LOCK,)).scalar_one()
        if taken != 1:
            raise UnavailableError("another process creates tables in this server for more than a minute")
        try:
            yield
        finally:
            if not connection.invalidated:
                connection.exec_driver_sql("select release_lock(%s)", (CREATION_LOCK,))

    def check_deferred(self, connection: sa.Connection) -> None:
        """Do nothing: there are none."""

    def renew_savepoint(self, connection: sa.Connection, name: str) -> None:
        """Do nothing: only a deadlock ends the transaction, which is an outage."""

    def read_at_one_moment(self, connection: sa.Connection) -> None:
        """Read within one snapshot."""
        connection.exec_driver_sql("set transaction isolation level repeatable read")
        connection.exec_driver_sql("start transaction with consistent snapshot, read only")

    def existing(self, connection: sa.Connection, table: PhysicalTable) -> ExistingTable | None:
        """Look a table up in the information schema."""
        columns = connection.exec_driver_sql(_COLUMNS_OF, (table.place, table.name)).all()
        if not columns:
            return None
        indices: dict[str, set[str | None]] = {}
        for index, name, part in connection.exec_driver_sql(_UNIQUE_OF, (table.place, table.name)):
            # An index of the beginnings of texts, or of an expression, does not make a column unique.
            indices.setdefault(index, set()).add(name if part is None else None)
        exact = exact_collation(connection)
        is_view = connection.exec_driver_sql(_FIXED_VIEW, (table.place, table.name)).scalar_one_or_none()
        judges = connection.exec_driver_sql(
            _JUDGES, {"schema": table.place, "table": table.name}
        ).scalar_one()
        return ExistingTable(
            [
                ExistingColumn(
                    name,
                    _whole(type_),
                    bool(nullable),
                    bool(default),
                    _inexact(collation, exact),
                    bool(generated),
                )
                for name, type_, nullable, default, collation, generated in columns
            ],
            [
                frozenset(name for name in names if name is not None)
                for names in indices.values()
                if None not in names
            ],
            bool(judges) or len(indices) > 1,
            has_other_keys=len(indices) > 1,
            faults=[VIEW_FAULT] if is_view else [],
        )

    def foreign_keys(self, connection: sa.Connection, table: PhysicalTable) -> Iterator[tuple[str, ...]]:
        """Look them up in the information schema."""
        return map(tuple, connection.exec_driver_sql(_FOREIGN_KEYS, (table.place, table.name)))

    def target(self, existing: str, sql_type: SqlType) -> TargetColumn | None:
        """Read a column_type of the information schema."""
        found = _FORMATTED.fullmatch(existing)
        if found is None:
            return None
        name, digits, scale, unsigned = found[1], int(found[2] or 0), int(found[3] or 0), bool(found[4])
        limit = None
        if name in _INTEGER_BYTES:
            limit = Limit(whole_numbers(_INTEGER_BYTES[name], unsigned=unsigned))
        elif name == "decimal":
            limit = Limit((0 if unsigned else 1 - 10**digits, 10**digits - 1), scale)
        elif name == "timestamp":
            limit = Limit(_TIMESTAMPS_MS)
        elif name in ("char", "varchar"):
            limit = Limit(characters=digits)
        elif name == "varbinary":
            limit = Limit(size=digits)
        elif name in _SIZES:
            limit = Limit(size=_SIZES[name])
        elif name == "uuid":
            limit = Limit(is_uuid=True)
        if name == "char" and digits < (
            sql_type.precision or (_UUID_LENGTH if sql_type.name == "UUID" else 1)
        ):
            return None
        if name in ("time", "datetime", "timestamp") and digits < _MILLISECOND_DIGITS:
            return None
        if name in ("float", "double") and (found[2] or unsigned):
            return None
        target = target_of("mysql", sql_type, name, limit)
        if target is not None and name == "char" and sql_type.name == "CHAR":
            # Stored without blanks, and read with those of the declaration.
            return replace(target, padded_to=sql_type.precision or 1)
        return target

    def taken(self, sql_type: SqlType) -> Sequence[str]:
        """Return the declared ones."""
        return TYPES["mysql"][sql_type.name].taken

    def insert(
        self, connection: sa.Connection, table: PhysicalTable, columns: PhysicalColumns, *, replace: bool
    ) -> None:
        """Insert with statements of many rows."""
        names = _quoted([column for column, _ in columns])
        rows = row_literals(columns)
        into = f"insert into {_table_sql(table)} ({', '.join(names)}) values\n"
        key = _quoted([table.column(name) for name in table.key]) if replace else []
        if replace and table.has_other_keys:
            self._replace_one_by_one(connection, table, names, key, rows, columns)
            return
        end = f"\non duplicate key update {_replaced(names, key)}" if replace else ""
        for some in packed(rows, self._packet):
            values = "),\n(".join(some)
            _execute(connection, f"{into}({values}){end}")

    def _replace_one_by_one(
        self,
        connection: sa.Connection,
        table: PhysicalTable,
        names: list[str],
        key: list[str],
        rows: list[str],
        columns: PhysicalColumns,
    ) -> None:
        """Update the row of each key, or insert it: ON DUPLICATE KEY would update the row of another key."""
        name = _table_sql(table)
        parts = [row_literals([column]) for column in columns]
        compared = dict(zip(names, map(_compared, columns), strict=True))
        for index, row in enumerate(rows):
            values = dict(zip(names, (part[index] for part in parts), strict=True))
            changes = ", ".join(f"{each} = {value}" for each, value in values.items())
            same = " and ".join(f"{each} = {compared[each][index]}" for each in key)
            if not _execute(connection, f"update {name} set {changes} where {same}"):
                _execute(connection, f"insert into {name} ({', '.join(names)}) values ({row})")

    def delete(self, connection: sa.Connection, table: PhysicalTable, keys: PhysicalColumns) -> None:
        """Delete by key, many at once."""
        names = _quoted([column for column, _ in keys])
        parts = [_compared(key) for key in keys]
        name = _table_sql(table)
        wanted = [
            " and ".join(f"{each} = {value}" for each, value in zip(names, values, strict=True))
            for values in zip(*parts, strict=True)
        ]
        for start in range(0, len(wanted), DELETED_AT_ONCE):
            for some in packed(wanted[start : start + DELETED_AT_ONCE], self._packet):
                _execute(connection, f"delete from {name} where ({') or ('.join(some)})")

    def unstorable(self, columns: PhysicalColumns) -> Iterator[tuple[int, str]]:
        """Return the values that have no literal: numbers that are not finite."""
        found: dict[int, str] = {}
        for column, values in reversed(columns):
            if column.type.name in ("REAL", "DOUBLE"):
                for index, value in enumerate(values):
                    if isinstance(value, float) and value - value != 0:
                        found[index] = f'column "{column.name}": {value} is not a finite number'
        return iter(sorted(found.items()))

    def rows(
        self, connection: sa.Connection, table: PhysicalTable, *, limit: int | None = None
    ) -> Generator[tuple[object, ...]]:
        """Yield all rows; the server's side holds those that were not read yet."""
        names = _quoted(table.columns)
        selected = [
            _READ.get(column.type.name, "{0}").format(name, column.type.precision or 1)
            for column, name in zip(table.columns, names, strict=True)
        ]
        read = [
            (index, _PYTHON[column.type.name])
            for index, column in enumerate(table.columns)
            if column.type.name in _PYTHON
        ]
        statement = limited(f"select {', '.join(selected)} from {_table_sql(table)}", limit)
        options = {"yield_per": FETCH_ROWS, "no_parameters": True}
        with connection.exec_driver_sql(statement, execution_options=options) as result:
            for row in result:
                values = list(row)
                for index, made in read:
                    values[index] = None if values[index] is None else made(values[index])
                yield tuple(values)


def exact_collation(connection: sa.Connection) -> str:
    """Return the collation in which texts are equal only if they are the same."""
    return "utf8mb4_nopad_bin" if connection.dialect.is_mariadb else "utf8mb4_0900_bin"  # type: ignore[attr-defined]


def _quoted(columns: Sequence[PhysicalColumn]) -> list[str]:
    """Return names in quotes (ANSI_QUOTES), for statements without parameters."""
    return [_name(column.name) for column in columns]


def _table_sql(table: PhysicalTable) -> str:
    return ".".join(_name(part) for part in (table.place, table.name) if part is not None)


def _name(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _execute(connection: sa.Connection, statement: str) -> int:
    """Run a statement that has its values in it; return the number of rows that it found."""
    return int(connection.exec_driver_sql(statement, execution_options={"no_parameters": True}).rowcount)


def _compared(key: tuple[PhysicalColumn, Sequence[Any]]) -> list[str]:
    """Return the literals that a column is compared with: CHAR is stored without the spaces at its end."""
    column, values = key
    is_char = column.type.name == "CHAR" and (column.type.precision or 1) <= _INLINE_LENGTH
    if is_char if column.target is None else column.target.type == "char":
        values = [None if value is None else value.rstrip(" ") for value in values]
    return row_literals([(column, values)])


def _replaced(names: list[str], key: list[str]) -> str:
    """Return the assignments that replace the row of a key."""
    others = [name for name in names if name not in key] or key[:1]
    return ", ".join(f"{name} = values({name})" for name in others)


def _unusable(name: str) -> str | None:
    if len(name) > LONGEST_NAME:
        return f"is longer than {LONGEST_NAME} characters"
    if name.endswith(" "):
        return "ends with a space, which MySQL does not take"
    if any(ord(character) > 0xFFFF for character in name):
        return "has a character beyond U+FFFF, which MySQL does not take in names"
    return None


def _whole(text: str | bytes) -> str:
    """Return a text of the information schema; some servers send it as bytes."""
    return text.decode() if isinstance(text, bytes) else text


def _inexact(collation: str | None, exact: str) -> str | None:
    """Describe a collation in which different texts may be equal; None: they are not."""
    if collation is None or _EXACT_COLLATION.fullmatch(collation):
        return None
    return f"{collation}, in which different texts are equal; keys need {exact}"


def _key_type(sql_type: SqlType) -> SqlType:
    """Return the type that a column has in a key."""
    return SqlType("VARCHAR") if sql_type.name == "ARRAY" else sql_type
