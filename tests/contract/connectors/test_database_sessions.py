"""Who is refused is reported what to change, and what a session began with does not outlive a failure."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest
import sqlalchemy as sa

from real.postgres import PostgresServer
from rowtide_connectors.api import Database, TableColumn, TargetTable
from rowtide_connectors.errors import DeniedError, MismatchError, OptionError, UnavailableError
from rowtide_connectors.rdbms import CONNECTOR
from rowtide_connectors.rdbms.failures import translated
from rowtide_connectors.rdbms.transaction import sql_connection
from rowtide_connectors.registry import find_sink

ORDERS = TargetTable("ORDERS", (TableColumn("N", "BIGINT"), TableColumn("M", "BIGINT")), ("N",))
postgres = pytest.mark.postgres


def write(database: Database, number: int) -> None:
    with database.begin() as transaction:
        transaction.upsert(ORDERS, {"N": [number], "M": [number]})


@pytest.fixture
def user(postgres_server: PostgresServer, postgres_url: str) -> Iterator[sa.URL]:
    """The address of an empty database, for a user that may do nothing."""
    name = f"u_{uuid.uuid4().hex[:8]}"
    postgres_server.execute(f"create role {name} login password 'right'")
    database = sa.make_url(postgres_url).database
    postgres_server.execute(f'revoke all on database "{database}" from public')
    postgres_server.execute(f'grant connect on database "{database}" to {name}')
    yield sa.make_url(postgres_url).set(username=name)
    postgres_server.execute(f'drop database "{database}" with (force)')
    postgres_server.execute(f"drop role {name}")


def opened(url: sa.URL) -> Database:
    return find_sink("rdbms").open({"url": url.render_as_string(hide_password=False)})


@postgres
@pytest.mark.parametrize("setting", ["default_transaction_read_only = on", "statement_timeout = '1ms'"])
def test_a_setting_that_sessions_began_with_is_gone_when_it_is_reset(
    postgres_server: PostgresServer, postgres_url: str, setting: str
) -> None:
    name = sa.make_url(postgres_url).database
    database = find_sink("rdbms").open({"url": postgres_url})
    database.prepare([ORDERS])
    postgres_server.execute(f'alter database "{name}" set {setting}')
    postgres_server.drop_connections(postgres_url)

    def fails() -> None:
        with database.begin() as transaction:
            sql_connection(transaction).exec_driver_sql("select pg_sleep(0.05)")
            transaction.upsert(ORDERS, {"N": [0], "M": [0]})

    for _ in range(3):
        with pytest.raises(UnavailableError):
            fails()
    postgres_server.execute(f'alter database "{name}" reset {setting.split(maxsplit=1)[0]}')
    write(database, 1)
    with database.begin() as transaction:
        assert list(transaction.rows(ORDERS)) == [(1, 1)]
    database.close()


@postgres
def test_an_unknown_database_is_refused_with_what_to_do(postgres_url: str) -> None:
    with pytest.raises(DeniedError, match="does not exist") as caught:
        opened(sa.make_url(postgres_url).set(database="nosuch")).prepare([ORDERS])
    assert "CREATE DATABASE" in str(caught.value.hint)


@postgres
def test_an_unknown_user_is_refused_with_what_to_do(postgres_url: str) -> None:
    with pytest.raises(DeniedError, match="nosuch") as caught:
        opened(sa.make_url(postgres_url).set(username="nosuch")).prepare([ORDERS])
    assert "username and password" in str(caught.value.hint)


@pytest.mark.parametrize(
    "said",
    [
        'connection failed: FATAL:  password authentication failed for user "app"',
        'connection failed: FATAL:  no pg_hba.conf entry for host "10.0.0.1", user "app", database "d"',
        "connection failed: fe_sendauth: no password supplied",
        'connection failed: FATAL:  Peer authentication failed for user "app"',
    ],
)
def test_what_libpq_says_of_credentials_is_understood(said: str) -> None:
    import psycopg

    error = sa.exc.OperationalError("", {}, psycopg.OperationalError(said))
    found = translated(error, "database")
    assert isinstance(found, DeniedError)
    assert found.hint is not None


@postgres
@pytest.mark.parametrize("key", [(), ("N",)])
def test_each_right_that_is_missing_is_named_before_anything_is_written(
    postgres_url: str, user: sa.URL, key: tuple[str, ...]
) -> None:
    table = TargetTable("ORDERS", ORDERS.columns, key)
    owner, database = find_sink("rdbms").open({"url": postgres_url}), opened(user)

    def execute(statement: str) -> None:
        with owner.begin() as transaction:
            sql_connection(transaction).exec_driver_sql(statement)

    execute("revoke all on schema public from public")
    with pytest.raises(DeniedError, match="no schema to be created in"):
        database.prepare([table])
    with pytest.raises(DeniedError, match="USAGE is not granted"):
        database.prepare([TargetTable("ORDERS", ORDERS.columns, key, {"table_name": "public.orders"})])
    execute(f"grant usage on schema public to {user.username}")
    with pytest.raises(DeniedError, match='CREATE on schema "public" is not granted') as caught:
        database.prepare([table])
    assert "CREATE" in str(caught.value.hint)
    owner.prepare([table])
    needed = ["INSERT", "SELECT", "UPDATE"] if key else ["INSERT"]
    for at, right in enumerate(needed):
        with pytest.raises(DeniedError, match=f"{', '.join(needed[at:])} is not granted"):
            database.prepare([table])
        execute(f"grant {right} on orders to {user.username}")
    database.prepare([table])
    with database.begin() as transaction:
        (transaction.upsert if key else transaction.append)(table, {"N": [1], "M": [2]})
    database.close()
    owner.close()


@postgres
def test_a_database_without_an_encoding_is_refused(postgres_server: PostgresServer) -> None:
    name = f"ascii_{uuid.uuid4().hex[:8]}"
    postgres_server.execute(f"create database {name} encoding 'SQL_ASCII' locale 'C' template template0")
    address = postgres_server.url(name)
    with closing(find_sink("rdbms").open({"url": address})) as database:
        for refused in (lambda: CONNECTOR.check({"url": address}), lambda: database.prepare([ORDERS])):
            with pytest.raises(MismatchError, match="SQL_ASCII") as caught:
                refused()
            assert "UTF8" in str(caught.value.hint)
    postgres_server.execute(f"drop database {name} with (force)")


def no_folder(folder: Path) -> str:
    return f"sqlite:///{folder / 'nosuch' / 'x.db'}"


def no_database(folder: Path) -> str:
    (folder / "x.db").write_bytes(b"something else" * 100)
    return f"sqlite:///{folder / 'x.db'}"


@pytest.mark.parametrize(("make", "kind"), [(no_folder, DeniedError), (no_database, MismatchError)])
def test_a_file_that_cannot_be_the_database_is_refused(
    tmp_path: Path, make: Callable[[Path], str], kind: type[Exception]
) -> None:
    with pytest.raises(kind) as caught:
        find_sink("rdbms").open({"url": make(tmp_path)}).prepare([ORDERS])
    assert getattr(caught.value, "hint", None)


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://app:SECRET@127.0.0.1:1/x",
        "postgresql://app:SEC/SECRET@127.0.0.1:1/x",
        "postgresql://127.0.0.1:1/x?user=app&password=SECRET",
        "postgresql://127.0.0.1:1/x?sslpassword=SECRET&connect_timeout=1",
        "postgresql://app@127.0.0.1:1/x?passfile=/etc/SECRET",
    ],
)
def test_a_secret_of_the_address_is_never_said(url: str) -> None:
    with pytest.raises(UnavailableError) as caught:
        find_sink("rdbms").open({"url": url}).prepare([ORDERS])
    assert "SECRET" not in str(caught.value)
    assert "127.0.0.1" in str(caught.value)


@pytest.mark.parametrize(
    "url", ["mssql+pymssql://h/x?password=SECRET", "oracle://h/x", "postgresq://h/x", "::"]
)
def test_an_address_that_cannot_be_used_is_refused_before_anything_is_opened(url: str) -> None:
    with pytest.raises(OptionError) as caught:
        CONNECTOR.check_options({"url": url})
    assert caught.value.option == "url"
    assert "SECRET" not in f"{caught.value} {caught.value.hint}"
    if not url.startswith(":"):
        assert "postgresql, mariadb, mysql, sqlite" in str(caught.value.hint)
