"""The rdbms connector and its options. SQLAlchemy is imported only when something is opened."""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from rowtide_connectors.api import (
    Database,
    Guarantee,
    MessageSinkConnector,
    Option,
    PolledConnector,
    PolledTable,
    SinkConnector,
    SourceConnector,
    TargetTable,
)
from rowtide_connectors.errors import OptionError
from rowtide_connectors.options import ConnectorOptions, read_options

if TYPE_CHECKING:
    from rowtide_connectors.rdbms.database import SqlDatabase

OWNER = 'connector "rdbms"'

KINDS = ("postgresql", "mariadb", "mysql", "sqlite")
"""The supported databases: the first word of an address, before ``+`` or ``://``."""
_KIND = re.compile(r"(\w+)(?:\+\w+)?://")

SERVER_OPTIONS = (
    Option(
        "url",
        str,
        "URL of the database, in SQLAlchemy's form: postgresql://host/name, mariadb://host/name, mysql://host/name or "
        "sqlite:///file.db",
        "server",
        required=True,
        secret=True,
    ),
    Option("username", str, "user, instead of the one in the url", "server"),
    Option("password", str, "password, instead of the one in the url", "server", secret=True),
    Option("connect_timeout_s", int, "time limit of a connection attempt, in seconds", "server", default=10),
    Option(
        "lock_timeout_s",
        int,
        "time to wait for a lock of another transaction before the commit is retried, in seconds",
        "server",
        default=30,
    ),
)
TABLE_OPTIONS = (
    Option(
        "table_name",
        str,
        "name of the table in the database, with its schema before a dot; default: the SQL name",
        "table",
    ),
)
POLLED_OPTIONS = (
    Option(
        "table_name",
        str,
        "name of the table or view to read, with its schema before a dot; default: the SQL name",
        "polled table",
    ),
    Option(
        "changes_by",
        str,
        "column with the time of the last change of a row, or a number that grows with every change: a poll "
        "reads only rows with the greatest value so far or a later one; without it, a poll compares all rows",
        "polled table",
    ),
    Option(
        "lookback",
        int,
        "how far before the greatest value of changes_by a poll begins, because transactions commit late: "
        "seconds if it is a time, else a number",
        "polled table",
        default=60,
        changeable=True,
    ),
)
OPTIONS = SERVER_OPTIONS + TABLE_OPTIONS + POLLED_OPTIONS


class RdbmsTables:
    """Tables that are written in the transaction that holds the positions; see ``api.SinkConnector``."""

    options: Sequence[Option] = TABLE_OPTIONS
    guarantee = Guarantee.IN_COMMIT

    def check_options(self, table: Mapping[str, str]) -> None:
        """Read options against their declarations."""
        read_options(OWNER, OPTIONS, "table", table)

    def open(self, server: Mapping[str, str]) -> Database:
        """Return the database; it connects at its first use."""
        return _opened(server)


class RdbmsPolled:
    """Tables that are read again and again; see ``api.PolledConnector``."""

    options: Sequence[Option] = POLLED_OPTIONS
    guarantee = Guarantee.LOGGED

    def check_options(self, table: Mapping[str, str]) -> None:
        """Read options against their declarations."""
        _read_polled(table)

    def open(self, server: Mapping[str, str], table: TargetTable) -> PolledTable:
        """Return a table; it connects at its first use."""
        from rowtide_connectors.rdbms.address import address_of
        from rowtide_connectors.rdbms.reading.table import ReadOptions, SqlPolledTable

        own, options = _read_polled(table.options), read_options(OWNER, OPTIONS, "server", server)
        url = options.get("url", str)
        refuse_unknown_kind(url)
        address = address_of(url, options.optional("username", str), options.optional("password", str))
        return SqlPolledTable(
            address,
            table,
            ReadOptions(
                own.optional("changes_by", str),
                own.get("lookback", int),
                options.get("connect_timeout_s", int),
            ),
        )


def _read_polled(table: Mapping[str, str]) -> ConnectorOptions:
    """Read the options of a table to poll.

    Raises:
      OptionError: as ``read_options``; or ``lookback`` is below zero.
    """
    options = read_options(OWNER, OPTIONS, "polled table", table)
    if options.get("lookback", int) < 0:
        raise OptionError(
            f'option "lookback" of {OWNER} is below zero', hint="It must be at least 0.", option="lookback"
        )
    return options


class RdbmsConnector:
    """Writes tables of databases, and reads tables again and again."""

    name = "rdbms"
    description = "tables of PostgreSQL, MariaDB, MySQL and SQLite"
    options: Sequence[Option] = SERVER_OPTIONS
    client_options: str | None = None
    source: SourceConnector | None = None
    sink: SinkConnector | None = RdbmsTables()
    polled: PolledConnector | None = RdbmsPolled()
    message_sink: MessageSinkConnector | None = None

    def check_options(self, server: Mapping[str, str]) -> None:
        """Read options against their declarations, and the kind of database from its address."""
        options = read_options(OWNER, OPTIONS, "server", server)
        refuse_unknown_kind(options.get("url", str))

    def check(self, server: Mapping[str, str]) -> str:
        """Connect and query the version; return one line that describes the server."""
        database = _opened(server)
        try:
            return database.describe()
        finally:
            database.close()


def refuse_unknown_kind(url: str) -> None:
    """Reject the address of a database that is not supported.

    Raises:
      OptionError: names the supported kinds.
    """
    found = _KIND.match(url)
    if found is None:
        raise OptionError(
            'option "url" is not the address of a database',
            hint="Write postgresql://user@host/name, mariadb://user@host/name or sqlite:///file.db.",
            option="url",
        )
    if found[1] not in KINDS:
        raise OptionError(
            f'database "{found[1]}" is not supported', hint=f"Available: {', '.join(KINDS)}.", option="url"
        )
    if found[1] in ("mariadb", "mysql") and importlib.util.find_spec("pymysql") is None:
        raise OptionError(
            f'database "{found[1]}" needs PyMySQL, which is not installed',
            hint='Install it: pip install "rowtide[mysql]".',
            option="url",
        )


def _opened(server: Mapping[str, str]) -> SqlDatabase:
    from rowtide_connectors.rdbms.database import open_database

    options = read_options(OWNER, OPTIONS, "server", server)
    refuse_unknown_kind(options.get("url", str))
    return open_database(
        options.get("url", str),
        username=options.optional("username", str),
        password=options.optional("password", str),
        connect_timeout_s=options.get("connect_timeout_s", int),
        lock_timeout_s=options.get("lock_timeout_s", int),
    )
