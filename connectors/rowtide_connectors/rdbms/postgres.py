"""PostgreSQL, through psycopg 3.

Rows are sent as arrays that ``unnest`` converts to rows: one statement, one round trip and one plan
for any number of rows. Times are sent as integers and converted to dates in SQL, exactly and over
PostgreSQL's whole range.
"""

from __future__ import annotations

import re
from collections.abc import Generator, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from typing import Any

import sqlalchemy as sa

from rowtide_connectors.checkpoint_tables import CHECKPOINT_SCHEMA, CHECKPOINT_TABLES
from rowtide_connectors.errors import DeniedError, GoneError, MismatchError
from rowtide_connectors.rdbms import postgres_catalog as catalog
from rowtide_connectors.rdbms.arrays import array_parameter, register
from rowtide_connectors.rdbms.dialect import (
    IDLE_TRANSACTION_S,
    PhysicalColumns,
    limited,
    on_conflict,
    quoted,
    table_sql,
)
from rowtide_connectors.rdbms.failures import PRIVILEGE_HINT, RowDataError, label_of
from rowtide_connectors.rdbms.sql_type import (
    ENUM,
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
    ExistingColumn,
    ExistingTable,
    PhysicalColumn,
    PhysicalTable,
)

POOL_SIZE = 3
"""Connections for the commit, and for readers such as the status page."""

FETCH_ROWS = 10_000

TRY_PLAIN_ROWS = 500
"""Rows from which on a plain INSERT saves more than the two round trips of its savepoint."""

UNIQUE_VIOLATION = "23505"
"""SQLSTATE."""

LONGEST_NAME = 63
"""Bytes of an identifier that PostgreSQL keeps; it cuts off the rest without an error."""

MOST_COLUMNS = 1_600
"""Of a table."""

LARGEST_ROW_BYTES = 1_000_000_000
"""PostgreSQL takes less than 1 GiB in one message, and closes the connection at a larger one."""

SCHEMA_HINT = "Create it, or name another one before the dot in table_name."

_CREATION_LOCK = 7_305_811_207
"""Arbitrary number of the advisory lock under which tables are created."""

_DDL = {
    "TINYINT": "smallint",
    "DOUBLE": "double precision",
    "DECIMAL": "numeric",
    "BINARY": "bytea",
    "VARBINARY": "bytea",
    "JSON": "jsonb",
    "TIME": "time without time zone",
    "TIMESTAMP": "timestamp without time zone",
    "TIMESTAMP WITH TIME ZONE": "timestamp with time zone",
    "INTERVAL DAY TO SECOND": "interval",
    "INTERVAL YEAR TO MONTH": "interval",
}
_ARRAY = {
    "BOOLEAN": "bool",
    "TINYINT": "int2",
    "SMALLINT": "int2",
    "INTEGER": "int4",
    "BIGINT": "int8",
    "REAL": "float4",
    "DOUBLE": "float8",
    "DECIMAL": "numeric",
    "CHAR": "text",
    "VARCHAR": "text",
    "BINARY": "bytea",
    "VARBINARY": "bytea",
    **dict.fromkeys(("UUID", "JSON", "ARRAY"), "text"),
    "DATE": "int4",
    "TIME": "int8",
    **dict.fromkeys(TIMESTAMPS, "int8"),
    "INTERVAL DAY TO SECOND": "int8",
    "INTERVAL YEAR TO MONTH": "int8",
}
# Days and the rest separately: an interval times a number is computed as a double.
_WRITE = {
    "DATE": "date '1970-01-01' + {0}",
    "TIME": "time '00:00' + {0} * interval '1 millisecond'",
    # A session is in UTC: it is the same instant in a column with time zone.
    **dict.fromkeys(
        TIMESTAMPS,
        "timestamp '1970-01-01' + {0} / 86400000 * interval '1 day'"
        " + {0} %% 86400000 * interval '1 millisecond'",
    ),
    "INTERVAL DAY TO SECOND": "{0} * interval '1 millisecond'",
    "INTERVAL YEAR TO MONTH": "{0} * interval '1 month'",
}
_READ = {
    # As text, a real has the digits that tell it from other reals, and not its own.
    "REAL": "{0}::float8",
    "DATE": "{0} - date '1970-01-01'",
    "TIME": "(extract(epoch from {0}) * 1000)::int8",
    **dict.fromkeys(TIMESTAMPS, "(extract(epoch from {0}) * 1000)::int8"),
    "INTERVAL DAY TO SECOND": "(extract(epoch from {0}) * 1000)::int8",
    "INTERVAL YEAR TO MONTH": "(extract(year from {0}) * 12 + extract(month from {0}))::int8",
}
_FORMATTED = re.compile(r"([a-z][a-z ]*?)(?:\((\d+)(?:,(\d+))?\))?( with(?:out)? time zone)?")
"""A result of format_type, such as ``numeric(10,2)`` or ``timestamp(3) without time zone``."""
_MILLISECOND_DIGITS = 3
_NUL_IN_JSON = re.compile(r"(?<!\\)(?:\\\\)*\\u0000")
_INTEGER_BYTES = {"smallint": 2, "integer": 4, "bigint": 8}
_UNCAST = frozenset({"uuid", "json", "jsonb"})
"""Types to which a text is not converted unless a statement says so."""


class Postgres:
    """PostgreSQL 14 or newer."""

    has_stages = True
    table_options = ""
    creation_commits = False

    def __init__(self) -> None:
        self.idle_transaction_s = IDLE_TRANSACTION_S
        self._repeating: set[str] = set()
        """Tables in which an inserted row conflicted with an existing key."""

    def create_engine(self, url: sa.URL, connect_timeout_s: int, lock_timeout_s: int) -> sa.Engine:
        """Make the engine; every connection has a lock time-out."""
        engine = sa.create_engine(
            url.set(drivername="postgresql+psycopg"),
            connect_args={"connect_timeout": connect_timeout_s, "client_encoding": "utf8"},
            pool_size=POOL_SIZE,
            # Replace a connection that broke while idle.
            pool_pre_ping=True,
        )

        def settings() -> tuple[str, ...]:
            # The limit of a replica is set after this.
            idle = f"idle_in_transaction_session_timeout = '{self.idle_transaction_s}s'"
            return f"lock_timeout = '{lock_timeout_s}s'", "time zone 'UTC'", idle

        def set_up(connection: Any) -> None:
            if connection.info.parameter_status("server_encoding") == "SQL_ASCII":
                raise MismatchError(
                    f"{label_of(url)} has the encoding SQL_ASCII, in which text is bytes of any encoding",
                    hint="Use a database that was created with ENCODING 'UTF8'.",
                )
            connection.autocommit = True
            if is_pooled(connection):
                # The next transaction may run in another session: it has none of its statements and settings.
                connection.prepare_threshold = None
            else:
                connection.execute(f"set {'; set '.join(settings())}")
            connection.autocommit = False
            register(connection)

        @sa.event.listens_for(engine, "connect")
        def connected(connection: Any, _: object) -> None:
            try:
                set_up(connection)
            except BaseException:
                # SQLAlchemy does not have the connection yet and would not close it.
                connection.close()
                raise

        @sa.event.listens_for(engine, "begin")
        def begun(connection: sa.Connection) -> None:
            driver: Any = connection.connection.driver_connection
            if driver.prepare_threshold is None:
                driver.execute(f"set local {'; set local '.join(settings())}")

        return engine

    def type_ddl(self, sql_type: SqlType) -> str:
        """Return PostgreSQL's spelling."""
        if sql_type.element is not None:
            return f"{self.type_ddl(sql_type.element)}[]"
        arguments = "" if sql_type.name in ("BINARY", "VARBINARY") else sql_type.arguments
        return _DDL.get(sql_type.name, sql_type.name.lower()) + arguments

    def column_ddl(self, connection: sa.Connection, table: PhysicalTable, column: PhysicalColumn) -> str:
        """Return the type."""
        return self.type_ddl(column.type)

    def located(self, connection: sa.Connection, table: PhysicalTable) -> PhysicalTable:
        """Look for the table in every schema of the search path; see ``dialect.Dialect``.

        By default PostgreSQL takes the first one. That schema may change between starts if the role
        has the name of the checkpoint's schema or of a schema that is created later.
        """
        if len(table.name.encode()) > LONGEST_NAME:
            raise MismatchError(
                f'table name "{table.name}" is longer than {LONGEST_NAME} bytes',
                hint="PostgreSQL would cut it. Name the table with table_name.",
            )
        for column in table.columns:
            if len(column.name.encode()) > LONGEST_NAME:
                raise MismatchError(
                    f'column name "{column.name}" is longer than {LONGEST_NAME} bytes',
                    hint="PostgreSQL would cut it. Choose a shorter name.",
                )
        if len(table.columns) > MOST_COLUMNS:
            raise MismatchError(
                f'table "{table.label}" has {len(table.columns)} columns, and PostgreSQL takes {MOST_COLUMNS}',
                hint="Declare fewer columns, such as one of JSON for many of them.",
            )
        if table.schema is not None:
            may_use = connection.exec_driver_sql(catalog.SCHEMA, (table.schema,)).scalar_one_or_none()
            if may_use is None:
                raise GoneError(f'schema "{table.schema}" does not exist', hint=SCHEMA_HINT)
            if not may_use:
                raise DeniedError(
                    f'the user may not use schema "{table.schema}": USAGE is not granted', hint=PRIVILEGE_HINT
                )
            return table
        found: list[str] = list(connection.exec_driver_sql(catalog.SCHEMAS_WITH, (table.name,)).scalars())
        if table.name in CHECKPOINT_TABLES:
            found = [schema for schema in found if schema != CHECKPOINT_SCHEMA]
        if len(found) > 1:
            places = " and ".join(f'"{schema}.{table.name}"' for schema in found)
            raise MismatchError(
                f'table name "{table.name}" is ambiguous: there are {places}',
                hint=f"Name one of them with table_name, such as '{found[0]}.{table.name}'; if rows of the "
                "pipeline are in both, move them into it first.",
            )
        if not found:
            path = connection.exec_driver_sql(catalog.PATH).scalars()
            found = [schema for schema in path if schema != CHECKPOINT_SCHEMA][:1]
        if not found:
            raise DeniedError(
                f'table "{table.name}" has no schema to be created in: the user may not use any schema of its '
                "search path",
                hint="GRANT USAGE, CREATE ON SCHEMA public, or name a schema before the dot in table_name.",
            )
        return replace(table, home=found[0])

    def is_checkpoint(self, table: PhysicalTable) -> bool:
        """Return whether the table is in the checkpoint's schema under one of its names."""
        return table.place == CHECKPOINT_SCHEMA and table.name in CHECKPOINT_TABLES

    def check_rights(self, connection: sa.Connection, table: PhysicalTable) -> None:
        """Check the rights that every write of the table needs; see ``dialect.Dialect``.

        DELETE is not among them: many pipelines never delete a row.
        """
        oid = connection.exec_driver_sql(catalog.OID, (table.name, table.place)).scalar_one()
        names = [column.name for column in table.columns]
        key = [table.column(name).name for name in table.key]
        needed = {"INSERT": names}
        if key:
            needed |= {"SELECT": key, "UPDATE": [name for name in names if name not in key]}
        missing = []
        for right, of in needed.items():
            lacking = connection.exec_driver_sql(
                catalog.LACKING, {"table": oid, "names": of, "right": right}
            ).scalars()
            if columns := list(lacking):
                listed = ", ".join(f'"{name}"' for name in columns)
                missing.append(right if len(columns) == len(of) else f"{right} of column {listed}")
        sequences = connection.exec_driver_sql(
            catalog.LACKING_SEQUENCES, {"table": oid, "names": names}
        ).scalars()
        missing += [f'USAGE of sequence "{name}"' for name in sequences]
        if missing:
            raise DeniedError(
                f'the user may not write to table "{table.label}": {", ".join(missing)} is not granted',
                hint=PRIVILEGE_HINT,
            )

    def check_creation(self, connection: sa.Connection, table: PhysicalTable) -> None:
        """Check for CREATE on the schema; see ``dialect.Dialect``."""
        if not connection.exec_driver_sql(catalog.MAY_CREATE, (table.place,)).scalar_one():
            raise DeniedError(
                f'the user may not create table "{table.label}": CREATE on schema "{table.place}" is not '
                "granted",
                hint=PRIVILEGE_HINT,
            )

    def creating(self, connection: sa.Connection) -> AbstractContextManager[None]:
        """Take the advisory lock under which tables are created, to the end of the transaction."""
        connection.exec_driver_sql("select pg_advisory_xact_lock(%s)", (_CREATION_LOCK,))
        return nullcontext()

    def check_deferred(self, connection: sa.Connection) -> None:
        """Set them immediate."""
        connection.exec_driver_sql("set constraints all immediate")

    def renew_savepoint(self, connection: sa.Connection, name: str) -> None:
        """Do nothing: a failed statement never ends the transaction."""

    def read_at_one_moment(self, connection: sa.Connection) -> None:
        """Read within one snapshot: by default PostgreSQL takes one per statement."""
        connection.exec_driver_sql("set transaction isolation level repeatable read read only")

    def existing(self, connection: sa.Connection, table: PhysicalTable) -> ExistingTable | None:
        """Look a table up in the system catalog."""
        oid = connection.exec_driver_sql(catalog.OID, (table.name, table.place)).scalar_one_or_none()
        if oid is None:
            return None
        columns = connection.exec_driver_sql(catalog.COLUMNS_OF, (oid,)).all()
        unique = connection.exec_driver_sql(catalog.UNIQUE_OF, (oid,)).scalars().all()
        faults = connection.exec_driver_sql(catalog.FAULTS, (oid,)).one()
        deferrable = connection.exec_driver_sql(catalog.DEFERRABLE, (oid,)).scalars().all()
        return ExistingTable(
            [ExistingColumn(*column) for column in columns],
            [frozenset(names) for names in unique],
            bool(connection.exec_driver_sql(catalog.JUDGES, {"table": oid}).scalar_one()),
            faults=[said for said, is_so in zip(catalog.SAID, faults[:3], strict=True) if is_so],
            key_faults=[
                *(said for said, is_so in zip(catalog.SAID_OF_KEYS, faults[3:], strict=True) if is_so),
                *deferrable,
            ],
        )

    def foreign_keys(self, connection: sa.Connection, table: PhysicalTable) -> Iterator[tuple[str, ...]]:
        """Look them up in the system catalog."""
        oid = connection.exec_driver_sql(catalog.OID, (table.name, table.place)).scalar_one()
        return map(tuple, connection.exec_driver_sql(catalog.FOREIGN_KEYS, (oid,)))

    def target(self, existing: str, sql_type: SqlType) -> TargetColumn | None:
        """Read a result of format_type."""
        if existing.startswith(ENUM):
            return TargetColumn(existing) if sql_type.name == "VARCHAR" else None
        if existing.endswith("[]"):
            return self._array_target(existing.removesuffix("[]"), sql_type)
        found = _FORMATTED.fullmatch(existing)
        if found is None:
            return None
        name, digits, scale = found[1] + (found[4] or ""), int(found[2] or 0), int(found[3] or 0)
        if name in _INTEGER_BYTES:
            return target_of("postgresql", sql_type, name, Limit(whole_numbers(_INTEGER_BYTES[name])))
        if name == "numeric" and digits:
            return target_of("postgresql", sql_type, name, Limit((1 - 10**digits, 10**digits - 1), scale))
        if name == "character":
            fits = digits >= (sql_type.precision or 1)
            target = target_of("postgresql", sql_type, name) if fits else None
            return target and replace(target, padded_to=digits)
        if name.startswith("time") and found[2] and digits < _MILLISECOND_DIGITS:
            return None
        limit = Limit(characters=digits) if name == "character varying" and digits else None
        return target_of("postgresql", sql_type, name, Limit(is_uuid=True) if name == "uuid" else limit)

    def _array_target(self, existing: str, sql_type: SqlType) -> TargetColumn | None:
        """Return an array whose elements are of type ``existing``: it must take all elements."""
        if sql_type.element is None:
            return None
        found = self.target(existing, sql_type.element)
        return None if found is None or found.limit is not None else TargetColumn(f"{found.type}[]")

    def taken(self, sql_type: SqlType) -> Sequence[str]:
        """Return the declared ones."""
        if sql_type.element is not None:
            others = TYPES["postgresql"]["ARRAY"].taken[1:]
            return (*(f"{each}[]" for each in self.taken(sql_type.element)), *others)
        return TYPES["postgresql"][sql_type.name].taken

    def insert(
        self, connection: sa.Connection, table: PhysicalTable, columns: PhysicalColumns, *, replace: bool
    ) -> None:
        """Insert through ``unnest``.

        Many rows at once are first tried without ON CONFLICT, which costs the server 40 to 90 % more:
        rows of closed windows never conflict with an existing key. After a conflict in a table, it is
        not tried again there.
        """
        names = quoted(connection, [column for column, _ in columns])
        statement = (
            f"insert into {table_sql(connection, table)} ({', '.join(names)})"
            f" select {', '.join(_written(columns))} from {_unnested(columns)}"
        )
        parameters = _parameters(columns)
        if replace:
            many = len(columns[0][1]) >= TRY_PLAIN_ROWS
            if many and table.label not in self._repeating:
                if _inserted(connection, statement, parameters):
                    return
                self._repeating.add(table.label)
            key = quoted(connection, [table.column(name) for name in table.key])
            statement += on_conflict(names, key)
        connection.exec_driver_sql(statement, parameters)

    def delete(self, connection: sa.Connection, table: PhysicalTable, keys: PhysicalColumns) -> None:
        """Delete through ``unnest``."""
        names = quoted(connection, [column for column, _ in keys])
        same = " and ".join(f"t.{name} = {value}" for name, value in zip(names, _written(keys), strict=True))
        connection.exec_driver_sql(
            f"delete from {table_sql(connection, table)} as t using {_unnested(keys)} where {same}",
            _parameters(keys),
        )

    def unstorable(self, columns: PhysicalColumns) -> Iterator[tuple[int, str]]:
        """PostgreSQL's text cannot contain the character NUL."""
        found = {
            index: f'column "{column.name}" has the character NUL'
            for column, values in reversed(columns)
            for index, value in enumerate(values)
            if isinstance(value, str)
            and ("\x00" in value or (column.type.element is not None and _NUL_IN_JSON.search(value)))
        }
        return iter(sorted(found.items()))

    def rows(
        self, connection: sa.Connection, table: PhysicalTable, *, limit: int | None = None
    ) -> Generator[tuple[object, ...]]:
        """Yield all rows through a cursor on the server's side."""
        names = quoted(connection, table.columns)
        selected = [_selected(column, name) for column, name in zip(table.columns, names, strict=True)]
        wholes = [index for index, column in enumerate(table.columns) if _is_whole_in_numeric(column)]
        with connection.exec_driver_sql(
            limited(f"select {', '.join(selected)} from {table_sql(connection, table)}", limit),
            execution_options={"yield_per": FETCH_ROWS},
        ) as result:
            for row in result:
                values = list(row)
                for index in wholes:
                    values[index] = None if values[index] is None else whole(values[index])
                yield tuple(values)


def is_pooled(connection: Any) -> bool:
    """Return whether a pooler, such as pgbouncer, is between psycopg and the server.

    A pooler numbers its sessions itself, so that the process of the session is another one.
    """
    (process,) = connection.execute("select pg_backend_pid()").fetchone()
    return bool(process != connection.info.backend_pid)


def _inserted(connection: sa.Connection, statement: str, parameters: dict[str, object]) -> bool:
    """Insert; return False, without any change, if one of the keys already exists."""
    savepoint = connection.begin_nested()
    try:
        connection.exec_driver_sql(statement, parameters)
    except sa.exc.IntegrityError as error:
        savepoint.rollback()
        if getattr(error.orig, "sqlstate", None) != UNIQUE_VIOLATION:
            raise
        return False
    savepoint.commit()
    return True


def _selected(column: PhysicalColumn, name: str) -> str:
    """Return the expression that reads a column."""
    if _column_type(column) in _UNCAST or _column_type(column).startswith(ENUM):
        return f"{name}::text"
    if _is_array(column):
        return _array_as_json(column, name)
    if column.type.name == "DECIMAL" or _is_whole_in_numeric(column):
        return f"{name}::numeric"
    return _READ.get(column.type.name, "{0}").format(name)


def _column_type(column: PhysicalColumn) -> str:
    """Return the type of a column in the database; of one that is not looked up, the type of a new column."""
    return TYPES["postgresql"][column.type.name].created if column.target is None else column.target.type


def _is_whole_in_numeric(column: PhysicalColumn) -> bool:
    """Return whether a column of integers may have fractions, which a cast to an integer would round."""
    return (
        column.type.name in ("TINYINT", "SMALLINT", "INTEGER", "BIGINT") and _column_type(column) == "numeric"
    )


def _is_array(column: PhysicalColumn) -> bool:
    """Return whether a column holds arrays of PostgreSQL. An array in a column of another type is text."""
    return column.type.element is not None and _column_type(column).endswith("[]")


def _array_as_json(column: PhysicalColumn, name: str) -> str:
    """Return the expression that reads an array as a JSON array."""
    element = column.type.element
    if element is None or element.name not in ("BINARY", "VARBINARY"):
        return f"array_to_json({name})::text"
    texts = "translate(encode(x, 'base64'), e'\\n', '')"
    return _elements(f"{texts} from unnest({name})", name, "array_to_json(", ")::text")


def _array_of_json(column: PhysicalColumn, given: str) -> str:
    """Return the expression that makes an array of a JSON array."""
    element = column.type.element or SqlType("VARCHAR")
    value = f"x::{Postgres().type_ddl(element)}"
    if element.name in ("BINARY", "VARBINARY"):
        value = "decode(x, 'base64')"
    # Keys are compared without a conversion. The length of CHAR is not in the name of the column's type.
    cast = "" if element.name == "CHAR" or column.target is None else f"::{column.target.type}"
    return _elements(f"{value} from json_array_elements_text({given}::json)", given, "", cast)


def _elements(selected: str, given: str, before: str, after: str) -> str:
    """Return the array of what is selected of the elements of ``given`` in their order; NULL of NULL."""
    found = f"array(select {selected} with ordinality as a(x, i) order by i)"
    return f"case when {given} is not null then {before}{found}{after} end"


def _written(columns: PhysicalColumns) -> list[str]:
    written = []
    for index, (column, _) in enumerate(columns):
        if _is_array(column):
            written.append("(" + _array_of_json(column, f"u.c{index}") + ")")
            continue
        # As text, a character has no spaces at its end, and no index.
        casts = {"character": "::bpchar", **{name: f"::{name}" for name in _UNCAST}}
        held = _column_type(column)
        cast = f"::{held.removeprefix(ENUM)}" if held.startswith(ENUM) else casts.get(held, "")
        written.append("(" + _WRITE.get(column.type.name, "{0}").format(f"u.c{index}") + ")" + cast)
    return written


def _unnested(columns: PhysicalColumns) -> str:
    arrays = [f"%(c{index})s::{_ARRAY[column.type.name]}[]" for index, (column, _) in enumerate(columns)]
    return f"unnest({', '.join(arrays)}) as u({', '.join(f'c{index}' for index in range(len(columns)))})"


def _parameters(columns: PhysicalColumns) -> dict[str, object]:
    """Return the arrays of the columns.

    Raises:
      RowDataError: a number is out of range, or the row is too large; ``chunks`` cuts between rows.
    """
    parameters: dict[str, object] = {}
    for index, (column, values) in enumerate(columns):
        try:
            parameters[f"c{index}"] = array_parameter(_ARRAY[column.type.name], values)
        except OverflowError as error:
            raise RowDataError(f'column "{column.name}": {error}') from error
    texts = [each for each in parameters.values() if isinstance(each, str)]
    # A character has at most four bytes.
    if sum(map(len, texts)) * 4 > LARGEST_ROW_BYTES:
        size = sum(len(text.encode("utf-8", "surrogatepass")) for text in texts)
        if size > LARGEST_ROW_BYTES:
            raise RowDataError(f"the row has {size} bytes, and PostgreSQL takes {LARGEST_ROW_BYTES} at once")
    return parameters
